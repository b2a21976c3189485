//! Freed space that may not be given out yet.
//!
//! A freed block becomes allocatable when (a) under `reuse = after_barrier`, the epoch that freed
//! it is durable, and (b) no data step or live read that started before still covers it. The crash
//! case: a block given to a new file before the old file's pointer to it was durably cleared
//! belongs to two files after power loss, and a checker can only guess whose bytes it holds.
//!
//! With discards it is told to the device when it would become allocatable, and is allocatable when
//! that is done: a discard that came later would take the new owner's bytes, one that came earlier
//! those of a file that a power loss brings back.

use crate::epoch::Epoch;
use crate::{Extent, Ino};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Held {
    len: u64,
    /// Must be durable first; `None` under `reuse = at_once`.
    epoch: Option<Epoch>,
    /// I/O tokens up to this one must have ended.
    fence: u64,
    /// Handed out to be discarded; held until that is done.
    discarding: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    blocks: BTreeMap<u64, Held>,
    inodes: BTreeMap<Ino, Epoch>,
    live: BTreeSet<u64>,
    next_token: u64,
    /// Freed blocks are discarded; these wait for it.
    discards: Option<Vec<Extent>>,
    /// Free blocks held here, for statfs and the allocator's verdict.
    pub(crate) held_blocks: u64,
}

impl Pending {
    /// A token for I/O that reaches blocks outside the metadata cache.
    pub(crate) fn begin_io(&mut self) -> u64 {
        self.next_token = self.next_token.saturating_add(1);
        self.live.insert(self.next_token);
        self.next_token
    }

    pub(crate) fn end_io(&mut self, token: u64, durable: Epoch) {
        self.live.remove(&token);
        self.release(durable);
    }

    pub(crate) fn hold_blocks(&mut self, run: Extent, epoch: Option<Epoch>) {
        if epoch.is_none() && self.live.is_empty() && self.discards.is_none() {
            return;
        }
        let held = Held { len: run.len, epoch, fence: self.next_token, discarding: false };
        if let Some(old) = self.blocks.insert(run.start, held) {
            self.held_blocks = self.held_blocks.saturating_sub(old.len);
        }
        self.held_blocks = self.held_blocks.saturating_add(run.len);
    }

    pub(crate) fn hold_inode(&mut self, ino: Ino, epoch: Option<Epoch>) {
        if let Some(e) = epoch {
            self.inodes.insert(ino, e);
        }
    }

    /// The first held block in `from..to`.
    pub(crate) fn next_block(&self, from: u64, to: u64) -> Option<u64> {
        if self.run_end(from).is_some() && from < to {
            return Some(from);
        }
        self.blocks.range(from..to.max(from)).next().map(|(s, _)| *s)
    }

    /// End of the held run that covers `block`.
    pub(crate) fn run_end(&self, block: u64) -> Option<u64> {
        let (start, h) = self.blocks.range(..=block).next_back()?;
        let end = start.saturating_add(h.len);
        (block < end).then_some(end)
    }

    pub(crate) fn has_inode(&self, ino: Ino) -> bool {
        self.inodes.contains_key(&ino)
    }

    /// True when nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.inodes.is_empty()
    }

    /// Freed blocks are discarded from now on, or not any more.
    pub(crate) fn set_discard(&mut self, on: bool) {
        self.discards = on.then(Vec::new);
        if !on {
            self.blocks.values_mut().for_each(|h| h.discarding = false);
        }
    }

    /// Takes what is to be discarded, neighbours together. It stays held until
    /// [`Pending::discarded`].
    pub(crate) fn take_discards(&mut self) -> Vec<Extent> {
        let mut list = self.discards.as_mut().map(core::mem::take).unwrap_or_default();
        list.sort_unstable_by_key(|r| r.start);
        let mut joined: Vec<Extent> = Vec::new();
        for run in list {
            match joined.last_mut() {
                Some(r) if r.start.saturating_add(r.len) == run.start => {
                    r.len = r.len.saturating_add(run.len);
                }
                _ => joined.push(run),
            }
        }
        joined
    }

    /// A run that was taken has been discarded, or cannot be.
    pub(crate) fn discarded(&mut self, run: Extent) {
        let end = run.start.saturating_add(run.len);
        let done: Vec<u64> = self.blocks.range(run.start..end).map(|(s, _)| *s).collect();
        for start in done {
            if self.blocks.get(&start).is_some_and(|h| h.discarding)
                && let Some(h) = self.blocks.remove(&start)
            {
                self.held_blocks = self.held_blocks.saturating_sub(h.len);
            }
        }
    }

    /// Lets go of what is safe now.
    pub(crate) fn release(&mut self, durable: Epoch) {
        if self.is_empty() {
            return;
        }
        let oldest = self.live.first().copied().unwrap_or(u64::MAX);
        let free: Vec<u64> = self
            .blocks
            .iter()
            .filter(|(_, h)| h.epoch.is_none_or(|e| e <= durable) && h.fence < oldest)
            .filter(|(_, h)| !h.discarding)
            .map(|(s, _)| *s)
            .collect();
        for start in free {
            if let Some(list) = &mut self.discards {
                if let Some(h) = self.blocks.get_mut(&start) {
                    h.discarding = true;
                    list.push(Extent { start, len: h.len });
                }
                continue;
            }
            if let Some(h) = self.blocks.remove(&start) {
                self.held_blocks = self.held_blocks.saturating_sub(h.len);
            }
        }
        self.inodes.retain(|_, e| *e > durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(p: &Pending, block: u64) -> bool {
        p.run_end(block).is_some()
    }

    #[test]
    fn where_held_runs_begin_and_end() {
        let mut p = Pending::default();
        p.hold_blocks(Extent { start: 10, len: 4 }, Some(Epoch(3)));
        p.hold_blocks(Extent { start: 20, len: 1 }, Some(Epoch(3)));
        assert_eq!((p.run_end(9), p.run_end(10), p.run_end(13)), (None, Some(14), Some(14)));
        assert_eq!((p.run_end(14), p.run_end(20)), (None, Some(21)));
        assert_eq!((p.next_block(0, 10), p.next_block(0, 11)), (None, Some(10)));
        assert_eq!((p.next_block(12, 30), p.next_block(14, 30)), (Some(12), Some(20)));
        assert_eq!((p.next_block(14, 20), p.next_block(20, 20)), (None, None));
    }

    #[test]
    fn held_until_durable_and_until_older_io_ended() {
        let mut p = Pending::default();
        let io = p.begin_io();
        p.hold_blocks(Extent { start: 10, len: 4 }, Some(Epoch(3)));
        p.hold_inode(Ino(7), Some(Epoch(3)));
        assert!(has(&p, 10) && has(&p, 13) && !has(&p, 14) && !has(&p, 9));
        p.release(Epoch(3));
        assert!(has(&p, 12), "a read that began before still covers it");
        assert!(!p.has_inode(Ino(7)));
        let later = p.begin_io();
        p.end_io(io, Epoch(3));
        assert!(!has(&p, 12), "the later read cannot know the block");
        p.end_io(later, Epoch(3));
        assert_eq!(p.held_blocks, 0);
    }

    #[test]
    fn what_is_discarded_is_held_until_that_is_done() {
        let mut p = Pending::default();
        p.set_discard(true);
        p.hold_blocks(Extent { start: 14, len: 2 }, Some(Epoch(3)));
        p.hold_blocks(Extent { start: 10, len: 4 }, Some(Epoch(3)));
        p.hold_blocks(Extent { start: 30, len: 1 }, Some(Epoch(4)));
        assert!(p.take_discards().is_empty());
        p.release(Epoch(3));
        let list = p.take_discards();
        assert_eq!(list, [Extent { start: 10, len: 6 }]);
        p.release(Epoch(3));
        assert!(p.take_discards().is_empty() && has(&p, 10) && has(&p, 15));
        p.discarded(list[0]);
        assert!(!has(&p, 10) && !has(&p, 15) && has(&p, 30));
        p.set_discard(false);
        p.release(Epoch(4));
        assert!(p.is_empty() && p.held_blocks == 0);
    }

    #[test]
    fn at_once_holds_only_under_live_io() {
        let mut p = Pending::default();
        p.hold_blocks(Extent { start: 1, len: 1 }, None);
        assert!(!has(&p, 1));
        let io = p.begin_io();
        p.hold_blocks(Extent { start: 1, len: 1 }, None);
        assert!(has(&p, 1));
        p.end_io(io, Epoch(0));
        assert!(!has(&p, 1));
    }
}
