//! The own mkfs, judged by e2fsck and opened by the engine.

mod common;

use common::{FileDev, debugfs, fsck};
use seawall_blockdev::BlockDev;
use seawall_diskfs::{FsError, Timestamp};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use std::os::unix::fs::FileExt;
use std::path::Path;

const TIME: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 0 };

fn options(size: u64, block_size: u32, inode_size: u16) -> MkfsOptions {
    MkfsOptions { block_size, inode_size, ..MkfsOptions::new(size, *b"0123456789abcdef", TIME) }
}

fn open(path: &Path) -> Result<Ext2, FsError> {
    let file = std::fs::File::open(path).unwrap();
    let mut sb = [0u8; 1024];
    file.read_exact_at(&mut sb, 1024).unwrap();
    Ext2::open(&sb, file.metadata().unwrap().len(), OpenOptions::default())
}

#[test]
fn every_size_passes_e2fsck() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
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
                dev.sync(seawall_blockdev::Tag(0)).unwrap();
                fsck(&path);
                let fs = open(&path).unwrap();
                assert_eq!(fs.read_only_because(), [""; 0]);
            }
        }
    }
}

#[test]
fn large_blocks_and_odd_inodes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for (bs, isize, size) in [
        (8192, 256, 8u64 << 20),
        (65536, 1024, 64 << 20),
        (16384, 128, 3 << 30),
        (4096, 4096, 9 << 20),
    ] {
        let mut dev = FileDev::create(&path, size);
        mkfs(&mut dev, &options(size, bs, isize)).unwrap();
        fsck(&path);
        open(&path).unwrap();
    }
}

#[test]
fn old_content_does_not_shine_through() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, vec![0xA5; 20 << 20]).unwrap();
    let mut opts = options(20 << 20, 1024, 256);
    opts.label[..7].copy_from_slice(b"seawall");
    opts.inodes = Some(3000);
    mkfs(&mut FileDev::open(&path), &opts).unwrap();
    fsck(&path);
    let stats = debugfs(&path, "stats");
    assert!(stats.contains("seawall"), "{stats}");
    assert!(stats.contains("30313233-3435-3637-3839-616263646566"), "{stats}");
    assert!(open(&path).unwrap().superblock().inodes >= 3000);
    assert!(debugfs(&path, "ls -l /").contains("lost+found"));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
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
