//! Handles, and inodes whose last name is gone.

use crate::fs::{Done, Fs};
use crate::nodes::Open;
use crate::policy::Action;
use crate::{
    Attempt, Ctx, Event, Extent, Fault, Format, FsError, Handle, Ino, OpenFlags, Policy, Refused,
    Site, Ticket,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use seawall_blockdev::DevError;

impl<F: Format> Fs<F> {
    pub(crate) fn handle(&self, h: Handle) -> Result<&Open, FsError> {
        self.nodes.handle(h).ok_or(FsError::Refused(Refused::BadHandle))
    }

    /// Inode and flags of a handle.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn handle_info(&self, h: Handle) -> Result<(Ino, OpenFlags), FsError> {
        self.handle(h).map(|o| (o.ino, o.flags))
    }

    /// The host keeps the place of this handle's appends: writes say where they go. That it was
    /// opened for appending has counted when it was opened. `deferred`: its own cache keeps written
    /// pages and sends them whole and later, through any handle, so that the flags of an
    /// append-only or immutable file count when it is opened only.
    pub fn host_keeps_place(&mut self, h: Handle, deferred: bool) {
        if let Some(o) = self.nodes.handle_mut(h) {
            o.flags.append = false;
            o.deferred = deferred;
        }
    }

    /// Puts a policy of its own on a handle.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn set_handle_policy(&mut self, h: Handle, p: Arc<Policy>) -> Result<(), FsError> {
        let o = self.nodes.handle_mut(h).ok_or(FsError::Refused(Refused::BadHandle))?;
        o.policy = Some(p);
        Ok(())
    }

    /// True when [`crate::PlanReq::Close`] of the handle would do more than tell its errors.
    pub fn close_acts(&self, h: Handle) -> bool {
        self.nodes.handle(h).is_some_and(|o| {
            let close = o.policy.as_deref().unwrap_or(&self.policy).close;
            o.dirty && (close.data > Action::None || close.inode > Action::None)
        })
    }

    /// Forgets a handle. Run `PlanReq::Close` first where a close is meant; this has no result.
    pub fn clunk(&mut self, h: Handle) {
        let Some(ino) = self.nodes.close(h) else { return };
        if !self.nodes.is_open(ino) {
            self.meta.windows.release(ino);
            // Storage reserved past the end goes with the last close.
            if self.nodes.get(ino).is_some_and(|n| n.listed && !n.orphan) {
                self.orphans.insert(ino);
            }
        }
        if self.nodes.unreachable(ino) {
            self.orphans.insert(ino);
        }
    }

    /// Keeps an inode from being freed when its last name and handle go: a host's cache refers to
    /// it by number (a kernel counts its look-ups). Call it in the attempt that found the inode, so
    /// that nothing can happen in between. Holds add up.
    pub fn hold(&mut self, ino: Ino) {
        self.nodes.hold(ino);
    }

    /// Takes back `count` holds. With the last one an inode without names and handles becomes the
    /// driver's to free.
    pub fn unhold(&mut self, ino: Ino, count: u64) {
        if self.nodes.unhold(ino, count) && self.nodes.unreachable(ino) {
            self.orphans.insert(ino);
        }
    }

    /// Takes back every hold: the cache that had them is gone.
    pub fn unhold_all(&mut self) {
        let mut free = self.nodes.unhold_all();
        self.orphans.append(&mut free);
    }

    /// Byte runs of the device to discard. The driver discards them and says so by
    /// [`Fs::discarded`]; until then nobody gets them.
    pub fn take_discards(&mut self) -> Vec<seawall_blockdev::Run> {
        let bs = u64::from(self.geo.block_size);
        let list = self.meta.pending.take_discards();
        let bytes = |r: Extent| seawall_blockdev::Run {
            start: r.start.saturating_mul(bs),
            len: r.len.saturating_mul(bs),
        };
        list.into_iter().map(bytes).collect()
    }

    /// A run was discarded. An error is a device that does not do that: no more are asked for.
    pub fn discarded(&mut self, run: seawall_blockdev::Run, result: Result<(), DevError>) {
        let bs = u64::from(self.geo.block_size).max(1);
        self.meta.pending.discarded(Extent { start: run.start / bs, len: run.len / bs });
        if let Err(e) = result {
            let what = alloc::format!("the store does not discard ({e}); freed space is not told");
            self.push_event(Event::Warning { site: Site::Bitmap, what });
            self.meta.pending.set_discard(false);
            self.meta.pending.release(self.meta.cache.epochs.durable);
        }
        self.stats.discarded_bytes = self.stats.discarded_bytes.saturating_add(run.len);
    }

    /// True when `next_orphan` would return an inode.
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// The next inode that has neither names nor handles; the driver frees it with `reap`.
    pub fn next_orphan(&mut self) -> Option<Ino> {
        self.orphans.pop_first()
    }

    /// Puts an orphan back that could not be freed now.
    pub fn keep_orphan(&mut self, ino: Ino) {
        self.orphans.insert(ino);
    }

    /// One step of freeing an orphan: its blocks from the end, then the inode. One that needs
    /// several steps is put on the volume's list in the first. An inode that is on the list and has
    /// names was being truncated when its writer died, or has storage past its end: what lies past
    /// its size goes, the inode stays.
    pub fn reap(&mut self, ctx: &Ctx, ino: Ino, ticket: &mut Ticket) -> Attempt<Done<()>> {
        let was_listed = self.nodes.get(ino).is_some_and(|n| n.listed);
        let done = self.change(ctx, ticket, Site::NameOp, |f, tx| {
            let a = f.attr(tx, ino)?;
            let named = a.nlink > 0;
            if named && !was_listed {
                return Ok((false, false, a.size));
            }
            let size = if named { a.size } else { 0 };
            if f.truncate_step(tx, ino, size)? {
                return Ok((true, was_listed || f.orphan_add(tx, ino)?, size));
            }
            if was_listed {
                f.orphan_remove(tx, ino)?;
            }
            if !named {
                f.free_inode(tx, ino)?;
            }
            Ok((false, false, size))
        })?;
        let (more, listed, size) = done.value;
        if let Some(n) = self.nodes.known(ino) {
            n.listed = listed;
            n.orphan &= more;
        }
        self.data.truncate(ino, size.div_ceil(u64::from(self.geo.block_size)));
        Ok(Done { value: (), after: done.after, more })
    }

    /// Takes over what the volume's last user left: inodes without links that were still open. The
    /// driver frees them after this operation. Run it once, right after mounting for writing; it
    /// does nothing on a read-only volume. Returns how many there are. A damaged list is left alone
    /// and reported as an [`Event::Warning`].
    pub fn recover(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<usize>> {
        if self.read_only {
            return Ok(Done::plain(0));
        }
        let list = match self.look(ctx, ticket, |f, tx| f.orphan_list(tx)) {
            Err(Fault::Err(e @ FsError::Corrupt(_))) => {
                let what = alloc::format!("inodes left without names are not freed: {e}");
                self.push_event(Event::Warning { site: Site::Hypermetadata, what });
                return Ok(Done::plain(0));
            }
            other => other?,
        };
        for ino in &list {
            let n = self.nodes.entry(*ino);
            n.orphan = true;
            n.listed = true;
            if !self.nodes.is_held(*ino) {
                self.orphans.insert(*ino);
            }
        }
        Ok(Done::plain(list.len()))
    }
}
