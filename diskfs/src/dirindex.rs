//! Indexes of directories: where a name may stand, and where there is room for a new one, so that a
//! look-up, a create or an unlink costs the same in a directory of any size.
//!
//! An index is memory only. It is complete or absent: built by one scan, then changed by committed
//! transactions alone, so an attempt that ends in an error leaves it as it was. It holds hashes and
//! places, no names: the block is the truth, and what an index says is compared with it before use.
//! A directory that changes without a word to its index loses it. So does the one that was not used
//! for longest when the budget is reached; results are the same without.
//!
//! The format decides what a place is (ext2: a byte of the directory; FAT: a slot) and may enter
//! several names for one place (long and short ones). Room is counted for each chunk of a directory
//! (ext2: a block) in units of the format: the largest name that fits.

use crate::Ino;
use crate::hash::HashMap;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hashbrown::HashTable;

mod room;

use room::Room;

/// Hash of a name (folded first, where the format ignores case). The same on every run.
pub fn name_hash(name: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = (name.len() as u64).wrapping_mul(K);
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        for (w, c) in word.iter_mut().zip(chunk) {
            *w = *c;
        }
        h = (h.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(K);
        // A multiplication moves differences up only; this brings them down for the next word.
        h ^= h >> 32;
    }
    ((h ^ h >> 32).wrapping_mul(K) >> 32) as u32
}

/// A change of a directory that its index has to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexOp {
    Add(u32, u32),
    Remove(u32, u32),
    Room(u64, u16),
    /// Names and places stay as they are.
    Keep,
}

#[derive(Debug, Default)]
pub(crate) struct DirIndex {
    /// (hash, place).
    names: HashTable<(u32, u32)>,
    room: Room,
    stamp: u64,
    used: bool,
    bytes: usize,
}

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DirIndex {
    fn size(&self) -> usize {
        self.names.allocation_size().saturating_add(self.room.bytes()).saturating_add(128)
    }

    /// False when there is no memory.
    fn add(&mut self, hash: u32, place: u32) -> bool {
        if self.names.try_reserve(1, |e| spread(e.0)).is_err() {
            return false;
        }
        self.names.insert_unique(spread(hash), (hash, place), |e| spread(e.0));
        true
    }

    fn remove(&mut self, hash: u32, place: u32) -> bool {
        match self.names.find_entry(spread(hash), |e| *e == (hash, place)) {
            Ok(e) => {
                e.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Places of names with this hash.
    pub(crate) fn places(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        self.names.iter_hash(spread(hash)).filter(move |e| e.0 == hash).map(|e| e.1)
    }

    /// First chunk at or after `from` with room for `units`.
    pub(crate) fn room(&self, from: u64, units: u16) -> Option<u64> {
        self.room.first(from, units)
    }
}

/// An index while it is being built.
#[derive(Debug)]
pub struct IndexBuild {
    pub(crate) dir: Ino,
    /// The directory's change counter when the scan began.
    pub(crate) change: u64,
    index: DirIndex,
    budget: usize,
    full: bool,
}

impl IndexBuild {
    pub(crate) fn new(dir: Ino, change: u64, budget: usize) -> Self {
        Self { dir, change, index: DirIndex::default(), budget, full: false }
    }

    /// The chunk that comes next.
    pub fn next(&self) -> u64 {
        self.index.room.len()
    }

    /// Enters a name of the chunk that comes next.
    pub fn name(&mut self, hash: u32, place: u32) {
        self.full |= !self.index.add(hash, place);
    }

    /// Ends a chunk, in which a name of at most `units` fits. Returns false when the index has
    /// grown too large: refuse it then.
    #[must_use]
    pub fn chunk(&mut self, units: u16) -> bool {
        let at = self.index.room.len();
        self.full |= !self.index.room.set(at, units) || self.index.size() > self.budget;
        !self.full
    }
}

/// All indexes of a filesystem.
#[derive(Debug)]
pub(crate) struct DirIndexes {
    map: HashMap<Ino, DirIndex>,
    /// Oldest first; one that was used since gets a second turn.
    order: BTreeMap<u64, Ino>,
    next: u64,
    pub(crate) bytes: usize,
    pub(crate) budget: usize,
    pub(crate) built: u64,
}

impl DirIndexes {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            map: HashMap::default(),
            order: BTreeMap::new(),
            next: 0,
            bytes: 0,
            budget,
            built: 0,
        }
    }

    pub(crate) fn get(&self, dir: Ino) -> Option<&DirIndex> {
        self.map.get(&dir)
    }

    /// True when the directory has an index; it counts as used.
    pub(crate) fn touch(&mut self, dir: Ino) -> bool {
        if self.map.is_empty() {
            return false;
        }
        match self.map.get_mut(&dir) {
            Some(i) => {
                i.used = true;
                true
            }
            None => false,
        }
    }

    pub(crate) fn install(&mut self, build: IndexBuild) {
        self.remove(build.dir);
        let mut index = build.index;
        self.next = self.next.saturating_add(1);
        index.stamp = self.next;
        index.bytes = index.size();
        self.bytes = self.bytes.saturating_add(index.bytes);
        self.order.insert(self.next, build.dir);
        self.built = self.built.saturating_add(1);
        self.map.insert(build.dir, index);
        self.shrink(build.dir);
    }

    pub(crate) fn remove(&mut self, dir: Ino) {
        if let Some(i) = self.map.remove(&dir) {
            self.order.remove(&i.stamp);
            self.bytes = self.bytes.saturating_sub(i.bytes);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.order.clear();
        self.bytes = 0;
    }

    /// Follows a committed transaction. `changed` are the directories whose entries changed; one
    /// that says nothing in `ops` loses its index.
    pub(crate) fn apply(&mut self, ops: &[(Ino, IndexOp)], changed: &[Ino]) {
        if self.map.is_empty() {
            return;
        }
        for dir in changed {
            if !ops.iter().any(|(d, _)| d == dir) {
                self.remove(*dir);
                continue;
            }
            let Some(index) = self.map.get_mut(dir) else { continue };
            let mut good = true;
            for (_, op) in ops.iter().filter(|(d, _)| d == dir) {
                good &= match *op {
                    IndexOp::Add(hash, place) => index.add(hash, place),
                    IndexOp::Remove(hash, place) => index.remove(hash, place),
                    IndexOp::Room(chunk, units) => index.room.set(chunk, units),
                    IndexOp::Keep => true,
                };
            }
            let now = index.size();
            self.bytes = self.bytes.saturating_sub(index.bytes).saturating_add(now);
            index.bytes = now;
            if !good {
                self.remove(*dir);
            }
            self.shrink(*dir);
        }
    }

    /// Back into the budget; `keep` goes last.
    fn shrink(&mut self, keep: Ino) {
        let mut turns = self.order.len().saturating_mul(2);
        while self.bytes > self.budget && turns > 0 {
            turns = turns.saturating_sub(1);
            let Some((_, dir)) = self.order.pop_first() else { return };
            let alone = self.order.is_empty();
            let Some(i) = self.map.get_mut(&dir) else { continue };
            if !alone && (dir == keep || core::mem::take(&mut i.used)) {
                self.next = self.next.saturating_add(1);
                i.stamp = self.next;
                self.order.insert(self.next, dir);
                continue;
            }
            self.remove(dir);
        }
    }
}

/// Lowest place above `after` among those given.
pub(crate) fn lowest_above(places: impl Iterator<Item = u32>, after: Option<u32>) -> Option<u32> {
    places.filter(|p| after.is_none_or(|a| *p > a)).min()
}

/// Places that a transaction's own changes added and removed.
pub(crate) fn own_places(ops: &[(Ino, IndexOp)], dir: Ino, hash: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut added, mut gone) = (Vec::new(), Vec::new());
    for (_, op) in ops.iter().filter(|(d, _)| *d == dir) {
        match *op {
            IndexOp::Add(h, p) if h == hash => {
                gone.retain(|g| *g != p);
                added.push(p);
            }
            IndexOp::Remove(h, p) if h == hash => {
                added.retain(|a| *a != p);
                gone.push(p);
            }
            _ => {}
        }
    }
    (added, gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(dir: u64, names: u32, budget: usize) -> IndexBuild {
        let mut b = IndexBuild::new(Ino(dir), 0, budget);
        for i in 0..names {
            b.name(name_hash(&i.to_le_bytes()), i);
            if i % 16 == 15 {
                assert!(b.chunk(0));
            }
        }
        b
    }

    #[test]
    fn hashes_spread() {
        let mut seen: Vec<u32> = (0..100_000).map(|i| name_hash(format(i).as_bytes())).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 99_990, "{} hashes of 100,000 names", seen.len());
        assert_ne!(name_hash(b"a"), name_hash(b"a\0"));
    }

    fn format(i: u32) -> alloc::string::String {
        alloc::format!("file-{i:06}.txt")
    }

    #[test]
    fn follows_what_was_committed() {
        let mut all = DirIndexes::new(1 << 20);
        all.install(build(5, 64, 1 << 20));
        let dir = Ino(5);
        let (h, p) = (name_hash(b"new"), 1000);
        all.apply(&[(dir, IndexOp::Add(h, p)), (dir, IndexOp::Room(1, 7))], &[dir]);
        assert_eq!(all.get(dir).unwrap().places(h).collect::<Vec<_>>(), [p]);
        assert_eq!(all.get(dir).unwrap().room(0, 5), Some(1));
        all.apply(&[(dir, IndexOp::Remove(h, p))], &[dir]);
        assert_eq!(all.get(dir).unwrap().places(h).count(), 0);
        all.apply(&[(dir, IndexOp::Keep)], &[dir]);
        assert!(all.touch(dir));
        all.apply(&[], &[dir]);
        assert!(!all.touch(dir), "changed without a word");
        all.install(build(5, 64, 1 << 20));
        all.apply(&[(dir, IndexOp::Remove(h, p))], &[dir]);
        assert!(!all.touch(dir), "a name that was never there: the index is wrong");
        assert_eq!(all.bytes, 0);
    }

    #[test]
    fn the_budget_holds() {
        let one = DirIndex::size(&build(1, 1000, usize::MAX).index);
        let mut all = DirIndexes::new(one * 3 + one / 2);
        for dir in 1..=3 {
            all.install(build(dir, 1000, usize::MAX));
        }
        assert!(all.touch(Ino(1)));
        all.install(build(4, 1000, usize::MAX));
        assert!(all.bytes <= all.budget);
        let left: Vec<bool> = (1..=4).map(|d| all.get(Ino(d)).is_some()).collect();
        assert_eq!(left, [true, false, true, true], "the one not used for longest went");
        all.install(build(9, 9000, usize::MAX));
        assert!(all.bytes <= all.budget, "one that is too large is not kept");
        let mut b = IndexBuild::new(Ino(1), 0, 1000);
        (0..200).for_each(|i| b.name(i, i));
        assert!(!b.chunk(0));
    }

    #[test]
    fn a_transaction_sees_its_own_changes() {
        let d = Ino(2);
        let ops = [
            (d, IndexOp::Add(1, 10)),
            (d, IndexOp::Remove(1, 20)),
            (d, IndexOp::Remove(1, 10)),
            (Ino(3), IndexOp::Add(1, 30)),
            (d, IndexOp::Add(1, 40)),
        ];
        assert_eq!(own_places(&ops, d, 1), (alloc::vec![40], alloc::vec![20, 10]));
        assert_eq!(lowest_above([7, 3, 9].into_iter(), Some(3)), Some(7));
    }
}
