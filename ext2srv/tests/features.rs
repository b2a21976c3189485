//! Features of the format that the engine writes: the kernel and the engine see the same tree both
//! ways on each set of them, and e2fsck calls what either left clean.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/trees.rs"]
mod trees;

use common::{TIME, Vol, checked, plain, reading};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, FsError, NewNode, PlanReq, Refused};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{
    Compare, Kind, LoopMount, Mtime, Scratch, assert_clean, assert_same_tree, debugfs,
    debugfs_write, dumpe2fs, pattern, run, sample_tree, tool, tree_snapshot,
};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use trees::{compare, copy_in, copy_of, name};

/// Name, arguments of mke2fs beside the features, features.
const SETS: [(&str, &[&str], &str); 6] = [
    ("meta_bg", &["-b", "1024", "-g", "512"], "meta_bg,^resize_inode"),
    (
        "sparse_super2",
        &["-b", "1024", "-g", "1024", "-E", "num_backup_sb=2"],
        "sparse_super2,^sparse_super,^resize_inode",
    ),
    ("uninit_bg", &["-b", "1024", "-g", "1024", "-N", "4096"], "uninit_bg"),
    ("uninit_bg, 4 KiB", &["-b", "4096", "-g", "1024", "-N", "4096"], "uninit_bg"),
    ("sizes", &["-b", "4096", "-I", "256"], "huge_file,dir_nlink,extra_isize,large_file"),
    (
        "all",
        &["-b", "2048", "-g", "256", "-I", "256"],
        "meta_bg,^resize_inode,uninit_bg,huge_file,dir_nlink,extra_isize,sparse_super2",
    ),
];

/// A volume on a disk that is full of old bytes, tables left as they are where the format allows.
fn make(image: &Path, size: u64, args: &[&str], features: &str) {
    let mut file = File::create(image).unwrap();
    for _ in 0..size >> 20 {
        file.write_all(&[0xA5; 1 << 20]).unwrap();
    }
    drop(file);
    let mut cmd = tool("mke2fs");
    cmd.args(["-q", "-F", "-t", "ext2", "-O", features, "-E", "nodiscard,lazy_itable_init=1"]);
    // A second -E replaces the first.
    let args: Vec<String> = args.iter().map(|a| a.replace("num_", LAZY_AND)).collect();
    run(cmd.args(args).arg(image)).ok();
}

const LAZY_AND: &str = "nodiscard,lazy_itable_init=1,num_";

fn empty(root: &Path) {
    for item in std::fs::read_dir(root).unwrap() {
        let path = item.unwrap().path();
        if !path.ends_with("lost+found") {
            run(tool("rm").arg("-rf").arg(&path)).ok();
        }
    }
}

#[test]
fn the_kernel_writes_and_the_engine_reads_and_removes() {
    for (set, args, features) in SETS {
        println!("{set}");
        let dir = Scratch::new();
        let image = dir.join("image");
        make(&image, 20 << 20, args, features);
        let mount = LoopMount::typed(&image, "ext4", "loop");
        sample_tree(mount.path());
        let tree = tree_snapshot(mount.path());
        let copy = dir.dir("copy");
        copy_of(mount.path(), &copy);
        mount.unmount();
        let mut v = plain(&image, "default");
        compare(&mut v, &copy, &tree);
        for (path, e) in tree.iter().rev() {
            let at = name(path);
            if e.kind == Kind::Dir { v.rmdir(&at) } else { v.unlink(&at) }.unwrap();
        }
        v.unmount();
        assert_clean(&image);
        let mount = LoopMount::typed(&image, "ext4", "loop,ro");
        assert!(tree_snapshot(mount.path()).is_empty());
        mount.unmount();
    }
}

#[test]
fn the_engine_writes_and_the_kernel_reads_and_removes() {
    for (set, args, features) in SETS {
        println!("{set}");
        let dir = Scratch::new();
        let (image, source) = (dir.join("image"), dir.dir("source"));
        sample_tree(&source);
        let tree = tree_snapshot(&source);
        make(&image, 20 << 20, args, features);
        let mut v = plain(&image, "default");
        copy_in(&mut v, &source, &tree);
        // Every group gets an inode and a block.
        v.mkdir("/spread").unwrap();
        for i in 0..300 {
            v.mkdir(&format!("/spread/{i}")).unwrap();
            v.create(&format!("/spread/{i}/f")).unwrap();
        }
        v.create("/most").unwrap();
        let (free, _) = v.statfs();
        let most = pattern(((free * 9 / 10) as usize) << 10, 5);
        v.write("/most", 0, &most).unwrap();
        v.unmount();
        assert_clean(&image);
        let mount = LoopMount::typed(&image, "ext4", "loop");
        assert!(std::fs::read(mount.path().join("most")).unwrap() == most, "{set}");
        std::fs::remove_file(mount.path().join("most")).unwrap();
        assert_eq!(std::fs::read_dir(mount.path().join("spread")).unwrap().count(), 300);
        run(tool("rm").arg("-rf").arg(mount.path().join("spread"))).ok();
        let how = Compare { mtime: Mtime::Seconds, owner: true, symlink_mtime: Mtime::Seconds };
        assert_same_tree(&tree, &tree_snapshot(mount.path()), how);
        empty(mount.path());
        mount.unmount();
        assert_clean(&image);
        let mut v = plain(&image, "default");
        assert_eq!(v.list("/").unwrap().len(), 1);
        v.unmount();
        assert_clean(&image);
    }
}

/// Groups that `dumpe2fs` shows with this flag.
fn flagged(image: &Path, flag: &str) -> usize {
    let seen = run(tool("dumpe2fs").arg(image)).ok().stdout;
    seen.lines().filter(|l| l.starts_with("Group ") && l.contains(flag)).count()
}

#[test]
fn first_use_of_a_group_makes_its_bitmaps_and_no_more() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 32 << 20, &["-b", "1024", "-g", "1024", "-N", "4096"], "uninit_bg,^resize_inode");
    let before = (flagged(&image, "INODE_UNINIT"), flagged(&image, "BLOCK_UNINIT"));
    assert!(before.0 > 28 && before.1 > 10, "{before:?}");
    // Looking, and refusing, initialises nothing.
    let mut v = plain(&image, "default");
    v.statfs();
    assert_eq!(v.stat("/x").unwrap_err(), FsError::Refused(Refused::NotFound));
    v.unmount();
    assert_eq!((flagged(&image, "INODE_UNINIT"), flagged(&image, "BLOCK_UNINIT")), before);
    let mut v = plain(&image, "default");
    for i in 0..6 {
        v.mkdir(&format!("/d{i}")).unwrap();
    }
    v.unmount();
    assert_clean(&image);
    let after = (flagged(&image, "INODE_UNINIT"), flagged(&image, "BLOCK_UNINIT"));
    assert!(after.0 < before.0 && after.0 >= before.0 - 7, "{before:?} {after:?}");
    assert!(after.1 >= before.1 - 7, "{before:?} {after:?}");
    // Of a table that was never zeroed only what is in use counts.
    let unused: Vec<u32> = run(tool("dumpe2fs").arg(&image))
        .ok()
        .stdout
        .lines()
        .filter_map(|l| l.split("directories, ").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert!(unused.len() > 20 && unused.iter().sum::<u32>() > 4096 - 32 - 32, "{unused:?}");
}

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

fn forced(dev: MemDev) -> Mem {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&dev.data[1024..2048]);
    let opts = OpenOptions { force: true, ..OpenOptions::default() };
    let fs = Ext2::open(&sb, dev.data.len() as u64, opts).unwrap();
    let host = mount(fs, Numbered::new(dev), "default").unwrap();
    Vol { host, ctx: Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() }, restarts: 0 }
}

/// What a power loss may leave: the flushed content and any of the writes since.
fn cut(dev: &MemDev, seed: u64) -> Vec<u8> {
    let mut data = dev.stable.clone();
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for (start, bytes) in &dev.unflushed {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if x >> 63 == 0 {
            data[*start as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    data
}

#[test]
fn a_file_that_was_synced_survives_a_power_loss_in_a_group_that_was_new() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 8 << 20, &["-b", "1024", "-g", "512", "-N", "512"], "uninit_bg,^resize_inode");
    let mut v = forced(MemDev::new(std::fs::read(&image).unwrap()));
    let mut synced = Vec::new();
    for i in 0..40u64 {
        let (d, f) = (format!("/d{i}"), format!("/d{i}/f"));
        v.mkdir(&d).unwrap();
        v.create(&f).unwrap();
        v.write(&f, 0, &pattern(3000, i)).unwrap();
        let ino = v.stat(&f).unwrap().ino;
        let handle = v.open(ino).unwrap();
        driver::run_plan(&mut v.host, PlanReq::Fsync { handle, datasync: false }).unwrap();
        v.clunk(handle);
        synced.push((f, i));
        // Something in flight, in the same groups and new ones.
        v.create(&format!("/d{i}/more")).unwrap();
        v.mkdir(&format!("/e{i}")).unwrap();
        if i % 5 != 4 {
            continue;
        }
        let crashed = cut(v.host.dev.get_ref(), i);
        // The next mount finds them without a checker, and a checker loses none.
        let mut w = forced(MemDev::new(crashed.clone()));
        for (path, n) in &synced {
            assert!(w.read(path, 0, 4000).unwrap() == pattern(3000, *n), "{path} after {i}");
        }
        std::fs::write(&image, &crashed).unwrap();
        let seen = run(tool("e2fsck").arg("-fy").arg(&image));
        assert!(seen.code() <= 1, "{seen}");
        assert_clean(&image);
        let mut w = plain(&image, "default");
        for (path, n) in &synced {
            assert!(w.read(path, 0, 4000).unwrap() == pattern(3000, *n), "{path} after {i}");
        }
    }
}

#[test]
fn no_name_comes_before_its_group_is_in_use() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 8 << 20, &["-b", "1024", "-g", "512", "-N", "512"], "uninit_bg,^resize_inode");
    let base = std::fs::read(&image).unwrap();
    let mut names = 0;
    for seed in (0..600u64).step_by(4) {
        let mut v = forced(MemDev::new(base.clone()));
        for i in 0..30 {
            v.mkdir(&format!("/d{i}")).unwrap();
            v.create(&format!("/d{i}/f")).unwrap();
        }
        v.host.dev.get_mut().faults.dead_after_writes = Some(seed);
        let ended = v.sync();
        let mut w = forced(MemDev::new(cut(v.host.dev.get_ref(), seed)));
        for (name, ..) in w.list("/").unwrap() {
            names += 1;
            w.stat(&format!("/{name}")).unwrap_or_else(|e| panic!("{name}, seed {seed}: {e}"));
            for (file, ..) in w.list(&format!("/{name}")).unwrap() {
                w.stat(&format!("/{name}/{file}")).unwrap();
            }
        }
        if ended.is_ok() {
            break;
        }
        assert!(seed < 590, "the last run ends in order");
    }
    assert!(names > 100, "{names}");
}

#[test]
fn a_wrong_descriptor_checksum_is_named() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 16 << 20, &["-b", "1024"], "uninit_bg");
    debugfs_write(&image, "set_bg 1 checksum 0x1234");
    let e = checked(&image, OpenOptions::default()).err().unwrap().to_string();
    assert!(e.contains("group descriptor") && e.contains("checksum of group 1"), "{e}");
}

#[test]
fn huge_files_count_in_either_unit() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 16 << 20, &["-b", "4096"], "huge_file,large_file");
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, &pattern(40_000, 1)).unwrap();
    v.unmount();
    // What a file beyond 2^48 units looks like: blocks of the filesystem are counted.
    debugfs_write(&image, "set_inode_field /f flags 0x40000");
    debugfs_write(&image, "set_inode_field /f blocks 10");
    assert_clean(&image);
    let mut v = plain(&image, "default");
    assert_eq!(v.stat("/f").unwrap().blocks, 80);
    v.write("/f", 40_000, &pattern(10_000, 2)).unwrap();
    v.unmount();
    assert_clean(&image);
    assert!(debugfs(&image, "stat /f").contains("Flags: 0x0"));
    // Above 2 TiB, where without the feature the count ends.
    let mut v = plain(&image, "default");
    let far = (1u64 << 42) - 70_000;
    v.write("/f", far, b"far").unwrap();
    v.unmount();
    assert_clean(&image);
    let mount = LoopMount::typed(&image, "ext4", "loop,ro");
    let seen = std::fs::metadata(mount.path().join("f")).unwrap();
    assert_eq!(seen.len(), far + 3);
    mount.unmount();
}

#[test]
fn directories_count_links_up_to_a_limit_and_then_no_more() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 8 << 20, &["-b", "1024"], "dir_nlink");
    let mut v = plain(&image, "default");
    v.mkdir("/d").unwrap();
    v.unmount();
    debugfs_write(&image, "set_inode_field /d links_count 65000");
    let mut v = plain(&image, "default");
    v.mkdir("/d/a").unwrap();
    assert_eq!(v.stat("/d").unwrap().nlink, 1, "no longer counted");
    v.mkdir("/d/b").unwrap();
    v.mkdir("/e").unwrap();
    v.rename("/e", "/d/e").unwrap();
    v.rmdir("/d/b").unwrap();
    assert_eq!(v.stat("/d").unwrap().nlink, 1);
    v.unmount();
    // e2fsck counts for itself and would only let the 1 stand for more than 65,000.
    let (code, said) = seawall_tests::e2fsck(&image);
    let wrong: Vec<&str> = said.lines().filter(|l| l.contains("Fix?")).collect();
    assert!(code == 4 && wrong.len() == 1, "{said}");
    assert!(wrong[0].ends_with("ref count is 1, should be 4.  Fix? no"), "{said}");
    // The kernel does not count again, either.
    let mount = LoopMount::typed(&image, "ext4", "loop");
    std::fs::remove_dir(mount.path().join("d/a")).unwrap();
    assert_eq!(std::fs::metadata(mount.path().join("d")).unwrap().nlink(), 1);
    mount.unmount();
    let mut v = plain(&image, "default");
    v.rmdir("/d/e").unwrap();
    v.rmdir("/d").unwrap();
    v.unmount();
    assert_clean(&image);

    make(&image, 8 << 20, &["-b", "1024"], "^dir_nlink");
    let mut v = plain(&image, "default");
    v.mkdir("/d").unwrap();
    v.unmount();
    debugfs_write(&image, "set_inode_field /d links_count 32000");
    let mut v = plain(&image, "default");
    assert_eq!(v.mkdir("/d/a").unwrap_err(), FsError::Refused(Refused::TooManyLinks));
}

#[test]
fn sixty_five_thousand_directories_in_one() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let args = ["-b", "1024", "-N", "66000", "-I", "128", "-O", "dir_nlink"];
    seawall_tests::mke2fs(&image, 96 << 20, &args);
    let mut v = plain(&image, "default");
    v.mkdir("/d").unwrap();
    let ino = v.stat("/d").unwrap().ino;
    let ctx = v.ctx.clone();
    for i in 0..65_100 {
        let name = format!("{i}");
        let node = NewNode::Dir;
        v.run(|fs, t| fs.create(&ctx, ino, name.as_bytes(), node, 0o755, t)).unwrap();
        // 64,998 are the last that are counted, and e2fsck agrees on both sides of the limit.
        if let Some(links) = [(64_997, 65_000), (64_998, 1)].iter().find(|(n, _)| *n == i) {
            assert_eq!(v.stat("/d").unwrap().nlink, links.1);
            v.sync().unwrap();
            assert_clean(&image);
        }
    }
    assert_eq!(v.stat("/d").unwrap().nlink, 1);
    v.unmount();
    assert_clean(&image);
}

#[test]
fn large_file_is_noted_with_the_first() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 8 << 20, &["-b", "1024"], "^large_file");
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.truncate("/f", (1 << 31) - 1).unwrap();
    v.unmount();
    assert!(!dumpe2fs(&image).contains("large_file"));
    let mut v = plain(&image, "default");
    v.truncate("/f", 1 << 31).unwrap();
    v.unmount();
    assert!(dumpe2fs(&image).contains("large_file"));
    assert_clean(&image);
}

#[test]
fn an_empty_journal_is_left_alone_and_a_full_one_refuses_writing() {
    let dir = Scratch::new();
    let image = dir.join("image");
    make(&image, 16 << 20, &["-b", "1024", "-J", "size=1"], "has_journal");
    let mount = LoopMount::typed(&image, "ext3", "loop");
    sample_tree(mount.path());
    let tree = tree_snapshot(mount.path());
    let copy = dir.dir("copy");
    copy_of(mount.path(), &copy);
    mount.unmount();
    let mut v = plain(&image, "default");
    compare(&mut v, &copy, &tree);
    v.create("/new").unwrap();
    v.unmount();
    assert_clean(&image);
    let mount = LoopMount::typed(&image, "ext3", "loop");
    assert!(mount.path().join("new").exists());
    mount.unmount();

    // A journal with something in it whose mark was lost: the next mount would replay it.
    let at: u64 = debugfs(&image, "bmap <8> 0").trim().parse().unwrap();
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&1u32.to_be_bytes(), at * 1024 + 0x1C).unwrap();
    let e = checked(&image, OpenOptions::default()).err().unwrap().to_string();
    assert!(e.contains("has_journal"), "{e}");
    let mut v = reading(&image).unwrap();
    compare(&mut v, &copy, &tree);
}
