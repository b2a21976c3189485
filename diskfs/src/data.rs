//! The data cache: dirty file data per inode, and what was written lately.
//!
//! Data is kept in pieces that are contiguous in the file and on disk; a 1 MiB write is one piece
//! that shares the client's buffer. A piece that a step is writing is frozen: an overwrite makes a
//! new piece, and no second write of the same blocks starts before the first has ended. A failed
//! write leaves its pieces dirty, and a failed flush makes written pieces dirty again while they
//! are still here.
//!
//! Several walkers can be in one file: each claim takes the lowest blocks that are dirty and that
//! no step has.

use crate::hash::HashMap;
use crate::slice::Slice;
use crate::{Extent, Ino, Timestamp};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use seawall_blockdev::Seq;

mod claim;

/// Where a piece is on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not written, and no step has it.
    Dirty,
    /// A step has it.
    Busy,
    /// Written.
    Clean,
}

#[derive(Clone, Debug)]
struct Piece {
    blocks: u64,
    disk: u64,
    data: Slice,
    state: State,
    /// Sequence of the write that cleaned it.
    seq: Seq,
    /// Generation of the write that made it.
    stamp: u64,
    /// Oldest generation that it replaced before a step had it. An fsync that began after that one
    /// must write this piece: else a write that it covers would be lost under a newer one that it
    /// does not.
    born: u64,
}

/// A range that a step is writing, by the file block where it starts.
#[derive(Clone, Copy, Debug)]
struct Flight {
    len: u64,
    born: u64,
}

#[derive(Debug, Default)]
struct FileData {
    pieces: BTreeMap<u64, Piece>,
    /// Where those start that are dirty and in no step: writing back must not walk past the rest.
    dirty: BTreeSet<u64>,
    /// Ranges of steps under way; no two overlap.
    in_flight: BTreeMap<u64, Flight>,
    /// Blocks of dirty and busy pieces.
    dirty_blocks: u64,
    /// Blocks of dirty pieces.
    waiting_blocks: u64,
    /// When it became dirty.
    since: Timestamp,
    /// Where the flusher goes on.
    flush_at: u64,
}

impl FileData {
    fn insert(&mut self, at: u64, piece: Piece) {
        if piece.state == State::Dirty {
            self.dirty.insert(at);
        }
        self.pieces.insert(at, piece);
    }

    fn remove(&mut self, at: u64) -> Option<Piece> {
        self.dirty.remove(&at);
        self.pieces.remove(&at)
    }

    /// Starts of the dirty pieces that end behind `from`.
    fn dirty_from(&self, from: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let first = self.dirty.range(..=from).next_back().map_or(from, |s| *s);
        self.dirty.range(first..).filter_map(|s| Some((*s, self.pieces.get(s)?)))
    }

    /// The lowest part of [at, stop) that no step is writing.
    fn free_part(&self, mut at: u64, stop: u64) -> Option<(u64, u64)> {
        while at < stop {
            let before = self.in_flight.range(..=at).next_back();
            match before.map(|(s, f)| s.saturating_add(f.len)) {
                Some(end) if end > at => at = end,
                _ => {
                    let end = self.in_flight.range(at..stop).next().map_or(stop, |(s, _)| *s);
                    return Some((at, end.saturating_sub(at)));
                }
            }
        }
        None
    }
}

/// What is here of a range, ascending: (file block, blocks, bytes).
pub(crate) type Cached = Vec<(u64, u64, Slice)>;

/// A claimed range, to be written and completed.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) ino: Ino,
    pub(crate) file: Extent,
    pub(crate) disk: u64,
    pub(crate) data: Slice,
}

#[derive(Debug)]
pub(crate) struct DataCache {
    block_size: u64,
    budget: u64,
    files: HashMap<Ino, FileData>,
    /// Inodes with dirty or busy pieces.
    dirty: BTreeSet<Ino>,
    dirty_blocks: u64,
    waiting_blocks: u64,
    total_blocks: u64,
    clean: VecDeque<(Ino, u64)>,
    next_stamp: u64,
    /// Highest sequence among evicted pieces: what a failed flush would lose for good.
    pub(crate) evicted: Seq,
    /// Newest generation among evicted pieces.
    pub(crate) evicted_stamp: u64,
}

impl DataCache {
    pub(crate) fn new(block_size: u64, budget: u64) -> Self {
        Self {
            block_size,
            budget,
            files: HashMap::default(),
            dirty: BTreeSet::new(),
            dirty_blocks: 0,
            waiting_blocks: 0,
            total_blocks: 0,
            clean: VecDeque::new(),
            next_stamp: 0,
            evicted: Seq(0),
            evicted_stamp: 0,
        }
    }

    /// What is not written, steps under way included.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_blocks.saturating_mul(self.block_size)
    }

    /// What is dirty and in no step.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_blocks.saturating_mul(self.block_size)
    }

    /// The same of one inode.
    pub(crate) fn waiting_bytes_of(&self, ino: Ino) -> u64 {
        let blocks = self.files.get(&ino).map_or(0, |f| f.waiting_blocks);
        blocks.saturating_mul(self.block_size)
    }

    pub(crate) fn used(&self) -> u64 {
        self.total_blocks.saturating_mul(self.block_size)
    }

    pub(crate) fn is_dirty(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|f| f.dirty_blocks > 0 || !f.in_flight.is_empty())
    }

    /// The next inode with dirty data, from `from` on.
    pub(crate) fn next_dirty(&self, from: Ino) -> Option<Ino> {
        self.dirty.range(from..).next().copied()
    }

    /// True when the inode has nothing here.
    pub(crate) fn is_absent(&self, ino: Ino) -> bool {
        !self.files.contains_key(&ino)
    }

    /// What is here of the block range.
    pub(crate) fn read(&self, ino: Ino, range: Extent) -> Cached {
        let Some(f) = self.files.get(&ino) else { return Vec::new() };
        let end = range.start.saturating_add(range.len);
        let before = f.pieces.range(..=range.start).next_back();
        if let Some((start, p)) = before
            && end <= start.saturating_add(p.blocks)
        {
            return vec![(range.start, range.len, self.cut(p, range.start - start, range.len))];
        }
        let first = before.map_or(range.start, |(s, _)| *s);
        let mut out = Vec::new();
        for (start, p) in f.pieces.range(first..end) {
            let from = range.start.max(*start);
            let to = end.min(start.saturating_add(p.blocks));
            if from < to {
                out.push((from, to - from, self.cut(p, from - start, to - from)));
            }
        }
        out
    }

    fn cut(&self, p: &Piece, skip: u64, blocks: u64) -> Slice {
        let bs = self.block_size;
        p.data.part(
            usize::try_from(skip.saturating_mul(bs)).unwrap_or(usize::MAX),
            usize::try_from(blocks.saturating_mul(bs)).unwrap_or(usize::MAX),
        )
    }

    /// Changes bytes inside one dirty block in place, when nobody else holds its buffer. False: the
    /// caller copies.
    pub(crate) fn patch(&mut self, ino: Ino, block: u64, off: usize, bytes: &[u8]) -> bool {
        let bs = self.block_size;
        let Some(f) = self.files.get_mut(&ino) else { return false };
        if f.free_part(block, block.saturating_add(1)).is_none() {
            return false;
        }
        let Some((start, p)) = f.pieces.range_mut(..=block).next_back() else { return false };
        let skip = block.saturating_sub(*start);
        if skip >= p.blocks || p.state != State::Dirty {
            return false;
        }
        let at = usize::try_from(skip.saturating_mul(bs)).unwrap_or(usize::MAX).saturating_add(off);
        let Some(buf) = p.data.unique_mut() else { return false };
        let Some(dst) = buf.get_mut(at..at.saturating_add(bytes.len())) else { return false };
        dst.copy_from_slice(bytes);
        true
    }

    /// Puts whole blocks: `data` holds `range.len` blocks that live at `disk`.
    pub(crate) fn put(
        &mut self,
        ino: Ino,
        range: Extent,
        (disk, data): (u64, Slice),
        now: Timestamp,
    ) {
        self.next_stamp = self.next_stamp.saturating_add(1);
        let stamp = self.next_stamp;
        let born = self.oldest_waiting(ino, range).unwrap_or(stamp);
        self.carve(ino, range);
        let f = self.files.entry(ino).or_default();
        let state = State::Dirty;
        let p = Piece { blocks: range.len, disk, data, state, seq: Seq(0), stamp, born };
        f.insert(range.start, p);
        if f.dirty_blocks == 0 {
            f.since = now;
        }
        f.dirty_blocks = f.dirty_blocks.saturating_add(range.len);
        f.waiting_blocks = f.waiting_blocks.saturating_add(range.len);
        self.dirty_blocks = self.dirty_blocks.saturating_add(range.len);
        self.waiting_blocks = self.waiting_blocks.saturating_add(range.len);
        self.total_blocks = self.total_blocks.saturating_add(range.len);
        self.dirty.insert(ino);
        self.shrink();
    }

    /// Oldest generation in the range that would be lost unwritten.
    fn oldest_waiting(&self, ino: Ino, range: Extent) -> Option<u64> {
        let f = self.files.get(&ino)?;
        let end = range.start.saturating_add(range.len);
        f.dirty_from(range.start)
            .take_while(|(s, _)| *s < end)
            .filter(|(s, p)| s.saturating_add(p.blocks) > range.start)
            .map(|(_, p)| p.born)
            .min()
    }

    /// True when the block is dirty here and no step is writing it.
    pub(crate) fn is_dirty_block(&self, ino: Ino, block: u64) -> bool {
        self.files.get(&ino).is_some_and(|f| {
            let at = f.pieces.range(..=block).next_back();
            let inside = |(s, p): (&u64, &Piece)| block < s.saturating_add(p.blocks);
            at.is_some_and(|at| at.1.state == State::Dirty && inside(at))
        })
    }

    /// The generation of the newest write; a plan covers what is not younger.
    pub(crate) fn now(&self) -> u64 {
        self.next_stamp
    }

    /// Removes a file block range; the edges of pieces that it cuts stay.
    fn carve(&mut self, ino: Ino, range: Extent) {
        let end = range.start.saturating_add(range.len);
        let Some(f) = self.files.get(&ino) else { return };
        let first = f.pieces.range(..=range.start).next_back().map_or(range.start, |(s, _)| *s);
        let hit: Vec<u64> = f
            .pieces
            .range(first..end)
            .filter(|(s, p)| s.saturating_add(p.blocks) > range.start)
            .map(|(s, _)| *s)
            .collect();
        for start in hit {
            self.split_out(ino, start, range.start, end);
        }
    }

    /// Takes [from, to) out of the piece at `start`, leaving what is left and right of it.
    fn split_out(&mut self, ino: Ino, start: u64, from: u64, to: u64) {
        let Some(p) = self.files.get_mut(&ino).and_then(|f| f.remove(start)) else {
            return;
        };
        let stop = start.saturating_add(p.blocks);
        let mut keep = Vec::new();
        for (a, b) in [(start, from.min(stop)), (to.max(start), stop)] {
            if a < b {
                let data = self.cut(&p, a - start, b - a).compact();
                let disk = p.disk.saturating_add(a - start);
                keep.push((a, Piece { blocks: b - a, disk, data, ..p.clone() }));
            }
        }
        let kept: u64 = keep.iter().map(|(_, p)| p.blocks).sum();
        let gone = p.blocks.saturating_sub(kept);
        if let Some(f) = self.files.get_mut(&ino) {
            if p.state != State::Clean {
                f.dirty_blocks = f.dirty_blocks.saturating_sub(gone);
                self.dirty_blocks = self.dirty_blocks.saturating_sub(gone);
            }
            if p.state == State::Dirty {
                f.waiting_blocks = f.waiting_blocks.saturating_sub(gone);
                self.waiting_blocks = self.waiting_blocks.saturating_sub(gone);
            }
            for (at, piece) in keep {
                if piece.state == State::Clean {
                    self.clean.push_back((ino, at));
                }
                f.insert(at, piece);
            }
        }
        self.total_blocks = self.total_blocks.saturating_sub(gone);
    }

    /// Drops everything from a file block on.
    pub(crate) fn truncate(&mut self, ino: Ino, from: u64) {
        self.carve(ino, Extent { start: from, len: u64::MAX.saturating_sub(from) });
        self.tidy(ino);
    }

    /// Drops a range of file blocks.
    pub(crate) fn punch(&mut self, ino: Ino, range: Extent) {
        self.carve(ino, range);
        self.tidy(ino);
    }

    fn tidy(&mut self, ino: Ino) {
        let Some(f) = self.files.get(&ino) else { return };
        if f.dirty_blocks == 0 {
            self.dirty.remove(&ino);
        }
        if f.pieces.is_empty() && f.in_flight.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Written pieces that a failed flush may have lost: dirty again. Returns the inodes.
    pub(crate) fn redo_after(&mut self, durable: Seq) -> Vec<Ino> {
        let mut hit = Vec::new();
        for (ino, f) in &mut self.files {
            let mut blocks = 0u64;
            for (at, p) in f.pieces.iter_mut() {
                if p.state != State::Clean || p.seq <= durable {
                    continue;
                }
                p.state = State::Dirty;
                f.dirty.insert(*at);
                blocks = blocks.saturating_add(p.blocks);
            }
            if blocks > 0 {
                f.dirty_blocks = f.dirty_blocks.saturating_add(blocks);
                f.waiting_blocks = f.waiting_blocks.saturating_add(blocks);
                self.dirty_blocks = self.dirty_blocks.saturating_add(blocks);
                self.waiting_blocks = self.waiting_blocks.saturating_add(blocks);
                self.dirty.insert(*ino);
                hit.push(*ino);
            }
        }
        hit.sort_unstable();
        hit
    }

    /// Drops clean pieces: the next reads start cold.
    pub(crate) fn drop_clean(&mut self) {
        let keep = core::mem::replace(&mut self.budget, 0);
        self.shrink();
        self.budget = keep;
    }

    fn shrink(&mut self) {
        // A piece can be listed more than once; what is listed and gone is skipped.
        let mut rounds = self.clean.len();
        while rounds > 0 && (self.used() > self.budget || self.clean.len() > 1 << 16) {
            rounds = rounds.saturating_sub(1);
            let Some((ino, at)) = self.clean.pop_front() else { return };
            let Some(f) = self.files.get_mut(&ino) else { continue };
            if f.pieces.get(&at).is_none_or(|p| p.state != State::Clean) {
                continue;
            }
            if let Some(p) = f.remove(at) {
                self.evicted = self.evicted.max(p.seq);
                self.evicted_stamp = self.evicted_stamp.max(p.stamp);
                self.total_blocks = self.total_blocks.saturating_sub(p.blocks);
            }
            self.tidy(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_blockdev::PageBuf;

    const NOW: Timestamp = Timestamp { secs: 0, nanos: 0 };

    fn data(blocks: usize, fill: u8) -> Slice {
        let mut b = PageBuf::zeroed(blocks * 1024);
        b.fill(fill);
        Slice::new(b)
    }

    fn content(d: &DataCache, start: u64, len: u64) -> Vec<(u64, u64, u8)> {
        d.read(Ino(1), Extent { start, len }).iter().map(|(s, n, b)| (*s, *n, b[0])).collect()
    }

    fn cache() -> DataCache {
        DataCache::new(1024, 1 << 20)
    }

    #[test]
    fn an_overwrite_cuts_what_lies_under_it() {
        let mut d = cache();
        d.put(Ino(1), Extent { start: 0, len: 8 }, (100, data(8, 1)), NOW);
        d.put(Ino(1), Extent { start: 2, len: 3 }, (102, data(3, 2)), NOW);
        assert_eq!(content(&d, 1, 6), [(1, 1, 1), (2, 3, 2), (5, 2, 1)]);
        assert_eq!(d.dirty_bytes(), 8 * 1024);
        d.truncate(Ino(1), 4);
        assert_eq!(content(&d, 0, 99), [(0, 2, 1), (2, 2, 2)]);
        assert_eq!((d.dirty_bytes(), d.used()), (4096, 4096));
        d.truncate(Ino(1), 0);
        assert!(d.is_absent(Ino(1)) && d.next_dirty(Ino(0)).is_none());
    }

    #[test]
    fn a_step_cleans_only_what_it_wrote() {
        let mut d = cache();
        d.put(Ino(1), Extent { start: 0, len: 4 }, (100, data(4, 1)), NOW);
        let c = d.claim(Ino(1), 0, 1 << 20, u64::MAX).unwrap();
        assert_eq!((c.file, c.disk), (Extent { start: 0, len: 4 }, 100));
        d.put(Ino(1), Extent { start: 1, len: 1 }, (101, data(1, 9)), NOW);
        assert!(d.claim(Ino(1), 0, 1 << 20, u64::MAX).is_none(), "its block is being written");
        d.complete(&c, Some(Seq(5)));
        assert_eq!(d.dirty_bytes(), 1024);
        let c = d.claim(Ino(1), 0, 1 << 20, u64::MAX).unwrap();
        assert_eq!((c.file, c.disk, c.data[0]), (Extent { start: 1, len: 1 }, 101, 9));
        d.complete(&c, None);
        assert!(d.is_dirty(Ino(1)), "a failed write stays dirty");
        assert_eq!(d.redo_after(Seq(4)), [Ino(1)]);
        assert_eq!(d.dirty_bytes(), 4096, "the unflushed blocks are dirty again");
    }

    #[test]
    fn patching_needs_a_buffer_of_its_own() {
        let mut d = cache();
        d.put(Ino(1), Extent { start: 3, len: 2 }, (100, data(2, 1)), NOW);
        assert!(d.patch(Ino(1), 4, 10, &[7, 7]));
        assert!(!d.patch(Ino(1), 5, 0, &[7]));
        let got = d.read(Ino(1), Extent { start: 4, len: 1 });
        assert_eq!(got[0].2[9..13], [1, 7, 7, 1]);
        assert!(!d.patch(Ino(1), 4, 0, &[8]), "a reader holds it");
    }

    #[test]
    fn claims_are_limited_and_ascend() {
        let mut d = cache();
        d.put(Ino(1), Extent { start: 0, len: 8 }, (100, data(8, 1)), NOW);
        let a = d.claim(Ino(1), 0, 3 * 1024, u64::MAX).unwrap();
        let b = d.claim(Ino(1), a.file.start + a.file.len, 3 * 1024, u64::MAX).unwrap();
        assert_eq!((a.file.start, b.file.start, b.disk), (0, 3, 103));
    }

    #[test]
    fn clean_pieces_leave_when_the_budget_is_reached() {
        let mut d = DataCache::new(1024, 4096);
        for i in 0..10u64 {
            d.put(Ino(1), Extent { start: i, len: 1 }, (100 + i * 2, data(1, 1)), NOW);
            let c = d.claim(Ino(1), i, 1024, u64::MAX).unwrap();
            d.complete(&c, Some(Seq(i + 1)));
        }
        assert!(d.used() <= 4096, "{}", d.used());
        assert_eq!(d.evicted, Seq(6));
    }

    #[test]
    fn a_plan_covers_the_writes_before_it_and_what_replaced_them() {
        let mut d = cache();
        d.put(Ino(1), Extent { start: 0, len: 1 }, (100, data(1, 1)), NOW);
        let upto = d.now();
        d.put(Ino(1), Extent { start: 5, len: 1 }, (105, data(1, 2)), NOW);
        d.put(Ino(1), Extent { start: 0, len: 1 }, (100, data(1, 3)), NOW);
        assert!(d.has_unwritten(Ino(1), upto), "the replaced write was never written");
        let c = d.claim(Ino(1), 0, 1 << 20, upto).unwrap();
        assert_eq!((c.file.start, c.data[0]), (0, 3));
        d.put(Ino(1), Extent { start: 0, len: 1 }, (100, data(1, 4)), NOW);
        d.complete(&c, Some(Seq(1)));
        assert!(
            !d.has_unwritten(Ino(1), upto),
            "a writer in a loop does not hold an fsync for ever"
        );
        assert!(d.is_dirty(Ino(1)));
    }
}
