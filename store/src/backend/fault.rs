//! `fault:SPEC:STORE`: a backend that fails where it is told to.
//!
//! SPEC is a comma-separated list of rules:
//!
//! | rule | effect |
//! |---|---|
//! | `KIND SELECT[/ACTION]` | KIND: `read`, `write` (write, zero and discard) or `flush` |
//! | SELECT `=N`, `=N+`, `=N-M`, `=all` | by number, counted from 1 for each kind |
//! | SELECT `@START+LEN` | requests that touch these bytes (not for flush) |
//! | SELECT `%PERCENT~SEED` | with this probability, decided by number and seed alone |
//! | ACTION `eio` (default), `enospc` | it fails and is not executed |
//! | ACTION `short` | whole blocks of its first half are done, then EIO (not for flush) |
//! | ACTION `5ms`, `200us`, `1s` | it takes that much longer; several add up |
//! | `unflushable`, `unknown` | the cache class; every flush is EOPNOTSUPP |
//! | `die=N` | half of the Nth write is done, then the process exits at once |
//! | `gone=N` | from the Nth write on the store is gone: nothing is executed, sessions end |
//!
//! A failed flush is not forwarded. Delays pass on the clock of the store's device models.

mod spec;

use spec::Verdict;
pub use spec::{FAULT_HELP, FaultSpec};

use super::{Backend, BackendOp, Clock, Submission};
use async_trait::async_trait;
use seawall_blockdev::{Caps, DevError, Run};
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Exit status of `die=N`.
pub const DIE_STATUS: i32 = 86;

/// A backend with faults.
pub struct FaultBackend {
    inner: Box<dyn Backend>,
    spec: Mutex<FaultSpec>,
    clock: Clock,
    caps: Caps,
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    gone: AtomicBool,
}

impl FaultBackend {
    /// Puts the faults over `inner`; delays are real.
    pub fn new(spec: FaultSpec, inner: Box<dyn Backend>) -> Self {
        Self::with_clock(spec, inner, Clock::wall())
    }

    /// Puts the faults over `inner`; delays pass on `clock`.
    pub fn with_clock(spec: FaultSpec, inner: Box<dyn Backend>, clock: Clock) -> Self {
        let mut caps = inner.caps();
        if let Some(class) = spec.class {
            caps.cache = class;
            caps.fua = false;
        }
        Self {
            inner,
            spec: Mutex::new(spec),
            clock,
            caps,
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            gone: AtomicBool::new(false),
        }
    }

    /// Replaces the rules; counts go on. The cache class stays what it was at the start.
    pub fn set_spec(&self, spec: FaultSpec) {
        *self.spec.lock().unwrap_or_else(PoisonError::into_inner) = spec;
    }

    fn spec(&self) -> FaultSpec {
        self.spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn one(&self, spec: &FaultSpec, s: &mut Submission<'_>) {
        let run = s.op.run();
        let (counter, rules) = match s.op.is_write() {
            true => (&self.writes, &spec.writes),
            false => (&self.reads, &spec.reads),
        };
        let nth = counter.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if s.op.is_write() && spec.die.is_some_and(|at| nth >= at) {
            self.die(&mut s.op).await;
        }
        if s.op.is_write() && spec.gone.is_some_and(|at| nth >= at) {
            self.gone.store(true, Ordering::Release);
        }
        let verdict = rules.judge(nth, Some(run));
        self.wait(verdict);
        if self.gone.load(Ordering::Acquire) {
            s.result = Err(DevError::Gone);
        } else if let Some(error) = verdict.fail {
            s.result = Err(error);
        } else if verdict.short {
            self.first_half(&mut s.op).await;
            s.result = Err(DevError::Io);
        } else {
            self.inner.submit(core::slice::from_mut(s)).await;
        }
    }

    fn wait(&self, verdict: Verdict) {
        if !verdict.delay.is_zero() {
            let nanos = u64::try_from(verdict.delay.as_nanos()).unwrap_or(u64::MAX);
            self.clock.advance(nanos);
        }
    }

    /// Executes whole blocks of the first half of a request.
    async fn first_half(&self, op: &mut BackendOp<'_>) {
        let block = u64::from(self.caps.logical.max(1));
        let half = op.run().len / 2 / block * block;
        let len = usize::try_from(half).unwrap_or(usize::MAX);
        let cut = |run: &Run| Run::new(run.start, half);
        let op = match op {
            BackendOp::Read { start, buf } => {
                BackendOp::Read { start: *start, buf: buf.get_mut(..len).unwrap_or_default() }
            }
            BackendOp::Write { start, buf, .. } => {
                let buf = buf.get(..len).unwrap_or_default();
                BackendOp::Write { start: *start, buf, fua: false }
            }
            BackendOp::Zero { run, keep } => BackendOp::Zero { run: cut(run), keep: *keep },
            BackendOp::Discard { run } => BackendOp::Discard { run: cut(run) },
        };
        if half > 0 {
            self.inner.submit(&mut [Submission::new(op)]).await;
        }
    }

    /// A server that dies in the middle of a write.
    async fn die(&self, op: &mut BackendOp<'_>) -> ! {
        self.first_half(op).await;
        std::process::exit(DIE_STATUS)
    }
}

#[async_trait]
impl Backend for FaultBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn table_unit(&self) -> Option<u32> {
        self.inner.table_unit()
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        let spec = self.spec();
        if spec.is_harmless() && !self.gone.load(Ordering::Acquire) {
            let writes = batch.iter().filter(|s| s.op.is_write()).count() as u64;
            self.writes.fetch_add(writes, Ordering::AcqRel);
            self.reads.fetch_add((batch.len() as u64).saturating_sub(writes), Ordering::AcqRel);
            return self.inner.submit(batch).await;
        }
        for s in batch {
            self.one(&spec, s).await;
        }
    }

    async fn flush(&self) -> Result<(), DevError> {
        let nth = self.flushes.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if self.gone.load(Ordering::Acquire) {
            return Err(DevError::Gone);
        }
        if !self.caps.cache.can_promise() {
            return Err(DevError::Unsupported);
        }
        let verdict = self.spec().flushes.judge(nth, None);
        self.wait(verdict);
        if let Some(error) = verdict.fail {
            return Err(error);
        }
        self.inner.flush().await
    }

    fn flush_is_instant(&self) -> bool {
        let real = matches!(self.clock, Clock::Wall(_)) && self.spec().flushes.has_delay();
        self.inner.flush_is_instant() && !real
    }
}
