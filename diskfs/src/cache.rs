//! The block cache: metadata blocks, their newest version, and the older versions that an earlier
//! epoch still has to write.
//!
//! Memory is bounded: clean, unpinned blocks are evicted (second chance) when the budget is
//! reached, and dirty ones start writeback at a quarter of it (`over_dirty`). A block that was
//! written but is not yet durable stays here while there is room, so that a failed flush can write
//! it again.

use crate::epoch::{Epoch, Epochs};
use crate::hash::HashMap;
use crate::{Ino, Site};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use seawall_blockdev::{PAGE, PageBuf, Seq};

/// One dirty version of a block.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) epoch: Epoch,
    pub(crate) buf: Arc<PageBuf>,
    pub(crate) site: Site,
    /// A step is writing it: the bytes must not change and no second write may start.
    pub(crate) in_flight: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Newest content; absent while only pinned by a fetch under way.
    pub(crate) cur: Option<Arc<PageBuf>>,
    /// Content before the oldest dirty version, where it is known.
    clean: Option<Arc<PageBuf>>,
    /// Versions not yet written, oldest first. The last one is `cur`.
    pub(crate) dirty: Vec<Version>,
    /// Inodes whose fsync must cover this block while it is dirty (policies without order).
    pub(crate) owners: Vec<Ino>,
    /// Sequence of the last write of this block, for redoing it after a failed flush.
    pub(crate) written: Seq,
    pub(crate) site: Option<Site>,
    pins: u32,
    referenced: bool,
    in_ring: bool,
}

impl Entry {
    /// True when the oldest version is of `epoch` and no step writes it.
    pub(crate) fn is_claimable(&self, epoch: Epoch) -> bool {
        self.dirty.first().is_some_and(|v| v.epoch == epoch && !v.in_flight)
    }
}

/// Sets in `dst` the bits in which `new` differs from `old`, to what they are in `new`.
pub(crate) fn merge_bits(dst: &mut [u8], old: &[u8], new: &[u8]) {
    for ((d, o), n) in dst.iter_mut().zip(old).zip(new) {
        let changed = o ^ n;
        *d = (*d & !changed) | (n & changed);
    }
}

#[derive(Debug)]
pub(crate) struct BlockCache {
    block_size: usize,
    budget: usize,
    map: HashMap<u64, Entry>,
    ring: VecDeque<u64>,
    pub(crate) epochs: Epochs,
    dirty_versions: usize,
    /// Highest sequence among evicted blocks: what a failed flush would lose for good.
    pub(crate) evicted: Seq,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Buffers of replaced versions, for the next copies: an operation copies the same few blocks
    /// as the one before it.
    spare: Vec<Arc<PageBuf>>,
}

/// Most buffers kept.
const SPARE_MAX: usize = 32;

impl BlockCache {
    pub(crate) fn new(block_size: usize, budget: usize) -> Self {
        Self {
            block_size,
            budget: budget.max(64 * block_size.max(PAGE)),
            map: HashMap::default(),
            ring: VecDeque::new(),
            epochs: Epochs::new(),
            dirty_versions: 0,
            evicted: Seq(0),
            hits: 0,
            misses: 0,
            spare: Vec::new(),
        }
    }

    /// A copy of a block that nothing else holds.
    pub(crate) fn copy(&mut self, src: &Arc<PageBuf>) -> Arc<PageBuf> {
        while let Some(mut buf) = self.spare.pop() {
            if let Some(dst) = Arc::get_mut(&mut buf)
                && dst.len() == src.len()
            {
                dst.copy_from_slice(src);
                return buf;
            }
        }
        Arc::new(PageBuf::clone(src))
    }

    fn recycle(&mut self, buf: Arc<PageBuf>) {
        if self.spare.len() < SPARE_MAX && Arc::strong_count(&buf) == 1 {
            self.spare.push(buf);
        }
    }

    fn cost(&self) -> usize {
        self.block_size.max(PAGE)
    }

    /// Bytes that may be held.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> usize {
        // A dirty block may keep the content that its oldest version replaced.
        let dirty = self.dirty_versions.saturating_mul(2);
        self.map.len().saturating_add(dirty).saturating_mul(self.cost())
    }

    /// True when dirty versions hold a quarter of the budget.
    pub(crate) fn over_dirty(&self) -> bool {
        self.dirty_versions.saturating_mul(self.cost()) > self.budget / 4
    }

    /// Number of dirty versions.
    pub(crate) fn dirty_versions(&self) -> usize {
        self.dirty_versions
    }

    pub(crate) fn get(&mut self, block: u64) -> Option<Arc<PageBuf>> {
        let got = self.map.get_mut(&block).and_then(|e| {
            e.referenced = true;
            e.cur.clone()
        });
        if got.is_some() {
            self.hits = self.hits.saturating_add(1);
        } else {
            self.misses = self.misses.saturating_add(1);
        }
        got
    }

    /// True when the block's content is here.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.map.get(&block).is_some_and(|e| e.cur.is_some())
    }

    /// As [`Self::get`], without a share. A miss is not counted: `get` follows.
    pub(crate) fn look(&mut self, block: u64) -> Option<&PageBuf> {
        let e = self.map.get_mut(&block)?;
        e.referenced = true;
        let buf = e.cur.as_deref()?;
        self.hits = self.hits.saturating_add(1);
        Some(buf)
    }

    pub(crate) fn peek(&self, block: u64) -> Option<&Entry> {
        self.map.get(&block)
    }

    /// Epoch of the newest dirty version.
    pub(crate) fn newest_epoch(&self, block: u64) -> Option<Epoch> {
        self.map.get(&block).and_then(|e| e.dirty.last()).map(|v| v.epoch)
    }

    pub(crate) fn pin(&mut self, block: u64) {
        let e = self.map.entry(block).or_default();
        e.pins = e.pins.saturating_add(1);
    }

    pub(crate) fn unpin(&mut self, block: u64) {
        let Some(e) = self.map.get_mut(&block) else { return };
        e.pins = e.pins.saturating_sub(1);
        if e.pins == 0 && e.cur.is_none() {
            self.map.remove(&block);
        }
    }

    /// Puts a block that was just read. A newer version already here wins.
    pub(crate) fn insert_clean(&mut self, block: u64, buf: Arc<PageBuf>) {
        let e = self.map.entry(block).or_default();
        if e.cur.is_none() {
            e.cur = Some(buf);
        }
        self.enlist(block);
        self.shrink();
    }

    fn enlist(&mut self, block: u64) {
        if let Some(e) = self.map.get_mut(&block)
            && !e.in_ring
        {
            e.in_ring = true;
            self.ring.push_back(block);
        }
        // Forgotten blocks leave their place in the ring behind.
        if self.ring.len() > self.map.len().saturating_mul(2).saturating_add(64) {
            self.ring = self.map.keys().copied().collect();
            self.map.values_mut().for_each(|e| e.in_ring = true);
        }
    }

    /// Makes `buf` the newest content, dirty in `epoch`. Replaces a version of the same epoch that
    /// no step is writing.
    pub(crate) fn put_dirty(&mut self, block: u64, epoch: Epoch, site: Site, buf: Arc<PageBuf>) {
        let e = self.map.entry(block).or_default();
        if e.dirty.is_empty() {
            e.clean = e.cur.take();
        }
        e.cur = Some(buf.clone());
        e.site = Some(site);
        e.referenced = true;
        match e.dirty.last_mut() {
            Some(v) if v.epoch == epoch && !v.in_flight => {
                let old = core::mem::replace(&mut v.buf, buf);
                v.site = site;
                // It is in its epoch's set and in the ring already.
                self.recycle(old);
                return;
            }
            _ => {
                e.dirty.push(Version { epoch, buf, site, in_flight: false });
                self.dirty_versions = self.dirty_versions.saturating_add(1);
                self.epochs.insert(epoch, block);
            }
        }
        self.enlist(block);
        self.shrink();
    }

    /// Enters a change that commutes with all others (`Stage::Init`) into `epoch`, which is open:
    /// the bits in which `new` differs from `old` are set in the version of that epoch and in every
    /// younger one. Returns the epoch that the change is in.
    pub(crate) fn put_commuting(
        &mut self,
        block: u64,
        epoch: Epoch,
        site: Site,
        old: &[u8],
        new: &Arc<PageBuf>,
    ) -> Epoch {
        let at = self.map.get(&block).and_then(|e| e.dirty.iter().position(|v| v.epoch >= epoch));
        let (Some(at), Some(e)) = (at, self.map.get_mut(&block)) else {
            self.put_dirty(block, epoch, site, new.clone());
            return epoch;
        };
        if e.dirty.get(at).is_some_and(|v| v.epoch != epoch) {
            let before = at.checked_sub(1).and_then(|i| e.dirty.get(i)).map(|v| v.buf.clone());
            let Some(buf) = before.or_else(|| e.clean.clone()) else {
                // What stood here before is not known: the change joins the oldest that is.
                let epoch = e.dirty.get(at).map_or(epoch, |v| v.epoch);
                self.merge_from(block, at, old, new);
                return epoch;
            };
            e.dirty.insert(at, Version { epoch, buf, site, in_flight: false });
            self.dirty_versions = self.dirty_versions.saturating_add(1);
            self.epochs.insert(epoch, block);
        }
        self.merge_from(block, at, old, new);
        epoch
    }

    fn merge_from(&mut self, block: u64, at: usize, old: &[u8], new: &[u8]) {
        let Some(e) = self.map.get_mut(&block) else { return };
        e.cur = None;
        for v in e.dirty.iter_mut().skip(at) {
            let dst: &mut PageBuf = Arc::make_mut(&mut v.buf);
            merge_bits(dst, old, new);
        }
        e.cur = e.dirty.last().map(|v| v.buf.clone());
        e.referenced = true;
    }

    pub(crate) fn add_owner(&mut self, block: u64, ino: Ino) {
        if let Some(e) = self.map.get_mut(&block)
            && !e.owners.contains(&ino)
        {
            e.owners.push(ino);
        }
    }

    pub(crate) fn owners(&self, block: u64) -> Vec<Ino> {
        self.map.get(&block).map(|e| e.owners.clone()).unwrap_or_default()
    }

    /// Takes the oldest version of `block` for writing; it must be of `epoch` and not in flight.
    pub(crate) fn claim(&mut self, block: u64, epoch: Epoch) -> Option<(Arc<PageBuf>, Site)> {
        let v = self.map.get_mut(&block)?.dirty.first_mut()?;
        if v.epoch != epoch || v.in_flight {
            return None;
        }
        v.in_flight = true;
        Some((v.buf.clone(), v.site))
    }

    /// A claimed version was written (`Some(seq)`) or failed and stays dirty.
    pub(crate) fn complete(&mut self, block: u64, epoch: Epoch, seq: Option<Seq>) {
        let Some(e) = self.map.get_mut(&block) else { return };
        let Some(at) = e.dirty.iter().position(|v| v.epoch == epoch && v.in_flight) else { return };
        let Some(seq) = seq else {
            // A newer version of the same epoch replaces the failed one.
            if e.dirty.iter().skip(at.saturating_add(1)).any(|v| v.epoch == epoch) {
                e.dirty.remove(at);
                self.dirty_versions = self.dirty_versions.saturating_sub(1);
            } else if let Some(v) = e.dirty.get_mut(at) {
                v.in_flight = false;
            }
            return;
        };
        let done = e.dirty.remove(at);
        e.clean = (!e.dirty.is_empty()).then_some(done.buf);
        e.written = seq;
        self.dirty_versions = self.dirty_versions.saturating_sub(1);
        if !e.dirty.iter().any(|v| v.epoch == epoch) {
            self.epochs.remove(epoch, block);
        }
        if e.dirty.is_empty() {
            e.owners.clear();
        }
        self.shrink();
    }

    /// Drops a freed block and what of it was not written.
    pub(crate) fn forget(&mut self, block: u64) {
        let Some(e) = self.map.get_mut(&block) else { return };
        let before = e.dirty.len();
        let gone: Vec<Epoch> = e.dirty.iter().filter(|v| !v.in_flight).map(|v| v.epoch).collect();
        e.dirty.retain(|v| v.in_flight);
        self.dirty_versions =
            self.dirty_versions.saturating_sub(before.saturating_sub(e.dirty.len()));
        e.owners.clear();
        if e.dirty.is_empty() && e.pins == 0 {
            self.map.remove(&block);
        }
        for epoch in gone {
            let left =
                self.map.get(&block).is_some_and(|e| e.dirty.iter().any(|v| v.epoch == epoch));
            if !left {
                self.epochs.remove(epoch, block);
            }
        }
    }

    /// Drops every clean, unpinned block: the next operations start cold.
    pub(crate) fn drop_clean(&mut self) {
        self.ring.clear();
        let evicted = &mut self.evicted;
        self.map.retain(|_, e| {
            e.in_ring = false;
            let keep = e.pins > 0 || !e.dirty.is_empty();
            if !keep {
                *evicted = (*evicted).max(e.written);
            }
            keep
        });
        let rest: Vec<u64> = self.map.keys().copied().collect();
        rest.into_iter().for_each(|b| self.enlist(b));
    }

    /// Blocks written after `durable` that a failed flush may have lost: dirty again in `epoch`.
    pub(crate) fn redo_after(&mut self, durable: Seq, epoch: Epoch) -> usize {
        let lost: Vec<(u64, Arc<PageBuf>, Site)> = self
            .map
            .iter()
            .filter(|(_, e)| e.written > durable && e.dirty.is_empty())
            .filter_map(|(b, e)| Some((*b, e.cur.clone()?, e.site?)))
            .collect();
        let n = lost.len();
        for (block, buf, site) in lost {
            self.put_dirty(block, epoch, site, buf);
        }
        n
    }

    fn shrink(&mut self) {
        let mut rounds = self.ring.len().saturating_mul(2);
        while self.used() > self.budget && rounds > 0 {
            rounds = rounds.saturating_sub(1);
            let Some(block) = self.ring.pop_front() else { return };
            let Some(e) = self.map.get_mut(&block) else { continue };
            if e.pins > 0 || !e.dirty.is_empty() || core::mem::take(&mut e.referenced) {
                self.ring.push_back(block);
                continue;
            }
            self.evicted = self.evicted.max(e.written);
            self.map.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8) -> Arc<PageBuf> {
        let mut b = PageBuf::zeroed(1024);
        b.fill(fill);
        Arc::new(b)
    }

    fn changed(b: &Arc<PageBuf>, at: usize, v: u8) -> Arc<PageBuf> {
        let mut c = PageBuf::clone(b);
        c[at] = v;
        Arc::new(c)
    }

    fn versions(c: &BlockCache) -> Vec<(u64, u8, u8)> {
        let e = c.peek(7).unwrap();
        e.dirty.iter().map(|v| (v.epoch.0, v.buf[0], v.buf[1])).collect()
    }

    /// A bitmap byte whose bit 0 was freed in epoch 3; bit 1 is then allocated in epoch 1. Written
    /// in order, no state gives bit 0 back early or misses bit 1.
    #[test]
    fn a_commuting_change_reaches_every_version_from_its_epoch_on() {
        let mut c = BlockCache::new(1024, 1 << 20);
        let clean = block(0b0000_0001);
        c.insert_clean(7, clean.clone());
        let freed = changed(&clean, 0, 0);
        c.put_dirty(7, Epoch(3), Site::Bitmap, freed.clone());
        let taken = changed(&freed, 0, 0b0000_0010);
        assert_eq!(c.put_commuting(7, Epoch(1), Site::Bitmap, &freed, &taken), Epoch(1));
        assert_eq!(versions(&c), [(1, 0b11, 1), (3, 0b10, 1)]);
        assert_eq!(c.get(7).unwrap()[0], 0b10);
        assert_eq!(c.epochs.all().map(|(e, _)| e.0).collect::<Vec<_>>(), [1, 3]);
        // The next one finds a version of its epoch and changes it in place.
        let both = changed(&c.get(7).unwrap(), 1, 9);
        let cur = c.get(7).unwrap();
        c.put_commuting(7, Epoch(1), Site::Bitmap, &cur, &both);
        assert_eq!(versions(&c), [(1, 0b11, 9), (3, 0b10, 9)]);
        // Once epoch 1 is written it is what stands before epoch 3.
        c.claim(7, Epoch(1)).unwrap();
        c.complete(7, Epoch(1), Some(Seq(1)));
        let cur = c.get(7).unwrap();
        let third = changed(&cur, 2, 5);
        c.put_commuting(7, Epoch(2), Site::Bitmap, &cur, &third);
        assert_eq!(versions(&c), [(2, 0b11, 9), (3, 0b10, 9)]);
        assert_eq!(c.dirty_versions(), 2);
    }

    #[test]
    fn without_a_known_past_it_joins_the_oldest_version() {
        let mut c = BlockCache::new(1024, 1 << 20);
        let fresh = block(0);
        c.put_dirty(7, Epoch(4), Site::Dirent, fresh.clone());
        let new = changed(&fresh, 0, 1);
        assert_eq!(c.put_commuting(7, Epoch(1), Site::Dirent, &fresh, &new), Epoch(4));
        assert_eq!(versions(&c), [(4, 1, 0)]);
    }

    #[test]
    fn the_budget_holds_and_dirty_blocks_stay() {
        let mut c = BlockCache::new(4096, 64 * 4096);
        for b in 0..1000 {
            c.insert_clean(b, block(1));
        }
        assert!(c.used() <= 64 * 4096, "{}", c.used());
        for b in 0..20 {
            c.put_dirty(b, Epoch(1), Site::Inode, block(2));
        }
        assert!(c.over_dirty());
        assert_eq!(c.dirty_versions(), 20);
        c.drop_clean();
        assert_eq!(c.map.len(), 20);
    }
}
