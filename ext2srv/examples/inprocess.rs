//! What the engine does in process on a disk in memory, in the measures that other libraries are
//! compared by: a line `metric<TAB>unit<TAB>value` each, of wall time.
//!
//!     cargo run --release -p seawall-ext2 --example inprocess
#![allow(clippy::unwrap_used, reason = "a program for figures: it ends at the first fault")]

// As the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "support/ram.rs"]
mod ram;

use ram::{Rig, ctx, name, rig_with};
use seawall_blockdev::PageBuf;
use seawall_diskfs::{Handle, Ino, NewNode, OpenFlags, PlanReq, Slice, driver};
use std::sync::Arc;
use std::time::Instant;

const BIG: u64 = 256 << 20;
const MIB: usize = 1 << 20;
const FILES: u64 = 10_000;

fn per_second(metric: &str, n: u64, mut f: impl FnMut(u64)) {
    let t = Instant::now();
    (0..n).for_each(&mut f);
    println!("{metric}\tops/s\t{:.1}", n as f64 / t.elapsed().as_secs_f64());
}

fn stream(metric: &str, mut f: impl FnMut(u64)) {
    let t = Instant::now();
    (0..BIG).step_by(MIB).for_each(&mut f);
    println!("{metric}\tMB/s\t{:.1}", BIG as f64 / 1e6 / t.elapsed().as_secs_f64());
}

fn pick(i: u64, n: u64) -> u64 {
    (i * 7919) % n
}

fn open(r: &mut Rig, dir: Ino, name: &str) -> Handle {
    let c = ctx();
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let made =
        driver::run(r, &c, |fs, t| fs.create_open(&c, dir, name.as_bytes(), 0o644, flags, t));
    made.unwrap().1
}

fn close(r: &mut Rig, h: Handle) {
    driver::run_plan(r, PlanReq::Close(h)).unwrap();
    r.fs.clunk(h);
}

fn big_file(r: &mut Rig) {
    let c = ctx();
    let h = open(r, Ino(2), "big");
    // As a caller's buffer: its bytes are copied into the cache at each write.
    let chunk = vec![9u8; MIB];
    stream("seqwrite1m", |at| {
        let data = Slice::new(PageBuf::from_slice(&chunk));
        driver::run(r, &c, |fs, t| fs.write(&c, h, at, &data, t)).unwrap();
    });
    // The same again, in memory that the process has.
    stream("seqwrite1m_again", |at| {
        let data = Slice::new(PageBuf::from_slice(&chunk));
        driver::run(r, &c, |fs, t| fs.write(&c, h, at, &data, t)).unwrap();
    });
    let mut buf = vec![0u8; MIB];
    stream("seqread1m", |at| {
        assert_eq!(driver::read_into(r, &c, h, at, &mut buf).unwrap(), MIB);
    });
    per_second("randread4k", 200_000, |i| {
        let at = pick(i * 31 + 7, BIG / 4096) * 4096;
        let part = buf.get_mut(..4096).unwrap();
        assert_eq!(driver::read_into(r, &c, h, at, part).unwrap(), 4096);
    });
    let block = Arc::new(PageBuf::from_slice(&[3; 4096]));
    let write = |r: &mut Rig, i: u64| {
        let at = pick(i * 31 + 7, BIG / 4096) * 4096;
        let data = Slice::shared(Arc::clone(&block));
        driver::run(r, &c, |fs, t| fs.write(&c, h, at, &data, t)).unwrap();
    };
    per_second("randwrite4k", 100_000, |i| write(r, i));
    per_second("randwrite4k_fsync", 20_000, |i| {
        write(r, i);
        driver::run_plan(r, PlanReq::Fsync { handle: h, datasync: false }).unwrap();
    });
    close(r, h);
}

fn many_files(r: &mut Rig) {
    let c = ctx();
    let made = |r: &mut Rig| {
        driver::run(r, &c, |fs, t| fs.create(&c, Ino(2), b"d", NewNode::Dir, 0o755, t)).unwrap()
    };
    let dir = made(r).ino;
    let body = Arc::new(PageBuf::from_slice(&[b'x'; 1024]));
    per_second("create_1K", FILES, |i| {
        let h = open(r, dir, &name(i));
        let data = Slice::shared(Arc::clone(&body));
        driver::run(r, &c, |fs, t| fs.write(&c, h, 0, &data, t)).unwrap();
        close(r, h);
    });
    // By path, as the others do it.
    per_second("lookup", 300_000, |i| {
        let n = name(pick(i, FILES));
        let dir = driver::run(r, &c, |fs, t| fs.lookup(&c, Ino(2), b"d", t)).unwrap().ino;
        driver::run(r, &c, |fs, t| fs.lookup(&c, dir, n.as_bytes(), t)).unwrap();
    });
    let t = Instant::now();
    let (mut from, mut count) = (0, 0u64);
    loop {
        let list = driver::run(r, &c, |fs, t| fs.readdir(&c, dir, from, 512, 65536, false, t));
        let list = list.unwrap();
        let Some((last, _)) = list.last() else { break };
        from = last.next;
        count += list.len() as u64;
    }
    println!("readdir\tops/s\t{:.1}", count as f64 / t.elapsed().as_secs_f64());
    per_second("unlink", 2000, |i| {
        driver::run(r, &c, |fs, t| fs.unlink(&c, dir, name(i).as_bytes(), t)).unwrap();
    });
}

fn main() {
    let mut r = rig_with(600 << 20, FILES + 100, false, |_| {});
    big_file(&mut r);
    many_files(&mut r);
}
