//! An error in the middle of an operation: a read that fails, a volume that is full, a write that
//! fails later. Nothing is half done.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/reader.rs"]
mod reader;

use common::{Mem, Res, assert_clean, in_memory, mkfs_fat};
use reader::look;
use seawall_diskfs::{FsError, Refused};
use seawall_tests::{Scratch, pattern};

type Op = fn(&mut Mem) -> Res<()>;

const OPS: [(&str, Op); 10] = [
    ("create", |v| v.create("/dir/a new name that is long enough").map(|_| ())),
    ("mkdir", |v| v.mkdir("/dir/new directory").map(|_| ())),
    ("rename", |v| v.rename("/dir/b", "/other/another name for it")),
    ("rename over", |v| v.rename("/dir/b", "/dir/a")),
    ("rename a directory", |v| v.rename("/dir/sub", "/other/sub")),
    ("unlink", |v| v.unlink("/dir/a")),
    ("rmdir", |v| v.rmdir("/empty")),
    ("truncate", |v| v.truncate("/dir/a", 700)),
    ("truncate to nothing", |v| v.truncate("/dir/a", 0)),
    ("write", |v| v.write("/dir/a", 4990, &[1; 3000])),
];

const SHAPES: [(u64, &[&str]); 3] = [
    (400 << 10, &["-F", "12", "-s", "1", "-r", "64"]),
    (2600 << 10, &["-F", "16", "-s", "1"]),
    (600 << 10, &["-F", "32", "-s", "1"]),
];

fn base(size: u64, args: &[&str]) -> Vec<u8> {
    let dir = Scratch::new();
    let path = dir.join("image");
    mkfs_fat(&path, size, args);
    let mut v = in_memory(std::fs::read(path).unwrap(), "default");
    for d in ["/dir", "/other", "/empty", "/dir/sub"] {
        v.mkdir(d).unwrap();
    }
    for i in 0..13 {
        v.create(&format!("/dir/filling {i}")).unwrap();
    }
    for (p, n) in [("/dir/a", 5000), ("/dir/b", 3000), ("/dir/sub/inner", 700)] {
        v.create(p).unwrap();
        v.write(p, 0, &pattern(n, n as u64)).unwrap();
    }
    v.settle().unwrap();
    std::mem::take(&mut v.host.dev.get_mut().data)
}

/// Paths, sizes and contents, as the other reader sees them. Nothing may be wrong.
fn tree(b: &[u8], what: &str) -> Vec<(String, usize, Vec<u8>)> {
    let seen = look(b);
    assert!(seen.problems.is_empty(), "{what}: {:?}", seen.problems);
    let mut t: Vec<_> = seen
        .entries
        .into_iter()
        .map(|e| (e.path, e.size, if e.dir { Vec::new() } else { e.data }))
        .collect();
    t.sort();
    t
}

fn fsck(b: &[u8], what: &str) {
    let dir = Scratch::new();
    let path = dir.join("image");
    std::fs::write(&path, b).unwrap();
    println!("{what}");
    assert_clean(&path);
}

#[test]
fn an_operation_that_cannot_read_has_not_happened() {
    for (size, args) in SHAPES {
        let base = base(size, args);
        let before = tree(&base, "before");
        for (name, op) in OPS {
            let mut failures = 0;
            for n in 0.. {
                let what = format!("FAT{} {name}, read {n}", args[1]);
                let mut v = in_memory(base.clone(), "default");
                v.host.dev.get_mut().faults.read = Some(n);
                let got = op(&mut v);
                let struck = v.host.dev.get_mut().faults.read.is_none();
                v.host.dev.get_mut().faults.read = None;
                if got.is_err() {
                    failures += 1;
                    assert!(matches!(got, Err(FsError::Io(_))), "{what}: {got:?}");
                    v.settle().unwrap();
                    let data = &v.host.dev.get_mut().data;
                    assert!(tree(data, &what) == before, "{what}: half done");
                    fsck(data, &what);
                    // And it works when the medium does.
                    op(&mut v).unwrap();
                }
                v.settle().unwrap();
                let data = &v.host.dev.get_mut().data;
                assert!(tree(data, &what) != before, "{what}: nothing done");
                if !struck {
                    break;
                }
            }
            // A run of blocks that cannot be read is tried again block by block: not every fault is
            // one that an operation hears of.
            println!("FAT{} {name}: {failures} failures", args[1]);
        }
    }
}

#[test]
fn a_failed_write_is_written_again() {
    for (size, args) in SHAPES {
        let base = base(size, args);
        for (name, op) in OPS {
            let done = {
                let mut v = in_memory(base.clone(), "default");
                op(&mut v).unwrap();
                v.settle().unwrap();
                tree(&v.host.dev.get_mut().data, name)
            };
            for n in 0.. {
                let what = format!("FAT{} {name}, write {n}", args[1]);
                let mut v = in_memory(base.clone(), "default");
                v.host.dev.get_mut().faults.write = Some(n);
                // The first change marks the volume: a failure there is the operation's.
                let first = op(&mut v).and_then(|()| v.settle());
                if v.host.dev.get_mut().faults.write.is_some() {
                    break;
                }
                assert!(first.is_err(), "{what}: nobody heard of it");
                if tree_of(&mut v, &what) != done {
                    op(&mut v).unwrap();
                    v.settle().unwrap();
                }
                let data = &v.host.dev.get_mut().data;
                assert!(tree(data, &what) == done, "{what}: something is missing");
                fsck(data, &what);
            }
        }
    }
}

fn tree_of(v: &mut Mem, what: &str) -> Vec<(String, usize, Vec<u8>)> {
    v.settle().unwrap();
    tree(&v.host.dev.get_mut().data, what)
}

#[test]
fn a_full_volume_loses_nothing() {
    for (size, args) in SHAPES {
        let base = base(size, args);
        for left in 0..4u64 {
            let what = format!("FAT{} with {left} clusters", args[1]);
            let mut v = in_memory(base.clone(), "default");
            v.create("/other/full").unwrap();
            let free = v.statfs().0;
            v.write("/other/full", 0, &vec![9; ((free - left) * 512) as usize]).unwrap();
            assert_eq!(v.statfs().0, left);
            v.settle().unwrap();
            for (name, op) in OPS {
                let before = tree(&v.host.dev.get_mut().data.clone(), &what);
                let got = op(&mut v);
                v.settle().unwrap();
                let data = v.host.dev.get_mut().data.clone();
                match got {
                    Ok(()) => {}
                    // An operation before it took the name away.
                    Err(FsError::Refused(Refused::NotFound)) => {}
                    Err(FsError::Refused(Refused::NoSpace)) => {
                        assert!(tree(&data, &what) == before, "{what}, {name}: half done");
                    }
                    Err(e) => panic!("{what}, {name}: {e:?}"),
                }
                fsck(&data, &what);
            }
            v.unlink("/other/full").unwrap();
            v.settle().unwrap();
            tree(&v.host.dev.get_mut().data, &what);
        }
    }
}
