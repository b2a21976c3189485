//! From a request and the policy to phases.

use crate::fs::Fs;
use crate::plan::{After, BlockList, Cover, Own, Pass, Phase, Plan, PlanId, PlanReq, Reason, Walk};
use crate::policy::{Action, CleanFsync, ClosePolicy, Policy};
use crate::{Format, FsError, Handle, Ino, Refused, Site, Timestamp};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

fn plan(site: Site, reason: Reason) -> Plan {
    Plan {
        site,
        reason,
        phases: VecDeque::new(),
        running: 0,
        wrote: Default::default(),
        bytes: 0,
        error: None,
        handle: None,
        ino: None,
        owns_data: Vec::new(),
        wants: None,
        whole: false,
        cleans: None,
        waited: true,
        linger_ms: 0,
    }
}

fn fsync_site(datasync: bool) -> Site {
    if datasync { Site::FsyncData } else { Site::FsyncMeta }
}

impl<F: Format> Fs<F> {
    /// Starts a plan. Ask for its steps with `next`.
    pub fn begin(&mut self, req: PlanReq) -> PlanId {
        let compiled = match req {
            PlanReq::Fsync { handle, datasync } => self.plan_fsync(handle, datasync),
            PlanReq::Close(handle) => self.plan_close(handle),
            PlanReq::Whole(site) => Ok(self.plan_whole(site, true)),
            PlanReq::Background => Ok(self.plan_background()),
            PlanReq::Expired { now } => Ok(self.plan_expired(now)),
            PlanReq::Room => Ok(self.plan_whole(Site::Periodic, false)),
            PlanReq::Reclaim => Ok(self.plan_reclaim()),
            PlanReq::After(after) => Ok(self.plan_after(after)),
        };
        let p = compiled
            .unwrap_or_else(|e| Plan { error: Some(e), ..plan(Site::Syncfs, Reason::Sync) });
        if let PlanReq::After(a) = req
            && a.indirect > 1
            && self.policy.action(Site::Indirect, true) >= Action::Fua
        {
            // New indirect blocks of one write share its Sync.
            let riders = u64::from(a.indirect.saturating_sub(1));
            self.stats.count(Site::Indirect, |s| {
                s.syncs_merged = s.syncs_merged.saturating_add(riders);
            });
        }
        self.stats.count(p.site, |s| s.hits = s.hits.saturating_add(1));
        self.next_id = self.next_id.saturating_add(1);
        let id = PlanId(self.next_id);
        self.plans.insert(id, p);
        id
    }

    fn handle_policy(&self, h: Handle) -> Result<(Ino, bool, &Policy), FsError> {
        let o = self.nodes.handle(h).ok_or(FsError::Refused(Refused::BadHandle))?;
        let policy = o.policy.as_deref().unwrap_or(&self.policy);
        Ok((o.ino, o.flags.sync, policy))
    }

    /// Something of the inode changed and was not yet written for it.
    fn inode_is_dirty(&self, ino: Ino) -> bool {
        self.data.is_dirty(ino)
            || self.nodes.get(ino).is_some_and(|n| n.inode_dirty || !n.own.is_empty())
    }

    fn data_phase(&self, only: Option<Ino>) -> Phase {
        self.walk(only, Own::Wait, true)
    }

    fn walk(&self, only: Option<Ino>, own: Own, waits: bool) -> Phase {
        let at = (only.unwrap_or_default(), 0);
        Phase::Data(Walk { only, at, upto: self.data.now(), own, waits })
    }

    /// The inode's metadata: its epochs, or without order its own blocks.
    fn metadata_phase(&self, ino: Ino) -> Phase {
        let (_, need) = self.nodes.needs(ino);
        if self.policy.ordered() {
            return Phase::Epochs { upto: need, current: None };
        }
        self.own_blocks(ino, true)
    }

    fn own_blocks(&self, ino: Ino, waits: bool) -> Phase {
        let list = self.nodes.get(ino).map(|n| n.own.iter().copied().collect());
        Phase::Blocks(BlockList { list: list.unwrap_or_default(), waits, ..Default::default() })
    }

    fn whole_metadata(&self) -> Phase {
        let upto = self.meta.cache.epochs.newest();
        if self.policy.ordered() {
            return Phase::Epochs { upto, current: None };
        }
        self.all_blocks(true)
    }

    /// As Linux's FAT: who waits for the inode waits for what is in it; the site `fat_table` is
    /// only started.
    fn starts_tables(&self) -> bool {
        !self.policy.ordered() && self.policy.action(Site::FatTable, true) <= Action::Start
    }

    /// The inode's own blocks: those of other sites than `fat_table`, and those of that.
    fn own_parts(&self, ino: Ino) -> (Vec<u64>, Vec<u64>) {
        let own = self.nodes.get(ino).map(|n| n.own.iter().copied()).into_iter().flatten();
        own.partition(|b| {
            let newest = self.meta.cache.peek(*b).and_then(|e| e.dirty.last());
            newest.is_none_or(|v| v.site != Site::FatTable)
        })
    }

    fn all_blocks(&self, waits: bool) -> Phase {
        let mut list: Vec<u64> = self.meta.cache.epochs.all().map(|(_, b)| b).collect();
        list.sort_unstable();
        list.dedup();
        Phase::Blocks(BlockList { list, waits, ..Default::default() })
    }

    fn plan_fsync(&self, handle: Handle, datasync: bool) -> Result<Plan, FsError> {
        let site = fsync_site(datasync);
        let mut p = plan(site, Reason::Fsync);
        p.handle = Some(handle);
        self.add_fsync(&mut p, handle, site)?;
        Ok(p)
    }

    fn add_fsync(&self, p: &mut Plan, handle: Handle, site: Site) -> Result<(), FsError> {
        let (ino, sync, policy) = self.handle_policy(handle)?;
        let dirty = self.inode_is_dirty(ino);
        if !dirty && policy.clean_fsync == CleanFsync::Nothing {
            return Ok(());
        }
        let action = policy.action(site, sync);
        if action == Action::None {
            return Ok(());
        }
        p.ino = Some(ino);
        p.cleans = Some(ino);
        p.phases.push_back(self.data_phase(Some(ino)));
        p.phases.push_back(self.metadata_phase(ino));
        if action >= Action::Fua {
            p.phases.push_back(Phase::Sync { site, cover: Cover::Inode(ino), waited: false });
        } else if dirty && policy.action(Site::Inode, sync) >= Action::Fua {
            let cover = Cover::Inode(ino);
            p.phases.push_back(Phase::Sync { site: Site::Inode, cover, waited: false });
        }
        Ok(())
    }

    fn plan_close(&mut self, handle: Handle) -> Result<Plan, FsError> {
        let mut p = plan(Site::Close, Reason::Close);
        p.handle = Some(handle);
        let (ino, _, policy) = self.handle_policy(handle)?;
        let close = policy.close;
        let o = self.nodes.handle_mut(handle).ok_or(FsError::Refused(Refused::BadHandle))?;
        let dirty = core::mem::take(&mut o.dirty);
        if !dirty {
            return Ok(p);
        }
        p.ino = Some(ino);
        p.linger_ms = close.linger_ms;
        self.add_close(&mut p, ino, close);
        Ok(p)
    }

    /// Data, then what leads to it; each part as far as its action says. Where a Sync follows, both
    /// are waited for: it would not cover what is still under way.
    fn add_close(&self, p: &mut Plan, ino: Ino, close: ClosePolicy) {
        let syncs = close.data.max(close.inode) >= Action::Fua;
        match close.data {
            Action::None => {}
            Action::Start if !syncs => p.phases.push_back(self.walk(Some(ino), Own::Skip, false)),
            Action::Submit if !syncs => p.phases.push_back(self.walk(Some(ino), Own::Wait, false)),
            _ => p.phases.push_back(self.data_phase(Some(ino))),
        }
        match close.inode {
            Action::None => {}
            inode if syncs || inode > Action::Wait => p.phases.push_back(self.metadata_phase(ino)),
            inode => self.add_close_inode(p, ino, inode),
        }
        if syncs {
            let cover = Cover::Inode(ino);
            p.phases.push_back(Phase::Sync { site: Site::Close, cover, waited: false });
        }
    }

    /// The inode's part of a close without a Sync.
    fn add_close_inode(&self, p: &mut Plan, ino: Ino, action: Action) {
        match action {
            // What stands between two epochs has to be waited for: there the flusher does it.
            Action::Start if self.policy.ordered() => {}
            Action::Start | Action::Submit if !self.policy.ordered() => {
                p.phases.push_back(self.own_blocks(ino, false));
            }
            Action::Wait if self.starts_tables() => {
                let (list, tables) = self.own_parts(ino);
                let entry = BlockList { list, waits: true, ..Default::default() };
                p.phases.push_back(Phase::Blocks(entry));
                p.phases.push_back(Phase::Blocks(BlockList { list: tables, ..Default::default() }));
            }
            _ => p.phases.push_back(self.metadata_phase(ino)),
        }
    }

    fn pass(&self, before: Option<Timestamp>, now: Timestamp) -> Phase {
        let upto = if before.is_some() { self.data.now() } else { u64::MAX };
        Phase::Flush(Pass { before, now, upto, turn: None })
    }

    fn plan_background(&mut self) -> Plan {
        if self.is_short_of_metadata() {
            return self.plan_whole(Site::Periodic, true);
        }
        let mut p = plan(Site::Periodic, Reason::Background);
        p.waited = false;
        p.phases.push_back(self.pass(None, self.meta.now));
        p
    }

    /// Where epochs have an order, metadata that is too old takes all data along: what it points to
    /// should be there, and it cannot be written in parts.
    fn plan_expired(&mut self, now: Timestamp) -> Plan {
        let before = now.minus_ms(self.policy.flusher.expire_ms);
        let clean = self.meta.cache.dirty_versions() == 0;
        // A clock that was set back says nothing about age.
        let old = !clean && (self.meta.since <= before || self.meta.since > now);
        if old {
            self.meta.since = now;
        }
        if old && (self.policy.ordered() || self.policy.flusher.expire_ms == 0) {
            return self.plan_whole(Site::Periodic, true);
        }
        let mut p = plan(Site::Periodic, Reason::Expiry);
        p.waited = false;
        p.phases.push_back(self.pass(Some(before), now));
        if old {
            p.phases.push_back(self.all_blocks(false));
        }
        p
    }

    fn plan_whole(&self, site: Site, may_sync: bool) -> Plan {
        let reason = if site == Site::Periodic { Reason::Expiry } else { Reason::Sync };
        let mut p = plan(site, reason);
        p.whole = true;
        p.waited = site != Site::Periodic || !may_sync;
        p.phases.push_back(self.data_phase(None));
        p.phases.push_back(self.whole_metadata());
        if may_sync && self.policy.action(site, true) >= Action::Fua {
            p.phases.push_back(Phase::Sync { site, cover: Cover::All, waited: false });
        }
        p
    }

    fn plan_reclaim(&self) -> Plan {
        let mut p = self.plan_whole(Site::Periodic, false);
        p.phases.push_back(Phase::Sync { site: Site::Periodic, cover: Cover::All, waited: false });
        p
    }

    fn plan_after(&self, a: After) -> Plan {
        let mut p = plan(a.site.unwrap_or(Site::Hypermetadata), Reason::Fsync);
        if a.hyper {
            self.add_hyper(&mut p);
            return p;
        }
        if a.indirect > 0
            && let Some(ino) = a.data
        {
            self.add_indirect(&mut p, ino);
        }
        if let Some((handle, datasync)) = a.fsync {
            let site = fsync_site(datasync);
            p.site = site;
            p.handle = Some(handle);
            if let Err(e) = self.add_fsync(&mut p, handle, site) {
                p.error = Some(e);
            }
        } else if let Some(site) = a.site {
            self.add_own(&mut p, a, site);
        }
        p
    }

    fn add_hyper(&self, p: &mut Plan) {
        let action = self.policy.action(Site::Hypermetadata, true);
        if action >= Action::Wait || self.policy.ordered() && action > Action::None {
            // Only the mark is dirty when it is set or cleared.
            p.phases.push_back(self.whole_metadata());
        }
        if action >= Action::Fua {
            let site = Site::Hypermetadata;
            p.phases.push_back(Phase::Sync { site, cover: Cover::Plan, waited: false });
        }
    }

    /// The Hurd's getblk: the pointer to each new indirect block goes out by itself.
    fn add_indirect(&self, p: &mut Plan, ino: Ino) {
        let action = self.policy.action(Site::Indirect, true);
        let own = self.nodes.get(ino).map(|n| n.own.iter().copied()).into_iter().flatten();
        let is_indirect = |b: &u64| {
            self.meta.cache.peek(*b).and_then(|e| e.dirty.last()).map(|v| v.site)
                == Some(Site::Indirect)
        };
        let list: Vec<u64> = own.filter(is_indirect).collect();
        if !self.policy.ordered() {
            let blocks = BlockList { list, waits: true, ..Default::default() };
            p.phases.push_back(Phase::Blocks(blocks));
        }
        if action >= Action::Fua && !self.policy.ordered() {
            let site = Site::Indirect;
            p.phases.push_back(Phase::Sync { site, cover: Cover::Plan, waited: false });
        }
    }

    /// `waited = all`: the operation's own epochs, with the strongest action among its sites; one
    /// Sync serves all sites that ask for one. Without order nothing keeps the operation's blocks
    /// apart from those of others under way, so it waits for what is dirty: with every operation
    /// waiting, that is little more than its own.
    fn add_own(&self, p: &mut Plan, a: After, site: Site) {
        let sites = || [site].into_iter().chain(a.sites.iter());
        let least = if a.force { Action::Barrier } else { Action::None };
        let action = sites().map(|s| self.policy.action(s, true)).max().unwrap_or_default();
        let action = action.max(least);
        if action < Action::Submit {
            return;
        }
        if let Some(ino) = a.data {
            p.phases.push_back(self.data_phase(Some(ino)));
        }
        if self.policy.ordered() {
            let upto = a.upto;
            p.phases.push_back(Phase::Epochs { upto, current: None });
        } else {
            p.phases.push_back(self.whole_metadata());
        }
        // The operation's own site where it asks for a Sync, else the first that does.
        let asks = sites().find(|s| self.policy.action(*s, true) >= Action::Fua);
        let asks = asks.or(a.force.then_some(site));
        if let Some(site) = asks {
            p.phases.push_back(Phase::Sync { site, cover: Cover::Plan, waited: false });
        }
    }
}
