//! Inode flags: what they forbid to everybody, what new nodes take over, and what the kernel's
//! tools see; the reserve of blocks, access times, and the Hurd's fields.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{FileDev, Plain, Res, Vol, engine, plain};
use seawall_blockdev::{BlockDev, PageBuf};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::flags::{FL_APPEND, FL_DIRSYNC, FL_IMMUTABLE, FL_NOATIME, FL_SYNC};
use seawall_diskfs::{
    Atime, AtimeOpts, Cred, Ctx, Fs, MountOpts, NewNode, OpenFlags, SetAttr, SetTime, Slice, Space,
    Timestamp, policy,
};
use seawall_ext2::OpenOptions;
use seawall_tests::{LoopMount, Scratch, assert_clean, debugfs, mke2fs, run, tool};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

fn image(dir: &Scratch, args: &[&str]) -> PathBuf {
    let path = dir.join("image");
    mke2fs(&path, 8 << 20, args);
    path
}

fn set_flags(v: &mut Plain, path: &str, flags: u32) -> Res<()> {
    let (ino, ctx) = (v.stat(path)?.ino, v.ctx.clone());
    v.run(|fs, t| fs.set_flags(&ctx, ino, flags, t)).map(|_| ())
}

fn errno<T: std::fmt::Debug>(r: Res<T>) -> i32 {
    r.unwrap_err().errno()
}

fn set(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

#[test]
fn what_is_immutable_stays() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, b"content").unwrap();
    v.mkdir("/d").unwrap();
    v.create("/d/in").unwrap();
    let ino = v.stat("/f").unwrap().ino;
    let before = v.open(ino).unwrap();
    set_flags(&mut v, "/f", FL_IMMUTABLE).unwrap();
    set_flags(&mut v, "/d", FL_IMMUTABLE).unwrap();
    let now = SetAttr { mtime: SetTime::Now, ..SetAttr::default() };
    let at = SetAttr { mtime: SetTime::At(Timestamp::default()), ..SetAttr::default() };
    for cred in [None, Some(0)] {
        let cred = cred.map(|uid| Cred { uid, ..Cred::default() });
        v.ctx = Ctx { cred, ..v.ctx.clone() };
        assert_eq!(errno(v.write("/f", 0, b"x")), 1, "open for writing");
        assert_eq!(errno(v.write_handle(before, 0, b"x")), 1, "a handle from before");
        assert_eq!(errno(v.truncate("/f", 0)), 1);
        assert_eq!(errno(v.unlink("/f")), 1);
        assert_eq!(errno(v.rename("/f", "/g")), 1);
        assert_eq!(errno(v.link("/f", "/g")), 1);
        assert_eq!(errno(v.set("/f", set(0o600))), 1);
        assert_eq!(errno(v.set("/f", now)), 1);
        assert_eq!(errno(v.set("/f", at)), 1);
        assert_eq!(errno(v.set_attr("/f", "user.x", b"")), 1);
        assert_eq!(errno(v.remove_attr("/f", "user.x")), 1);
        assert_eq!(errno(v.create("/d/new")), 1);
        assert_eq!(errno(v.mkdir("/d/new")), 1);
        assert_eq!(errno(v.unlink("/d/in")), 1);
        assert_eq!(errno(v.rename("/d/in", "/out")), 1);
        assert_eq!(errno(v.rename("/d", "/e")), 1);
        assert_eq!(errno(v.rmdir("/d")), 1);
        // What is in it may change.
        v.write("/d/in", 0, b"x").unwrap();
        v.create("/g").unwrap();
        assert_eq!(errno(v.rename("/g", "/f")), 1, "replacing it");
        v.unlink("/g").unwrap();
    }
    assert_eq!(v.read("/f", 0, 99).unwrap(), b"content");
    set_flags(&mut v, "/f", 0).unwrap();
    v.write("/f", 0, b"C").unwrap();
    v.clunk(before);
    v.unlink("/f").unwrap();
    v.unmount();
    assert_clean(&path);
}

#[test]
fn what_is_append_only_grows() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, b"one").unwrap();
    v.mkdir("/d").unwrap();
    v.create("/d/in").unwrap();
    let ino = v.stat("/f").unwrap().ino;
    let before = v.open(ino).unwrap();
    set_flags(&mut v, "/f", FL_APPEND).unwrap();
    set_flags(&mut v, "/d", FL_APPEND).unwrap();
    assert_eq!(errno(v.write("/f", 3, b"x")), 1, "open without O_APPEND");
    assert_eq!(errno(v.write_handle(before, 0, b"x")), 1);
    v.write_handle(before, 3, b"two").unwrap();
    let ctx = v.ctx.clone();
    let flags = OpenFlags { write: true, append: true, ..OpenFlags::default() };
    let h = v.run(|fs, t| fs.open(&ctx, ino, flags, t)).unwrap();
    v.write_handle(h, 0, b"three").unwrap();
    v.clunk(h);
    v.clunk(before);
    assert_eq!(v.read("/f", 0, 99).unwrap(), b"onetwothree");
    assert_eq!(errno(v.truncate("/f", 0)), 1);
    assert_eq!(errno(v.unlink("/f")), 1);
    assert_eq!(errno(v.link("/f", "/g")), 1);
    assert_eq!(errno(v.set("/f", set(0o600))), 1);
    assert_eq!(errno(v.set_attr("/f", "user.x", b"")), 1);
    v.set("/f", SetAttr { mtime: SetTime::Now, ..SetAttr::default() }).unwrap();
    v.create("/d/new").unwrap();
    assert_eq!(errno(v.unlink("/d/new")), 1);
    assert_eq!(errno(v.rename("/d/new", "/d/other")), 1);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn no_holes_in_what_only_grows() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, &[1; 20_000]).unwrap();
    let ino = v.stat("/f").unwrap().ino;
    let (h, ctx) = (v.open(ino).unwrap(), v.ctx.clone());
    for flag in [FL_APPEND, FL_IMMUTABLE] {
        set_flags(&mut v, "/f", flag).unwrap();
        let hole = v.run(|fs, t| fs.space(&ctx, h, (0, 8192), Space::Punch, t));
        assert_eq!(errno(hole), 1);
    }
    let more = v.run(|fs, t| fs.space(&ctx, h, (0, 40_000), Space::Allocate, t));
    assert_eq!(errno(more), 1);
    v.clunk(h);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn who_may_set_flags() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.symlink("/s", b"t").unwrap();
    v.ctx.cred = Some(Cred { uid: 1000, ..Cred::default() });
    set_flags(&mut v, "/f", FL_NOATIME | 0x8_0000 | 0x1000 | FL_DIRSYNC).unwrap();
    assert_eq!(v.stat("/f").unwrap().flags, FL_NOATIME, "what a file can have");
    assert_eq!(errno(set_flags(&mut v, "/f", FL_IMMUTABLE)), 1);
    v.ctx.cred = Some(Cred { uid: 1001, ..Cred::default() });
    assert_eq!(errno(set_flags(&mut v, "/f", 0)), 1);
    v.ctx.cred = Some(Cred::default());
    assert_eq!(errno(set_flags(&mut v, "/s", FL_NOATIME)), 95);
    v.unmount();
    assert_clean(&path);
}

/// `lsattr` lines by name.
fn lsattr(dir: &Path) -> Vec<String> {
    let seen = run(tool("lsattr").arg("-d").args(["", "f", "d"].map(|n| dir.join(n)))).ok();
    seen.stdout.lines().map(|l| l.split_whitespace().next().unwrap().to_string()).collect()
}

#[test]
fn flags_are_inherited_as_by_the_kernel() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mount = LoopMount::with(&path, "loop");
    let top = mount.path().join("top");
    std::fs::create_dir(&top).unwrap();
    run(tool("chattr").arg("+sudSDATa").arg(&top)).ok();
    std::fs::write(top.join("f"), b"").unwrap();
    std::fs::create_dir(top.join("d")).unwrap();
    let theirs = lsattr(&top);
    run(tool("chattr").arg("-a").arg(&top)).ok();
    std::fs::remove_file(top.join("f")).unwrap();
    std::fs::remove_dir(top.join("d")).unwrap();
    run(tool("chattr").arg("+a").arg(&top)).ok();
    mount.unmount();
    let mut v = plain(&path, "default");
    v.create("/top/f").unwrap();
    v.mkdir("/top/d").unwrap();
    v.unmount();
    assert_clean(&path);
    let mount = LoopMount::ro(&path);
    assert_eq!(lsattr(&mount.path().join("top")), theirs);
    mount.unmount();
}

#[test]
fn sync_and_dirsync_make_changes_durable() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    // A policy without a barrier of its own for either.
    let mut v = plain(&path, "lax");
    v.create("/f").unwrap();
    v.mkdir("/d").unwrap();
    v.mkdir("/plain").unwrap();
    set_flags(&mut v, "/f", FL_SYNC).unwrap();
    set_flags(&mut v, "/d", FL_DIRSYNC).unwrap();
    v.sync().unwrap();
    let dirty = |v: &mut Plain| v.host.fs.is_dirty();
    assert!(!dirty(&mut v));
    v.create("/plain/x").unwrap();
    assert!(dirty(&mut v));
    v.sync().unwrap();
    v.create("/d/x").unwrap();
    assert!(!dirty(&mut v), "a create");
    v.rename("/d/x", "/d/y").unwrap();
    assert!(!dirty(&mut v), "a rename");
    v.link("/d/y", "/plain/z").unwrap();
    assert!(dirty(&mut v), "a name in another directory");
    v.rename("/plain/z", "/d/z").unwrap();
    assert!(!dirty(&mut v), "a name from another directory");
    v.unlink("/d/z").unwrap();
    assert!(!dirty(&mut v), "an unlink");
    v.write("/f", 0, b"synchronous").unwrap();
    assert_eq!(v.host.fs.stats().dirty_bytes, 0, "a write is followed by what fsync does");
    v.set("/f", set(0o600)).unwrap();
    assert!(!dirty(&mut v), "a chmod");
    v.set_attr("/f", "user.x", b"1").unwrap();
    assert!(!dirty(&mut v), "an attribute");
    let seqs = v.host.dev.seqs();
    assert_eq!(seqs.acked, seqs.durable, "flushed, too");
    v.unmount();
    assert_clean(&path);
}

#[test]
fn the_reserve_is_kept() {
    for (args, uid, gid) in
        [(&["-m", "10"][..], 0, 0), (&["-m", "10", "-E", "root_owner=5:6"], 5, 6)]
    {
        let dir = Scratch::new();
        let path = image(&dir, args);
        if uid != 0 {
            run(tool("tune2fs").args(["-u", "5", "-g", "6"]).arg(&path)).ok();
        }
        let mut v = plain(&path, "default");
        let stat = |v: &mut Plain| {
            let ctx = v.ctx.clone();
            v.run(|fs, t| fs.statfs(&ctx, t)).unwrap()
        };
        let start = stat(&mut v);
        let kept = start.blocks_free - start.blocks_available;
        assert!(kept > 100, "{kept}");
        v.create("/f").unwrap();
        let whole = vec![1u8; 16 << 20];
        let user = v.ctx.clone();
        assert_eq!(errno(v.write("/f", 0, &whole)), 28);
        // Up to the last block: writes shrink to what there is.
        let mut at = v.stat("/f").unwrap().size;
        while v.write("/f", at, &[1; 1024]).is_ok() {
            at += 1024;
        }
        let full = stat(&mut v);
        assert_eq!((full.blocks_free, full.blocks_available), (kept, 0));
        assert_eq!(errno(v.mkdir("/d")), 28);
        assert_eq!(errno(v.symlink("/s", &[b'x'; 100])), 28);
        for cred in [
            Cred { uid: 77, gid, groups: vec![] },
            Cred { uid: 77, gid: 78, groups: vec![gid] },
            Cred { uid, gid: 99, groups: vec![] },
        ] {
            let may = cred.uid == uid || gid != 0;
            v.ctx.cred = Some(cred);
            let ctx = v.ctx.clone();
            v.ctx.cred = None;
            v.ctx.owner = (0, 0);
            v.set("/", set(0o777)).unwrap();
            v.ctx = ctx;
            let made = v.mkdir("/d");
            assert_eq!(made.is_ok(), may);
            if may {
                v.rmdir("/d").unwrap();
            }
        }
        v.ctx = user;
        v.unlink("/f").unwrap();
        v.mkdir("/d").unwrap();
        v.unmount();
        assert_clean(&path);
    }
}

fn with_atime(path: &Path, when: Atime, read_only: bool) -> Plain {
    let dev = FileDev::open(path);
    let policy = policy::preset("default").unwrap();
    let atime = AtimeOpts { when, no_dirs: false };
    let opts = MountOpts { atime, read_only, ..MountOpts::new(policy) };
    let fs = Fs::new(engine(path, OpenOptions::default()).unwrap(), dev.caps(), dev.seqs(), opts);
    let ctx = Ctx { now: common::TIME, ..Ctx::default() };
    Vol { host: Blocking { fs: fs.unwrap(), dev }, ctx, restarts: 0 }
}

#[test]
fn access_times() {
    let dir = Scratch::new();
    let path = image(&dir, &[]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, b"content").unwrap();
    v.mkdir("/d").unwrap();
    v.symlink("/s", b"target").unwrap();
    v.create("/A").unwrap();
    v.write("/A", 0, b"quiet").unwrap();
    set_flags(&mut v, "/A", FL_NOATIME).unwrap();
    v.unmount();
    let read_all = |v: &mut Plain, secs: i64| {
        v.ctx.now = Timestamp { secs: common::TIME.secs + secs, nanos: 5 };
        v.read("/f", 0, 9).unwrap();
        v.read("/A", 0, 9).unwrap();
        v.readlink("/s").unwrap();
        v.list("/d").unwrap();
        ["/f", "/d", "/s", "/A"].map(|p| v.stat(p).unwrap().atime.secs - common::TIME.secs)
    };
    let bytes = std::fs::read(&path).unwrap();
    let mut v = with_atime(&path, Atime::Always, true);
    assert_eq!(read_all(&mut v, 10), [0; 4], "a volume that is not written");
    v.unmount();
    let mut v = with_atime(&path, Atime::Never, false);
    assert_eq!(read_all(&mut v, 10), [0; 4]);
    v.unmount();
    assert!(bytes == std::fs::read(&path).unwrap(), "not a byte was written");
    let mut v = with_atime(&path, Atime::Relative, false);
    assert_eq!(read_all(&mut v, 10), [10, 10, 10, 0]);
    assert_eq!(read_all(&mut v, 20), [10, 10, 10, 0]);
    assert_eq!(read_all(&mut v, 10 + 86_400), [86_410, 86_410, 86_410, 0]);
    v.write("/f", 0, b"C").unwrap();
    assert_eq!(read_all(&mut v, 86_500), [86_500, 86_410, 86_410, 0]);
    // No fsync has to cover a read.
    v.sync().unwrap();
    let ino = v.stat("/f").unwrap().ino;
    let h = v.open(ino).unwrap();
    assert_eq!(read_all(&mut v, 200_000)[0], 200_000);
    let acked = v.host.dev.seqs().acked;
    let req = seawall_diskfs::PlanReq::Fsync { handle: h, datasync: false };
    driver::run_plan(&mut v.host, req).unwrap();
    assert_eq!(v.host.dev.seqs().acked, acked, "fsync wrote nothing");
    v.clunk(h);
    v.unmount();
    assert_clean(&path);
    let mut v = with_atime(&path, Atime::Always, false);
    assert_eq!(read_all(&mut v, 200_001), [200_001, 200_001, 200_001, 0]);
    assert_eq!(read_all(&mut v, 200_002), [200_002, 200_002, 200_002, 0]);
    v.unmount();
    assert_clean(&path);
}

/// A volume of the Hurd's: `/node` has a translator block, upper mode bits and an author.
fn hurd(dir: &Scratch) -> PathBuf {
    let path = image(dir, &["-b", "1024", "-I", "128", "-o", "hurd", "-O", "none,sparse_super"]);
    let mut v = plain(&path, "default");
    v.create("/plain").unwrap();
    v.create("/node").unwrap();
    v.write("/node", 0, b"hello").unwrap();
    v.set_attr("/node", "gnu.translator", b"/hurd/firmlink\0/plain\0").unwrap();
    v.unmount();
    assert_clean(&path);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&7u16.to_le_bytes(), node_at(&path) + MODE_HIGH).unwrap();
    file.write_all_at(&4242u32.to_le_bytes(), node_at(&path) + AUTHOR).unwrap();
    path
}

/// Offset of `h_i_mode_high` in an inode.
const MODE_HIGH: u64 = 0x76;
/// Offset of `h_i_author`.
const AUTHOR: u64 = 0x7C;

/// Where the inode of `/node` is.
fn node_at(path: &Path) -> u64 {
    let shown = debugfs(path, "imap /node");
    let (block, offset) = shown.split_once("block ").unwrap().1.split_once(", offset 0x").unwrap();
    let block = block.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    block * 1024 + u64::from_str_radix(offset.trim(), 16).unwrap()
}

#[test]
fn the_hurds_fields_live_with_the_inode() {
    let dir = Scratch::new();
    let path = hurd(&dir);
    let shown = |path: &Path| {
        let stat = debugfs(path, "stat /node");
        let block = stat.split("Translator: ").nth(1).unwrap().split_whitespace().next().unwrap();
        let (mut high, mut author) = ([0; 2], [0; 4]);
        let file = std::fs::File::open(path).unwrap();
        file.read_exact_at(&mut high, node_at(path) + MODE_HIGH).unwrap();
        file.read_exact_at(&mut author, node_at(path) + AUTHOR).unwrap();
        (block.to_string(), u16::from_le_bytes(high), u32::from_le_bytes(author))
    };
    let before = shown(&path);
    assert_ne!(before.0, "0");
    assert_eq!((before.1, before.2), (7, 4242));
    let mut v = plain(&path, "default");
    assert_eq!(v.attr("/node", "gnu.translator").unwrap(), b"/hurd/firmlink\0/plain\0");
    assert_eq!(v.attrs("/node").unwrap(), ["gnu.author", "gnu.mode_high", "gnu.translator"]);
    assert_eq!(v.stat("/node").unwrap().uid, 1000, "mode_high is no part of it");
    v.set("/node", set(0o600)).unwrap();
    v.set("/node", SetAttr { mtime: SetTime::Now, ..SetAttr::default() }).unwrap();
    v.write("/node", 5, &[b'x'; 3000]).unwrap();
    v.truncate("/node", 0).unwrap();
    assert_eq!(v.stat("/node").unwrap().blocks, 2, "the translator's");
    v.set_attr("/node", "user.x", &[1; 100]).unwrap();
    v.rename("/node", "/plain").unwrap();
    v.rename("/plain", "/node").unwrap();
    v.unmount();
    assert_clean(&path);
    assert_eq!(shown(&path), before);
    let block = &before.0;
    assert!(debugfs(&path, &format!("testb {block}")).contains("marked in use"));

    let mut v = plain(&path, "default");
    let free = v.statfs().0;
    v.set_attr("/node", "gnu.translator", b"/hurd/null\0").unwrap();
    assert_eq!(v.attr("/node", "gnu.translator").unwrap(), b"/hurd/null\0");
    assert_eq!(v.statfs().0, free);
    assert_eq!(errno(v.set_attr("/node", "gnu.translator", &[b'x'; 1023])), 28);
    v.remove_attr("/node", "gnu.translator").unwrap();
    assert_eq!(v.statfs().0, free + 1);
    assert_eq!(v.attrs("/node").unwrap(), ["gnu.author", "gnu.mode_high", "user.x"]);
    v.set_attr("/node", "gnu.translator", b"/hurd/null\0").unwrap();
    v.symlink("/link", b"short").unwrap();
    v.set_attr("/link", "gnu.translator", b"/hurd/symlink\0x\0").unwrap();
    assert_eq!(v.readlink("/link").unwrap(), b"short");
    v.unlink("/link").unwrap();
    v.unlink("/node").unwrap();
    assert_eq!(v.statfs().0, free + 4 - 2, "freed with the inode");
    v.unmount();
    assert_clean(&path);
}

#[test]
fn a_damaged_translator_is_named() {
    let dir = Scratch::new();
    let path = hurd(&dir);
    let stat = debugfs(&path, "stat /node");
    let block: u64 = stat
        .split("Translator: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[block as usize * 1024 + 1] = 0xFF;
    std::fs::write(&path, &bytes).unwrap();
    let mut v = plain(&path, "default");
    let e = v.attr("/node", "gnu.translator").unwrap_err();
    assert!(e.to_string().contains(&format!("translator block at block {block}")), "{e}");
    // Whoever sets one anew is not kept from it.
    v.set_attr("/node", "gnu.translator", b"/hurd/null\0").unwrap();
    v.unmount();
    assert_clean(&path);
}

#[test]
fn times_of_four_centuries() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "256"]);
    let times = [
        (-2_147_483_648, 0),
        (-1, 999_999_999),
        (0, 0),
        (2_147_483_647, 1),
        (2_147_483_648, 2),
        (2_209_032_000, 7),
        (4_294_967_295, 6),
        (15_032_385_535, 999_999_999),
    ];
    let mut v = plain(&path, "default");
    for (i, (secs, nanos)) in times.iter().enumerate() {
        let at = format!("/f{i}");
        v.make(&at, NewNode::File, 0o644).unwrap();
        let born = v.stat(&at).unwrap().btime;
        let t = SetTime::At(Timestamp { secs: *secs, nanos: *nanos });
        v.set(&at, SetAttr { mtime: t, atime: t, ..SetAttr::default() }).unwrap();
        assert_eq!(v.stat(&at).unwrap().btime, born, "the birth time stays");
    }
    let h = {
        let ino = v.stat("/f0").unwrap().ino;
        v.open(ino).unwrap()
    };
    let empty = Slice::new(PageBuf::from_slice(b""));
    let ctx = v.ctx.clone();
    v.run(|fs, t| fs.write(&ctx, h, 0, &empty, t)).unwrap();
    v.clunk(h);
    v.unmount();
    assert_clean(&path);
    let mount = LoopMount::ro(&path);
    for (i, (secs, nanos)) in times.iter().enumerate() {
        let m = std::fs::metadata(mount.path().join(format!("f{i}"))).unwrap();
        assert_eq!((m.mtime(), m.mtime_nsec()), (*secs, i64::from(*nanos)));
        assert_eq!((m.atime(), m.atime_nsec()), (*secs, i64::from(*nanos)));
    }
    mount.unmount();
    let mut v = plain(&path, "default");
    for (i, (secs, nanos)) in times.iter().enumerate() {
        let got = v.stat(&format!("/f{i}")).unwrap().mtime;
        assert_eq!(got, Timestamp { secs: *secs, nanos: *nanos });
    }
    v.unmount();
}
