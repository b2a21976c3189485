//! Walkers: a plan's way over dirty data, one step at a time.

use crate::data::Claim;
use crate::fs::Fs;
use crate::plan::step::{Look, PIECES_MAX};
use crate::plan::{IoRun, Own, Phase, PlanId, Step, Walk, Work};
use crate::policy::MergeBoundary;
use crate::{Format, Ino, Site};
use alloc::vec::Vec;
use seawall_blockdev::WriteFlags;

/// What a walker collects for one step.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) list: Vec<Claim>,
    pub(super) bytes: u64,
}

impl Claims {
    pub(super) fn has_room(&self, limit: u64) -> bool {
        self.bytes < limit && self.list.len() < PIECES_MAX
    }
}

impl<F: Format> Fs<F> {
    /// True when a request may not hold this block beside what the step has already.
    pub(super) fn breaks(&self, claims: &Claims, ino: Ino, next: Option<u64>) -> bool {
        let Some(last) = claims.list.last() else { return false };
        match self.policy.merge_boundary {
            MergeBoundary::None => false,
            MergeBoundary::Inode => last.ino != ino,
            MergeBoundary::InodeOffset => {
                last.ino != ino || next != Some(last.file.start.saturating_add(last.file.len))
            }
        }
    }

    pub(super) fn take(&self, claims: &mut Claims, c: Claim) {
        let bytes = c.file.len.saturating_mul(u64::from(self.geo.block_size));
        claims.bytes = claims.bytes.saturating_add(bytes);
        claims.list.push(c);
    }

    /// What the walk still has to do in the inode.
    fn is_left(&self, w: &Walk, ino: Ino) -> bool {
        match w.waits {
            true => self.data.has_unwritten(ino, w.upto),
            false => self.data.has_waiting(ino, w.upto),
        }
    }

    /// What the host has submitted by now, or seen written, is given up.
    fn pass_on(&mut self, id: PlanId, w: &Walk) {
        if self.walkers.turn.is_some_and(|(p, ino)| p == id && !self.data.has_waiting(ino, w.upto))
        {
            self.end_turn(id);
        }
        if w.only.is_none() {
            self.disown(id, |fs, ino| !fs.is_left(w, ino));
        }
    }

    pub(super) fn step_data(&mut self, id: PlanId, mut w: Walk, limit: u64) -> Look {
        self.pass_on(id, &w);
        let mut claims = Claims::default();
        let mut owned_by_others = None;
        let mut under_way = false;
        while claims.has_room(limit) {
            let next = match w.only {
                Some(i) => self.is_left(&w, i).then_some(i),
                None => self.data.next_dirty(w.at.0),
            };
            let Some(ino) = next else { break };
            if ino != w.at.0 {
                w.at = (ino, 0);
            }
            if self.is_left(&w, ino) {
                let begins = self.data.peek(ino, w.at.1, w.upto);
                if self.breaks(&claims, ino, begins) || self.turn_is_elsewhere(id, ino, &claims) {
                    break;
                }
                if !self.own_data(id, ino, w.own) {
                    owned_by_others = owned_by_others.or(Some(ino));
                } else if let Some(c) =
                    self.data.claim(ino, w.at.1, limit.saturating_sub(claims.bytes), w.upto)
                {
                    w.at.1 = c.file.start.saturating_add(c.file.len);
                    self.take(&mut claims, c);
                    continue;
                } else {
                    under_way |= self.is_left(&w, ino);
                }
            }
            if w.only.is_some() {
                break;
            }
            w.at = (Ino(ino.0.saturating_add(1)), 0);
        }
        if claims.list.is_empty() {
            return self.nothing_claimed(id, w, owned_by_others, under_way, limit);
        }
        self.unwant(id);
        self.set_phase(id, Phase::Data(w));
        Look::Step(self.data_step(id, claims.list, w.waits))
    }

    /// The turn of the filesystem is for one inode, and is over when that one is submitted.
    fn turn_is_elsewhere(&self, id: PlanId, ino: Ino, claims: &Claims) -> bool {
        !claims.list.is_empty() && self.walkers.turn.is_some_and(|(p, of)| p == id && of != ino)
    }

    fn nothing_claimed(
        &mut self,
        id: PlanId,
        w: Walk,
        owned_by_others: Option<Ino>,
        under_way: bool,
        limit: u64,
    ) -> Look {
        let start = Walk { at: (w.only.unwrap_or_default(), 0), ..w };
        let idle = self.is_idle(id);
        if w.own == Own::Skip {
            if owned_by_others.is_some() {
                self.stats.writeback.skipped = self.stats.writeback.skipped.saturating_add(1);
            }
        } else if owned_by_others.is_some() || under_way {
            // Something is under way, here or in another plan; look again from the start then.
            self.set_phase(id, Phase::Data(start));
            if !idle {
                return Look::Pending;
            }
            if w.only.is_none() {
                self.disown(id, |_, _| true);
                self.end_turn(id);
            }
            if let Some(ino) = owned_by_others {
                self.want(id, ino);
            }
            return Look::Busy;
        } else if !idle {
            self.set_phase(id, Phase::Data(start));
            return Look::Pending;
        } else if w.only.is_none() && self.any_left(&w) {
            return self.step_data(id, start, limit);
        }
        self.let_go(id);
        Look::Next
    }

    fn any_left(&self, w: &Walk) -> bool {
        let mut at = self.data.next_dirty(Ino(0));
        while let Some(i) = at {
            if self.is_left(w, i) {
                return true;
            }
            at = self.data.next_dirty(Ino(i.0.saturating_add(1)));
        }
        false
    }

    pub(super) fn data_step(&mut self, id: PlanId, claims: Vec<Claim>, waited: bool) -> Step {
        let bs = u64::from(self.geo.block_size);
        let tag = Site::Data.tag();
        let runs: Vec<IoRun> = claims
            .iter()
            .map(|c| IoRun { start: c.disk.saturating_mul(bs), data: c.data.clone(), tag })
            .collect();
        let bytes: u64 = runs.iter().map(|r| r.data.len() as u64).sum();
        self.stats.count(Site::Data, |s| {
            s.writes = s.writes.saturating_add(runs.len() as u64);
            s.bytes = s.bytes.saturating_add(bytes);
        });
        if let Some(p) = self.plans.get_mut(&id) {
            p.bytes = p.bytes.saturating_add(bytes);
            self.stats.writeback.wrote(p, bytes);
        }
        let step = self.start(id, Work::Data(claims), waited);
        Step::Write { id: step, runs, flags: WriteFlags::default(), waited }
    }
}
