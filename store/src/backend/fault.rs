//! `fault:SPEC:STORE`: a backend that fails where it is told to.
//!
//! SPEC is a comma-separated list:
//!
//! | rule | effect |
//! |---|---|
//! | `unflushable`, `unknown` | the cache class; every flush is EOPNOTSUPP |
//! | `flush=N`, `flush=N+`, `flush=all` | the Nth flush fails with EIO (and all after it; all) |
//! | `read=N`, `write=N` (`N+`, `all`) | the Nth request fails with EIO |
//! | `read@START+LEN`, `write@START+LEN` | requests that touch the bytes fail with EIO |
//! | `die=N` | half of the Nth write is done, then the process exits at once |
//! | `gone=N` | from the Nth write on the store is gone: nothing is executed, sessions end |
//!
//! Counts start at 1. A failed read or write is not executed; a failed flush is not forwarded.

mod spec;

pub use spec::FaultSpec;

use super::{Backend, BackendOp, Submission};
use async_trait::async_trait;
use seawall_blockdev::{Caps, DevError};
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Exit status of `die=N`.
pub const DIE_STATUS: i32 = 86;

/// A backend with faults.
pub struct FaultBackend {
    inner: Box<dyn Backend>,
    spec: Mutex<FaultSpec>,
    caps: Caps,
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    gone: AtomicBool,
}

impl FaultBackend {
    /// Puts the faults over `inner`.
    pub fn new(spec: FaultSpec, inner: Box<dyn Backend>) -> Self {
        let mut caps = inner.caps();
        if let Some(class) = spec.class {
            caps.cache = class;
            caps.fua = false;
        }
        Self {
            inner,
            spec: Mutex::new(spec),
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
            self.die(&s.op).await;
        }
        if s.op.is_write() && spec.gone.is_some_and(|at| nth >= at) {
            self.gone.store(true, Ordering::Release);
        }
        if self.gone.load(Ordering::Acquire) {
            s.result = Err(DevError::Gone);
        } else if rules.hits(nth, run) {
            s.result = Err(DevError::Io);
        } else {
            self.inner.submit(core::slice::from_mut(s)).await;
        }
    }

    /// A server that dies in the middle of a write: whole blocks of the first half are written.
    async fn die(&self, op: &BackendOp<'_>) -> ! {
        if let BackendOp::Write { start, buf, .. } = op {
            let block = (self.caps.logical as usize).max(1);
            let half = buf.len() / 2 / block * block;
            if let Some(buf) = buf.get(..half).filter(|buf| !buf.is_empty()) {
                let op = BackendOp::Write { start: *start, buf, fua: false };
                self.inner.submit(&mut [Submission::new(op)]).await;
            }
        }
        std::process::exit(DIE_STATUS)
    }
}

#[async_trait]
impl Backend for FaultBackend {
    fn caps(&self) -> Caps {
        self.caps
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
        if self.spec().flushes.hits_nth(nth) {
            return Err(DevError::Io);
        }
        self.inner.flush().await
    }

    fn flush_is_instant(&self) -> bool {
        self.inner.flush_is_instant()
    }
}
