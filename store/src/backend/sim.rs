//! `sim:PROFILE:STORE`: any backend with the timing of a device model.
//!
//! With a virtual clock a request advances the clock to its completion and takes no real time; with
//! the wall clock the caller sleeps until then. The data is the inner backend's.

use super::{Backend, Submission};
use crate::sim::{Kind, Nanos, Profile, Queue, SEGMENT, SimRequest};
use async_trait::async_trait;
use seawall_blockdev::{CacheClass, Caps, DevError};
use std::boxed::Box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// Who waits for a slot of the device, and who is next.
struct Line {
    queue: Queue,
    /// Numbers given to submitters so far.
    given: u64,
    /// The number that is served.
    serving: u64,
}

/// A backend with the timing of a model: one device, whoever submits.
///
/// Submitters of real time queue for the device's slots in the order they came, for each request
/// anew, so that a long batch lets others in between. Nobody waits with the lock held: the first in
/// line sleeps until its slot is free, the others until they are first.
pub struct SimBackend {
    inner: Box<dyn Backend>,
    line: Mutex<Line>,
    moved: Condvar,
    clock: Clock,
    caps: Caps,
    /// Largest request of the device, bytes.
    largest: u64,
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
        let block = u64::from(below.logical.max(512));
        let largest = (profile.request_max(SEGMENT) / block).max(1).saturating_mul(block);
        let max_io = u32::try_from(largest).unwrap_or(u32::MAX).min(below.max_io);
        let caps = Caps { cache, max_io, fua: false, order: false, ..below };
        let line = Mutex::new(Line { queue: Queue::new(profile), given: 0, serving: 0 });
        Self { inner, line, moved: Condvar::new(), clock, caps, largest: u64::from(max_io) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot and takes it; returns when the request that came at `came` is answered.
    fn admit(&self, came: Nanos, request: SimRequest) -> Nanos {
        let mut line = self.line();
        if matches!(self.clock, Clock::Virtual(_)) {
            return line.queue.admit(came, request).done.acked;
        }
        let number = line.given;
        line.given = number.wrapping_add(1);
        while line.serving != number {
            line = self.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            // Only this thread admits now, so that the slot stays free until it comes back.
            let at = line.queue.slot_at(came);
            if at <= self.clock.now() {
                break;
            }
            drop(line);
            self.clock.wait_until(at);
            line = self.line();
        }
        let acked = line.queue.admit(came, request).done.acked;
        line.serving = line.serving.wrapping_add(1);
        drop(line);
        self.moved.notify_all();
        acked
    }
}

/// What the device sees of a batch: neighbours that continue each other are one request, as in the
/// counters above it, up to the largest; a longer one is several.
fn requests(batch: &[Submission<'_>], largest: u64) -> impl Iterator<Item = SimRequest> {
    let mut items = batch.iter().map(|s| (s.op.is_write(), s.op.run())).peekable();
    let mut rest: Option<SimRequest> = None;
    core::iter::from_fn(move || {
        let mut request = match rest.take() {
            Some(request) => request,
            None => {
                let (write, run) = items.next()?;
                let kind = if write { Kind::Write } else { Kind::Read };
                SimRequest { kind, start: run.start, len: run.len }
            }
        };
        while let Some((_, more)) = items.next_if(|(write, next)| {
            *write == (request.kind == Kind::Write)
                && request.start.checked_add(request.len) == Some(next.start)
                && request.len.saturating_add(next.len) <= largest
        }) {
            request.len = request.len.saturating_add(more.len);
        }
        if request.len > largest {
            let start = request.start.saturating_add(largest);
            rest = Some(SimRequest { start, len: request.len.saturating_sub(largest), ..request });
            request.len = largest;
        }
        Some(request)
    })
}

#[async_trait]
impl Backend for SimBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn table_unit(&self) -> Option<u32> {
        self.inner.table_unit()
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        // Taken before the data moves: what that takes is part of the device's time, not on top.
        let came = self.clock.now();
        self.inner.submit(batch).await;
        let acked = requests(batch, self.largest).map(|request| self.admit(came, request)).max();
        self.clock.wait_until(acked.unwrap_or(0));
    }

    async fn flush(&self) -> Result<(), DevError> {
        let came = self.clock.now();
        let result = self.inner.flush().await;
        self.clock.wait_until(self.admit(came, SimRequest::flush()));
        result
    }

    fn flush_is_instant(&self) -> bool {
        matches!(self.clock, Clock::Virtual(_)) && self.inner.flush_is_instant()
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
