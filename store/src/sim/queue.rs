//! The request slots before a medium: who may submit, and when.
//!
//! At most [`Model::depth`] requests are in flight; the next one waits until the answer to one of
//! them was given, or until the depth was raised. First come, first served: admissions do not go
//! back in time. Pure: a caller who waits asks [`Queue::slot_at`] until when, and waits in whatever
//! time it lives in.

use super::{Completion, Model, Nanos, Profile, SimRequest, profile::DEPTH_STEP};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// A request that got its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When it got it: not before it came.
    pub at: Nanos,
    /// When it ends.
    pub done: Completion,
}

/// A device with its slots.
#[derive(Clone, Debug)]
pub struct Queue {
    model: Model,
    /// Answers that are not given yet.
    flying: BinaryHeap<Reverse<Nanos>>,
    /// The last admission.
    last: Nanos,
}

impl Queue {
    /// An idle device at time 0.
    pub fn new(profile: Profile) -> Self {
        Self { model: Model::new(profile), flying: BinaryHeap::new(), last: 0 }
    }

    /// The device.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Requests in flight at `now`.
    pub fn in_flight(&self, now: Nanos) -> u32 {
        let flying = self.flying.iter().filter(|Reverse(acked)| *acked > now).count();
        u32::try_from(flying).unwrap_or(u32::MAX)
    }

    /// When a request that came at `came` gets a slot, if nobody else gets it before.
    pub fn slot_at(&mut self, came: Nanos) -> Nanos {
        let mut at = came.max(self.last);
        loop {
            while self.flying.peek().is_some_and(|Reverse(acked)| *acked <= at) {
                self.flying.pop();
            }
            let Some(Reverse(free)) = self.flying.peek() else { return at };
            if self.flying.len() < self.model.depth(at) as usize {
                return at;
            }
            at = (*free).min(self.raised_after(at).unwrap_or(u64::MAX));
        }
    }

    /// When the depth is raised next; `None`: it is the largest.
    fn raised_after(&self, now: Nanos) -> Option<Nanos> {
        let first = self.model.first_write()?;
        if self.model.depth(now) >= self.model.profile().slots {
            return None;
        }
        let steps = now.saturating_sub(first) / DEPTH_STEP;
        Some(first.saturating_add(steps.saturating_add(1).saturating_mul(DEPTH_STEP)))
    }

    /// Gives the request that came at `came` its slot, at [`slot_at`](Self::slot_at).
    pub fn admit(&mut self, came: Nanos, request: SimRequest) -> Admission {
        let at = self.slot_at(came);
        let done = self.model.submit(at, request);
        self.last = at;
        self.flying.push(Reverse(done.acked));
        Admission { at, done }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
