//! `sim:PROFILE:STORE`: any backend with the timing of a device model.
//!
//! With a virtual clock a request advances the clock to its completion and takes no real time; with
//! the wall clock the caller sleeps until then. The data is the inner backend's.

use super::{Backend, Done, Submission};
use crate::sim::{Kind, Nanos, Profile, Queue, SEGMENT, SimRequest};
use async_trait::async_trait;
use seawall_blockdev::{CacheClass, Caps, DevError};
use std::boxed::Box;
use std::collections::VecDeque;
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
    /// Answers that are due meanwhile are given.
    fn admit(&self, came: Nanos, request: SimRequest, answers: &mut Answers<'_>) -> Nanos {
        let mut line = self.line();
        if matches!(self.clock, Clock::Virtual(_)) {
            return line.queue.admit(came, request).done.acked;
        }
        let number = line.given;
        line.given = number.wrapping_add(1);
        while line.serving != number {
            let now = self.clock.now();
            let Some(due) = answers.next_due() else {
                line = self.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if due <= now {
                drop(line);
                answers.give(&self.clock, now);
                line = self.line();
            } else {
                let time = Duration::from_nanos(due.saturating_sub(now));
                let woken = self.moved.wait_timeout(line, time);
                line = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        loop {
            // Only this thread admits now, so that the slot stays free until it comes back.
            let at = line.queue.slot_at(came);
            if at <= self.clock.now() {
                break;
            }
            drop(line);
            answers.give(&self.clock, at);
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

/// Requests of a batch that have a time at which they end, in the order of these.
struct Answers<'a> {
    /// When, and how many requests of the batch have ended then.
    due: VecDeque<(Nanos, usize)>,
    /// Told of how many have ended, when they have.
    tell: &'a mut (dyn FnMut(usize) + Send),
}

impl Answers<'_> {
    fn next_due(&self) -> Option<Nanos> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Waits for the ends up to `until` and tells of each.
    fn give(&mut self, clock: &Clock, until: Nanos) {
        while let Some((at, ended)) = self.due.front().copied().filter(|(at, _)| *at <= until) {
            clock.wait_until(at);
            (self.tell)(ended);
            self.due.pop_front();
        }
    }

    /// An answer is never before one of the same batch that came earlier.
    fn push(&mut self, at: Nanos, ended: usize) {
        let last = self.due.back().map_or(0, |(at, _)| *at);
        self.due.push_back((at.max(last), ended));
    }
}

/// What the device sees of a batch: neighbours that continue each other are one request, as in the
/// counters above it, up to the largest; a longer one is several. With each comes how many of the
/// batch are over when it is.
fn requests(batch: &[Submission<'_>], largest: u64) -> impl Iterator<Item = (SimRequest, usize)> {
    let mut items = batch.iter().map(|s| (s.op.is_write(), s.op.run())).peekable();
    let mut rest: Option<SimRequest> = None;
    let mut taken = 0usize;
    core::iter::from_fn(move || {
        let mut request = match rest.take() {
            Some(request) => request,
            None => {
                let (write, run) = items.next()?;
                taken = taken.saturating_add(1);
                let kind = if write { Kind::Write } else { Kind::Read };
                SimRequest { kind, start: run.start, len: run.len }
            }
        };
        while let Some((_, more)) = items.next_if(|(write, next)| {
            *write == (request.kind == Kind::Write)
                && request.start.checked_add(request.len) == Some(next.start)
                && request.len.saturating_add(next.len) <= largest
        }) {
            taken = taken.saturating_add(1);
            request.len = request.len.saturating_add(more.len);
        }
        if request.len <= largest {
            return Some((request, taken));
        }
        let start = request.start.saturating_add(largest);
        rest = Some(SimRequest { start, len: request.len.saturating_sub(largest), ..request });
        Some((SimRequest { len: largest, ..request }, taken.saturating_sub(1)))
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
        self.submit_each(batch, &mut |_, _| {}).await;
    }

    async fn submit_each(&self, batch: &mut [Submission<'_>], done: &mut Done<'_>) {
        // Taken before the data moves: what that takes is part of the device's time, not on top.
        let came = self.clock.now();
        self.inner.submit(batch).await;
        let batch = &*batch;
        let mut told = 0usize;
        let mut tell = |ended: usize| {
            while let Some(s) = batch.get(told).filter(|_| told < ended) {
                done(told, s);
                told = told.saturating_add(1);
            }
        };
        let mut answers = Answers { due: VecDeque::new(), tell: &mut tell };
        for (request, ended) in requests(batch, self.largest) {
            let acked = self.admit(came, request, &mut answers);
            answers.push(acked, ended);
        }
        answers.give(&self.clock, Nanos::MAX);
        (answers.tell)(batch.len());
    }

    fn is_paced(&self) -> bool {
        matches!(self.clock, Clock::Wall(_))
    }

    async fn flush(&self) -> Result<(), DevError> {
        let came = self.clock.now();
        let result = self.inner.flush().await;
        let mut answers = Answers { due: VecDeque::new(), tell: &mut |_| {} };
        self.clock.wait_until(self.admit(came, SimRequest::flush(), &mut answers));
        result
    }

    fn flush_is_instant(&self) -> bool {
        matches!(self.clock, Clock::Virtual(_)) && self.inner.flush_is_instant()
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
