//! Volumes of revision 0 and of the Hurd, symlinks and block maps at their boundaries. e2fsck and
//! debugfs judge.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{Res, plain};
use seawall_diskfs::{Refused, SetAttr, SetTime, Timestamp, XattrHow};
use seawall_tests::{Scratch, assert_clean, debugfs, debugfs_write, dumpe2fs, mke2fs, pattern};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// 0 for success.
fn errno<T>(r: Res<T>) -> i32 {
    r.map_or_else(|e| e.errno(), |_| 0)
}

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

/// Bytes of an inode as debugfs dumps them: lines of an octal offset and eight words. Lines that
/// are left out are like the one before.
fn dumped(image: &Path, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fill = |bytes: &mut Vec<u8>, to: usize| {
        while bytes.len() < to {
            bytes.push(bytes[bytes.len() - 16]);
        }
    };
    for line in debugfs(image, &format!("inode_dump {name}")).lines() {
        let mut words = line.split_whitespace();
        let at = words.next().and_then(|w| usize::from_str_radix(w, 8).ok());
        let Some(at) = at else { continue };
        fill(&mut bytes, at);
        for word in words.take(8) {
            bytes.extend(u16::from_str_radix(word, 16).unwrap().to_be_bytes());
        }
    }
    fill(&mut bytes, 128);
    bytes
}

#[test]
fn author_and_upper_mode_bits_are_attributes() {
    const OTHER: [u8; 4] = 4242u32.to_le_bytes();
    let dir = Scratch::new();
    let image = dir.join("image");
    let args = ["-b", "1024", "-I", "128", "-N", "64", "-o", "hurd", "-O", "none,sparse_super"];
    mke2fs(&image, 1 << 20, &args);
    put_file(&image, &dir, "node", b"x");
    debugfs_write(&image, "set_inode_field /node author 4242");
    let owner = |v: &mut common::Plain, name: &str| v.stat(name).unwrap().uid.to_le_bytes();

    let mut v = plain(&image, "default");
    assert_eq!(v.attrs("/node").unwrap(), ["gnu.author"]);
    assert_eq!(v.attr("/node", "gnu.author").unwrap(), OTHER);
    assert_eq!(errno(v.attr("/node", "gnu.mode_high")), 61);
    // The Hurd signs what it makes, and says nothing of an owner who is the author.
    v.create("/new").unwrap();
    assert_eq!(v.attrs("/new").unwrap(), Vec::<String>::new());
    let signed = owner(&mut v, "/new");
    v.set_attr("/new", "gnu.mode_high", &[2, 0]).unwrap();
    for (name, wrong) in
        [("gnu.author", &[1, 2, 3][..]), ("gnu.mode_high", &[]), ("gnu.mode_high", &OTHER)]
    {
        assert_eq!(errno(v.set_attr("/new", name, wrong)), 22, "{name}");
    }
    let how = |v: &mut common::Plain, how| errno(v.set_attr_how("/new", "gnu.author", &OTHER, how));
    assert_eq!(how(&mut v, XattrHow::Replace), 61);
    assert_eq!(how(&mut v, XattrHow::Create), 0);
    assert_eq!(how(&mut v, XattrHow::Create), 17);
    v.remove_attr("/node", "gnu.author").unwrap();
    assert_eq!(errno(v.remove_attr("/node", "gnu.author")), 61);
    assert_eq!(owner(&mut v, "/node"), [0; 4]);
    v.unmount();
    assert_clean(&image);
    let (node, new) = (dumped(&image, "/node"), dumped(&image, "/new"));
    assert_eq!((&node[0x76..0x78], &node[0x7C..0x80]), (&[0; 2][..], &[0; 4][..]));
    assert_eq!((&new[0x76..0x78], &new[0x7C..0x80]), (&[2, 0][..], &OTHER[..]));

    let mut v = plain(&image, "default");
    assert_eq!(v.attrs("/new").unwrap(), ["gnu.author", "gnu.mode_high"]);
    assert_eq!(v.attr("/new", "gnu.mode_high").unwrap(), [2, 0]);
    v.remove_attr("/new", "gnu.mode_high").unwrap();
    v.set_attr("/new", "gnu.author", b"").unwrap();
    assert_eq!(v.attrs("/new").unwrap(), Vec::<String>::new());
    v.unmount();
    assert_clean(&image);
    let new = dumped(&image, "/new");
    assert_eq!((&new[0x76..0x78], &new[0x7C..0x80]), (&[0; 2][..], &signed[..]));

    // Elsewhere these are attributes like others, and the bytes are the kernel's.
    mke2fs(&image, 1 << 20, &["-b", "1024", "-I", "128"]);
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.set_attr("/f", "gnu.author", b"any text").unwrap();
    assert_eq!(v.attr("/f", "gnu.author").unwrap(), b"any text");
    v.unmount();
    assert_clean(&image);
    assert_eq!(dumped(&image, "/f")[0x7C..0x80], [0; 4]);
}
