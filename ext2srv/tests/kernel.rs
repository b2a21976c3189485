//! The kernel's own ext2 and the engine see the same tree, both ways.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/trees.rs"]
mod trees;

use common::{FileDev, TIME, plain};
use seawall_ext2::{MkfsOptions, mkfs};
use seawall_tests::{
    Compare, Kind, LoopMount, Mtime, Scratch, assert_clean, assert_same_tree, mke2fs, run,
    sample_tree, tool, tree_snapshot,
};
use std::os::unix::fs::MetadataExt;
use trees::{compare, copy_in, name};

#[test]
fn the_kernel_writes_and_the_engine_reads_and_removes() {
    for args in [["-b", "1024", "-I", "128"], ["-b", "4096", "-I", "256"]] {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, 32 << 20, &args);
        let mount = LoopMount::rw(&image);
        sample_tree(mount.path());
        let tree = tree_snapshot(mount.path());
        let mut v = {
            let copy = dir.dir("copy");
            run(tool("cp").args(["-a", "-T"]).arg(mount.path()).arg(&copy)).ok();
            mount.unmount();
            let mut v = plain(&image, "default");
            compare(&mut v, &copy, &tree);
            v
        };
        for (path, e) in tree.iter().rev() {
            let at = name(path);
            if e.kind == Kind::Dir { v.rmdir(&at) } else { v.unlink(&at) }.unwrap();
        }
        v.unmount();
        assert_clean(&image);
        let mount = LoopMount::ro(&image);
        assert!(tree_snapshot(mount.path()).is_empty());
        mount.unmount();
    }
}

#[test]
fn the_engine_writes_and_the_kernel_reads_and_removes() {
    for (block_size, inode_size) in [(1024, 128), (4096, 256)] {
        let dir = Scratch::new();
        let (image, source) = (dir.join("image"), dir.dir("source"));
        sample_tree(&source);
        let tree = tree_snapshot(&source);
        let opts =
            MkfsOptions { block_size, inode_size, ..MkfsOptions::new(32 << 20, [7; 16], TIME) };
        mkfs(&mut FileDev::create(&image, 32 << 20), &opts).unwrap();
        let mut v = plain(&image, "default");
        copy_in(&mut v, &source, &tree);
        v.unmount();
        assert_clean(&image);
        let mount = LoopMount::rw(&image);
        // The kernel's ext2 keeps whole seconds, whatever the inode has room for.
        let how = Compare { mtime: Mtime::Seconds, owner: true, symlink_mtime: Mtime::Seconds };
        assert_same_tree(&tree, &tree_snapshot(mount.path()), how);
        let holes = std::fs::metadata(mount.path().join("holes")).unwrap();
        assert!(holes.blocks() * 512 < 400 << 10, "{} units", holes.blocks());
        for item in std::fs::read_dir(mount.path()).unwrap() {
            let path = item.unwrap().path();
            if !path.ends_with("lost+found") {
                run(tool("rm").arg("-rf").arg(&path)).ok();
            }
        }
        mount.unmount();
        assert_clean(&image);
        let mut v = plain(&image, "default");
        assert_eq!(v.list("/").unwrap().len(), 1);
        v.unmount();
        assert_clean(&image);
    }
}

#[test]
fn free_space_is_what_the_kernel_says() {
    for args in [["-b", "1024"], ["-b", "4096"]] {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, 64 << 20, &args);
        let mount = LoopMount::ro(&image);
        let seen = run(tool("stat").args(["-f", "-c", "%S %b %f %a %c %d"]).arg(mount.path())).ok();
        mount.unmount();
        let mut v = plain(&image, "default");
        let ctx = v.ctx.clone();
        let s = v.run(|fs, t| fs.statfs(&ctx, t)).unwrap();
        let own = [
            u64::from(s.block_size),
            s.blocks,
            s.blocks_free,
            s.blocks_available,
            s.files,
            s.files_free,
        ];
        let kernel: Vec<u64> = seen.stdout.split_whitespace().map(|w| w.parse().unwrap()).collect();
        assert_eq!(own[..], kernel[..]);
    }
}
