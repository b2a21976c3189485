//! Seeded damage: whatever a volume says, an operation ends with a result or one clear error, in
//! bounded time, and nothing is written where the volume is not.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "common/image.rs"]
mod image;
#[path = "common/volume.rs"]
mod volume;

use image::{Image, pattern};
use seawall_blockdev::Numbered;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, FsError, Kind};
use seawall_fat::OpenOptions;
use std::collections::HashMap;
use volume::{Mem, TIME, engine_on, in_memory};

/// Results are anything but a fault of the engine.
#[track_caller]
fn fine<T>(result: Result<T, FsError>) -> Option<T> {
    match result {
        Err(FsError::Bug(what)) => panic!("{what}"),
        other => other.ok(),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }
}

/// A volume with something of everything, and the bytes that a mutation may hit.
fn base(bits: u32) -> (Vec<u8>, usize) {
    let (clusters, spc) = match bits {
        12 => (300, 1),
        16 => (4100, 1),
        _ => (600, 2),
    };
    let mut image = Image { spc, fsinfo: Some((9, 9)), ..Image::new(bits, clusters) };
    image.root(&[]);
    let mut v = in_memory(image.bytes(), "default");
    for n in 0..6 {
        v.mkdir(&format!("/directory number {n}")).unwrap();
        for f in 0..4 {
            let path = format!("/directory number {n}/a file with a long name {f}.text");
            v.create(&path).unwrap();
            v.write(&path, 0, &pattern(f, 900 * f as usize)).unwrap();
        }
    }
    v.mkdir("/directory number 0/deeper").unwrap();
    v.create("/PLAIN.TXT").unwrap();
    v.settle().unwrap();
    let head = image.data_sector() as usize * 512 + 40 * image.cluster_bytes();
    (v.host.dev.into_inner().data, head)
}

fn mutate(data: &mut [u8], head: usize, x: &mut Random) {
    for _ in 0..1 + x.below(6) {
        // Often where it hurts most.
        let at = match x.below(4) {
            0 => x.below(96),
            1 => 512 + x.below(4096),
            _ => x.below(head),
        };
        data[at] = match x.below(4) {
            0 => 0,
            1 => 0xFF,
            2 => data[at].wrapping_add(1),
            _ => x.below(256) as u8,
        };
    }
}

/// Everything that a walk reaches, each directory once, at most `most` of them.
fn walk(v: &mut Mem, most: usize) -> Vec<(String, Option<Kind>)> {
    let mut seen = HashMap::new();
    let mut todo = vec![String::new()];
    let mut all = Vec::new();
    while let Some(path) = todo.pop() {
        let Some(ino) = fine(v.stat(&path)).map(|a| a.ino) else { continue };
        if seen.insert(ino, ()).is_some() || seen.len() > most {
            continue;
        }
        for (name, _, kind) in fine(v.list(&path)).unwrap_or_default().into_iter().take(200) {
            let path = format!("{path}/{name}");
            if kind == Some(Kind::Dir) {
                todo.push(path.clone());
            }
            all.push((path, kind));
        }
    }
    all
}

fn use_it(v: &mut Mem, x: &mut Random) {
    let all = walk(v, 40);
    for (path, kind) in all.iter().take(60) {
        fine(v.stat(path));
        if *kind == Some(Kind::File) {
            fine(v.read(path, 0, 4096));
            fine(v.read(path, x.below(1 << 20) as u64, 4096));
        }
    }
    for n in 0..12 {
        let Some((path, _)) = all.get(x.below(all.len().max(1))) else { break };
        match n % 6 {
            0 => drop(fine(v.write(path, x.below(20_000) as u64, &[7; 700]))),
            1 => drop(fine(v.truncate(path, x.below(9000) as u64))),
            2 => drop(fine(v.unlink(path))),
            3 => drop(fine(v.rename(path, &format!("/moved {n}")))),
            4 => drop(fine(v.rmdir(path))),
            _ => drop(fine(v.create(&format!("{path}/new file {n}")))),
        }
    }
    fine(v.mkdir("/a new directory"));
    fine(v.create("/a new directory/and a file.txt"));
    let ctx = v.ctx.clone();
    fine(v.run(|fs, t| fs.statfs(&ctx, t)));
    fine(v.settle());
}

fn damage(bits: u32, seed: u64, rounds: u32) {
    // For a longer run than a suite has time for.
    let times = std::env::var("SEAWALL_DAMAGES").ok().and_then(|n| n.parse().ok());
    let rounds = rounds * times.unwrap_or(1);
    let (clean, head) = base(bits);
    let mut x = Random(seed);
    let mut opened = 0;
    for _ in 0..rounds {
        let mut data = clean.clone();
        mutate(&mut data, head, &mut x);
        let Some(fs) = fine(engine_on(&data, OpenOptions::default())) else { continue };
        let Some(host) = fine(mount(fs, Numbered::new(MemDev::new(data)), "default")) else {
            continue;
        };
        opened += 1;
        let mut v = Mem { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 };
        use_it(&mut v, &mut x);
    }
    assert!(opened > rounds / 4, "{opened} of {rounds} opened");
}

#[test]
fn fat12_whatever_it_says() {
    damage(12, 0xFA12, 400);
}

#[test]
fn fat16_whatever_it_says() {
    damage(16, 0xFA16, 150);
}

#[test]
fn fat32_whatever_it_says() {
    damage(32, 0xFA32, 400);
}
