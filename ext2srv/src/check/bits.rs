//! The memory of a check: bitmaps and tables in pieces that are made when something is put into
//! them, all of them paid from one budget. A volume that needs more is refused, whatever it claims
//! to be.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::FsError;

/// Bytes of a piece of a bitmap.
const PIECE: usize = 4096;
/// Bits of a piece.
const PIECE_BITS: u64 = 8 * PIECE as u64;
/// Entries of a piece of a table.
const ENTRIES: usize = 512;

/// Memory that a check may still use.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    all: u64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self { left: bytes, all: bytes }
    }

    /// Takes `count` things of `size` bytes.
    pub(super) fn take(&mut self, count: u64, size: usize) -> Result<(), FsError> {
        let bytes = count.saturating_mul(size as u64);
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(FsError::unsupported(format!(
                "a check of this volume in {} bytes of memory",
                self.all
            ))),
        }
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, count: u64, size: usize) {
        self.left = self.left.saturating_add(count.saturating_mul(size as u64)).min(self.all);
    }
}

fn empty<T>(count: u64, budget: &mut Budget) -> Result<Vec<Option<T>>, FsError> {
    budget.take(count, size_of::<Option<T>>())?;
    let n = usize::try_from(count).map_err(|_| FsError::unsupported("a volume of this size"))?;
    Ok(core::iter::repeat_with(|| None).take(n).collect())
}

/// A bitmap.
#[derive(Debug)]
pub(super) struct Bits(Vec<Option<Box<[u8]>>>);

impl Bits {
    /// `len` clear bits.
    pub(super) fn new(len: u64, budget: &mut Budget) -> Result<Self, FsError> {
        Ok(Self(empty(len.div_ceil(PIECE_BITS), budget)?))
    }

    fn piece(&self, n: u64) -> Option<&[u8]> {
        let at = usize::try_from(n / PIECE_BITS).ok()?;
        self.0.get(at)?.as_deref()
    }

    /// Bit `n`; clear past the end.
    pub(super) fn get(&self, n: u64) -> bool {
        self.byte(n / 8) & 1 << (n % 8) != 0
    }

    /// Bits `8 * at` to `8 * at + 7`.
    pub(super) fn byte(&self, at: u64) -> u8 {
        let piece = self.piece(at.saturating_mul(8));
        piece.and_then(|p| p.get(at as usize % PIECE)).copied().unwrap_or(0)
    }

    /// Sets bit `n` and says whether it was set.
    pub(super) fn set(&mut self, n: u64, budget: &mut Budget) -> Result<bool, FsError> {
        let at = usize::try_from(n / PIECE_BITS).unwrap_or(usize::MAX);
        let Some(slot) = self.0.get_mut(at) else {
            return Err(FsError::Bug("a bit outside the checker's map"));
        };
        if slot.is_none() {
            budget.take(1, PIECE)?;
        }
        let piece = slot.get_or_insert_with(|| alloc::vec![0u8; PIECE].into_boxed_slice());
        let mask = 1 << (n % 8);
        let Some(byte) = piece.get_mut((n % PIECE_BITS / 8) as usize) else { return Ok(false) };
        let was = *byte & mask != 0;
        *byte |= mask;
        Ok(was)
    }
}

/// What is known of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Names that were found, '.' and '..' among them.
    pub(super) found: u32,
    /// Link count on disk.
    pub(super) links: u16,
    /// Type byte of directory records; 0 for what is none of these.
    pub(super) file_type: u8,
    /// In use.
    pub(super) used: bool,
}

/// What is known of every inode.
#[derive(Debug)]
pub(super) struct Nodes(Vec<Option<Box<[Node]>>>);

impl Nodes {
    pub(super) fn new(inodes: u32, budget: &mut Budget) -> Result<Self, FsError> {
        Ok(Self(empty(u64::from(inodes) / ENTRIES as u64 + 1, budget)?))
    }

    pub(super) fn get(&self, ino: u32) -> Node {
        let piece = self.0.get(ino as usize / ENTRIES).and_then(|p| p.as_deref());
        piece.and_then(|p| p.get(ino as usize % ENTRIES)).copied().unwrap_or_default()
    }

    /// The first inode in use from `from` on.
    pub(super) fn next_used(&self, from: u32) -> Option<(u32, Node)> {
        let mut at = from as usize;
        loop {
            let Some(piece) = self.0.get(at / ENTRIES)? else {
                at = (at / ENTRIES + 1) * ENTRIES;
                continue;
            };
            let mut rest = piece.iter().enumerate().skip(at % ENTRIES);
            if let Some((i, node)) = rest.find(|(_, n)| n.used) {
                let ino = u32::try_from(at / ENTRIES * ENTRIES + i).ok()?;
                return Some((ino, *node));
            }
            at = (at / ENTRIES + 1) * ENTRIES;
        }
    }

    /// An inode's entry for changing. `ino` is at most the number of inodes.
    pub(super) fn at(&mut self, ino: u32, budget: &mut Budget) -> Result<&mut Node, FsError> {
        const OUTSIDE: FsError = FsError::Bug("an inode outside the checker's table");
        let slot = self.0.get_mut(ino as usize / ENTRIES).ok_or(OUTSIDE)?;
        if slot.is_none() {
            budget.take(ENTRIES as u64, size_of::<Node>())?;
        }
        let piece =
            slot.get_or_insert_with(|| alloc::vec![Node::default(); ENTRIES].into_boxed_slice());
        piece.get_mut(ino as usize % ENTRIES).ok_or(OUTSIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_and_paid_for() {
        let mut budget = Budget::new(15_000);
        let mut bits = Bits::new(1 << 20, &mut budget).unwrap();
        for n in [0, 7, 8, 40_000, (1 << 20) - 1] {
            assert!(!bits.get(n));
            assert!(!bits.set(n, &mut budget).unwrap());
            assert!(bits.set(n, &mut budget).unwrap());
            assert!(bits.get(n));
        }
        assert_eq!(bits.byte(0), 0x81);
        assert_eq!(bits.byte(5000), 1);
        assert!(matches!(bits.set(500_000, &mut budget), Err(FsError::Unsupported(_))));
        assert!(bits.set(1 << 21, &mut budget).is_err());
        assert!(Bits::new(u64::MAX, &mut budget).is_err());
    }

    #[test]
    fn nodes_are_kept() {
        let mut budget = Budget::new(1 << 20);
        let mut nodes = Nodes::new(2000, &mut budget).unwrap();
        nodes.at(2000, &mut budget).unwrap().links = 7;
        assert_eq!(nodes.get(2000).links, 7);
        assert_eq!(nodes.get(1999), Node::default());
        assert_eq!(nodes.next_used(0), None);
        for ino in [3, 700, 2000] {
            nodes.at(ino, &mut budget).unwrap().used = true;
        }
        assert_eq!(nodes.next_used(4).map(|n| n.0), Some(700));
        assert_eq!(nodes.next_used(701).map(|n| n.0), Some(2000));
        assert_eq!(nodes.next_used(2001), None);
    }
}
