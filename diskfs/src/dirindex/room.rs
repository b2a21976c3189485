//! The first chunk of a directory in which a name of some size fits: a tree of maxima.

use alloc::vec;
use alloc::vec::Vec;

/// Most chunks: a directory of 4 GiB in blocks of 1 KiB.
const CHUNKS_MAX: u64 = 1 << 22;

/// For each chunk the largest size that fits.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// A heap: node n has the children 2n and 2n + 1, the leaves are its second half.
    max: Vec<u16>,
    len: usize,
}

impl Room {
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.max.capacity().saturating_mul(2)
    }

    fn leaves(&self) -> usize {
        self.max.len() / 2
    }

    fn at(&self, node: usize) -> u16 {
        self.max.get(node).copied().unwrap_or(0)
    }

    /// Sets a chunk, or the one behind the last. False when it lies further away.
    pub(crate) fn set(&mut self, chunk: u64, units: u16) -> bool {
        if chunk > self.len as u64 || chunk >= CHUNKS_MAX {
            return false;
        }
        let chunk = chunk as usize;
        if chunk >= self.leaves() {
            self.grow();
        }
        self.len = self.len.max(chunk.saturating_add(1));
        let mut node = self.leaves().saturating_add(chunk);
        if let Some(leaf) = self.max.get_mut(node) {
            *leaf = units;
        }
        while node > 1 {
            let most = self.at(node).max(self.at(node ^ 1));
            node /= 2;
            let Some(up) = self.max.get_mut(node) else { return false };
            if *up == most {
                break;
            }
            *up = most;
        }
        true
    }

    fn grow(&mut self) {
        let old = core::mem::take(&mut self.max);
        let leaves = (old.len() / 2).max(2).saturating_mul(2);
        self.max = vec![0; leaves.saturating_mul(2)];
        for (to, from) in self.max.iter_mut().skip(leaves).zip(old.iter().skip(old.len() / 2)) {
            *to = *from;
        }
        for node in (1..leaves).rev() {
            let most = self.at(node * 2).max(self.at(node * 2 + 1));
            if let Some(up) = self.max.get_mut(node) {
                *up = most;
            }
        }
    }

    /// First chunk at or after `from` with at least `units`, which are not 0.
    pub(crate) fn first(&self, from: u64, units: u16) -> Option<u64> {
        let leaves = self.leaves();
        let from = usize::try_from(from).ok().filter(|f| *f < self.len)?;
        let units = units.max(1);
        let mut node = leaves.saturating_add(from);
        while self.at(node) < units {
            // Up while this is the right child, then to the one beside it.
            while node & 1 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node = node.saturating_add(1);
        }
        while node < leaves {
            node = node.saturating_mul(2);
            if self.at(node) < units {
                node = node.saturating_add(1);
            }
        }
        Some(node.saturating_sub(leaves) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_walk() {
        let mut room = Room::default();
        let mut plain: Vec<u16> = Vec::new();
        let mut x = 7u32;
        let mut random = |n: u32| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) % n
        };
        assert_eq!(room.first(0, 1), None);
        for _ in 0..4000 {
            let at = random(plain.len() as u32 + 1) as usize;
            let units = random(20) as u16;
            assert!(room.set(at as u64, units));
            match plain.get_mut(at) {
                Some(p) => *p = units,
                None => plain.push(units),
            }
            let from = random(plain.len() as u32 + 2) as usize;
            let want = random(22) as u16 + 1;
            let walk = (from..plain.len()).find(|i| plain[*i] >= want).map(|i| i as u64);
            assert_eq!(room.first(from as u64, want), walk);
        }
        assert!(!room.set(room.len() + 1, 3), "a gap");
        assert_eq!(room.len(), plain.len() as u64);
    }
}
