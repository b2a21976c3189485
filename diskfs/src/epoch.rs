//! Epochs: the order in which metadata reaches the disk.
//!
//! A dirty block belongs to a numbered epoch. Epochs are written in ascending order and the
//! policy's `boundary` stands between two of them. An operation's stages go to ascending epochs, so
//! a new inode is durable before its name, and a name is gone before its inode is reused. A stage
//! goes to the first epoch that is not older than any block it touches: a thousand creates in one
//! directory share two epochs.
//!
//! The crash case: with one barrier at the end of an operation a device may persist the directory
//! entry first and lose power; the entry then names an inode that was never written.

use alloc::collections::{BTreeMap, BTreeSet};
use seawall_blockdev::Seq;

/// Number of an epoch; higher is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after.
    pub fn next(self) -> Epoch {
        Epoch(self.0.saturating_add(1))
    }
}

/// What a change is to the order on disk, earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Needs no order: free counts, times. Goes with the block's newest version.
    Any,
    /// Must be there before anything points to it, and nothing reaches it yet: bitmap bits, a new
    /// inode, a new indirect block, an extension of a FAT chain. Such a change commutes with all
    /// others, so it goes to the oldest open epoch and is merged bit by bit into the block's
    /// younger versions.
    Init,
    /// Must be there before anything points to it, in something that is reached: a link count that
    /// a second name needs.
    Prepare,
    /// Makes something reachable: directory entry, block pointer, size.
    Link,
    /// Makes something unreachable.
    Unlink,
    /// Gives storage back: cleared bitmap bits, a freed inode or chain.
    Free,
}

/// Most epochs open before writeback starts.
pub const OPEN_EPOCHS_MAX: usize = 64;

/// Which blocks are dirty in which epoch.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    /// Lowest epoch that still takes changes; older ones are closed because a plan writes them.
    pub(crate) open: Epoch,
    sets: BTreeMap<Epoch, BTreeSet<u64>>,
    /// Sequence that covers each fully written epoch, until it is durable.
    written: BTreeMap<Epoch, Seq>,
    /// Every epoch up to and including this one is durable.
    pub(crate) durable: Epoch,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { open: Epoch(1), ..Self::default() }
    }

    /// Number of epochs that hold dirty blocks.
    pub(crate) fn count(&self) -> usize {
        self.sets.len()
    }

    pub(crate) fn insert(&mut self, epoch: Epoch, block: u64) {
        self.sets.entry(epoch).or_default().insert(block);
    }

    pub(crate) fn remove(&mut self, epoch: Epoch, block: u64) {
        if let Some(set) = self.sets.get_mut(&epoch) {
            set.remove(&block);
            if set.is_empty() {
                self.sets.remove(&epoch);
            }
        }
    }

    /// Closes every epoch up to `upto`: later changes go to younger ones.
    pub(crate) fn close(&mut self, upto: Epoch) {
        self.open = self.open.max(upto.next());
    }

    /// The newest epoch that holds a dirty block, or the one before `open` when none does.
    pub(crate) fn newest(&self) -> Epoch {
        let last = Epoch(self.open.0.saturating_sub(1));
        self.sets.last_key_value().map_or(last, |(e, _)| last.max(*e))
    }

    /// The oldest epoch with dirty blocks, if it is not younger than `upto`.
    pub(crate) fn oldest(&self, upto: Epoch) -> Option<Epoch> {
        self.sets.keys().next().copied().filter(|e| *e <= upto)
    }

    /// Blocks of an epoch, ascending, from `from` on.
    pub(crate) fn blocks(&self, epoch: Epoch, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.sets.get(&epoch).into_iter().flat_map(move |s| s.range(from..).copied())
    }

    /// Blocks of every epoch, in epoch order, for policies without order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Epoch, u64)> + '_ {
        self.sets.iter().flat_map(|(e, s)| s.iter().map(move |b| (*e, *b)))
    }

    /// Notes that everything up to `epoch` was written and is covered by `seq`.
    pub(crate) fn note_written(&mut self, epoch: Epoch, seq: Seq) {
        if epoch > self.durable {
            self.written.insert(epoch, seq);
        }
    }

    /// Sequence that covers every written epoch up to `upto` that is not known to be durable.
    pub(crate) fn covering(&self, upto: Epoch) -> Seq {
        self.written.range(..=upto).map(|(_, s)| *s).max().unwrap_or_default()
    }

    /// Moves the durable mark after a Sync. Returns true when it moved.
    pub(crate) fn note_durable(&mut self, seq: Seq) -> bool {
        let before = self.durable;
        while let Some((e, s)) = self.written.first_key_value().map(|(e, s)| (*e, *s)) {
            if s > seq {
                break;
            }
            self.durable = self.durable.max(e);
            self.written.remove(&e);
        }
        self.durable != before
    }

    /// After a failed flush nothing written since is known to be durable: forget those notes.
    pub(crate) fn forget_written(&mut self) {
        self.written.clear();
    }
}
