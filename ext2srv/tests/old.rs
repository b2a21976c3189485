//! Volumes of revision 0 and of the Hurd, symlinks and block maps at their boundaries. e2fsck and
//! debugfs judge.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::plain;
use seawall_diskfs::{Refused, SetAttr, SetTime, Timestamp};
use seawall_tests::{Scratch, assert_clean, debugfs, debugfs_write, dumpe2fs, mke2fs, pattern};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn patch(image: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(image).unwrap().write_all_at(bytes, at).unwrap();
}

fn put_file(image: &Path, dir: &Scratch, name: &str, bytes: &[u8]) {
    let source = dir.join("source");
    std::fs::write(&source, bytes).unwrap();
    debugfs_write(image, &format!("write {} {name}", source.display()));
}

/// Revision 0 has no type byte, and its fields for inode size and first inode mean nothing.
#[test]
fn revision_0_stays_revision_0() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 1 << 20, &["-r", "0", "-b", "1024", "-N", "64"]);
    put_file(&image, &dir, "hello.txt", b"hello, world\n");
    patch(&image, 1024 + 88, &[0; 2]);
    patch(&image, 1024 + 84, &[0; 4]);
    let mut v = plain(&image, "default");
    assert_eq!(v.read("/hello.txt", 0, 99).unwrap(), b"hello, world\n");
    v.create("/new.txt").unwrap();
    v.write("/new.txt", 0, &pattern(20_000, 1)).unwrap();
    v.mkdir("/new").unwrap();
    v.unmount();
    assert_clean(&image);
    let mut sb = [0; 1024];
    File::open(&image).unwrap().read_exact_at(&mut sb, 1024).unwrap();
    assert_eq!(sb[0x4C..0x50], [0; 4], "the revision");
    assert_eq!(sb[0x5C..0x68], [0; 12], "the three feature words");
    assert!(debugfs(&image, "cat /hello.txt").contains("hello, world"));
}

/// Translator block, author and the upper mode bits stay as they are, and are no part of the owner.
#[test]
fn the_fields_of_the_hurd_are_kept() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let args = ["-b", "1024", "-I", "128", "-N", "64", "-o", "hurd", "-O", "none,sparse_super"];
    mke2fs(&image, 1 << 20, &args);
    put_file(&image, &dir, "plain.txt", b"hello, world\n");
    put_file(&image, &dir, "node", b"hello, world\n");
    // A free block, marked used, becomes the passive translator of /node.
    let block = 900u64;
    debugfs_write(&image, &format!("setb {block}"));
    let argz = b"\x1B\0/hurd/firmlink\0/plain.txt\0";
    patch(&image, block * 1024, argz);
    debugfs_write(&image, &format!("set_inode_field /node translator {block}"));
    debugfs_write(&image, "set_inode_field /node blocks 4");
    let imap = debugfs(&image, "imap /node");
    let word = |after: &str| imap.split(after).nth(1).unwrap().trim().split(',').next().unwrap();
    let table: u64 = word("located at block").parse().unwrap();
    let offset = u64::from_str_radix(word("offset 0x").trim(), 16).unwrap();
    let inode = table * 1024 + offset;
    // h_i_frag, h_i_fsize, h_i_mode_high, h_i_uid_high, h_i_gid_high, h_i_author.
    patch(&image, inode + 0x74, &[0, 0, 7, 0, 0, 0, 0, 0]);
    patch(&image, inode + 0x7C, &4242u32.to_le_bytes());
    let raw = |image: &Path| {
        let mut b = [0; 128];
        File::open(image).unwrap().read_exact_at(&mut b, inode).unwrap();
        b
    };
    let before = raw(&image);
    assert_eq!(before[0x24..0x28], (block as u32).to_le_bytes());

    let mut v = plain(&image, "default");
    assert_eq!(v.read("/plain.txt", 0, 99).unwrap(), b"hello, world\n");
    assert_eq!(v.read("/node", 0, 99).unwrap(), b"hello, world\n");
    assert_eq!(v.stat("/node").unwrap().uid, 0, "mode_high is no part of the uid");
    let mtime = SetTime::At(Timestamp { secs: 1_000_000_000, nanos: 0 });
    v.set("/node", SetAttr { mode: Some(0o600), mtime, ..SetAttr::default() }).unwrap();
    v.write("/plain.txt", 13, b"more\n").unwrap();
    v.unmount();

    let after = raw(&image);
    for field in [0x24..0x28, 0x74..0x78, 0x7C..0x80] {
        assert_eq!(before[field.clone()], after[field.clone()], "{field:x?}");
    }
    assert_eq!(after[0x10..0x14], 1_000_000_000u32.to_le_bytes());
    let mut text = vec![0; argz.len()];
    File::open(&image).unwrap().read_exact_at(&mut text, block * 1024).unwrap();
    assert_eq!(text, argz);
    let used = debugfs(&image, &format!("testb {block}"));
    assert!(used.contains("marked in use"), "{used}");
    let shown = debugfs(&image, "stat /node");
    assert!(shown.contains(&format!("Translator: {block}")), "{shown}");
}

/// A target below 60 bytes lives in the inode and owns no block.
#[test]
fn symlinks_at_the_boundary() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024"]);
    let mut v = plain(&image, "default");
    let before = v.statfs().0;
    for (len, units) in [(1, 0), (59, 0), (60, 2), (61, 2), (1023, 2)] {
        let target = vec![b'x'; len];
        let path = format!("/l{len}");
        let a = v.symlink(&path, &target).unwrap();
        assert_eq!((a.size, a.blocks), (len as u64, units), "{len}");
        assert_eq!(v.readlink(&path).unwrap(), target);
    }
    for len in [1024, 4000] {
        let e = v.symlink("/long", &vec![b'x'; len]).unwrap_err();
        assert_eq!(e, Refused::NameTooLong.into());
    }
    v.unmount();
    assert_clean(&image);
    let mut v = plain(&image, "default");
    for len in [1, 59, 60, 61, 1023] {
        v.unlink(&format!("/l{len}")).unwrap();
    }
    v.sync().unwrap();
    assert_eq!(v.statfs().0, before);
    v.unmount();
    assert_clean(&image);
}

/// One block at each side of every boundary of the map: what it costs in indirect blocks, and that
/// nothing else is mapped.
#[test]
fn block_maps_at_their_boundaries() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024", "-I", "128", "-O", "^large_file,^resize_inode"]);
    // File block, and indirect blocks on the way.
    let spots = [
        (0u64, 0u64),
        (11, 0),
        (12, 1),
        (267, 1),
        (268, 2),
        (523, 2),
        (524, 2),
        (65_803, 2),
        (65_804, 3),
        (2_097_151, 3),
        (2_097_152, 3),
        (4_194_304, 3),
        (16_777_215, 3),
    ];
    let mut v = plain(&image, "default");
    for (at, _) in spots {
        v.create(&format!("/s{at}")).unwrap();
        v.write(&format!("/s{at}"), at * 1024, &pattern(1024, at)).unwrap();
    }
    v.unmount();
    assert_clean(&image);
    assert!(dumpe2fs(&image).contains("large_file"));
    let mut v = plain(&image, "default");
    for (at, indirect) in spots {
        let path = format!("/s{at}");
        let a = v.stat(&path).unwrap();
        assert_eq!((a.size, a.blocks), ((at + 1) * 1024, 2 * (1 + indirect)), "{at}");
        assert_eq!(v.read(&path, at * 1024, 2048).unwrap(), pattern(1024, at));
        if at > 1 {
            assert_eq!(v.read(&path, (at - 1) * 1024, 1024).unwrap(), [0; 1024]);
        }
        v.truncate(&path, 12 * 1024).unwrap();
        assert_eq!(v.stat(&path).unwrap().blocks, if at < 12 { 2 } else { 0 });
    }
    v.unmount();
    assert_clean(&image);
}
