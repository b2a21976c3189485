//! Running a plan: one step at a time, and what its result means.

use crate::epoch::Epoch;
use crate::fs::Fs;
use crate::plan::{BlockList, Cover, IoRun, Phase, PlanId, Running, Step, StepId, Verdict, Work};
use crate::policy::{Boundary, OnError, OnUnsupported};
use crate::slice::Slice;
use crate::{Format, FsError, Refused, Site};
use alloc::format;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Seq, WriteFlags};

/// Most pieces in one step.
pub(super) const PIECES_MAX: usize = 1024;

/// What a look at the front phase gave.
pub(super) enum Look {
    Step(Step),
    /// The phase is over.
    Next,
    Busy,
    Pending,
}

impl<F: Format> Fs<F> {
    /// The plan's next step, of at most `limit` bytes. Asking for it says that the step before was
    /// submitted.
    pub fn next(&mut self, id: PlanId, limit: u64) -> Step {
        loop {
            let Some(p) = self.plans.get(&id) else { return Step::Done };
            let idle = p.running == 0;
            if p.error.is_some() {
                return if idle { Step::Done } else { Step::Pending };
            }
            let Some(phase) = p.phases.front().cloned() else {
                return if idle { Step::Done } else { Step::Pending };
            };
            let look = match phase {
                Phase::Data(_) | Phase::Flush(_) if self.is_stopped(id) => Look::Busy,
                Phase::Data(w) => self.step_data(id, w, limit),
                Phase::Flush(pass) => self.step_flush(id, pass, limit),
                Phase::Epochs { upto, current } => self.step_epochs(id, upto, current, limit),
                Phase::Blocks(b) => self.step_blocks(id, b, limit),
                Phase::Sync { site, cover, waited } => self.step_sync(id, site, cover, waited),
            };
            match look {
                Look::Step(s) => return s,
                Look::Busy if idle => return Step::Busy,
                Look::Busy | Look::Pending => return Step::Pending,
                Look::Next => {
                    if let Some(p) = self.plans.get_mut(&id) {
                        p.phases.pop_front();
                    }
                }
            }
        }
    }

    pub(super) fn set_phase(&mut self, id: PlanId, phase: Phase) {
        if let Some(front) = self.plans.get_mut(&id).and_then(|p| p.phases.front_mut()) {
            *front = phase;
        }
    }

    pub(super) fn is_idle(&self, id: PlanId) -> bool {
        self.plans.get(&id).is_none_or(|p| p.running == 0)
    }

    pub(super) fn start(&mut self, id: PlanId, work: Work, waited: bool) -> StepId {
        let io = match &work {
            Work::Data(_) => Some(self.meta.pending.begin_io()),
            _ => None,
        };
        self.next_id = self.next_id.saturating_add(1);
        let step = StepId(self.next_id);
        self.running.insert(step, Running { plan: id, work, waited, io });
        if let Some(p) = self.plans.get_mut(&id).filter(|_| waited) {
            p.running = p.running.saturating_add(1);
        }
        step
    }

    /// Claims blocks and makes a step of them; `None` when none can be claimed now.
    fn block_step(
        &mut self,
        id: PlanId,
        blocks: &[(Epoch, u64)],
        flags: WriteFlags,
        waited: bool,
    ) -> Option<Step> {
        let bs = u64::from(self.geo.block_size);
        let mut done = Vec::new();
        let mut runs = Vec::new();
        for (epoch, b) in blocks {
            let Some((buf, site)) = self.meta.cache.claim(*b, *epoch) else { continue };
            self.stats.count(site, |s| {
                s.writes = s.writes.saturating_add(1);
                s.bytes = s.bytes.saturating_add(bs);
            });
            let start = b.saturating_mul(bs);
            runs.push(IoRun { start, data: Slice::shared(buf), tag: site.tag() });
            done.push((*epoch, *b));
        }
        if done.is_empty() {
            return None;
        }
        let step = self.start(id, Work::Blocks(done), waited);
        Some(Step::Write { id: step, runs, flags, waited })
    }

    fn take_meta(&mut self, id: PlanId) -> bool {
        match self.meta_owner {
            Some(o) => o == id,
            None => {
                self.meta_owner = Some(id);
                true
            }
        }
    }

    fn drop_meta(&mut self, id: PlanId) {
        if self.meta_owner == Some(id) {
            self.meta_owner = None;
            self.generation = self.generation.saturating_add(1);
        }
    }

    fn step_epochs(&mut self, id: PlanId, upto: Epoch, current: Option<Epoch>, limit: u64) -> Look {
        if !self.take_meta(id) {
            return Look::Busy;
        }
        let epochs = &mut self.meta.cache.epochs;
        if epochs.oldest(upto).is_some() {
            epochs.close(upto);
        }
        let oldest = epochs.oldest(upto);
        if let Some(c) = current
            && oldest != Some(c)
            && self.is_idle(id)
        {
            // Epoch `c` is written whole.
            self.epoch_written(id, c);
            self.set_phase(id, Phase::Epochs { upto, current: None });
            return self.step_epochs(id, upto, None, limit);
        }
        let Some(e) = oldest else {
            if !self.is_idle(id) {
                return Look::Pending;
            }
            self.drop_meta(id);
            return Look::Next;
        };
        let mut flags = WriteFlags::default();
        if current.is_none() {
            if let Some(look) = self.boundary(id, e) {
                return look;
            }
            flags.pre_barrier = self.policy.boundary == Boundary::Order && self.caps.order;
        }
        self.set_phase(id, Phase::Epochs { upto, current: Some(e) });
        let most = usize::try_from(limit / u64::from(self.geo.block_size)).unwrap_or(PIECES_MAX);
        let list: Vec<(Epoch, u64)> = self
            .meta
            .cache
            .epochs
            .blocks(e, 0)
            .filter(|b| self.meta.cache.peek(*b).is_some_and(|x| x.is_claimable(e)))
            .take(most.clamp(1, PIECES_MAX))
            .map(|b| (e, b))
            .collect();
        match self.block_step(id, &list, flags, true) {
            Some(step) => Look::Step(step),
            None if self.is_idle(id) => Look::Busy,
            None => Look::Pending,
        }
    }

    fn epoch_written(&mut self, id: PlanId, epoch: Epoch) {
        self.stats.epochs_written = self.stats.epochs_written.saturating_add(1);
        let seq = self.plans.get(&id).map_or(self.marks.acked, |p| p.wrote);
        self.meta.cache.epochs.note_written(epoch, seq.max(self.marks.durable));
        // A store that cannot flush never says durable; written is all that reuse can wait for.
        let mark = if self.caps.cache.can_promise() { self.marks.durable } else { seq };
        self.note_durable(mark);
    }

    /// What stands before an epoch that is about to be written: every older one, whichever plan
    /// wrote it. `None`: go on.
    fn boundary(&mut self, id: PlanId, epoch: Epoch) -> Option<Look> {
        let order = self.policy.boundary == Boundary::Order && self.caps.order;
        if order || self.policy.boundary == Boundary::None || !self.caps.cache.can_promise() {
            return None;
        }
        if self.meta.cache.epochs.covering(epoch) == Seq(0) {
            return None;
        }
        let site = self.plans.get(&id).map_or(Site::Periodic, |p| p.site);
        match self.step_sync(id, site, Cover::Epochs(epoch), false) {
            Look::Next => None,
            look => Some(look),
        }
    }

    fn step_blocks(&mut self, id: PlanId, mut b: BlockList, limit: u64) -> Look {
        let most = usize::try_from(limit / u64::from(self.geo.block_size)).unwrap_or(PIECES_MAX);
        while b.at < b.list.len() {
            let upto = b.at.saturating_add(most.clamp(1, PIECES_MAX)).min(b.list.len());
            let mut claims: Vec<(Epoch, u64)> = Vec::new();
            for block in b.list.get(b.at..upto).unwrap_or_default() {
                let Some(v) = self.meta.cache.peek(*block).and_then(|e| e.dirty.first()) else {
                    continue;
                };
                if v.in_flight {
                    b.retry.push(*block);
                } else {
                    claims.push((v.epoch, *block));
                }
            }
            b.at = upto;
            if let Some(step) = self.block_step(id, &claims, WriteFlags::default(), b.waits) {
                self.set_phase(id, Phase::Blocks(b));
                return Look::Step(step);
            }
        }
        if !b.waits {
            return Look::Next;
        }
        let in_flight = |b: &u64| {
            let e = self.meta.cache.peek(*b);
            e.is_some_and(|e| e.dirty.first().is_some_and(|v| v.in_flight))
        };
        let (idle, busy) = (self.is_idle(id), b.retry.iter().any(in_flight));
        if idle && !busy && b.retry.is_empty() {
            return Look::Next;
        }
        if idle && !busy {
            let again = BlockList { list: core::mem::take(&mut b.retry), at: 0, ..b };
            return self.step_blocks(id, again, limit);
        }
        self.set_phase(id, Phase::Blocks(b));
        if idle { Look::Busy } else { Look::Pending }
    }

    /// The sequence that a Sync must reach.
    fn target(&self, id: PlanId, cover: Cover) -> Seq {
        let wrote = self.plans.get(&id).map_or(Seq(0), |p| p.wrote);
        match cover {
            Cover::Plan => wrote,
            Cover::All => self.marks.acked,
            Cover::Epochs(upto) => self.meta.cache.epochs.covering(upto),
            Cover::Inode(ino) => {
                let (seq, need) = self.nodes.needs(ino);
                wrote.max(seq).max(self.meta.cache.epochs.covering(need))
            }
        }
    }

    fn step_sync(&mut self, id: PlanId, site: Site, cover: Cover, waited: bool) -> Look {
        if !self.is_idle(id) {
            return Look::Pending;
        }
        if !self.caps.cache.can_promise() {
            self.cannot_sync(id, site);
            return Look::Next;
        }
        let target = self.target(id, cover);
        if self.marks.durable >= target {
            self.stats.count(site, |s| {
                if waited {
                    s.syncs_merged = s.syncs_merged.saturating_add(1);
                } else {
                    s.syncs_skipped = s.syncs_skipped.saturating_add(1);
                }
            });
            return Look::Next;
        }
        if self.sync_in_flight.is_some() {
            if let Some(Phase::Sync { waited, .. }) =
                self.plans.get_mut(&id).and_then(|p| p.phases.front_mut())
            {
                *waited = true;
            }
            return Look::Busy;
        }
        self.sync_in_flight = Some(self.marks.acked);
        self.stats.count(site, |s| s.syncs_sent = s.syncs_sent.saturating_add(1));
        let covers = self.marks.acked;
        let step = self.start(id, Work::Sync { site, covers }, true);
        Look::Step(Step::Sync { id: step, tag: site.tag() })
    }

    /// A store that cannot flush: nothing is sent, and the policy says what the caller hears.
    fn cannot_sync(&mut self, id: PlanId, site: Site) {
        let error = FsError::unsupported("the store cannot flush its cache");
        match self.policy.on_unsupported {
            OnUnsupported::Ignore => return,
            OnUnsupported::Warn => {
                let what = "the store cannot flush its cache: not durable".into();
                self.warn_once(site, what);
                return;
            }
            OnUnsupported::ReadOnly => self.go_read_only(format!("{error}")),
            OnUnsupported::Fail | OnUnsupported::RefuseMount => {}
        }
        if let Some(p) = self.plans.get_mut(&id)
            && p.waited
        {
            p.error = Some(error);
        }
    }

    /// Says how a step went: the sequence of its last write, or the durable one of a Sync.
    pub fn complete(&mut self, step: StepId, result: Result<Seq, DevError>) {
        self.generation = self.generation.saturating_add(1);
        let Some(r) = self.running.remove(&step) else { return };
        if let Some(p) = self.plans.get_mut(&r.plan).filter(|_| r.waited) {
            p.running = p.running.saturating_sub(1);
        }
        if let Some(io) = r.io {
            let durable = self.meta.cache.epochs.durable;
            self.meta.pending.end_io(io, durable);
        }
        match r.work {
            Work::Sync { site, covers } => {
                self.sync_in_flight = None;
                // One try, whatever came of it: a Sync that failed is not sent again by its plan.
                if let Some(p) = self.plans.get_mut(&r.plan)
                    && matches!(p.phases.front(), Some(Phase::Sync { .. }))
                {
                    p.phases.pop_front();
                }
                match result {
                    Ok(seq) if seq >= covers => self.note_durable(seq),
                    Ok(_) => self.sync_failed(r.plan, site, DevError::Protocol),
                    Err(DevError::Unsupported) => self.cannot_sync(r.plan, site),
                    Err(e) => self.sync_failed(r.plan, site, e),
                }
            }
            Work::Blocks(list) => {
                if let Err(e) = result.as_ref().map_err(|e| FsError::Io(*e))
                    && !r.waited
                {
                    self.tell_owners(&list, &e);
                }
                self.blocks_done(r.plan, &list, result);
            }
            Work::Data(claims) => self.data_done(r.plan, &claims, r.waited, result),
        }
        self.note_plan_write(r.plan, result);
    }

    fn note_plan_write(&mut self, id: PlanId, result: Result<Seq, DevError>) {
        if let Ok(seq) = result {
            self.marks.acked = self.marks.acked.max(seq);
            if let Some(p) = self.plans.get_mut(&id) {
                p.wrote = p.wrote.max(seq);
            }
        }
    }

    /// Nobody waited for these blocks: those who changed them hear of it by their handles.
    fn tell_owners(&mut self, list: &[(Epoch, u64)], e: &FsError) {
        let mut owners: Vec<_> =
            list.iter().flat_map(|(_, b)| self.meta.cache.owners(*b)).collect();
        owners.sort_unstable();
        owners.dedup();
        for ino in owners {
            self.nodes.fail(ino, e);
        }
    }

    fn blocks_done(&mut self, id: PlanId, list: &[(Epoch, u64)], result: Result<Seq, DevError>) {
        for (epoch, b) in list {
            if let Ok(seq) = result {
                for ino in self.meta.cache.owners(*b) {
                    let n = self.nodes.entry(ino);
                    n.seq = n.seq.max(seq);
                }
            }
            let owners = self.meta.cache.owners(*b);
            self.meta.cache.complete(*b, *epoch, result.ok());
            if self.meta.cache.peek(*b).is_none_or(|e| e.dirty.is_empty()) {
                for n in owners {
                    if let Some(n) = self.nodes.known(n) {
                        n.own.remove(b);
                    }
                }
            }
        }
        if let Err(e) = result {
            let site = self.plans.get(&id).map_or(Site::Periodic, |p| p.site);
            self.write_failed(id, site, e);
        }
        self.write_through(result);
    }

    fn data_done(
        &mut self,
        id: PlanId,
        claims: &[crate::data::Claim],
        waited: bool,
        result: Result<Seq, DevError>,
    ) {
        let mut told = None;
        let heard = waited && self.plans.get(&id).is_some_and(|p| p.waited);
        self.walkers.failing = result.err();
        for c in claims {
            self.data.complete(c, result.ok());
            match result {
                Ok(seq) => {
                    let n = self.nodes.entry(c.ino);
                    n.seq = n.seq.max(seq);
                }
                Err(_) if told == Some(c.ino) => {}
                Err(e) => {
                    self.nodes.fail(c.ino, &FsError::Io(e));
                    told = Some(c.ino);
                    if heard {
                        self.nodes.told(c.ino);
                    }
                }
            }
        }
        if let Err(e) = result {
            self.write_failed(id, Site::Data, e);
        }
        self.write_through(result);
    }

    /// On a write-through store an acknowledged write is durable.
    fn write_through(&mut self, result: Result<Seq, DevError>) {
        if let Ok(seq) = result
            && self.caps.cache == seawall_blockdev::CacheClass::WriteThrough
        {
            self.note_durable(seq);
        }
    }

    fn note_durable(&mut self, seq: Seq) {
        if self.caps.cache.can_promise() {
            self.marks.durable = self.marks.durable.max(seq);
            self.marks.acked = self.marks.acked.max(seq);
        }
        self.meta.cache.epochs.note_durable(seq);
        self.meta.pending.release(self.meta.cache.epochs.durable);
    }

    fn write_failed(&mut self, id: PlanId, site: Site, e: DevError) {
        self.write_error = Some(e);
        self.report(id, site, FsError::Io(e), "write failed; the data stays in memory");
    }

    fn report(&mut self, id: PlanId, site: Site, e: FsError, what: &str) {
        match self.policy.on_error {
            OnError::Warn => self.warn_once(site, format!("{} site: {what}: {e}", site.name())),
            OnError::Fail => {}
            OnError::ReadOnly => self.go_read_only(format!("{what}: {e}")),
        }
        if let Some(p) = self.plans.get_mut(&id) {
            // The plan ends here either way: what failed stays dirty for the next one.
            p.phases.clear();
            if self.policy.on_error != OnError::Warn || !p.waited {
                p.error = Some(e);
            }
        }
    }

    /// After a failed flush only what is written again can become durable: everything since the
    /// last durable sequence that is still here becomes dirty again. What is not here any more is
    /// lost, and a volume that lost something goes read-only.
    fn sync_failed(&mut self, id: PlanId, site: Site, e: DevError) {
        self.stats.count(site, |s| s.syncs_failed = s.syncs_failed.saturating_add(1));
        let error = FsError::Io(e);
        if self.policy.on_error == OnError::Warn {
            let what = format!("device flush failed: {e}");
            self.warn_once(site, what);
            return;
        }
        let durable = self.marks.durable;
        self.meta.cache.epochs.forget_written();
        let epoch = self.meta.cache.epochs.newest().max(self.meta.cache.epochs.open);
        let blocks = self.meta.cache.redo_after(durable, epoch);
        for (_, n) in self.nodes.all_mut() {
            if n.seq > durable || n.need > self.meta.cache.epochs.durable {
                n.need = n.need.max(epoch);
                n.errors = n.errors.wrapping_add(1);
                n.error = Some(error.clone());
            }
        }
        let caller = self.plans.get(&id).filter(|p| p.waited).and_then(|p| p.ino);
        caller.into_iter().for_each(|ino| self.nodes.told(ino));
        self.data.redo_after(durable);
        if self.meta.cache.evicted > durable || self.data.evicted > durable {
            let why = "a device flush failed and what it lost is no longer in memory";
            self.go_read_only(why.into());
        } else if blocks > 0 {
            self.nodes.floor.1 = self.nodes.floor.1.max(epoch);
        }
        self.report(id, site, error, "device flush failed");
    }

    /// Ends a plan and gives its verdict. A handle's unheard error is part of it. Steps that nobody
    /// waits for may still be under way: complete them as they end.
    ///
    /// # Errors
    /// What the plan met, or what an earlier writeback of the handle's file met.
    pub fn finish(&mut self, id: PlanId) -> Result<Verdict, FsError> {
        self.let_go(id);
        self.drop_meta(id);
        self.generation = self.generation.saturating_add(1);
        let Some(p) = self.plans.remove(&id) else {
            return Err(Refused::BadHandle.into());
        };
        self.stats.writeback.ended(&p);
        let failed = p.error.is_some();
        if p.whole && !failed {
            self.nodes.all_mut().for_each(|(_, n)| n.inode_dirty = false);
        } else if let Some(n) = p.cleans.filter(|_| !failed).and_then(|i| self.nodes.known(i)) {
            n.inode_dirty = false;
        }
        let heard = p.handle.and_then(|h| self.nodes.hear(h));
        let heard = heard.filter(|_| self.policy.on_error != OnError::Warn);
        if let Some(e) = p.error.or(heard) {
            return Err(e);
        }
        let in_flight = self.running.values().filter(|r| r.plan == id).count();
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        Ok(Verdict { linger_ms: p.linger_ms, in_flight })
    }
}
