//! Who may walk an inode's dirty data: the policy's `exclusion`.
//!
//! * `none`: everybody at once; each claims the lowest pages that nobody has.
//! * `per_inode`: one plan at a time. Who waits for an inode has it before the flusher has it
//!   again; no order is promised among those who wait.
//! * `global`: as `per_inode`, and who walks an inode with at least `min_bytes` of dirty data, or
//!   is no full sync, takes the one turn of the filesystem besides.

use crate::driver::StepLimits;
use crate::fs::Fs;
use crate::plan::{Own, Phase, Plan, PlanId};
use crate::policy::Exclusion;
use crate::{Format, Ino};

/// What one look-up of dirty pages gives in Linux: a batch of 31 folios.
const LOOK_UP: u64 = 31 * 4096;
/// Bytes of a step that is waited for: several requests leave together.
const TOGETHER: u64 = 4 << 20;

/// Where a plan's walker is.
fn walks(p: &Plan) -> Option<Ino> {
    match p.phases.front()? {
        Phase::Data(w) => Some(w.only.unwrap_or(w.at.0)),
        Phase::Flush(pass) => pass.turn.map(|(ino, _)| ino),
        _ => None,
    }
}

impl<F: Format> Fs<F> {
    /// True when another plan walks the inode that this one is in, side by side: under `exclusion =
    /// none` a closer and the flusher claim pages alternately. A host lets each walker claim no
    /// more at a time than one look-up gives (31 pages in Linux).
    pub fn is_raced(&self, id: PlanId) -> bool {
        if self.policy.exclusion != Exclusion::None {
            return false;
        }
        let Some(ino) = self.plans.get(&id).and_then(walks) else { return false };
        self.plans.iter().any(|(other, p)| *other != id && walks(p) == Some(ino))
    }

    /// The plan's walker stops where it is, and who races it with it. False: nobody does.
    pub(crate) fn stop_rivals(&mut self, id: PlanId) -> bool {
        let ino = self.plans.get(&id).and_then(walks).filter(|_| self.is_raced(id));
        ino.is_some_and(|ino| self.walkers.stopped.insert(id, ino).is_none())
    }

    pub(crate) fn let_rivals_go(&mut self, id: PlanId) {
        self.walkers.stopped.remove(&id);
        self.generation = self.generation.saturating_add(1);
    }

    /// True while a rival of the plan has stopped.
    pub(super) fn is_stopped(&self, id: PlanId) -> bool {
        if self.walkers.stopped.is_empty() {
            return false;
        }
        let ino = self.plans.get(&id).and_then(walks);
        self.walkers.stopped.iter().any(|(by, of)| *by != id && Some(*of) == ino)
    }

    /// How much of the plan a server takes at a time: the policy's largest request, or the store's
    /// if that is less; several together where the caller waits for them; a look-up where two
    /// walkers race.
    pub fn step_limits(&self, id: PlanId) -> StepLimits {
        let max_io = u64::from(self.caps.max_io.max(1));
        let request = self.policy.flusher.max_request.min(max_io);
        if self.is_raced(id) {
            return StepLimits { step: LOOK_UP.min(request), request };
        }
        let front = self.plans.get(&id).and_then(|p| p.phases.front());
        let waits = match front {
            Some(Phase::Data(w)) => w.waits,
            Some(Phase::Blocks(b)) => b.waits,
            Some(Phase::Flush(_)) => false,
            _ => true,
        };
        let whole = request >= max_io && waits;
        StepLimits { step: if whole { TOGETHER.max(request) } else { request }, request: 0 }
    }

    /// Makes the plan the writer of an inode's data. False: it is another's, or it has to wait.
    pub(super) fn own_data(&mut self, id: PlanId, ino: Ino, own: Own) -> bool {
        if self.policy.exclusion == Exclusion::None {
            return true;
        }
        let polite = own == Own::Skip;
        // Nothing is taken before all can be.
        let turn = match self.policy.exclusion {
            Exclusion::Global { min_bytes } => {
                polite || self.data.waiting_bytes_of(ino) >= min_bytes
            }
            _ => false,
        };
        let may = match self.walkers.turn {
            Some((holder, _)) => holder == id,
            None => !polite || self.walkers.turn_wanted.is_empty(),
        };
        if turn && !may {
            return false;
        }
        let n = self.nodes.entry(ino);
        match n.writer {
            Some(w) if w == id.0 => {}
            Some(_) => return false,
            None if polite && n.waiters > 0 => return false,
            None => {
                n.writer = Some(id.0);
                if let Some(p) = self.plans.get_mut(&id) {
                    p.owns_data.push(ino);
                }
            }
        }
        if turn && self.walkers.turn.is_none() {
            self.walkers.turn_wanted.remove(&id);
            self.walkers.turn = Some((id, ino));
        }
        true
    }

    /// The plan waits for the inode, and perhaps for the turn: the flusher stays away from both.
    pub(super) fn want(&mut self, id: PlanId, ino: Ino) {
        self.unwant(id);
        if self.walkers.turn.is_some_and(|(holder, _)| holder != id) {
            self.walkers.turn_wanted.insert(id);
        }
        let n = self.nodes.entry(ino);
        if n.writer == Some(id.0) {
            return;
        }
        n.waiters = n.waiters.saturating_add(1);
        if let Some(p) = self.plans.get_mut(&id) {
            p.wants = Some(ino);
        }
    }

    pub(super) fn unwant(&mut self, id: PlanId) {
        self.walkers.turn_wanted.remove(&id);
        let wanted = self.plans.get_mut(&id).and_then(|p| p.wants.take());
        if let Some(n) = wanted.and_then(|ino| self.nodes.known(ino)) {
            n.waiters = n.waiters.saturating_sub(1);
        }
    }

    /// Gives up those of the plan's inodes that `done` names.
    pub(super) fn disown(&mut self, id: PlanId, done: impl Fn(&Self, Ino) -> bool) {
        let Some(p) = self.plans.get_mut(&id) else { return };
        if p.owns_data.is_empty() {
            return;
        }
        let owned = core::mem::take(&mut p.owns_data);
        let (gone, kept) = owned.into_iter().partition(|i| done(self, *i));
        let gone: alloc::vec::Vec<Ino> = gone;
        if !gone.is_empty() {
            self.generation = self.generation.saturating_add(1);
        }
        for ino in gone {
            if let Some(n) = self.nodes.known(ino) {
                n.writer = None;
            }
        }
        if let Some(p) = self.plans.get_mut(&id) {
            p.owns_data = kept;
        }
    }

    /// Ends the plan's turn.
    pub(super) fn end_turn(&mut self, id: PlanId) {
        if self.walkers.turn.is_some_and(|(holder, _)| holder == id) {
            self.walkers.turn = None;
            self.generation = self.generation.saturating_add(1);
        }
    }

    /// Gives up all that the plan has and waits for.
    pub(super) fn let_go(&mut self, id: PlanId) {
        self.unwant(id);
        self.walkers.stopped.remove(&id);
        self.end_turn(id);
        self.disown(id, |_, _| true);
    }
}
