//! Reservation windows: free runs that allocators keep for one open file each, so that files which
//! grow side by side stay contiguous.
//!
//! A window is memory only and a wish: no block in it is taken, it goes with the file's last close,
//! and an allocator that finds nothing else takes from other files' windows before it says ENOSPC.

use crate::hash::HashMap;
use crate::{Extent, Ino};
use alloc::collections::BTreeMap;

/// Most windows kept; a file beyond that does without.
const WINDOWS_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    run: Option<Extent>,
    /// Blocks of the run when it was reserved.
    size: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Windows {
    files: HashMap<Ino, Window>,
    /// By first block: end and owner. Windows do not overlap.
    runs: BTreeMap<u64, (u64, Ino)>,
}

fn end(r: Extent) -> u64 {
    r.start.saturating_add(r.len)
}

impl Windows {
    /// The file's window, and the size of its last one.
    pub(crate) fn get(&self, ino: Ino) -> (Option<Extent>, u64) {
        self.files.get(&ino).map_or((None, 0), |w| (w.run, w.size))
    }

    /// Replaces the file's window. `size` is what was reserved at first.
    pub(crate) fn set(&mut self, ino: Ino, run: Extent, size: u64) {
        self.unlist(ino);
        let free = run.len > 0 && self.first_foreign(run.start, end(run), ino).is_none();
        if self.files.len() >= WINDOWS_MAX && !self.files.contains_key(&ino) {
            return;
        }
        self.files.insert(ino, Window { run: free.then_some(run), size });
        if free {
            self.runs.insert(run.start, (end(run), ino));
        }
    }

    fn unlist(&mut self, ino: Ino) {
        if let Some(run) = self.files.get_mut(&ino).and_then(|w| w.run.take()) {
            self.runs.remove(&run.start);
        }
    }

    pub(crate) fn release(&mut self, ino: Ino) {
        if self.files.is_empty() {
            return;
        }
        self.unlist(ino);
        self.files.remove(&ino);
    }

    /// End of another file's window that covers the block.
    pub(crate) fn foreign_end(&self, block: u64, ino: Ino) -> Option<u64> {
        let (_, (end, owner)) = self.runs.range(..=block).next_back()?;
        (*owner != ino && *end > block).then_some(*end)
    }

    /// First block of `from..to` that is in another file's window.
    pub(crate) fn first_foreign(&self, from: u64, to: u64, ino: Ino) -> Option<u64> {
        if from < to && self.foreign_end(from, ino).is_some() {
            return Some(from);
        }
        let mut later = self.runs.range(from..to.max(from));
        later.find(|(_, (_, owner))| *owner != ino).map(|(start, _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, len: u64) -> Extent {
        Extent { start, len }
    }

    #[test]
    fn others_are_kept_out() {
        let (a, b) = (Ino(11), Ino(12));
        let mut w = Windows::default();
        w.set(a, run(100, 50), 50);
        w.set(b, run(200, 10), 10);
        assert_eq!((w.foreign_end(120, b), w.foreign_end(120, a)), (Some(150), None));
        assert_eq!(w.foreign_end(150, b), None);
        assert_eq!(
            (w.first_foreign(0, 300, b), w.first_foreign(0, 300, a)),
            (Some(100), Some(200))
        );
        assert_eq!(w.first_foreign(0, 100, b), None);
        w.set(b, run(140, 20), 20);
        assert_eq!(w.get(b), (None, 20), "one that overlaps is none");
        w.set(a, run(140, 10), 50);
        assert_eq!((w.get(a), w.foreign_end(120, b)), ((Some(run(140, 10)), 50), None));
        w.release(a);
        assert_eq!((w.get(a), w.first_foreign(0, 900, b)), ((None, 0), None));
    }
}
