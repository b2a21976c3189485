//! The order on disk: a device that dies after its n-th write leaves a volume that e2fsck repairs,
//! and on which everything that a sync acknowledged is there.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{TIME, Vol, plain};
use seawall_blockdev::Numbered;
use seawall_diskfs::Ctx;
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{Scratch, assert_clean, mke2fs, pattern, run, tool};

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

const BATCHES: usize = 2;

fn mounted(data: Vec<u8>, preset: &str) -> Mem {
    let mut sb = [0u8; 1024];
    sb.copy_from_slice(&data[1024..2048]);
    let fs = Ext2::open(&sb, data.len() as u64, OpenOptions::default()).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(data)), preset).unwrap();
    Vol { host, ctx: Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() }, restarts: 0 }
}

/// One batch of operations in a directory of its own. What stays when it is done and synced:
/// `keep`, `moved` and `deep/inner`.
fn batch(v: &mut Mem, n: usize) -> common::Res<()> {
    let d = format!("/batch{n}");
    v.mkdir(&d)?;
    v.mkdir(&format!("{d}/deep"))?;
    v.create(&format!("{d}/keep"))?;
    v.write(&format!("{d}/keep"), 0, &pattern(30_000, n as u64))?;
    v.create(&format!("{d}/old"))?;
    v.write(&format!("{d}/old"), 0, b"content")?;
    v.create(&format!("{d}/moved"))?;
    v.write(&format!("{d}/moved"), 0, &[9; 20_000])?;
    v.rename(&format!("{d}/old"), &format!("{d}/moved"))?;
    v.create(&format!("{d}/gone"))?;
    v.write(&format!("{d}/gone"), 0, &[1; 15_000])?;
    v.truncate(&format!("{d}/gone"), 2000)?;
    v.unlink(&format!("{d}/gone"))?;
    v.mkdir(&format!("{d}/tmp"))?;
    v.create(&format!("{d}/tmp/inner"))?;
    v.rename(&format!("{d}/tmp/inner"), &format!("{d}/deep/inner"))?;
    v.rmdir(&format!("{d}/tmp"))?;
    v.sync()
}

fn check(v: &mut common::Plain, n: usize) {
    let d = format!("/batch{n}");
    assert!(v.read(&format!("{d}/keep"), 0, 40_000).unwrap() == pattern(30_000, n as u64));
    assert_eq!(v.read(&format!("{d}/moved"), 0, 99).unwrap(), b"content");
    assert_eq!(v.stat(&format!("{d}/deep/inner")).unwrap().size, 0);
}

/// Runs the batches on a device that takes `limit` writes. Returns the batches acknowledged and
/// what the device holds.
fn die_after(base: &[u8], preset: &str, limit: u64) -> (usize, Vec<u8>) {
    let mut v = mounted(base.to_vec(), preset);
    v.host.dev.get_mut().faults.dead_after_writes = Some(limit);
    let acked = (0..BATCHES).take_while(|n| batch(&mut v, *n).is_ok()).count();
    (acked, core::mem::take(&mut v.host.dev.get_mut().data))
}

#[test]
fn every_prefix_of_the_writes_is_repaired() {
    // `strict` writes after each operation: a part of its many prefixes.
    for (preset, bs, step) in
        [("default", "1024", 1), ("default", "4096", 2), ("strict", "1024", 5)]
    {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, 1 << 20, &["-b", bs, "-N", "64"]);
        let base = std::fs::read(&image).unwrap();
        let mut last = None;
        for limit in (0..).step_by(step) {
            let (acked, data) = die_after(&base, preset, limit);
            if last.as_ref() == Some(&data) && acked < BATCHES {
                // Only the number of the failing write differs.
                continue;
            }
            std::fs::write(&image, &data).unwrap();
            let seen = run(tool("e2fsck").args(["-fy"]).arg(&image));
            assert!(seen.code() <= 1, "{preset} after {limit} writes: {seen}");
            assert_clean(&image);
            let mut v = plain(&image, "default");
            (0..acked).for_each(|n| check(&mut v, n));
            v.unmount();
            if acked == BATCHES {
                break;
            }
            last = Some(data);
        }
    }
}
