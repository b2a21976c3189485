//! ext4 volumes, read: the kernel's ext4 fills them, the engine sees the same tree and changes not
//! a byte of the image.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/trees.rs"]
mod trees;

use common::{TIME, Vol, checked, engine, plain, reading};
use seawall_blockdev::Numbered;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, FsError, SetAttr};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{
    LoopMount, Scratch, assert_clean, debugfs, debugfs_write, mke2fs, pattern, run, sample_tree,
    tool, tree_snapshot,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use trees::{compare, copy_of};

const NONE: &str = "none,filetype,sparse_super,large_file,ext_attr,dir_index,extra_isize";

/// What mke2fs makes by itself and what it makes when told: block size and features.
const SETS: [(&str, &str); 6] = [
    ("1024", "extent,flex_bg,uninit_bg"),
    ("4096", "extent,64bit,flex_bg,metadata_csum,huge_file,dir_nlink,has_journal"),
    ("1024", "extent,64bit,flex_bg,metadata_csum,metadata_csum_seed"),
    ("2048", "extent,64bit,meta_bg,metadata_csum"),
    ("1024", "large_dir,ea_inode,flex_bg"),
    ("4096", "extent,mmp,has_journal,resize_inode"),
];

fn make(image: &Path, size: u64, block: &str, features: &str) {
    let all = format!("{NONE},{features}");
    mke2fs(image, size, &["-b", block, "-I", "256", "-g", "2048", "-O", &all]);
}

/// Beside the sample: what only extents have, and directories of many blocks.
fn ext4_tree(root: &Path) {
    sample_tree(root);
    let sparse = File::create(root.join("fragments")).unwrap();
    for i in 0..500u64 {
        sparse.write_all_at(&pattern(500, i), i * 8192).unwrap();
    }
    std::fs::create_dir(root.join("many")).unwrap();
    for i in 0..400 {
        File::create(root.join(format!("many/{i}-{}", "n".repeat(200)))).unwrap();
    }
    let reserved = root.join("reserved");
    if run(tool("fallocate").args(["-l", "300000"]).arg(&reserved)).status.success() {
        let file = File::options().write(true).open(&reserved).unwrap();
        file.write_all_at(&pattern(9000, 3), 100_000).unwrap();
    }
}

#[test]
fn what_ext4_wrote_is_read_and_nothing_is_written() {
    for (block, features) in SETS {
        println!("{block}: {features}");
        let dir = Scratch::new();
        let image = dir.join("image");
        make(&image, 32 << 20, block, features);
        let mount = LoopMount::typed(&image, "ext4", "loop");
        ext4_tree(mount.path());
        let tree = tree_snapshot(mount.path());
        let copy = dir.dir("copy");
        copy_of(mount.path(), &copy);
        // Not compared as a whole.
        let far = File::create(mount.path().join("far")).unwrap();
        far.write_all_at(b"far", (9 << 30) + 5).unwrap();
        drop(far);
        mount.unmount();
        assert_clean(&image);
        let before = std::fs::read(&image).unwrap();
        let mut v = reading(&image).unwrap();
        compare(&mut v, &copy, &tree);
        assert_eq!(v.list("/many").unwrap().len(), 400);
        assert_eq!(v.stat("/far").unwrap().size, (9 << 30) + 8);
        assert_eq!(v.read("/far", 9 << 30, 20).unwrap(), b"\0\0\0\0\0far");
        assert_eq!(v.read("/far", 5 << 30, 5).unwrap(), [0; 5]);
        v.statfs();
        for r in [
            v.create("/new").map(|_| ()),
            v.set("/plain", SetAttr { mode: Some(0o600), ..SetAttr::default() }).map(|_| ()),
            v.unlink("/plain"),
            v.truncate("/plain", 0),
        ] {
            assert!(matches!(r, Err(FsError::Refused(_))), "{r:?}");
        }
        v.unmount();
        assert!(std::fs::read(&image).unwrap() == before, "the image changed");
        // For writing the same volume is refused, and not touched either.
        let e = checked(&image, OpenOptions::default()).err().unwrap().to_string();
        assert!(e.contains("a read-only mount (-o ro) works"), "{e}");
        let names = ["extent", "64bit", "flex_bg", "metadata_csum", "large_dir", "mmp", "quota"];
        for name in names.iter().filter(|n| features.split(',').any(|f| f == **n)) {
            assert!(e.contains(name), "{e}");
        }
        assert!(std::fs::read(&image).unwrap() == before, "the image changed");
    }
}

#[test]
fn free_space_is_what_the_kernel_says() {
    for (block, features) in [("1024", "extent,flex_bg"), ("4096", "extent,64bit,metadata_csum")] {
        let dir = Scratch::new();
        let image = dir.join("image");
        make(&image, 64 << 20, block, features);
        let mount = LoopMount::typed(&image, "ext4", "loop,ro");
        let seen = run(tool("stat").args(["-f", "-c", "%f %c %d"]).arg(mount.path())).ok();
        mount.unmount();
        let mut v = reading(&image).unwrap();
        let ctx = v.ctx.clone();
        let s = v.run(|fs, t| fs.statfs(&ctx, t)).unwrap();
        let kernel: Vec<u64> = seen.stdout.split_whitespace().map(|w| w.parse().unwrap()).collect();
        assert_eq!([s.blocks_free, s.files, s.files_free], kernel[..]);
    }
}

/// A volume with a file whose tree of extents has two levels above the leaves.
fn deep(dir: &Scratch) -> std::path::PathBuf {
    let image = dir.join("image");
    make(&image, 16 << 20, "1024", "extent,64bit");
    let mount = LoopMount::typed(&image, "ext4", "loop");
    let file = File::create(mount.path().join("deep")).unwrap();
    for i in 0..2000u64 {
        file.write_all_at(&pattern(1024, i), i * 2048).unwrap();
    }
    drop(file);
    mount.unmount();
    let shown = debugfs(&image, "dump_extents /deep");
    assert!(shown.contains(" 2/ 2"), "{shown}");
    image
}

/// Blocks of the nodes below the root: the next to last column of `dump_extents -n`.
fn nodes(shown: &str) -> Vec<u64> {
    let index = shown.lines().filter(|l| l.contains("/ 2 "));
    index.filter_map(|l| l.split_whitespace().nth_back(1)?.parse().ok()).collect()
}

#[test]
fn a_deep_tree_is_read_from_both_ends() {
    let dir = Scratch::new();
    let image = deep(&dir);
    let mut v = reading(&image).unwrap();
    for i in [1999u64, 0, 1000, 83, 84, 85, 339, 340, 341] {
        assert_eq!(v.read("/deep", i * 2048, 1024).unwrap(), pattern(1024, i));
        if i < 1999 {
            assert_eq!(v.read("/deep", i * 2048 + 1024, 1024).unwrap(), [0; 1024]);
        }
    }
}

#[test]
fn one_error_names_the_node() {
    let dir = Scratch::new();
    let image = deep(&dir);
    let shown = debugfs(&image, "dump_extents -n /deep");
    let block = *nodes(&shown).last().unwrap();
    let file = File::options().write(true).read(true).open(&image).unwrap();
    let mut head = [0u8; 12];
    file.read_exact_at(&mut head, block * 1024).unwrap();
    assert_eq!(head[..2], [0x0A, 0xF3]);
    head[6] = 3;
    file.write_all_at(&head, block * 1024).unwrap();
    let mut v = reading(&image).unwrap();
    assert_eq!(v.read("/deep", 0, 1024).unwrap(), pattern(1024, 0));
    let e = v.read("/deep", 1999 * 2048, 1024).unwrap_err().to_string();
    assert_eq!(e, format!("corrupt filesystem: extent tree at block {block}: height 3"));
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

#[test]
fn damaged_trees_end_with_one_clear_error() {
    let dir = Scratch::new();
    let image = deep(&dir);
    let base = std::fs::read(&image).unwrap();
    let shown = debugfs(&image, "dump_extents -n /deep");
    let nodes: Vec<usize> = nodes(&shown).into_iter().map(|n| n as usize).collect();
    assert!(nodes.len() > 20, "{shown}");
    let imap = debugfs(&image, "imap /deep");
    let at = |word: &str| -> usize {
        let rest = imap.split(word).nth(1).unwrap();
        let digits = rest.trim_start().split([',', ' ', '\n']).next().unwrap();
        usize::from_str_radix(
            digits.trim_start_matches("0x"),
            if digits.starts_with("0x") { 16 } else { 10 },
        )
        .unwrap()
    };
    let inode = at("located at block") * 1024 + at("offset");
    let (mut errors, mut reads) = (0, 0);
    for seed in 0..600 {
        let mut r = Rng(seed);
        let mut data = base.clone();
        for _ in 0..1 + r.below(4) {
            let place = match r.below(3) {
                0 => inode + r.below(100),
                _ => nodes[r.below(nodes.len())] * 1024 + r.below(60),
            };
            data[place] = [0, 0xFF, r.below(256) as u8, data[place] ^ 1 << r.below(8)][r.below(4)];
        }
        let mut sb = [0u8; 1024];
        sb.copy_from_slice(&data[1024..2048]);
        let opts = OpenOptions { read_only: true, ..OpenOptions::default() };
        let fs = Ext2::open(&sb, data.len() as u64, opts).unwrap();
        let host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
        let ctx = Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() };
        let mut v = Vol { host, ctx, restarts: 0 };
        for n in 0..30 {
            match v.read("/deep", n * 140_000, 3000) {
                Ok(_) => reads += 1,
                Err(e @ (FsError::Bug(_) | FsError::Io(_))) => panic!("seed {seed}: {e}"),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 500 && reads > 5000, "{errors} {reads}");
}

#[test]
fn wrong_checksums_of_the_superblock_are_refused() {
    let dir = Scratch::new();
    let image = dir.join("image");
    for features in ["metadata_csum", "metadata_csum,metadata_csum_seed,64bit,extent"] {
        make(&image, 16 << 20, "1024", features);
        reading(&image).unwrap();
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(b"other", 1024 + 0x78).unwrap();
        let e = reading(&image).err().unwrap().to_string();
        assert!(e.contains("metadata_csum: the superblock's checksum is wrong"), "{e}");
    }
    // A descriptor's.
    make(&image, 16 << 20, "1024", "metadata_csum");
    debugfs_write(&image, "set_bg 1 checksum 0x1234");
    let e = reading(&image).err().unwrap().to_string();
    assert!(e.contains("checksum of group 1"), "{e}");
}

#[test]
fn a_volume_in_use_elsewhere_is_not_read() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 16 << 20, "1024", "mmp");
    reading(&image).unwrap();
    // `dump_mmp` names the block; a sequence number there is a host that has the volume.
    let block: u64 = debugfs(&image, "dump_mmp")
        .lines()
        .find_map(|l| l.strip_prefix("block_number:")?.trim().parse().ok())
        .unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&7u32.to_le_bytes(), block * 1024 + 4).unwrap();
    file.write_all_at(b"harbour\0", block * 1024 + 16).unwrap();
    let e = reading(&image).err().unwrap().to_string();
    assert!(e.contains("mmp") && e.contains("harbour"), "{e}");
}

/// Feature words of a volume that asks nothing, with one bit more: the superblock's offset of the
/// word, the bit, and whether it may be written and read.
#[test]
fn one_bit_at_a_time() {
    let dir = Scratch::new();
    let (plain_image, image) = (dir.join("plain"), dir.join("image"));
    let args = ["-b", "1024", "-I", "128", "-N", "64"];
    let base = "none,filetype,sparse_super,ext_attr";
    mke2fs(&plain_image, 1 << 20, &[&args[..], &["-O", base]].concat());
    for (offset, bit, written, read) in [
        (0x5C, 0, true, true),
        (0x5C, 0x4000, true, true),
        // The orphan file of ext4: empty as long as `orphan_present` does not say otherwise.
        (0x5C, 0x1000, true, true),
        (0x60, 0x10_0000, false, false),
        (0x60, 0x80, false, false),
        (0x64, 0x40_0000, false, true),
    ] {
        std::fs::copy(&plain_image, &image).unwrap();
        let file = File::options().write(true).read(true).open(&image).unwrap();
        let mut word = [0; 4];
        file.read_exact_at(&mut word, 1024 + offset).unwrap();
        let word = u32::from_le_bytes(word) | bit;
        file.write_all_at(&word.to_le_bytes(), 1024 + offset).unwrap();
        let before = std::fs::read(&image).unwrap();
        let names = |e: String| {
            let name = if bit == 0x80 { "64bit".to_string() } else { format!("{bit:#x}") };
            assert!(e.contains(&name), "{e}");
        };
        match reading(&image) {
            Ok(mut v) => {
                assert!(read, "{bit:#x} in {offset:#x}");
                v.list("/").unwrap();
                v.unmount();
            }
            Err(e) => {
                assert!(!read, "{bit:#x} in {offset:#x}: {e}");
                names(e.to_string());
            }
        }
        assert!(std::fs::read(&image).unwrap() == before);
        match engine(&image, OpenOptions::default()) {
            Ok(_) => {
                assert!(written, "{bit:#x} in {offset:#x}");
                let mut v = plain(&image, "default");
                v.create("/new").unwrap();
                v.unmount();
            }
            Err(e) => {
                assert!(!written, "{bit:#x} in {offset:#x}: {e}");
                names(e.to_string());
                assert!(std::fs::read(&image).unwrap() == before);
            }
        }
    }
}

#[test]
fn a_journal_that_needs_recovery_is_read_only_on_demand() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024", "-J", "size=1", "-O", "has_journal"]);
    let source = dir.join("hello");
    std::fs::write(&source, b"hello, world\n").unwrap();
    debugfs_write(&image, &format!("write {} hello.txt", source.display()));
    debugfs_write(&image, "feature needs_recovery");
    let before = std::fs::read(&image).unwrap();
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    for opts in [
        OpenOptions::default(),
        read_only,
        OpenOptions { force: true, ..OpenOptions::default() },
        OpenOptions { no_recovery: true, ..OpenOptions::default() },
    ] {
        let e = checked(&image, opts).err().unwrap().to_string();
        assert!(e.contains("needs_recovery") && e.contains("-o ro,norecovery"), "{e}");
    }
    let mut v = checked(&image, OpenOptions { no_recovery: true, ..read_only }).unwrap();
    assert_eq!(v.read("/hello.txt", 0, 99).unwrap(), b"hello, world\n");
    v.unmount();
    assert!(std::fs::read(&image).unwrap() == before);
}
