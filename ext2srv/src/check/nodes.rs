//! What a check knows of every inode, in pieces that are made when something is put into them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use seawall_diskfs::FsError;
use seawall_diskfs::check::{Budget, pieces};

/// Entries of a piece of the table.
const ENTRIES: usize = 512;

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
        Ok(Self(pieces(u64::from(inodes) / ENTRIES as u64 + 1, budget)?))
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
