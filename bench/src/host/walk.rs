//! How walkers move: claims become requests, requests wait for slots, completions wake walkers.

use super::flusher::Reason;
use super::walker::{CALLER, FLUSHER, Request, State, claim_limit, requests};
use super::world::{Event, UnderWay, World};
use anyhow::Result;
use seawall_diskfs::policy::Exclusion;
use seawall_diskfs::{Format, IoRun, PlanReq, Step, StepId};

impl<F: Format> World<F> {
    pub(super) fn wake_walker(&mut self, w: usize) {
        if let Some(walker) = self.walkers.get_mut(w) {
            walker.state = State::Ready;
            self.ready.push_back(w);
        }
    }

    /// Lets everybody who can go on do so.
    pub(super) fn settle(&mut self) -> Result<()> {
        while let Some(w) = self.ready.pop_front() {
            self.advance(w)?;
        }
        Ok(())
    }

    fn advance(&mut self, w: usize) -> Result<()> {
        loop {
            let now = self.now;
            let Some(walker) = self.walkers.get_mut(w) else { return Ok(()) };
            if let Some(next) = walker.to_send.front().copied() {
                if !self.sleeping.is_empty() || !self.queue.has_room(now) {
                    walker.state = State::Slot;
                    self.sleeping.push_back(w);
                    self.wait_for_growth();
                    return Ok(());
                }
                walker.to_send.pop_front();
                self.send(next);
                continue;
            }
            if w == FLUSHER && !self.flusher_goes_on() {
                return Ok(());
            }
            let Some(plan) = self.walkers.get(w).and_then(|x| x.plan) else { return Ok(()) };
            let rival = self.has_rival(w);
            let limit = self.limit(w, rival);
            match self.io.fs.next(plan, limit) {
                Step::Write { id, runs, .. } => self.take(w, id, &runs, rival),
                Step::Sync { id, .. } => self.take_flush(w, id),
                Step::Busy | Step::Pending => {
                    self.block(w);
                    return Ok(());
                }
                Step::Done => {
                    self.end(w);
                    if w == FLUSHER {
                        self.stop_flusher();
                    }
                    return Ok(());
                }
            }
        }
    }

    fn block(&mut self, w: usize) {
        if let Some(walker) = self.walkers.get_mut(w) {
            walker.state = State::Blocked;
        }
    }

    /// True when another one walks the same pages.
    fn has_rival(&self, w: usize) -> bool {
        let other = if w == CALLER { FLUSHER } else { CALLER };
        self.io.fs.policy().exclusion == Exclusion::None
            && self.walkers.get(other).is_some_and(|o| o.walks())
    }

    /// Bytes that a walker may claim now.
    fn limit(&mut self, w: usize, rival: bool) -> u64 {
        let limit = claim_limit(rival, &mut self.rng);
        if w == FLUSHER { limit.min(self.flusher.budget) } else { limit }
    }

    fn take(&mut self, w: usize, id: StepId, runs: &[IoRun], rival: bool) {
        let list = requests(id, runs, self.queue.largest());
        let data: u64 = list.iter().filter(|r| r.data).map(|r| r.len).sum();
        self.in_flight += data;
        self.claimed += data;
        if data > 0 {
            self.queue.sent.claimed(data, rival);
        }
        if w == FLUSHER {
            let all: u64 = list.iter().map(|r| r.len).sum();
            self.flusher.budget = self.flusher.budget.saturating_sub(all);
        }
        if data == 0 && self.queue.log.is_some() {
            self.meta_log.insert(id, runs.to_vec());
        }
        let seq = self.io.dev.take(runs);
        self.steps.insert(id, UnderWay { left: list.len() as u64, data, seq: Some(seq) });
        if let Some(walker) = self.walkers.get_mut(w) {
            walker.to_send = list;
        }
    }

    fn take_flush(&mut self, w: usize, step: StepId) {
        self.steps.insert(step, UnderWay { left: 1, data: 0, seq: None });
        if let Some(walker) = self.walkers.get_mut(w) {
            walker.to_send.push_back(Request { step, start: 0, len: 0, data: false, flush: true });
        }
    }

    fn send(&mut self, r: Request) {
        let acked = match r.flush {
            true => self.queue.flush(self.now),
            false => {
                let jump = self.elevator && !r.data;
                self.queue.write(self.now, &r, jump)
            }
        };
        self.at(acked, Event::Ack(r.step, if r.data { r.len } else { 0 }));
    }

    pub(super) fn acknowledged(&mut self, step: StepId, bytes: u64) {
        self.queue.ended();
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.completed += bytes;
        if self.flusher.reason.is_some() {
            self.flusher.measure(self.now, self.completed);
        }
        self.grant();
        let Some(under_way) = self.steps.get_mut(&step) else { return };
        under_way.left -= 1;
        if under_way.left > 0 {
            return;
        }
        let seq = under_way.seq;
        self.claimed = self.claimed.saturating_sub(under_way.data);
        self.steps.remove(&step);
        let seq = seq.unwrap_or_else(|| self.io.dev.flushed());
        self.io.fs.complete(step, Ok(seq));
        self.wake_blocked();
    }

    /// Slots that are free go to those who sleep for one, one request each.
    pub(super) fn grant(&mut self) {
        while self.queue.has_room(self.now) {
            let Some(w) = self.sleeping.pop_front() else { return };
            if let Some(next) = self.walkers.get_mut(w).and_then(|x| x.to_send.pop_front()) {
                self.send(next);
            }
            self.wake_walker(w);
        }
        self.wait_for_growth();
    }

    /// The queue may get longer before anything completes.
    fn wait_for_growth(&mut self) {
        if self.growing || self.sleeping.is_empty() {
            return;
        }
        if let Some(time) = self.queue.grows_at(self.now) {
            self.growing = true;
            self.at(time, Event::Grow);
        }
    }

    fn wake_blocked(&mut self) {
        for w in [CALLER, FLUSHER] {
            if self.walkers.get(w).is_some_and(|x| x.state == State::Blocked) {
                self.wake_walker(w);
            }
        }
    }

    /// Ends a walker's plan. Who waited for its inodes goes on.
    fn end(&mut self, w: usize) {
        let Some(walker) = self.walkers.get_mut(w) else { return };
        let Some(plan) = walker.plan.take() else { return };
        let verdict = self.io.fs.finish(plan);
        if w == CALLER {
            walker.state = State::Idle;
            walker.ended = Some(verdict);
        }
        self.wake_blocked();
    }

    pub(super) fn start_flusher(&mut self, reason: Reason) {
        if self.flusher.quiet || self.flusher.reason.is_some() {
            return;
        }
        self.flusher.reason = Some(reason);
        self.first_pass.get_or_insert((self.now, self.queue.sent));
        self.flusher.measure(self.now, self.completed);
        self.wake_walker(FLUSHER);
    }

    fn stop_flusher(&mut self) {
        self.flusher.reason = None;
        if let Some(walker) = self.walkers.get_mut(FLUSHER) {
            walker.state = State::Idle;
        }
    }

    /// Between two claims of the flusher: ends a chunk that is used up, begins the next one when
    /// there is reason to. False: it does not go on now.
    fn flusher_goes_on(&mut self) -> bool {
        let has_plan = self.walkers.get(FLUSHER).is_some_and(|x| x.plan.is_some());
        if has_plan && self.flusher.budget > 0 {
            return true;
        }
        if has_plan {
            self.end(FLUSHER);
            if !self.ready.is_empty() {
                // Whoever waited for the inode has the first try at it.
                self.wake_walker(FLUSHER);
                return false;
            }
        }
        let dirty = self.dirty();
        if !self.flusher.goes_on(dirty) {
            self.stop_flusher();
            return false;
        }
        self.flusher.begin_chunk();
        let request = match self.flusher.reason {
            Some(Reason::Expiry) => PlanReq::Expired { now: self.timestamp() },
            _ => PlanReq::Background,
        };
        let plan = self.io.fs.begin(request);
        if let Some(walker) = self.walkers.get_mut(FLUSHER) {
            walker.plan = Some(plan);
        }
        true
    }
}
