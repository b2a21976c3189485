//! `sim:PROFILE:STORE`: any backend with the timing of a device model.
//!
//! With a virtual clock a request advances the clock to its completion and takes no real time; with
//! the wall clock the caller sleeps until then. The data is the inner backend's.

use super::{Backend, Submission};
use crate::sim::{Kind, Model, Nanos, Profile, SimRequest};
use async_trait::async_trait;
use seawall_blockdev::{CacheClass, Caps, DevError};
use std::boxed::Box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// What time a simulated device lives in.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Real time, from the moment of creation.
    Wall(Instant),
    /// Virtual nanoseconds, shared by everybody who holds a clone.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// Real time from now on.
    pub fn wall() -> Self {
        Self::Wall(Instant::now())
    }

    /// Virtual time from 0 on.
    pub fn virtual_time() -> Self {
        Self::Virtual(Arc::new(AtomicU64::new(0)))
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> Nanos {
        match self {
            Self::Wall(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Self::Virtual(now) => now.load(Ordering::Acquire),
        }
    }

    /// Lets `nanos` pass: declared host costs of a simulation, or a real sleep.
    pub fn advance(&self, nanos: Nanos) {
        self.wait_until(self.now().saturating_add(nanos));
    }

    /// Waits until `time`, which may be over.
    pub fn wait_until(&self, time: Nanos) {
        match self {
            Self::Wall(_) => {
                let left = time.saturating_sub(self.now());
                if left > 0 {
                    std::thread::sleep(Duration::from_nanos(left));
                }
            }
            Self::Virtual(now) => {
                now.fetch_max(time, Ordering::AcqRel);
            }
        }
    }
}

/// A backend with the timing of a model.
pub struct SimBackend {
    inner: Box<dyn Backend>,
    model: Mutex<Model>,
    clock: Clock,
    caps: Caps,
}

impl SimBackend {
    /// Puts the timing of `profile` over `inner`.
    pub fn new(profile: Profile, inner: Box<dyn Backend>, clock: Clock) -> Self {
        let below = inner.caps();
        let cache = match below.cache {
            class if !class.can_promise() => class,
            _ if profile.volatile => CacheClass::Flushable,
            class => class,
        };
        let max_io = below.max_io.min(profile.max_request);
        let caps = Caps { cache, max_io, fua: false, order: false, ..below };
        Self { inner, model: Mutex::new(Model::new(profile)), clock, caps }
    }

    fn submit_model(&self, request: SimRequest) -> Nanos {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.submit(self.clock.now(), request).acked
    }
}

/// The requests a device sees: adjacent ones of a kind merge up to its largest request, as a block
/// layer's queue merges them.
fn merged(batch: &[Submission<'_>], max: u64) -> Vec<SimRequest> {
    let mut out: Vec<SimRequest> = Vec::with_capacity(batch.len());
    for s in batch {
        let run = s.op.run();
        let kind = if s.op.is_write() { Kind::Write } else { Kind::Read };
        match out.last_mut() {
            Some(last)
                if last.kind == kind
                    && last.start.saturating_add(last.len) == run.start
                    && last.len.saturating_add(run.len) <= max =>
            {
                last.len = last.len.saturating_add(run.len);
            }
            _ => out.push(SimRequest { kind, start: run.start, len: run.len }),
        }
    }
    out
}

#[async_trait]
impl Backend for SimBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        let mut until = 0;
        for request in merged(batch, u64::from(self.caps.max_io)) {
            until = until.max(self.submit_model(request));
        }
        self.inner.submit(batch).await;
        self.clock.wait_until(until);
    }

    async fn flush(&self) -> Result<(), DevError> {
        let acked = self.submit_model(SimRequest { kind: Kind::Flush, start: 0, len: 0 });
        let result = self.inner.flush().await;
        self.clock.wait_until(acked);
        result
    }

    fn flush_is_instant(&self) -> bool {
        matches!(self.clock, Clock::Virtual(_)) && self.inner.flush_is_instant()
    }
}
