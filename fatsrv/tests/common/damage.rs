//! Images with one of everything, and ways to damage them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use crate::judge::{FileDev, fsck, mtool, options};
use seawall_blockdev::{CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::FsError;
use seawall_diskfs::check::Report;
use seawall_fat::boot::{Boot, FatType, Root};
use seawall_fat::check::{CheckOptions, Finding, Kind, check};
use seawall_fat::mkfs;
use seawall_tests::{Scratch, pattern};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// The name of the file of five sectors.
pub const BIG: &[u8; 11] = b"BIG     BIN";
/// An empty one.
pub const EMPTY: &[u8; 11] = b"EMPTY   TXT";
/// The alias of the one with a long name of three parts.
pub const LONG: &[u8; 11] = b"ARATHE~1TXT";
/// A directory, with one in it and a file.
pub const DIR: &[u8; 11] = b"DIR        ";
/// The directory in it.
pub const SUB: &[u8; 11] = b"SUB        ";

/// A seeded sequence.
pub struct Rng(pub u64);

impl Rng {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// An image in memory.
#[derive(Clone)]
pub struct Image {
    pub data: Vec<u8>,
    pub boot: Boot,
}

impl Image {
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn flip(&mut self, at: usize) {
        self.data[at] ^= 1;
    }

    pub fn put16(&mut self, at: usize, v: u16) {
        self.put(at, &v.to_le_bytes());
    }

    pub fn put32(&mut self, at: usize, v: u32) {
        self.put(at, &v.to_le_bytes());
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.data[at..at + 2].try_into().unwrap())
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.data[at..at + 4].try_into().unwrap())
    }

    /// Byte of a sector.
    pub fn sector(&self, n: u32) -> usize {
        n as usize * self.boot.sector as usize
    }

    /// Changes the boot sector and its copy alike.
    pub fn put_boot(&mut self, at: usize, bytes: &[u8]) {
        self.put(at, bytes);
        if let Some(copy) = self.boot.backup {
            self.put(self.sector(copy) + at, bytes);
        }
    }

    /// An entry of the first FAT.
    pub fn entry(&self, n: u32) -> u32 {
        let (at, n) = (self.boot.fat_start(0) as usize, n as usize);
        match self.boot.fat_type {
            FatType::Fat12 => {
                let both = u32::from(self.u16(at + n * 3 / 2));
                if n % 2 == 0 { both & 0xFFF } else { both >> 4 }
            }
            FatType::Fat16 => u32::from(self.u16(at + n * 2)),
            FatType::Fat32 => self.u32(at + n * 4),
        }
    }

    /// Sets an entry of one FAT.
    pub fn set_entry_in(&mut self, copy: u32, n: u32, v: u32) {
        let (at, n) = (self.boot.fat_start(copy) as usize, n as usize);
        match self.boot.fat_type {
            FatType::Fat12 => {
                let at = at + n * 3 / 2;
                let old = self.u16(at);
                let v = v as u16 & 0xFFF;
                self.put16(at, if n % 2 == 0 { old & 0xF000 | v } else { old & 0xF | v << 4 });
            }
            FatType::Fat16 => self.put16(at + n * 2, v as u16),
            FatType::Fat32 => self.put32(at + n * 4, v),
        }
    }

    /// Sets an entry of every FAT.
    pub fn set_entry(&mut self, n: u32, v: u32) {
        for copy in 0..self.boot.fats {
            self.set_entry_in(copy, n, v);
        }
    }

    /// The chain from a cluster.
    pub fn chain(&self, start: u32) -> Vec<u32> {
        let next = |n: &u32| Some(self.entry(*n)).filter(|v| *v < self.boot.cluster_end());
        std::iter::successors(Some(start), next).collect()
    }

    /// A cluster that nobody uses.
    pub fn free(&self) -> u32 {
        (2..self.boot.cluster_end()).rev().find(|n| self.entry(*n) == 0).unwrap()
    }

    pub fn cluster(&self, n: u32) -> usize {
        self.boot.cluster_start(n).unwrap() as usize
    }

    /// Byte of the root directory.
    pub fn root(&self) -> usize {
        match self.boot.root {
            Root::Fixed { start, .. } => start as usize,
            Root::Cluster(n) => self.cluster(n),
        }
    }

    /// Byte of a slot in the root directory.
    pub fn slot(&self, name: &[u8; 11]) -> usize {
        self.slot_in(self.root(), name)
    }

    /// Byte of a slot in the directory that begins at a byte.
    pub fn slot_in(&self, dir: usize, name: &[u8; 11]) -> usize {
        (dir..).step_by(32).find(|at| &self.data[*at..at + 11] == name).unwrap()
    }

    /// Byte of a free slot behind all others of the root directory, none of which is skipped.
    pub fn free_slot(&self) -> usize {
        (self.root()..).step_by(32).find(|at| self.data[*at] == 0).unwrap()
    }

    /// First cluster that a slot has.
    pub fn start(&self, slot: usize) -> u32 {
        u32::from(self.u16(slot + 26)) | u32::from(self.u16(slot + 20)) << 16
    }

    pub fn set_start(&mut self, slot: usize, cluster: u32) {
        self.put16(slot + 26, cluster as u16);
        if self.boot.fat_type == FatType::Fat32 {
            self.put16(slot + 20, (cluster >> 16) as u16);
        }
    }

    /// What our checker finds.
    pub fn check(&self) -> Result<Report<Finding>, FsError> {
        checked(self.data.clone())
    }
}

/// A device of bytes that are only read.
#[derive(Debug)]
pub struct Bytes(pub Vec<u8>);

impl RawDev for Bytes {
    fn caps(&self) -> Caps {
        Caps { read_only: true, ..Caps::disk(self.0.len() as u64, CacheClass::WriteThrough) }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        let at = start as usize;
        buf.copy_from_slice(&self.0[at..at + buf.len()]);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8], _: WriteFlags) -> Result<(), DevError> {
        panic!("a check writes")
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, _: Run) -> Result<(), DevError> {
        panic!("a check writes")
    }

    fn write_zeroes(&mut self, _: Run) -> Result<(), DevError> {
        panic!("a check writes")
    }
}

/// What our checker says of an image.
pub fn checked(data: Vec<u8>) -> Result<Report<Finding>, FsError> {
    let mut dev = Numbered::new(Bytes(data));
    check(&mut dev, &CheckOptions::default(), &mut |_| {})
}

/// The kinds in a report, each once.
pub fn kinds(report: &Report<Finding>) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = report.findings().iter().map(|f| f.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Exit status and output of `fsck.fat -n` on an image.
pub fn judged(path: &Path, data: &[u8]) -> (i32, String) {
    // Sparse, which costs less than the zeroes of a FAT32 volume.
    let file = File::create(path).unwrap();
    file.set_len(data.len() as u64).unwrap();
    for (i, part) in data.chunks(4096).enumerate().filter(|(_, p)| **p != [0; 4096][..p.len()]) {
        file.write_all_at(part, i as u64 * 4096).unwrap();
    }
    fsck(path)
}

/// A volume of this type with one of everything.
pub fn sample(fat: FatType) -> &'static Image {
    static MADE: [OnceLock<Image>; 3] = [const { OnceLock::new() }; 3];
    let n = match fat {
        FatType::Fat12 => 0,
        FatType::Fat16 => 1,
        FatType::Fat32 => 2,
    };
    MADE[n].get_or_init(|| make(fat))
}

fn make(fat: FatType) -> Image {
    let dir = Scratch::new();
    let (path, file) = (dir.join("image"), dir.join("file"));
    // FAT32 of fewer clusters is FAT12 or FAT16 to mtools.
    let mut opts = options(match fat {
        FatType::Fat12 => 1 << 20,
        FatType::Fat16 => 3 << 20,
        FatType::Fat32 => 35 << 20,
    });
    (opts.fat, opts.sectors_per_cluster) = (Some(fat), Some(1));
    opts.label = Some(*b"SAMPLE     ");
    let boot = mkfs(&mut FileDev::create(&path, opts.size), &opts).unwrap();
    let put = |len: usize, name: &str| {
        std::fs::write(&file, pattern(len, 3)).unwrap();
        mtool(&path, "mcopy", &[&file.display().to_string(), name]);
    };
    put(2500, "::/BIG.BIN");
    put(0, "::/EMPTY.TXT");
    put(700, "::/A rather long file name.txt");
    put(0, "::/An empty file of a long name.txt");
    mtool(&path, "mmd", &["::/DIR", "::/DIR/SUB"]);
    put(0, "::/DIR/Twin name A");
    put(0, "::/DIR/Twin name B");
    put(1500, "::/DIR/INNER.TXT");
    Image { data: std::fs::read(&path).unwrap(), boot }
}
