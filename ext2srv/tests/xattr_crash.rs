//! Attributes after a power loss: whatever part of the unflushed writes survives, e2fsck repairs
//! the volume without finding a damaged attribute block or one that counts too few owners, and what
//! a sync acknowledged is there.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{Res, TIME, Vol, plain};
use seawall_blockdev::Numbered;
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, SetAttr};
use seawall_ext2::{Ext2, OpenOptions};
use seawall_tests::{Scratch, assert_clean, mke2fs, run, tool};

type Mem = Vol<Blocking<Ext2, Numbered<MemDev>>>;

const BATCHES: usize = 2;
const LIST: &str = "system.posix_acl_access";

fn mounted(data: Vec<u8>) -> Mem {
    let sb = data[1024..2048].try_into().unwrap();
    let fs = Ext2::open(&sb, data.len() as u64, OpenOptions::default()).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
    Vol { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 }
}

/// A list that gives user 7 what the group does not have.
fn list() -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1u16, 6u16, none), (2, 6, 7), (4, 0, none), (0x10, 6, none), (0x20, 0, none)];
    let bytes = entries.iter().flat_map(|(tag, perm, id)| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(bytes).collect()
}

fn batch(v: &mut Mem, n: usize, inherit: bool) -> Res<()> {
    let at = |i: usize| format!("/f{n}.{i}");
    let wide = vec![n as u8; 300];
    for i in 0..6 {
        v.create(&at(i))?;
        v.set_attr(&at(i), "user.wide", &wide)?;
    }
    v.sync()?;
    v.set_attr(&at(0), "user.wide", &[9; 300])?;
    v.remove_attr(&at(1), "user.wide")?;
    v.unlink(&at(2))?;
    v.set_attr(&at(3), "user.small", b"1")?;
    v.set_attr(&at(4), LIST, &list())?;
    v.set(&at(4), SetAttr { mode: Some(0o640), ..SetAttr::default() })?;
    // Out of the inode, where it had room, into the block.
    v.set_attr(&at(3), "user.small", &[3; 200])?;
    if !inherit {
        return v.sync();
    }
    v.mkdir(&format!("/d{n}"))?;
    v.set_attr(&format!("/d{n}"), "system.posix_acl_default", &list())?;
    v.create(&format!("/d{n}/inherits"))?;
    v.create(&format!("/d{n}/shares"))?;
    v.sync()
}

fn check(v: &mut common::Plain, n: usize, inherit: bool) {
    let at = |i: usize| format!("/f{n}.{i}");
    let wide = vec![n as u8; 300];
    assert_eq!(v.attr(&at(0), "user.wide").unwrap(), [9; 300]);
    assert!(v.attrs(&at(1)).unwrap().is_empty());
    assert_eq!(v.stat(&at(2)).unwrap_err().errno(), 2);
    assert_eq!(v.attr(&at(3), "user.small").unwrap(), [3; 200]);
    assert_eq!(v.attr(&at(4), LIST).unwrap().len(), 44);
    assert_eq!(v.stat(&at(4)).unwrap().mode, 0o640);
    for i in [3, 4, 5] {
        assert_eq!(v.attr(&at(i), "user.wide").unwrap(), wide);
    }
    for name in ["inherits", "shares"].iter().take(if inherit { 2 } else { 0 }) {
        assert_eq!(v.attr(&format!("/d{n}/{name}"), LIST).unwrap().len(), 44);
    }
}

/// Runs the batches on a device that takes `limit` writes, and keeps a part of those that no flush
/// covered. Returns the batches acknowledged and what is left.
fn die_after(base: &[u8], inherit: bool, limit: u64, seed: u64) -> (usize, Vec<u8>) {
    let mut v = mounted(base.to_vec());
    v.host.dev.get_mut().faults.dead_after_writes = Some(limit);
    let acked = (0..BATCHES).take_while(|n| batch(&mut v, *n, inherit).is_ok()).count();
    let dev = v.host.dev.get_mut();
    let mut image = core::mem::take(&mut dev.stable);
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for (start, bytes) in core::mem::take(&mut dev.unflushed) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if x & 1 == 0 {
            image[start as usize..start as usize + bytes.len()].copy_from_slice(&bytes);
        }
    }
    (acked, image)
}

/// e2fsck's complaints about attributes: only a count that is too high is one that may be. A node
/// that inherits its attributes has no name before they are durable; what is wrong with it before
/// that harms nobody.
fn judge(output: &str, inherit: bool, what: &str) {
    assert!(!output.contains("ultiply-claimed"), "{what}: {output}");
    if inherit {
        return;
    }
    for line in output.lines().filter(|l| l.contains("xtended attribute")) {
        let number = |after: &str| -> Option<u32> {
            let rest = line.split(after).nth(1)?.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let (have, should) = (number("reference count"), number("should be"));
        assert!(have > should && should.is_some(), "{what}: {output}");
    }
}

#[test]
fn any_part_of_the_unflushed_writes() {
    for (inode_size, inherit) in [("128", false), ("256", false), ("128", true), ("256", true)] {
        let dir = Scratch::new();
        let image = dir.join("image");
        let feature = if inherit { "ext_attr" } else { "^ext_attr" };
        mke2fs(&image, 1 << 20, &["-b", "1024", "-I", inode_size, "-N", "64", "-O", feature]);
        let base = std::fs::read(&image).unwrap();
        // Odd steps meet every kind of write sooner or later.
        for limit in (0..).step_by(if inherit { 5 } else { 3 }) {
            let mut done = 0;
            for seed in 1..3 {
                let (acked, data) = die_after(&base, inherit, limit, limit * 10 + seed);
                std::fs::write(&image, &data).unwrap();
                let seen = run(tool("e2fsck").args(["-fy"]).arg(&image));
                let what = format!("inodes of {inode_size}, {limit} writes, seed {seed}");
                assert!(seen.code() <= 1, "{what}: {seen}");
                judge(&seen.stdout, inherit, &what);
                assert_clean(&image);
                let mut v = plain(&image, "default");
                (0..acked).for_each(|n| check(&mut v, n, inherit));
                v.unmount();
                done = acked;
            }
            if done == BATCHES {
                break;
            }
        }
    }
}
