//! The block map: 12 direct pointers in the inode, then a single, a double and a triple indirect
//! tree.
//!
//! Order: a new indirect block carries its pointers at `Init`; what makes it reachable (a pointer
//! in the inode, or in an indirect block that was there before) comes at `Link`. The crash case: a
//! durable pointer to an indirect block whose content is still what an earlier file left there.

use crate::Ext2;
use crate::inode::{FL_EXTENTS, Inode};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u32_at};
use seawall_diskfs::{
    Attempt, BlockRef, Change, Extent, FsError, Ino, Kind, Mapping, Refused, Site, Stage, Tx,
};

const WHAT: &str = "indirect block";
/// Most units of 512 bytes that `i_blocks` counts with `huge_file`.
const SECTORS_HUGE: u64 = (1 << 48) - 1;
/// Direct pointers.
pub(crate) const DIRECT: u64 = 12;

/// Where a file block's pointer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Slot of `i_block`.
    pub(crate) slot: usize,
    /// Indirect blocks on the way, 0 to 3.
    pub(crate) depth: u32,
    /// Offset of the file block inside the slot's tree, in blocks.
    pub(crate) rest: u64,
}

/// The pointers next to one file block's.
enum Leaf {
    /// In the inode.
    Direct(usize),
    /// In this indirect block.
    Indirect(u64, BlockRef, usize),
    /// No indirect block there.
    Hole,
}

/// Largest file in bytes: what the map can hold and what `i_blocks` can count, as Linux's
/// `ext2_max_size` computes it. With `huge_file` the count is no limit, with extents the map is
/// none: file block numbers have 32 bits.
pub(crate) fn size_max(block_size: u32, huge: bool, extents: bool) -> u64 {
    let p = u64::from(block_size / 4);
    if extents {
        return u64::from(u32::MAX) * u64::from(block_size);
    }
    let units = u64::from(u32::MAX) / u64::from(block_size / 512);
    let tree_meta = 1 + 1 + p + 1 + p + p * p;
    let tree = DIRECT + p + p * p + p * p * p;
    let blocks = if huge || tree + tree_meta <= units {
        tree
    } else {
        let left = units - DIRECT - p;
        let meta = if left < p * p {
            1 + 1 + left.div_ceil(p)
        } else {
            let left = left - p * p;
            1 + 1 + p + 1 + left.div_ceil(p) + left.div_ceil(p * p)
        };
        units - meta
    };
    // File block numbers are kept in 32 bits by every reader.
    blocks.min(u64::from(u32::MAX)) * u64::from(block_size)
}

impl Ext2 {
    /// File blocks below one pointer at `height` (0: data).
    pub(crate) fn span(&self, height: u32) -> u64 {
        self.pointers().pow(height)
    }

    /// Where the pointer of file block `at` stands; `None` past what the map can hold.
    pub(crate) fn path(&self, at: u64) -> Option<Path> {
        if at < DIRECT {
            return Some(Path { slot: at as usize, depth: 0, rest: 0 });
        }
        let mut rest = at - DIRECT;
        for depth in 1..=3u32 {
            let span = self.span(depth);
            if rest < span {
                return Some(Path { slot: 11 + depth as usize, depth, rest });
            }
            rest -= span;
        }
        None
    }

    /// Largest file in bytes.
    pub(crate) fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Finds the pointers around file block `at`, and how many file blocks they (or the hole) cover
    /// from `at` on.
    fn leaf(&self, tx: &mut Tx<'_>, inode: &Inode, at: u64) -> Attempt<(Leaf, u64)> {
        let Some(path) = self.path(at) else { return Ok((Leaf::Hole, u64::MAX - at)) };
        if path.depth == 0 {
            return Ok((Leaf::Direct(path.slot), DIRECT - at));
        }
        let mut ptr = inode.block.get(path.slot).copied().unwrap_or(0);
        let mut holder = 0;
        let mut rest = path.rest;
        for height in (1..=path.depth).rev() {
            if ptr == 0 {
                return Ok((Leaf::Hole, self.span(height) - rest));
            }
            let block = u64::from(ptr);
            self.check_pointer(block, holder)?;
            let buf = tx.read(block, WHAT)?;
            let below = self.span(height - 1);
            let index = (rest / below) as usize;
            if height == 1 {
                return Ok((Leaf::Indirect(block, buf, index), self.pointers() - index as u64));
            }
            ptr = u32_at(&buf, index * 4)?;
            holder = block;
            rest %= below;
        }
        Err(FsError::Bug("a block map path without a leaf").into())
    }

    /// The pointers of file blocks `at..at + n`, which one leaf holds. 0 is a hole.
    fn pointers_at(&self, inode: &Inode, leaf: &Leaf, n: u64) -> Result<Vec<u64>, FsError> {
        let read = |i: u64| -> Result<(u64, u64), FsError> {
            match leaf {
                Leaf::Direct(slot) => {
                    Ok((0, u64::from(inode.block.get(slot + i as usize).copied().unwrap_or(0))))
                }
                Leaf::Indirect(block, buf, index) => {
                    Ok((*block, u64::from(u32_at(buf, (index + i as usize) * 4)?)))
                }
                Leaf::Hole => Ok((0, 0)),
            }
        };
        let mut out = Vec::with_capacity(n as usize);
        for i in 0..n {
            let (holder, ptr) = read(i)?;
            if ptr != 0 {
                self.check_pointer(ptr, holder)?;
            }
            out.push(ptr);
        }
        Ok(out)
    }

    /// Where file block `at` is; `None`: in a hole.
    pub(crate) fn map_one(&self, tx: &mut Tx<'_>, inode: &Inode, at: u64) -> Attempt<Option<u64>> {
        if inode.flags & FL_EXTENTS != 0 {
            let runs = self.map_extents(tx, inode, Extent { start: at, len: 1 })?;
            return Ok(runs.first().and_then(|m| m.disk));
        }
        let Some(path) = self.path(at) else { return Ok(None) };
        let mut ptr = u64::from(inode.block.get(path.slot).copied().unwrap_or(0));
        let (mut holder, mut rest) = (0, path.rest);
        for height in (1..=path.depth).rev() {
            if ptr == 0 {
                return Ok(None);
            }
            self.check_pointer(ptr, holder)?;
            let below = self.span(height - 1);
            let index = (rest / below) as usize;
            holder = ptr;
            ptr = u64::from(tx.with(holder, 1, WHAT, |b| u32_at(b, index * 4))?);
            rest %= below;
        }
        if ptr == 0 {
            return Ok(None);
        }
        self.check_pointer(ptr, holder)?;
        Ok(Some(ptr))
    }

    /// Maps `range` for reading.
    pub(crate) fn map_blocks(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        if inode.flags & FL_EXTENTS != 0 {
            return self.map_extents(tx, inode, range);
        }
        if range.len == 1 {
            let disk = self.map_one(tx, inode, range.start)?;
            return Ok(vec![Mapping { file: range.start, len: 1, disk, fresh: false }]);
        }
        let mut runs = Vec::new();
        let mut at = range.start;
        let end = range.start.saturating_add(range.len);
        while at < end {
            let (leaf, cover) = self.leaf(tx, inode, at)?;
            let n = cover.min(end - at);
            if matches!(leaf, Leaf::Hole) {
                push(&mut runs, Mapping { file: at, len: n, disk: None, fresh: false });
            } else {
                for (i, ptr) in self.pointers_at(inode, &leaf, n)?.into_iter().enumerate() {
                    let disk = (ptr != 0).then_some(ptr);
                    push(&mut runs, Mapping { file: at + i as u64, len: 1, disk, fresh: false });
                }
            }
            at += n;
        }
        Ok(runs)
    }

    /// Where a directory's or a long symlink's first block is; 0 for a hole.
    pub(crate) fn first_disk_block(&self, tx: &mut Tx<'_>, inode: &Inode) -> Attempt<u64> {
        let runs = self.map_blocks(tx, inode, Extent { start: 0, len: 1 })?;
        Ok(runs.first().and_then(|m| m.disk).unwrap_or(0))
    }

    /// Maps `range` for writing and fills its holes. Changes `inode` in memory only: the caller
    /// puts it at stage `Link`.
    pub(crate) fn map_filled(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        let end = range.start.checked_add(range.len).ok_or(Refused::FileTooBig)?;
        if end > self.size_max() / self.block_bytes() {
            return Err(Refused::FileTooBig.into());
        }
        let mut goal = self.goal(tx, ino, inode, range.start)?;
        let mut fresh = BTreeSet::new();
        let mut runs = Vec::new();
        let mut at = range.start;
        while at < end {
            let (mut leaf, mut cover) = self.leaf(tx, inode, at)?;
            if matches!(leaf, Leaf::Hole) {
                self.make_leaf(tx, ino, inode, at, &mut goal, &mut fresh)?;
                (leaf, cover) = self.leaf(tx, inode, at)?;
            }
            let n = cover.min(end - at);
            self.fill_leaf(tx, ino, inode, &leaf, (at, n), &mut goal, &fresh, &mut runs)?;
            at += n;
        }
        Ok(runs)
    }

    /// Where the next block should be: behind the file block before, else in the inode's group.
    fn goal(&self, tx: &mut Tx<'_>, ino: Ino, inode: &Inode, at: u64) -> Attempt<u64> {
        if let Some(before) = at.checked_sub(1) {
            let run = self.map_blocks(tx, inode, Extent { start: before, len: 1 })?;
            if let Some(disk) = run.first().and_then(|m| m.disk) {
                return Ok(disk + 1);
            }
        }
        self.home_goal(ino)
    }

    /// Makes the missing indirect blocks on the way to file block `at`.
    fn make_leaf(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        at: u64,
        goal: &mut u64,
        fresh: &mut BTreeSet<u64>,
    ) -> Attempt<()> {
        let path = self.path(at).ok_or(Refused::FileTooBig)?;
        let mut holder: Option<(u64, usize)> = None;
        let mut rest = path.rest;
        for height in (1..=path.depth).rev() {
            let ptr = match holder {
                None => inode.block.get(path.slot).copied().unwrap_or(0),
                Some((block, index)) => u32_at(&tx.read(block, WHAT)?, index * 4)?,
            };
            let block = if ptr != 0 {
                self.check_pointer(u64::from(ptr), holder.map_or(0, |h| h.0))?;
                u64::from(ptr)
            } else {
                let block = self.alloc_run(tx, *goal, 1)?.start;
                if inode.kind == Kind::File {
                    tx.note_run(1, block != *goal);
                }
                *goal = block + 1;
                tx.create_block(block, WHAT, indirect(ino, Stage::Init))?;
                fresh.insert(block);
                let place = match holder {
                    None => Leaf::Direct(path.slot),
                    Some((b, index)) => Leaf::Indirect(b, tx.read(b, WHAT)?, index),
                };
                self.set_pointers(tx, ino, inode, &place, 0, &[block], fresh)?;
                tx.new_indirect();
                self.add_sectors(inode, 1)?;
                block
            };
            let below = self.span(height - 1);
            holder = Some((block, (rest / below) as usize));
            rest %= below;
        }
        Ok(())
    }

    /// Fills the holes of `n` file blocks from `at` on, whose pointers `leaf` holds.
    #[allow(clippy::too_many_arguments, reason = "one step of map_filled")]
    fn fill_leaf(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        leaf: &Leaf,
        (at, n): (u64, u64),
        goal: &mut u64,
        fresh: &BTreeSet<u64>,
        runs: &mut Vec<Mapping>,
    ) -> Attempt<()> {
        let ptrs = self.pointers_at(inode, leaf, n)?;
        let mut i = 0;
        while let Some(first) = ptrs.get(i).copied() {
            let file = at + i as u64;
            if first != 0 {
                let joined = ptrs.iter().skip(i).zip(first..).take_while(|(p, b)| **p == *b);
                let run = Extent { start: first, len: joined.count() as u64 };
                self.check_data(tx, run)?;
                *goal = run.start + run.len;
                push(runs, Mapping { file, len: run.len, disk: Some(first), fresh: false });
                i += run.len as usize;
                continue;
            }
            let holes = ptrs.iter().skip(i).take_while(|p| **p == 0).count();
            let run = self.alloc_run(tx, *goal, holes as u64)?;
            if inode.kind == Kind::File {
                tx.note_run(run.len, run.start != *goal || file == 0);
            }
            *goal = run.start + run.len;
            let blocks: Vec<u64> = (run.start..run.start + run.len).collect();
            self.set_pointers(tx, ino, inode, leaf, i, &blocks, fresh)?;
            self.add_sectors(inode, run.len)?;
            push(runs, Mapping { file, len: run.len, disk: Some(run.start), fresh: true });
            i += blocks.len();
        }
        Ok(())
    }

    /// Writing through a pointer into a group's own structures would destroy them.
    fn check_data(&self, tx: &mut Tx<'_>, run: Extent) -> Attempt<()> {
        let end = run.start + run.len;
        for index in self.sb.group_of(run.start)..=self.sb.group_of(end - 1) {
            let g = self.group(tx, index)?;
            if self.hits_metadata(&g, run.start, run.len) {
                let what = "a file owns a block of its group's structures";
                return Err(FsError::corrupt("block map", run.start, what).into());
            }
        }
        Ok(())
    }

    /// Writes pointers at `leaf`, `skip` entries further.
    #[allow(clippy::too_many_arguments, reason = "one step of map_filled")]
    fn set_pointers(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        leaf: &Leaf,
        skip: usize,
        blocks: &[u64],
        fresh: &BTreeSet<u64>,
    ) -> Attempt<()> {
        match leaf {
            Leaf::Direct(slot) => {
                let slots = inode.block.iter_mut().skip(slot + skip);
                for (p, b) in slots.zip(blocks) {
                    *p = *b as u32;
                }
            }
            Leaf::Indirect(block, _, index) => {
                let stage = if fresh.contains(block) { Stage::Init } else { Stage::Link };
                let buf = tx.modify(*block, WHAT, indirect(ino, stage))?;
                for (i, b) in blocks.iter().enumerate() {
                    put(buf, (index + skip + i) * 4, &(*b as u32).to_le_bytes())?;
                }
            }
            Leaf::Hole => return Err(FsError::Bug("a pointer into a hole of the map").into()),
        }
        Ok(())
    }

    fn add_sectors(&self, inode: &mut Inode, blocks: u64) -> Result<(), FsError> {
        let sum = inode.sectors.saturating_add(blocks * self.sectors());
        let most = if inode.huge { SECTORS_HUGE } else { u64::from(u32::MAX) };
        if sum > most {
            return Err(Refused::FileTooBig.into());
        }
        inode.sectors = sum;
        Ok(())
    }
}

/// A change of an indirect block of `ino`.
pub(crate) fn indirect(ino: Ino, stage: Stage) -> Change {
    Change { site: Site::Indirect, stage, owner: Some(ino) }
}

/// Adds a mapping, joined to the last one where they continue each other.
pub(crate) fn push(runs: &mut Vec<Mapping>, m: Mapping) {
    if let Some(last) = runs.last_mut()
        && last.fresh == m.fresh
        && last.disk.map(|d| d + last.len) == m.disk
    {
        last.len += m.len;
        return;
    }
    runs.push(m);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_runs_join() {
        let mut runs = Vec::new();
        let m = |file, len, disk, fresh| Mapping { file, len, disk, fresh };
        push(&mut runs, m(0, 1, Some(10), false));
        push(&mut runs, m(1, 1, Some(11), false));
        push(&mut runs, m(2, 1, Some(12), true));
        push(&mut runs, m(3, 1, None, false));
        push(&mut runs, m(4, 2, None, false));
        push(&mut runs, m(6, 1, Some(1), false));
        let want = [
            m(0, 2, Some(10), false),
            m(2, 1, Some(12), true),
            m(3, 3, None, false),
            m(6, 1, Some(1), false),
        ];
        assert_eq!(runs, want);
    }
}
