//! Free clusters: counting, finding, taking and giving back.
//!
//! A cluster whose entry is 0 may still be pending: freed by a change that is not yet durable. Such
//! clusters are passed over, and when nothing else is left the operation waits for a barrier
//! instead of reporting a full volume.
//!
//! How many are free is counted from the table, once, part by part, and kept from then on. What
//! FSINFO says is not believed: it is often wrong on media that were pulled out.

use crate::Fat;
use crate::boot::FIRST_CLUSTER;
use crate::table::{Entry, Reader};
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, Change, Extent, Ino, Site, Stage, Tx};

/// Clusters of a part of the table that has a count of its own.
const PART: u32 = 8192;
/// Memo space: free clusters of a part, and the lowest that may be free.
const SPACE_PART: u8 = 1;
/// Memo space: free clusters of the volume.
const SPACE_TOTAL: u8 = 2;
/// Key of the hint that says where the last search ended.
const HINT_NEXT: u64 = 1;
/// Blocks of a first window, at least; growth from one window to the next; the largest, bytes.
const WINDOW_FIRST: u64 = 16;
const WINDOW_GROWTH: u64 = 4;
const WINDOW_MOST: u64 = 32 << 20;

/// Clusters in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clusters {
    pub(crate) first: u32,
    pub(crate) len: u32,
}

impl Clusters {
    pub(crate) fn last(self) -> u32 {
        self.first + self.len - 1
    }
}

impl Fat {
    fn part_of(cluster: u32) -> u64 {
        u64::from((cluster - FIRST_CLUSTER) / PART)
    }

    fn part_range(&self, part: u64) -> (u32, u32) {
        let first = FIRST_CLUSTER + u32::try_from(part).unwrap_or(u32::MAX).saturating_mul(PART);
        (first, first.saturating_add(PART).min(self.boot.cluster_end()))
    }

    fn parts(&self) -> u64 {
        u64::from(self.boot.clusters.div_ceil(PART))
    }

    /// Free clusters of a part, and the lowest that may be free.
    fn part(&self, tx: &mut Tx<'_>, part: u64) -> Attempt<(u32, u32)> {
        if let Some([free, low, ..]) = tx.memo(SPACE_PART, part) {
            return Ok((free as u32, low as u32));
        }
        let (first, end) = self.part_range(part);
        let (mut free, mut low) = (0u32, end);
        let mut reader = Reader::default();
        for c in first..end {
            if reader.raw(self, tx, c)? == 0 {
                free += 1;
                low = low.min(c);
            }
        }
        tx.learn(SPACE_PART, part, [u64::from(free), u64::from(low), 0, 0]);
        Ok((free, low))
    }

    /// Free clusters of the volume, pending ones among them.
    pub(crate) fn free_total(&self, tx: &mut Tx<'_>) -> Attempt<u32> {
        if let Some([free, ..]) = tx.memo(SPACE_TOTAL, 0) {
            return Ok(free as u32);
        }
        let mut free = 0u32;
        for part in 0..self.parts() {
            free += self.part(tx, part)?.0;
        }
        tx.learn(SPACE_TOTAL, 0, [u64::from(free), 0, 0, 0]);
        Ok(free)
    }

    /// Where the last search ended.
    pub(crate) fn next_cluster(&self, tx: &Tx<'_>) -> u32 {
        let hint = tx.hint(HINT_NEXT).and_then(|v| u32::try_from(v).ok());
        let inside = |c: &u32| self.boot.cluster_start(*c).is_some();
        hint.or(self.next_at_open).filter(inside).unwrap_or(FIRST_CLUSTER)
    }

    /// Where the next search begins.
    pub(crate) fn set_next_cluster(&self, tx: &mut Tx<'_>, cluster: u32) {
        tx.set_hint(HINT_NEXT, u64::from(cluster));
    }

    /// Notes that clusters of one part were taken or given back.
    fn count(&self, tx: &mut Tx<'_>, run: Clusters, taken: bool) {
        let change = |v: u64, n: u32| match taken {
            true => v.saturating_sub(u64::from(n)),
            false => v.saturating_add(u64::from(n)),
        };
        if let Some([free, ..]) = tx.memo(SPACE_TOTAL, 0) {
            tx.set_memo(SPACE_TOTAL, 0, Some([change(free, run.len), 0, 0, 0]));
        }
        let mut at = run.first;
        let end = run.first + run.len;
        while at < end {
            let part = Self::part_of(at);
            let stop = self.part_range(part).1.min(end).max(at + 1);
            if let Some([free, low, ..]) = tx.memo(SPACE_PART, part) {
                let low = match taken {
                    true if low >= u64::from(at) => low.max(u64::from(stop)),
                    true => low,
                    false => low.min(u64::from(at)),
                };
                let free = change(free, stop - at);
                tx.set_memo(SPACE_PART, part, Some([free, low, 0, 0]));
            }
            at = stop;
        }
    }

    /// The usable run of at most `want` clusters that begins at `first`.
    fn run_at(&self, tx: &mut Tx<'_>, first: u32, want: u32) -> Attempt<Option<Clusters>> {
        let Some(start) = self.boot.cluster_start(first) else { return Ok(None) };
        let mut reader = Reader::default();
        let end = self.boot.cluster_end().min(first.saturating_add(want));
        let mut at = first;
        while at < end && reader.raw(self, tx, at)? == 0 {
            at += 1;
        }
        let blocks = self.boot.cluster_blocks();
        let start = start / u64::from(self.boot.block_size);
        let free = u64::from(at - first);
        let usable = tx.before_pending(Extent { start, len: free * blocks }) / blocks;
        let len = u32::try_from(usable).unwrap_or(0);
        Ok((len > 0).then_some(Clusters { first, len }))
    }

    /// A usable run of at most `want` clusters, the first at or after `from`, then from the start.
    fn find(&self, tx: &mut Tx<'_>, from: u32, want: u32) -> Attempt<Option<Clusters>> {
        let parts = self.parts();
        let home = Self::part_of(from);
        for n in 0..=parts {
            let part = (home + n) % parts;
            let (free, low) = self.part(tx, part)?;
            if free == 0 {
                continue;
            }
            let (first, end) = self.part_range(part);
            let (at, stop) = match n {
                0 => (from.max(low), end),
                n if n == parts => (low.max(first), from.min(end)),
                _ => (low.max(first), end),
            };
            if let Some(run) = self.find_in(tx, at, stop, want)? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    fn find_in(
        &self,
        tx: &mut Tx<'_>,
        from: u32,
        end: u32,
        want: u32,
    ) -> Attempt<Option<Clusters>> {
        let mut reader = Reader::default();
        let bs = u64::from(self.boot.block_size);
        let mut at = from;
        while at < end {
            if reader.raw(self, tx, at)? != 0 {
                at += 1;
                continue;
            }
            let Some(start) = self.boot.cluster_start(at) else { return Ok(None) };
            if let Some(pending) = tx.pending_end(start / bs) {
                let bytes = pending.saturating_mul(bs).saturating_sub(self.boot.data_start);
                let cluster = (bytes / u64::from(self.boot.cluster)) as u32;
                at = cluster.saturating_add(FIRST_CLUSTER).max(at + 1);
                continue;
            }
            return self.run_at(tx, at, want);
        }
        Ok(None)
    }

    /// Finds 1 to `want` clusters in a row, at `goal` where possible, and marks them taken: each
    /// leads to the next one, the last is a chain's end. Nothing leads to the first yet.
    pub(crate) fn take(
        &self,
        tx: &mut Tx<'_>,
        owner: Ino,
        goal: Option<u32>,
        want: u32,
    ) -> Attempt<Clusters> {
        let run = match self.find_windowed(tx, goal, want)? {
            Some(run) => run,
            None => {
                tx.ignore_windows();
                let next = self.next_cluster(tx);
                self.find(tx, next, want)?.ok_or_else(|| tx.no_space())?
            }
        };
        let change = Change { site: Site::FatTable, stage: Stage::Init, owner: Some(owner) };
        let (last, end) = (run.last(), self.end_mark());
        self.set_entries(tx, run.first, run.len, change, |c| if c == last { end } else { c + 1 })?;
        self.count(tx, run, true);
        Ok(run)
    }

    /// As [`Fat::find`], for an open file's data from its window. Others' windows are passed over.
    fn find_windowed(
        &self,
        tx: &mut Tx<'_>,
        goal: Option<u32>,
        want: u32,
    ) -> Attempt<Option<Clusters>> {
        let next = self.next_cluster(tx);
        let at_goal = match goal {
            Some(g) => self.run_at(tx, g, want)?,
            None => None,
        };
        if tx.writer().is_none() {
            let found = match at_goal {
                Some(run) => Some(run),
                None => self.find(tx, next, want)?,
            };
            if let Some(run) = found.filter(|_| goal.is_none()) {
                self.set_next_cluster(tx, run.last() + 1);
            }
            return Ok(found);
        }
        let per = self.boot.cluster_blocks();
        let (window, size) = tx.window();
        if let (Some(w), Some(run)) = (window, at_goal)
            && self.block_of(run.first) == Some(w.start)
        {
            let used = u64::from(run.len) * per;
            let left = w.len.saturating_sub(used);
            tx.set_window(Extent { start: w.start + used, len: left }, size);
            return Ok(Some(run));
        }
        let blocks = u64::from(want).saturating_mul(per);
        let most = (WINDOW_MOST / u64::from(self.boot.block_size)).max(per);
        let most = most.min(self.boot.blocks() / 32).max(WINDOW_FIRST);
        let grown = size.max(blocks).saturating_mul(WINDOW_GROWTH);
        let size = grown.clamp(WINDOW_FIRST, most).max(blocks);
        let clusters = u32::try_from(size.div_ceil(per)).unwrap_or(u32::MAX);
        let found = match (goal, at_goal) {
            (Some(g), Some(_)) => self.run_at(tx, g, clusters)?,
            _ => self.find(tx, next, clusters)?,
        };
        let Some(free) = found else { return Ok(None) };
        let run = Clusters { first: free.first, len: free.len.min(want) };
        let start = self.block_of(run.last() + 1).unwrap_or(self.boot.blocks());
        let left = u64::from(free.len - run.len) * per;
        tx.set_window(Extent { start, len: left }, size);
        self.set_next_cluster(tx, free.last() + 1);
        Ok(Some(run))
    }

    /// First block of a cluster.
    pub(crate) fn block_of(&self, cluster: u32) -> Option<u64> {
        self.boot.cluster_start(cluster).map(|b| b / u64::from(self.boot.block_size))
    }

    /// Gives back at most `most` clusters of a chain that nothing leads to any more, from `first`
    /// on. Returns where the rest begins. A chain that is damaged ends where it is: what follows
    /// belongs to somebody else, or to nobody.
    pub(crate) fn give_back(
        &self,
        tx: &mut Tx<'_>,
        owner: Ino,
        first: u32,
        most: u32,
    ) -> Attempt<Option<u32>> {
        let mut runs: Vec<Clusters> = Vec::new();
        let mut reader = Reader::default();
        let (mut at, mut rest, mut count) = (first, None, 0u32);
        while self.boot.cluster_start(at).is_some() {
            let value = reader.raw(self, tx, at)?;
            let entry = self.entry_of(value);
            // A loop: this cluster is in the list already.
            let again = |r: &Clusters| at >= r.first && at - r.first < r.len;
            if matches!(entry, None | Some(Entry::Free | Entry::Bad)) || runs.iter().any(again) {
                break;
            }
            if count == most {
                rest = Some(at);
                break;
            }
            count += 1;
            match runs.last_mut() {
                Some(r) if r.first + r.len == at => r.len += 1,
                _ => runs.push(Clusters { first: at, len: 1 }),
            }
            let Some(Entry::Next(next)) = entry else { break };
            at = next;
        }
        let change = Change { site: Site::FatTable, stage: Stage::Free, owner: Some(owner) };
        tx.frees_of(owner);
        let per = self.boot.cluster_blocks();
        for run in runs {
            self.set_entries(tx, run.first, run.len, change, |_| 0)?;
            if let Some(start) = self.block_of(run.first) {
                tx.free_blocks(Extent { start, len: u64::from(run.len) * per });
            }
            self.count(tx, run, false);
        }
        Ok(rest)
    }
}
