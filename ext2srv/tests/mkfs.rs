//! The own mkfs, judged by e2fsck and opened by the engine.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{FileDev, TIME, engine, plain};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use seawall_tests::{LoopMount, Scratch, assert_clean, debugfs, dumpe2fs, pattern, run, tool};
use std::path::Path;

fn options(size: u64, block_size: u32, inode_size: u16) -> MkfsOptions {
    MkfsOptions { block_size, inode_size, ..MkfsOptions::new(size, *b"0123456789abcdef", TIME) }
}

fn open(path: &Path) -> Ext2 {
    engine(path, OpenOptions::default()).unwrap()
}

#[test]
fn every_size_passes_e2fsck() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let kib = |n: u64| n << 10;
    let sizes = [
        kib(64),
        kib(65),
        kib(100),
        kib(1000),
        kib(1440),
        kib(8192),
        kib(8193),
        kib(8250),
        kib(8600),
        kib(16 << 10),
        kib(33_000),
        kib(131_072),
        kib(131_500),
        kib(600 << 10),
        kib(2 << 20),
    ];
    for size in sizes {
        for bs in [1024, 2048, 4096] {
            for isize in [128, 256] {
                let mut dev = FileDev::create(&path, size);
                mkfs(&mut dev, &options(size, bs, isize)).unwrap();
                assert_clean(&path);
                let fs = open(&path);
                assert_eq!(fs.read_only_because(), [""; 0]);
            }
        }
    }
}

#[test]
fn large_blocks_and_odd_inodes() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for (bs, isize, size) in [
        (8192, 256, 8u64 << 20),
        (65536, 1024, 64 << 20),
        (16384, 128, 3 << 30),
        (4096, 4096, 9 << 20),
    ] {
        let mut dev = FileDev::create(&path, size);
        mkfs(&mut dev, &options(size, bs, isize)).unwrap();
        assert_clean(&path);
        open(&path);
    }
}

#[test]
fn old_content_does_not_shine_through() {
    let dir = Scratch::new();
    let path = dir.join("image");
    std::fs::write(&path, vec![0xA5; 20 << 20]).unwrap();
    let mut opts = options(20 << 20, 1024, 256);
    opts.label[..7].copy_from_slice(b"seawall");
    opts.inodes = Some(3000);
    mkfs(&mut FileDev::open(&path), &opts).unwrap();
    assert_clean(&path);
    let stats = debugfs(&path, "stats");
    assert!(stats.contains("seawall"), "{stats}");
    assert!(stats.contains("30313233-3435-3637-3839-616263646566"), "{stats}");
    assert!(open(&path).superblock().inodes >= 3000);
    assert!(debugfs(&path, "ls -l /").contains("lost+found"));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let mut dev = FileDev::create(&path, 1 << 20);
    for opts in [
        options(2 << 20, 1024, 256),
        options(1 << 20, 512, 128),
        options(1 << 20, 3000, 128),
        options(1 << 20, 1024, 2048),
        options(1 << 20, 1024, 64),
        options(8 << 10, 1024, 128),
        options(0, 4096, 256),
        MkfsOptions { inodes: Some(u32::MAX), ..options(1 << 20, 1024, 128) },
        MkfsOptions { reserved_percent: 51, ..options(1 << 20, 1024, 128) },
    ] {
        assert!(mkfs(&mut dev, &opts).is_err(), "{opts:?}");
    }
}

#[test]
fn every_feature_passes_e2fsck_and_the_kernel() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let all = "dir_index,ext_attr,extra_isize,huge_file,dir_nlink,uninit_bg,meta_bg,sparse_super2";
    for (list, size, bs) in [
        ("^sparse_super", 40 << 20, 1024),
        ("^filetype", 4 << 20, 1024),
        ("none", 4 << 20, 2048),
        ("sparse_super2,^sparse_super", 40 << 20, 1024),
        ("sparse_super2", 5 << 20, 1024),
        ("uninit_bg", 40 << 20, 1024),
        ("meta_bg", 300 << 20, 1024),
        ("meta_bg,sparse_super2,uninit_bg", 900 << 20, 1024),
        (all, 300 << 20, 2048),
        ("has_journal", 8 << 20, 1024),
        ("has_journal", 64 << 20, 1024),
        ("has_journal,uninit_bg,extra_isize,dir_nlink,huge_file", 200 << 20, 4096),
    ] {
        let mut opts = options(size, bs, 256);
        list.split(',').for_each(|f| opts.features.set(f).unwrap());
        let made = mkfs(&mut FileDev::create(&path, size), &opts).unwrap();
        assert!(made <= size && made > size - (64 << 10), "{made} of {size}");
        assert_clean(&path);
        let shown = dumpe2fs(&path);
        for f in list.split(',').filter(|f| !f.starts_with('^') && *f != "none") {
            assert!(shown.contains(f), "{list}: {shown}");
        }
        let kind = if opts.features.journal { "ext3" } else { "ext4" };
        let kind = if opts.features.uninit_bg { "ext4" } else { kind };
        let mount = LoopMount::typed(&path, kind, "loop");
        std::fs::create_dir(mount.path().join("d")).unwrap();
        std::fs::write(mount.path().join("d/f"), pattern(70_000, 1)).unwrap();
        mount.unmount();
        assert_clean(&path);
        let mut v = plain(&path, "default");
        assert!(v.read("/d/f", 0, 80_000).unwrap() == pattern(70_000, 1), "{list}");
        v.mkdir("/d/e").unwrap();
        v.unmount();
        assert_clean(&path);
    }
}

#[test]
fn a_journal_replays_what_the_kernel_left_in_it() {
    let dir = Scratch::new();
    let (path, cut) = (dir.join("image"), dir.join("cut"));
    // Of an older journal nothing may be left.
    std::fs::write(&path, vec![0xA5; 16 << 20]).unwrap();
    let mut opts = options(16 << 20, 1024, 256);
    opts.features.journal = true;
    mkfs(&mut FileDev::open(&path), &opts).unwrap();
    let mount = LoopMount::typed(&path, "ext3", "loop");
    for i in 0..50 {
        std::fs::write(mount.path().join(format!("f{i}")), b"in the journal").unwrap();
    }
    run(tool("sync").arg("-f").arg(mount.path())).ok();
    std::fs::copy(&path, &cut).unwrap();
    mount.unmount();
    assert!(dumpe2fs(&cut).contains("needs_recovery"));
    run(tool("e2fsck").arg("-fy").arg(&cut)).exits(1);
    assert_clean(&cut);
    assert!(debugfs(&cut, "cat /f49").contains("in the journal"));
    let mut v = plain(&cut, "default");
    assert_eq!(v.read("/f49", 0, 99).unwrap(), b"in the journal");
}

#[test]
fn the_size_made_is_told() {
    let dir = Scratch::new();
    let path = dir.join("image");
    // The last ten blocks are no group worth making.
    for (size, made) in [(8202 << 10, 8193 << 10), (1000 << 10, 1000 << 10), (2049 << 9, 1 << 20)] {
        let mut dev = FileDev::create(&path, size);
        assert_eq!(mkfs(&mut dev, &options(size, 1024, 128)).unwrap(), made);
        assert_clean(&path);
    }
}
