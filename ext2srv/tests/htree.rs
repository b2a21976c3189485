//! Indexed directories: made, searched, split and kept right, in the judgement of e2fsck (which
//! checks the range of hashes of every block) and of the kernel (which finds every name by
//! look-up).

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{Plain, TIME, Vol, plain};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, FsError, Ino, NewNode, Refused};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{LoopMount, Scratch, assert_clean, debugfs, debugfs_write, mke2fs, run, tool};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn image(dir: &Scratch, bs: &str, size: u64, fields: &[&str]) -> std::path::PathBuf {
    let path = dir.join("image");
    mke2fs(&path, size, &["-b", bs, "-I", "128", "-N", "9000", "-m", "0"]);
    for f in fields {
        debugfs_write(&path, &format!("ssv {f}"));
    }
    path
}

fn indexed(image: &Path, path: &str) -> bool {
    let stat = debugfs(image, &format!("stat {path}"));
    let flags = stat.split("Flags: 0x").nth(1).unwrap();
    let flags = u32::from_str_radix(flags.split_whitespace().next().unwrap(), 16).unwrap();
    flags & 0x1000 != 0
}

/// Names of many lengths, some with bytes above 127.
fn name(i: u32) -> String {
    let tail = ["", "\u{e9}t\u{e9}", "-longer-than-one-round-of-any-hash-is", "x"][i as usize % 4];
    format!("name{i}{}{tail}", "=".repeat((i % 23) as usize))
}

fn make(v: &mut Plain, dir: &str, names: impl Iterator<Item = String>) {
    let at = v.stat(dir).unwrap().ino;
    let ctx = v.ctx.clone();
    for n in names {
        let node = NewNode::File;
        v.run(|fs, t| fs.create(&ctx, at, n.as_bytes(), node, 0o644, t)).unwrap();
    }
}

fn listed(v: &mut Plain, dir: &str) -> BTreeSet<String> {
    let list = v.list(dir).unwrap();
    let set: BTreeSet<String> = list.iter().map(|e| e.0.clone()).collect();
    assert_eq!(set.len(), list.len(), "a name twice");
    set
}

fn kernel_finds(image: &Path, dir: &str, names: &BTreeSet<String>) {
    let mount = LoopMount::ro(image);
    let at = mount.path().join(dir);
    for n in names {
        let path = at.join(OsStr::from_bytes(n.as_bytes()));
        assert!(path.symlink_metadata().is_ok(), "{n}");
    }
    assert!(at.join("absent").symlink_metadata().is_err());
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), names.len());
    mount.unmount();
}

#[test]
fn every_hash_is_kept_right() {
    let cases = [
        ("1024", "half_md4", "1"),
        ("4096", "half_md4", "2"),
        ("4096", "tea", "1"),
        ("1024", "tea", "2"),
        ("1024", "legacy", "1"),
        ("4096", "legacy", "2"),
    ];
    for (bs, hash, sign) in cases {
        let dir = Scratch::new();
        let fields = [format!("def_hash_version {hash}"), format!("flags {sign}")];
        let image = image(&dir, bs, 16 << 20, &[&fields[0], &fields[1]]);
        let mut v = plain(&image, "default");
        v.mkdir("/many").unwrap();
        make(&mut v, "/many", (0..1200).map(name));
        let mut names: BTreeSet<String> = (0..1200).map(name).collect();
        v.unmount();
        assert_clean(&image);
        assert!(indexed(&image, "/many") && !indexed(&image, "/lost+found"), "{bs} {hash} {sign}");
        kernel_finds(&image, "many", &names);

        let mut v = plain(&image, "default");
        for i in (0..1200).step_by(3) {
            v.unlink(&format!("/many/{}", name(i))).unwrap();
            names.remove(&name(i));
        }
        for i in (1..1200).step_by(30) {
            let to = format!("moved-{}", name(i));
            v.rename(&format!("/many/{}", name(i)), &format!("/many/{to}")).unwrap();
            names.remove(&name(i));
            names.insert(to);
        }
        make(&mut v, "/many", (2000..2300).map(name));
        names.extend((2000..2300).map(name));
        assert_eq!(listed(&mut v, "/many"), names);
        for n in &names {
            v.stat(&format!("/many/{n}")).unwrap();
        }
        let absent = v.stat(&format!("/many/{}", name(3))).unwrap_err();
        assert_eq!(absent, FsError::Refused(Refused::NotFound));
        v.unmount();
        assert_clean(&image);
        assert!(indexed(&image, "/many"));
        kernel_finds(&image, "many", &names);
    }
}

#[test]
fn a_tree_of_the_kernel_is_changed_and_changed_again_by_it() {
    let dir = Scratch::new();
    let image = image(&dir, "1024", 16 << 20, &[]);
    let mount = LoopMount::rw(&image);
    std::fs::create_dir(mount.path().join("many")).unwrap();
    for i in 0..1500 {
        std::fs::File::create(mount.path().join("many").join(name(i))).unwrap();
    }
    mount.unmount();
    assert!(indexed(&image, "/many"));
    let mut v = plain(&image, "default");
    for i in 0..1500 {
        v.stat(&format!("/many/{}", name(i))).unwrap();
    }
    for i in 0..700 {
        v.unlink(&format!("/many/{}", name(i))).unwrap();
    }
    make(&mut v, "/many", (3000..4000).map(name));
    v.unmount();
    assert_clean(&image);
    assert!(indexed(&image, "/many"));
    let mount = LoopMount::rw(&image);
    for i in (700..1500).chain(3000..4000) {
        std::fs::remove_file(mount.path().join("many").join(name(i))).unwrap();
    }
    std::fs::remove_dir(mount.path().join("many")).unwrap();
    mount.unmount();
    assert_clean(&image);
}

fn long(i: u32) -> String {
    format!("{i:0255}")
}

#[test]
fn two_levels_and_what_comes_when_they_are_full() {
    let dir = Scratch::new();
    let path = dir.join("image");
    mke2fs(&path, 48 << 20, &["-b", "1024", "-I", "128", "-N", "600", "-m", "0"]);
    let mut v = plain(&path, "default");
    v.mkdir("/many").unwrap();
    v.create("/file").unwrap();
    let at = v.stat("/many").unwrap().ino;
    let ino = v.stat("/file").unwrap().ino;
    let ctx = v.ctx.clone();
    // A file has at most 32,000 names, so there are two.
    v.create("/other").unwrap();
    let other = v.stat("/other").unwrap().ino;
    let link = |v: &mut Plain, i: u32| {
        let of = if i < 30_000 { ino } else { other };
        v.run(|fs, t| fs.link(&ctx, of, at, long(i).as_bytes(), t)).unwrap();
    };
    for i in 0..2000 {
        link(&mut v, i);
    }
    v.sync().unwrap();
    assert_clean_but_mounted(&path, &dir);
    // It complains of missing checksums, whatever the volume has.
    let dump = run(tool("debugfs").args(["-R", "htree_dump /many"]).arg(&path)).stdout;
    assert!(dump.contains("Indirect levels: 1"));
    // 124 x 127 leaves of at most 3 names: the tree is full before 45,000.
    let mut n = 2000;
    while indexed_now(&mut v, at) {
        link(&mut v, n);
        n += 1;
        assert!(n < 45_000);
    }
    assert!(n > 20_000, "{n} names only");
    for i in n..n + 20 {
        link(&mut v, i);
    }
    for i in (0..n + 20).step_by(97) {
        let found = v.lookup_in(at, long(i).as_bytes()).unwrap();
        assert_eq!(found.ino, if i < 30_000 { ino } else { other });
    }
    v.unmount();
    assert!(!indexed(&path, "/many"));
    assert_clean(&path);
}

/// The engine's own view: such a directory is listed by hash, and its cookies say so.
fn indexed_now(v: &mut Plain, dir: Ino) -> bool {
    let ctx = v.ctx.clone();
    let part = v.run(|fs, t| fs.readdir(&ctx, dir, 0, 1, 4096, false, t)).unwrap();
    part[0].0.next > u64::from(u32::MAX)
}

/// A synced volume differs from a clean one in its mark and in counts.
fn assert_clean_but_mounted(image: &Path, dir: &Scratch) {
    let copy = dir.join("copy");
    std::fs::copy(image, &copy).unwrap();
    let seen = run(tool("e2fsck").arg("-fy").arg(&copy));
    assert!(!seen.stdout.contains("HTREE") && !seen.stdout.contains("Pass 3A"), "{seen}");
}

/// Names with one legacy hash, 0x520a094e: in blocks of 1 KiB three of them fill a leaf.
fn same_hash() -> Vec<String> {
    let tails = [
        "aaaaaa", "agcgVp", "bfFufZ", "c3jJXN", "c74fvU", "cHM6Rn", "dzHzHl", "ePoyg0", "gmGw6j",
        "gVXfce", "kFs-zd", "lByqN-",
    ];
    tails.iter().map(|t| format!("{}{t}", "p".repeat(249))).collect()
}

#[test]
fn names_with_one_hash_go_on_in_the_next_block() {
    let dir = Scratch::new();
    let image = image(&dir, "1024", 8 << 20, &["def_hash_version legacy"]);
    let mut v = plain(&image, "default");
    v.mkdir("/many").unwrap();
    let mut names = BTreeSet::new();
    for (i, same) in same_hash().into_iter().enumerate() {
        make(&mut v, "/many", [same.clone()].into_iter());
        make(&mut v, "/many", (0..4).map(|k| long(i as u32 * 4 + k)));
        names.insert(same);
        names.extend((0..4).map(|k| long(i as u32 * 4 + k)));
    }
    assert_eq!(listed(&mut v, "/many"), names);
    for n in &names {
        v.stat(&format!("/many/{n}")).unwrap();
    }
    v.unmount();
    assert_clean(&image);
    kernel_finds(&image, "many", &names);
    let mut v = plain(&image, "default");
    for n in &names {
        v.unlink(&format!("/many/{n}")).unwrap();
    }
    v.rmdir("/many").unwrap();
    v.unmount();
    assert_clean(&image);
}

#[test]
fn a_listing_shows_each_old_name_once_while_names_come() {
    for bs in ["1024", "4096"] {
        let dir = Scratch::new();
        let image = image(&dir, bs, 16 << 20, &[]);
        for old in [20, 150, 600] {
            let mut v = plain(&image, "default");
            let d = format!("/d{old}");
            v.mkdir(&d).unwrap();
            make(&mut v, &d, (0..old).map(name));
            let at = v.stat(&d).unwrap().ino;
            let ctx = v.ctx.clone();
            let (mut cookie, mut seen, mut new) = (0, Vec::new(), 5000);
            loop {
                let part = v.run(|fs, t| fs.readdir(&ctx, at, cookie, 9, 4096, false, t)).unwrap();
                let Some((last, _)) = part.last() else { break };
                cookie = last.next;
                seen.extend(part.into_iter().map(|(e, _)| e.name));
                if new < 7000 {
                    make(&mut v, &d, (new..new + 40).map(name));
                    new += 40;
                }
            }
            for i in 0..old {
                let times = seen.iter().filter(|n| **n == name(i).as_bytes()).count();
                assert_eq!(times, 1, "{} of {old} with {bs}", name(i));
            }
            v.unmount();
            assert_clean(&image);
        }
    }
}

#[test]
fn a_damaged_tree_is_read_past_and_never_changed() {
    // Byte of the root block, new value: limit, count, first child, levels, header.
    for (at, value) in [(32, 9), (34, 255), (36, 200), (30, 3), (29, 7), (24, 1)] {
        let dir = Scratch::new();
        let image = image(&dir, "1024", 8 << 20, &[]);
        let mut v = plain(&image, "default");
        v.mkdir("/many").unwrap();
        make(&mut v, "/many", (0..200).map(name));
        make(&mut v, "/", (0..3).map(name));
        v.unmount();
        let root: u64 = debugfs(&image, "bmap /many 0").trim().parse().unwrap();
        let mut bytes = std::fs::read(&image).unwrap();
        bytes[root as usize * 1024 + at] = value;
        std::fs::write(&image, &bytes).unwrap();

        let mut v = plain(&image, "default");
        for i in 0..200 {
            v.stat(&format!("/many/{}", name(i))).unwrap();
        }
        assert_eq!(listed(&mut v, "/many").len(), 200);
        // What the way to a name meets depends on the name; the first child is on few ways.
        let all = if at == 36 { 0 } else { 200 };
        let mut refused = 0;
        for i in 0..200 {
            match v.unlink(&format!("/many/{}", name(i))) {
                Err(FsError::Corrupt(c)) => {
                    assert_eq!((c.site, c.block), ("directory index", root));
                    refused += 1;
                    let new = v.create(&format!("/many/{}", name(i).replace("name", "n")));
                    assert!(all == 0 || matches!(new, Err(FsError::Corrupt(_))), "{new:?}");
                }
                other => assert!(other.is_ok() && all == 0, "{other:?}"),
            }
        }
        assert!(refused > 0 && refused >= all, "{refused} refused with byte {at}");
        v.unlink(&format!("/{}", name(0))).unwrap();
        v.unmount();
        let seen = run(tool("e2fsck").arg("-fy").arg(&image));
        assert!(seen.code() == 1, "{seen}");
        assert_clean(&image);
    }
}

#[test]
fn an_unknown_hash_is_read_past_and_loses_its_flag() {
    let dir = Scratch::new();
    let image = image(&dir, "1024", 8 << 20, &[]);
    let mut v = plain(&image, "default");
    v.mkdir("/many").unwrap();
    make(&mut v, "/many", (0..200).map(name));
    v.unmount();
    let root: u64 = debugfs(&image, "bmap /many 0").trim().parse().unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[root as usize * 1024 + 28] = 77;
    std::fs::write(&image, &bytes).unwrap();
    let mut v = plain(&image, "default");
    assert_eq!(listed(&mut v, "/many").len(), 200);
    v.unlink(&format!("/many/{}", name(7))).unwrap();
    make(&mut v, "/many", (300..400).map(name));
    for i in (8..200).chain(300..400) {
        v.stat(&format!("/many/{}", name(i))).unwrap();
    }
    v.unmount();
    assert!(!indexed(&image, "/many"));
    assert_clean(&image);
}

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

fn in_memory(data: Vec<u8>, writes: u64) -> Mem {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&data[1024..2048]);
    let fs = Ext2::open(&sb, data.len() as u64, OpenOptions::default()).unwrap();
    let mut host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
    host.dev.get_mut().faults.dead_after_writes = Some(writes);
    Vol { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 }
}

/// A directory gets its index, and then leaves and nodes are split, on a device that dies after its
/// n-th write. Names that were safe before are there once, whatever was under way.
#[test]
fn a_power_loss_while_names_move_loses_none() {
    let dir = Scratch::new();
    // `few` fit in one block; `many` are in a tree whose leaves are all but full.
    let image = image(&dir, "1024", 2 << 20, &[]);
    let mut v = plain(&image, "default");
    v.mkdir("/few").unwrap();
    v.mkdir("/many").unwrap();
    make(&mut v, "/few", (0..3).map(long));
    make(&mut v, "/many", (0..300).map(long));
    v.unmount();
    let base = std::fs::read(&image).unwrap();
    for limit in 0.. {
        let mut v = in_memory(base.clone(), limit);
        let mut work = || -> common::Res<()> {
            for i in 0..12 {
                v.create(&format!("/few/{}", long(100 + i)))?;
                v.create(&format!("/many/{}", long(1000 + i)))?;
                if i % 4 == 3 {
                    v.sync()?;
                }
            }
            v.rename(&format!("/few/{}", long(0)), &format!("/few/{}", long(500)))?;
            v.sync()
        };
        let done = work().is_ok();
        std::fs::write(&image, &v.host.dev.get_ref().data).unwrap();
        let seen = run(tool("e2fsck").arg("-fy").arg(&image));
        assert!(seen.code() <= 1, "after {limit} writes: {seen}");
        assert_clean(&image);
        let mut v = plain(&image, "default");
        let few = listed(&mut v, "/few");
        assert!((1..3).all(|i| few.contains(&long(i))), "after {limit} writes");
        assert!(few.contains(&long(0)) || few.contains(&long(500)), "after {limit} writes");
        let many = listed(&mut v, "/many");
        assert!((0..300).all(|i| many.contains(&long(i))), "after {limit} writes");
        for n in few {
            assert_eq!(v.stat(&format!("/few/{n}")).unwrap().size, 0);
        }
        v.unmount();
        if done {
            assert!(limit > 20, "{limit} writes only");
            break;
        }
    }
}
