//! fallocate, holes, and where they are found; exchange of names; links at their limit. e2fsck
//! judges, and the kernel reads.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{Plain, Res, TIME, Vol, cold, plain};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::Host;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Cred, Ctx, FsError, NewNode, Refused, RenameFlags, SeekWhat, Space};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{LoopMount, Scratch, assert_clean, mke2fs, pattern, run, tool};

fn space<H: Host<Format = Ext2>>(
    v: &mut Vol<H>,
    path: &str,
    range: (u64, u64),
    what: Space,
) -> Res<()> {
    let ino = v.stat(path)?.ino;
    let h = v.open(ino)?;
    let ctx = v.ctx.clone();
    let done = v.run(|fs, t| fs.space(&ctx, h, range, what, t));
    v.clunk(h);
    done
}

fn seek(v: &mut Plain, path: &str, at: u64, what: SeekWhat) -> Res<u64> {
    let ino = v.stat(path)?.ino;
    let h = v.open(ino)?;
    let ctx = v.ctx.clone();
    let done = v.run(|fs, t| fs.seek(&ctx, h, at, what, t));
    v.clunk(h);
    done
}

fn exchange(v: &mut Plain, a: &str, b: &str) -> Res<()> {
    let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
    v.rename_with(a, b, flags)
}

#[test]
fn holes_are_filled_and_made_as_in_a_plain_array() {
    for (bs, seed) in [(1024u64, 1u64), (4096, 2), (1024, 3)] {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, 8 << 20, &["-b", &bs.to_string(), "-N", "64", "-m", "0"]);
        let mut v = plain(&image, "default");
        v.create("/f").unwrap();
        let free = v.statfs().0;
        let mut model: Vec<u8> = Vec::new();
        let mut x = seed;
        let mut random = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for step in 0..160 {
            let (at, len) = (random(600_000), random(90_000) + 1);
            let end = (at + len) as usize;
            match random(6) {
                0..=1 => {
                    let bytes = pattern(len as usize, at);
                    v.write("/f", at, &bytes).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[at as usize..end].copy_from_slice(&bytes);
                }
                2..=3 => {
                    space(&mut v, "/f", (at, len), Space::Punch).unwrap();
                    let end = end.min(model.len());
                    if (at as usize) < end {
                        model[at as usize..end].fill(0);
                    }
                }
                4 => {
                    space(&mut v, "/f", (at, len), Space::Allocate).unwrap();
                    model.resize(model.len().max(end), 0);
                    let hole = seek(&mut v, "/f", at, SeekWhat::Hole).unwrap();
                    assert!(hole >= at + len, "{hole} in {at} and {len}");
                }
                _ => {
                    let size = random(700_000);
                    v.truncate("/f", size).unwrap();
                    model.resize(size as usize, 0);
                }
            }
            if step % 20 == 19 {
                v.unmount();
                assert_clean(&image);
                v = plain(&image, "default");
            }
            assert_eq!(v.stat("/f").unwrap().size, model.len() as u64);
            let got = v.read("/f", 0, model.len() + 1).unwrap();
            assert!(got == model, "step {step} of seed {seed}");
        }
        space(&mut v, "/f", (0, 1 << 20), Space::Punch).unwrap();
        assert_eq!(v.stat("/f").unwrap().blocks, 0, "indirect blocks go with what they held");
        v.sync().unwrap();
        assert_eq!(v.statfs().0, free);
        v.unmount();
        assert_clean(&image);
    }
}

#[test]
fn what_the_format_cannot_hold_is_said() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024", "-N", "64"]);
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, &[1; 5000]).unwrap();
    let keep = space(&mut v, "/f", (0, 5001), Space::AllocateKeepSize);
    assert!(matches!(keep, Err(FsError::Unsupported(_))), "{keep:?}");
    space(&mut v, "/f", (0, 5000), Space::AllocateKeepSize).unwrap();
    let none = space(&mut v, "/f", (9, 0), Space::Punch);
    assert_eq!(none, Err(FsError::Refused(Refused::Invalid)));
    let far = space(&mut v, "/f", (u64::MAX - 5, 5), Space::Allocate);
    assert_eq!(far, Err(FsError::Refused(Refused::FileTooBig)));
    let full = space(&mut v, "/f", (0, 64 << 20), Space::Allocate);
    assert_eq!(full, Err(FsError::Refused(Refused::NoSpace)));
    assert_eq!(v.read("/f", 0, 5000).unwrap(), [1; 5000]);
    v.unmount();
    assert_clean(&image);
}

#[test]
fn a_cold_host_makes_the_same_holes() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024", "-N", "64"]);
    let mut v = cold(&image, "strict");
    v.create("/f").unwrap();
    // Over the double indirect block, which begins at 268 KiB.
    v.write("/f", 200_000, &pattern(400_000, 7)).unwrap();
    space(&mut v, "/f", (250_000, 300_001), Space::Punch).unwrap();
    space(&mut v, "/f", (100, 220_000), Space::Allocate).unwrap();
    let got = v.read("/f", 0, 700_000).unwrap();
    let mut want = vec![0; 600_000];
    want[200_000..].copy_from_slice(&pattern(400_000, 7));
    want[250_000..550_001].fill(0);
    assert!(got == want);
    v.unmount();
    assert_clean(&image);
    let mount = LoopMount::ro(&image);
    assert!(std::fs::read(mount.path().join("f")).unwrap() == want);
    mount.unmount();
}

#[test]
fn two_names_change_places() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024", "-N", "64"]);
    let mut v = plain(&image, "default");
    for d in ["/a", "/a/sub", "/b", "/b/other", "/b/other/deep"] {
        v.mkdir(d).unwrap();
    }
    for f in ["/a/file", "/b/file", "/a/sub/inner"] {
        v.create(f).unwrap();
        v.write(f, 0, f.as_bytes()).unwrap();
    }
    let links = |v: &mut Plain, p: &str| v.stat(p).unwrap().nlink;
    // Two files, in two directories and in one.
    exchange(&mut v, "/a/file", "/b/file").unwrap();
    assert_eq!(v.read("/a/file", 0, 99).unwrap(), b"/b/file");
    assert_eq!(v.read("/b/file", 0, 99).unwrap(), b"/a/file");
    exchange(&mut v, "/a/file", "/a/sub").unwrap();
    assert_eq!(v.read("/a/sub", 0, 99).unwrap(), b"/b/file");
    assert_eq!(v.read("/a/file/inner", 0, 99).unwrap(), b"/a/sub/inner");
    // Two directories with different parents: `..` follows.
    exchange(&mut v, "/a/file", "/b/other").unwrap();
    assert_eq!(v.stat("/a/file/deep").unwrap().ino, v.stat("/a/file/deep").unwrap().ino);
    assert_eq!(v.stat("/b/other/..").unwrap().ino, v.stat("/b").unwrap().ino);
    assert_eq!((links(&mut v, "/a"), links(&mut v, "/b")), (3, 3));
    // A file and a directory: the parents' link counts follow.
    exchange(&mut v, "/b/file", "/a/file").unwrap();
    assert_eq!((links(&mut v, "/a"), links(&mut v, "/b")), (2, 4));
    assert_eq!(v.stat("/b/file/..").unwrap().ino, v.stat("/b").unwrap().ino);
    // What cannot be.
    let refused = |e| Err(FsError::Refused(e));
    assert_eq!(exchange(&mut v, "/b", "/absent"), refused(Refused::NotFound));
    assert_eq!(exchange(&mut v, "/b", "/b/file/deep"), refused(Refused::Invalid));
    assert_eq!(exchange(&mut v, "/b/file/deep", "/b"), refused(Refused::Invalid));
    let both = RenameFlags { exchange: true, no_replace: true };
    assert!(v.rename_with("/a", "/b", both).is_err());
    let keep = RenameFlags { no_replace: true, ..RenameFlags::default() };
    assert_eq!(v.rename_with("/a", "/b", keep), refused(Refused::Exists));
    v.rename_with("/a", "/c", keep).unwrap();
    v.unmount();
    assert_clean(&image);
}

#[test]
fn links_end_at_their_limit() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "4096", "-N", "32256", "-I", "128"]);
    let mut v = plain(&image, "hurd-full");
    v.mkdir("/d").unwrap();
    v.create("/d/f").unwrap();
    let (d, f) = (v.stat("/d").unwrap().ino, v.stat("/d/f").unwrap().ino);
    let ctx = v.ctx.clone();
    for i in 1..32_000 {
        v.run(|fs, t| fs.link(&ctx, f, d, format!("{i}").as_bytes(), t)).unwrap();
    }
    let more = v.link("/d/f", "/d/more").unwrap_err();
    assert_eq!(more, FsError::Refused(Refused::TooManyLinks));
    v.unlink("/d/77").unwrap();
    v.link("/d/f", "/d/more").unwrap();
    assert_eq!(v.stat("/d/f").unwrap().nlink, 32_000);
    v.unmount();
    assert_clean(&image);
}

/// Bytes that a file of 600 blocks may have after a power loss in the middle of losing some: each
/// block the old one, or zeroes where it could be gone.
fn is_between(got: &[u8], old: &[u8], gone: std::ops::Range<usize>) -> bool {
    got.chunks(1024).zip(old.chunks(1024)).enumerate().all(|(i, (g, o))| {
        g == &o[..g.len()] || gone.contains(&(i * 1024)) && g.iter().all(|b| *b == 0)
    })
}

#[test]
fn a_power_loss_in_the_middle_of_a_long_shrinking_or_a_hole() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 2 << 20, &["-b", "1024", "-N", "32", "-m", "0"]);
    let old = pattern(600 << 10, 5);
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.write("/f", 0, &old).unwrap();
    v.unmount();
    let base = std::fs::read(&image).unwrap();
    for shrinks in [true, false] {
        for limit in 0.. {
            let sb: [u8; 1024] = base[1024..2048].try_into().unwrap();
            let fs = Ext2::open(&sb, base.len() as u64, OpenOptions::default()).unwrap();
            let mut host = mount(fs, Numbered::new(MemDev::new(base.clone())), "strict").unwrap();
            host.dev.get_mut().faults.dead_after_writes = Some(limit);
            let mut v = Vol { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 };
            let done = if shrinks {
                v.truncate("/f", 10 << 10)
            } else {
                space(&mut v, "/f", (10 << 10, 580 << 10), Space::Punch)
            };
            let done = done.and_then(|()| v.sync()).is_ok();
            std::fs::write(&image, &v.host.dev.get_ref().data).unwrap();
            let seen = run(tool("e2fsck").arg("-fy").arg(&image));
            assert!(seen.code() <= 1, "after {limit} writes: {seen}");
            assert_clean(&image);
            let mut v = plain(&image, "default");
            let got = v.read("/f", 0, old.len()).unwrap();
            assert!(got.len() >= 10 << 10 && (shrinks || got.len() == old.len()), "{limit}");
            assert!(is_between(&got, &old, 10 << 10..590 << 10), "after {limit} writes");
            v.unmount();
            if done {
                assert!(limit >= 5, "{limit} writes only");
                break;
            }
        }
    }
}

#[test]
fn sticky_and_set_gid_directories_keep_their_rules() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024", "-N", "64"]);
    let mut v = plain(&image, "default");
    let user = |uid, gid| Some(Cred { uid, gid, groups: Vec::new() });
    v.ctx.owner = (5, 50);
    v.make("/sticky", NewNode::Dir, 0o1777).unwrap();
    v.make("/group", NewNode::Dir, 0o2777).unwrap();
    v.ctx.cred = user(6, 60);
    for f in ["/sticky/a", "/sticky/b", "/sticky/c"] {
        v.make(f, NewNode::File, 0o666).unwrap();
    }
    let refused = Err(FsError::Refused(Refused::NotPermitted));
    v.ctx.cred = user(7, 70);
    v.make("/sticky/mine", NewNode::File, 0o666).unwrap();
    assert_eq!(v.unlink("/sticky/a"), refused);
    assert_eq!(v.rename("/sticky/a", "/sticky/x"), refused);
    assert_eq!(v.rename("/sticky/mine", "/sticky/a"), refused);
    assert_eq!(exchange(&mut v, "/sticky/mine", "/sticky/a"), refused);
    v.rename("/sticky/mine", "/sticky/mine2").unwrap();
    // The owner of the name, of the directory, and user 0.
    for (uid, f) in [(6, "/sticky/a"), (5, "/sticky/b"), (0, "/sticky/c")] {
        v.ctx.cred = user(uid, 9);
        v.unlink(f).unwrap();
    }
    // The group goes on, to directories with the bit; a program keeps it for members only.
    v.ctx.cred = user(7, 70);
    let made = |v: &mut Plain, path: &str, node, mode| {
        let a = v.make(path, node, mode).unwrap();
        (a.gid, a.mode)
    };
    assert_eq!(made(&mut v, "/group/f", NewNode::File, 0o644), (50, 0o644));
    assert_eq!(made(&mut v, "/group/d", NewNode::Dir, 0o755), (50, 0o2755));
    assert_eq!(made(&mut v, "/group/p", NewNode::File, 0o2755), (50, 0o755));
    v.ctx.cred = user(7, 50);
    assert_eq!(made(&mut v, "/group/q", NewNode::File, 0o2755), (50, 0o2755));
    v.ctx.cred = None;
    v.unmount();
    assert_clean(&image);
}
