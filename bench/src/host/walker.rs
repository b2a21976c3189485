//! Somebody who walks dirty pages: a calling process in close, fsync or sync, or the flusher.

use super::consts::{BATCH, BIO_SEGMENTS, HANDOFF, PAGE, SEGMENT};
use crate::seed::Seed;
use seawall_diskfs::{FsError, IoRun, PlanId, Site, StepId, Verdict};
use std::collections::VecDeque;

/// The calling process.
pub(super) const CALLER: usize = 0;
/// The background flusher.
pub(super) const FLUSHER: usize = 1;

/// Where a walker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Has no plan.
    Idle,
    /// Will go on at once.
    Ready,
    /// Sleeps for a slot of the device.
    Slot,
    /// Nothing for it to do before something completes.
    Blocked,
}

/// A request that a walker still has to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) step: StepId,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) data: bool,
    pub(super) flush: bool,
}

/// A walker.
#[derive(Debug)]
pub(super) struct Walker {
    pub(super) plan: Option<PlanId>,
    pub(super) state: State,
    pub(super) to_send: VecDeque<Request>,
    /// Verdict of the plan that ended.
    pub(super) ended: Option<Result<Verdict, FsError>>,
}

impl Walker {
    pub(super) fn new() -> Self {
        Self { plan: None, state: State::Idle, to_send: VecDeque::new(), ended: None }
    }

    /// True while it takes pages.
    pub(super) fn walks(&self) -> bool {
        matches!(self.state, State::Ready | State::Slot)
    }
}

/// What a walker may claim at once: all that a bio holds when it is alone; with a rival, look-ups
/// until the rival, woken by a request that was granted, is ahead.
pub(super) fn claim_limit(rival: bool, rng: &mut Seed) -> u64 {
    let whole = BIO_SEGMENTS * SEGMENT;
    if !rival {
        return whole;
    }
    let mut batches = 1;
    while rng.draw() >> 32 >= HANDOFF && batches * BATCH * PAGE < whole {
        batches += 1;
    }
    (batches * BATCH * PAGE).min(whole)
}

/// The requests of a step: neighbours are one request, up to the largest.
pub(super) fn requests(step: StepId, runs: &[IoRun], most: u64) -> VecDeque<Request> {
    let mut out: VecDeque<Request> = VecDeque::new();
    for r in runs {
        let data = r.tag == Site::Data.tag();
        let (mut start, mut left) = (r.start, r.data.len() as u64);
        while left > 0 {
            let last = out.back_mut().filter(|q| {
                q.data == data && q.start.saturating_add(q.len) == start && q.len < most
            });
            let take = match last {
                Some(q) => {
                    let take = left.min(most - q.len);
                    q.len += take;
                    take
                }
                None => {
                    let take = left.min(most);
                    out.push_back(Request { step, start, len: take, data, flush: false });
                    take
                }
            };
            start += take;
            left -= take;
        }
    }
    out
}
