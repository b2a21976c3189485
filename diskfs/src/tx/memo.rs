//! A transaction, what the format remembers, and where files' runs are. See [`crate::memo`] and
//! [`crate::runs`].

use crate::memo::Words;
use crate::runs::Run;
use crate::{Ino, Tx};

impl Tx<'_> {
    /// A remembered value, as this transaction sees it.
    pub fn memo(&self, space: u8, key: u64) -> Option<Words> {
        let new = match self.effects.memo.is_empty() {
            true => None,
            false => self.effects.memo.get(&(space, key)),
        };
        new.copied().unwrap_or_else(|| self.memo.get((space, key)))
    }

    /// Remembers a value, or forgets it, if the transaction commits.
    pub fn set_memo(&mut self, space: u8, key: u64, value: Option<Words>) {
        self.effects.memo.insert((space, key), value);
    }

    /// Remembers what was read from the volume: at once, unless this transaction has changed
    /// something and may not see the volume as it is.
    pub fn learn(&mut self, space: u8, key: u64, value: Words) {
        if self.is_unchanged() && !self.effects.memo.contains_key(&(space, key)) {
            self.memo.set((space, key), Some(value));
        } else {
            self.set_memo(space, key, Some(value));
        }
    }

    fn is_unchanged(&self) -> bool {
        self.overlay.is_empty() && self.effects.freed.is_empty()
    }

    /// The known run of a file that begins at or before its unit `at`, nearest to it.
    pub fn run_at(&mut self, ino: Ino, at: u64) -> Option<Run> {
        self.runs.at(ino, at)
    }

    /// True when a known run of the file covers the unit `disk` of the volume.
    pub fn run_holds(&self, ino: Ino, disk: u64) -> bool {
        self.runs.holds(ino, disk)
    }

    /// First place above `disk` at which a known run of the file begins.
    pub fn run_next_place(&self, ino: Ino, disk: u64) -> Option<u64> {
        self.runs.next_place(ino, disk)
    }

    /// Notes the run that follows those that are known. Does nothing once the transaction has
    /// changed something.
    pub fn learn_run(&mut self, ino: Ino, run: Run) {
        if self.is_unchanged() {
            self.runs.learn(ino, run);
        }
    }

    /// Forgets where the file's units from `from` on are. To be called before they change.
    pub fn forget_runs(&mut self, ino: Ino, from: u64) {
        self.runs.forget(ino, from);
    }
}
