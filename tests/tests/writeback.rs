//! Who writes what back, who waits for it, and what a close returns: each close action beside a
//! flusher that has the inode or not, on both formats; the flusher's passes; exclusion; errors of
//! writes that nobody waited for; and random interleavings of plans.
//!
//! Plans are stepped by hand here: a step is under way until the test completes it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use seawall_blockdev::{BlockDev, DevError, Numbered, PageBuf, WriteFlags, WriteRun};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::policy::{Action, Exclusion, Flusher, MergeBoundary, Policy, preset};
use seawall_diskfs::testing::MemDev;
use seawall_diskfs::{
    Ctx, Format, Fs, FsError, Handle, Ino, IoRun, MountOpts, OpenFlags, PlanId, PlanReq, Site,
    Slice, Source, Step, StepId, Timestamp, Verdict,
};
use seawall_ext2::Ext2;
use seawall_fat::Fat;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 48 * MIB;
const FILE: u64 = 6 * MIB;

fn at(secs: i64) -> Ctx {
    Ctx { now: Timestamp { secs, nanos: 0 }, ..Ctx::default() }
}

fn policy(name: &str) -> Policy {
    let flusher = Flusher { background: 256 << 10, chunk: 2 * MIB, ..Flusher::default() };
    Policy { flusher, ..preset(name).unwrap() }
}

fn ext2(policy: Policy) -> Rig<Ext2> {
    let mut dev = Numbered::new(MemDev::new(vec![0; SIZE as usize]));
    let options = seawall_ext2::MkfsOptions::new(SIZE, [7; 16], at(0).now);
    let options = seawall_ext2::MkfsOptions { block_size: 4096, ..options };
    seawall_ext2::mkfs(&mut dev, &options).unwrap();
    let sb: [u8; 1024] = dev.get_ref().data[1024..2048].try_into().unwrap();
    Rig::new(Ext2::open(&sb, SIZE, seawall_ext2::OpenOptions::default()).unwrap(), dev, policy)
}

fn fat(policy: Policy) -> Rig<Fat> {
    let mut dev = Numbered::new(MemDev::new(vec![0; SIZE as usize]));
    let options = seawall_fat::MkfsOptions::new(SIZE, 7, at(0).now);
    let options = seawall_fat::MkfsOptions { sectors_per_cluster: Some(8), ..options };
    seawall_fat::mkfs(&mut dev, &options).unwrap();
    let data = &dev.get_ref().data;
    let boot = seawall_fat::boot::Boot::parse(data.first_chunk().unwrap(), SIZE).unwrap();
    let head = *data[boot.fat_start(0) as usize..].first_chunk().unwrap();
    Rig::new(Fat::open(boot, head, None, seawall_fat::OpenOptions::default()).unwrap(), dev, policy)
}

/// A step that the test has not completed.
#[derive(Clone)]
struct Taken {
    plan: PlanId,
    id: StepId,
    runs: Vec<IoRun>,
    flags: WriteFlags,
    waited: bool,
    sync: bool,
}

impl Taken {
    fn is_data(&self) -> bool {
        self.runs.iter().any(|r| r.tag == Site::Data.tag())
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.data.len() as u64).sum()
    }
}

/// Why `pull` gave nothing.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    Busy,
    Pending,
    Done,
}

struct Rig<F> {
    host: Blocking<F, Numbered<MemDev>>,
    taken: Vec<Taken>,
}

impl<F: Format> Rig<F> {
    fn new(format: F, dev: Numbered<MemDev>, policy: Policy) -> Self {
        let fs = Fs::new(format, dev.caps(), dev.seqs(), MountOpts::new(policy)).unwrap();
        Self { host: Blocking { fs, dev }, taken: Vec::new() }
    }

    fn fs(&mut self) -> &mut Fs<F> {
        &mut self.host.fs
    }

    fn create(&mut self, name: &str) -> (Ino, Handle) {
        let (root, c) = (self.fs().geometry().root, at(0));
        let rw = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let made = driver::run(&mut self.host, &c, |fs, t| {
            fs.create_open(&c, root, name.as_bytes(), 0o644, rw, t)
        });
        let (a, h) = made.unwrap();
        (a.ino, h)
    }

    fn open(&mut self, ino: Ino) -> Handle {
        let rw = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        driver::run(&mut self.host, &at(0), |fs, t| fs.open(&at(0), ino, rw, t)).unwrap()
    }

    fn put(&mut self, h: Handle, offset: u64, len: u64, secs: i64) {
        self.fill(h, offset, len, secs, (offset / MIB) as u8 + 1);
    }

    fn fill(&mut self, h: Handle, offset: u64, len: u64, secs: i64, byte: u8) {
        let mut done = 0;
        while done < len {
            let part = MIB.min(len - done);
            let mut buf = PageBuf::zeroed(part as usize);
            buf.fill(byte);
            let (data, c) = (Slice::new(buf), at(secs));
            driver::run(&mut self.host, &c, |fs, t| fs.write(&c, h, offset + done, &data, t))
                .unwrap();
            done += part;
        }
    }

    /// A file of 6 MiB that nobody has begun to write back; what creating it dirtied is written.
    fn file(&mut self) -> (Ino, Handle) {
        let (ino, h) = self.create("file");
        driver::run_plan(&mut self.host, PlanReq::Whole(Site::Periodic)).unwrap();
        self.put(h, 0, FILE, 0);
        (ino, h)
    }

    fn begin(&mut self, req: PlanReq) -> PlanId {
        self.fs().begin(req)
    }

    fn pull(&mut self, plan: PlanId) -> Result<Taken, Stop> {
        let taken = match self.fs().next(plan, MIB) {
            Step::Write { id, runs, flags, waited } => {
                Taken { plan, id, runs, flags, waited, sync: false }
            }
            Step::Sync { id, .. } => {
                let flags = WriteFlags::default();
                Taken { plan, id, runs: Vec::new(), flags, waited: true, sync: true }
            }
            Step::Busy => return Err(Stop::Busy),
            Step::Pending => return Err(Stop::Pending),
            Step::Done => return Err(Stop::Done),
        };
        self.taken.push(taken.clone());
        Ok(taken)
    }

    /// Pulls until there is nothing to pull. Returns the bytes of data and of metadata, whether
    /// each part was to be waited for, and why it stopped.
    fn pull_all(&mut self, plan: PlanId) -> (Part, Part, Stop) {
        let (mut data, mut meta) = (Part::default(), Part::default());
        loop {
            match self.pull(plan) {
                Ok(t) if t.is_data() => data.add(&t),
                Ok(t) => meta.add(&t),
                Err(stop) => return (data, meta, stop),
            }
        }
    }

    fn complete(&mut self, t: &Taken) {
        self.taken.retain(|o| o.id != t.id);
        let runs: Vec<WriteRun<'_>> =
            t.runs.iter().map(|r| WriteRun { start: r.start, buf: &r.data, tag: r.tag }).collect();
        let result = match t.sync {
            true => self.host.dev.sync(Site::Syncfs.tag()),
            false => self.host.dev.write(&runs, t.flags),
        };
        self.fs().complete(t.id, result);
    }

    fn complete_those(&mut self, which: impl Fn(&Taken) -> bool) {
        for t in self.taken.clone() {
            if which(&t) {
                self.complete(&t);
            }
        }
    }

    fn fail_all(&mut self) {
        for t in std::mem::take(&mut self.taken) {
            self.fs().complete(t.id, Err(DevError::Io));
        }
    }

    /// Runs a plan to its end, with all that is under way.
    fn finish(&mut self, plan: PlanId) -> Result<Verdict, FsError> {
        for round in 0.. {
            match self.pull_all(plan).2 {
                Stop::Done => break,
                stop => assert!(round < 1000, "{stop:?} for ever"),
            }
            self.complete_those(|_| true);
        }
        self.complete_those(|_| true);
        self.fs().finish(plan)
    }

    fn dirty(&mut self) -> u64 {
        self.fs().stats().dirty_bytes
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    bytes: u64,
    waited: bool,
    steps: u32,
}

impl Part {
    fn add(&mut self, t: &Taken) {
        assert!(self.steps == 0 || self.waited == t.waited, "one part, one answer");
        (self.bytes, self.waited, self.steps) = (self.bytes + t.bytes(), t.waited, self.steps + 1);
    }

    fn of(bytes: u64, waited: bool) -> Self {
        Self { bytes, waited, steps: bytes.div_ceil(MIB) as u32 }
    }
}

/// A close while nobody else is in the file: what it hands out before it waits or ends.
fn closes_alone<F: Format>(has_tables: bool, rig: impl Fn(Policy) -> Rig<F>) {
    for (name, data_waits, inode_waits) in [
        ("fat-stock", false, false),
        ("fat-wait1", true, true),
        ("fat-wait0", false, false),
        ("fat-submit", false, true),
    ] {
        let mut r = rig(policy(name));
        let (_, h) = r.file();
        let close = r.begin(PlanReq::Close(h));
        let (data, meta, stop) = r.pull_all(close);
        assert_eq!(data, Part::of(FILE, data_waits), "{name}");
        if data_waits {
            assert_eq!(
                (meta.bytes, stop),
                (0, Stop::Pending),
                "{name}: data, then what leads to it"
            );
            r.complete_those(Taken::is_data);
            assert_eq!(r.dirty(), 0);
            let (data, meta, stop) = r.pull_all(close);
            assert_eq!((data.bytes, meta.waited, stop), (0, true, Stop::Pending), "{name}");
            assert!(meta.bytes > 0);
            r.complete_those(|_| true);
        } else {
            assert!(meta.bytes > 0, "{name}: started");
            assert_eq!(meta.waited, inode_waits, "{name}");
            if inode_waits {
                assert_eq!(stop, Stop::Pending);
                r.complete_those(|t| !t.is_data());
            }
        }
        let (data, tables, stop) = r.pull_all(close);
        assert_eq!((data, stop), (Part::default(), Stop::Done), "{name}");
        assert!(!tables.waited, "{name}: who waits for the inode waits for its entry");
        assert_eq!(tables.bytes > 0, has_tables && inode_waits, "{name}: the FAT is started");
        let in_flight = r.taken.len() as u32;
        let verdict = r.fs().finish(close).unwrap();
        assert_eq!(verdict, Verdict { linger_ms: 100, in_flight }, "{name}");
        r.complete_those(|_| true);
        assert_eq!(r.dirty(), 0, "{name}: what was submitted ends by itself");
        let again = r.begin(PlanReq::Close(h));
        assert_eq!(r.finish(again).unwrap(), Verdict::default(), "a clean handle does nothing");
    }
}

#[test]
fn closes_alone_ext2() {
    closes_alone(false, ext2);
}

#[test]
fn closes_alone_fat() {
    closes_alone(true, fat);
}

/// A close while the flusher is in the middle of a chunk of the file.
fn closes_beside_the_flusher<F: Format>(rig: impl Fn(Policy) -> Rig<F>) {
    for name in ["fat-stock", "fat-wait1", "fat-wait0", "fat-submit"] {
        let mut r = rig(policy(name));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        let first = r.pull(flusher).unwrap();
        assert_eq!((first.bytes(), first.waited), (MIB, false));
        let close = r.begin(PlanReq::Close(h));
        let (data, meta, stop) = r.pull_all(close);
        match name {
            "fat-stock" => {
                assert_eq!(data, Part::of(FILE - MIB, false), "they race for the pages");
                assert!(meta.bytes > 0 && !meta.waited);
                assert_eq!(stop, Stop::Done, "and it waits for none");
            }
            "fat-wait0" => {
                assert_eq!((data.bytes, stop), (0, Stop::Done), "it leaves the inode alone");
                assert_eq!(r.fs().stats().writeback.skipped, 1);
                assert_eq!(r.dirty(), FILE);
            }
            _ => {
                assert_eq!((data.bytes, meta.bytes, stop), (0, 0, Stop::Busy), "it has to wait");
                let second = r.pull(flusher).unwrap();
                assert_eq!(second.bytes(), MIB, "until the chunk is over");
                assert_eq!(r.pull_all(close).2, Stop::Busy, "the last step is not submitted yet");
                assert_eq!(r.pull_all(flusher).2, Stop::Busy, "then it is the closer's turn");
                let (data, meta, stop) = r.pull_all(close);
                assert_eq!(data, Part::of(FILE - 2 * MIB, name == "fat-wait1"), "{name}");
                assert_eq!((meta.bytes > 0, stop), (name == "fat-submit", Stop::Pending), "{name}");
                assert_eq!(r.pull_all(flusher).2, Stop::Done, "nothing is left for it");
                if name == "fat-wait1" {
                    r.complete_those(|t| t.plan == close);
                    assert_eq!(r.pull_all(close).2, Stop::Busy, "the flusher's pages, too");
                }
            }
        }
        r.complete_those(|_| true);
        assert_eq!(r.finish(close).unwrap().linger_ms, 100, "{name}");
        r.finish(flusher).unwrap();
        assert!(r.dirty() <= 256 << 10, "{name}: the flusher did the rest");
    }
}

#[test]
fn closes_beside_the_flusher_ext2() {
    closes_beside_the_flusher(ext2);
}

#[test]
fn closes_beside_the_flusher_fat() {
    closes_beside_the_flusher(fat);
}

#[test]
fn a_barrier_at_close_leaves_the_file_durable() {
    let mut r = ext2(policy("removable"));
    let (_, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    assert_eq!(r.finish(close).unwrap(), Verdict::default(), "ours does not linger");
    assert_eq!(r.dirty(), 0);
    assert!(r.host.dev.get_ref().unflushed.is_empty());
}

#[test]
fn fsync_and_syncfs_own_the_inode_too() {
    for whole in [false, true] {
        let mut r = fat(policy("fat-wait1"));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        r.pull(flusher).unwrap();
        let req = match whole {
            true => PlanReq::Whole(Site::Syncfs),
            false => PlanReq::Fsync { handle: h, datasync: false },
        };
        let sync = r.begin(req);
        assert_eq!(r.pull_all(sync).2, Stop::Busy, "as at close");
        r.pull(flusher).unwrap();
        assert_eq!(r.pull_all(flusher).2, Stop::Busy);
        assert_eq!(r.pull_all(sync).0, Part::of(FILE - 2 * MIB, true));
        r.finish(sync).unwrap();
        r.finish(flusher).unwrap();
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn a_walker_races_only_without_exclusion() {
    for (name, raced) in [("fat-stock", true), ("fat-wait1", false)] {
        let mut r = fat(policy(name));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        r.pull(flusher).unwrap();
        assert!(!r.fs().is_raced(flusher));
        let close = r.begin(PlanReq::Close(h));
        assert_eq!((r.fs().is_raced(flusher), r.fs().is_raced(close)), (raced, raced), "{name}");
        if raced {
            assert_eq!(r.fs().step_limits(close).step, 31 * 4096);
            // Neck and neck: each takes what the other has left.
            let starts: Vec<u64> =
                [close, flusher, close, flusher].map(|p| r.pull(p).unwrap().runs[0].start).to_vec();
            let steps: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
            assert_eq!(steps, [MIB; 3]);
        }
        r.finish(flusher).unwrap();
        r.finish(close).unwrap();
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn the_flusher_tests_its_threshold_between_chunks_only() {
    let mut p = policy("default");
    p.flusher.background = 5 * MIB;
    let mut r = ext2(p);
    r.file();
    assert!(r.fs().wants_writeback());
    let flusher = r.begin(PlanReq::Background);
    let (data, _, stop) = r.pull_all(flusher);
    assert_eq!(
        (data, stop),
        (Part::of(2 * MIB, false), Stop::Done),
        "a chunk, though 1 MiB is enough"
    );
    assert!(!r.fs().wants_writeback(), "what a step has does not count");
    assert_eq!(r.dirty(), FILE);
    let none = r.begin(PlanReq::Background);
    assert_eq!(r.pull_all(none).2, Stop::Done);
    r.finish(none).unwrap();
    r.finish(flusher).unwrap();
    let w = r.fs().stats().writeback;
    assert_eq!((w.passes, w.background_bytes), (1, 2 * MIB));
}

#[test]
fn the_flusher_takes_inodes_in_turn() {
    let mut p = policy("default");
    p.flusher.background = 0;
    let mut r = fat(p);
    let (a, ha) = r.create("a");
    let (b, hb) = r.create("b");
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    for i in 0..4 {
        r.put(ha, i * MIB, MIB, 0);
        r.put(hb, i * MIB, MIB, 0);
    }
    let flusher = r.begin(PlanReq::Background);
    let mut order = Vec::new();
    for _ in 0..8 {
        let t = r.pull(flusher).unwrap();
        order.push((t.runs[0].data[0], r.fs().is_raced(flusher)));
        r.complete(&t);
    }
    let bytes: Vec<u8> = order.iter().map(|(byte, _)| *byte).collect();
    assert_eq!(bytes, [1, 2, 1, 2, 3, 4, 3, 4], "chunks of 2 MiB of {a:?} and {b:?}");
    r.finish(flusher).unwrap();
}

#[test]
fn a_pass_goes_on_where_the_last_one_stopped() {
    let mut p = policy("default");
    p.flusher.background = 2 * MIB;
    let mut r = fat(p);
    let (_, h) = r.create("a");
    (0..4).for_each(|i| r.put(h, i * MIB, MIB, 0));
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull_all(flusher).0.bytes, 2 * MIB);
    r.finish(flusher).unwrap();
    r.put(h, 0, MIB, 0);
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull(flusher).unwrap().runs[0].data[0], 3, "the start has to wait");
    r.finish(flusher).unwrap();
}

#[test]
fn age_makes_the_flusher_write_an_inode_completely() {
    for name in ["fat-wait1", "linux-ext2"] {
        let mut p = policy(name);
        p.flusher.background = 1 << 30;
        let mut r = fat(p);
        let (_, old) = r.create("old");
        let (_, young) = r.create("young");
        driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
        r.put(old, 0, 3 * MIB, 0);
        r.put(young, 0, MIB, 20);
        let tick = |r: &mut Rig<Fat>, secs| {
            let plan = r.begin(PlanReq::Expired { now: at(secs).now });
            let (data, meta, stop) = r.pull_all(plan);
            assert_eq!(stop, Stop::Done, "it waits for nothing");
            r.complete_those(|_| true);
            r.fs().finish(plan).unwrap();
            (data.bytes, meta.bytes > 0)
        };
        assert_eq!(tick(&mut r, 29), (0, false), "{name}");
        assert_eq!(tick(&mut r, 30), (3 * MIB, true), "{name}: {name} all of it");
        assert_eq!(tick(&mut r, 49), (0, false), "{name}");
        r.put(old, 0, MIB, 49);
        assert_eq!(tick(&mut r, 50).0, MIB, "{name}: the young one is old now");
        assert_eq!(tick(&mut r, 78).0, 0, "{name}: dirty again counts anew");
        assert_eq!(tick(&mut r, 79).0, MIB, "{name}");
        assert_eq!(r.fs().stats().writeback.expiry_bytes, 5 * MIB);
    }
}

#[test]
fn under_an_order_old_metadata_takes_the_data_along() {
    let mut p = policy("default");
    p.flusher.background = 1 << 30;
    let mut r = ext2(p);
    let (_, h) = r.create("f");
    r.put(h, 0, MIB, 40);
    let plan = r.begin(PlanReq::Expired { now: at(31).now });
    r.finish(plan).unwrap();
    assert!(!r.fs().is_dirty(), "what the metadata points to is there");
}

#[test]
fn a_pass_passes_over_what_another_plan_has() {
    let mut p = policy("fat-wait1");
    p.flusher.background = 0;
    let mut r = fat(p);
    let (_, a) = r.create("a");
    let (_, b) = r.create("b");
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    r.put(a, 0, 2 * MIB, 0);
    r.fill(b, 0, MIB, 0, 9);
    let close = r.begin(PlanReq::Close(a));
    r.pull(close).unwrap();
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull(flusher).unwrap().runs[0].data[0], 9, "the other inode first");
    assert_eq!(r.pull_all(flusher).2, Stop::Busy, "nothing else is left");
    assert_eq!(r.fs().stats().writeback.skipped, 1);
    r.finish(close).unwrap();
    assert_eq!(r.pull_all(flusher).2, Stop::Done);
    r.finish(flusher).unwrap();
}

#[test]
fn a_turn_of_the_filesystem_for_large_inodes_and_all_that_is_no_full_sync() {
    let mut p = policy("fat-wait1");
    p.exclusion = Exclusion::Global { min_bytes: 2 * MIB };
    p.flusher.background = 0;
    let mut r = fat(p);
    let files: Vec<Handle> = (0..4).map(|i| r.create(&format!("f{i}")).1).collect();
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    for (h, len) in files.iter().zip([3 * MIB, 2 * MIB, MIB, MIB]) {
        r.put(*h, 0, len, 0);
    }
    let plans: Vec<PlanId> =
        files.iter().map(|h| r.begin(PlanReq::Fsync { handle: *h, datasync: true })).collect();
    r.pull(plans[0]).unwrap();
    assert_eq!(r.pull(plans[1]).err(), Some(Stop::Busy), "one large inode at a time");
    assert!(r.pull(plans[2]).is_ok(), "small ones go in parallel");
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(
        r.pull(flusher).err(),
        Some(Stop::Busy),
        "the flusher takes turns, whatever the size"
    );
    r.pull(plans[0]).unwrap();
    r.pull(plans[0]).unwrap();
    assert_eq!(r.pull(plans[1]).err(), Some(Stop::Busy));
    assert_eq!(
        r.pull_all(plans[0]).2,
        Stop::Pending,
        "submitted: the turn is over, the wait is not"
    );
    assert_eq!(r.pull(flusher).err(), Some(Stop::Busy), "who waits goes first");
    assert!(r.pull(plans[1]).is_ok());
    for p in plans {
        r.finish(p).unwrap();
    }
    r.finish(flusher).unwrap();
    assert_eq!(r.dirty(), 0);
}

#[test]
fn requests_hold_what_the_merge_boundary_lets_them() {
    for (boundary, want) in [
        (MergeBoundary::None, vec![4]),
        (MergeBoundary::Inode, vec![3, 1]),
        (MergeBoundary::InodeOffset, vec![2, 1, 1]),
    ] {
        let mut p = policy("fat-wait1");
        p.merge_boundary = boundary;
        let mut r = fat(p);
        let (_, a) = r.create("a");
        let (_, b) = r.create("b");
        r.put(a, 0, 32 << 10, 0);
        driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
        for block in [0, 1, 5] {
            r.put(a, block * 4096, 4096, 0);
        }
        r.put(b, 0, 4096, 0);
        let sync = r.begin(PlanReq::Whole(Site::Syncfs));
        let mut got = Vec::new();
        while let Ok(t) = r.pull(sync) {
            if t.is_data() {
                got.push(t.bytes() / 4096);
            }
        }
        assert_eq!(got, want, "{boundary:?}");
        r.finish(sync).unwrap();
    }
}

#[test]
fn an_error_that_nobody_waited_for_is_told_once_to_each_handle() {
    for name in ["fat-stock", "fat-wait0"] {
        let mut r = ext2(policy(name));
        let (ino, h) = r.file();
        let other = r.open(ino);
        let close = r.begin(PlanReq::Close(h));
        assert_eq!(r.pull_all(close).2, Stop::Done);
        r.fs().finish(close).unwrap();
        r.fail_all();
        assert_eq!(r.dirty(), FILE, "{name}: it stays dirty");
        assert_eq!(r.fs().failing(), Some(DevError::Io));
        for handle in [h, other] {
            let sync = PlanReq::Fsync { handle, datasync: false };
            let first = r.begin(sync);
            assert_eq!(r.finish(first).unwrap_err(), FsError::Io(DevError::Io), "{name}");
            let second = r.begin(sync);
            r.finish(second).unwrap();
        }
        assert_eq!(r.fs().failing(), None);
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn an_error_is_heard_at_the_next_close_and_by_who_comes_next() {
    let mut r = fat(policy("fat-wait0"));
    let (ino, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    r.put(h, 0, 4096, 0);
    r.fail_all();
    let close = r.begin(PlanReq::Close(h));
    assert!(r.finish(close).is_err(), "the close inherits it");
    r.fill(h, 0, 4096, 0, 3);
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    r.fs().clunk(h);
    r.fail_all();
    let next = r.open(ino);
    let sync = r.begin(PlanReq::Fsync { handle: next, datasync: false });
    assert!(r.finish(sync).is_err(), "no handle was left to hear of it");
    let last = r.open(ino);
    let sync = r.begin(PlanReq::Fsync { handle: last, datasync: false });
    r.finish(sync).unwrap();
}

#[test]
fn an_fsync_waits_for_what_a_close_left_under_way() {
    let mut r = ext2(policy("fat-stock"));
    let (_, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    let sync = r.begin(PlanReq::Fsync { handle: h, datasync: false });
    // An overwrite hides the pages that are under way; they count all the same.
    r.fill(h, 0, FILE, 0, 99);
    assert_eq!(r.pull_all(sync).2, Stop::Busy);
    r.complete_those(|t| t.is_data());
    assert!(matches!(r.pull_all(sync).2, Stop::Pending | Stop::Busy));
    r.finish(sync).unwrap();
    assert_eq!(r.dirty(), FILE);
}

#[test]
fn a_writer_above_the_limit_waits_and_is_not_refused() {
    let mut p = policy("default");
    p.flusher = Flusher { background: 64 << 10, limit: 2 * MIB, ..p.flusher };
    let mut r = ext2(p);
    let (_, h) = r.create("f");
    for i in 0..16 {
        r.put(h, i * MIB, MIB, 0);
        assert!(r.dirty() <= 2 * MIB);
    }
    // One write that is larger than the limit.
    let data = Slice::new(PageBuf::zeroed(4 << 20));
    let wrote = driver::run(&mut r.host, &at(0), |fs, t| fs.write(&at(0), h, 0, &data, t)).unwrap();
    assert_eq!(wrote.0, 4 << 20);
    r.put(h, 0, MIB, 0);
    assert!(r.host.fs.memory().1 <= 40 * MIB);
}

/// xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Blocks of each file of the random test.
const BLOCKS: u64 = 96;

/// What was seen when a plan began, and was not written over since, survives a power loss.
fn is_stable<F: Format>(r: &mut Rig<F>, h: Handle, seen: &[u8], now: &[u8]) {
    r.fs().drop_clean();
    let len = seen.len() * 4096;
    let plan = driver::run(&mut r.host, &at(0), |fs, t| fs.read(&at(0), h, 0, len, t)).unwrap();
    for s in &plan.segments {
        let Source::Disk(start) = s.source else { continue };
        for at in (0..s.len).step_by(4096) {
            let block = (s.at + at) / 4096;
            if seen[block] == now[block] {
                let stable = r.host.dev.get_ref().stable[start as usize + at];
                assert_eq!(stable, seen[block], "block {block}");
            }
        }
    }
    r.fs().read_done(&plan);
}

/// Plans of all kinds, stepped, completed and failed in random order, while writers go on: no two
/// steps under way touch the same bytes, an fsync that says Ok has its data on the disk, and in the
/// end all of it is there.
fn interleave<F: Format>(mut r: Rig<F>, seed: u64) {
    let mut dice = Dice(seed | 1);
    let durable = r.fs().policy().action(Site::Syncfs, true) == Action::Barrier;
    let names = ["a", "b", "c"];
    let files: Vec<(Ino, Handle)> = names.iter().map(|n| r.create(n)).collect();
    let mut model = [[0u8; BLOCKS as usize]; 3];
    for (_, h) in &files {
        r.fill(*h, 0, BLOCKS * 4096, 0, 0);
    }
    let mut plans: Vec<(PlanId, Option<(usize, [u8; BLOCKS as usize])>)> = Vec::new();
    for turn in 0..2500u64 {
        match dice.roll(12) {
            0..=2 => {
                let (f, first) = (dice.roll(3) as usize, dice.roll(BLOCKS));
                let (n, byte) = (1 + dice.roll((BLOCKS - first).min(24)), dice.roll(250) as u8 + 1);
                let n = n.min(BLOCKS - first);
                r.fill(files[f].1, first * 4096, n * 4096, turn as i64 / 8, byte);
                model[f][first as usize..(first + n) as usize].fill(byte);
            }
            3 if plans.len() < 6 => {
                let f = dice.roll(3) as usize;
                let handle = files[f].1;
                let (req, sees) = match dice.roll(5) {
                    0 => (PlanReq::Close(handle), None),
                    1 => (PlanReq::Fsync { handle, datasync: false }, Some((f, model[f]))),
                    2 => (PlanReq::Background, None),
                    3 => (PlanReq::Expired { now: at(turn as i64 / 8).now }, None),
                    _ => (PlanReq::Whole(Site::Syncfs), durable.then_some((f, model[f]))),
                };
                plans.push((r.begin(req), sees));
            }
            4..=8 if !plans.is_empty() => {
                let i = dice.roll(plans.len() as u64) as usize;
                match r.pull(plans[i].0) {
                    Ok(t) => {
                        let hits = |o: &Taken| {
                            o.id != t.id
                                && o.runs.iter().any(|a| {
                                    t.runs.iter().any(|b| {
                                        a.start < b.start + b.data.len() as u64
                                            && b.start < a.start + a.data.len() as u64
                                    })
                                })
                        };
                        assert!(!r.taken.iter().any(hits), "two writers of one block");
                    }
                    Err(Stop::Done) => {
                        let (plan, sees) = plans.swap_remove(i);
                        if let (Ok(_), Some((f, seen))) = (r.fs().finish(plan), sees) {
                            is_stable(&mut r, files[f].1, &seen, &model[f]);
                        }
                    }
                    Err(_) => {}
                }
            }
            _ if !r.taken.is_empty() => {
                let i = dice.roll(r.taken.len() as u64) as usize;
                let t = r.taken[i].clone();
                if dice.roll(40) == 0 && !t.sync {
                    r.taken.swap_remove(i);
                    r.fs().complete(t.id, Err(DevError::Io));
                } else {
                    r.complete(&t);
                }
            }
            _ => {}
        }
    }
    // Everybody gets to an end, in any order.
    let mut rounds = 0;
    while !plans.is_empty() {
        rounds += 1;
        assert!(rounds < 10_000, "plans wait for each other");
        r.complete_those(|_| true);
        let i = dice.roll(plans.len() as u64) as usize;
        if r.pull_all(plans[i].0).2 == Stop::Done {
            let _told = r.fs().finish(plans.swap_remove(i).0);
        }
    }
    r.complete_those(|_| true);
    for _ in 0..2 {
        let sync = r.begin(PlanReq::Whole(Site::Syncfs));
        let _first_may_inherit = r.finish(sync);
    }
    assert_eq!(r.dirty(), 0);
    r.host.fs.drop_clean();
    for (f, (_, h)) in files.iter().enumerate() {
        let got = driver::read(&mut r.host, &at(0), *h, 0, (BLOCKS * 4096) as usize).unwrap();
        let bytes: Vec<u8> = got.chunks(4096).map(|b| b[0]).collect();
        assert_eq!(bytes, model[f], "file {f}");
        assert!(got.chunks(4096).all(|b| b.iter().all(|x| *x == b[0])));
    }
}

fn interleave_under(exclusion: Exclusion, name: &str, seed: u64) {
    let mut p = policy(name);
    p.exclusion = exclusion;
    p.flusher = Flusher { background: 64 << 10, chunk: 64 << 10, ..p.flusher };
    interleave(ext2(p.clone()), seed);
    interleave(fat(p), seed);
}

#[test]
fn random_plans_side_by_side() {
    for seed in 1..=4 {
        for name in ["fat-stock", "fat-submit", "fat-wait1", "default"] {
            interleave_under(Exclusion::None, name, seed * 7919);
        }
    }
}

#[test]
fn random_plans_one_an_inode() {
    for seed in 1..=4 {
        for name in ["fat-wait0", "fat-submit", "fat-wait1", "default"] {
            interleave_under(Exclusion::PerInode, name, seed * 104_729);
        }
    }
}

#[test]
fn random_plans_with_a_turn_for_all() {
    for seed in 1..=4 {
        for name in ["fat-wait0", "fat-wait1", "default"] {
            interleave_under(Exclusion::Global { min_bytes: 64 << 10 }, name, seed * 15_485_863);
        }
    }
}
