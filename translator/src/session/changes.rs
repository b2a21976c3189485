//! What requests changed, for caches of the same engine that would not hear of it: a mount's
//! kernel.
//!
//! More may be named than changed, never less: an operation that failed is named too, since it may
//! have happened and only its durability failed. A host takes the list after each batch, when no
//! operation is under way in its thread, and before the batch is answered: whoever has an answer
//! finds it true on the mount.

use super::Session;
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, Ctx, Fault, Format, Fs, Ino, Ticket};

/// Something that is different now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// What a name leads to.
    Name {
        /// The directory.
        dir: Ino,
        /// The name.
        name: Vec<u8>,
    },
    /// Attributes.
    Attr(Ino),
    /// Content, and attributes.
    Data(Ino),
}

impl Session {
    /// Takes what was changed since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    pub(super) fn changed(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// A name was made, removed or moved, and with it its directory and perhaps a node.
    pub(super) fn changed_name(&mut self, dir: Ino, name: &[u8], node: Option<Ino>) {
        self.changed(Change::Name { dir, name: name.to_vec() });
        self.changed(Change::Attr(dir));
        if let Some(ino) = node {
            self.changed(Change::Attr(ino));
        }
    }
}

/// The node at a name that an operation is about to take away.
pub(super) fn target<F: Format>(
    fs: &mut Fs<F>,
    ctx: &Ctx,
    dir: Ino,
    name: &[u8],
    t: &mut Ticket,
) -> Attempt<Option<Ino>> {
    match fs.lookup(ctx, dir, name, t) {
        Ok(done) => Ok(Some(done.value.ino)),
        // The operation says it better.
        Err(Fault::Err(_)) => Ok(None),
        Err(again) => Err(again),
    }
}
