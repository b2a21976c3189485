//! Images with one of everything, and ways to damage each field of each structure.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_blockdev::Numbered;
use seawall_diskfs::check::Report;
use seawall_diskfs::testing::MemDev;
use seawall_ext2::check::{CheckOptions, Finding, Kind, check};
use seawall_tests::{Scratch, debugfs, mke2fs, pattern, run, tool};
use std::path::Path;

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

/// An image in memory and where its parts are.
#[derive(Clone)]
pub struct Image {
    pub data: Vec<u8>,
    pub bs: usize,
    pub inode_size: usize,
    pub per_group: u32,
    /// Inode table of each group.
    pub tables: Vec<usize>,
    /// Block bitmap, then inode bitmap, of each group.
    pub bitmaps: Vec<usize>,
    /// Byte of the first group descriptor.
    pub descs: usize,
}

fn le32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

impl Image {
    /// Reads the geometry of an image without 64bit or meta_bg.
    pub fn new(data: Vec<u8>) -> Self {
        let bs = 1024usize << le32(&data, 1024 + 24);
        let rev = le32(&data, 1024 + 76);
        let inode_size = if rev == 0 {
            128
        } else {
            usize::from(data[1024 + 88]) | usize::from(data[1024 + 89]) << 8
        };
        let (blocks, bpg) = (le32(&data, 1028), le32(&data, 1024 + 32));
        let first = le32(&data, 1024 + 20);
        let descs = (first as usize + 1) * bs;
        let groups = (blocks - first).div_ceil(bpg) as usize;
        let at = |g: usize, off: usize| le32(&data, descs + g * 32 + off) as usize * bs;
        Self {
            tables: (0..groups).map(|g| at(g, 8)).collect(),
            bitmaps: (0..groups).flat_map(|g| [at(g, 0), at(g, 4)]).collect(),
            per_group: le32(&data, 1024 + 40),
            bs,
            inode_size,
            descs,
            data,
        }
    }

    /// Byte of an inode.
    pub fn inode(&self, ino: u32) -> usize {
        let (g, i) = ((ino - 1) / self.per_group, (ino - 1) % self.per_group);
        self.tables[g as usize] + i as usize * self.inode_size
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.data[at..at + 2].try_into().unwrap())
    }

    pub fn u32(&self, at: usize) -> u32 {
        le32(&self.data, at)
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn put16(&mut self, at: usize, v: u16) {
        self.put(at, &v.to_le_bytes());
    }

    pub fn put32(&mut self, at: usize, v: u32) {
        self.put(at, &v.to_le_bytes());
    }

    /// Byte of the block that pointer `n` of an inode leads to, or of block `n` of its first
    /// extent.
    pub fn block(&self, ino: u32, n: usize) -> usize {
        let inode = self.inode(ino);
        if self.u32(inode + 0x20) & 0x8_0000 != 0 {
            let len = usize::from(self.u16(inode + 40 + 16));
            return if n < len { (self.u32(inode + 40 + 20) as usize + n) * self.bs } else { 0 };
        }
        self.u32(self.inode(ino) + 40 + n * 4) as usize * self.bs
    }

    /// Inode of a name in a directory's direct blocks.
    pub fn find(&self, dir: u32, name: &str) -> u32 {
        self.u32(self.record(dir, name))
    }

    /// Byte of the record of a name.
    pub fn record(&self, dir: u32, name: &str) -> usize {
        for n in 0..12 {
            let start = self.block(dir, n);
            let mut at = start;
            while start != 0 && at < start + self.bs {
                let len = usize::from(self.data[at + 6]);
                if self.u32(at) != 0 && &self.data[at + 8..at + 8 + len] == name.as_bytes() {
                    return at;
                }
                at += usize::from(self.u16(at + 4)).max(8);
            }
        }
        panic!("no {name} in {dir}");
    }

    /// Inode at the end of a path.
    pub fn path(&self, path: &str) -> u32 {
        path.split('/').filter(|p| !p.is_empty()).fold(2, |dir, name| self.find(dir, name))
    }

    /// What our checker finds.
    pub fn check(&self) -> Report<Finding> {
        checked(self.data.clone()).unwrap()
    }

    /// The kinds that our checker finds.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.check().findings().iter().map(|f| f.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// What our checker says of an image.
pub fn checked(data: Vec<u8>) -> Result<Report<Finding>, seawall_diskfs::FsError> {
    let mut dev = Numbered::new(MemDev::new(data));
    check(&mut dev, &CheckOptions::default(), &mut |_| {})
}

/// How e2fsck leaves an image: `None` when it did not end by itself.
pub fn judged(image: &Path, data: &[u8]) -> (Option<i32>, String) {
    std::fs::write(image, data).unwrap();
    let seen = run(tool("timeout").args(["20", "e2fsck", "-fn"]).arg(image));
    let code = seen.status.code().filter(|c| *c < 124);
    (code, seen.stdout + &seen.stderr)
}

/// Runs many debugfs requests that change the image; debugfs reports failures on stderr alone.
pub fn debugfs_script(image: &Path, requests: &str) {
    let dir = Scratch::new();
    let script = dir.join("script");
    std::fs::write(&script, requests).unwrap();
    let seen = run(tool("debugfs").args(["-w", "-f"]).arg(&script).arg(image)).ok();
    let complaint = seen.stderr.lines().find(|l| !l.starts_with("debugfs 1.") && !l.is_empty());
    assert!(complaint.is_none(), "{seen}");
}

/// An image with one of everything: files of every depth of the map, links, devices, attributes in
/// blocks (one of them shared) and in inodes, an indexed directory of two blocks or more.
pub fn sample(args: &[&str], kib: u64) -> Image {
    let dir = Scratch::new();
    let image = dir.join("image");
    let bytes = dir.join("bytes");
    mke2fs(&image, kib << 10, args);
    std::fs::write(&bytes, pattern(40_000, 5)).unwrap();
    let bytes = bytes.display();
    let mut script = String::from("mkdir d\nmkdir d/e\nmkdir d/e/f\nmkdir many\n");
    for i in 0..3 {
        script += &format!("write {bytes} file{i}\n");
    }
    script += "symlink short file0\nmknod fifo p\nmknod dev c 5 300\nln file1 d/again\n";
    script += "sif d/again links_count 2\n";
    script += &format!("symlink long {}\n", "l".repeat(300));
    if !args.contains(&"0") {
        script += "ea_set file0 user.colour green\nea_set d user.long ";
        script += &format!("{}\n", "v".repeat(200));
    }
    script += "cd many\n";
    for i in 0..60 {
        script += &format!("mknod {i}{} p\n", "n".repeat(50));
    }
    debugfs_script(&image, &script);
    // Makes the indexes of directories.
    let seen = run(tool("e2fsck").args(["-fyD"]).arg(&image));
    assert!(seen.status.code().is_some_and(|c| c < 4), "{seen}");
    assert!(debugfs(&image, "ls /many").contains("nnn"));
    Image::new(std::fs::read(&image).unwrap())
}
