//! Sets of byte ranges with a bound on memory.
//!
//! The ledger must know which units a failed flush may have lost. Past [`RANGES_MAX`] separate
//! ranges the set becomes the one range that spans them all: it may then name units that nobody
//! wrote, never omit one that somebody did.

use alloc::collections::BTreeMap;
use seawall_blockdev::Run;

/// Separate ranges kept before the set is widened.
pub const RANGES_MAX: usize = 65_536;

/// A set of bytes as disjoint, non-adjacent ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start to end (exclusive).
    map: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { map: BTreeMap::new() }
    }

    /// True when nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Adds a run.
    pub fn insert(&mut self, run: Run) {
        let mut start = run.start;
        let mut end = run.start.saturating_add(run.len);
        if start >= end {
            return;
        }
        if let Some((&s, &e)) = self.map.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return;
            }
            start = s;
        }
        while let Some((&s, &e)) = self.map.range(start..=end).next() {
            self.map.remove(&s);
            end = end.max(e);
        }
        self.map.insert(start, end);
        if self.map.len() > RANGES_MAX {
            self.widen();
        }
    }

    fn widen(&mut self) {
        let first = self.map.keys().next().copied();
        let last = self.map.values().next_back().copied();
        if let (Some(start), Some(end)) = (first, last) {
            self.map.clear();
            self.map.insert(start, end);
        }
    }

    /// Removes a run.
    pub fn remove(&mut self, run: Run) {
        let (start, end) = (run.start, run.start.saturating_add(run.len));
        if start >= end {
            return;
        }
        if let Some((&s, &e)) = self.map.range(..start).next_back()
            && e > start
        {
            self.map.insert(s, start);
            if e > end {
                self.map.insert(end, e);
            }
        }
        while let Some((&s, &e)) = self.map.range(start..end).next() {
            self.map.remove(&s);
            if e > end {
                self.map.insert(end, e);
            }
        }
    }

    /// Moves everything of `other` into this set.
    pub fn absorb(&mut self, other: &mut RangeSet) {
        if self.map.is_empty() {
            core::mem::swap(self, other);
        }
        for run in other.iter() {
            self.insert(run);
        }
        other.clear();
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Run> {
        self.map.iter().map(|(&start, &end)| Run::new(start, end.saturating_sub(start)))
    }

    /// Separate ranges.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|run| run.len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_set_of_bytes(
            ops in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..60),
        ) {
            let mut set = RangeSet::new();
            let mut naive = [false; 100];
            for (add, start, len) in ops {
                let run = Run::new(start, len);
                if add { set.insert(run) } else { set.remove(run) }
                for b in start..start + len {
                    naive[b as usize] = add;
                }
                let mut seen = [false; 100];
                let runs: Vec<Run> = set.iter().collect();
                for pair in runs.windows(2) {
                    prop_assert!(pair[0].start + pair[0].len < pair[1].start);
                }
                for run in runs {
                    for b in run.start..run.start + run.len {
                        seen[b as usize] = true;
                    }
                }
                prop_assert_eq!(seen, naive);
            }
        }
    }

    #[test]
    fn widens_instead_of_growing() {
        let mut set = RangeSet::new();
        for i in 0..=RANGES_MAX as u64 {
            set.insert(Run::new(i * 2, 1));
        }
        assert_eq!(set.len(), 1);
        assert_eq!(set.bytes(), RANGES_MAX as u64 * 2 + 1);
    }
}
