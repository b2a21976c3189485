//! Directories: slots in a chain of clusters, or in the fixed root.
//!
//! A name takes several slots, which may lie in two blocks; they are written in one stage. A power
//! loss between the two blocks leaves long slots without a short one, which nobody sees, or a short
//! one without its long name, which is the file under its alias.
//!
//! A slot whose first byte is 0 ends a directory whatever follows it, so whoever uses that slot
//! makes the next one the end.

use crate::Fat;
use crate::boot::{Root, SLOT};
use crate::chain::Walked;
use crate::entry::{self, RawEntry};
use crate::lfn::{Found, Scanner, Seen};
use crate::name::Wanted;
use crate::{fold, table};
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{array_at, put, u8_at};
use seawall_diskfs::{Attempt, Change, Fault, FsError, Ino, Refused, Site, Stage, Tx};

/// Most slots of a directory: 2 MiB.
pub(crate) const SLOTS_MAX: u32 = 65_536;
/// Most slots of a directory that is read: one that others made may be larger.
const SLOTS_SEEN: u32 = 1 << 22;
/// Most slots of a long name before its short one.
const LONG_MAX: u32 = 20;
/// Memo space: subdirectories of a directory.
const SPACE_SUBDIRS: u8 = 16;

const WHAT: &str = "directory block";

/// A directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    /// First cluster; `None` for the fixed root.
    pub(crate) start: Option<u32>,
}

/// The slots of a directory that are in one block.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    block: u64,
    /// Offset of the first one in the block.
    off: usize,
    /// Number of the first one in the directory.
    first: u32,
    slots: u32,
    /// Blocks of the directory that follow on the volume, this one among them.
    run: u64,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) found: Found,
    /// Byte of the volume where the short slot is.
    pub(crate) pos: u64,
}

/// What a look at each entry is told: the entry, and the byte of its short slot.
type Each<'a> = dyn FnMut(&Found, u64) -> Attempt<bool> + 'a;

impl Fat {
    fn block_bytes(&self) -> u64 {
        u64::from(self.boot.block_size)
    }

    /// The chunk with this number; `None` past the end.
    fn chunk(&self, tx: &mut Tx<'_>, dir: &Dir, k: u64) -> Attempt<Option<Chunk>> {
        let bs = self.block_bytes();
        let per = bs / SLOT;
        let Some(start) = dir.start else {
            let Root::Fixed { start, slots } = self.boot.root else { return Ok(None) };
            let block = start / bs + k;
            let end = start + u64::from(slots) * SLOT;
            let (low, high) = (start.max(block * bs), end.min((block + 1) * bs));
            let run = end.div_ceil(bs).saturating_sub(block);
            return Ok((low < high).then(|| Chunk {
                block,
                off: (low % bs) as usize,
                first: ((low - start) / SLOT) as u32,
                slots: ((high - low) / SLOT) as u32,
                run,
            }));
        };
        if k * per > u64::from(SLOTS_SEEN) {
            let what = format!("a directory has more than {SLOTS_SEEN} slots");
            return Err(FsError::corrupt(WHAT, 0, what).into());
        }
        let blocks = self.boot.cluster_blocks();
        let at = k / blocks;
        let Walked::Covers(run) = self.walk(tx, dir.ino, start, at)? else { return Ok(None) };
        let cluster = run.place(at).and_then(|c| self.block_of(c as u32));
        let base = cluster.ok_or(FsError::Bug("a cluster of a chain"))?;
        Ok(Some(Chunk {
            block: base + k % blocks,
            off: 0,
            first: u32::try_from(k * per).unwrap_or(u32::MAX),
            slots: per as u32,
            run: (run.end() - at) * blocks - k % blocks,
        }))
    }

    /// Number of the chunk that holds a slot.
    fn chunk_of(&self, dir: &Dir, slot: u32) -> u64 {
        let bs = self.block_bytes();
        match (dir.start, self.boot.root) {
            (None, Root::Fixed { start, .. }) => (start + u64::from(slot) * SLOT) / bs - start / bs,
            _ => u64::from(slot) * SLOT / bs,
        }
    }

    /// Byte of the volume where a slot is; `None` past the end.
    fn slot_pos(&self, tx: &mut Tx<'_>, dir: &Dir, slot: u32) -> Attempt<Option<u64>> {
        let k = self.chunk_of(dir, slot);
        let Some(c) = self.chunk(tx, dir, k)? else { return Ok(None) };
        let at = u64::from(slot.saturating_sub(c.first));
        let pos = c.block * self.block_bytes() + c.off as u64 + at * SLOT;
        Ok((at < u64::from(c.slots)).then_some(pos))
    }

    fn slot(&self, tx: &mut Tx<'_>, dir: &Dir, slot: u32) -> Attempt<Option<[u8; 32]>> {
        match self.slot_pos(tx, dir, slot)? {
            Some(pos) => self.slot_at(tx, pos).map(Some),
            None => Ok(None),
        }
    }

    /// Number of slots.
    pub(crate) fn dir_slots(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<u32> {
        match (dir.start, self.boot.root) {
            (Some(start), _) => {
                let (_, clusters) = self.chain_end(tx, dir.ino, start)?.unwrap_or_default();
                let slots = clusters * u64::from(self.boot.cluster) / SLOT;
                Ok(u32::try_from(slots).unwrap_or(u32::MAX))
            }
            (None, Root::Fixed { slots, .. }) => Ok(slots),
            (None, Root::Cluster(_)) => Ok(0),
        }
    }

    /// Shows every entry from a slot on, the dots among them, until `f` returns false.
    pub(crate) fn each_entry(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        from: u32,
        f: &mut Each<'_>,
    ) -> Attempt<()> {
        let mut scanner = Scanner::new();
        // A long name may begin before.
        let mut at = from.saturating_sub(LONG_MAX);
        let mut k = self.chunk_of(dir, at);
        while let Some(c) = self.chunk(tx, dir, k)? {
            let block = tx.read_run(c.block, c.run, WHAT)?;
            while at < c.first + c.slots {
                let off = c.off + (at - c.first) as usize * SLOT as usize;
                match scanner.push(at, &array_at(&block, off)?) {
                    Seen::End => return Ok(()),
                    Seen::Entry(found) if at >= from => {
                        let pos = c.block * self.block_bytes() + off as u64;
                        if !f(&found, pos)? {
                            return Ok(());
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            k += 1;
        }
        Ok(())
    }

    /// Shows every slot with its number, until `f` returns false.
    pub(crate) fn each_slot(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        f: &mut dyn FnMut(u32, &[u8; 32]) -> Attempt<bool>,
    ) -> Attempt<()> {
        let mut k = 0;
        while let Some(c) = self.chunk(tx, dir, k)? {
            let block = tx.read_run(c.block, c.run, WHAT)?;
            for n in 0..c.slots {
                let bytes = array_at(&block, c.off + n as usize * SLOT as usize)?;
                if !f(c.first + n, &bytes)? {
                    return Ok(());
                }
            }
            k += 1;
        }
        Ok(())
    }

    /// The entry whose short slot this is.
    fn entry_at(&self, tx: &mut Tx<'_>, dir: &Dir, slot: u32) -> Attempt<Option<Hit>> {
        let mut slots = Vec::new();
        let mut first = slot;
        while first > 0 && slot - first < LONG_MAX {
            match self.slot(tx, dir, first - 1)? {
                Some(s) if entry::is_long(&s) => slots.push(s),
                _ => break,
            }
            first -= 1;
        }
        let mut scanner = Scanner::new();
        for (n, s) in slots.iter().rev().enumerate() {
            scanner.push(first + n as u32, s);
        }
        let Some(pos) = self.slot_pos(tx, dir, slot)? else { return Ok(None) };
        let own = self.slot_at(tx, pos)?;
        Ok(match scanner.push(slot, &own) {
            Seen::Entry(found) => Some(Hit { found, pos }),
            _ => None,
        })
    }

    /// Hashes of the forms in which an entry is found: one or two.
    fn hashes(&self, found: &Found) -> (u32, Option<u32>) {
        match self.opts.rules.hashes(found) {
            (Some(long), short) if long != short => (long, Some(short)),
            (_, short) => (short, None),
        }
    }

    /// Makes sure of an index. False: search without one.
    fn index(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<bool> {
        if tx.index_ready(dir.ino) {
            return Ok(true);
        }
        match self.build_index(tx, dir) {
            Err(Fault::Err(_)) => {
                tx.index_refuse(dir.ino);
                Ok(false)
            }
            other => other,
        }
    }

    fn build_index(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<bool> {
        let slots = self.dir_slots(tx, dir)?;
        let Some(mut build) = tx.index_begin(dir.ino, u64::from(slots)) else {
            return Ok(false);
        };
        let (mut scanner, mut ended, mut dirs) = (Scanner::new(), false, 0u64);
        while let Some(c) = self.chunk(tx, dir, build.next())? {
            let mut room = Room::default();
            // Behind the end nothing is free by itself: what is between would end the directory.
            if !ended {
                let block = tx.read_run(c.block, c.run, WHAT)?;
                for n in 0..c.slots {
                    let bytes = array_at(&block, c.off + n as usize * SLOT as usize)?;
                    match scanner.push(c.first + n, &bytes) {
                        Seen::Free => room.free(1),
                        Seen::End => {
                            ended = true;
                            room.free(c.slots - n);
                            break;
                        }
                        Seen::Entry(found) => {
                            room.used();
                            dirs += u64::from(found.raw.is_dir() && !found.raw.is_dots());
                            let (a, b) = self.hashes(&found);
                            build.name(a, found.slot);
                            if let Some(b) = b {
                                build.name(b, found.slot);
                            }
                        }
                        Seen::Part | Seen::Label(_) | Seen::Ignored => room.used(),
                    }
                }
            }
            if !build.chunk(room.most()) {
                tx.index_refuse(dir.ino);
                return Ok(false);
            }
        }
        tx.index_install(build);
        tx.learn(SPACE_SUBDIRS, dir.ino.0, [dirs, 0, 0, 0]);
        Ok(tx.index_ready(dir.ino))
    }

    /// Finds a name in its folded form. `skip`: not in this slot.
    pub(crate) fn find_folded(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        folded: &[u16],
        skip: Option<u32>,
    ) -> Attempt<Option<Hit>> {
        let is = |found: &Found| {
            Some(found.slot) != skip
                && !found.raw.is_dots()
                && self.opts.rules.has_key(found, folded)
        };
        if self.index(tx, dir)? {
            let hash = fold::hash(folded);
            let mut after = None;
            while let Some(place) = tx.index_next(dir.ino, hash, after) {
                match self.entry_at(tx, dir, place)? {
                    Some(hit) if is(&hit.found) => return Ok(Some(hit)),
                    _ => after = Some(place),
                }
            }
            return Ok(None);
        }
        let mut hit = None;
        self.each_entry(tx, dir, 0, &mut |found, pos| {
            let same = is(found);
            if same {
                hit = Some(Hit { found: found.clone(), pos });
            }
            Ok(!same)
        })?;
        Ok(hit)
    }

    /// Finds a name as a caller gives it.
    pub(crate) fn find_name(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        name: &[u8],
    ) -> Attempt<Option<Hit>> {
        let wanted = match self.opts.rules.parse(name) {
            Ok(w) => w,
            // What cannot be a name is not there.
            Err(Refused::NotFound | Refused::Invalid) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        self.find_folded(tx, dir, &wanted.folded, None)
    }

    /// True when there is nothing but the dots.
    pub(crate) fn is_empty_dir(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<bool> {
        let mut empty = true;
        self.each_entry(tx, dir, 0, &mut |found, _| {
            empty = found.raw.is_dots();
            Ok(empty)
        })?;
        Ok(empty)
    }

    /// Number of subdirectories.
    pub(crate) fn subdirs(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<u32> {
        if let Some([n, ..]) = tx.memo(SPACE_SUBDIRS, dir.ino.0) {
            return Ok(n as u32);
        }
        let mut dirs = 0u32;
        self.each_entry(tx, dir, 0, &mut |found, _| {
            dirs += u32::from(found.raw.is_dir() && !found.raw.is_dots());
            Ok(true)
        })?;
        tx.learn(SPACE_SUBDIRS, dir.ino.0, [u64::from(dirs), 0, 0, 0]);
        Ok(dirs)
    }

    /// Notes that subdirectories came or went, where their number is known.
    pub(crate) fn count_subdirs(&self, tx: &mut Tx<'_>, dir: Ino, more: i64) {
        if let Some([n, ..]) = tx.memo(SPACE_SUBDIRS, dir.0) {
            let n = n.saturating_add_signed(more);
            tx.set_memo(SPACE_SUBDIRS, dir.0, Some([n, 0, 0, 0]));
        }
    }

    /// Sets the number of subdirectories of a new directory, or forgets that of one that went.
    pub(crate) fn set_subdirs(&self, tx: &mut Tx<'_>, dir: Ino, n: Option<u64>) {
        tx.set_memo(SPACE_SUBDIRS, dir.0, n.map(|n| [n, 0, 0, 0]));
    }

    /// Makes an entry: `raw` with the name's short form. Returns the byte of its short slot. `own`:
    /// the slot of an entry that goes in the same operation, whose alias may be taken over.
    pub(crate) fn insert(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        wanted: &Wanted,
        raw: &RawEntry,
        own: Option<u32>,
    ) -> Attempt<u64> {
        let rules = &self.opts.rules;
        let made = rules.encode(wanted, &mut |short| {
            let raw = RawEntry { name: *short, ..RawEntry::default() };
            let keys = rules.keys(&Found { first: 0, slot: 0, raw, long: None });
            Ok(self.find_folded(tx, dir, &keys.short, own)?.is_some())
        })?;
        let case = entry::NT_LOWER_BASE | entry::NT_LOWER_EXT;
        let raw = RawEntry { name: made.short, nt: raw.nt & !case | made.nt, ..*raw };
        let mut slots = made.long_slots();
        slots.push(raw.to_bytes());
        let first = self.room(tx, dir, slots.len() as u32)?;
        let change = Change { site: Site::Dirent, stage: Stage::Link, owner: Some(dir.ino) };
        let last = first + slots.len() as u32 - 1;
        self.write_slots(tx, dir, first, &slots, change)?;
        tx.dir_changed(dir.ino);
        // A name counts only if the end has moved past it, which an earlier name may have done.
        tx.touch(dir.ino);
        let found = Found { first, slot: last, raw, long: made.long };
        let (a, b) = self.hashes(&found);
        tx.index_add(dir.ino, a, last);
        if let Some(b) = b {
            tx.index_add(dir.ino, b, last);
        }
        self.note_room(tx, dir, first, last)?;
        let pos = self.slot_pos(tx, dir, last)?;
        pos.ok_or_else(|| FsError::Bug("the slot of a new entry").into())
    }

    /// Writes slots, and makes the one behind them the end when they reach past it.
    fn write_slots(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        first: u32,
        slots: &[[u8; 32]],
        change: Change,
    ) -> Attempt<()> {
        let bs = self.block_bytes();
        let mut was_end = false;
        for (n, bytes) in slots.iter().enumerate() {
            let pos = self.slot_pos(tx, dir, first + n as u32)?;
            let pos = pos.ok_or(FsError::Bug("a slot that was just found free"))?;
            let block = tx.modify(pos / bs, WHAT, change)?;
            let off = (pos % bs) as usize;
            was_end |= u8_at(block, off)? == entry::END;
            put(block, off, bytes)?;
        }
        let behind = first + slots.len() as u32;
        if was_end
            && let Some(pos) = self.slot_pos(tx, dir, behind)?
            && self.slot_at(tx, pos)?.first() != Some(&entry::END)
        {
            let block = tx.modify(pos / bs, WHAT, change)?;
            put(block, (pos % bs) as usize, &[entry::END])?;
        }
        Ok(())
    }

    /// Takes an entry away, with its long name.
    pub(crate) fn remove(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        hit: &Hit,
        stage: Stage,
    ) -> Attempt<()> {
        let change = Change { site: Site::Dirent, stage, owner: Some(dir.ino) };
        let bs = self.block_bytes();
        for slot in hit.found.first..=hit.found.slot {
            let pos = self.slot_pos(tx, dir, slot)?;
            let pos = pos.ok_or(FsError::Bug("a slot of an entry that was just found"))?;
            put(tx.modify(pos / bs, WHAT, change)?, (pos % bs) as usize, &[entry::FREE])?;
        }
        tx.dir_changed(dir.ino);
        tx.touch(dir.ino);
        let (a, b) = self.hashes(&hit.found);
        tx.index_remove(dir.ino, a, hit.found.slot);
        if let Some(b) = b {
            tx.index_remove(dir.ino, b, hit.found.slot);
        }
        self.note_room(tx, dir, hit.found.first, hit.found.slot)
    }

    /// Tells the index how much fits now into the chunks of these slots.
    fn note_room(&self, tx: &mut Tx<'_>, dir: &Dir, first: u32, last: u32) -> Attempt<()> {
        for k in self.chunk_of(dir, first)..=self.chunk_of(dir, last) {
            let Some(c) = self.chunk(tx, dir, k)? else { break };
            let block = tx.read(c.block, WHAT)?;
            let mut room = Room::default();
            for n in 0..c.slots {
                match u8_at(&block, c.off + n as usize * SLOT as usize)? {
                    entry::END => {
                        room.free(c.slots - n);
                        break;
                    }
                    entry::FREE => room.free(1),
                    _ => room.used(),
                }
            }
            tx.index_set_room(dir.ino, k, room.most());
        }
        Ok(())
    }

    /// First of `count` free slots in a row. Grows the directory for them.
    fn room(&self, tx: &mut Tx<'_>, dir: &Dir, count: u32) -> Attempt<u32> {
        let chunk = tx.index_room(dir.ino, 0, count as u16).flatten();
        if let Some(k) = chunk
            && let Some(c) = self.chunk(tx, dir, k)?
            && let Ok(first) = self.free_slots(tx, dir, c.first, Some(c.first + c.slots), count)?
        {
            return Ok(first);
        }
        match self.free_slots(tx, dir, 0, None, count)? {
            Ok(first) => Ok(first),
            Err((tail, mut slots)) => {
                while tail + count > slots {
                    slots += self.grow_dir(tx, dir)?;
                }
                Ok(tail)
            }
        }
    }

    /// First of `count` free slots in a row between two slots; else where the free slots at the end
    /// begin, and how many slots there are.
    fn free_slots(
        &self,
        tx: &mut Tx<'_>,
        dir: &Dir,
        from: u32,
        to: Option<u32>,
        count: u32,
    ) -> Attempt<Result<u32, (u32, u32)>> {
        let (mut start, mut at, mut ended) = (from, from, false);
        let mut k = self.chunk_of(dir, from);
        while to.is_none_or(|t| at < t)
            && let Some(c) = self.chunk(tx, dir, k)?
        {
            if ended {
                at = c.first + c.slots;
            } else {
                let block = tx.read_run(c.block, c.run, WHAT)?;
                while at < c.first + c.slots {
                    let off = c.off + (at - c.first) as usize * SLOT as usize;
                    match u8_at(&block, off)? {
                        entry::END => {
                            ended = true;
                            at = c.first + c.slots;
                            break;
                        }
                        entry::FREE => {}
                        _ => start = at + 1,
                    }
                    at += 1;
                    if at - start >= count {
                        return Ok(Ok(start));
                    }
                }
            }
            if at.saturating_sub(start) >= count {
                return Ok(Ok(start));
            }
            k += 1;
        }
        Ok(Err((start, at)))
    }

    /// Adds an empty cluster to a directory. Returns how many slots that are.
    fn grow_dir(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<u32> {
        let slots = self.dir_slots(tx, dir)?;
        let more = (u64::from(self.boot.cluster) / SLOT) as u32;
        let (Some(start), true) = (dir.start, slots.saturating_add(more) <= SLOTS_MAX) else {
            return Err(Refused::NoSpace.into());
        };
        let (last, _) = self
            .chain_end(tx, dir.ino, start)?
            .ok_or(FsError::Bug("a directory without a cluster"))?;
        let chunks = u64::from(slots) * SLOT / self.block_bytes();
        let new = self.take(tx, dir.ino, Some(last + 1), 1)?;
        self.clear_cluster(tx, dir.ino, new.first)?;
        let change = Change { site: Site::FatTable, stage: Stage::Link, owner: Some(dir.ino) };
        self.set_entry(tx, last, new.first, change)?;
        tx.touch(dir.ino);
        for n in 0..self.boot.cluster_blocks() {
            tx.index_set_room(dir.ino, chunks + n, 0);
        }
        Ok(more)
    }

    /// Fills a directory's new cluster with zeroes: unused slots.
    pub(crate) fn clear_cluster(&self, tx: &mut Tx<'_>, dir: Ino, cluster: u32) -> Attempt<()> {
        let first = self.block_of(cluster).ok_or(FsError::Bug(table::WHAT))?;
        let change = Change { site: Site::Dirent, stage: Stage::Init, owner: Some(dir) };
        for n in 0..self.boot.cluster_blocks() {
            tx.create_block(first + n, WHAT, change)?;
        }
        Ok(())
    }
}

/// Free slots of a chunk, while they are counted.
#[derive(Default)]
struct Room {
    row: u32,
    most: u32,
}

impl Room {
    fn free(&mut self, n: u32) {
        self.row += n;
        self.most = self.most.max(self.row);
    }

    fn used(&mut self) {
        self.row = 0;
    }

    /// The longest row.
    fn most(&self) -> u16 {
        u16::try_from(self.most).unwrap_or(u16::MAX)
    }
}
