//! The index of a directory: a tree of name hashes in blocks that look like unused records. Names
//! must lie in the block to which the index sends their hash, and each block must be reached once.

use super::Check;
use super::dirs::{Scan, record};
use super::finding::{Finding, Kind};
use super::geometry::{Fields, LARGE_DIR};
use crate::htree::Hashing;
use alloc::collections::BTreeSet;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;

/// Where the root's own fields begin: behind '.' and '..'.
const ROOT: usize = 24;
/// Bytes of a countlimit, and of each entry.
const ENTRY: usize = 8;
/// Block numbers have 28 bits.
const BLOCK: u32 = 0x0FFF_FFFF;

/// What is known of one block of an indexed directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    block: u64,
    min: u32,
    max: u32,
    /// One unused record over the whole block, as blocks of the index have.
    bare: bool,
}

impl Leaf {
    /// Memory of one of them, with its place in a map.
    pub(super) const COST: usize = 64;

    pub(super) fn new(block: u64, b: &[u8]) -> Self {
        let bare =
            record(b, 0).is_some_and(|r| r.ino == 0 && r.len == b.len() && r.name.is_empty());
        Self { block, min: u32::MAX, max: 0, bare }
    }

    pub(super) fn see(&mut self, hash: Option<u32>) {
        if let Some(hash) = hash {
            self.min = self.min.min(hash);
            self.max = self.max.max(hash);
        }
    }
}

/// A part of the index under way.
struct Part<'s> {
    scan: &'s Scan,
    reached: BTreeSet<u64>,
}

impl Check<'_> {
    pub(super) fn hash_of(&self, scan: &Scan, name: &[u8]) -> Option<u32> {
        scan.version.filter(|v| Hashing::knows(*v)).map(|v| self.geo.hashing.hash(v, name))
    }

    /// Checks a directory's index, if it has one.
    pub(super) fn check_index(&mut self, scan: &Scan) -> Result<(), FsError> {
        if scan.version.is_none() {
            return Ok(());
        }
        let ino = scan.ino;
        let at = |what| Finding::new(Kind::IndexRoot).inode(ino).detail(what);
        let Some(root) = scan.leaves.get(&0) else {
            self.add(at("no first block"));
            return Ok(());
        };
        let Some(b) = self.dev.read(root.block * self.geo.bs, self.geo.bs as usize)? else {
            return Ok(());
        };
        let f = Fields(&b);
        let deepest = if self.geo.incompat & LARGE_DIR != 0 { 2 } else { 1 };
        let (version, info, levels) = (f.u8(ROOT + 4), f.u8(ROOT + 5), f.u8(ROOT + 6));
        let checks = [
            ("a reserved field", f.u32(ROOT) == 0),
            ("the hash version", version <= 2),
            ("the length of its fields", info >= 8),
            ("the depth", levels <= deepest),
            ("a flag", f.u8(ROOT + 7) & 1 == 0),
        ];
        if let Some((what, _)) = checks.into_iter().find(|(_, ok)| !ok) {
            self.add(at(what).block(root.block));
            return Ok(());
        }
        let mut part = Part { scan, reached: BTreeSet::new() };
        let off = ROOT + usize::from(info);
        let all = (0, u32::MAX - 1);
        self.index_node(&mut part, root.block, &b, off, levels, all)?;
        let lost = scan.leaves.keys().find(|k| **k != 0 && !part.reached.contains(k));
        if let Some(file) = lost {
            let f = Finding::new(Kind::IndexLeaf).inode(ino);
            self.add(f.detail("nothing leads to file block").found(*file));
        }
        Ok(())
    }

    /// Entries of one block of the index, from byte `off` on, `level` above the leaves.
    fn index_node(
        &mut self,
        part: &mut Part<'_>,
        block: u64,
        b: &PageBuf,
        off: usize,
        level: u8,
        (low, high): (u32, u32),
    ) -> Result<(), FsError> {
        let f = Fields(b);
        let at = |kind| Finding::new(kind).inode(part.scan.ino).block(block);
        let tail = if self.geo.metadata_csum() { ENTRY } else { 0 };
        let room = b.len().saturating_sub(off + tail) / ENTRY;
        let (limit, count) = (usize::from(f.u16(off)), usize::from(f.u16(off + 2)));
        if limit != room || count == 0 || count > limit {
            let f = at(Kind::IndexNode).detail("entries").found(count as u64);
            self.add(f.right(room as u64));
            return Ok(());
        }
        let hash = |i: usize| if i == 0 { low } else { f.u32(off + i * ENTRY) & !1 };
        let mut before = low;
        for i in 0..count {
            let from = hash(i);
            let to = if i + 1 < count { hash(i + 1) } else { high };
            if from < before {
                self.add(Finding::new(Kind::IndexOrder).inode(part.scan.ino).block(block));
            }
            before = from;
            let file = u64::from(f.u32(off + i * ENTRY + 4) & BLOCK);
            self.index_entry(part, block, file, level, (from, to))?;
        }
        Ok(())
    }

    fn index_entry(
        &mut self,
        part: &mut Part<'_>,
        block: u64,
        file: u64,
        level: u8,
        (from, to): (u32, u32),
    ) -> Result<(), FsError> {
        let at = |kind| Finding::new(kind).inode(part.scan.ino).block(block).found(file);
        let Some(leaf) = part.scan.leaves.get(&file).copied() else {
            self.add(at(Kind::IndexBlock).detail("file block"));
            return Ok(());
        };
        if !part.reached.insert(file) || file == 0 {
            self.add(at(Kind::IndexLeaf).detail("a second time to file block"));
            return Ok(());
        }
        if level == 0 {
            if leaf.min < from || (leaf.max > to && leaf.min <= leaf.max) {
                self.add(at(Kind::IndexHash).detail("file block"));
            }
            return Ok(());
        }
        if !leaf.bare {
            self.add(at(Kind::IndexNode).detail("names where an index block should be"));
            return Ok(());
        }
        match self.dev.read(leaf.block * self.geo.bs, self.geo.bs as usize)? {
            Some(b) => self.index_node(part, leaf.block, &b, ENTRY, level - 1, (from, to)),
            None => Ok(()),
        }
    }
}
