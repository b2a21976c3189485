//! Trees of extents (`struct ext4_extent_header`), for reading.
//!
//! The root is the 60 bytes of `i_block`. A node is a header of 12 bytes (magic, entries, room,
//! height above the leaves, generation) and entries of 12 bytes in ascending order of their file
//! block: in a leaf its length and place on disk, above it the block of the node below. A length
//! above 32768 says that the extent was allocated and never written: it reads as zeroes.
//!
//! Nothing a damaged tree says is followed: a height must be one less than the height above it, so
//! a walk ends after five steps whatever the blocks hold; entries must ascend inside the range of
//! the entry above and point into the volume.

use crate::Ext2;
use crate::blockmap::push;
use crate::inode::Inode;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{u16_at, u32_at};
use seawall_diskfs::{Attempt, Extent, FsError, Mapping, Tx};

const WHAT: &str = "extent tree";
const MAGIC: u16 = 0xF30A;
/// Bytes of a header, and of an entry.
const ENTRY: usize = 12;
/// Most levels above the leaves.
const DEPTH_MAX: u16 = 5;
/// Longest extent that was written; longer ones are unwritten and this much shorter.
const LEN_WRITTEN: u64 = 32768;
/// One past the last file block.
const FILE_BLOCKS: u64 = 1 << 32;

/// An entry of a node: the first file block, and its bytes.
#[derive(Clone, Copy)]
struct Entry {
    file: u64,
    low: u32,
    mid: u16,
    last: u16,
}

impl Entry {
    /// Place of the node below, from an index entry.
    fn node(&self) -> u64 {
        u64::from(self.low) | u64::from(self.mid) << 32
    }

    /// Length and place, from an extent. `None` on disk: reads as zeroes.
    fn extent(&self) -> (u64, Option<u64>) {
        let len = u64::from(self.low & 0xFFFF);
        let start =
            u64::from(self.low >> 16) << 32 | u64::from(self.mid) | u64::from(self.last) << 16;
        if len > LEN_WRITTEN { (len - LEN_WRITTEN, None) } else { (len, Some(start)) }
    }
}

/// A checked node.
struct Node {
    height: u16,
    entries: Vec<Entry>,
}

impl Node {
    /// `height`: what the node above says; `None` for the root, which alone may be empty.
    fn parse(b: &[u8], height: Option<u16>) -> Result<Self, String> {
        let word = |off| u16_at(b, off).unwrap_or(0);
        if word(0) != MAGIC {
            return Err("no magic number".into());
        }
        let (count, room, own) = (word(2), word(4), word(6));
        if own != height.unwrap_or(own) || own > DEPTH_MAX {
            return Err(format!("height {own}"));
        }
        if count > room
            || usize::from(room) > b.len() / ENTRY - 1
            || (count == 0 && height.is_some())
        {
            return Err(format!("{count} entries with room for {room}"));
        }
        let mut entries = Vec::with_capacity(usize::from(count));
        let mut next = 0;
        for n in 1..=usize::from(count) {
            let at = n * ENTRY;
            let field = |off| u32_at(b, at + off).unwrap_or(0);
            let e = Entry {
                file: u64::from(field(0)),
                low: field(4),
                mid: word(at + 8),
                last: word(at + 10),
            };
            if e.file < next {
                return Err(format!("entry for file block {} out of order", e.file));
            }
            let len = if own == 0 { e.extent().0 } else { 1 };
            next = e.file + len;
            if len == 0 || next > FILE_BLOCKS {
                return Err(format!("extent of {len} blocks at file block {}", e.file));
            }
            entries.push(e);
        }
        Ok(Self { height: own, entries })
    }

    /// The last entry at or before file block `at`, and where the next one begins.
    fn find(&self, at: u64, end: u64) -> (Option<Entry>, u64) {
        let n = self.entries.partition_point(|e| e.file <= at);
        let next = self.entries.get(n).map_or(end, |e| e.file.min(end));
        (n.checked_sub(1).and_then(|n| self.entries.get(n)).copied(), next)
    }
}

impl Ext2 {
    /// Maps `range` of a file with extents for reading.
    pub(crate) fn map_extents(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        let mut runs = Vec::new();
        let end = range.start.saturating_add(range.len);
        let mut at = range.start;
        while at < end {
            let (disk, cover) = self.extent_at(tx, inode, at)?;
            let len = cover.clamp(1, end - at);
            push(&mut runs, Mapping { file: at, len, disk, fresh: false });
            at += len;
        }
        Ok(runs)
    }

    /// Where file block `at` is, and for how many blocks from there that holds.
    fn extent_at(&self, tx: &mut Tx<'_>, inode: &Inode, at: u64) -> Attempt<(Option<u64>, u64)> {
        if at >= FILE_BLOCKS {
            return Ok((None, u64::MAX - at));
        }
        let wrong = |block, what: String| FsError::corrupt(WHAT, block, what);
        let mut node = Node::parse(&inode.block_bytes(), None).map_err(|w| wrong(0, w))?;
        let (mut block, mut end) = (0, FILE_BLOCKS);
        while node.height > 0 {
            let (entry, next) = node.find(at, end);
            let Some(entry) = entry else { return Ok((None, next - at)) };
            end = next;
            let below = entry.node();
            self.check_pointer(below, block)?;
            block = below;
            let b = tx.read(block, WHAT)?;
            node = Node::parse(&b, Some(node.height - 1)).map_err(|w| wrong(block, w))?;
            self.check_extent_sum(inode, (&b, block), WHAT)?;
            let outside = |e: &Entry| e.file < entry.file || e.file >= end;
            if let Some(e) = node.entries.iter().find(|e| outside(e)) {
                let what = format!("file block {} does not belong into this node", e.file);
                return Err(wrong(block, what).into());
            }
        }
        let (entry, next) = node.find(at, end);
        let Some(e) = entry else { return Ok((None, next - at)) };
        let (len, start) = e.extent();
        let Some(rest) = (e.file + len).checked_sub(at).filter(|n| *n > 0) else {
            return Ok((None, next - at));
        };
        if e.file + len > end {
            let what = format!("extent at file block {} ends behind its node", e.file);
            return Err(wrong(block, what).into());
        }
        let Some(start) = start else { return Ok((None, rest)) };
        self.check_pointer(start, block)?;
        self.check_pointer(start + len - 1, block)?;
        Ok((Some(start + (at - e.file)), rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(height: u16, entries: &[[u32; 3]]) -> Vec<u8> {
        let n = entries.len() as u32;
        let mut words = alloc::vec![u32::from(MAGIC) | n << 16, 340 | u32::from(height) << 16, 0];
        words.extend(entries.iter().flatten());
        let mut b: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        b.resize(4096, 0);
        b
    }

    #[test]
    fn extents_written_and_not() {
        let b = node(0, &[[0, 3 | 1 << 16, 7], [3, 32768, 9], [40_000, 32769, 0xFFFF_FFFF]]);
        let n = Node::parse(&b, Some(0)).unwrap();
        let got: Vec<_> = n.entries.iter().map(|e| (e.file, e.extent())).collect();
        assert_eq!(got, [(0, (3, Some(1 << 32 | 7))), (3, (32768, Some(9))), (40_000, (1, None)),]);
        let (e, next) = n.find(39_999, 1 << 32);
        assert_eq!((e.unwrap().file, next), (3, 40_000));
    }

    #[test]
    fn damaged_nodes_are_refused() {
        assert!(Node::parse(&node(1, &[[0, 9, 0]]), Some(0)).is_err(), "height");
        assert!(Node::parse(&node(6, &[[0, 9, 0]]), None).is_err(), "too high");
        assert!(Node::parse(&node(0, &[]), Some(0)).is_err(), "empty");
        assert!(Node::parse(&node(0, &[]), None).is_ok(), "an empty root");
        assert!(Node::parse(&node(0, &[[0, 0, 9]]), None).is_err(), "no length");
        assert!(Node::parse(&node(0, &[[0, 5, 9], [4, 1, 20]]), None).is_err(), "overlap");
        assert!(Node::parse(&node(1, &[[4, 9, 0], [4, 10, 0]]), None).is_err(), "twice");
        assert!(Node::parse(&node(0, &[[u32::MAX, 2, 9]]), None).is_err(), "past the last");
        let mut b = node(0, &[[0, 1, 9]]);
        b[4..6].copy_from_slice(&341u16.to_le_bytes());
        assert!(Node::parse(&b, None).is_err(), "more room than the block has");
        assert!(Node::parse(&[0; 60], None).is_err());
    }
}
