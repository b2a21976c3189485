//! Block allocation: goal-directed, contiguous where the bitmap allows, group after group.
//!
//! A block whose bit is clear may still be pending: freed by a change that is not yet durable. Such
//! blocks are passed over, and when nothing else is left the operation waits for a barrier instead
//! of reporting a full volume.
//!
//! A bitmap is not trusted: a free bit on the group's own structures, or a freed block whose bit is
//! already clear, is `Corrupt` before any harm is done.

use crate::Ext2;
use crate::bitmap::{assign, clear_run, first_clear, first_clear_byte};
use crate::group::{Counts, Group};
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, BlockRef, Change, Extent, FsError, Ino, Site, Stage, Tx};

const WHAT: &str = "block bitmap";
/// Runs at least this long look for a whole clear byte before they take single bits.
const LONG_RUN: u64 = 8;

/// A search that passed over more pending runs (of inodes: bits) than this remembers where it
/// ended.
pub(crate) const PENDING_MANY: u64 = 64;

/// Key of the hint that says how far a group's block bitmap is all taken or pending.
fn skip_hint(group: u32) -> u64 {
    u64::from(group) << 8 | 3
}

/// Where a search may begin that would pass over many pending bits first. Valid for the second in
/// which it was set: pending space does not stay pending for long.
pub(crate) fn skipped(tx: &Tx<'_>, key: u64) -> u64 {
    let hint = tx.hint(key).unwrap_or(0);
    if hint >> 32 == second(tx) { hint & 0xFFFF_FFFF } else { 0 }
}

/// Remembers the bit at which such a search ended.
pub(crate) fn set_skipped(tx: &mut Tx<'_>, key: u64, bit: u64) {
    let hint = second(tx) << 32 | bit & 0xFFFF_FFFF;
    tx.set_hint(key, hint);
}

fn second(tx: &Tx<'_>) -> u64 {
    tx.now().secs.cast_unsigned() & 0xFFFF_FFFF
}

impl Ext2 {
    /// Where a file without blocks starts: its inode's group.
    pub(crate) fn home_goal(&self, ino: Ino) -> Attempt<u64> {
        let (group, _) = self.inode_group(ino)?;
        Ok(self.sb.group_start(group))
    }

    /// Allocates 1 to `want` blocks in one run, at or after `goal` where possible. For an open
    /// file's data ([`Tx::writer`]) from its window; others' windows are passed over until nothing
    /// else is left.
    pub(crate) fn alloc_run(&self, tx: &mut Tx<'_>, goal: u64, want: u64) -> Attempt<Extent> {
        let want = self.may_take(tx, want.max(1))?;
        let inside = goal >= self.sb.first_data_block && goal < self.sb.blocks;
        let goal = if inside { goal } else { self.sb.first_data_block };
        if tx.writer().is_some()
            && let Some(run) = self.alloc_window(tx, goal, want)?
        {
            return Ok(run);
        }
        let mut found = self.find_near(tx, goal, want)?;
        if found.is_none() {
            tx.ignore_windows();
            found = self.find_near(tx, goal, want)?;
        }
        let Some((g, run)) = found else { return Err(tx.no_space()) };
        self.take_run(tx, &g, run)?;
        Ok(run)
    }

    /// A usable run of at most `want` blocks, searched group after group from the goal's on.
    pub(crate) fn find_near(
        &self,
        tx: &mut Tx<'_>,
        goal: u64,
        want: u64,
    ) -> Attempt<Option<(Group, Extent)>> {
        let first = self.sb.group_of(goal);
        let mut seen = None;
        for n in 0..self.sb.groups {
            let index = (first + n) % self.sb.groups;
            if self.free_counts(tx, index, &mut seen)?.0 == 0 {
                continue;
            }
            let g = self.group(tx, index)?;
            let from = if n == 0 { goal - self.sb.group_start(index) } else { 0 };
            let want = want.clamp(1, u64::from(g.free_blocks));
            if let Some(run) = self.find_run(tx, &g, from, want)? {
                return Ok(Some((g, run)));
            }
        }
        Ok(None)
    }

    /// A clear run of one group, searched from bit `from` on and then from the group's start.
    fn find_run(
        &self,
        tx: &mut Tx<'_>,
        g: &Group,
        from: u64,
        want: u64,
    ) -> Attempt<Option<Extent>> {
        let map = self.block_map(tx, g)?;
        let bits = self.sb.group_end(g.index) - self.sb.group_start(g.index);
        // A search from the group's start has no place of its own to be near to.
        let from = if from == 0 { skipped(tx, skip_hint(g.index)).min(bits) } else { from };
        let base = self.sb.group_start(g.index);
        let at_goal =
            first_clear(&map, from, bits) == Some(from) && tx.pending_end(base + from).is_none();
        if want >= LONG_RUN && !at_goal {
            for (a, b) in [(from, bits), (0, from)] {
                if let Some(run) = self.usable(tx, g, &map, (a, b), want, first_clear_byte) {
                    return Ok(Some(run));
                }
            }
        }
        for (a, b) in [(from, bits), (0, from)] {
            if let Some(run) = self.usable(tx, g, &map, (a, b), want, first_clear) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The first run in `span` found by `find` that is not pending.
    fn usable(
        &self,
        tx: &mut Tx<'_>,
        g: &Group,
        map: &BlockRef,
        span: (u64, u64),
        want: u64,
        find: fn(&[u8], u64, u64) -> Option<u64>,
    ) -> Option<Extent> {
        let base = self.sb.group_start(g.index);
        let (mut at, to) = span;
        let mut pending = 0;
        while let Some(bit) = find(map, at, to) {
            if let Some(end) = tx.pending_end(base + bit) {
                pending += 1;
                at = end.saturating_sub(base).max(bit + 1);
                continue;
            }
            let clear = clear_run(map, bit, want.min(to - bit));
            let len = tx.before_pending(Extent { start: base + bit, len: clear });
            if pending > PENDING_MANY {
                set_skipped(tx, skip_hint(g.index), bit);
            }
            return Some(Extent { start: base + bit, len });
        }
        None
    }

    pub(crate) fn take_run(&self, tx: &mut Tx<'_>, g: &Group, run: Extent) -> Attempt<()> {
        if self.hits_metadata(g, run.start, run.len) {
            let what = "a block of the group's own structures is marked free";
            return Err(FsError::corrupt(WHAT, g.block_bitmap, what).into());
        }
        let change = Change { site: Site::Bitmap, stage: Stage::Init, owner: None };
        let map = tx.modify(g.block_bitmap, WHAT, change)?;
        let from = run.start - self.sb.group_start(g.index);
        if !assign(map, from, run.len, true)? {
            return Err(FsError::Bug("a block that was just found free is taken").into());
        }
        let blocks = -i64::try_from(run.len).unwrap_or(i64::MAX);
        self.count(tx, g.index, Counts { blocks, ..Counts::default() })
    }

    /// Gives back one run, which may span groups.
    pub(crate) fn free_run(&self, tx: &mut Tx<'_>, run: Extent) -> Attempt<()> {
        let mut at = run.start;
        let end = run.start + run.len;
        while at < end {
            let index = self.sb.group_of(at);
            let stop = end.min(self.sb.group_end(index));
            let g = self.group(tx, index)?;
            let part = Extent { start: at, len: stop.saturating_sub(at).max(1) };
            self.free_in_group(tx, &g, part)?;
            at += part.len;
        }
        Ok(())
    }

    fn free_in_group(&self, tx: &mut Tx<'_>, g: &Group, run: Extent) -> Attempt<()> {
        if self.hits_metadata(g, run.start, run.len) {
            let what = "a file owns a block of its group's structures";
            return Err(FsError::corrupt("block map", run.start, what).into());
        }
        if g.blocks_uninit {
            let what = "a block in use lies in a group that is not in use";
            return Err(FsError::corrupt("block map", run.start, what).into());
        }
        let change = Change { site: Site::Bitmap, stage: Stage::Free, owner: None };
        let map = tx.modify(g.block_bitmap, WHAT, change)?;
        if !assign(map, run.start - self.sb.group_start(g.index), run.len, false)? {
            let what = "a block in use is marked free";
            return Err(FsError::corrupt(WHAT, g.block_bitmap, what).into());
        }
        tx.free_blocks(run);
        let blocks = i64::try_from(run.len).unwrap_or(i64::MAX);
        self.count(tx, g.index, Counts { blocks, ..Counts::default() })
    }

    /// Gives back blocks in the order they are listed, runs together.
    pub(crate) fn free_list(&self, tx: &mut Tx<'_>, blocks: &[u64]) -> Attempt<()> {
        for run in runs_of(blocks) {
            self.free_run(tx, run)?;
        }
        Ok(())
    }

    /// A pointer of a file must name a block of the volume behind the superblock.
    pub(crate) fn check_pointer(&self, ptr: u64, at: u64) -> Result<(), FsError> {
        if ptr > self.sb.first_data_block && ptr < self.sb.blocks {
            return Ok(());
        }
        let what = alloc::format!("pointer {ptr} outside the volume");
        Err(FsError::corrupt("block map", at, what))
    }
}

/// Ascending neighbours joined.
pub(crate) fn runs_of(blocks: &[u64]) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for b in blocks {
        match runs.last_mut() {
            Some(r) if r.start + r.len == *b => r.len += 1,
            _ => runs.push(Extent { start: *b, len: 1 }),
        }
    }
    runs
}
