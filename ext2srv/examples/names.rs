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
//! in memory; `--no-index` without both. `--cache MIB` is the memory for metadata, by default what
//! the server would take on this machine: a name and its inode take some 300 bytes, so of a million
//! names most miss a small cache, and the figures are those of the misses.
#![allow(clippy::unwrap_used, reason = "a program for figures: it ends at the first fault")]

// As the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "support/ram.rs"]
mod ram;

use ram::{Rig, ctx, name, rig_with};
use seawall_blockdev::PageBuf;
use seawall_diskfs::{CacheSizes, Ino, NewNode, OpenFlags, PlanReq, Slice, driver};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct How {
    /// The feature `dir_index`.
    tree: bool,
    /// Indexes in memory.
    index: bool,
    /// Memory for metadata.
    cache: CacheSizes,
}

fn rig(names: u64, data: bool, how: How) -> Rig {
    let inode_space = names * 256 + names / 8 * 256;
    // A group of 128 MiB has at most 32,768 inodes.
    let groups = (names * 10 / 9).div_ceil(32_000);
    let space = inode_space + names * if data { 4096 } else { 0 } + names * 64;
    let size = ((64 << 20) + space).max(groups << 27);
    rig_with(size, names + names / 8 + 100, how.tree, |opts| {
        opts.block_budget = how.cache.blocks;
        opts.index_budget = if how.index { how.cache.index } else { 0 };
    })
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
    // The clock ticks every few milliseconds: as many as the larger directory has.
    let looks = n.max(1_000_000);
    let found = rate(looks, |i| {
        let s = name(scattered(i % n, n));
        driver::run(&mut r, &c, |fs, t| fs.lookup(&c, Ino(2), s.as_bytes(), t)).unwrap();
    });
    println!("{n:>8} look-up       {found:>10.0}/s");
    let found = rate(looks, |i| {
        let s = name(i % n);
        driver::run(&mut r, &c, |fs, t| fs.lookup(&c, Ino(2), s.as_bytes(), t)).unwrap();
    });
    println!("{n:>8} look-up, row  {found:>10.0}/s");
    let absent = rate(looks, |i| {
        let s = format!("none-{}", i % n);
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

/// What the machine makes of the same names: a hash map of them, with as many bytes for each as an
/// inode and its record take on disk.
fn floor(n: u64) {
    let map: std::collections::HashMap<String, [u8; 300]> =
        (0..n).map(|i| (name(i), [1; 300])).collect();
    let mut sum = 0u64;
    let found = rate(n.max(1_000_000), |i| {
        sum += u64::from(map.get(&name(scattered(i % n, n))).unwrap()[128]);
    });
    assert!(sum > 0);
    println!("{n:>8} hash map      {found:>10.0}/s");
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
    let cache = given("--cache").and_then(|i| args.get(i + 1)).and_then(|a| a.parse::<u64>().ok());
    let share = || CacheSizes::for_memory(seawall_translator::cli::machine_memory().unwrap_or(0));
    let cache = cache.map_or_else(share, |mib| CacheSizes::of(mib << 20));
    let value = given("--cache").map(|i| i + 1);
    let index = given("--no-index").is_none();
    let tree = index && given("--linear").is_none();
    let how = How { tree, index, cache };
    println!("metadata cache {} MiB", cache.blocks >> 20);
    let sizes = args.iter().enumerate().filter(|(i, _)| Some(*i) != value);
    let sizes: Vec<u64> = sizes.filter_map(|(_, a)| a.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000] } else { sizes };
    for n in sizes {
        names(n, how);
        floor(n);
        if n <= 100_000 {
            files(n, how);
        }
    }
}
