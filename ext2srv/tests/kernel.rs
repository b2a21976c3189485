//! The kernel's own ext2 and the engine see the same tree, both ways.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{FileDev, Plain, TIME, plain};
use seawall_diskfs::{NewNode, SetAttr, SetTime, Timestamp};
use seawall_ext2::{MkfsOptions, mkfs};
use seawall_tests::{
    Compare, Entry, Kind, LoopMount, Mtime, Scratch, Tree, assert_clean, assert_same_tree, mke2fs,
    run, sample_tree, tool, tree_snapshot,
};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn name(path: &Path) -> String {
    format!("/{}", path.to_str().unwrap())
}

/// Makes the tree of `source` with the engine.
fn copy_in(v: &mut Plain, source: &Path, tree: &Tree) {
    for (path, e) in tree {
        let to = name(path);
        if let Some(first) = &e.same_as {
            v.link(&name(first), &to).unwrap();
            continue;
        }
        match &e.kind {
            Kind::Dir => _ = v.mkdir(&to).unwrap(),
            Kind::Symlink(t) => {
                let t = t.to_str().unwrap();
                v.make(&to, NewNode::Symlink(t.as_bytes()), 0o777).unwrap();
            }
            _ => copy_file(v, &source.join(path), &to, e),
        }
    }
    // Last, because what is made in a directory changes its times.
    for (path, e) in tree {
        let at = Timestamp { secs: e.mtime.0, nanos: e.mtime.1 as u32 };
        let set = SetAttr {
            mode: (!matches!(e.kind, Kind::Symlink(_))).then_some(e.mode),
            uid: Some(e.owner.0),
            gid: Some(e.owner.1),
            mtime: SetTime::At(at),
            ..SetAttr::default()
        };
        v.set(&name(path), set).unwrap();
    }
}

fn copy_file(v: &mut Plain, from: &Path, to: &str, e: &Entry) {
    v.create(to).unwrap();
    let bytes = std::fs::read(from).unwrap();
    for (i, piece) in bytes.chunks(64 << 10).enumerate() {
        if piece.iter().any(|b| *b != 0) {
            v.write(to, (i * (64 << 10)) as u64, piece).unwrap();
        }
    }
    v.truncate(to, e.size).unwrap();
}

/// The engine must see what the snapshot says.
fn compare(v: &mut Plain, source: &Path, tree: &Tree) {
    for (path, e) in tree {
        let at = name(path);
        let a = v.stat(&at).unwrap_or_else(|err| panic!("{at}: {err}"));
        assert_eq!(a.mode, if matches!(e.kind, Kind::Symlink(_)) { 0o777 } else { e.mode }, "{at}");
        assert_eq!(a.mtime.secs, e.mtime.0, "{at}");
        match &e.kind {
            Kind::Dir => {}
            Kind::Symlink(t) => {
                assert_eq!(PathBuf::from(String::from_utf8(v.readlink(&at).unwrap()).unwrap()), *t);
            }
            _ => {
                assert_eq!((a.size, u64::from(a.nlink)), (e.size, e.nlink), "{at}");
                let got = v.read(&at, 0, e.size as usize + 1).unwrap();
                assert!(got == std::fs::read(source.join(path)).unwrap(), "content of {at}");
            }
        }
    }
}

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
