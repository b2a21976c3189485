//! Where runs of a file's storage are, as far as they were read: for formats that can only walk
//! from a file's start, so that a random read does not.
//!
//! It holds what the committed volume says and nothing else. A transaction that has changed
//! anything learns nothing, and one that cuts a file forgets first: forgetting too much is
//! harmless. Units are the format's (FAT: clusters).

use crate::Ino;
use crate::hash::HashMap;
use alloc::collections::{BTreeMap, VecDeque};

/// A run of a file's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First unit in the file.
    pub file: u64,
    /// Its place on the volume.
    pub disk: u64,
    /// Units.
    pub len: u64,
}

impl Run {
    /// Place of the file's unit `at`, when the run covers it.
    pub fn place(&self, at: u64) -> Option<u64> {
        let off = at.checked_sub(self.file).filter(|o| *o < self.len)?;
        self.disk.checked_add(off)
    }

    /// First unit of the file behind the run.
    pub fn end(&self) -> u64 {
        self.file.saturating_add(self.len)
    }
}

/// Bytes that a run costs: an entry in each of two maps.
const RUN_BYTES: usize = 96;

#[derive(Debug, Default)]
struct FileRuns {
    /// By unit in the file: place and length. Adjacent runs are joined.
    by_file: BTreeMap<u64, (u64, u64)>,
    /// By place: length.
    by_disk: BTreeMap<u64, u64>,
    used: bool,
}

#[derive(Debug)]
pub(crate) struct RunCache {
    files: HashMap<Ino, FileRuns>,
    order: VecDeque<Ino>,
    runs: usize,
    most: usize,
}

impl RunCache {
    pub(crate) fn new(budget: usize) -> Self {
        let most = budget / RUN_BYTES;
        Self { files: HashMap::default(), order: VecDeque::new(), runs: 0, most }
    }

    /// The known run that begins at or before the file's unit `at`, nearest to it.
    pub(crate) fn at(&mut self, ino: Ino, at: u64) -> Option<Run> {
        let f = self.files.get_mut(&ino)?;
        f.used = true;
        let (file, (disk, len)) = f.by_file.range(..=at).next_back()?;
        Some(Run { file: *file, disk: *disk, len: *len })
    }

    /// True when a known run of the file covers the unit `disk` of the volume.
    pub(crate) fn holds(&self, ino: Ino, disk: u64) -> bool {
        let f = self.files.get(&ino);
        let before = f.and_then(|f| f.by_disk.range(..=disk).next_back());
        before.is_some_and(|(start, len)| disk.saturating_sub(*start) < *len)
    }

    /// First place above `disk` at which a known run of the file begins.
    pub(crate) fn next_place(&self, ino: Ino, disk: u64) -> Option<u64> {
        let f = self.files.get(&ino)?;
        f.by_disk.range(disk.saturating_add(1)..).next().map(|(start, _)| *start)
    }

    pub(crate) fn learn(&mut self, ino: Ino, run: Run) {
        if run.len == 0 || !self.room(ino) {
            return;
        }
        if !self.files.contains_key(&ino) {
            self.order.push_back(ino);
        }
        let f = self.files.entry(ino).or_default();
        f.used = true;
        let last = f.by_file.last_key_value().map(|(k, v)| (*k, *v));
        let known = last.map_or(0, |(file, (_, len))| file.saturating_add(len));
        if run.file != known {
            // Only what follows is news.
            return;
        }
        if let Some((file, (disk, len))) = last
            && disk.checked_add(len) == Some(run.disk)
        {
            let len = len.saturating_add(run.len);
            f.by_file.insert(file, (disk, len));
            f.by_disk.insert(disk, len);
            return;
        }
        f.by_file.insert(run.file, (run.disk, run.len));
        f.by_disk.insert(run.disk, run.len);
        self.runs = self.runs.saturating_add(1);
    }

    /// Forgets what the file's units from `from` on are.
    pub(crate) fn forget(&mut self, ino: Ino, from: u64) {
        let Some(f) = self.files.get_mut(&ino) else { return };
        while let Some(last) = f.by_file.last_entry() {
            let (file, (disk, len)) = (*last.key(), *last.get());
            if file.saturating_add(len) <= from {
                break;
            }
            let keep = from.saturating_sub(file);
            if keep > 0 {
                f.by_file.insert(file, (disk, keep));
                f.by_disk.insert(disk, keep);
                break;
            }
            last.remove();
            f.by_disk.remove(&disk);
            self.runs = self.runs.saturating_sub(1);
        }
        if from == 0 {
            self.files.remove(&ino);
            // Its place in the order stays behind; they are cleared away together.
            if self.order.len() > self.files.len().saturating_mul(2).saturating_add(64) {
                let files = &self.files;
                self.order.retain(|i| files.contains_key(i));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.files.clear();
        self.order.clear();
        self.runs = 0;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.runs.saturating_mul(RUN_BYTES)
    }

    /// Makes room for a run; the file itself is not given up for it.
    fn room(&mut self, ino: Ino) -> bool {
        let mut rounds = self.order.len().saturating_mul(2);
        while self.runs >= self.most && rounds > 0 {
            rounds = rounds.saturating_sub(1);
            let Some(old) = self.order.pop_front() else { break };
            let Some(f) = self.files.get_mut(&old) else { continue };
            if old == ino || core::mem::take(&mut f.used) {
                self.order.push_back(old);
                continue;
            }
            self.runs = self.runs.saturating_sub(f.by_file.len());
            self.files.remove(&old);
        }
        self.runs < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: u64, disk: u64, len: u64) -> Run {
        Run { file, disk, len }
    }

    #[test]
    fn runs_are_joined_found_and_cut() {
        let (a, mut c) = (Ino(7), RunCache::new(1 << 20));
        c.learn(a, run(0, 100, 2));
        c.learn(a, run(2, 102, 3));
        c.learn(a, run(5, 50, 1));
        c.learn(a, run(9, 70, 1));
        assert_eq!(c.at(a, 4), Some(run(0, 100, 5)));
        assert_eq!(c.at(a, 9), Some(run(5, 50, 1)), "what does not follow was not taken");
        assert_eq!(c.at(a, 4).unwrap().place(4), Some(104));
        assert!(c.holds(a, 104) && c.holds(a, 50) && !c.holds(a, 105) && !c.holds(a, 49));
        assert_eq!((c.next_place(a, 50), c.next_place(a, 100)), (Some(100), None));
        c.forget(a, 3);
        assert_eq!(c.at(a, 9), Some(run(0, 100, 3)));
        assert!(!c.holds(a, 103) && !c.holds(a, 50));
        c.forget(a, 0);
        assert_eq!((c.at(a, 0), c.runs), (None, 0));
    }

    #[test]
    fn the_budget_holds() {
        let mut c = RunCache::new(10 * RUN_BYTES);
        for ino in 0..100 {
            for n in 0..3 {
                c.learn(Ino(ino), run(n, 1000 + n * 7, 1));
            }
        }
        assert!(c.runs <= 10 && c.files.len() <= 10, "{}", c.runs);
        for n in 0..100 {
            c.learn(Ino(500), run(n, n * 9, 1));
        }
        assert!(c.runs <= 10);
        assert_eq!(c.at(Ino(500), 0), Some(run(0, 0, 1)), "its beginning stays");
    }
}
