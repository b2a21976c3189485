//! Claims: what walkers take of an inode, and what became of it.

use super::{Claim, DataCache, FileData, Flight, State};
use crate::{Extent, Ino, Timestamp};
use seawall_blockdev::Seq;

impl FileData {
    /// (piece, first block, blocks) of the lowest that is dirty, not younger than `upto` and in no
    /// step, from `from` on.
    fn lowest(&self, from: u64, upto: u64) -> Option<(u64, u64, u64)> {
        self.dirty_from(from).filter(|(_, p)| p.born <= upto).find_map(|(start, p)| {
            let (at, len) = self.free_part(from.max(start), start.saturating_add(p.blocks))?;
            Some((start, at, len))
        })
    }
}

impl DataCache {
    /// True while something that is not younger than `upto` is not written: a step may have it.
    pub(crate) fn has_unwritten(&self, ino: Ino, upto: u64) -> bool {
        self.has_waiting(ino, upto)
            || self
                .files
                .get(&ino)
                .is_some_and(|f| f.in_flight.values().any(|flight| flight.born <= upto))
    }

    /// True while something that is not younger than `upto` is dirty and in no step.
    pub(crate) fn has_waiting(&self, ino: Ino, upto: u64) -> bool {
        self.files.get(&ino).is_some_and(|f| f.dirty_from(0).any(|(_, p)| p.born <= upto))
    }

    /// The block where [`Self::claim`] would begin.
    pub(crate) fn peek(&self, ino: Ino, from: u64, upto: u64) -> Option<u64> {
        self.files.get(&ino)?.lowest(from, upto).map(|(_, at, _)| at)
    }

    /// Claims the lowest dirty range at or after `from` that no step is writing, at most `limit`
    /// bytes (at least one block), of what is not younger than `upto`.
    pub(crate) fn claim(&mut self, ino: Ino, from: u64, limit: u64, upto: u64) -> Option<Claim> {
        let most = (limit / self.block_size).max(1);
        let (start, at, len) = self.files.get(&ino)?.lowest(from, upto)?;
        let len = len.min(most);
        let f = self.files.get_mut(&ino)?;
        if let Some(p) = f.pieces.get_mut(&start).filter(|p| at == start && len == p.blocks) {
            // All of a piece, the usual case, stays where it is.
            p.state = State::Busy;
            let claim =
                Claim { ino, file: Extent { start, len }, disk: p.disk, data: p.data.clone() };
            f.dirty.remove(&start);
            f.in_flight.insert(start, Flight { len, born: p.born });
            f.waiting_blocks = f.waiting_blocks.saturating_sub(len);
            self.waiting_blocks = self.waiting_blocks.saturating_sub(len);
            return Some(claim);
        }
        let p = f.remove(start)?;
        let (stop, end) = (start.saturating_add(p.blocks), at.saturating_add(len));
        let mut claim = None;
        for (a, b) in [(start, at), (at, end), (end, stop)] {
            if a >= b {
                continue;
            }
            let data = self.cut(&p, a.saturating_sub(start), b.saturating_sub(a));
            let disk = p.disk.saturating_add(a.saturating_sub(start));
            let state = if a == at { State::Busy } else { State::Dirty };
            let part = super::Piece { blocks: b.saturating_sub(a), disk, data, state, ..p.clone() };
            if a == at {
                let file = Extent { start: a, len };
                claim = Some(Claim { ino, file, disk, data: part.data.clone() });
            }
            self.files.get_mut(&ino)?.insert(a, part);
        }
        let f = self.files.get_mut(&ino)?;
        f.in_flight.insert(at, Flight { len, born: p.born });
        f.waiting_blocks = f.waiting_blocks.saturating_sub(len);
        self.waiting_blocks = self.waiting_blocks.saturating_sub(len);
        claim
    }

    /// A claim was written, or failed and stays dirty.
    pub(crate) fn complete(&mut self, claim: &Claim, seq: Option<Seq>) {
        let Some(f) = self.files.get_mut(&claim.ino) else { return };
        f.in_flight.remove(&claim.file.start);
        let end = claim.file.start.saturating_add(claim.file.len);
        // What lies over it by now is dirty, and what was cut out of it is gone.
        let mine = f.pieces.range_mut(claim.file.start..end);
        for (at, p) in mine.filter(|(_, p)| p.state == State::Busy) {
            match seq {
                Some(seq) => {
                    (p.state, p.seq) = (State::Clean, seq);
                    f.dirty_blocks = f.dirty_blocks.saturating_sub(p.blocks);
                    self.dirty_blocks = self.dirty_blocks.saturating_sub(p.blocks);
                    self.clean.push_back((claim.ino, *at));
                }
                None => {
                    p.state = State::Dirty;
                    f.dirty.insert(*at);
                    f.waiting_blocks = f.waiting_blocks.saturating_add(p.blocks);
                    self.waiting_blocks = self.waiting_blocks.saturating_add(p.blocks);
                }
            }
        }
        self.tidy(claim.ino);
        self.shrink();
    }

    /// As [`Self::claim`], from where the flusher stopped in this inode last time; at the end it
    /// begins again.
    pub(crate) fn claim_onward(&mut self, ino: Ino, limit: u64, upto: u64) -> Option<Claim> {
        let from = self.files.get(&ino)?.flush_at;
        let claim = self.claim(ino, from, limit, upto);
        let claim =
            if from > 0 { claim.or_else(|| self.claim(ino, 0, limit, upto)) } else { claim };
        let end = claim.as_ref().map_or(0, |c| c.file.start.saturating_add(c.file.len));
        if let Some(f) = self.files.get_mut(&ino) {
            f.flush_at = end;
        }
        claim
    }

    /// The block where [`Self::claim_onward`] would begin.
    pub(crate) fn peek_onward(&self, ino: Ino, upto: u64) -> Option<u64> {
        let from = self.files.get(&ino)?.flush_at;
        self.peek(ino, from, upto).or_else(|| self.peek(ino, 0, upto))
    }

    /// The next inode, from `from` on, with something dirty that is in no step.
    pub(crate) fn next_waiting(&self, from: Ino) -> Option<Ino> {
        let waits = |i: &&Ino| self.files.get(*i).is_some_and(|f| f.waiting_blocks > 0);
        self.dirty.range(from..).find(waits).copied()
    }

    /// When the inode became dirty.
    pub(crate) fn dirty_since(&self, ino: Ino) -> Option<Timestamp> {
        self.files.get(&ino).filter(|f| f.dirty_blocks > 0).map(|f| f.since)
    }

    /// What is dirty of the inode from now on was written after this time.
    pub(crate) fn renew(&mut self, ino: Ino, now: Timestamp) {
        if let Some(f) = self.files.get_mut(&ino) {
            f.since = now;
        }
    }
}
