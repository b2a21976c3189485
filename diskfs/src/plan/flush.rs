//! The flusher's passes: chunk by chunk, one inode after another.
//!
//! An inode is the flusher's for one chunk; then whoever waits for it has it. What another plan
//! has is passed over, and waited for only when nothing else is left. In each inode a pass goes on
//! where the last one stopped.

use crate::fs::Fs;
use crate::plan::step::Look;
use crate::plan::walk::Claims;
use crate::plan::{Own, Pass, Phase, PlanId, PlanReq};
use crate::{Format, Ino};
use seawall_blockdev::DevError;

impl<F: Format> Fs<F> {
    /// True when the flusher should run [`PlanReq::Background`] now rather than wait for its
    /// interval.
    pub fn wants_writeback(&self) -> bool {
        self.is_above_threshold() || self.is_short_of_metadata()
    }

    /// Why the last write of file data failed, if it did: trying at once again would not help.
    pub fn failing(&self) -> Option<DevError> {
        self.walkers.failing.filter(|_| self.data.dirty_bytes() > 0)
    }

    /// Pages that a step has do not count. Writers that wait lower the threshold.
    pub(super) fn is_above_threshold(&self) -> bool {
        let f = &self.policy.flusher;
        let room = f.limit.saturating_sub(self.walkers.room_wanted);
        self.data.waiting_bytes() > f.background.min(room)
    }

    pub(super) fn is_short_of_metadata(&self) -> bool {
        self.meta.cache.over_dirty() || self.too_many_epochs()
    }

    pub(super) fn step_flush(&mut self, id: PlanId, mut pass: Pass, limit: u64) -> Look {
        // What the last step took is submitted; its inodes are for others, but for a chunk that is
        // not over.
        let stays = pass.turn.filter(|(_, left)| *left > 0).map(|(ino, _)| ino);
        self.disown(id, |_, ino| Some(ino) != stays);
        if stays.is_none() {
            self.end_turn(id);
        }
        let mut claims = Claims::default();
        let mut passed_over = None;
        while claims.has_room(limit) {
            let Some((ino, left)) = pass.turn.filter(|(_, left)| *left > 0) else {
                if pass.before.is_none() && !self.is_above_threshold() {
                    break;
                }
                match self.next_turn(id, &pass, &claims, &mut passed_over) {
                    Some(ino) => pass.turn = Some((ino, self.policy.flusher.chunk.max(1))),
                    None => break,
                }
                continue;
            };
            if self.breaks(&claims, ino, self.data.peek_onward(ino, pass.upto)) {
                break;
            }
            let most = limit.saturating_sub(claims.bytes).min(left);
            let before = claims.bytes;
            if let Some(c) = self.data.claim_onward(ino, most, pass.upto) {
                self.take(&mut claims, c);
                let left = left.saturating_sub(claims.bytes.saturating_sub(before));
                pass.turn = Some((ino, left));
                if left == 0 {
                    break;
                }
            } else {
                pass.turn = Some((ino, 0));
            }
        }
        self.set_phase(id, Phase::Flush(pass));
        if !claims.list.is_empty() {
            return Look::Step(self.data_step(id, claims.list, false));
        }
        if passed_over.is_some() {
            self.stats.writeback.skipped = self.stats.writeback.skipped.saturating_add(1);
            return Look::Busy;
        }
        Look::Next
    }

    /// The next inode after the one that had its turn, around once, that the pass covers and may
    /// have.
    fn next_turn(
        &mut self,
        id: PlanId,
        pass: &Pass,
        claims: &Claims,
        passed_over: &mut Option<Ino>,
    ) -> Option<Ino> {
        let first = self
            .data
            .next_waiting(self.walkers.flush_from)
            .or_else(|| self.data.next_waiting(Ino(0)))?;
        let mut ino = first;
        loop {
            if self.is_covered(pass, ino) {
                let begins = self.data.peek_onward(ino, pass.upto);
                if self.breaks(claims, ino, begins) {
                    return None;
                }
                if begins.is_some() && self.own_data(id, ino, Own::Skip) {
                    self.walkers.flush_from = Ino(ino.0.saturating_add(1));
                    return Some(ino);
                }
                *passed_over = Some(ino);
            }
            let after = Ino(ino.0.saturating_add(1));
            ino = self.data.next_waiting(after).or_else(|| self.data.next_waiting(Ino(0)))?;
            if ino == first {
                return None;
            }
        }
    }

    /// A pass for age is done with an inode when all that it covers is submitted.
    fn is_covered(&mut self, pass: &Pass, ino: Ino) -> bool {
        let waits = self.data.has_waiting(ino, pass.upto);
        let Some(before) = pass.before else { return waits };
        let old = self.data.dirty_since(ino).is_some_and(|t| t <= before || t > pass.now);
        if old && !waits {
            self.data.renew(ino, pass.now);
        }
        old && waits
    }

    /// What the flusher is to do now, given the policy and whether its interval is over.
    pub fn flusher_request(&self, tick: Option<crate::Timestamp>) -> Option<PlanReq> {
        match tick {
            Some(now) if self.is_dirty() => Some(PlanReq::Expired { now }),
            _ if self.wants_writeback() => Some(PlanReq::Background),
            _ => None,
        }
    }
}
