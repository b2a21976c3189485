//! Damaged and hostile images: every operation ends with a result or one clear error, in bounded
//! time and memory, and never with a panic or an internal error.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{TIME, Vol, plain};
use seawall_blockdev::{BlockDev, Numbered};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::policy::OnError;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, Fs, FsError, Kind, MountOpts, PlanReq, Refused, SetAttr, Site};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{Scratch, debugfs, debugfs_write, mke2fs, pattern};
use std::collections::BTreeSet;
use std::path::Path;

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

/// An image with one of everything, and the blocks that hold its metadata.
fn sample(bs: u64, isize: &str) -> (Vec<u8>, Vec<u64>) {
    let dir = Scratch::new();
    let image = dir.join("image");
    let size = bs << 10;
    mke2fs(&image, size, &["-b", &bs.to_string(), "-I", isize, "-g", "512", "-N", "64"]);
    let mut v = plain(&image, "default");
    v.mkdir("/d").unwrap();
    v.mkdir("/d/e").unwrap();
    for i in 0..12 {
        v.create(&format!("/d/{i}{}", "n".repeat(60))).unwrap();
    }
    v.create("/file").unwrap();
    v.write("/file", 0, &pattern(20 * bs as usize, 1)).unwrap();
    v.write("/file", (12 + bs / 4 + 3) * bs, b"double").unwrap();
    v.symlink("/short", b"file").unwrap();
    v.symlink("/long", &[b'l'; 200]).unwrap();
    v.link("/file", "/d/e/again").unwrap();
    v.unmount();
    debugfs_write(&image, "ea_set /file user.colour green");
    let blocks = metadata_blocks(&image, bs);
    (std::fs::read(&image).unwrap(), blocks)
}

/// Superblock, descriptors, bitmaps, used parts of inode tables, directories, pointer blocks.
fn metadata_blocks(image: &Path, bs: u64) -> Vec<u64> {
    let mut out: BTreeSet<u64> = (0..4).collect();
    let mut number = |s: &str| {
        let digits = s.trim().trim_end_matches(',').trim_end_matches(')');
        out.extend(digits.parse::<u64>().ok());
    };
    for line in debugfs(image, "stats").lines() {
        for word in ["block bitmap at ", "inode bitmap at ", "inode table at "] {
            if let Some(rest) = line.split(word).nth(1) {
                number(rest.split([',', ' ']).next().unwrap_or(""));
            }
        }
    }
    for name in ["/", "/d", "/d/e", "/file", "/long"] {
        let stat = debugfs(image, &format!("stat {name}"));
        let at = stat.find("BLOCKS:").unwrap_or(stat.len());
        for part in stat[at..].split(['(', '\n', ' ']) {
            let Some((place, block)) = part.split_once("):") else { continue };
            if place.starts_with("IND") || place.starts_with("DIND") || !name.contains("file") {
                number(block.split('-').next().unwrap_or(""));
            }
        }
    }
    out.retain(|b| *b < 1024);
    assert!(out.len() > 12, "{out:?} in blocks of {bs}");
    out.into_iter().collect()
}

fn open(data: &[u8]) -> Result<Ext2, FsError> {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&data[1024..2048]);
    Ext2::open(&sb, data.len() as u64, OpenOptions { force: true, ..OpenOptions::default() })
}

fn mounted(data: Vec<u8>) -> Result<Mem, FsError> {
    let fs = open(&data)?;
    let host = mount(fs, Numbered::new(MemDev::new(data)), "default")?;
    let ctx = Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() };
    Ok(Vol { host, ctx, restarts: 0 })
}

/// An error that a damaged volume may give.
#[track_caller]
fn tolerate<T>(r: Result<T, FsError>) -> Option<T> {
    match r {
        Ok(t) => Some(t),
        Err(e @ (FsError::Bug(_) | FsError::Io(_))) => panic!("{e}"),
        Err(_) => None,
    }
}

/// Uses everything that can be reached.
fn exercise(v: &mut Mem) {
    let ctx = v.ctx.clone();
    tolerate(v.run(|fs, t| fs.statfs(&ctx, t)));
    let mut dirs = vec![String::from("/")];
    let mut files = Vec::new();
    let mut budget = 60;
    while let Some(dir) = dirs.pop() {
        let Some(list) = tolerate(v.list(&dir)) else { continue };
        for (name, ..) in list.into_iter().take(40) {
            budget -= 1;
            if budget < 0 {
                break;
            }
            let path = format!("{dir}/{name}");
            let Some(attr) = tolerate(v.stat(&path)) else { continue };
            match attr.kind {
                Kind::Dir => dirs.push(path.clone()),
                Kind::Symlink => _ = tolerate(v.readlink(&path)),
                Kind::File => {
                    tolerate(v.read(&path, 0, 60_000));
                    tolerate(v.read(&path, attr.size.saturating_sub(3000), 3000));
                }
                _ => {}
            }
            files.push(path);
        }
    }
    tolerate(v.create("/new"));
    tolerate(v.write("/new", 0, &pattern(40_000, 2)));
    tolerate(v.mkdir("/d/newdir"));
    tolerate(v.rename("/d/e", "/d/newdir/e"));
    tolerate(v.symlink("/d/newlink", &[b'x'; 99]));
    tolerate(v.write("/file", 5000, &pattern(9000, 3)));
    tolerate(v.truncate("/file", 14_000));
    tolerate(v.set("/short", SetAttr { mode: Some(0o600), ..SetAttr::default() }));
    for path in files.iter().rev() {
        if tolerate(v.unlink(path)).is_none() {
            tolerate(v.rmdir(path));
        }
    }
    tolerate(driver::unmount(&mut v.host, &ctx));
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
fn wild_superblock_fields() {
    let (base, _) = sample(1024, "128");
    for off in (0..0x170).step_by(2) {
        for wild in [0u32, 1, 3, 0x80, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0001] {
            for len in [2, 4] {
                let mut data = base.clone();
                data[1024 + off..][..len].copy_from_slice(&wild.to_le_bytes()[..len]);
                let Ok(mut v) = mounted(data) else { continue };
                tolerate(v.list("/"));
                tolerate(v.create("/x"));
                tolerate(v.write("/x", 0, &[1; 3000]));
                let ctx = v.ctx.clone();
                tolerate(v.run(|fs, t| fs.statfs(&ctx, t)));
            }
        }
    }
}

#[test]
fn damaged_metadata() {
    for (bs, isize, seeds) in [(1024, "128", 1200), (1024, "256", 400), (4096, "256", 400)] {
        let (base, blocks) = sample(bs, isize);
        mounted(base.clone()).map(|mut v| exercise(&mut v)).unwrap();
        for seed in 0..seeds {
            let mut r = Rng(seed);
            let mut data = base.clone();
            for _ in 0..1 + r.below(6) {
                let block = blocks[r.below(blocks.len())] as usize;
                let at = block * bs as usize + r.below(bs as usize);
                data[at] = match r.below(4) {
                    0 => 0,
                    1 => 0xFF,
                    2 => data[at] ^ (1 << r.below(8)),
                    _ => r.below(256) as u8,
                };
            }
            if let Some(mut v) = tolerate(mounted(data)) {
                exercise(&mut v);
            }
        }
    }
}

#[test]
fn whole_blocks_of_garbage() {
    let (base, blocks) = sample(1024, "256");
    for seed in 0..300 {
        let mut r = Rng(seed);
        let mut data = base.clone();
        let block = blocks[r.below(blocks.len())] as usize * 1024;
        let kind = r.below(3);
        for b in &mut data[block..block + 1024] {
            *b = if kind == 0 { 0xFF } else { r.below(256) as u8 };
        }
        if kind == 2 {
            // Pointers that stay inside the volume.
            for word in data[block..block + 1024].chunks_mut(4) {
                word.copy_from_slice(&(r.below(1024) as u32).to_le_bytes());
            }
        }
        if let Some(mut v) = tolerate(mounted(data)) {
            exercise(&mut v);
        }
    }
}

#[test]
fn an_image_cut_short() {
    let (base, _) = sample(1024, "128");
    for len in [2048, 4096, base.len() / 2, base.len() - 1] {
        let e = mounted(base[..len].to_vec()).err().unwrap();
        assert!(matches!(e, FsError::Corrupt(_)), "{e}");
        assert!(e.to_string().contains("its device only"), "{e}");
    }
}

#[test]
fn one_error_names_site_and_block() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024"]);
    let mut v = plain(&image, "default");
    v.mkdir("/d").unwrap();
    v.create("/f").unwrap();
    v.write("/f", 0, &[7; 20_000]).unwrap();
    v.unmount();
    debugfs_write(&image, "set_inode_field /f block[IND] 99999999");
    let d: u64 = debugfs(&image, "bmap /d 0").trim().parse().unwrap();
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[3], d * 1024 + 4).unwrap();
    let mut v = plain(&image, "default");
    let e = v.list("/d").unwrap_err();
    assert_eq!(
        e.to_string(),
        format!("corrupt filesystem: directory block at block {d}: a record's length is wrong")
    );
    // What is whole of the file stays readable.
    assert_eq!(v.read("/f", 0, 12_288).unwrap(), [7; 12_288]);
    let e = v.read("/f", 12_288, 10).unwrap_err();
    assert!(e.to_string().contains("block map") && e.to_string().contains("99999999"), "{e}");
    v.create("/other").unwrap();
}

/// The first damage that an operation meets is marked in the superblock; nothing else is written,
/// what is whole goes on working, and with `errors=remount-ro` nothing is changed any more.
#[test]
fn damage_is_marked_and_follows_the_policy() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 2 << 20, &["-b", "1024", "-I", "128"]);
    let mut v = plain(&image, "default");
    for d in ["/zero", "/odd", "/over", "/name", "/good"] {
        v.mkdir(d).unwrap();
        v.create(&format!("{d}/file")).unwrap();
    }
    v.write("/good/file", 0, b"hello, world").unwrap();
    v.unmount();
    let mut base = std::fs::read(&image).unwrap();
    let block = |path: &str| -> usize {
        let n: usize = debugfs(&image, &format!("bmap {path} 0")).trim().parse().unwrap();
        n * 1024
    };
    let zero = block("/zero");
    base[zero..zero + 1024].fill(0);
    base[block("/odd") + 24 + 4] = 13;
    base[block("/over") + 24 + 5] = 16;
    let name = block("/name") + 24;
    base[name + 4..name + 7].copy_from_slice(&[16, 0, 255]);
    for on_error in [OnError::Fail, OnError::ReadOnly] {
        let mut policy = seawall_diskfs::policy::preset("default").unwrap();
        policy.on_error = on_error;
        let dev = Numbered::new(MemDev::new(base.clone()));
        let opts = MountOpts::new(policy);
        let fs = Fs::new(open(&base).unwrap(), dev.caps(), dev.seqs(), opts).unwrap();
        let ctx = Ctx { now: TIME, ..Ctx::default() };
        let mut v = Vol { host: Blocking { fs, dev }, ctx: ctx.clone(), restarts: 0 };
        for d in ["/zero", "/odd", "/over", "/name"] {
            let e = v.list(d).unwrap_err();
            assert!(matches!(&e, FsError::Corrupt(c) if c.site == "directory block"), "{d}: {e}");
            assert_eq!(e.errno(), 117);
            v.create(&format!("{d}/new")).unwrap_err();
            v.rmdir(d).unwrap_err();
        }
        assert_eq!(v.read("/good/file", 0, 100).unwrap(), b"hello, world");
        driver::run_plan(&mut v.host, PlanReq::Whole(Site::Syncfs)).unwrap();
        let events = v.host.fs.take_events();
        assert_eq!(events.len(), 1, "{events:?}");
        let now = &v.host.dev.get_ref().data;
        let changed: Vec<usize> = (0..base.len()).filter(|i| base[*i] != now[*i]).collect();
        // The marks of the superblock alone: times, count of mounts, state.
        assert!(changed.iter().all(|i| (1024 + 0x2C..1024 + 0x3C).contains(i)), "{changed:?}");
        assert_eq!(now[1024 + 0x3A] & 2, 2);
        if on_error == OnError::ReadOnly {
            assert_eq!(changed, [1024 + 0x3A], "nothing else after the first damage");
        }
        let made = v.create("/good/new");
        if on_error == OnError::ReadOnly {
            assert_eq!(made.unwrap_err(), FsError::Refused(Refused::ReadOnly));
        } else {
            made.unwrap();
        }
        driver::unmount(&mut v.host, &ctx).unwrap();
        let after = v.host.dev.into_inner().data;
        assert_eq!(after[1024 + 0x3A] & 2, 2, "the next user checks it");
        let sb = after[1024..2048].try_into().unwrap();
        let next = Ext2::open(&sb, after.len() as u64, OpenOptions::default()).unwrap();
        assert!(next.read_only_because()[0].contains("not cleanly unmounted"));
    }
}

#[test]
fn wild_fields_of_wider_formats() {
    let dir = Scratch::new();
    let image = dir.join("image");
    for (features, size, read_only) in [
        ("meta_bg,^resize_inode,sparse_super2,huge_file", 1 << 20, false),
        // The least that holds a journal.
        ("has_journal,dir_nlink", 2 << 20, false),
        ("extent,64bit,flex_bg,mmp", 1 << 20, true),
        ("extent,64bit,meta_bg,^resize_inode", 1 << 20, true),
    ] {
        mke2fs(&image, size, &["-b", "1024", "-g", "512", "-N", "64", "-O", features]);
        let base = std::fs::read(&image).unwrap();
        let opts = OpenOptions { force: true, read_only, ..OpenOptions::default() };
        for off in (0..0x280).step_by(4) {
            for wild in [0u32, 1, 0x80, 0xFFFF_0000, 0xFFFF_FFFF] {
                let mut data = base.clone();
                data[1024 + off..][..4].copy_from_slice(&wild.to_le_bytes());
                let sb: [u8; 1024] = data[1024..2048].try_into().unwrap();
                let Some(fs) = tolerate(Ext2::open(&sb, data.len() as u64, opts)) else { continue };
                let ctx = Ctx { now: TIME, ..Ctx::default() };
                let host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
                let mut v = Vol { host, ctx: ctx.clone(), restarts: 0 };
                tolerate(driver::check_mount(&mut v.host, &ctx));
                tolerate(v.list("/"));
                tolerate(v.create("/x"));
                tolerate(v.write("/x", 0, &[1; 3000]));
                tolerate(v.run(|fs, t| fs.statfs(&ctx, t)));
            }
        }
    }
}

#[test]
fn wild_flags_of_groups() {
    let dir = Scratch::new();
    let image = dir.join("image");
    for group in [0, 3] {
        for (field, value) in [
            ("flags", "1"),
            ("flags", "2"),
            ("flags", "7"),
            ("flags", "0xFFFF"),
            ("itable_unused", "1"),
            ("itable_unused", "60"),
            ("itable_unused", "0xFFFF"),
            ("free_blocks_count", "0xFFFF"),
            ("free_inodes_count", "0xFFFF"),
        ] {
            let args = ["-b", "1024", "-g", "512", "-N", "512", "-O", "uninit_bg"];
            mke2fs(&image, 4 << 20, &args);
            let mut v = plain(&image, "default");
            for i in 0..12 {
                v.mkdir(&format!("/d{i}")).unwrap();
                v.create(&format!("/d{i}/f")).unwrap();
                v.write(&format!("/d{i}/f"), 0, &pattern(9000, i)).unwrap();
            }
            v.unmount();
            debugfs_write(&image, &format!("set_bg {group} {field} {value}"));
            debugfs_write(&image, &format!("set_bg {group} checksum calc"));
            if let Some(mut v) = tolerate(mounted(std::fs::read(&image).unwrap())) {
                exercise(&mut v);
            }
        }
    }
}

#[test]
fn what_the_features_say() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let opened = |args: &[&str]| {
        let all: Vec<&str> =
            ["-b", "1024", "-E", "lazy_itable_init=0"].iter().chain(args).copied().collect();
        mke2fs(&image, 16 << 20, &all);
        common::engine(&image, OpenOptions::default())
    };
    for written in ["^none", "extra_isize", "meta_bg,^resize_inode", "huge_file,dir_nlink"] {
        let args = if written == "^none" { &[][..] } else { &["-O", written] };
        assert_eq!(opened(args).unwrap().read_only_because(), [""; 0]);
    }
    for written in ["uninit_bg", "has_journal", "sparse_super2,^sparse_super,^resize_inode"] {
        assert_eq!(opened(&["-O", written]).unwrap().read_only_because(), [""; 0]);
    }
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    for (feature, names) in [
        ("extent", "extent;"),
        ("64bit,extent", "extent, 64bit;"),
        ("flex_bg", "flex_bg;"),
        ("mmp", "mmp;"),
        ("ea_inode", "ea_inode;"),
        ("metadata_csum", "metadata_csum;"),
        ("quota", "quota;"),
    ] {
        let e = opened(&["-O", feature]).unwrap_err();
        assert!(matches!(e, FsError::Unsupported(_)) && e.to_string().contains(names), "{e}");
        assert!(e.to_string().contains("a read-only mount (-o ro) works"), "{e}");
        let fs = common::engine(&image, read_only).unwrap();
        assert_eq!(fs.read_only_because(), ["asked for"]);
    }
    for (feature, name) in [
        ("inline_data", "inline_data"),
        ("encrypt", "encrypt"),
        ("casefold", "casefold"),
        ("extent,bigalloc", "bigalloc"),
    ] {
        opened(&["-O", feature]).unwrap_err();
        let e = common::engine(&image, read_only).unwrap_err();
        assert!(matches!(e, FsError::Unsupported(_)) && e.to_string().contains(name), "{e}");
    }
}
