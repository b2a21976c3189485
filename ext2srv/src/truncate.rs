//! Shrinking a file in bounded steps from its end.
//!
//! A step clears the pointers behind some file block, lowers the size to that block in the same
//! stage (`Unlink`), and gives the blocks back after it (`Free`). The crash cases: blocks past the
//! size are an error to a checker, so the size never stays above what a step frees; a block that is
//! given out again before its old pointer is durably gone has two owners.
//!
//! A file without names is unreachable already, so all of its pieces go at `Free`: removing a
//! thousand files takes the same few epochs as removing one.

use crate::Ext2;
use crate::blockmap::{DIRECT, indirect};
use crate::inode::Inode;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u32_at};
use seawall_diskfs::{Attempt, FsError, Ino, Kind, Refused, Stage, Tx};

const WHAT: &str = "indirect block";

/// Where a shrinking file ends, and the stage of what makes its tail unreachable.
#[derive(Clone, Copy)]
struct Cut {
    block: u64,
    stage: Stage,
}

/// A chain of indirect blocks from a slot of the inode down to one that can be cleared.
struct Branch {
    slot: usize,
    /// Block, the index followed in it, file block where its range starts.
    blocks: Vec<(u64, usize, u64)>,
}

impl Ext2 {
    /// See [`seawall_diskfs::Format::truncate_step`].
    pub(crate) fn shrink_or_grow(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<bool> {
        let mut inode = self.inode(tx, ino)?;
        if !inode.has_map(self.sectors()) {
            return Ok(false);
        }
        if size > self.size_max() {
            return Err(Refused::FileTooBig.into());
        }
        tx.touch(ino);
        let now = tx.now();
        inode.mtime = now;
        inode.ctime = now;
        if size > inode.size {
            inode.size = size;
            self.put_inode(tx, ino, &inode, Stage::Link)?;
            self.note_size(tx, &inode)?;
            return Ok(false);
        }
        tx.drop_window(ino);
        let stage = if inode.links == 0 { Stage::Free } else { Stage::Unlink };
        let cut = Cut { block: size.div_ceil(self.block_bytes()), stage };
        let mut freed = Vec::new();
        let more = loop {
            let before = freed.len();
            let Some(floor) = self.free_last(tx, ino, &mut inode, cut, &mut freed)? else {
                inode.size = size;
                break false;
            };
            inode.size = inode.size.min(size.max(floor * self.block_bytes()));
            if freed.len() == before {
                return Err(FsError::Bug("a truncate step freed nothing").into());
            }
            if freed.len() as u64 >= self.pointers() {
                break true;
            }
        };
        let units = freed.len() as u64 * self.sectors();
        inode.sectors = inode.sectors.saturating_sub(units);
        if inode.kind == Kind::Dir {
            tx.dir_changed(ino);
        }
        self.put_inode(tx, ino, &inode, stage)?;
        freed.sort_unstable();
        self.free_list(tx, &freed)?;
        Ok(more)
    }

    /// Clears the last pointers at or behind file block `cut`: those of one indirect block, or the
    /// direct ones. Returns the file block down to which nothing is mapped now, or `None` when
    /// nothing was there.
    fn free_last(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        cut: Cut,
        freed: &mut Vec<u64>,
    ) -> Attempt<Option<u64>> {
        let mut base = DIRECT + self.span(1) + self.span(2);
        for depth in [3, 2, 1] {
            if base + self.span(depth) > cut.block
                && let Some(branch) = self.last_branch(tx, inode, depth, base, cut.block)?
            {
                return self.clear_branch(tx, ino, inode, &branch, cut, freed).map(Some);
            }
            base -= if depth > 1 { self.span(depth - 1) } else { 0 };
        }
        let mut any = false;
        for p in inode.block.iter_mut().take(DIRECT as usize).skip(cut.block.min(DIRECT) as usize) {
            if *p != 0 {
                self.check_pointer(u64::from(*p), 0)?;
                freed.push(u64::from(*p));
                *p = 0;
                any = true;
            }
        }
        Ok(any.then_some(cut.block))
    }

    /// Follows the last pointers of a slot's tree down to an indirect block that has something to
    /// clear: pointers to data behind `cut`, or nothing at all in a range behind `cut`.
    fn last_branch(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        depth: u32,
        base: u64,
        cut: u64,
    ) -> Attempt<Option<Branch>> {
        let slot = 11 + depth as usize;
        let mut ptr = inode.block.get(slot).copied().unwrap_or(0);
        if ptr == 0 {
            return Ok(None);
        }
        let mut branch = Branch { slot, blocks: Vec::new() };
        let mut start = base;
        let mut holder = 0;
        for height in (1..=depth).rev() {
            let block = u64::from(ptr);
            self.check_pointer(block, holder)?;
            let buf = tx.read(block, WHAT)?;
            let below = self.span(height - 1);
            // The first entry whose range reaches past the cut.
            let low = (cut.saturating_sub(start) / below) as usize;
            let last = (low..self.pointers() as usize).rev().find_map(|i| {
                let p = u32_at(&buf, i * 4).unwrap_or(0);
                (p != 0).then_some((i, p))
            });
            let Some((index, next)) = last else {
                // Empty: goes as a whole when all of its range is behind the cut.
                branch.blocks.push((block, 0, start));
                return Ok((start >= cut).then_some(branch));
            };
            branch.blocks.push((block, index, start));
            start += index as u64 * below;
            ptr = next;
            holder = block;
        }
        Ok(Some(branch))
    }

    /// Clears the last block of a branch behind `cut`; the block goes too when its whole range is
    /// behind it.
    fn clear_branch(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        branch: &Branch,
        cut: Cut,
        freed: &mut Vec<u64>,
    ) -> Attempt<u64> {
        let lost = FsError::Bug("an empty branch of the block map");
        let ((block, _, start), above) = branch.blocks.split_last().ok_or(lost)?;
        let first = cut.block.saturating_sub(*start) as usize;
        let buf = tx.read(*block, WHAT)?;
        // A block higher up is cleared only when it is empty: it has nothing to give back.
        for i in first..self.pointers() as usize {
            let p = u64::from(u32_at(&buf, i * 4)?);
            if p != 0 {
                self.check_pointer(p, *block)?;
                freed.push(p);
            }
        }
        if *start >= cut.block {
            freed.push(*block);
            match above.last() {
                None => {
                    if let Some(p) = inode.block.get_mut(branch.slot) {
                        *p = 0;
                    }
                }
                Some((holder, index, _)) => {
                    let buf = tx.modify(*holder, WHAT, indirect(ino, cut.stage))?;
                    put(buf, index * 4, &0u32.to_le_bytes())?;
                }
            }
            return Ok(*start);
        }
        let buf = tx.modify(*block, WHAT, indirect(ino, cut.stage))?;
        for i in first..self.pointers() as usize {
            put(buf, i * 4, &0u32.to_le_bytes())?;
        }
        Ok(cut.block)
    }
}
