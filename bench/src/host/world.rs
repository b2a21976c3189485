//! The world of one run: the engine, its walkers, the device, and virtual time.

use super::consts::{EXPIRE, MS, SECOND};
use super::flusher::{Flusher, Reason};
use super::queue::{Queue, Sent};
use super::store::MetaStore;
use super::walker::{CALLER, FLUSHER, State, Walker};
use crate::seed::Seed;
use crate::sim::EPOCH_SECS;
use crate::target::Nanos;
use anyhow::{Context, Result, bail};
use seawall_blockdev::{BlockDev, PageBuf, Seq};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::{
    Attempt, Ctx, Done, Format, Fs, Handle, Ino, IoRun, MountOpts, OpenFlags, PlanReq, Policy,
    Site, Slice, StepId, Ticket, Timestamp, Verdict,
};
use seawall_store::sim::Profile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What differs between two hosts with the same engine.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The device.
    pub(crate) drive: Profile,
    /// Dirty bytes that start the flusher.
    pub(crate) threshold: u64,
    /// Dirty bytes at which writers wait.
    pub(crate) limit: u64,
    /// Period of its look at ages.
    pub(crate) period: Nanos,
    /// Of everything drawn.
    pub(crate) seed: u64,
    /// Metadata that somebody waits for passes queued data.
    pub(crate) elevator: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A request ended: its step, bytes of data.
    Ack(StepId, u64),
    /// The flusher looks at ages; of the timer that was started so many-th.
    Tick(u64),
    /// The queue grows.
    Grow,
}

/// A step under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    /// Requests that did not end yet.
    pub(super) left: u64,
    /// Bytes of file data in it.
    pub(super) data: u64,
    /// `None`: a flush.
    pub(super) seq: Option<Seq>,
}

/// See the module.
pub(crate) struct World<F: Format> {
    pub(super) now: Nanos,
    pub(super) events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    pub(super) tie: u64,
    pub(super) io: Blocking<F, MetaStore>,
    pub(super) queue: Queue,
    pub(super) rng: Seed,
    pub(super) walkers: [Walker; 2],
    pub(super) ready: VecDeque<usize>,
    pub(super) sleeping: VecDeque<usize>,
    pub(super) steps: BTreeMap<StepId, UnderWay>,
    /// Bytes of data claimed and not yet acknowledged.
    pub(super) in_flight: u64,
    /// Bytes of data in steps that did not end.
    pub(super) claimed: u64,
    /// Bytes of data acknowledged.
    pub(super) completed: u64,
    pub(super) flusher: Flusher,
    pub(super) elevator: bool,
    pub(super) growing: bool,
    /// What metadata steps wrote, when the queue keeps a log.
    pub(super) meta_log: BTreeMap<StepId, Vec<IoRun>>,
    /// When the flusher first ran, and what had been sent by then.
    pub(super) first_pass: Option<(Nanos, Sent)>,
    timer: u64,
    zeroes: Slice,
}

impl<F: Format> World<F> {
    /// Mounts `format` on what `store` holds.
    pub(crate) fn new(
        format: F,
        store: MetaStore,
        mut policy: Policy,
        setup: &Setup,
    ) -> Result<Self> {
        policy.flusher = seawall_diskfs::policy::Flusher {
            background: setup.threshold,
            limit: setup.limit,
            interval_ms: setup.period / MS,
            expire_ms: EXPIRE / MS,
            // The host ends chunks: their length follows the device's speed.
            chunk: u64::MAX,
            max_request: 4 << 20,
        };
        let mut opts = MountOpts::new(policy);
        // Pages are lengths here, so what is clean costs nothing to drop.
        opts.data_budget = 64 << 20;
        let fs = Fs::new(format, store.caps(), store.seqs(), opts).context("mount")?;
        let mut world = Self {
            now: 0,
            events: BinaryHeap::new(),
            tie: 0,
            io: Blocking { fs, dev: store },
            queue: Queue::new(setup.drive.clone()),
            rng: Seed::new(setup.seed),
            walkers: [Walker::new(), Walker::new()],
            ready: VecDeque::new(),
            sleeping: VecDeque::new(),
            steps: BTreeMap::new(),
            in_flight: 0,
            claimed: 0,
            completed: 0,
            flusher: Flusher::new(setup.threshold, setup.period),
            elevator: setup.elevator,
            growing: false,
            first_pass: None,
            timer: 0,
            meta_log: BTreeMap::new(),
            zeroes: Slice::new(PageBuf::zeroed(1 << 20)),
        };
        world.at(setup.period, Event::Tick(0));
        Ok(world)
    }

    /// Virtual nanoseconds since the mount.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The device's queue: what was sent.
    pub(crate) fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// When the flusher first ran, and what had been sent by then.
    pub(crate) fn first_pass(&self) -> Option<(Nanos, Sent)> {
        self.first_pass
    }

    /// The engine.
    pub(crate) fn fs(&mut self) -> &mut Fs<F> {
        &mut self.io.fs
    }

    /// Bytes of file data that nobody has begun to write back.
    pub(crate) fn dirty(&self) -> u64 {
        self.io.fs.stats().dirty_bytes.saturating_sub(self.claimed)
    }

    /// Bytes of file data under way to the device.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Runs one operation of the engine. It takes no virtual time: what the host spends is declared
    /// by whoever calls.
    pub(crate) fn op<T>(
        &mut self,
        what: &'static str,
        mut op: impl FnMut(&mut Fs<F>, &Ctx, &mut Ticket) -> Attempt<Done<T>>,
    ) -> Result<T> {
        let ctx = Ctx { now: self.timestamp(), ..Ctx::default() };
        driver::run(&mut self.io, &ctx, |fs, t| op(fs, &ctx, t)).context(what)
    }

    /// Virtual time as the engine knows it.
    pub(super) fn timestamp(&self) -> Timestamp {
        let secs = EPOCH_SECS + i64::try_from(self.now / SECOND).unwrap_or(0);
        let nanos = u32::try_from(self.now % SECOND).unwrap_or(0);
        Timestamp { secs, nanos }
    }

    /// Creates a file in the root directory and opens it for writing.
    pub(crate) fn create(&mut self, name: &[u8]) -> Result<(Ino, Handle)> {
        let root = self.io.fs.geometry().root;
        let flags = OpenFlags { write: true, exclusive: true, ..OpenFlags::default() };
        let made =
            self.op("create", |fs, ctx, t| fs.create_open(ctx, root, name, 0o644, flags, t))?;
        Ok((made.0.ino, made.1))
    }

    /// Dirties `len` bytes (up to 1 MiB) of a file.
    pub(crate) fn write(&mut self, file: Handle, offset: u64, len: u64) -> Result<()> {
        let part = self.zeroes.part(0, usize::try_from(len).unwrap_or(usize::MAX));
        let (n, _) = self.op("write", |fs, ctx, t| fs.write(ctx, file, offset, &part, t))?;
        if n as u64 != len {
            bail!("write: took {n} bytes of {len}");
        }
        if self.flusher.dirtied.is_none() {
            // As in Linux: what is dirtied while nothing is starts the flusher's timer.
            self.flusher.dirtied = Some(self.now);
            self.timer += 1;
            self.at(self.now + self.flusher.period, Event::Tick(self.timer));
        }
        if self.flusher.reason.is_none() && self.dirty() > self.flusher.threshold {
            self.start_flusher(Reason::Background);
        }
        self.settle()
    }

    /// Lets time pass.
    pub(crate) fn run_to(&mut self, time: Nanos) -> Result<()> {
        self.settle()?;
        while self.events.peek().is_some_and(|Reverse((t, _, _))| *t <= time) {
            self.event()?;
        }
        self.now = self.now.max(time);
        Ok(())
    }

    /// Runs a plan of the calling process to its verdict. Does not sleep where a close lingers.
    pub(crate) fn run_plan(&mut self, req: PlanReq) -> Result<Verdict> {
        let plan = self.io.fs.begin(req);
        self.walkers[CALLER].plan = Some(plan);
        self.wake_walker(CALLER);
        loop {
            self.settle()?;
            if let Some(verdict) = self.walkers[CALLER].ended.take() {
                return verdict.map_err(anyhow::Error::from);
            }
            if self.steps.is_empty() && self.flusher.reason.is_none() {
                bail!("the only walker waits for itself");
            }
            self.event()?;
        }
    }

    /// sync(2) and what unmounting begins with: the flusher yields, one walker writes the rest.
    pub(crate) fn sync(&mut self, site: Site) -> Result<()> {
        self.flusher.quiet = true;
        while self.walkers[FLUSHER].state != State::Idle {
            self.settle()?;
            if self.walkers[FLUSHER].state != State::Idle {
                self.event()?;
            }
        }
        self.run_plan(PlanReq::Whole(site))?;
        while !self.steps.is_empty() {
            self.event()?;
        }
        self.flusher.quiet = false;
        Ok(())
    }

    pub(super) fn at(&mut self, time: Nanos, event: Event) {
        self.tie += 1;
        self.events.push(Reverse((time, self.tie, event)));
    }

    fn event(&mut self) -> Result<()> {
        let Some(Reverse((time, _, event))) = self.events.pop() else {
            bail!("nothing left to wait for");
        };
        self.now = self.now.max(time);
        match event {
            Event::Ack(step, bytes) => self.acknowledged(step, bytes),
            Event::Tick(timer) if timer == self.timer => self.tick(),
            Event::Tick(_) => {}
            Event::Grow => {
                self.growing = false;
                self.grant();
            }
        }
        self.settle()
    }

    fn tick(&mut self) {
        self.at(self.now + self.flusher.period, Event::Tick(self.timer));
        let dirty = self.dirty();
        if dirty == 0 && self.in_flight == 0 {
            self.flusher.dirtied = None;
        }
        let expired = dirty > 0 && self.flusher.is_expired(self.now);
        match self.flusher.reason {
            Some(_) if expired => self.flusher.reason = Some(Reason::Expiry),
            None if expired => self.start_flusher(Reason::Expiry),
            None if dirty > self.flusher.threshold => self.start_flusher(Reason::Background),
            _ => {}
        }
    }

    /// The device's metadata, when the run is over.
    #[cfg(test)]
    pub(crate) fn into_store(self) -> MetaStore {
        self.io.dev
    }

    /// Keeps what is sent from now on, for [`World::pulled`].
    pub(crate) fn keep_log(&mut self) {
        self.queue.log = Some(Vec::new());
    }

    /// What the medium holds when the device is pulled at `time`: `base` with the metadata that had
    /// reached it, and how many bytes of file data had. Needs [`World::keep_log`].
    pub(crate) fn pulled(&self, time: Nanos, mut base: MetaStore) -> (MetaStore, u64) {
        let mut data = 0;
        let log = self.queue.log.as_deref().unwrap_or_default();
        for w in log.iter().filter(|w| w.media <= time) {
            if w.data {
                data += w.len;
                continue;
            }
            let runs = self.meta_log.get(&w.step).map(Vec::as_slice).unwrap_or_default();
            for r in runs.iter().filter(|r| (w.start..w.start + w.len).contains(&r.start)) {
                base.put(r.start, &r.data);
            }
        }
        (base, data)
    }
}
