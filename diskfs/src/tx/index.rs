//! A transaction and the indexes of directories. See [`crate::dirindex`].
//!
//! A format's search asks [`Tx::index_ready`], or builds: [`Tx::index_begin`], a scan, and
//! [`Tx::index_install`]; when a block is missing, [`Tx::index_park`] keeps what was scanned for
//! the next attempt. Changes are announced as they are made, and reach the index at commit.

use crate::dirindex::{IndexBuild, IndexOp, lowest_above, own_places};
use crate::{Ino, Tx};

/// Memory for a name in an index, bytes: more than it takes at any load of the table.
const NAME_BYTES: u64 = 9;

impl Tx<'_> {
    fn dir_change(&self, dir: Ino) -> u64 {
        self.dir_changes.get(&dir).copied().unwrap_or(self.change_floor)
    }

    fn index_ops(&self, dir: Ino) -> bool {
        self.effects.index.iter().any(|(d, _)| *d == dir)
    }

    /// True when the directory has an index that this transaction may use.
    pub fn index_ready(&mut self, dir: Ino) -> bool {
        let silent = self.effects.changed_dirs.contains(&dir) && !self.index_ops(dir);
        !silent && self.indexes.touch(dir)
    }

    /// Begins an index of a directory of about `names` names, or goes on where an earlier attempt
    /// of this operation stopped. `None`: search without one.
    pub fn index_begin(&mut self, dir: Ino, names: u64) -> Option<IndexBuild> {
        let most = self.indexes.budget;
        let bytes = usize::try_from(names.saturating_mul(NAME_BYTES)).unwrap_or(usize::MAX);
        let changed = self.effects.changed_dirs.contains(&dir);
        if changed || bytes > most || self.ticket.no_index.contains(&dir) {
            return None;
        }
        let change = self.dir_change(dir);
        let parked = self.ticket.build.take_if(|b| b.dir == dir);
        let parked = parked.filter(|b| b.change == change);
        Some(parked.unwrap_or_else(|| IndexBuild::new(dir, change, most)))
    }

    /// Keeps a scan that met a missing block for the next attempt.
    pub fn index_park(&mut self, build: IndexBuild) {
        self.ticket.build = Some(build);
    }

    /// The scan is complete.
    pub fn index_install(&mut self, build: IndexBuild) {
        if build.change == self.dir_change(build.dir) {
            self.indexes.install(build);
        }
    }

    /// This operation searches the directory without an index: it is too large, or a block of it
    /// is bad, which only the search that gets there may say.
    pub fn index_refuse(&mut self, dir: Ino) {
        self.ticket.no_index.push(dir);
    }

    /// The index does not agree with the blocks: it goes, at once.
    pub fn index_drop(&mut self, dir: Ino) {
        self.indexes.remove(dir);
        self.ticket.no_index.push(dir);
    }

    /// The next place, in ascending order, where a name with this hash may stand.
    pub fn index_next(&self, dir: Ino, hash: u32, after: Option<u32>) -> Option<u32> {
        let committed = self.indexes.get(dir)?.places(hash);
        if self.effects.index.is_empty() {
            return lowest_above(committed, after);
        }
        let (added, gone) = own_places(&self.effects.index, dir, hash);
        let committed = committed.filter(|p| !gone.contains(p));
        lowest_above(committed.chain(added.iter().copied()), after)
    }

    /// First chunk at or after `from` with room for `units`, in an index that is ready. `None` also
    /// when this transaction changed the directory before.
    pub fn index_room(&self, dir: Ino, from: u64, units: u16) -> Option<Option<u64>> {
        if self.index_ops(dir) {
            return None;
        }
        self.indexes.get(dir).map(|i| i.room(from, units))
    }

    fn index_op(&mut self, dir: Ino, op: IndexOp) {
        if self.indexes.get(dir).is_some() {
            self.effects.index.push((dir, op));
        }
    }

    /// A name stands at `place` now.
    pub fn index_add(&mut self, dir: Ino, hash: u32, place: u32) {
        self.index_op(dir, IndexOp::Add(hash, place));
    }

    /// A name that stood at `place` is gone.
    pub fn index_remove(&mut self, dir: Ino, hash: u32, place: u32) {
        self.index_op(dir, IndexOp::Remove(hash, place));
    }

    /// At most `units` fit into the chunk now; the chunk behind the last one is new.
    pub fn index_set_room(&mut self, dir: Ino, chunk: u64, units: u16) {
        self.index_op(dir, IndexOp::Room(chunk, units));
    }

    /// The directory changed, but neither names nor places nor room.
    pub fn index_keep(&mut self, dir: Ino) {
        self.index_op(dir, IndexOp::Keep);
    }
}
