//! The simulator: an engine over a device model in virtual time, on one thread.
//!
//! Virtual time is the model's clock plus the declared host costs ([`HostCosts`]); the engine's own
//! processor time counts zero, so no virtual row can claim that code got faster. A run is a seed
//! and a commit: the store is memory, nothing here looks at a clock or iterates a hash map for
//! output.
//!
//! The flusher runs in line, between two calls, when its interval is over or its threshold is
//! crossed; its time is then part of the caller's, which overstates it against a second thread.

use crate::outcome::{Counted, store_since};
use crate::target::{Nanos, Target};
use anyhow::{Context, Result, anyhow};
use seawall_blockdev::{BlockDev, ReadRun, Tag};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{
    Attempt, Ctx, Done, Fs, FsError, Handle, Ino, MountOpts, NewNode, OpenFlags, PlanReq, Policy,
    Site, Slice, Ticket, Timestamp,
};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions as VolumeOptions};
use seawall_store::backend::Clock;
use seawall_store::{AnyStore, Counters, OpenOptions, SimClock};

/// When virtual time begins: 2026-01-27 00:00:00 UTC, the day of the thread.
pub const EPOCH_SECS: i64 = 1_769_472_000;

/// What the host costs beside its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// A node made: one round of create, write, fsync and close without the device; one directory
    /// or link. Charged at close, mkdir and symlink.
    pub node: Nanos,
}

impl HostCosts {
    /// The one host number that the Hurd thread's loop gives: 0.75 ms a round without a flush is
    /// two writes of 0.25 ms and 0.25 ms for the rest. Fitted, not measured.
    pub const HURD_LOOP: Self = Self { node: 250_000 };
}

/// An engine on a device in virtual time.
pub struct SimHost {
    fs: Fs<Ext2>,
    dev: AnyStore,
}

impl Host for SimHost {
    type Format = Ext2;
    type Dev = AnyStore;

    fn with<R>(&mut self, f: impl FnOnce(&mut Fs<Ext2>) -> R) -> R {
        f(&mut self.fs)
    }

    fn dev(&mut self) -> &mut AnyStore {
        &mut self.dev
    }

    fn wait(&mut self, _seen: u64) -> Result<(), FsError> {
        Err(FsError::Bug("the simulator's only thread waits for itself"))
    }

    fn wake(&mut self) {}
}

/// A mounted filesystem in virtual time.
pub struct SimTarget {
    host: SimHost,
    clock: Clock,
    costs: HostCosts,
    next_pass: Nanos,
    interval: Nanos,
    /// What the store had done before the mount: mkfs.
    before: Counters,
}

/// Opens `store` (a STORE name) in virtual time, makes a volume on it and mounts it. Making the
/// volume is not part of any row: counters begin after it.
///
/// # Errors
/// The store's name, the volume's options or the policy.
pub fn mount(
    store: &str,
    mkfs: &MkfsOptions,
    policy: Policy,
    costs: HostCosts,
) -> Result<SimTarget> {
    let clock = Clock::virtual_time();
    let options =
        OpenOptions { clock: SimClock::Virtual(Some(clock.clone())), ..OpenOptions::default() };
    let mut dev = seawall_store::open(store, &options)?;
    seawall_ext2::mkfs(&mut dev, mkfs).context("mkfs")?;
    dev.sync(Tag(0)).or_else(unflushable).context("sync after mkfs")?;
    let format = volume(&mut dev)?;
    let interval = policy.flusher.interval_ms.saturating_mul(1_000_000);
    let fs = Fs::new(format, dev.caps(), dev.seqs(), MountOpts::new(policy)).context("mount")?;
    let started = clock.now();
    let next_pass = started.saturating_add(interval);
    let before = dev.stats().context("store statistics")?.total;
    Ok(SimTarget { host: SimHost { fs, dev }, clock, costs, next_pass, interval, before })
}

/// A store that cannot flush is a row of its own: what it promises is the policy's business.
fn unflushable(e: seawall_blockdev::DevError) -> Result<seawall_blockdev::Seq> {
    match e {
        seawall_blockdev::DevError::Unsupported => Ok(seawall_blockdev::Seq(0)),
        e => Err(e.into()),
    }
}

/// Reads the superblock and opens the volume.
///
/// # Errors
/// The device's, or what is wrong with the volume.
pub fn volume(dev: &mut dyn BlockDev) -> Result<Ext2> {
    let mut sb = [0u8; 1024];
    dev.read(&mut [ReadRun { start: 1024, buf: &mut sb }], Tag(0)).context("superblock")?;
    Ok(Ext2::open(&sb, dev.caps().size, VolumeOptions::default())?)
}

impl SimTarget {
    /// The filesystem.
    pub fn fs(&mut self) -> &mut Fs<Ext2> {
        &mut self.host.fs
    }

    /// The store, for reading the image after unmount.
    pub fn store(&mut self) -> &mut AnyStore {
        &mut self.host.dev
    }

    /// The host, to run operations that [`Target`] does not have.
    pub fn host(&mut self) -> &mut SimHost {
        &mut self.host
    }

    /// What operations know of the world now: virtual time since [`EPOCH_SECS`].
    pub fn ctx(&self) -> Ctx {
        let now = self.clock.now();
        let secs = EPOCH_SECS.saturating_add(i64::try_from(now / 1_000_000_000).unwrap_or(0));
        let nanos = u32::try_from(now % 1_000_000_000).unwrap_or(0);
        Ctx { now: Timestamp { secs, nanos }, ..Ctx::default() }
    }

    fn run<T>(
        &mut self,
        what: &[u8],
        mut op: impl FnMut(&mut Fs<Ext2>, &Ctx, &mut Ticket) -> Attempt<Done<T>>,
    ) -> Result<T> {
        let ctx = self.ctx();
        let done = driver::run(&mut self.host, &ctx, |fs, t| op(fs, &ctx, t));
        let value = done.with_context(|| String::from_utf8_lossy(what).into_owned())?;
        self.flusher()?;
        Ok(value)
    }

    fn plan(&mut self, req: PlanReq, what: &'static str) -> Result<()> {
        driver::run_plan(&mut self.host, req).context(what)
    }

    /// What a second thread would do, in line.
    fn flusher(&mut self) -> Result<()> {
        let due = self.clock.now() >= self.next_pass;
        if !due && !self.host.fs.wants_writeback() {
            return Ok(());
        }
        if self.host.fs.is_dirty() {
            self.plan(PlanReq::Whole(Site::Periodic), "periodic writeback")?;
        }
        self.next_pass = self.clock.now().saturating_add(self.interval);
        Ok(())
    }

    /// Opens a file for writing with these flags; for what [`Target`] does not have.
    ///
    /// # Errors
    /// The filesystem's.
    pub fn create_with(&mut self, dir: Ino, name: &[u8], flags: OpenFlags) -> Result<Handle> {
        self.run(name, |fs, ctx, t| fs.create_open(ctx, dir, name, 0o644, flags, t)).map(|v| v.1)
    }
}

impl Target for SimTarget {
    type Dir = Ino;
    type File = Handle;

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn root(&self) -> Ino {
        self.host.fs.geometry().root
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        let attr =
            self.run(name, |fs, ctx, t| fs.create(ctx, dir, name, NewNode::Dir, 0o755, t))?;
        self.clock.advance(self.costs.node);
        Ok(attr.ino)
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], to: &[u8]) -> Result<()> {
        let node = NewNode::Symlink(to);
        self.run(name, |fs, ctx, t| fs.create(ctx, dir, name, node, 0o777, t))?;
        self.clock.advance(self.costs.node);
        Ok(())
    }

    fn create(&mut self, dir: Ino, name: &[u8]) -> Result<Handle> {
        let flags = OpenFlags { write: true, exclusive: true, ..OpenFlags::default() };
        self.create_with(dir, name, flags)
    }

    fn write(&mut self, file: &Handle, offset: u64, data: &Slice) -> Result<()> {
        let mut at = 0usize;
        while at < data.len() {
            let part = data.part(at, data.len());
            let to = offset.saturating_add(at as u64);
            let (n, _) = self.run(b"write", |fs, ctx, t| fs.write(ctx, *file, to, &part, t))?;
            if n == 0 {
                return Err(anyhow!("write: took 0 bytes"));
            }
            at = at.saturating_add(n);
        }
        Ok(())
    }

    fn fsync(&mut self, file: &Handle) -> Result<()> {
        self.plan(PlanReq::Fsync { handle: *file, datasync: false }, "fsync")
    }

    fn close(&mut self, file: Handle) -> Result<()> {
        let closed = self.plan(PlanReq::Close(file), "close");
        self.host.fs.clunk(file);
        self.clock.advance(self.costs.node);
        closed
    }

    fn unlink(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        self.run(name, |fs, ctx, t| fs.unlink(ctx, dir, name, t))
    }

    fn syncfs(&mut self) -> Result<()> {
        self.plan(PlanReq::Whole(Site::Syncfs), "syncfs")
    }

    fn unmount(&mut self) -> Result<()> {
        let ctx = self.ctx();
        driver::unmount(&mut self.host, &ctx).context("unmount")
    }

    fn counted(&mut self) -> Result<Counted> {
        let store = self.host.dev.stats().context("store statistics")?;
        let since = store_since(&store.total, &self.before);
        Ok(Counted::new(&self.host.fs.stats(), since))
    }
}
