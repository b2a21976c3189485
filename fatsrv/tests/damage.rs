//! Damaged volumes: clear errors in bounded time, nothing freed twice, nobody else's bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "common/image.rs"]
mod image;
#[path = "common/volume.rs"]
mod volume;

use image::{Image, dir, file, pattern};
use seawall_diskfs::{FsError, Kind, Refused};
use volume::{Mem, in_memory};

#[track_caller]
fn corrupt<T: std::fmt::Debug>(result: Result<T, FsError>) -> String {
    match result.unwrap_err() {
        FsError::Corrupt(c) => c.to_string(),
        e => panic!("{e}"),
    }
}

fn fat_entry(image: &Image, bytes: &[u8], cluster: u32) -> u16 {
    let at = image.entry_at(0, cluster);
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn looped() -> Image {
    let mut image = Image::new(16, 5000);
    image.put_at(&[10, 11, 12], &pattern(1, 1536));
    image.fat.insert(12, 12);
    image.put_at(&[20, 21, 22], &pattern(2, 1536));
    image.fat.insert(22, 21);
    image.put_at(&[30, 31, 32], &pattern(3, 1536));
    image.fat.insert(32, 30);
    image.put_at(&[40], b"hello, world\n");
    image.root(&[
        &file("SELF.BIN", 10, 1 << 20),
        &file("TWO.BIN", 20, 1 << 20),
        &file("START.BIN", 30, 1 << 20),
        &file("GOOD.TXT", 40, 13),
    ]);
    image
}

#[test]
fn a_chain_that_loops_gives_its_true_clusters_at_most() {
    let mut v = in_memory(looped().bytes(), "default");
    assert_eq!(v.read("/GOOD.TXT", 0, 99).unwrap(), b"hello, world\n");
    for (n, name) in [(1, "/SELF.BIN"), (2, "/TWO.BIN"), (3, "/START.BIN")] {
        let ino = v.stat(name).unwrap().ino;
        let h = v.open_any(ino).unwrap();
        let mut got = Vec::new();
        let e = loop {
            match v.read_handle(h, got.len() as u64, 512) {
                Ok(part) if part.is_empty() => panic!("{name} ended"),
                Ok(part) => got.extend(part),
                Err(e) => break e,
            }
        };
        assert!(matches!(e, FsError::Corrupt(_)), "{e}");
        assert_eq!(got, pattern(n, 1536), "{name}");
        assert!(corrupt(v.read(name, 0, 1 << 20)).contains("returns from cluster"));
        assert!(corrupt(v.write(name, 1 << 20, b"x")).contains("returns from cluster"));
    }
}

#[test]
fn what_loops_is_freed_once() {
    let image = looped();
    let mut v = in_memory(image.bytes(), "default");
    for name in ["/SELF.BIN", "/TWO.BIN", "/START.BIN"] {
        v.unlink(name).unwrap();
    }
    v.settle().unwrap();
    let bytes = v.host.dev.into_inner().data;
    for c in [10, 11, 12, 20, 21, 22, 30, 31, 32] {
        assert_eq!(fat_entry(&image, &bytes, c), 0, "cluster {c}");
    }
    assert_eq!(fat_entry(&image, &bytes, 40), 0xFFFF);
}

/// Every path that a walk from the root reaches.
fn walk(v: &mut Mem, path: &str, depth: u32, seen: &mut Vec<String>) {
    assert!(depth < 8, "the walk goes on for ever: {path}");
    let Ok(list) = v.list(path) else {
        seen.push(format!("{path}: unreadable"));
        return;
    };
    for (name, _, kind) in list {
        let path = format!("{path}/{name}");
        seen.push(path.clone());
        if kind == Some(Kind::Dir) {
            walk(v, &path, depth + 1, seen);
        }
    }
}

#[test]
fn directories_that_contain_themselves_or_their_parents_end() {
    let mut image = Image::new(16, 5000);
    let names: Vec<u8> = (0..14).flat_map(|n| file(&format!("F{n:07}.X"), 0, 0)).collect();
    // Full, so that no slot ends it, and its chain loops.
    image.put_dir_at(50, 0, &names);
    image.fat.insert(50, 50);
    image.put_at(&[40], b"hello, world\n");
    image.put_dir_at(60, 0, &[dir("UP", 60), file("ME.TXT", 40, 13)].concat());
    image.put_dir_at(70, 0, &dir("KID", 71));
    image.put_dir_at(71, 70, &dir("GRAN", 70));
    image.put_dir_at(80, 0, &dir("TOP", 0));
    let dirs = [dir("LOOPDIR", 50), dir("SELFDIR", 60), dir("CYCLE", 70), dir("ROOTED", 80)];
    image.root(&[&dirs.concat(), &file("GOOD.TXT", 40, 13)]);
    let mut v = in_memory(image.bytes(), "default");
    let mut seen = Vec::new();
    walk(&mut v, "", 0, &mut seen);
    assert!(seen.contains(&"/SELFDIR/ME.TXT".to_string()), "{seen:?}");
    assert!(seen.contains(&"/CYCLE/KID/GRAN".to_string()));
    assert!(corrupt(v.stat("/SELFDIR/UP")).contains("another parent"));
    assert!(corrupt(v.stat("/CYCLE/KID/GRAN")).contains("another parent"));
    assert!(corrupt(v.stat("/ROOTED/TOP")).contains("begins at cluster 0"));
    assert!(corrupt(v.list("/LOOPDIR")).contains("returns from cluster 50"));
    assert!(corrupt(v.create("/LOOPDIR/new")).contains("returns from cluster 50"));
    assert_eq!(v.read("/GOOD.TXT", 0, 99).unwrap(), b"hello, world\n");
}

#[test]
fn a_size_and_a_chain_that_disagree() {
    let mut image = Image::new(16, 5000);
    image.put_at(&[10, 11], &pattern(1, 1024));
    image.put_at(&[12], &b"neighbour's secret data ".repeat(20));
    image.put_at(&[20, 21, 22, 23], &pattern(2, 2048));
    image.fat.insert(30, 0xFFFF);
    image.root(&[
        &file("EMPTY.TXT", 0, 0),
        &file("TOOBIG.BIN", 10, 5000),
        &file("TOOSMALL.BIN", 20, 700),
        &file("NOCHAIN.BIN", 0, 4000),
        &file("EMPTYCL.BIN", 30, 0),
        &file("SECRET.TXT", 12, 480),
    ]);
    let mut v = in_memory(image.bytes(), "default");
    assert_eq!(v.read("/EMPTY.TXT", 0, 99).unwrap(), b"");
    assert_eq!(v.read("/TOOSMALL.BIN", 0, 9999).unwrap(), pattern(2, 2048)[..700]);
    assert_eq!(v.read("/TOOBIG.BIN", 0, 1024).unwrap(), pattern(1, 1024));
    assert!(corrupt(v.read("/TOOBIG.BIN", 0, 9999)).contains("5000 bytes"));
    assert!(corrupt(v.read("/TOOBIG.BIN", 1024, 1)).contains("5000 bytes"));
    assert!(corrupt(v.write("/TOOBIG.BIN", 2000, b"x")).contains("5000 bytes"));
    assert!(corrupt(v.read("/NOCHAIN.BIN", 0, 9999)).contains("4000 bytes"));
    assert_eq!(v.read("/EMPTYCL.BIN", 0, 99).unwrap(), b"");
    for name in ["/EMPTYCL.BIN", "/TOOSMALL.BIN", "/TOOBIG.BIN", "/NOCHAIN.BIN"] {
        v.unlink(name).unwrap();
    }
    v.settle().unwrap();
    let bytes = v.host.dev.into_inner().data;
    for c in [10, 11, 20, 21, 22, 23, 30] {
        assert_eq!(fat_entry(&image, &bytes, c), 0, "cluster {c}");
    }
    assert_eq!(fat_entry(&image, &bytes, 12), 0xFFFF);
}

#[test]
fn clusters_that_are_none() {
    let mut image = Image::new(16, 5000);
    image.put_at(&[10, 11], &pattern(1, 1024));
    image.fat.insert(11, 5002);
    image.put_at(&[20, 21], &pattern(1, 1024));
    image.fat.insert(21, 1);
    image.put_at(&[30, 31], &pattern(1, 1024));
    image.fat.insert(31, 0xFFF7);
    image.put_at(&[40, 41], &pattern(1, 1024));
    image.fat.insert(41, 0);
    image.root(&[
        &file("FAR.BIN", 10, 1536),
        &file("ONE.BIN", 20, 1536),
        &file("BAD.BIN", 30, 1536),
        &file("FREE.BIN", 40, 1536),
        &file("START.BIN", 60_000, 100),
        &dir("DIR", 60_000),
        &file("GOOD.TXT", 0, 0),
    ]);
    let mut v = in_memory(image.bytes(), "default");
    let says = [
        ("/FAR.BIN", "entry of cluster 11 is 0x138a"),
        ("/ONE.BIN", "entry of cluster 21 is 0x1"),
        ("/BAD.BIN", "cluster 31, which is bad"),
        ("/FREE.BIN", "cluster 41, which is free"),
        ("/START.BIN", "begins at cluster 60000"),
    ];
    for (name, what) in says {
        let said = corrupt(v.read(name, 0, 1536));
        assert!(said.contains(what), "{name}: {said}");
    }
    assert!(corrupt(v.stat("/DIR")).contains("begins at cluster 60000"));
    assert_eq!(v.list("").unwrap().len(), 7, "damage hides no name");
    assert_eq!(v.read("/GOOD.TXT", 0, 9).unwrap(), b"");
    assert_eq!(v.stat("/none").unwrap_err(), FsError::from(Refused::NotFound));
}
