//! A mounted filesystem: a format inside the caches, order, handles and policy that all formats
//! share.
//!
//! Every operation is an *attempt*: it either commits as a whole or has not happened. A host holds
//! one lock around the `Fs`, for processor time only; all I/O is done by the
//! [driver](crate::driver) outside of it.

use crate::cache::BlockCache;
use crate::data::DataCache;
use crate::dirindex::DirIndexes;
use crate::epoch::Epoch;
use crate::hash::HashMap;
use crate::memo::Memo;
use crate::nodes::Nodes;
use crate::pending::Pending;
use crate::plan::{After, Plan, PlanId, Running, StepId, Walkers};
use crate::policy::{Action, OnError, OnUnsupported, Reuse};
use crate::runs::RunCache;
use crate::sizes::CacheSizes;
use crate::stats::{Event, FsStats};
use crate::ticket::Ticket;
use crate::tx::{Effects, Tx};
use crate::windows::Windows;
use crate::{
    Attempt, Ctx, Extent, Fault, Format, FsError, Geometry, Ino, Policy, Refused, Site, SiteSet,
    Timestamp, Wait,
};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use seawall_blockdev::{Caps, DevError, Seq, SeqState};

mod atime;
mod commit;
mod data_ops;
mod extend;
mod handles;
mod look;
mod names;
mod perm;
mod setattr;
mod space;
mod xattr;

pub use atime::{Atime, AtimeOpts};
pub use data_ops::{IO_MAX, ReadPlan, SeekWhat, Segment, Source};
pub use look::Listing;
pub use space::Space;
pub use xattr::{XATTR_MAX, XATTR_NAME_MAX, XattrHow};

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOpts {
    /// Durability.
    pub policy: Policy,
    /// Memory for metadata blocks, bytes.
    pub block_budget: usize,
    /// Memory for file data, bytes.
    pub data_budget: u64,
    /// Memory for indexes of directories, bytes. 0: none are made.
    pub index_budget: usize,
    /// Memory for where files' storage is, in formats that need it, bytes.
    pub run_budget: usize,
    /// No writes.
    pub read_only: bool,
    /// The host never runs the close site, so a policy with an action there is refused.
    pub no_close: bool,
    /// Access times.
    pub atime: AtimeOpts,
    /// Access lists count; without, they are kept and not shown.
    pub acl: bool,
    /// Attributes of the `user` name space can be used.
    pub user_xattr: bool,
    /// The device is told of freed blocks, once the policy lets them be reused.
    pub discard: bool,
}

impl MountOpts {
    /// 32 MiB of metadata, 64 MiB of directory indexes (three million names), and of data the
    /// flusher's limit plus 32 MiB, on any machine. Attributes and access lists count; access times
    /// are not kept.
    pub fn new(policy: Policy) -> Self {
        let data_budget = policy.flusher.limit.saturating_add(32 << 20);
        Self {
            policy,
            block_budget: 32 << 20,
            data_budget,
            index_budget: 64 << 20,
            run_budget: 16 << 20,
            read_only: false,
            no_close: false,
            atime: AtimeOpts::default(),
            acl: true,
            user_xattr: true,
            discard: false,
        }
    }

    /// With caches of metadata of these sizes.
    #[must_use]
    pub fn with_caches(self, sizes: CacheSizes) -> Self {
        Self { block_budget: sizes.blocks, index_budget: sizes.index, ..self }
    }
}

/// A committed operation.
#[derive(Clone, Debug)]
pub struct Done<T> {
    /// Its result.
    pub value: T,
    /// What the policy wants done before the caller hears of it.
    pub after: Option<After>,
    /// Another step of the same operation follows: call again with a fresh ticket.
    pub more: bool,
}

impl<T> Done<T> {
    pub(crate) fn plain(value: T) -> Self {
        Self { value, after: None, more: false }
    }
}

/// Metadata state that a transaction borrows.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) cache: BlockCache,
    pub(crate) pending: Pending,
    pub(crate) indexes: DirIndexes,
    pub(crate) windows: Windows,
    pub(crate) memo: Memo,
    pub(crate) runs: RunCache,
    pub(crate) hints: HashMap<u64, u64>,
    pub(crate) dir_changes: HashMap<Ino, u64>,
    pub(crate) change_floor: u64,
    pub(crate) changes: u64,
    block_size: usize,
    blocks: u64,
    collapse: bool,
    acl: bool,
    /// The time of the operation that runs or ran last.
    pub(crate) now: Timestamp,
    /// When the oldest dirty metadata became dirty.
    pub(crate) since: Timestamp,
}

impl Meta {
    pub(crate) fn tx<'a>(&'a mut self, ticket: &'a mut Ticket, ctx: &'a Ctx) -> Tx<'a> {
        self.now = ctx.now;
        Tx {
            cache: &mut self.cache,
            ticket,
            pending: &self.pending,
            indexes: &mut self.indexes,
            windows: &self.windows,
            memo: &mut self.memo,
            runs: &mut self.runs,
            writer: None,
            any_window: false,
            hints: &self.hints,
            dir_changes: &self.dir_changes,
            change_floor: self.change_floor,
            overlay: BTreeMap::new(),
            effects: Effects::default(),
            now: ctx.now,
            ctx,
            acl: self.acl,
            block_size: self.block_size,
            blocks: self.blocks,
            collapse: self.collapse,
            saw_pending: false,
        }
    }
}

fn check_close(no_close: bool, policy: &Policy) -> Result<(), FsError> {
    let acts = policy.close.data != Action::None || policy.close.inode != Action::None;
    if no_close && acts {
        let name = &policy.name;
        let what = alloc::format!("policy {name} acts at close, and this mount is told of none");
        return Err(FsError::unsupported(what));
    }
    Ok(())
}

/// Mount options that operations ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    atime: AtimeOpts,
    acl: bool,
    user_xattr: bool,
}

/// A mounted filesystem.
#[derive(Debug)]
pub struct Fs<F> {
    pub(crate) format: F,
    pub(crate) geo: Geometry,
    pub(crate) policy: Policy,
    pub(crate) caps: Caps,
    pub(crate) meta: Meta,
    pub(crate) data: DataCache,
    pub(crate) nodes: Nodes,
    pub(crate) marks: SeqState,
    pub(crate) plans: BTreeMap<PlanId, Plan>,
    pub(crate) running: BTreeMap<StepId, Running>,
    pub(crate) next_id: u64,
    pub(crate) meta_owner: Option<PlanId>,
    pub(crate) sync_in_flight: Option<Seq>,
    pub(crate) generation: u64,
    pub(crate) stats: FsStats,
    pub(crate) warned: SiteSet,
    pub(crate) events: VecDeque<Event>,
    pub(crate) read_only: bool,
    pub(crate) no_close: bool,
    pub(crate) opts: Kept,
    pub(crate) marked_dirty: bool,
    /// The volume carries the mark of damage.
    marked_damaged: bool,
    /// Why the last write that failed did.
    pub(crate) write_error: Option<DevError>,
    pub(crate) orphans: BTreeSet<Ino>,
    pub(crate) walkers: Walkers,
}

/// Most events kept for a host that does not drain them.
const EVENTS_MAX: usize = 256;

impl<F: Format> Fs<F> {
    /// Mounts. `seqs` is where the device stands now: what it acknowledged before counts as not
    /// durable until it says otherwise.
    ///
    /// # Errors
    /// `Unsupported` when the policy refuses a store that cannot flush, or has an action at a close
    /// that the host never reports; `Corrupt` when the geometry
    /// does not fit the device.
    pub fn new(format: F, caps: Caps, seqs: SeqState, opts: MountOpts) -> Result<Self, FsError> {
        let geo = format.geometry();
        let policy = opts.policy;
        if !caps.cache.can_promise() && policy.on_unsupported == OnUnsupported::RefuseMount {
            return Err(FsError::unsupported(alloc::format!(
                "policy {} on a store that cannot flush (its cache is {})",
                policy.name,
                caps.cache.name()
            )));
        }
        check_close(opts.no_close, &policy)?;
        let end = geo.blocks.checked_mul(u64::from(geo.block_size));
        if geo.block_size == 0 || end.is_none_or(|e| e > caps.size) {
            return Err(FsError::corrupt("superblock", 0, "volume is larger than its device"));
        }
        let block_size = geo.block_size as usize;
        let mut meta = Meta {
            cache: BlockCache::new(block_size, opts.block_budget),
            pending: Pending::default(),
            indexes: DirIndexes::new(opts.index_budget),
            windows: Windows::default(),
            memo: Memo::default(),
            runs: RunCache::new(opts.run_budget),
            hints: HashMap::default(),
            dir_changes: HashMap::default(),
            change_floor: 0,
            changes: 0,
            block_size,
            blocks: geo.blocks,
            collapse: !policy.ordered(),
            acl: opts.acl && format.has_acls(),
            now: Timestamp::default(),
            since: Timestamp::default(),
        };
        meta.pending.set_discard(opts.discard);
        let mut nodes = Nodes::default();
        nodes.floor = (seqs.acked, Epoch(0));
        Ok(Self {
            read_only: opts.read_only || geo.read_only || caps.read_only,
            no_close: opts.no_close,
            opts: Kept {
                atime: opts.atime,
                acl: opts.acl && format.has_acls(),
                user_xattr: opts.user_xattr,
            },
            marked_dirty: !format.was_clean(),
            marked_damaged: false,
            write_error: None,
            data: DataCache::new(u64::from(geo.block_size), opts.data_budget),
            nodes,
            marks: seqs,
            geo,
            policy,
            caps,
            meta,
            format,
            plans: BTreeMap::new(),
            running: BTreeMap::new(),
            next_id: 0,
            meta_owner: None,
            sync_in_flight: None,
            generation: 0,
            stats: FsStats::default(),
            warned: SiteSet::default(),
            events: VecDeque::new(),
            orphans: BTreeSet::new(),
            walkers: Walkers::default(),
        })
    }

    /// Constants of the volume.
    pub fn geometry(&self) -> Geometry {
        self.geo
    }

    /// The format.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// Whether nodes can have extended attributes.
    pub fn has_xattrs(&self) -> bool {
        self.format.has_xattrs()
    }

    /// Whether nodes can have access lists.
    pub fn has_acls(&self) -> bool {
        self.format.has_acls()
    }

    /// Whether a name is found in several spellings.
    pub fn folds_names(&self) -> bool {
        self.format.folds_names()
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Puts another policy in force. The caller has run `PlanReq::Whole(Syncfs)` under the stricter
    /// of both, and nothing is dirty.
    ///
    /// # Errors
    /// `Busy` when something is dirty or under way; `Unsupported` as at mount.
    pub fn set_policy(&mut self, policy: Policy) -> Result<(), FsError> {
        if !self.caps.cache.can_promise() && policy.on_unsupported == OnUnsupported::RefuseMount {
            return Err(FsError::unsupported("this policy on a store that cannot flush"));
        }
        check_close(self.no_close, &policy)?;
        let running = !self.plans.is_empty() || !self.running.is_empty();
        if self.meta.cache.dirty_versions() > 0 || running {
            return Err(Refused::Busy.into());
        }
        self.meta.collapse = !policy.ordered();
        self.policy = policy;
        Ok(())
    }

    /// Capabilities of the device below.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// True when nothing may be changed.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Sequences as this filesystem knows them.
    pub fn seqs(&self) -> SeqState {
        self.marks
    }

    /// Counters.
    pub fn stats(&self) -> FsStats {
        FsStats {
            cache_hits: self.meta.cache.hits,
            cache_misses: self.meta.cache.misses,
            index_bytes: self.meta.indexes.bytes as u64,
            index_builds: self.meta.indexes.built,
            memo_bytes: self.meta.memo.bytes() as u64,
            run_bytes: self.meta.runs.bytes() as u64,
            dirty_bytes: self.data.dirty_bytes(),
            dirty_blocks: self.meta.cache.dirty_versions() as u64,
            ..self.stats.clone()
        }
    }

    /// Takes what happened that a person should hear of.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Changes whenever a step completed: a host that met `Busy` waits for it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of memory held by the caches: (metadata, data).
    pub fn memory(&self) -> (usize, u64) {
        (self.meta.cache.used(), self.data.used())
    }

    /// The most that the caches of metadata hold while not more is dirty or pinned.
    pub fn cache_sizes(&self) -> CacheSizes {
        CacheSizes { blocks: self.meta.cache.budget(), index: self.meta.indexes.budget }
    }

    /// True when something is dirty.
    pub fn is_dirty(&self) -> bool {
        self.data.dirty_bytes() > 0 || self.meta.cache.dirty_versions() > 0
    }

    /// Number of open handles.
    pub fn open_handles(&self) -> usize {
        self.nodes.open_handles()
    }

    /// Drops everything clean from the caches, as if the volume had just been mounted.
    pub fn drop_clean(&mut self) {
        self.meta.cache.drop_clean();
        self.meta.indexes.clear();
        self.meta.runs.clear();
        self.data.drop_clean();
    }

    /// Files that are open for writing.
    pub fn files_being_written(&self) -> usize {
        self.nodes.writers()
    }

    /// Stops changes: `Busy` while a handle is open for writing (unless forced).
    ///
    /// # Errors
    /// `Busy`.
    pub fn set_read_only(&mut self, force: bool) -> Result<(), FsError> {
        if !force && self.nodes.any_writer() {
            return Err(Refused::Busy.into());
        }
        self.read_only = true;
        Ok(())
    }

    /// Registers what an attempt needs with its ticket. The driver calls it for every
    /// [`Fault::Need`], then fetches the extents that it returns.
    ///
    /// # Errors
    /// `Bug` when the attempt asked only for what its ticket already holds.
    pub fn admit(&mut self, ticket: &mut Ticket, need: &[Extent]) -> Result<(), FsError> {
        self.stats.restarts = self.stats.restarts.saturating_add(1);
        ticket.admit(need)?;
        for e in need {
            for b in e.start..e.start.saturating_add(e.len) {
                self.meta.cache.pin(b);
            }
            ticket.pins.push(*e);
        }
        Ok(())
    }

    /// Ends a ticket: what it pinned may be evicted again.
    pub fn release(&mut self, ticket: &mut Ticket) {
        for e in core::mem::take(&mut ticket.pins) {
            for b in e.start..e.start.saturating_add(e.len) {
                self.meta.cache.unpin(b);
            }
        }
        ticket.pinned.clear();
    }

    /// A look without changes.
    pub(crate) fn look<T>(
        &mut self,
        ctx: &Ctx,
        ticket: &mut Ticket,
        f: impl FnOnce(&F, &mut Tx<'_>) -> Attempt<T>,
    ) -> Attempt<T> {
        let mut tx = self.meta.tx(ticket, ctx);
        f(&self.format, &mut tx)
    }

    /// What every change checks first.
    pub(crate) fn writable(&mut self) -> Attempt<()> {
        if self.read_only {
            return Err(Refused::ReadOnly.into());
        }
        if !self.marked_dirty {
            return Err(Fault::Wait(Wait::DirtyMark));
        }
        if self.meta.cache.over_dirty() || self.too_many_epochs() {
            return Err(Fault::Wait(Wait::Room));
        }
        Ok(())
    }

    /// Takes `len` bytes of file data into the cache, or has the writer wait: the limit is the
    /// policy's, and a write that is larger than most of it waits until little is left.
    pub(crate) fn admit_data(&mut self, len: u64) -> Attempt<()> {
        let limit = self.policy.flusher.limit;
        let need = len.min(limit.saturating_sub(limit / 4));
        let dirty = self.data.dirty_bytes();
        if dirty > 0 && dirty.saturating_add(need) > limit {
            self.walkers.room_wanted = self.walkers.room_wanted.max(need);
            return Err(Fault::Wait(Wait::Throttle));
        }
        self.walkers.room_wanted = 0;
        Ok(())
    }

    /// The host had a writer wait for room this long.
    pub fn note_throttled(&mut self, ms: u64) {
        let w = &mut self.stats.writeback;
        w.throttled = w.throttled.saturating_add(1);
        w.throttled_ms = w.throttled_ms.saturating_add(ms);
    }

    /// The flusher's last pass took this long.
    pub fn note_pass(&mut self, ms: u64) {
        self.stats.writeback.last_pass_ms = ms;
    }

    pub(crate) fn too_many_epochs(&self) -> bool {
        self.policy.ordered() && self.meta.cache.epochs.count() > crate::OPEN_EPOCHS_MAX
    }

    /// A change: runs `f` in a transaction and commits it.
    pub(crate) fn change<T>(
        &mut self,
        ctx: &Ctx,
        ticket: &mut Ticket,
        site: Site,
        f: impl FnOnce(&F, &mut Tx<'_>) -> Attempt<T>,
    ) -> Attempt<Done<T>> {
        self.change_nodes(ctx, ticket, site, |format, tx, _| f(format, tx))
    }

    /// As [`Fs::change`], for operations that must know what is open.
    pub(crate) fn change_nodes<T>(
        &mut self,
        ctx: &Ctx,
        ticket: &mut Ticket,
        site: Site,
        f: impl FnOnce(&F, &mut Tx<'_>, &Nodes) -> Attempt<T>,
    ) -> Attempt<Done<T>> {
        self.writable()?;
        let mut tx = self.meta.tx(ticket, ctx);
        let value = f(&self.format, &mut tx, &self.nodes)?;
        let staged = tx.stage();
        let after = self.commit(staged, site);
        Ok(Done { value, after, more: false })
    }

    /// Clears the volume's clean mark before the first change. Run by the driver on
    /// [`Wait::DirtyMark`].
    pub fn mark_dirty(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<()>> {
        if self.read_only {
            return Err(Refused::ReadOnly.into());
        }
        if self.marked_dirty {
            return Ok(Done::plain(()));
        }
        let mut done = self.set_clean(ctx, ticket, false)?;
        self.marked_dirty = true;
        if self.policy.ordered()
            && let Some(a) = &mut done.after
        {
            // Whatever else changes must not reach the disk before the mark.
            self.meta.cache.epochs.close(a.upto);
        }
        Ok(done)
    }

    /// Sets the clean mark, after everything else was written. A no-op when nothing was changed.
    pub fn mark_clean(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<()>> {
        if !self.marked_dirty || !self.format.was_clean() {
            return Ok(Done::plain(()));
        }
        if self.is_dirty() {
            return Err(Refused::Busy.into());
        }
        let done = self.set_clean(ctx, ticket, true)?;
        self.marked_dirty = false;
        Ok(done)
    }

    /// Follows an operation that met damage: the volume is marked, once, and under
    /// [`OnError::ReadOnly`] no more changes are made. A volume that is read-only stays untouched.
    pub fn note_damage(
        &mut self,
        ctx: &Ctx,
        what: &FsError,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        if self.marked_damaged || self.read_only {
            return Ok(Done::plain(()));
        }
        let mut tx = self.meta.tx(ticket, ctx);
        self.format.set_damaged(&mut tx)?;
        let staged = tx.stage();
        let (upto, sites) = self.apply(staged);
        self.marked_damaged = true;
        if self.policy.on_error == OnError::ReadOnly {
            self.go_read_only(what.to_string());
        } else {
            self.push_event(Event::Warning { site: Site::Hypermetadata, what: what.to_string() });
        }
        let after = After { upto, sites, hyper: true, ..After::default() };
        Ok(Done { value: (), after: Some(after), more: false })
    }

    fn set_clean(&mut self, ctx: &Ctx, ticket: &mut Ticket, clean: bool) -> Attempt<Done<()>> {
        let mut tx = self.meta.tx(ticket, ctx);
        self.format.set_clean(&mut tx, clean)?;
        let staged = tx.stage();
        let (upto, sites) = self.apply(staged);
        let after = After { upto, sites, hyper: true, ..After::default() };
        Ok(Done { value: (), after: Some(after), more: false })
    }

    pub(crate) fn warn_once(&mut self, site: Site, what: String) {
        if !self.warned.contains(site) {
            self.warned.insert(site);
            self.push_event(Event::Warning { site, what });
        }
    }

    pub(crate) fn push_event(&mut self, e: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(e);
    }

    pub(crate) fn go_read_only(&mut self, why: String) {
        if !self.read_only {
            self.read_only = true;
            self.push_event(Event::ReadOnly { why });
        }
    }

    pub(crate) fn reuse_waits(&self) -> bool {
        self.policy.reuse == Reuse::AfterBarrier
    }
}
