//! Checksums of `metadata_csum`: the kernel's ext4 makes the volume, one bit of it is changed, and
//! whoever reads that block hears of it. Everything else stays readable. e2fsck agrees that the bit
//! is damage.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{TIME, Vol};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Corrupt, Ctx, FsError};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{
    LoopMount, Scratch, assert_clean, debugfs, e2fsck, mke2fs, pattern, run, tool,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const NONE: &str = "none,filetype,sparse_super,large_file,ext_attr,extent";
const BS: usize = 1024;
const NAMES: usize = 500;

/// Bytes of an inode, and features.
const SETS: [(&str, &str); 2] = [
    ("256", "extra_isize,dir_index,64bit,metadata_csum"),
    ("128", "metadata_csum,metadata_csum_seed"),
];

type Memory = Vol<Blocking<Ext2, Numbered<MemDev>>>;

fn name(i: usize) -> String {
    format!("/many/{i}-{}", "n".repeat(200))
}

/// Files of extents, a directory of many blocks (with `dir_index` a tree of two levels), a file
/// with attributes in a block.
fn volume(dir: &Scratch, inode: &str, features: &str) -> PathBuf {
    let image = dir.join("image");
    let all = format!("{NONE},{features}");
    mke2fs(&image, 2 << 20, &["-b", "1024", "-I", inode, "-N", "1024", "-m", "0", "-O", &all]);
    let mount = LoopMount::typed(&image, "ext4", "loop");
    let root = mount.path();
    for i in 0..20 {
        std::fs::write(root.join(format!("plain{i}")), pattern(3000, i)).unwrap();
    }
    std::fs::create_dir(root.join("many")).unwrap();
    for i in 0..NAMES {
        File::create(root.join(&name(i)[1..])).unwrap();
    }
    let file = File::create(root.join("fragments")).unwrap();
    for i in 0..300u64 {
        file.write_all_at(&pattern(500, i), i * 8192).unwrap();
    }
    drop(file);
    let value = "v".repeat(500);
    run(tool("setfattr").args(["-n", "user.big", "-v", &value]).arg(root.join("plain7"))).ok();
    mount.unmount();
    assert_clean(&image);
    image
}

fn open(bytes: Vec<u8>) -> Memory {
    let superblock = *bytes[1024..].first_chunk().unwrap();
    let opts = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = Ext2::open(&superblock, bytes.len() as u64, opts).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(bytes)), "default").unwrap();
    Vol { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 }
}

/// The volume with one bit changed.
fn changed(image: &[u8], at: usize) -> Memory {
    let mut bytes = image.to_vec();
    bytes[at] ^= 1 << (at % 8);
    open(bytes)
}

/// e2fsck sees the bit, too.
fn e2fsck_sees(dir: &Scratch, image: &[u8], at: usize) {
    let path = dir.join("changed");
    let mut bytes = image.to_vec();
    bytes[at] ^= 1 << (at % 8);
    std::fs::write(&path, bytes).unwrap();
    let (code, said) = e2fsck(&path);
    assert!(code & 4 != 0, "byte {at}: {said}");
}

/// The one thing that may be said of damage: its site and its block.
fn is_damage<T: std::fmt::Debug>(got: Result<T, FsError>, site: &str, block: usize, at: usize) {
    match got {
        Err(FsError::Corrupt(c)) if c.site == site && c.block == block as u64 => {}
        other => panic!("byte {at} of {site} {block}: {other:?}"),
    }
}

/// Every file of the sample but one.
fn others_are_read(v: &mut Memory, but: usize) {
    for i in (0..20).filter(|i| *i != but) {
        let got = v.read(&format!("/plain{i}"), 0, 4000).unwrap();
        assert!(got == pattern(3000, i as u64));
    }
}

/// The number that follows a word in debugfs's output.
fn number(shown: &str, word: &str) -> usize {
    let rest =
        shown.split(word).nth(1).unwrap_or_else(|| panic!("no {word}: {shown}")).trim_start();
    let hex = rest.strip_prefix("0x");
    let digits = hex.unwrap_or(rest).split(|c: char| !c.is_ascii_hexdigit()).next().unwrap();
    usize::from_str_radix(digits, if hex.is_some() { 16 } else { 10 }).unwrap()
}

fn blocks(image: &Path, file: &str) -> Vec<usize> {
    let shown = debugfs(image, &format!("blocks {file}"));
    shown.split_whitespace().map(|w| w.parse().unwrap()).collect()
}

/// Names of the records of a directory block.
fn names_in(block: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < block.len() {
        let end = at + 8 + usize::from(block[at + 6]);
        if block[at..at + 4] != [0; 4] {
            names.push(String::from_utf8(block[at + 8..end].to_vec()).unwrap());
        }
        at += usize::from(u16::from_le_bytes([block[at + 4], block[at + 5]]));
    }
    names
}

#[test]
fn a_bit_of_an_inode() {
    for (size, features) in SETS {
        let dir = Scratch::new();
        let path = volume(&dir, size, features);
        let image = std::fs::read(&path).unwrap();
        let imap = debugfs(&path, "imap /plain3");
        let block = number(&imap, "located at block");
        let start = block * BS + number(&imap, "offset");
        for at in start..start + size.parse::<usize>().unwrap() {
            let mut v = changed(&image, at);
            is_damage(v.stat("/plain3"), "inode", block, at);
            if at % 16 == 0 {
                others_are_read(&mut v, 3);
            }
        }
        [0x10, 0x40, 0x7C].iter().for_each(|off| e2fsck_sees(&dir, &image, start + off));
    }
}

#[test]
fn a_bit_of_a_directory() {
    for (size, features) in SETS {
        let dir = Scratch::new();
        let path = volume(&dir, size, features);
        let image = std::fs::read(&path).unwrap();
        let tree = features.contains("dir_index");
        let all = blocks(&path, "/many");
        let bytes = |block: usize| &image[block * BS..(block + 1) * BS];
        let is_node = |block: usize| bytes(block)[..6] == [0, 0, 0, 0, 0, 4];
        let nodes: Vec<usize> = all.iter().copied().filter(|b| is_node(*b)).collect();
        assert_eq!(nodes.len() > 1, tree, "{nodes:?}");
        // A block of names in the middle: they are lost, and no others.
        let block = all[all.len() / 2..].iter().copied().find(|b| !is_node(*b)).unwrap();
        let held = names_in(bytes(block));
        let holds = |name: &str| held.iter().any(|n| name.ends_with(&format!("/{n}")));
        for off in (0..BS - 12).step_by(97).chain(BS - 12..BS) {
            let at = block * BS + off;
            let mut v = changed(&image, at);
            let mut lost = 0;
            for (i, name) in (0..NAMES).map(|i| (i, name(i))) {
                if holds(&name) {
                    is_damage(v.stat(&name), "directory block", block, at);
                    lost += 1;
                } else if i % 29 == 0 {
                    v.stat(&name).unwrap();
                }
            }
            assert!(lost > 0);
            is_damage(v.list("/many"), "directory block", block, at);
            others_are_read(&mut v, 99);
        }
        e2fsck_sees(&dir, &image, block * BS + 8);
        // A block of the index holds no names: all are found. A list of them may not be whole.
        for node in nodes.iter().take(2) {
            let count = usize::from(u16::from_le_bytes([bytes(*node)[10], bytes(*node)[11]]));
            for at in (node * BS + 16..node * BS + 8 + 8 * count).step_by(53) {
                let mut v = changed(&image, at);
                let sample = (0..NAMES).step_by(11).map(name);
                sample.for_each(|name| assert_eq!(v.stat(&name).unwrap().size, 0));
                let listed = v.list("/many");
                let says = |c: &Corrupt| c.block == *node as u64 && c.site.starts_with("directory");
                assert!(matches!(&listed, Err(FsError::Corrupt(c)) if says(c)), "{listed:?}");
            }
            e2fsck_sees(&dir, &image, node * BS + 17);
        }
        // The first block says who the directory is.
        let root = *all.iter().find(|b| bytes(**b)[4..10] == [12, 0, 1, 2, b'.', 0]).unwrap();
        let at = root * BS + 12;
        is_damage(changed(&image, at).stat("/many/.."), "directory block", root, at);
        let mut v = changed(&image, at);
        let lost = (0..NAMES).step_by(11).filter(|i| v.stat(&name(*i)).is_err()).count();
        assert!(lost <= 4, "{lost}");
    }
}

#[test]
fn a_bit_of_a_node_of_extents_or_of_attributes() {
    for (size, features) in SETS {
        let dir = Scratch::new();
        let path = volume(&dir, size, features);
        let image = std::fs::read(&path).unwrap();
        let shown = debugfs(&path, "dump_extents -n /fragments");
        let nodes = shown.lines().filter(|l| l.contains(" 0/ 1 "));
        let nodes: Vec<usize> =
            nodes.map(|l| l.split_whitespace().nth_back(1).unwrap().parse().unwrap()).collect();
        assert!(nodes.len() >= 4, "{shown}");
        let last = *nodes.last().unwrap();
        for at in (last * BS..(last + 1) * BS).step_by(3) {
            let mut v = changed(&image, at);
            is_damage(v.read("/fragments", 299 * 8192, 500), "extent tree", last, at);
            if at % 32 == 0 {
                assert!(v.read("/fragments", 0, 500).unwrap() == pattern(500, 0));
                others_are_read(&mut v, 99);
            }
        }
        e2fsck_sees(&dir, &image, last * BS + 20);

        let block = number(&debugfs(&path, "stat /plain7"), "File ACL:");
        for at in (block * BS..(block + 1) * BS).step_by(3) {
            let mut v = changed(&image, at);
            is_damage(v.attr("/plain7", "user.big"), "attribute block", block, at);
            if at % 32 == 0 {
                others_are_read(&mut v, 99);
            }
        }
        e2fsck_sees(&dir, &image, block * BS + 1000);
        let mut v = open(image);
        assert_eq!(v.attr("/plain7", "user.big").unwrap(), [b'v'; 500]);
    }
}
