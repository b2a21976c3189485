//! What becomes of files whose content failed: none keeps a size at which it could be taken for
//! whole. One that `put` made goes away; one that was there, and lost its old content when it was
//! opened, ends where the first thing failed. Both are cut first, for the sake of further names.

use super::super::target::join;
use super::{Item, NOT_FINISHED, Putter, joined};
use crate::client::ClientError;
use seawall_diskfs::SetAttr;
use seawall_ipc::Status;
use std::format;

impl Putter<'_> {
    /// Cuts or removes the broken files. All replies are here.
    pub(super) fn undo(&mut self) -> Result<(), ClientError> {
        // What could not be opened is not ours to cut.
        for item in core::mem::take(&mut self.broken).into_iter().filter(|i| i.opened.get()) {
            match self.undo_one(&item) {
                Ok(()) => {}
                Err(ClientError::Op { status, words, .. }) => {
                    let why = if words.is_empty() { format!("{status}") } else { words };
                    let what = format!("{}: a part of it is left there: {why}", item.to);
                    self.report.refused(Some(status), what);
                }
                Err(gone) => return Err(gone),
            }
        }
        Ok(())
    }

    fn undo_one(&mut self, item: &Item) -> Result<(), ClientError> {
        let Some((name, folder)) = item.place.get().and_then(|p| p.split_last()) else {
            return Ok(());
        };
        let folder = joined(folder);
        let file = join(&folder, name);
        // A name that was there may be a symlink, which was followed; a new one is none.
        let found = match self.client.find(&file, !item.made.get()) {
            Ok(found) => found,
            Err(e) if e.is(Status::ENOENT) => return Ok(()),
            Err(e) => return Err(e),
        };
        let end = item.good.get().filter(|at| *at < found.attr.size && *at < NOT_FINISHED);
        let cut = match end {
            Some(_) => {
                let set = SetAttr { size: end, ..SetAttr::default() };
                self.client.setattr(found.fid, &set).map(|_| ())
            }
            None => Ok(()),
        };
        self.client.clunk(found.fid)?;
        if !item.made.get() {
            return cut;
        }
        let folder = self.client.find(&folder, true)?;
        let removed = self.client.unlink(folder.fid, name, false);
        self.client.clunk(folder.fid)?;
        removed
    }
}
