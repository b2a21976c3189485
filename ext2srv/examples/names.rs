//! Times of names in one directory: create, look-up, unlink, in process on a disk in memory.
//!
//!     cargo run --release -p seawall-ext2 --example names -- 10000 100000 1000000
//!
//! Prints operations per second of processor time (elsewhere than on Linux: of wall time) for each
//! size: all of them, and of creates the last tenth, which shows what a name costs when the
//! directory is full. `create` makes empty files, `create 1K` opens, writes 1 KiB and closes (sizes
//! up to 100,000).
//!
//! The volume has indexed directories (half-MD4). `--linear` goes without that, and so with indexes
//! in memory; `--no-index` without both. `--cache MIB` is the memory for metadata (32): a name and
//! its inode take some 300 bytes, so of a million names most miss a small cache, and the figures
//! are those of the misses.
#![allow(clippy::unwrap_used, reason = "a program for figures: it ends at the first fault")]

use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, Numbered, PageBuf, RawDev, Run, WriteFlags,
};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::{
    Ctx, Fs, Ino, MountOpts, NewNode, OpenFlags, PlanReq, Slice, Timestamp, policy,
};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use std::time::{Duration, Instant};

/// A disk in memory whose flush costs nothing.
struct Ram(Vec<u8>);

impl Ram {
    fn part(&mut self, start: u64, len: usize) -> Result<&mut [u8], DevError> {
        let at = usize::try_from(start).map_err(|_| DevError::OutOfRange)?;
        self.0.get_mut(at..at + len).ok_or(DevError::OutOfRange)
    }
}

impl RawDev for Ram {
    fn caps(&self) -> Caps {
        Caps {
            size: self.0.len() as u64,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache: CacheClass::Flushable,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: false,
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        buf.copy_from_slice(self.part(start, buf.len())?);
        Ok(())
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        self.part(start, buf.len())?.copy_from_slice(buf);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, _run: Run) -> Result<(), DevError> {
        Ok(())
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        // New memory is zero; touching it would only make it resident.
        let part = self.part(run.start, usize::try_from(run.len).unwrap())?;
        if part.iter().any(|b| *b != 0) {
            part.fill(0);
        }
        Ok(())
    }
}

type Rig = Blocking<Ext2, Numbered<Ram>>;

const NOW: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 0 };

#[derive(Clone, Copy)]
struct How {
    /// The feature `dir_index`.
    tree: bool,
    /// Indexes in memory.
    index: bool,
    /// Memory for metadata, bytes.
    cache: usize,
}

fn rig(names: u64, data: bool, how: How) -> Rig {
    let inode_space = names * 256 + names / 8 * 256;
    // A group of 128 MiB has at most 32,768 inodes.
    let groups = (names * 10 / 9).div_ceil(32_000);
    let space = inode_space + names * if data { 4096 } else { 0 } + names * 64;
    let size = ((64 << 20) + space).max(groups << 27);
    let mut dev = Numbered::new(Ram(vec![0; size as usize]));
    let inodes = u32::try_from(names + names / 8 + 100).ok();
    let opts = MkfsOptions { block_size: 4096, inodes, ..MkfsOptions::new(size, [7; 16], NOW) };
    mkfs(&mut dev, &opts).unwrap();
    let sb = dev.get_mut().0.get_mut(1024..2048).unwrap();
    if how.tree {
        // s_feature_compat, s_def_hash_version, s_flags (signed).
        for (at, value) in [(0x5C, 0x20), (0xFC, 1), (0x160, 1)] {
            *sb.get_mut(at).unwrap() |= value;
        }
    }
    let sb: [u8; 1024] = (&*sb).try_into().unwrap();
    let format = Ext2::open(&sb, size, OpenOptions::default()).unwrap();
    let mut opts = MountOpts::new(policy::preset("default").unwrap());
    opts.block_budget = how.cache;
    if !how.index {
        opts.index_budget = 0;
    }
    let fs = Fs::new(format, dev.caps(), dev.seqs(), opts).unwrap();
    Blocking { fs, dev }
}

fn ctx() -> Ctx {
    Ctx { now: NOW, ..Ctx::default() }
}

fn name(i: u64) -> String {
    format!("file-{i:07}.txt")
}

/// The i-th of a full cycle through 0..n in a scattered order.
fn scattered(i: u64, n: u64) -> u64 {
    (i * 7_368_787) % n
}

/// Time that this thread ran, so that a busy machine does not show.
struct Clock(Option<Duration>, Instant);

impl Clock {
    fn ran() -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }

    fn start() -> Self {
        Self(Self::ran(), Instant::now())
    }

    fn secs(&self) -> f64 {
        let ran = self.0.zip(Self::ran()).and_then(|(a, b)| b.checked_sub(a));
        ran.unwrap_or(self.1.elapsed()).as_secs_f64()
    }
}

fn rate(n: u64, mut f: impl FnMut(u64)) -> f64 {
    let t = Clock::start();
    (0..n).for_each(&mut f);
    n as f64 / t.secs()
}

fn create(r: &mut Rig, i: u64) {
    let c = ctx();
    let n = name(i);
    driver::run(r, &c, |fs, t| fs.create(&c, Ino(2), n.as_bytes(), NewNode::File, 0o644, t))
        .unwrap();
}

fn create_1k(r: &mut Rig, i: u64, data: &Slice) {
    let c = ctx();
    let n = name(i);
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let (_, h) =
        driver::run(r, &c, |fs, t| fs.create_open(&c, Ino(2), n.as_bytes(), 0o644, flags, t))
            .unwrap();
    driver::run(r, &c, |fs, t| fs.write(&c, h, 0, data, t)).unwrap();
    driver::run_plan(r, PlanReq::Close(h)).unwrap();
    r.fs.clunk(h);
}

fn names(n: u64, how: How) {
    let mut r = rig(n, false, how);
    let c = ctx();
    let tenth = (n / 10).max(1);
    let t = Clock::start();
    rate(n - tenth, |i| create(&mut r, i));
    let last = rate(tenth, |i| create(&mut r, n - tenth + i));
    println!("{n:>8} create        {:>10.0}/s", n as f64 / t.secs());
    println!("{n:>8} create, last  {last:>10.0}/s");
    let found = rate(n, |i| {
        let s = name(scattered(i, n));
        driver::run(&mut r, &c, |fs, t| fs.lookup(&c, Ino(2), s.as_bytes(), t)).unwrap();
    });
    println!("{n:>8} look-up       {found:>10.0}/s");
    let found = rate(n, |i| {
        let s = name(i);
        driver::run(&mut r, &c, |fs, t| fs.lookup(&c, Ino(2), s.as_bytes(), t)).unwrap();
    });
    println!("{n:>8} look-up, row  {found:>10.0}/s");
    let absent = rate(n, |i| {
        let s = format!("none-{i}");
        assert!(driver::run(&mut r, &c, |fs, t| fs.lookup(&c, Ino(2), s.as_bytes(), t)).is_err());
    });
    println!("{n:>8} look-up, none {absent:>10.0}/s");
    let gone = rate(n, |i| {
        let s = name(scattered(i, n));
        driver::run(&mut r, &c, |fs, t| fs.unlink(&c, Ino(2), s.as_bytes(), t)).unwrap();
    });
    println!("{n:>8} unlink        {gone:>10.0}/s");
    let stats = r.fs.stats();
    println!(
        "{n:>8} indexes built {}, commits {}, misses {}",
        stats.index_builds, stats.commits, stats.cache_misses
    );
}

fn files(n: u64, how: How) {
    let mut r = rig(n, true, how);
    let data = Slice::new(PageBuf::from_slice(&[5; 1024]));
    let all = rate(n, |i| create_1k(&mut r, i, &data));
    println!("{n:>8} create 1K     {all:>10.0}/s");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| args.iter().position(|a| a == name);
    let cache = given("--cache").and_then(|i| args.get(i + 1)).and_then(|a| a.parse().ok());
    let value = given("--cache").map(|i| i + 1);
    let index = given("--no-index").is_none();
    let tree = index && given("--linear").is_none();
    let how = How { tree, index, cache: cache.unwrap_or(32usize) << 20 };
    let sizes = args.iter().enumerate().filter(|(i, _)| Some(*i) != value);
    let sizes: Vec<u64> = sizes.filter_map(|(_, a)| a.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000] } else { sizes };
    for n in sizes {
        names(n, how);
        if n <= 100_000 {
            files(n, how);
        }
    }
}
