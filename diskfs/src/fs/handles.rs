//! Handles, and inodes whose last name is gone.

use crate::fs::{Done, Fs};
use crate::nodes::Open;
use crate::{Attempt, Ctx, Format, FsError, Handle, Ino, OpenFlags, Policy, Refused, Site, Ticket};
use alloc::sync::Arc;

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

    /// Puts a policy of its own on a handle.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn set_handle_policy(&mut self, h: Handle, p: Arc<Policy>) -> Result<(), FsError> {
        let o = self.nodes.handle_mut(h).ok_or(FsError::Refused(Refused::BadHandle))?;
        o.policy = Some(p);
        Ok(())
    }

    /// Forgets a handle. Run `PlanReq::Close` first where a close is meant; this has no result.
    pub fn clunk(&mut self, h: Handle) {
        let Some(ino) = self.nodes.close(h) else { return };
        if self.nodes.get(ino).is_some_and(|n| n.orphan && n.handles == 0) {
            self.orphans.insert(ino);
        }
    }

    /// The next inode that has neither names nor handles; the driver frees it with `reap`.
    pub fn next_orphan(&mut self) -> Option<Ino> {
        self.orphans.pop_first()
    }

    /// Puts an orphan back that could not be freed now.
    pub fn keep_orphan(&mut self, ino: Ino) {
        self.orphans.insert(ino);
    }

    /// One step of freeing an orphan: its blocks from the end, then the inode.
    pub fn reap(&mut self, ctx: &Ctx, ino: Ino, ticket: &mut Ticket) -> Attempt<Done<()>> {
        let done = self.change(ctx, ticket, Site::NameOp, |f, tx| {
            if f.attr(tx, ino)?.nlink > 0 {
                return Ok(false);
            }
            if f.truncate_step(tx, ino, 0)? {
                return Ok(true);
            }
            f.free_inode(tx, ino)?;
            Ok(false)
        })?;
        self.data.truncate(ino, 0);
        Ok(Done { value: (), after: done.after, more: done.value })
    }
}
