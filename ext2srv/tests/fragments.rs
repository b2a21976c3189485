//! Where blocks go: files that grow side by side stay in one piece each, directories spread.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{FileDev, Vol, plain};
use seawall_blockdev::{Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::testing::mount;
use seawall_diskfs::{Ctx, driver};
use seawall_ext2::{MkfsOptions, OpenOptions, mkfs};
use seawall_tests::{Scratch, assert_clean, debugfs, mke2fs};
use std::collections::BTreeSet;
use std::path::Path;

/// Pieces of a file on disk, indirect blocks among its blocks, as debugfs lists them.
fn pieces(image: &Path, path: &str) -> usize {
    let stat = debugfs(image, &format!("stat {path}"));
    let list = stat.split("BLOCKS:").nth(1).unwrap();
    let list = list.split("TOTAL").next().unwrap();
    let mut runs: Vec<(u64, u64)> = list
        .split([',', '\n'])
        .filter_map(|item| item.trim().split_once("):"))
        .map(|(_, place)| {
            let (a, b) = place.split_once('-').unwrap_or((place, place));
            (a.trim().parse().unwrap(), b.trim().parse().unwrap())
        })
        .collect();
    runs.sort_unstable();
    1 + runs.windows(2).filter(|w| w[0].1 + 1 != w[1].0).count()
}

/// A new image whose files hold zeroes, which are not written: a hole reads the same.
struct Sparse(FileDev);

impl RawDev for Sparse {
    fn caps(&self) -> Caps {
        self.0.caps()
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.0.read(start, buf)
    }

    fn write(&mut self, start: u64, buf: &[u8], flags: WriteFlags) -> Result<(), DevError> {
        if buf.len() > 32 << 10 && buf.iter().all(|b| *b == 0) {
            return Ok(());
        }
        self.0.write(start, buf, flags)
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, run: Run) -> Result<(), DevError> {
        self.0.discard(run)
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        self.0.write_zeroes(run)
    }
}

/// `writers` append 64 KiB in turn, each to a file of its own of `size` bytes.
fn side_by_side(volume: u64, writers: usize, size: u64) -> (Vec<usize>, u64, u64) {
    let dir = Scratch::new();
    let image = dir.join("image");
    let opts = MkfsOptions { block_size: 4096, ..MkfsOptions::new(volume, [7; 16], common::TIME) };
    mkfs(&mut FileDev::create(&image, volume), &opts).unwrap();
    let fs = common::engine(&image, OpenOptions::default()).unwrap();
    let host = mount(fs, Numbered::new(Sparse(FileDev::raw(&image))), "default").unwrap();
    let mut v = Vol { host, ctx: Ctx { now: common::TIME, ..Ctx::default() }, restarts: 0 };
    let handles: Vec<_> = (0..writers)
        .map(|w| {
            let ino = v.create(&format!("/w{w}")).unwrap().ino;
            v.open(ino).unwrap()
        })
        .collect();
    let piece = vec![0; 64 << 10];
    for at in (0..size).step_by(piece.len()) {
        for h in &handles {
            v.write_handle(*h, at, &piece).unwrap();
        }
    }
    for h in handles {
        driver::run_plan(&mut v.host, seawall_diskfs::PlanReq::Close(h)).unwrap();
        v.clunk(h);
    }
    let stats = v.host.fs.stats();
    v.unmount();
    assert_clean(&image);
    let all = (0..writers).map(|w| pieces(&image, &format!("/w{w}"))).collect();
    (all, stats.file_blocks, stats.file_runs)
}

#[test]
fn eight_writers_in_turn_have_few_pieces_each() {
    let (pieces, blocks, runs) = side_by_side(1 << 30, 8, 24 << 20);
    assert!(pieces.iter().all(|n| *n <= 8), "{pieces:?}");
    // 6,144 blocks and 7 indirect ones each.
    assert_eq!(blocks, 8 * 6151);
    assert_eq!(runs, pieces.iter().sum::<usize>() as u64, "{pieces:?}");
}

#[test]
fn eight_writers_of_256_mib_have_at_most_eight_pieces_each() {
    let (pieces, ..) = side_by_side(4 << 30, 8, 256 << 20);
    assert!(pieces.iter().all(|n| *n <= 8), "{pieces:?}");
}

#[test]
fn windows_are_no_reason_for_a_full_volume() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 2 << 20, &["-b", "1024", "-N", "64", "-m", "0"]);
    let mut v = plain(&image, "default");
    let free = v.statfs().0;
    let mut handles = Vec::new();
    for w in 0..10 {
        let ino = v.create(&format!("/w{w}")).unwrap().ino;
        let h = v.open(ino).unwrap();
        v.write_handle(h, 0, &[1; 5000]).unwrap();
        handles.push(h);
    }
    let mut at = 5000;
    while v.write_handle(handles[0], at, &[2; 1000]).is_ok() {
        at += 1000;
    }
    let left = v.statfs().0;
    assert!(left <= 1, "{left} of {free} blocks are left");
    handles.into_iter().for_each(|h| v.clunk(h));
    v.unmount();
    assert_clean(&image);
}

#[test]
fn directories_of_the_root_are_spread_and_others_stay() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 64 << 20, &["-b", "1024", "-I", "128"]);
    let mut v = plain(&image, "default");
    let per_group = 64 * 256;
    let group = |ino: u64| (ino - 1) / (per_group / 8);
    let mut groups = BTreeSet::new();
    for d in 0..8 {
        let path = format!("/d{d}");
        let top = group(v.mkdir(&path).unwrap().ino.0);
        groups.insert(top);
        for s in 0..3 {
            let sub = v.mkdir(&format!("{path}/s{s}")).unwrap().ino.0;
            assert_eq!(group(sub), top);
            let file = v.create(&format!("{path}/s{s}/f")).unwrap().ino.0;
            assert_eq!(group(file), top);
        }
    }
    assert!(groups.len() >= 5, "{groups:?}");
    v.unmount();
    assert_clean(&image);
}
