//! Writes that nobody waits for: a bounded number of them is under way at a time, and who submits
//! one more waits until one is done, as with a device's queue.

use super::engine::Engine;
use seawall_diskfs::Format;
use seawall_diskfs::driver::Batch;
use std::collections::VecDeque;
use std::string::ToString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::vec::Vec;
use std::{format, io};

/// Requests under way at most. Each has a thread, which does nothing but wait for its answer.
const DEPTH: usize = 4;

#[derive(Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Those waiting and those being written.
    under_way: usize,
    threads: usize,
    stop: bool,
}

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    given: Condvar,
    done: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the queue has room and puts the batch into it. Gives it back where nobody would
    /// take it.
    pub(super) fn submit(&self, batch: Batch) -> Option<Batch> {
        let full = |s: &mut State| !s.stop && s.under_way >= s.threads && s.threads > 0;
        let mut s = self.done.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if s.stop || s.threads == 0 {
            return Some(batch);
        }
        s.under_way = s.under_way.saturating_add(1);
        s.waiting.push_back(batch);
        self.given.notify_one();
        None
    }

    /// The next batch; `None` at the end, once all are taken.
    fn take(&self) -> Option<Batch> {
        let idle = |s: &mut State| s.waiting.is_empty() && !s.stop;
        let mut s =
            self.given.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        s.waiting.pop_front()
    }

    fn finished(&self) {
        let mut s = self.lock();
        s.under_way = s.under_way.saturating_sub(1);
        self.done.notify_one();
    }
}

/// The threads that write what is in the queue. They end when this is stopped or dropped.
pub(super) struct Writers<F: Format> {
    engine: Arc<Engine<F>>,
    threads: Vec<JoinHandle<()>>,
}

impl<F: Format> Writers<F> {
    pub(super) fn start(engine: &Arc<Engine<F>>) -> io::Result<Self> {
        let mut all = Self { engine: Arc::clone(engine), threads: Vec::new() };
        for n in 0..DEPTH {
            let own = Arc::clone(engine);
            let work = move || {
                while let Some(batch) = own.queue.take() {
                    batch.run(&mut own.host());
                    own.queue.finished();
                }
            };
            all.threads.push(Builder::new().name(format!("writer {n}").to_string()).spawn(work)?);
            engine.queue.lock().threads = all.threads.len();
        }
        Ok(all)
    }
}

impl<F: Format> Drop for Writers<F> {
    fn drop(&mut self) {
        let queue = &self.engine.queue;
        queue.lock().stop = true;
        queue.given.notify_all();
        queue.done.notify_all();
        for t in self.threads.drain(..) {
            if t.join().is_err() {
                tracing::error!("a writer's thread panicked");
            }
        }
    }
}
