//! Windows: where an open file's next blocks come from.
//!
//! A file's first blocks get a window in its group, four times what the write needs. When it is
//! used up the next one, four times as large, comes right behind it where that is free. Otherwise a
//! small file looks near by; one of [`LARGE`] bytes goes where no other file is growing: the middle
//! of the longest row of groups without windows. So files that grow side by side have a group each,
//! and files that stay small stay together.

use crate::Ext2;
use crate::bitmap::clear_run;
use crate::group::Group;
use seawall_diskfs::{Attempt, Extent, Tx};

/// Blocks of a first window, at least.
const FIRST: u64 = 16;
/// Growth from one window to the next.
const GROWTH: u64 = 4;
/// Largest window, bytes.
const MOST: u64 = 32 << 20;
/// Windows of this many bytes are for files that are kept apart.
const LARGE: u64 = 1 << 20;
/// Most groups looked at for a row without windows.
const GROUPS: u32 = 1024;

impl Ext2 {
    /// Allocates for the writer in its window, or in a new one. `None`: the goal is not where its
    /// window is, or there is no room for one.
    pub(crate) fn alloc_window(
        &self,
        tx: &mut Tx<'_>,
        goal: u64,
        want: u64,
    ) -> Attempt<Option<Extent>> {
        let (window, last) = tx.window();
        if let Some(w) = window {
            if w.start != goal {
                // A write elsewhere in the file: its blocks are placed by their neighbours.
                return Ok(None);
            }
            if let Some((g, run)) = self.run_at(tx, w.start, want.min(w.len))? {
                self.take_run(tx, &g, run)?;
                let left = Extent { start: w.start + run.len, len: w.len - run.len };
                tx.set_window(left, last);
                return Ok(Some(run));
            }
        }
        let bytes = self.block_bytes();
        let most = (MOST / bytes).min(self.sb.blocks / 32).max(FIRST);
        let size = (last.max(want) * GROWTH).clamp(FIRST, most).max(want);
        let found = match self.run_at(tx, goal, size)? {
            Some(here) => Some(here),
            None => {
                let far = last * bytes >= LARGE;
                let goal = if far { self.apart(tx, goal)? } else { goal };
                self.find_near(tx, goal, size)?
            }
        };
        let Some((g, free)) = found else { return Ok(None) };
        let run = Extent { start: free.start, len: free.len.min(want) };
        self.take_run(tx, &g, run)?;
        tx.set_window(Extent { start: run.start + run.len, len: free.len - run.len }, size);
        Ok(Some(run))
    }

    /// The usable run of at most `want` blocks that begins at `start`.
    fn run_at(&self, tx: &mut Tx<'_>, start: u64, want: u64) -> Attempt<Option<(Group, Extent)>> {
        let index = self.sb.group_of(start);
        let (base, end) = (self.sb.group_start(index), self.sb.group_end(index));
        if start >= end || want == 0 {
            return Ok(None);
        }
        let g = self.group(tx, index)?;
        let map = self.block_map(tx, &g)?;
        let clear = clear_run(&map, start - base, want.min(end - start));
        let len = tx.before_pending(Extent { start, len: clear });
        Ok((len > 0).then_some((g, Extent { start, len })))
    }

    /// Where a large file goes on that cannot go on at `goal`: there, when no other file is growing
    /// in that group, else in the middle of the longest row of groups of which that is true.
    fn apart(&self, tx: &mut Tx<'_>, goal: u64) -> Attempt<u64> {
        let home = self.sb.group_of(goal);
        if self.is_quiet(tx, home)? {
            return Ok(goal);
        }
        let (mut best, mut row) = ((0, 0), (0, 0));
        for n in 0..self.sb.groups.min(GROUPS) {
            let index = (home + n) % self.sb.groups;
            let joined = row.1 > 0 && row.0 + row.1 == index;
            if !self.is_quiet(tx, index)? {
                row = (0, 0);
                continue;
            }
            row = if joined { (row.0, row.1 + 1) } else { (index, 1) };
            if row.1 > best.1 {
                best = row;
            }
        }
        let (first, len) = best;
        Ok(if len == 0 { goal } else { self.sb.group_start(first + len / 2) })
    }

    /// No other file's window lies in the group, and a quarter of it is free.
    fn is_quiet(&self, tx: &mut Tx<'_>, index: u32) -> Attempt<bool> {
        let (start, end) = (self.sb.group_start(index), self.sb.group_end(index));
        if tx.first_foreign(start, end).is_some() {
            return Ok(false);
        }
        let mut seen = None;
        let (free, _) = self.free_counts(tx, index, &mut seen)?;
        Ok(u64::from(free) > (end - start) / 4)
    }
}
