//! The engine that all sessions share, as a host of the blocking driver.

use super::queue::Queue;
use super::repeats::Repeats;
use crate::session::Change;
use seawall_blockdev::{
    BlockDev, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun,
};
use seawall_diskfs::driver::{self, Batch, Host};
use seawall_diskfs::{Ctx, Event, Format, Fs, FsError, Timestamp};
use seawall_store::{AnyStore, Client, LocalStore};
use std::boxed::Box;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A store that threads share.
pub enum Device {
    /// In this process; one request at a time.
    Local(Mutex<Box<LocalStore>>),
    /// Behind a socket; its client is shared as it is.
    Remote(Box<Client>),
}

impl From<AnyStore> for Device {
    fn from(store: AnyStore) -> Self {
        match store {
            AnyStore::Local(s) => Self::Local(Mutex::new(s)),
            AnyStore::Remote(c) => Self::Remote(c),
        }
    }
}

impl Device {
    fn on<R>(&self, f: impl FnOnce(&mut dyn BlockDev) -> R) -> R {
        match self {
            Self::Local(s) => f(&mut **s.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::Remote(c) => f(&mut &**c),
        }
    }
}

impl BlockDev for &Device {
    fn caps(&self) -> Caps {
        self.on(|d| d.caps())
    }

    fn seqs(&self) -> SeqState {
        self.on(|d| d.seqs())
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError> {
        self.on(|d| d.read(runs, tag))
    }

    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError> {
        self.on(|d| d.write(runs, flags))
    }

    fn sync(&mut self, tag: Tag) -> Result<Seq, DevError> {
        self.on(|d| d.sync(tag))
    }

    fn discard(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        self.on(|d| d.discard(run, tag))
    }

    fn write_zeroes(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        self.on(|d| d.write_zeroes(run, tag))
    }
}

/// How long a writer waits for others to make room before it writes back itself.
const THROTTLE: Duration = Duration::from_millis(500);

/// What Linux takes to lock 31 pages, to mark them and to put them into a request: about 0.8 us
/// each. To sleep that long takes as long as to wake a rival does, however busy the machine is, and
/// how far a walker comes while its rival wakes is what the race is about.
const LOOK_UP: Duration = Duration::from_micros(25);

/// What the flusher waits for.
#[derive(Default)]
struct Wakeup {
    wanted: bool,
    /// It is there to be waited for.
    runs: bool,
    stop: bool,
}

/// A cache above the engine that holds changes back and remembers what it was told: a mount's
/// kernel.
pub trait Front: Send + Sync {
    /// Somebody else changed this. Called without locks.
    fn changed(&self, changes: &[Change]);

    /// Hands what it holds back to the engine.
    ///
    /// # Errors
    /// What could not be handed over.
    fn flush(&self) -> Result<(), FsError>;

    /// Ends, after handing over what it can.
    fn stop(&self);
}

/// A mounted filesystem and its store, shared by sessions, flusher and whoever stops them.
pub struct Engine<F> {
    fs: Mutex<Fs<F>>,
    /// Signalled when a step or a plan ended.
    changed: Condvar,
    device: Device,
    repeats: Repeats,
    /// Held for reading while operations run; holds the unmount's result once there was one.
    gate: RwLock<Option<Result<(), FsError>>>,
    /// Writes that nobody waits for.
    pub(super) queue: Queue,
    wakeup: Mutex<Wakeup>,
    woken: Condvar,
    front: Mutex<Option<Arc<dyn Front>>>,
    /// Held while the front ends.
    stopping: Mutex<()>,
}

impl<F: Format> Engine<F> {
    /// Over a mounted filesystem and the store that it was mounted from.
    pub fn new(fs: Fs<F>, device: Device) -> Self {
        Self {
            fs: Mutex::new(fs),
            changed: Condvar::new(),
            device,
            repeats: Repeats::default(),
            gate: RwLock::new(None),
            queue: Queue::default(),
            wakeup: Mutex::default(),
            woken: Condvar::new(),
            front: Mutex::new(None),
            stopping: Mutex::new(()),
        }
    }

    /// Puts a cache above the engine; [`Engine::unmount`] ends it first.
    pub fn set_front(&self, front: Arc<dyn Front>) {
        *self.front.lock().unwrap_or_else(PoisonError::into_inner) = Some(front);
    }

    fn front(&self) -> Option<Arc<dyn Front>> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the cache above what an operation changed that did not come through it. Not called
    /// from inside an operation: the cache may have to wait for others.
    pub fn announce(&self, changes: &[Change]) {
        if !changes.is_empty()
            && let Some(front) = self.front()
        {
            front.changed(changes);
        }
    }

    /// True while there is a cache above.
    pub fn has_front(&self) -> bool {
        self.front().is_some()
    }

    /// Has the cache above hand over what it holds.
    ///
    /// # Errors
    /// What could not be handed over.
    pub fn flush_front(&self) -> Result<(), FsError> {
        self.front().map_or(Ok(()), |front| front.flush())
    }

    /// Ends the cache above, if there is one.
    pub(crate) fn stop_front(&self) {
        let _others_wait = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(front) = self.front() else { return };
        front.stop();
        *self.front.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Logs what only the server's operator can do something about.
    pub(crate) fn failed(&self, op: &str, error: &FsError) {
        self.repeats.warn(op, error);
    }

    fn lock(&self) -> MutexGuard<'_, Fs<F>> {
        self.fs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host of the driver for the calling thread.
    pub fn host(&self) -> EngineHost<'_, F> {
        EngineHost { engine: self, device: &self.device }
    }

    /// Runs operations, unless the volume is unmounted already (`None`).
    pub fn while_mounted<R>(&self, f: impl FnOnce(&mut EngineHost<'_, F>) -> R) -> Option<R> {
        let out = self.mounted(f)?;
        if self.lock().wants_writeback() {
            self.wake_flusher();
        }
        Some(out)
    }

    /// False: there is none.
    fn wake_flusher(&self) -> bool {
        let mut w = self.wakeup.lock().unwrap_or_else(PoisonError::into_inner);
        // Waking is a system call, and each operation of a busy volume comes here.
        if !core::mem::replace(&mut w.wanted, true) {
            self.woken.notify_one();
        }
        w.runs
    }

    /// Runs something and logs what a person should hear of.
    fn mounted<R>(&self, f: impl FnOnce(&mut EngineHost<'_, F>) -> R) -> Option<R> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if gate.is_some() {
            return None;
        }
        let out = f(&mut self.host());
        log(&self.lock().take_events());
        Some(out)
    }

    /// Checks what every operation relies on.
    ///
    /// # Errors
    /// `Corrupt` with the place; `Io`.
    pub fn check(&self) -> Result<(), FsError> {
        let ctx = Ctx { now: now(), cred: None, owner: (0, 0), ..Ctx::default() };
        self.mounted(|host| driver::check_mount(host, &ctx)).unwrap_or(Ok(()))
    }

    /// Frees what the volume's last user left without a name, where the volume may be written. What
    /// cannot be freed is logged: it is lost space, and no reason to refuse the volume.
    pub fn recover(&self) {
        if self.lock().is_read_only() {
            return;
        }
        let ctx = Ctx { now: now(), cred: None, owner: (0, 0), ..Ctx::default() };
        match self.mounted(|host| driver::recover(host, &ctx)) {
            None | Some(Ok(0)) => {}
            Some(Ok(n)) => tracing::info!("{n} inodes without a name freed"),
            Some(Err(error)) => tracing::warn!(%error, "inodes without a name were not freed"),
        }
    }

    /// Unmounts: ends the cache above, waits for operations under way, lets no more begin, writes
    /// everything back and
    /// runs the unmount site. A second call gets the first one's result.
    ///
    /// # Errors
    /// The unmount's; the volume is then left marked as in use.
    pub fn unmount(&self) -> Result<(), FsError> {
        self.stop_front();
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = &*gate {
            return done.clone();
        }
        let ctx = Ctx { now: now(), cred: None, owner: (0, 0), ..Ctx::default() };
        self.lock().unhold_all();
        let done = driver::unmount(&mut self.host(), &ctx);
        log(&self.lock().take_events());
        *gate = Some(done.clone());
        done
    }

    /// The flusher's life: what is old at each interval of the policy, and what is too much as soon
    /// as it is.
    pub(super) fn flush_until_stopped(&self) {
        let interval = || Duration::from_millis(self.lock().policy().flusher.interval_ms.max(1));
        let mut failed = false;
        let mut tick = Instant::now() + interval();
        loop {
            if self.wait_for_flush(tick.saturating_duration_since(Instant::now()), failed) {
                return;
            }
            let ticks = Instant::now() >= tick;
            if ticks {
                tick = Instant::now() + interval();
            }
            match self.pass(ticks.then(now)) {
                None => return,
                Some(Ok(())) => failed = false,
                Some(Err(e)) => {
                    self.failed("writeback", &e);
                    failed = true;
                }
            }
            if !failed && self.lock().wants_writeback() {
                self.wake_flusher();
            }
        }
    }

    /// One pass, if there is anything to do. `None`: nothing is mounted any more.
    fn pass(&self, tick: Option<Timestamp>) -> Option<Result<(), FsError>> {
        self.mounted(|host| {
            let Some(req) = host.with(|fs| fs.flusher_request(tick)) else { return Ok(()) };
            let start = Instant::now();
            let done = driver::run_plan(host, req);
            let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            host.with(|fs| {
                fs.note_pass(ms);
                done.and(fs.failing().map_or(Ok(()), |e| Err(FsError::Io(e))))
            })
        })
    }

    /// True when the flusher is to end. After a failed pass only the interval counts, so that a
    /// dead store is not asked again at every request.
    fn wait_for_flush(&self, interval: Duration, failed: bool) -> bool {
        let mut guard = self.wakeup.lock().unwrap_or_else(PoisonError::into_inner);
        guard.runs = true;
        let idle = |w: &mut Wakeup| !w.stop && (failed || !w.wanted);
        let (mut w, _) = self
            .woken
            .wait_timeout_while(guard, interval, idle)
            .unwrap_or_else(PoisonError::into_inner);
        w.wanted = false;
        w.stop
    }

    pub(super) fn stop_flusher(&self) {
        let mut w = self.wakeup.lock().unwrap_or_else(PoisonError::into_inner);
        (w.stop, w.runs) = (true, false);
        self.woken.notify_all();
    }
}

/// One thread's way to the engine.
pub struct EngineHost<'e, F> {
    engine: &'e Engine<F>,
    device: &'e Device,
}

impl<'e, F: Format> Host for EngineHost<'e, F> {
    type Format = F;
    type Dev = &'e Device;

    fn with<R>(&mut self, f: impl FnOnce(&mut Fs<F>) -> R) -> R {
        f(&mut self.engine.lock())
    }

    fn dev(&mut self) -> &mut &'e Device {
        &mut self.device
    }

    fn wait(&mut self, seen: u64) -> Result<(), FsError> {
        let fs = self.engine.lock();
        let _fs = self
            .engine
            .changed
            .wait_while(fs, |fs| fs.generation() == seen)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }

    fn wake(&mut self) {
        self.engine.changed.notify_all();
    }

    fn submit(&mut self, batch: Batch) -> Option<Batch> {
        self.engine.queue.submit(batch)
    }

    fn looked_up(&mut self) {
        std::thread::sleep(LOOK_UP);
    }

    /// The flusher makes room. A store that fails would have its writers wait for ever, and so
    /// would an unmount that waits for them: they write back themselves then, and hear of errors.
    fn throttle(&mut self, seen: u64) -> bool {
        let failing = self.engine.lock().failing().is_some();
        if failing || !self.engine.wake_flusher() {
            return false;
        }
        let start = Instant::now();
        let fs = self.engine.lock();
        let (mut fs, late) = self
            .engine
            .changed
            .wait_timeout_while(fs, THROTTLE, |fs| fs.generation() == seen)
            .unwrap_or_else(PoisonError::into_inner);
        fs.note_throttled(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        !late.timed_out()
    }

    fn trouble(&mut self) -> Option<DevError> {
        match self.device {
            Device::Local(_) => None,
            Device::Remote(client) => client.trouble(),
        }
    }
}

fn log(events: &[Event]) {
    for e in events {
        match e {
            Event::Warning { site, what } => tracing::warn!(site = site.name(), "{what}"),
            Event::ReadOnly { why } => tracing::warn!("the volume is read-only now: {why}"),
        }
    }
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(d) => Timestamp {
            secs: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
            nanos: d.subsec_nanos(),
        },
        Err(_) => Timestamp::default(),
    }
}
