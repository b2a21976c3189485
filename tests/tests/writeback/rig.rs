//! A filesystem whose plans are stepped by hand.

use seawall_blockdev::{BlockDev, DevError, Numbered, PageBuf, WriteFlags, WriteRun};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::policy::{Flusher, Policy, preset};
use seawall_diskfs::testing::MemDev;
use seawall_diskfs::{
    Ctx, Format, Fs, FsError, Handle, Ino, IoRun, MountOpts, OpenFlags, PlanId, PlanReq, Site,
    Slice, Step, StepId, Timestamp, Verdict,
};
use seawall_ext2::Ext2;
use seawall_fat::Fat;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SIZE: u64 = 48 * MIB;
pub(crate) const FILE: u64 = 6 * MIB;

pub(crate) fn at(secs: i64) -> Ctx {
    Ctx { now: Timestamp { secs, nanos: 0 }, ..Ctx::default() }
}

pub(crate) fn policy(name: &str) -> Policy {
    let flusher = Flusher { background: 256 << 10, chunk: 2 * MIB, ..Flusher::default() };
    Policy { flusher, ..preset(name).unwrap() }
}

pub(crate) fn ext2(policy: Policy) -> Rig<Ext2> {
    let mut dev = Numbered::new(MemDev::new(vec![0; SIZE as usize]));
    let options = seawall_ext2::MkfsOptions::new(SIZE, [7; 16], at(0).now);
    let options = seawall_ext2::MkfsOptions { block_size: 4096, ..options };
    seawall_ext2::mkfs(&mut dev, &options).unwrap();
    let sb: [u8; 1024] = dev.get_ref().data[1024..2048].try_into().unwrap();
    Rig::new(Ext2::open(&sb, SIZE, seawall_ext2::OpenOptions::default()).unwrap(), dev, policy)
}

pub(crate) fn fat(policy: Policy) -> Rig<Fat> {
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
pub(crate) struct Taken {
    pub(crate) plan: PlanId,
    pub(crate) id: StepId,
    pub(crate) runs: Vec<IoRun>,
    pub(crate) flags: WriteFlags,
    pub(crate) waited: bool,
    pub(crate) sync: bool,
}

impl Taken {
    pub(crate) fn is_data(&self) -> bool {
        self.runs.iter().any(|r| r.tag == Site::Data.tag())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.data.len() as u64).sum()
    }
}

/// Why `pull` gave nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Busy,
    Pending,
    Done,
}

pub(crate) struct Rig<F> {
    pub(crate) host: Blocking<F, Numbered<MemDev>>,
    pub(crate) taken: Vec<Taken>,
}

impl<F: Format> Rig<F> {
    pub(crate) fn new(format: F, dev: Numbered<MemDev>, policy: Policy) -> Self {
        let fs = Fs::new(format, dev.caps(), dev.seqs(), MountOpts::new(policy)).unwrap();
        Self { host: Blocking { fs, dev }, taken: Vec::new() }
    }

    pub(crate) fn fs(&mut self) -> &mut Fs<F> {
        &mut self.host.fs
    }

    pub(crate) fn create(&mut self, name: &str) -> (Ino, Handle) {
        let (root, c) = (self.fs().geometry().root, at(0));
        let rw = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let made = driver::run(&mut self.host, &c, |fs, t| {
            fs.create_open(&c, root, name.as_bytes(), 0o644, rw, t)
        });
        let (a, h) = made.unwrap();
        (a.ino, h)
    }

    pub(crate) fn open(&mut self, ino: Ino) -> Handle {
        let rw = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        driver::run(&mut self.host, &at(0), |fs, t| fs.open(&at(0), ino, rw, t)).unwrap()
    }

    pub(crate) fn put(&mut self, h: Handle, offset: u64, len: u64, secs: i64) {
        self.fill(h, offset, len, secs, (offset / MIB) as u8 + 1);
    }

    pub(crate) fn fill(&mut self, h: Handle, offset: u64, len: u64, secs: i64, byte: u8) {
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
    pub(crate) fn file(&mut self) -> (Ino, Handle) {
        let (ino, h) = self.create("file");
        driver::run_plan(&mut self.host, PlanReq::Whole(Site::Periodic)).unwrap();
        self.put(h, 0, FILE, 0);
        (ino, h)
    }

    pub(crate) fn begin(&mut self, req: PlanReq) -> PlanId {
        self.fs().begin(req)
    }

    pub(crate) fn pull(&mut self, plan: PlanId) -> Result<Taken, Stop> {
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
    pub(crate) fn pull_all(&mut self, plan: PlanId) -> (Part, Part, Stop) {
        let (mut data, mut meta) = (Part::default(), Part::default());
        loop {
            match self.pull(plan) {
                Ok(t) if t.is_data() => data.add(&t),
                Ok(t) => meta.add(&t),
                Err(stop) => return (data, meta, stop),
            }
        }
    }

    pub(crate) fn complete(&mut self, t: &Taken) {
        self.taken.retain(|o| o.id != t.id);
        let runs: Vec<WriteRun<'_>> =
            t.runs.iter().map(|r| WriteRun { start: r.start, buf: &r.data, tag: r.tag }).collect();
        let result = match t.sync {
            true => self.host.dev.sync(Site::Syncfs.tag()),
            false => self.host.dev.write(&runs, t.flags),
        };
        self.fs().complete(t.id, result);
    }

    pub(crate) fn complete_those(&mut self, which: impl Fn(&Taken) -> bool) {
        for t in self.taken.clone() {
            if which(&t) {
                self.complete(&t);
            }
        }
    }

    pub(crate) fn fail_all(&mut self) {
        for t in std::mem::take(&mut self.taken) {
            self.fs().complete(t.id, Err(DevError::Io));
        }
    }

    /// Runs a plan to its end, with all that is under way.
    pub(crate) fn finish(&mut self, plan: PlanId) -> Result<Verdict, FsError> {
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

    pub(crate) fn dirty(&mut self) -> u64 {
        self.fs().stats().dirty_bytes
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    pub(crate) waited: bool,
    pub(crate) steps: u32,
}

impl Part {
    pub(crate) fn add(&mut self, t: &Taken) {
        assert!(self.steps == 0 || self.waited == t.waited, "one part, one answer");
        (self.bytes, self.waited, self.steps) = (self.bytes + t.bytes(), t.waited, self.steps + 1);
    }

    pub(crate) fn of(bytes: u64, waited: bool) -> Self {
        Self { bytes, waited, steps: bytes.div_ceil(MIB) as u32 }
    }
}
