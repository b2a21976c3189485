//! Freed space that the device is told of: nobody's bytes are taken, now or by a power loss.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "common/image.rs"]
mod image;
#[path = "common/volume.rs"]
mod volume;

use image::{Image, pattern};
use seawall_blockdev::{BlockDev, Numbered};
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{DISCARDED, Logged, MemDev};
use seawall_diskfs::{Ctx, Fs, MountOpts, policy};
use seawall_fat::OpenOptions;
use volume::{Mem, TIME, engine_on, in_memory};

fn discarding(data: Vec<u8>, preset: &str) -> Mem {
    let fat = engine_on(&data, OpenOptions::default()).unwrap();
    let mut dev = MemDev::new(data);
    dev.record = true;
    let dev = Numbered::new(dev);
    let opts = MountOpts { discard: true, ..MountOpts::new(policy::preset(preset).unwrap()) };
    let fs = Fs::new(fat, dev.caps(), dev.seqs(), opts).unwrap();
    Mem { host: Blocking { fs, dev }, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 }
}

fn discards(v: &Mem) -> u64 {
    let runs = v.host.dev.get_ref().log.iter();
    runs.map(|l| if let Logged::Discard(r) = l { r.len } else { 0 }).sum()
}

#[test]
fn every_byte_that_is_in_use_stays() {
    for preset in ["default", "fat-stock"] {
        let mut image = Image { spc: 2, ..Image::new(16, 4100) };
        image.root(&[]);
        let mut v = discarding(image.bytes(), preset);
        v.mkdir("/d").unwrap();
        let mut x = 12345u32;
        let mut files: Vec<(u32, usize)> = Vec::new();
        for n in 0..600 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = (x >> 8) as usize % 20_000;
            let path = |n: u32| format!("/d/file number {n}");
            v.create(&path(n)).unwrap();
            v.write(&path(n), 0, &pattern(n, len)).unwrap();
            files.push((n, len));
            while files.len() > 20 {
                let (old, len) = files.remove((x >> 3) as usize % 20);
                assert_eq!(v.read(&path(old), 0, 30_000).unwrap(), pattern(old, len));
                v.unlink(&path(old)).unwrap();
            }
            if n % 9 == 0 {
                v.sync().unwrap();
                v.host.fs.drop_clean();
            }
        }
        v.sync().unwrap();
        assert!(discards(&v) > 1_000_000, "{}", discards(&v));
        // What a power loss right now leaves; Linux's FAT sends no flush at syncfs.
        let dev = v.host.dev.get_ref();
        let left = if preset == "default" { &dev.stable } else { &dev.data };
        let mut after = in_memory(left.clone(), "default");
        for (n, len) in files {
            let path = format!("/d/file number {n}");
            assert_eq!(after.read(&path, 0, 30_000).unwrap(), pattern(n, len), "{preset}");
        }
    }
}

/// A discard before the barrier would take the bytes of a file that a power loss brings back.
#[test]
fn nothing_is_discarded_before_it_is_durably_free() {
    let mut image = Image::new(16, 5000);
    image.root(&[]);
    let mut v = discarding(image.bytes(), "default");
    v.create("/a").unwrap();
    v.write("/a", 0, &pattern(1, 9000)).unwrap();
    v.sync().unwrap();
    v.unlink("/a").unwrap();
    assert_eq!(discards(&v), 0);
    let mut before = in_memory(v.host.dev.get_ref().stable.clone(), "default");
    assert_eq!(before.read("/a", 0, 9999).unwrap(), pattern(1, 9000));
    v.settle().unwrap();
    let log = &v.host.dev.get_ref().log;
    let first = log.iter().position(|l| matches!(l, Logged::Discard(_)));
    assert!(log[..first.unwrap()].contains(&Logged::Flush));
    assert_eq!(discards(&v), 9216);
    let data = &v.host.dev.get_ref().data;
    assert!(data.windows(9216).any(|w| w.iter().all(|b| *b == DISCARDED)));
}
