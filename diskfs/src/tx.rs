//! One operation's view of the metadata: reads through the cache, writes into an overlay.
//!
//! Nothing that a transaction changes is visible, or can reach the disk, before it commits as a
//! whole. An error drops the overlay, so a rename that meets ENOSPC or a read error half way has
//! not happened. The overlay is also exactly the set of blocks that a journal would take.

use crate::cache::{BlockCache, merge_bits};
use crate::dirindex::{DirIndexes, IndexOp};
use crate::epoch::Stage;
use crate::flags::FL_SYNC;
use crate::hash::HashMap;
use crate::memo::{Key, Memo, Words};
use crate::pending::Pending;
use crate::runs::RunCache;
use crate::ticket::{Resume, Ticket};
use crate::windows::Windows;
use crate::{Attempt, Attr, Ctx, Extent, Fault, FsError, Ino, Site, SiteSet, Timestamp};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;

mod index;
mod memo;
mod windows;

/// What a change is, said at every [`Tx::modify`].
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Policy site.
    pub site: Site,
    /// Place in the order on disk.
    pub stage: Stage,
    /// The inode whose fsync must cover this block: its inode block, an indirect block, a
    /// directory's own block. `None` for bitmaps and counts.
    pub owner: Option<Ino>,
}

pub(crate) struct OverlayBlock {
    /// Content before this transaction; `None` for a block that it allocated.
    pub(crate) base: Option<Arc<PageBuf>>,
    /// In the order of the changes. With a policy that orders nothing there is one.
    pub(crate) versions: Vec<(Stage, Arc<PageBuf>)>,
    pub(crate) site: Site,
    pub(crate) owners: Vec<Ino>,
}

impl OverlayBlock {
    /// Content before version `i`; `None` before the first of an allocated block.
    pub(crate) fn before(&self, i: usize) -> Option<&Arc<PageBuf>> {
        match i.checked_sub(1) {
            Some(i) => self.versions.get(i).map(|(_, b)| b),
            None => self.base.as_ref(),
        }
    }

    pub(crate) fn has_any_before(&self, i: usize) -> bool {
        self.versions.iter().take(i).any(|(s, _)| *s == Stage::Any)
    }

    /// Version `i` with the `Init` changes that came after it.
    pub(crate) fn complete(&self, i: usize) -> Option<Arc<PageBuf>> {
        let mut buf = self.versions.get(i).map(|(_, b)| b.clone())?;
        for (j, (stage, new)) in self.versions.iter().enumerate().skip(i.saturating_add(1)) {
            if *stage == Stage::Init
                && let Some(old) = self.before(j)
            {
                let dst: &mut PageBuf = Arc::make_mut(&mut buf);
                merge_bits(dst, old, new);
            }
        }
        Some(buf)
    }
}

/// What a transaction did beside changing blocks.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) freed: Vec<Extent>,
    pub(crate) freed_inodes: Vec<Ino>,
    pub(crate) frees_of: Vec<Ino>,
    pub(crate) fresh: Vec<Ino>,
    pub(crate) touched: Vec<Ino>,
    pub(crate) named: Vec<(Ino, Ino)>,
    pub(crate) changed_dirs: Vec<Ino>,
    pub(crate) hints: Vec<(u64, u64)>,
    pub(crate) index: Vec<(Ino, IndexOp)>,
    pub(crate) sites: SiteSet,
    pub(crate) new_indirect: u32,
    /// What changes has the mark `S` or `D`: it is durable when the operation returns.
    pub(crate) sync: bool,
    pub(crate) windows: Vec<(Ino, Option<Extent>, u64)>,
    pub(crate) file_blocks: u64,
    pub(crate) file_runs: u64,
    pub(crate) memo: BTreeMap<Key, Option<Words>>,
}

/// What a finished transaction hands to commit.
pub(crate) struct Staged {
    pub(crate) overlay: BTreeMap<u64, OverlayBlock>,
    pub(crate) effects: Effects,
}

impl Staged {
    /// True when nothing was changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.overlay.is_empty() && self.effects.freed.is_empty()
    }
}

/// A transaction. Engines get it in every [`Format`](crate::Format) call.
pub struct Tx<'a> {
    pub(crate) cache: &'a mut BlockCache,
    pub(crate) ticket: &'a mut Ticket,
    pub(crate) pending: &'a Pending,
    pub(crate) indexes: &'a mut DirIndexes,
    pub(crate) windows: &'a Windows,
    pub(crate) memo: &'a mut Memo,
    pub(crate) runs: &'a mut RunCache,
    pub(crate) writer: Option<Ino>,
    pub(crate) any_window: bool,
    pub(crate) hints: &'a HashMap<u64, u64>,
    pub(crate) dir_changes: &'a HashMap<Ino, u64>,
    pub(crate) change_floor: u64,
    pub(crate) overlay: BTreeMap<u64, OverlayBlock>,
    pub(crate) effects: Effects,
    pub(crate) now: Timestamp,
    pub(crate) ctx: &'a Ctx,
    /// Access lists count.
    pub(crate) acl: bool,
    pub(crate) block_size: usize,
    pub(crate) blocks: u64,
    /// Policy has no order: one version per block is enough.
    pub(crate) collapse: bool,
    pub(crate) saw_pending: bool,
}

impl Tx<'_> {
    pub(crate) fn stage(self) -> Staged {
        Staged { overlay: self.overlay, effects: self.effects }
    }

    /// A data block's old content, for changing a part of it. It never enters the block cache.
    pub(crate) fn fill(&mut self, block: u64) -> Attempt<Arc<PageBuf>> {
        self.in_range(block, "file data")?;
        match self.ticket.pinned.get(&block) {
            Some(Ok(buf)) => Ok(buf.clone()),
            Some(Err(e)) => Err(Fault::Err(FsError::Io(*e))),
            None => Err(Fault::Need(vec![Extent { start: block, len: 1 }])),
        }
    }

    /// The operation's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether the caller is user 0, this user, or (unless that is 0) in this group: who may use
    /// space that a volume keeps in reserve.
    pub fn caller_is(&self, uid: u32, gid: u32) -> bool {
        let (user, group, more) = match &self.ctx.cred {
            Some(c) => (c.uid, c.gid, c.groups.as_slice()),
            None => (self.ctx.owner.0, self.ctx.owner.1, [].as_slice()),
        };
        user == 0 || user == uid || (gid != 0 && (group == gid || more.contains(&gid)))
    }

    /// A node that changes: with the flag `S` the change is durable when the operation returns.
    pub(crate) fn waits_for(&mut self, attr: &Attr) {
        self.effects.sync |= attr.flags & FL_SYNC != 0;
    }

    /// Bytes of a filesystem block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    fn in_range(&self, block: u64, what: &'static str) -> Result<(), FsError> {
        if block < self.blocks {
            return Ok(());
        }
        Err(FsError::corrupt(what, block, "block number outside the volume"))
    }

    /// A metadata block as this transaction sees it. `what` names the on-disk thing in errors.
    pub fn read(&mut self, block: u64, what: &'static str) -> Attempt<BlockRef> {
        self.read_run(block, 1, what)
    }

    /// As [`Tx::read`], knowing that the `run` blocks from `block` on will be wanted next: a miss
    /// asks for as many of them as the read-ahead window allows.
    pub fn read_run(&mut self, block: u64, run: u64, what: &'static str) -> Attempt<BlockRef> {
        self.in_range(block, what)?;
        if let Some((_, buf)) = self.overlay.get(&block).and_then(|o| o.versions.last()) {
            return Ok(BlockRef(buf.clone()));
        }
        if let Some(buf) = self.cache.get(block) {
            return Ok(BlockRef(buf));
        }
        match self.ticket.pinned.get(&block) {
            Some(Ok(buf)) => {
                let buf = buf.clone();
                self.cache.insert_clean(block, buf.clone());
                Ok(BlockRef(buf))
            }
            Some(Err(e)) => Err(Fault::Err(FsError::Io(*e))),
            None => Err(self.need(block, run)),
        }
    }

    /// As [`Tx::read_run`], for a look that keeps nothing: it does not pay for a share of the
    /// block.
    pub fn view(&mut self, block: u64, run: u64, what: &'static str) -> Attempt<&[u8]> {
        if !self.overlay.is_empty() && self.overlay.contains_key(&block) {
            let newest = self.overlay.get(&block).and_then(|o| o.versions.last());
            return newest.map(|(_, b)| &***b).ok_or(FsError::Bug("an empty overlay").into());
        }
        if !self.cache.has(block) {
            // What is neither there nor here comes from the ticket, which keeps it.
            self.read_run(block, run, what)?;
            let fetched = self.ticket.pinned.get(&block).and_then(|b| b.as_deref().ok());
            return fetched.map(|b| &**b).ok_or(FsError::Bug("a block left its ticket").into());
        }
        let buf = self.cache.look(block).map(|b| &**b);
        buf.ok_or(FsError::Bug("a block left the cache").into())
    }

    /// As [`Tx::view`], for something small that is read there.
    pub fn with<T>(
        &mut self,
        block: u64,
        run: u64,
        what: &'static str,
        f: impl FnOnce(&[u8]) -> Result<T, FsError>,
    ) -> Attempt<T> {
        let changed = !self.overlay.is_empty() && self.overlay.contains_key(&block);
        if !changed && let Some(buf) = self.cache.look(block) {
            return Ok(f(buf)?);
        }
        let buf = self.read_run(block, run, what)?;
        Ok(f(&buf)?)
    }

    fn need(&mut self, block: u64, run: u64) -> Fault {
        let bs = self.block_size as u64;
        let window = self.ticket.grow_window(bs) / bs.max(1);
        let most = run.clamp(1, window.max(1)).min(self.blocks.saturating_sub(block));
        let mut len = 0u64;
        while len < most {
            let b = block.saturating_add(len);
            let here = self.cache.peek(b).is_some_and(|e| e.cur.is_some());
            if len > 0 && (here || self.ticket.pinned.contains_key(&b)) {
                break;
            }
            len = len.saturating_add(1);
        }
        Fault::Need(vec![Extent { start: block, len: len.max(1) }])
    }

    /// The block for changing. The first change copies it into the overlay.
    pub fn modify(
        &mut self,
        block: u64,
        what: &'static str,
        change: Change,
    ) -> Attempt<&mut PageBuf> {
        if !self.overlay.contains_key(&block) {
            let buf = self.read(block, what)?;
            self.stage_block(block, change, Some(buf.0.clone()), buf.0);
        }
        Ok(self.overlay_mut(block, change)?)
    }

    /// A block that this operation allocated, zeroed; its old content is not read.
    pub fn create_block(
        &mut self,
        block: u64,
        what: &'static str,
        change: Change,
    ) -> Attempt<&mut PageBuf> {
        self.in_range(block, what)?;
        self.overlay.remove(&block);
        self.stage_block(block, change, None, Arc::new(PageBuf::zeroed(self.block_size)));
        Ok(self.overlay_mut(block, change)?)
    }

    fn stage_block(
        &mut self,
        block: u64,
        change: Change,
        base: Option<Arc<PageBuf>>,
        buf: Arc<PageBuf>,
    ) {
        let versions = vec![(change.stage, buf)];
        let o = OverlayBlock { base, versions, site: change.site, owners: Vec::new() };
        self.overlay.insert(block, o);
    }

    /// A change at another stage than the block's newest gets a version of its own: a later one so
    /// that the earlier bytes can be durable first, `Any` and `Init` so that what may be merged
    /// into other versions is known by itself. Otherwise a change at an earlier stage joins the
    /// newest.
    fn overlay_mut(&mut self, block: u64, change: Change) -> Result<&mut PageBuf, FsError> {
        self.effects.sites.insert(change.site);
        let collapse = self.collapse;
        let o = self.overlay.get_mut(&block).ok_or(FsError::Bug("overlay lost a block"))?;
        o.site = change.site;
        if let Some(ino) = change.owner
            && !o.owners.contains(&ino)
        {
            o.owners.push(ino);
        }
        let (newest, buf) =
            o.versions.last().ok_or(FsError::Bug("overlay block without a version"))?;
        let apart = change.stage > *newest
            || (change.stage == Stage::Any && *newest == Stage::Init)
            || (change.stage == Stage::Init && *newest != Stage::Init);
        if apart && !collapse {
            let copy = buf.clone();
            o.versions.push((change.stage, copy));
        }
        let v = o.versions.last_mut().ok_or(FsError::Bug("overlay block without a version"))?;
        if Arc::get_mut(&mut v.1).is_none() {
            v.1 = self.cache.copy(&v.1);
        }
        Arc::get_mut(&mut v.1).ok_or(FsError::Bug("a block's copy is shared"))
    }

    /// Gives blocks back. They become allocatable when the policy says it is safe; their metadata
    /// content, if any, is forgotten. The caller clears the bitmap in the same transaction.
    pub fn free_blocks(&mut self, run: Extent) {
        for b in run.start..run.start.saturating_add(run.len) {
            self.overlay.remove(&b);
        }
        self.effects.freed.push(run);
    }

    /// What this transaction does at [`Stage::Free`] takes storage from an inode: it is durable
    /// after everything that was noted for the inode before ([`Tx::touch`]), such as the removal of
    /// its name by an earlier transaction. For formats that note nothing in the inode itself when
    /// they free its storage.
    pub fn frees_of(&mut self, ino: Ino) {
        if !self.effects.frees_of.contains(&ino) {
            self.effects.frees_of.push(ino);
        }
    }

    /// Gives an inode number back.
    pub fn free_inode(&mut self, ino: Ino) {
        self.effects.freed_inodes.push(ino);
    }

    /// True when a block whose bitmap bit is clear may not be given out yet. Remembers that it was
    /// seen: see [`Tx::no_space`].
    pub fn is_pending_block(&mut self, block: u64) -> bool {
        self.pending_end(block).is_some()
    }

    /// As [`Tx::is_pending_block`], with the end of the pending run that covers the block: a search
    /// goes on there. Another file's window counts as pending.
    pub fn pending_end(&mut self, block: u64) -> Option<u64> {
        let end = |r: &Extent| r.start.saturating_add(r.len);
        let own = self.effects.freed.iter().find(|r| block >= r.start && block < end(r));
        let held = own.map(end).or_else(|| self.pending.run_end(block));
        self.saw_pending |= held.is_some();
        held.or_else(|| self.foreign_end(block))
    }

    /// How many blocks of `run` come before the first one that is pending, or in another file's
    /// window.
    pub fn before_pending(&mut self, run: Extent) -> u64 {
        let to = run.start.saturating_add(run.len);
        let own = self.effects.freed.iter().filter_map(|r| {
            let first = r.start.max(run.start);
            (first < to && first < r.start.saturating_add(r.len)).then_some(first)
        });
        let first = own.chain(self.pending.next_block(run.start, to)).min();
        self.saw_pending |= first.is_some();
        let to = first.unwrap_or(to);
        self.first_foreign(run.start, to).unwrap_or(to).saturating_sub(run.start)
    }

    /// As [`Tx::is_pending_block`], for inode numbers.
    pub fn is_pending_inode(&mut self, ino: Ino) -> bool {
        let held = self.effects.freed_inodes.contains(&ino) || self.pending.has_inode(ino);
        self.saw_pending |= held;
        held
    }

    /// What an allocator that found nothing returns: wait for a barrier when pending space was
    /// seen, else ENOSPC.
    pub fn no_space(&self) -> Fault {
        if self.saw_pending && !self.pending.is_empty() {
            return Fault::Wait(crate::Wait::Barrier);
        }
        crate::Refused::NoSpace.into()
    }

    /// The inode's fsync must cover this transaction.
    pub fn touch(&mut self, ino: Ino) {
        if !self.effects.touched.contains(&ino) {
            self.effects.touched.push(ino);
        }
    }

    /// `ino` got a name in `dir`: its fsync covers the name, and the directory's own.
    pub fn named(&mut self, dir: Ino, ino: Ino) {
        self.effects.named.push((dir, ino));
    }

    /// The directory's entries changed: positions of scans under way are void.
    pub fn dir_changed(&mut self, dir: Ino) {
        if !self.effects.changed_dirs.contains(&dir) {
            self.effects.changed_dirs.push(dir);
        }
    }

    /// A new indirect block's pointer was written (site `indirect`).
    pub fn new_indirect(&mut self) {
        self.effects.new_indirect = self.effects.new_indirect.saturating_add(1);
    }

    /// A number that the engine keeps in memory between operations (where allocation went on, and
    /// the like). Results must be right whatever it is.
    pub fn hint(&self, key: u64) -> Option<u64> {
        let new = self.effects.hints.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| *v);
        new.or_else(|| self.hints.get(&key).copied())
    }

    /// Sets a hint; it is kept only if the transaction commits.
    pub fn set_hint(&mut self, key: u64, value: u64) {
        self.effects.hints.push((key, value));
    }

    /// Where a long scan of `ino` went on in an earlier attempt of this operation, if nothing
    /// changed since. 0 at first.
    pub fn resume(&self, ino: Ino) -> u64 {
        let change = self.dir_changes.get(&ino).copied().unwrap_or(self.change_floor);
        match self.ticket.resume {
            Some(r) if r.ino == ino && r.change == change => r.pos,
            _ => 0,
        }
    }

    /// Remembers a scan's position across attempts.
    pub fn set_resume(&mut self, ino: Ino, pos: u64) {
        let change = self.dir_changes.get(&ino).copied().unwrap_or(self.change_floor);
        self.ticket.resume = Some(Resume { ino, change, pos });
    }
}

/// A read-only view of a block, cheap to clone.
#[derive(Clone, Debug)]
pub struct BlockRef(pub(crate) Arc<PageBuf>);

impl core::ops::Deref for BlockRef {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
