//! Directories of any size: an operation looks at as many blocks in a large one as in a small one,
//! and what it does is the same without the index that makes it so.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{TIME, Vol};
use seawall_blockdev::{BlockDev, Numbered};
use seawall_diskfs::driver::{Blocking, Host};
use seawall_diskfs::testing::{AllMiss, MemDev};
use seawall_diskfs::{Ctx, Fs, FsError, FsStats, MountOpts, Refused, policy};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{Scratch, assert_clean, debugfs, mke2fs};

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

const NO_INDEX: usize = 0;
const INDEX: usize = 1 << 20;

fn image(size: u64, inodes: u32) -> Vec<u8> {
    let dir = Scratch::new();
    let path = dir.join("image");
    // With indexed directories there is nothing to index in memory.
    mke2fs(&path, size, &["-b", "1024", "-N", &inodes.to_string(), "-O", "^dir_index"]);
    std::fs::read(&path).unwrap()
}

fn mounted(data: Vec<u8>, index_budget: usize) -> Mem {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&data[1024..2048]);
    let format = Ext2::open(&sb, data.len() as u64, OpenOptions::default()).unwrap();
    let dev = Numbered::new(MemDev::new(data));
    let policy = policy::preset("default").unwrap();
    let opts = MountOpts { index_budget, ..MountOpts::new(policy) };
    let fs = Fs::new(format, dev.caps(), dev.seqs(), opts).unwrap();
    let host = Blocking { fs, dev };
    Vol { host, ctx: Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() }, restarts: 0 }
}

fn stats<H: Host<Format = Ext2>>(v: &mut Vol<H>) -> FsStats {
    v.host.with(|fs| fs.stats())
}

/// Blocks that an operation looks at, in memory or not.
fn looks(v: &mut Mem, f: impl FnOnce(&mut Mem)) -> u64 {
    let seen = |s: FsStats| s.cache_hits + s.cache_misses;
    let before = seen(stats(v));
    f(v);
    seen(stats(v)) - before
}

fn name(i: u64) -> String {
    format!("/a-name-of-some-length-{i:06}")
}

#[test]
fn the_work_does_not_grow_with_the_directory() {
    let mut v = mounted(image(8 << 20, 8000), INDEX);
    let mut made = 0;
    let mut at_size = |v: &mut Mem, n: u64| -> [u64; 4] {
        while made < n {
            v.create(&name(made)).unwrap();
            made += 1;
        }
        let some = name(n / 2);
        let found = looks(v, |v| assert_eq!(v.stat(&some).unwrap().size, 0));
        let absent = looks(v, |v| {
            assert_eq!(v.stat("/absent").unwrap_err(), FsError::Refused(Refused::NotFound));
        });
        // In the middle, so that the next create finds the room there. A create that meets a new
        // block of the inode table is started again; not every one does.
        let gone = looks(v, |v| v.unlink(&some).unwrap());
        let new =
            (0..4).map(|k| looks(v, |v| assert!(v.create(&format!("/more-{n}-{k}")).is_ok())));
        [found, absent, new.min().unwrap(), gone]
    };
    let small = at_size(&mut v, 200);
    let large = at_size(&mut v, 6000);
    for (s, l) in small.iter().zip(large) {
        // An indirect block of the directory's map, for each of its blocks that is looked at.
        assert!(l <= s + 6 && l < 100, "{small:?} blocks with 200 names, {large:?} with 6,000");
    }
    assert_eq!(stats(&mut v).index_builds, 1, "built once, kept by every change");
    assert!(stats(&mut v).index_bytes < 400_000);
    v.sync().unwrap();
    let s = Scratch::new();
    let path = s.join("image");
    std::fs::write(&path, &v.host.dev.get_ref().stable).unwrap();
    assert_clean(&path);
}

#[test]
fn one_scan_builds_it_however_often_it_is_restarted() {
    let mut v = mounted(image(8 << 20, 8000), INDEX);
    for i in 0..6000 {
        v.create(&name(i)).unwrap();
    }
    let blocks = v.stat("/").unwrap().size / 1024;
    v.sync().unwrap();
    v.host.fs.drop_clean();
    let seen = looks(&mut v, |v| assert_eq!(v.stat(&name(3)).unwrap().size, 0));
    assert!(blocks > 200 && seen < 4 * blocks, "{seen} looks at {blocks} blocks");
    // The window doubles from one block to 128 KiB.
    assert!(v.restarts < 30, "{} restarts", v.restarts);
    assert_eq!(stats(&mut v).index_builds, 2);
}

/// Names come, go and move in directories of several blocks. Returns what the device holds.
fn script<H: Host<Format = Ext2>>(v: &mut Vol<H>, ops: u32) {
    v.mkdir("/d").unwrap();
    let mut x = 11u64;
    let mut random = |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    for i in 0..150 {
        v.create(&format!("{}{}", name(i), "x".repeat((i % 7) as usize * 9))).unwrap();
        v.create(&format!("/d{}", name(i))).unwrap();
    }
    let mut outcomes = Vec::new();
    for _ in 0..ops {
        let dir = if random(2) == 0 { "" } else { "/d" };
        let a = format!("{dir}{}", name(random(200)));
        let other = if random(2) == 0 { "" } else { "/d" };
        let b = format!("{other}/{}", "y".repeat(random(90) as usize + 1));
        outcomes.push(match random(5) {
            0 => v.create(&a).map(|_| ()),
            1 => v.unlink(&a),
            2 => v.rename(&a, &b),
            3 => v.unlink(&b),
            _ => v.link(&a, &b),
        });
    }
    assert!(outcomes.iter().filter(|o| o.is_ok()).count() as u32 > ops / 4);
    v.sync().unwrap();
}

#[test]
fn results_are_the_same_without_it() {
    let base = image(2 << 20, 1000);
    let mut with = mounted(base.clone(), INDEX);
    script(&mut with, 400);
    assert!(stats(&mut with).index_builds >= 2);
    let expected = &with.host.dev.get_ref().data;

    let mut without = mounted(base.clone(), NO_INDEX);
    script(&mut without, 400);
    assert_eq!(stats(&mut without).index_builds, 0);
    assert!(without.host.dev.get_ref().data == *expected, "without an index");

    let Vol { host, ctx, restarts } = mounted(base, INDEX);
    let mut cold = Vol { host: AllMiss(host), ctx, restarts };
    script(&mut cold, 400);
    assert!(cold.host.0.dev.get_ref().data == *expected, "with a new one for each attempt");

    let s = Scratch::new();
    let path = s.join("image");
    std::fs::write(&path, expected).unwrap();
    assert_clean(&path);
}

#[test]
fn an_operation_that_fails_leaves_it_as_it_was() {
    let mut v = mounted(image(2 << 20, 400), INDEX);
    let full = (0..).find(|i| v.create(&name(*i)).is_err()).unwrap();
    assert!(full > 300);
    for i in 0..20 {
        let late = name(full + i);
        assert_eq!(v.create(&late).unwrap_err(), FsError::Refused(Refused::NoSpace));
        assert_eq!(v.stat(&late).unwrap_err(), FsError::Refused(Refused::NotFound));
    }
    v.mkdir("/d").unwrap_err();
    for i in 0..full {
        v.stat(&name(i)).unwrap();
    }
    v.rename(&name(0), "/moved").unwrap();
    v.stat("/moved").unwrap();
    assert_eq!(v.stat(&name(0)).unwrap_err(), FsError::Refused(Refused::NotFound));
    assert_eq!(stats(&mut v).index_builds, 1);
}

#[test]
fn the_budget_is_kept() {
    let budget = 24 << 10;
    let mut v = mounted(image(4 << 20, 3000), budget);
    for d in 0..4 {
        v.mkdir(&format!("/d{d}")).unwrap();
        for i in 0..500 {
            v.create(&format!("/d{d}{}", name(i))).unwrap();
            assert!(stats(&mut v).index_bytes <= budget as u64);
        }
    }
    for i in 0..500 {
        for d in 0..4 {
            v.stat(&format!("/d{d}{}", name(i))).unwrap();
        }
        assert!(stats(&mut v).index_bytes <= budget as u64);
    }
    assert!(stats(&mut v).index_builds > 4);
}

#[test]
fn a_bad_block_is_met_by_those_who_get_there() {
    let mut v = mounted(image(2 << 20, 1000), INDEX);
    for i in 0..300 {
        v.create(&name(i)).unwrap();
    }
    let ctx = v.ctx.clone();
    seawall_diskfs::driver::unmount(&mut v.host, &ctx).unwrap();
    let mut data = v.host.dev.get_ref().data.clone();
    let last = data_block(&data, "/", 9);
    data[last * 1024 + 4] = 3;
    let mut v = mounted(data, INDEX);
    for _ in 0..2 {
        v.stat(&name(0)).unwrap();
        let absent = v.stat("/absent").unwrap_err();
        assert!(matches!(absent, FsError::Corrupt(_)), "{absent}");
    }
    assert_eq!(stats(&mut v).index_builds, 0);
}

fn data_block(data: &[u8], path: &str, index: u32) -> usize {
    let s = Scratch::new();
    let image = s.join("image");
    std::fs::write(&image, data).unwrap();
    debugfs(&image, &format!("bmap {path} {index}")).trim().parse().unwrap()
}
