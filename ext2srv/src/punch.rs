//! Holes made in a file: the blocks of a range go, the size stays.
//!
//! A step clears the pointers of one indirect block (or the direct ones) at `Unlink` and gives the
//! blocks back at `Free`, as a truncation does, and for the same reason: a block that is given out
//! again before its old pointer is durably gone has two owners. An indirect block that has nothing
//! left goes with it. Every step is a consistent file with a part of the hole.

use crate::Ext2;
use crate::blockmap::{DIRECT, indirect};
use crate::inode::Inode;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u32_at};
use seawall_diskfs::{Attempt, Extent, FsError, Ino, Refused, Stage, Tx};

const WHAT: &str = "indirect block";

impl Ext2 {
    /// See [`seawall_diskfs::Format::punch_step`].
    pub(crate) fn punch(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Option<u64>> {
        let mut inode = self.inode(tx, ino)?;
        if !inode.has_map(self.sectors()) {
            return Err(Refused::Invalid.into());
        }
        let end = range.start.saturating_add(range.len);
        let mut at = range.start;
        while at < end {
            let chain = self.chain(tx, &inode, at)?;
            let stop = end.min(at.saturating_add(chain.cover));
            let freed = self.clear(tx, ino, &mut inode, &chain, (at, stop))?;
            at = stop;
            if freed.is_empty() {
                continue;
            }
            let units = freed.len() as u64 * self.sectors();
            inode.sectors = inode.sectors.saturating_sub(units);
            inode.mtime = tx.now();
            inode.ctime = tx.now();
            tx.touch(ino);
            self.put_inode(tx, ino, &inode, Stage::Unlink)?;
            self.free_list(tx, &freed)?;
            return Ok((at < end).then_some(at));
        }
        Ok(None)
    }

    /// The indirect blocks on the way to file block `at`.
    fn chain(&self, tx: &mut Tx<'_>, inode: &Inode, at: u64) -> Attempt<Chain> {
        let Some(path) = self.path(at) else {
            return Ok(Chain { slot: 0, blocks: Vec::new(), cover: u64::MAX, hole: true });
        };
        let slot = path.slot;
        let mut chain =
            Chain { slot, blocks: Vec::new(), cover: DIRECT - at.min(DIRECT), hole: false };
        let (mut ptr, mut holder) = (inode.block.get(slot).copied().unwrap_or(0), 0);
        let mut rest = path.rest;
        for height in (1..=path.depth).rev() {
            if ptr == 0 {
                return Ok(Chain { cover: self.span(height) - rest, hole: true, ..chain });
            }
            let block = u64::from(ptr);
            self.check_pointer(block, holder)?;
            let below = self.span(height - 1);
            let index = (rest / below) as usize;
            chain.blocks.push((block, index));
            chain.cover = self.pointers() - index as u64;
            ptr = u32_at(&tx.read(block, WHAT)?, index * 4)?;
            holder = block;
            rest %= below;
        }
        Ok(chain)
    }

    /// Clears the pointers of file blocks `at..stop`, which one block holds. Returns what they
    /// pointed to, and indirect blocks without any pointer left.
    fn clear(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        chain: &Chain,
        (at, stop): (u64, u64),
    ) -> Attempt<Vec<u64>> {
        let mut freed = Vec::new();
        let Some((leaf, above)) = chain.blocks.split_last() else {
            if chain.hole {
                return Ok(freed);
            }
            let slots = inode.block.iter_mut().take(stop as usize).skip(at as usize);
            for p in slots.filter(|p| **p != 0) {
                self.check_pointer(u64::from(*p), 0)?;
                freed.push(u64::from(core::mem::take(p)));
            }
            return Ok(freed);
        };
        let (block, first) = *leaf;
        // In a hole the block has no pointer there; it may have none at all.
        let last = if chain.hole { first } else { first + (stop - at) as usize };
        let b = tx.read(block, WHAT)?;
        let mut left = false;
        for i in 0..self.pointers() as usize {
            let p = u64::from(u32_at(&b, i * 4)?);
            if p != 0 && (first..last).contains(&i) {
                self.check_pointer(p, block)?;
                freed.push(p);
            } else {
                left |= p != 0;
            }
        }
        if freed.is_empty() && left {
            return Ok(freed);
        }
        if left {
            let b = tx.modify(block, WHAT, indirect(ino, Stage::Unlink))?;
            for i in first..last {
                put(b, i * 4, &0u32.to_le_bytes())?;
            }
        } else {
            freed.push(block);
            self.clear_above(tx, ino, inode, chain.slot, above, &mut freed)?;
        }
        freed.sort_unstable();
        Ok(freed)
    }

    /// Takes the pointer to an indirect block that goes out of the one above, which goes too when
    /// that was its last.
    fn clear_above(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        slot: usize,
        above: &[(u64, usize)],
        freed: &mut Vec<u64>,
    ) -> Attempt<()> {
        for (block, index) in above.iter().rev() {
            let b = tx.read(*block, WHAT)?;
            let mut others = (0..self.pointers() as usize).filter(|i| i != index);
            if others.any(|i| u32_at(&b, i * 4).is_ok_and(|p| p != 0)) {
                let b = tx.modify(*block, WHAT, indirect(ino, Stage::Unlink))?;
                return Ok(put(b, index * 4, &0u32.to_le_bytes())?);
            }
            freed.push(*block);
        }
        let p = inode.block.get_mut(slot).ok_or(FsError::Bug("a block map without its slot"))?;
        *p = 0;
        Ok(())
    }
}

/// Where the pointers around a file block stand.
struct Chain {
    slot: usize,
    /// Indirect block and the index followed in it, from the inode down.
    blocks: Vec<(u64, usize)>,
    /// File blocks from the one asked for that the same block, or the hole, covers.
    cover: u64,
    hole: bool,
}
