//! What the engine does in process on a disk in memory, beside the `fatfs` crate on a copy of the
//! same volume in the same run: a line `metric<TAB>unit<TAB>ours<TAB>fatfs<TAB>ratio` each, of wall
//! time.
//!
//!     cargo run --release -p seawall-fat --example inprocess
//!
//! With `--alone` ours only, for a profile.
#![allow(clippy::unwrap_used, reason = "a program for figures: it ends at the first fault")]

use seawall_blockdev::{BlockDev, Numbered, PageBuf};
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::RamDisk;
use seawall_diskfs::{
    Ctx, Fs, Handle, Ino, MountOpts, NewNode, OpenFlags, PlanReq, Slice, Timestamp, driver, policy,
};
use seawall_fat::boot::{BOOT_BYTES, Boot};
use seawall_fat::{Fat, HEAD_BYTES, OpenOptions, ROOT};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

// As the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VOLUME: usize = 600 << 20;
const BIG: u64 = 256 << 20;
const MIB: usize = 1 << 20;
const FILES: u64 = 10_000;
/// The other side gets no longer than this for a measure; what it has done by then counts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Figures by name: unit and value.
#[derive(Default)]
struct Figures(BTreeMap<&'static str, (&'static str, f64)>);

impl Figures {
    fn per_second(&mut self, metric: &'static str, n: u64, mut f: impl FnMut(u64)) -> u64 {
        let t = Instant::now();
        let mut done = 0;
        while done < n && (done % 16 != 0 || t.elapsed() < PATIENCE) {
            f(done);
            done += 1;
        }
        self.0.insert(metric, ("ops/s", done as f64 / t.elapsed().as_secs_f64()));
        done
    }

    fn stream(&mut self, metric: &'static str, mut f: impl FnMut(u64)) {
        let t = Instant::now();
        (0..BIG).step_by(MIB).for_each(&mut f);
        self.0.insert(metric, ("MB/s", BIG as f64 / 1e6 / t.elapsed().as_secs_f64()));
    }
}

fn pick(i: u64, n: u64) -> u64 {
    (i * 7919) % n.max(1)
}

fn name(i: u64) -> String {
    format!("file-{i:06}.txt")
}

fn fatfs_side(data: Vec<u8>) -> Figures {
    let mut out = Figures::default();
    let fs = fatfs::FileSystem::new(Cursor::new(data), fatfs::FsOptions::new()).unwrap();
    let root = fs.root_dir();
    let chunk = vec![9u8; MIB];
    let mut buf = vec![0u8; MIB];
    {
        let mut f = root.create_file("big").unwrap();
        out.stream("seqwrite1m", |_| f.write_all(&chunk).unwrap());
        f.flush().unwrap();
        f.seek(SeekFrom::Start(0)).unwrap();
        out.stream("seqwrite1m_again", |_| f.write_all(&chunk).unwrap());
        f.flush().unwrap();
        f.seek(SeekFrom::Start(0)).unwrap();
        out.stream("seqread1m", |_| f.read_exact(&mut buf).unwrap());
        let block = buf.get_mut(..4096).unwrap();
        out.per_second("randread4k", 2000, |i| {
            f.seek(SeekFrom::Start(pick(i * 31 + 7, BIG / 4096) * 4096)).unwrap();
            f.read_exact(block).unwrap();
        });
    }
    let d = root.create_dir("d").unwrap();
    let body = vec![b'x'; 1024];
    let n = out.per_second("create_1K", FILES, |i| {
        d.create_file(&name(i)).unwrap().write_all(&body).unwrap();
    });
    out.per_second("lookup", n.min(2000), |i| {
        d.open_file(&name(pick(i, n))).unwrap();
    });
    let t = Instant::now();
    let count = d.iter().count();
    out.0.insert("readdir", ("ops/s", count as f64 / t.elapsed().as_secs_f64()));
    out.per_second("unlink", n.min(2000), |i| d.remove(&name(i)).unwrap());
    out
}

type Rig = Blocking<Fat, Numbered<RamDisk>>;

fn ctx() -> Ctx {
    Ctx { now: Timestamp { secs: 1_790_000_000, nanos: 0 }, ..Ctx::default() }
}

fn rig(data: Vec<u8>) -> Rig {
    let sector: [u8; BOOT_BYTES] = *data.first_chunk().unwrap();
    let boot = Boot::parse(&sector, data.len() as u64).unwrap();
    println!("# blocks of {} bytes, clusters of {}", boot.block_size, boot.cluster);
    let at = boot.fat_start(0) as usize;
    let head: [u8; HEAD_BYTES] = *data.get(at..).unwrap().first_chunk().unwrap();
    let fat = Fat::open(boot, head, None, OpenOptions::default()).unwrap();
    let dev = Numbered::new(RamDisk(data));
    let opts = MountOpts::new(policy::preset("default").unwrap());
    let fs = Fs::new(fat, dev.caps(), dev.seqs(), opts).unwrap();
    Blocking { fs, dev }
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

fn big_file(r: &mut Rig, out: &mut Figures) {
    let c = ctx();
    let h = open(r, ROOT, "big");
    // As a caller's buffer: its bytes are copied into the cache at each write.
    let chunk = vec![9u8; MIB];
    out.stream("seqwrite1m", |at| {
        let data = Slice::new(PageBuf::from_slice(&chunk));
        driver::run(r, &c, |fs, t| fs.write(&c, h, at, &data, t)).unwrap();
    });
    // The same again, in memory that the process has.
    out.stream("seqwrite1m_again", |at| {
        let data = Slice::new(PageBuf::from_slice(&chunk));
        driver::run(r, &c, |fs, t| fs.write(&c, h, at, &data, t)).unwrap();
    });
    let mut buf = vec![0u8; MIB];
    out.stream("seqread1m", |at| {
        assert_eq!(driver::read_into(r, &c, h, at, &mut buf).unwrap(), MIB);
    });
    out.per_second("randread4k", 200_000, |i| {
        let at = pick(i * 31 + 7, BIG / 4096) * 4096;
        let part = buf.get_mut(..4096).unwrap();
        assert_eq!(driver::read_into(r, &c, h, at, part).unwrap(), 4096);
    });
    close(r, h);
}

fn our_side(data: Vec<u8>) -> Figures {
    let mut out = Figures::default();
    let r = &mut rig(data);
    let c = ctx();
    big_file(r, &mut out);
    let dir = driver::run(r, &c, |fs, t| fs.create(&c, ROOT, b"d", NewNode::Dir, 0o755, t));
    let dir = dir.unwrap().ino;
    let body = Arc::new(PageBuf::from_slice(&[b'x'; 1024]));
    let made = out.per_second("create_1K", FILES, |i| {
        let h = open(r, dir, &name(i));
        let data = Slice::shared(Arc::clone(&body));
        driver::run(r, &c, |fs, t| fs.write(&c, h, 0, &data, t)).unwrap();
        close(r, h);
    });
    out.per_second("lookup", 300_000, |i| {
        let n = name(pick(i, made));
        let got = driver::run(r, &c, |fs, t| fs.lookup(&c, dir, n.as_bytes(), t));
        assert!(got.is_ok(), "{n} of {made}: {got:?}");
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
    out.0.insert("readdir", ("ops/s", count as f64 / t.elapsed().as_secs_f64()));
    out.per_second("unlink", 2000, |i| {
        driver::run(r, &c, |fs, t| fs.unlink(&c, dir, name(i).as_bytes(), t)).unwrap();
    });
    out
}

fn main() {
    let mut image = Cursor::new(vec![0u8; VOLUME]);
    let options =
        fatfs::FormatVolumeOptions::new().fat_type(fatfs::FatType::Fat32).bytes_per_cluster(4096);
    fatfs::format_volume(&mut image, options).unwrap();
    let image = image.into_inner();
    let ours = our_side(image.clone());
    if std::env::args().any(|a| a == "--alone") {
        ours.0.iter().for_each(|(metric, (unit, value))| println!("{metric}\t{unit}\t{value:.1}"));
        return;
    }
    let theirs = fatfs_side(image);
    for (metric, (unit, value)) in &ours.0 {
        let other = theirs.0.get(metric).map_or(f64::NAN, |(_, v)| *v);
        println!("{metric}\t{unit}\t{value:.1}\t{other:.1}\t{:.1}", value / other);
    }
}
