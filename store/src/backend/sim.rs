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

/// What the device sees of a batch: neighbours that continue each other are one request, as in the
/// counters above it, up to the largest.
fn requests(batch: &[Submission<'_>], max_io: u32) -> impl Iterator<Item = SimRequest> {
    let mut items = batch.iter().map(|s| (s.op.is_write(), s.op.run())).peekable();
    core::iter::from_fn(move || {
        let (write, mut run) = items.next()?;
        while let Some((_, more)) = items.next_if(|(also, next)| {
            *also == write
                && run.end() == Some(next.start)
                && run.len.saturating_add(next.len) <= u64::from(max_io)
        }) {
            run.len = run.len.saturating_add(more.len);
        }
        let kind = if write { Kind::Write } else { Kind::Read };
        Some(SimRequest { kind, start: run.start, len: run.len })
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
        let until = requests(batch, self.caps.max_io)
            .map(|request| self.submit_model(request))
            .max()
            .unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendOp;
    use std::vec::Vec;

    #[test]
    fn neighbours_are_one_request_up_to_the_largest() {
        let bytes = [0u8; 4096];
        let write = |start| Submission::new(BackendOp::Write { start, buf: &bytes, fua: false });
        let batch = [write(0), write(4096), write(8192), write(20480), write(24576)];
        let sizes = |max| requests(&batch, max).map(|r| (r.start, r.len)).collect::<Vec<_>>();
        assert_eq!(sizes(1 << 20), [(0, 12288), (20480, 8192)]);
        assert_eq!(sizes(8192), [(0, 8192), (8192, 4096), (20480, 8192)]);
    }
}
