//! A transaction and reservation windows. See [`crate::windows`].

use crate::{Extent, Ino, Tx};

impl Tx<'_> {
    /// What this transaction allocates from now on is for an open file's data: it may have a
    /// window,
    /// and passes over those of others.
    pub(crate) fn allocate_for(&mut self, ino: Ino) {
        self.writer = Some(ino);
    }

    /// The open file that this transaction allocates for.
    pub fn writer(&self) -> Option<Ino> {
        self.writer
    }

    /// From now on windows of others are not passed over: nothing else is left.
    pub fn ignore_windows(&mut self) {
        self.any_window = true;
    }

    /// The writer's window, and how many blocks its last one had at first.
    pub fn window(&self) -> (Option<Extent>, u64) {
        let Some(ino) = self.writer else { return (None, 0) };
        let new = self.effects.windows.iter().rev().find(|w| w.0 == ino);
        new.map_or_else(|| self.windows.get(ino), |w| (w.1.filter(|r| r.len > 0), w.2))
    }

    /// Sets the writer's window, which had `size` blocks at first. An empty one keeps the size in
    /// mind.
    pub fn set_window(&mut self, run: Extent, size: u64) {
        if let Some(ino) = self.writer {
            self.effects.windows.push((ino, Some(run), size));
        }
    }

    /// A file was cut, or is gone: its window goes.
    pub fn drop_window(&mut self, ino: Ino) {
        self.effects.windows.push((ino, None, 0));
    }

    /// First block of `from..to` that is kept for another file.
    pub fn first_foreign(&self, from: u64, to: u64) -> Option<u64> {
        if self.any_window {
            return None;
        }
        self.windows.first_foreign(from, to, self.writer.unwrap_or_default())
    }

    pub(crate) fn foreign_end(&self, block: u64) -> Option<u64> {
        if self.any_window {
            return None;
        }
        self.windows.foreign_end(block, self.writer.unwrap_or_default())
    }

    /// `blocks` were given to a file; `starts` when they do not continue the ones before.
    pub fn note_run(&mut self, blocks: u64, starts: bool) {
        self.effects.file_blocks = self.effects.file_blocks.saturating_add(blocks);
        self.effects.file_runs = self.effects.file_runs.saturating_add(u64::from(starts));
    }
}
