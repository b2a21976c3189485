//! A file's size and its chain.
//!
//! A file grows from its end: new clusters, then the chain to them, then the size. It shrinks the
//! other way: the size, then the end of the chain, then what was cut off is given back in steps.
//! Power loss in between leaves a chain that is longer than the size, or clusters that belong to
//! nobody; a checker gives both back. The size is never longer than the chain, and no chain leads
//! to a free cluster.

use crate::Fat;
use crate::chain::Walked;
use crate::entry::ATTR_ARCHIVE;
use crate::node::{Node, Place};
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, Change, Extent, FsError, Ino, Mapping, Refused, Site, Stage, Tx};

/// Largest file, bytes.
pub(crate) const SIZE_MAX: u64 = u32::MAX as u64;
/// Clusters that one step gives back.
const STEP: u32 = 4096;
/// Memo space: what was cut off a file and is not given back yet.
const SPACE_CUT: u8 = 24;

impl Fat {
    /// A file's node. `Invalid` for a directory.
    fn file(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Node> {
        let node = self.node(tx, ino)?;
        if node.raw.is_dir() { Err(Refused::Invalid.into()) } else { Ok(node) }
    }

    /// Maps file blocks. Blocks past the chain are holes past the size, and damage before it.
    pub(crate) fn map_chain(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        let per = self.boot.cluster_blocks();
        let start = self.start(&node.raw);
        let mut out: Vec<Mapping> = Vec::new();
        let mut at = range.start;
        let end = range.start.saturating_add(range.len);
        while at < end {
            let Walked::Covers(run) = self.walk(tx, node.ino, start, at / per)? else {
                self.check_size(node, at)?;
                out.push(Mapping { file: at, len: end - at, disk: None, fresh: false });
                break;
            };
            let place = run.place(at / per).and_then(|c| self.block_of(c as u32));
            let disk = place.ok_or(FsError::Bug("a cluster of a chain"))? + at % per;
            let len = (run.end() * per - at).min(end - at);
            out.push(Mapping { file: at, len, disk: Some(disk), fresh: false });
            at += len;
        }
        Ok(out)
    }

    /// The chain of a file ends before this block: damage if the size reaches it.
    fn check_size(&self, node: &Node, block: u64) -> Result<(), FsError> {
        let bs = u64::from(self.boot.block_size);
        if block.saturating_mul(bs) >= u64::from(node.raw.size) {
            return Ok(());
        }
        let at = match node.place {
            Place::Slot(pos) => pos / bs,
            _ => 0,
        };
        let (size, have) = (node.raw.size, block * bs);
        let what = format!("a file of {size} bytes has a chain for at most {have}");
        Err(FsError::corrupt("directory entry", at, what))
    }

    pub(crate) fn map_file(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        let node = self.file(tx, ino)?;
        self.map_chain(tx, &node, range)
    }

    /// As [`Fat::map_file`]; the chain is made as long as the range needs it.
    pub(crate) fn map_filled(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        range: Extent,
    ) -> Attempt<Vec<Mapping>> {
        let mut node = self.file(tx, ino)?;
        let per = self.boot.cluster_blocks();
        let end = range.start.saturating_add(range.len);
        let need = end.div_ceil(per);
        let start = self.start(&node.raw);
        let have = match self.walk(tx, ino, start, need.saturating_sub(1))? {
            Walked::Covers(_) => return self.map_chain(tx, &node, range),
            Walked::Empty => 0,
            Walked::Ends(run) => run.end(),
        };
        self.check_size(&node, have * per)?;
        let mut maps = Vec::new();
        if range.start < have * per {
            let len = have * per - range.start;
            maps = self.map_chain(tx, &node, Extent { start: range.start, len })?;
        }
        let mut last = match self.walk(tx, ino, start, need)? {
            Walked::Ends(run) => Some((run.disk + run.len - 1) as u32),
            _ => None,
        };
        let mut at = have;
        let change = Change { site: Site::FatTable, stage: Stage::Link, owner: Some(ino) };
        while at < need {
            let want = u32::try_from(need - at).unwrap_or(u32::MAX);
            let goal = last.map(|c| c + 1);
            let run = self.take(tx, ino, goal, want)?;
            let joined = goal == Some(run.first);
            match last {
                Some(c) if at == have => self.set_entry(tx, c, run.first, change)?,
                // Both are new: nothing leads to them yet.
                Some(c) => {
                    let change = Change { stage: Stage::Init, ..change };
                    self.set_entry(tx, c, run.first, change)?;
                }
                None => node.raw.set_first_cluster(run.first, self.wide()),
            }
            last = Some(run.last());
            tx.note_run(u64::from(run.len) * per, !joined);
            self.push_fresh(&mut maps, range, at * per, run)?;
            at += u64::from(run.len);
        }
        tx.touch(ino);
        // The size grows after the chain; in an entry that begins a chain both are one write.
        self.put_node(tx, &node, if start == 0 { Stage::Link } else { Stage::Unlink })?;
        Ok(maps)
    }

    /// Adds the part of a new run that the range covers.
    fn push_fresh(
        &self,
        maps: &mut Vec<Mapping>,
        range: Extent,
        file: u64,
        run: crate::space::Clusters,
    ) -> Attempt<()> {
        let per = self.boot.cluster_blocks();
        let end = range.start.saturating_add(range.len);
        let base = self.block_of(run.first).ok_or(FsError::Bug("a new cluster"))?;
        let first = file.max(range.start);
        let stop = (file + u64::from(run.len) * per).min(end);
        if first >= stop {
            return Ok(());
        }
        let (disk, len) = (base + (first - file), stop - first);
        match maps.last_mut() {
            Some(m) if m.fresh && m.disk.map(|d| d + m.len) == Some(disk) => m.len += len,
            _ => maps.push(Mapping { file: first, len, disk: Some(disk), fresh: true }),
        }
        Ok(())
    }

    /// After a write: time of change, archive attribute, size.
    pub(crate) fn note_write(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<()> {
        let mut node = self.file(tx, ino)?;
        let size = u32::try_from(size).map_err(|_| Refused::FileTooBig)?;
        let grows = size > node.raw.size;
        let old = node.raw;
        self.stamp(tx, &mut node);
        node.raw.size = node.raw.size.max(size);
        tx.touch(ino);
        if node.raw == old {
            return Ok(());
        }
        self.put_node(tx, &node, if grows { Stage::Link } else { Stage::Any })
    }

    /// Sets the time of the last change to now, and the archive attribute.
    fn stamp(&self, tx: &Tx<'_>, node: &mut Node) {
        let (date, time, _) = self.opts.zone.to_dos(tx.now());
        node.raw.mod_date = date;
        node.raw.mod_time = time;
        node.raw.acc_date = date;
        node.raw.attr |= ATTR_ARCHIVE;
    }

    /// One step of cutting a node's chain to a size. See
    /// [`Format::truncate_step`](seawall_diskfs::Format::truncate_step).
    pub(crate) fn cut_step(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<bool> {
        let mut node = self.node(tx, ino)?;
        let cut = match tx.memo(SPACE_CUT, ino.0) {
            Some([first, ..]) => Some(first as u32),
            None => self.cut(tx, &mut node, size)?,
        };
        let Some(first) = cut else { return Ok(false) };
        let rest = self.give_back(tx, ino, first, STEP)?;
        tx.set_memo(SPACE_CUT, ino.0, rest.map(|c| [u64::from(c), 0, 0, 0]));
        Ok(rest.is_some())
    }

    /// Makes a node end at `size`. Returns the first cluster of what was cut off.
    fn cut(&self, tx: &mut Tx<'_>, node: &mut Node, size: u64) -> Attempt<Option<u32>> {
        let keep = size.div_ceil(u64::from(self.boot.cluster));
        let start = self.start(&node.raw);
        let last = match keep.checked_sub(1) {
            None => None,
            Some(at) => match self.walk(tx, node.ino, start, at)? {
                Walked::Covers(run) => run.place(at).map(|c| c as u32),
                Walked::Empty | Walked::Ends(_) => None,
            },
        };
        tx.forget_runs(node.ino, keep);
        let old = node.raw;
        if !node.raw.is_dir() && size < u64::from(node.raw.size) {
            self.stamp(tx, node);
            node.raw.size = u32::try_from(size).map_err(|_| Refused::FileTooBig)?;
        }
        if keep == 0 {
            node.raw.set_first_cluster(0, self.wide());
        }
        if node.raw != old {
            // Before the chain ends earlier.
            self.put_node(tx, node, if keep == 0 { Stage::Unlink } else { Stage::Link })?;
        }
        let first = match (keep, last) {
            (0, _) => (start != 0).then_some(start),
            (_, Some(last)) => self.cut_behind(tx, node.ino, last)?,
            (_, None) => None,
        };
        if node.raw != old || first.is_some() {
            tx.touch(node.ino);
        }
        tx.drop_window(node.ino);
        Ok(first)
    }

    /// Makes a cluster the last of its chain. Returns the one that came after it.
    fn cut_behind(&self, tx: &mut Tx<'_>, ino: Ino, last: u32) -> Attempt<Option<u32>> {
        let value = crate::table::Reader::default().raw(self, tx, last)?;
        let Some(crate::table::Entry::Next(next)) = self.entry_of(value) else { return Ok(None) };
        let change = Change { site: Site::FatTable, stage: Stage::Unlink, owner: Some(ino) };
        self.set_entry(tx, last, self.end_mark(), change)?;
        Ok(Some(next))
    }
}
