//! Inodes without a name that are still open: on the volume's list while they are, freed by the
//! next mount after a power loss, and understood by e2fsck. A damaged list is left alone.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{TIME, Vol, plain};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::{self, Blocking, Host};
use seawall_diskfs::testing::{AllMiss, MemDev, mount};
use seawall_diskfs::{Ctx, Event, Handle, PlanReq, Site};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{Scratch, assert_clean, debugfs, debugfs_write, mke2fs, pattern, run, tool};
use std::path::Path;

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

fn mounted(data: Vec<u8>) -> Mem {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&data[1024..2048]);
    let opts = OpenOptions { force: true, ..OpenOptions::default() };
    let fs = Ext2::open(&sb, data.len() as u64, opts).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
    Vol { host, ctx: Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() }, restarts: 0 }
}

fn recover<H: Host<Format = Ext2>>(v: &mut Vol<H>) -> usize {
    let ctx = v.ctx.clone();
    driver::recover(&mut v.host, &ctx).unwrap()
}

/// A volume with the files `f0` to `f3` of 30,000 bytes and `big`, everything written.
fn base() -> Vec<u8> {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 4 << 20, &["-b", "1024", "-N", "128"]);
    let mut v = plain(&image, "default");
    for i in 0..4 {
        v.create(&format!("/f{i}")).unwrap();
        v.write(&format!("/f{i}"), 0, &pattern(30_000, i)).unwrap();
    }
    v.create("/big").unwrap();
    v.write("/big", 0, &pattern(600_000, 9)).unwrap();
    v.unmount();
    std::fs::read(&image).unwrap()
}

fn last_orphan(data: &[u8]) -> u32 {
    u32::from_le_bytes(data[1024 + 0xE8..][..4].try_into().unwrap())
}

fn open<H: Host<Format = Ext2>>(v: &mut Vol<H>, path: &str) -> Handle {
    let ino = v.stat(path).unwrap().ino;
    v.open(ino).unwrap()
}

fn with_image<T>(data: &[u8], f: impl FnOnce(&Path) -> T) -> T {
    let dir = Scratch::new();
    let image = dir.join("image");
    std::fs::write(&image, data).unwrap();
    f(&image)
}

/// Opens and unlinks f0, f1 and f2, and returns the handles.
fn unlink_open<H: Host<Format = Ext2>>(v: &mut Vol<H>) -> Vec<Handle> {
    (0..3)
        .map(|i| {
            let h = open(v, &format!("/f{i}"));
            v.unlink(&format!("/f{i}")).unwrap();
            h
        })
        .collect()
}

#[test]
fn what_was_open_at_a_power_loss_is_freed_by_the_next_mount() {
    let mut v = mounted(base());
    let before = v.statfs();
    let handles = unlink_open(&mut v);
    v.write_handle(handles[1], 100, b"it still works").unwrap();
    v.sync().unwrap();
    assert_eq!(v.statfs(), before, "nothing is freed while it is open");
    let crashed = v.host.dev.get_ref().stable.clone();
    assert_ne!(last_orphan(&crashed), 0);

    // e2fsck knows the list.
    with_image(&crashed, |image| {
        let seen = run(tool("e2fsck").arg("-p").arg(image));
        assert!(seen.code() <= 1, "{seen}");
        assert_eq!(seen.stdout.matches("Clearing orphaned inode").count(), 3, "{seen}");
        assert_clean(image);
    });

    // So does the next mount.
    let mut w = mounted(crashed);
    assert_eq!(recover(&mut w), 3);
    assert_eq!(recover(&mut w), 0, "done");
    // 30 blocks and an indirect one each.
    assert_eq!(w.statfs(), (before.0 + 3 * 31, before.1 + 3));
    assert_eq!(w.read("/f3", 0, 40_000).unwrap(), pattern(30_000, 3));
    w.sync().unwrap();
    let ours = w.host.dev.get_ref().stable.clone();
    assert_eq!(last_orphan(&ours), 0);
    with_image(&ours, assert_clean);

    // And without a power loss they go with their last close.
    handles.into_iter().for_each(|h| v.clunk(h));
    assert_eq!(v.statfs(), (before.0 + 3 * 31, before.1 + 3));
    v.sync().unwrap();
    assert_eq!(last_orphan(&v.host.dev.get_ref().stable), 0);
    with_image(&v.host.dev.get_ref().stable, assert_clean);
}

/// Closes the three handles in an order; after each close the list holds the others.
fn closes_in_any_order<H: Host<Format = Ext2>>(mut v: Vol<H>, image: impl Fn(&H) -> Vec<u8>) {
    let handles = unlink_open(&mut v);
    for (n, i) in [1, 2, 0].into_iter().enumerate() {
        v.clunk(handles[i]);
        driver::run_plan(&mut v.host, PlanReq::Whole(Site::Syncfs)).unwrap();
        let mut w = mounted(image(&v.host));
        assert_eq!(recover(&mut w), 2 - n, "after {n} more closes");
        w.sync().unwrap();
        with_image(&w.host.dev.get_ref().stable, assert_clean);
    }
}

#[test]
fn an_inode_leaves_the_list_from_any_place() {
    let v = mounted(base());
    closes_in_any_order(v, |h| h.dev.get_ref().stable.clone());
    let Vol { host, ctx, restarts } = mounted(base());
    let cold = Vol { host: AllMiss(host), ctx, restarts };
    closes_in_any_order(cold, |h| h.0.dev.get_ref().stable.clone());
}

#[test]
fn a_replaced_file_and_a_removed_directory_are_listed_too() {
    let mut v = mounted(base());
    v.mkdir("/d").unwrap();
    let ino = v.stat("/d").unwrap().ino;
    let ctx = v.ctx.clone();
    let read = seawall_diskfs::OpenFlags { read: true, ..Default::default() };
    v.run(|fs, t| fs.open(&ctx, ino, read, t)).unwrap();
    open(&mut v, "/f1");
    v.rmdir("/d").unwrap();
    v.rename("/f0", "/f1").unwrap();
    v.sync().unwrap();
    let crashed = v.host.dev.get_ref().stable.clone();
    with_image(&crashed, |image| {
        let seen = run(tool("e2fsck").arg("-p").arg(image));
        assert!(seen.code() <= 1, "{seen}");
        assert_clean(image);
    });
    let mut w = mounted(crashed);
    assert_eq!(recover(&mut w), 2);
    assert_eq!(w.read("/f1", 0, 40_000).unwrap(), pattern(30_000, 0));
    w.sync().unwrap();
    with_image(&w.host.dev.get_ref().stable, assert_clean);
}

/// A device that dies after any write leaves what e2fsck repairs, and a list that is whole.
#[test]
fn every_prefix_of_the_writes_is_repaired() {
    let base = base();
    let script = |v: &mut Mem| -> common::Res<()> {
        let a = open(v, "/f0");
        let b = open(v, "/f1");
        v.unlink("/f0")?;
        v.unlink("/f1")?;
        v.sync()?;
        v.unlink("/big")?;
        v.sync()?;
        v.host.fs.clunk(a);
        v.sync()?;
        v.unlink("/f2")?;
        v.host.fs.clunk(b);
        v.sync()
    };
    let mut last = Vec::new();
    for limit in 0..400 {
        let mut v = mounted(base.clone());
        v.host.dev.get_mut().faults.dead_after_writes = Some(limit);
        let done = script(&mut v).is_ok();
        let data = core::mem::take(&mut v.host.dev.get_mut().data);
        if data != last {
            with_image(&data, |image| {
                let seen = run(tool("e2fsck").args(["-fy"]).arg(image));
                assert!(seen.code() <= 1, "after {limit} writes: {seen}");
                assert_clean(image);
            });
            let mut w = mounted(data.clone());
            recover(&mut w);
            assert_eq!(w.host.fs.take_events(), [], "after {limit} writes");
            last = data;
        }
        if done {
            assert!(limit > 20, "only {limit} writes");
            return;
        }
    }
    panic!("writes without end");
}

/// Made by other tools: two files on the list of a volume that is marked clean.
fn made_by_others(image: &Path) -> (u32, u32) {
    mke2fs(image, 2 << 20, &["-b", "1024", "-I", "128", "-N", "128"]);
    let dir = Scratch::new();
    for (i, name) in ["gone1", "gone2", "keep"].into_iter().enumerate() {
        let file = dir.join(name);
        std::fs::write(&file, pattern(30_000, i as u64)).unwrap();
        debugfs_write(image, &format!("write {} {name}", file.display()));
    }
    let number = |name: &str| -> u32 {
        let stat = debugfs(image, &format!("stat {name}"));
        stat.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (a, b) = (number("gone1"), number("gone2"));
    for name in ["gone1", "gone2"] {
        debugfs_write(image, &format!("unlink {name}"));
    }
    for (ino, next) in [(a, b), (b, 0)] {
        debugfs_write(image, &format!("set_inode_field <{ino}> links_count 0"));
        debugfs_write(image, &format!("set_inode_field <{ino}> dtime {next}"));
    }
    debugfs_write(image, &format!("set_super_value last_orphan {a}"));
    (a, b)
}

#[test]
fn a_list_made_by_others_is_freed() {
    let dir = Scratch::new();
    let image = dir.join("image");
    made_by_others(&image);
    let before = std::fs::read(&image).unwrap();

    let fs =
        common::engine(&image, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let host = mount(fs, common::FileDev::open(&image), "default").unwrap();
    let mut v = Vol {
        host,
        ctx: Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() },
        restarts: 0,
    };
    assert_eq!(recover(&mut v), 0);
    let (blocks, inodes) = v.statfs();
    v.unmount();
    assert!(std::fs::read(&image).unwrap() == before, "a read-only mount changes nothing");

    let mut v = plain(&image, "default");
    assert_eq!(recover(&mut v), 2);
    assert_eq!(v.statfs(), (blocks + 62, inodes + 2));
    assert_eq!(v.read("/keep", 0, 40_000).unwrap(), pattern(30_000, 2));
    v.unmount();
    assert_eq!(last_orphan(&std::fs::read(&image).unwrap()), 0);
    assert_clean(&image);
}

#[test]
fn a_damaged_list_is_reported_and_left_alone() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let (a, b) = made_by_others(&image);
    let good = std::fs::read(&image).unwrap();
    let free = 100;
    for (what, request) in [
        ("a ring", format!("set_inode_field <{b}> dtime {a}")),
        ("itself", format!("set_inode_field <{a}> dtime {a}")),
        ("past the table", "set_super_value last_orphan 4000000000".into()),
        ("the root", "set_super_value last_orphan 2".into()),
        ("a reserved inode", format!("set_inode_field <{b}> dtime 7")),
        ("a free inode", format!("set_inode_field <{b}> dtime {free}")),
    ] {
        std::fs::write(&image, &good).unwrap();
        debugfs_write(&image, &request);
        let head = last_orphan(&std::fs::read(&image).unwrap());
        let mut v = plain(&image, "default");
        assert_eq!(recover(&mut v), 0, "{what}");
        let events = v.host.fs.take_events();
        assert!(
            matches!(&events[..], [Event::Warning { what, .. }] if what.contains("orphan list")),
            "{what}: {events:?}"
        );
        // Life goes on, with the newcomers in front of the damage.
        let h = open(&mut v, "/keep");
        v.unlink("/keep").unwrap();
        v.clunk(h);
        v.unmount();
        assert_eq!(last_orphan(&std::fs::read(&image).unwrap()), head, "{what}");
        let seen = run(tool("e2fsck").args(["-fy"]).arg(&image));
        assert!(seen.code() <= 1, "{what}: {seen}");
    }
}
