//! The own mkfs, judged by e2fsck and opened by the engine.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{FileDev, TIME, engine};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use seawall_tests::{Scratch, assert_clean, debugfs};
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
