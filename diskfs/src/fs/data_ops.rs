//! Reads and writes of file data.
//!
//! A write is one transaction: blocks, pointers, size and times commit together with the data's
//! entry into the data cache, so a client that dies half way has written nothing. A read is a plan:
//! the host moves the bytes, and freed blocks are not given out while the plan lives.

use crate::data::Cached;
use crate::flags::{FL_APPEND, FL_IMMUTABLE, FL_SYNC};
use crate::fs::{Done, Fs};
use crate::plan::After;
use crate::policy::Action;
use crate::slice::Slice;
use crate::{
    Attempt, Attr, Ctx, Extent, Fault, Format, Handle, Ino, Kind, Mapping, Refused, Site, Ticket,
    Wait,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;

/// Largest single read or write, bytes.
pub const IO_MAX: usize = 4 << 20;

/// Where a part of a read comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Zeroes.
    Hole,
    /// The data cache.
    Memory(Slice),
    /// The device, at this byte offset.
    Disk(u64),
}

/// A part of a read.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Offset in the plan's window, bytes.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
    /// Where from.
    pub source: Source,
}

/// How to read a range. The window starts at a block boundary, so that device reads are aligned;
/// the wanted bytes are `skip..skip + len` of it. End it with `Fs::read_done`.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    /// Bytes of the window.
    pub window: usize,
    /// Where the wanted bytes start in it.
    pub skip: usize,
    /// How many are wanted; 0 at or past the end of the file.
    pub len: usize,
    /// Parts, covering the window.
    pub segments: Vec<Segment>,
    token: u64,
}

/// Reply of `Fs::seek`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhat {
    /// The next byte that is data.
    Data,
    /// The next byte that is in a hole (the end of the file is one).
    Hole,
}

fn overflow() -> Fault {
    Refused::Invalid.into()
}

impl<F: Format> Fs<F> {
    fn bs(&self) -> u64 {
        u64::from(self.geo.block_size)
    }

    /// Block range that covers the bytes.
    fn blocks_of(&self, offset: u64, len: u64) -> Attempt<Extent> {
        let end = offset.checked_add(len).ok_or_else(overflow)?;
        let start = offset / self.bs();
        Ok(Extent { start, len: end.div_ceil(self.bs()).saturating_sub(start) })
    }

    /// Plans a read of at most `len` bytes (clamped to [`IO_MAX`] and the file's end).
    pub fn read(
        &mut self,
        ctx: &Ctx,
        handle: Handle,
        offset: u64,
        len: usize,
        ticket: &mut Ticket,
    ) -> Attempt<Done<ReadPlan>> {
        let (ino, flags) = self.handle_info(handle)?;
        if !flags.read {
            return Err(Refused::BadHandle.into());
        }
        let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
        if attr.kind == Kind::Dir {
            return Err(Refused::IsDir.into());
        }
        let left = attr.size.saturating_sub(offset);
        let len = u64::try_from(len.min(IO_MAX)).unwrap_or(0).min(left);
        self.accessed(ctx, &attr, ticket)?;
        if len == 0 {
            let token = self.meta.pending.begin_io();
            let empty = ReadPlan { window: 0, skip: 0, len: 0, segments: Vec::new(), token };
            return Ok(Done::plain(empty));
        }
        let range = self.blocks_of(offset, len)?;
        let cached = self.data.read(ino, range);
        let here: u64 = cached.iter().map(|(_, blocks, _)| *blocks).sum();
        let maps = match here == range.len {
            // What is in memory needs no place on the disk.
            true => Vec::new(),
            false => self.look(ctx, ticket, |f, tx| f.map(tx, ino, range))?,
        };
        let segments = self.segments(range, cached, &maps);
        let bytes = |v: u64| usize::try_from(v).map_err(|_| overflow());
        let plan = ReadPlan {
            window: bytes(range.len.saturating_mul(self.bs()))?,
            skip: bytes(offset % self.bs())?,
            len: bytes(len)?,
            segments,
            token: self.meta.pending.begin_io(),
        };
        Ok(Done::plain(plan))
    }

    fn segments(&self, range: Extent, cached: Cached, maps: &[Mapping]) -> Vec<Segment> {
        let bs = self.bs();
        let to_bytes = |blocks: u64| usize::try_from(blocks.saturating_mul(bs)).unwrap_or(0);
        let mut out = Vec::new();
        let end = range.start.saturating_add(range.len);
        let mut at = range.start;
        let mut next = cached.into_iter().peekable();
        while at < end {
            let at_bytes = to_bytes(at.saturating_sub(range.start));
            if let Some((_, blocks, data)) = next.next_if(|(s, _, _)| *s <= at) {
                let source = Source::Memory(data);
                out.push(Segment { at: at_bytes, len: to_bytes(blocks), source });
                at = at.saturating_add(blocks);
                continue;
            }
            let stop = next.peek().map_or(end, |(s, _, _)| *s).min(end);
            let map = maps.iter().find(|m| m.file <= at && at < m.file.saturating_add(m.len));
            let stop = map.map_or(stop, |m| stop.min(m.file.saturating_add(m.len)));
            let blocks = stop.saturating_sub(at).max(1);
            let source = match map.and_then(|m| Some(m.disk?.saturating_add(at - m.file))) {
                Some(b) => Source::Disk(b.saturating_mul(bs)),
                None => Source::Hole,
            };
            out.push(Segment { at: at_bytes, len: to_bytes(blocks), source });
            at = at.saturating_add(blocks);
        }
        out
    }

    /// Ends a read plan.
    pub fn read_done(&mut self, plan: &ReadPlan) {
        let durable = self.meta.cache.epochs.durable;
        self.meta.pending.end_io(plan.token, durable);
    }

    /// Writes `data` at `offset` (at the end with `append`), at most [`IO_MAX`] bytes. Returns the
    /// bytes taken and where they start.
    pub fn write(
        &mut self,
        ctx: &Ctx,
        handle: Handle,
        offset: u64,
        data: &Slice,
        ticket: &mut Ticket,
    ) -> Attempt<Done<(usize, u64)>> {
        let (ino, flags) = self.handle_info(handle)?;
        if !flags.write {
            return Err(Refused::BadHandle.into());
        }
        self.writable()?;
        let data = data.part(0, IO_MAX);
        self.admit_data(data.len() as u64)?;
        let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
        let offset = if flags.append { attr.size } else { offset };
        if !self.handle(handle)?.deferred {
            may_write_at(&attr, offset)?;
        }
        if data.is_empty() {
            return Ok(Done::plain((0, offset)));
        }
        if offset >= self.geo.size_max {
            return Err(Refused::FileTooBig.into());
        }
        let fits = self.geo.size_max.saturating_sub(offset);
        let data = data.part(0, usize::try_from(fits).unwrap_or(usize::MAX));
        let end = offset.saturating_add(data.len() as u64);
        let range = self.blocks_of(offset, data.len() as u64)?;
        let bs = self.bs();
        if offset / bs > attr.size / bs && offset > attr.size && !self.format.has_holes() {
            return Err(Fault::Wait(Wait::Extend(ino, offset)));
        }
        self.refresh_fills(ticket);

        // A kernel that checks (no credentials here) also drops the bits itself, and knows who
        // may keep them.
        let clear_setid = attr.mode & 0o6000 != 0 && ctx.cred.as_ref().is_some_and(|c| c.uid != 0);
        let mut tx = self.meta.tx(ticket, ctx);
        tx.allocate_for(ino);
        let gap = old_end_block(attr.size, offset, bs);
        let gap = match gap {
            Some(block) => {
                let maps = self.format.map(&mut tx, ino, Extent { start: block, len: 1 })?;
                fill_block(&self.data, &mut tx, ino, block, &maps)?.map(|b| (block, b))
            }
            None => None,
        };
        let maps = self.format.map_alloc(&mut tx, ino, range)?;
        let whole = edges(&self.data, &mut tx, ino, &maps, (offset, end, attr.size), range)?;
        self.format.wrote(&mut tx, ino, end, clear_setid)?;
        let new_indirect = tx.effects.new_indirect;
        let staged = tx.stage();
        let mut after = self.commit(staged, Site::Data);
        if let Some((block, (disk, buf))) = gap {
            self.zero_past(ino, block, disk, &buf, attr.size);
        }
        self.put_data(ino, range, &maps, (offset, &data), whole);
        if let Some(o) = self.nodes.handle_mut(handle) {
            o.dirty = true;
        }
        self.after_write(&mut after, handle, &attr, new_indirect);
        Ok(Done { value: (data.len(), offset), after, more: false })
    }

    /// O_SYNC, the flag `S` and O_DSYNC: the write's own sites first (`indirect`), then the fsync
    /// that follows.
    pub(crate) fn after_write(
        &mut self,
        after: &mut Option<After>,
        handle: Handle,
        attr: &Attr,
        new_indirect: u32,
    ) {
        let Ok((ino, flags)) = self.handle_info(handle) else { return };
        let sync = flags.sync || attr.flags & FL_SYNC != 0;
        if let Some(a) = after {
            a.data = Some(ino);
            // Under `waited = all` without order the pointers have their own Sync; an epoch's
            // boundary is one already.
            if !self.policy.ordered() && self.policy.action(Site::Indirect, false) >= Action::Wait {
                a.indirect = new_indirect;
            }
        }
        if sync || flags.dsync {
            let a = after.get_or_insert_default();
            a.fsync = Some((handle, !sync));
            a.data = Some(ino);
            if self.policy.action(Site::Indirect, true) >= Action::Wait {
                a.indirect = new_indirect;
            }
        }
    }

    /// Old content that was fetched before newer data came and went is not old content any more.
    pub(crate) fn refresh_fills(&mut self, ticket: &mut Ticket) {
        if self.data.evicted_stamp > ticket.fill_stamp {
            ticket.pinned.clear();
            ticket.fill_stamp = self.data.now();
        }
    }

    /// Enters written data into the cache. Aligned data is shared, not copied.
    fn put_data(
        &mut self,
        ino: Ino,
        range: Extent,
        maps: &[Mapping],
        (offset, data): (u64, &Slice),
        whole: Edges,
    ) {
        let bs = self.bs();
        let head = usize::try_from(offset % bs).unwrap_or(0);
        let window = usize::try_from(range.len.saturating_mul(bs)).unwrap_or(0);
        if range.len == 1 && whole.patch && self.data.patch(ino, range.start, head, data) {
            return;
        }
        let block = if head == 0 && data.len() == window {
            data.clone()
        } else {
            let mut buf = PageBuf::zeroed(window);
            for (first, old) in [(true, &whole.head), (false, &whole.tail)] {
                let Some(old) = old else { continue };
                let at = if first { 0 } else { window.saturating_sub(old.len()) };
                if let Some(dst) = buf.get_mut(at..at.saturating_add(old.len())) {
                    dst.copy_from_slice(old);
                }
            }
            if let Some(dst) = buf.get_mut(head..head.saturating_add(data.len())) {
                dst.copy_from_slice(data);
            }
            Slice::new(buf)
        };
        for m in maps {
            let Some(disk) = m.disk else { continue };
            let at = usize::try_from(m.file.saturating_sub(range.start).saturating_mul(bs));
            let len = usize::try_from(m.len.saturating_mul(bs));
            let part = block.part(at.unwrap_or(usize::MAX), len.unwrap_or(0));
            self.put(ino, Extent { start: m.file, len: m.len }, disk, part);
        }
    }

    /// Zeroes what lies past `size` in its block, when anything there is not zero.
    pub(crate) fn zero_past(&mut self, ino: Ino, block: u64, disk: u64, old: &[u8], size: u64) {
        let keep = usize::try_from(size % self.bs()).unwrap_or(0);
        if old.get(keep..).is_none_or(|rest| rest.iter().all(|b| *b == 0)) {
            return;
        }
        let mut buf = PageBuf::zeroed(old.len());
        if let (Some(dst), Some(src)) = (buf.get_mut(..keep), old.get(..keep)) {
            dst.copy_from_slice(src);
        }
        self.put(ino, Extent { start: block, len: 1 }, disk, Slice::new(buf));
    }

    /// Enters blocks into the data cache, dirtied by the operation that runs.
    pub(crate) fn put(&mut self, ino: Ino, range: Extent, disk: u64, data: Slice) {
        self.data.put(ino, range, (disk, data), self.meta.now);
    }

    /// The next data or hole at or after `offset`. `NoData` past the end, and for data when only a
    /// hole is left.
    pub fn seek(
        &mut self,
        ctx: &Ctx,
        handle: Handle,
        offset: u64,
        what: SeekWhat,
        ticket: &mut Ticket,
    ) -> Attempt<Done<u64>> {
        let (ino, _) = self.handle_info(handle)?;
        let bs = self.bs();
        let found = self.look(ctx, ticket, |f, tx| {
            let size = f.attr(tx, ino)?.size;
            if offset >= size {
                return Err(Refused::NoData.into());
            }
            let last = size.div_ceil(bs);
            let mut at = offset / bs;
            while at < last {
                // A window keeps each look bounded; a hole of any size is a few of them.
                let range = Extent { start: at, len: (last - at).min(1 << 16) };
                for m in f.map(tx, ino, range)? {
                    if m.disk.is_some() == (what == SeekWhat::Data) {
                        return Ok(m.file.saturating_mul(bs).max(offset));
                    }
                }
                at = at.saturating_add(range.len);
            }
            if what == SeekWhat::Hole { Ok(size) } else { Err(Refused::NoData.into()) }
        })?;
        Ok(Done::plain(found))
    }
}

/// Old bytes of the first and last block, where the write covers only a part of them.
#[derive(Default)]
struct Edges {
    head: Option<Arc<PageBuf>>,
    tail: Option<Arc<PageBuf>>,
    /// The single block is dirty in memory: change it in place.
    patch: bool,
}

/// What the flags forbid to everybody, also through handles that were opened before they were set.
pub(crate) fn may_write_at(attr: &Attr, offset: u64) -> Result<(), Refused> {
    let inside = offset < attr.size && attr.flags & FL_APPEND != 0;
    if inside || attr.flags & FL_IMMUTABLE != 0 {
        return Err(Refused::NotPermitted);
    }
    Ok(())
}

/// The block that holds the old end of the file, when the write starts in a later one.
fn old_end_block(size: u64, offset: u64, bs: u64) -> Option<u64> {
    (!size.is_multiple_of(bs) && offset / bs > size / bs).then_some(size / bs)
}

/// A block's old content: from the data cache, or fetched; `None` for a hole.
pub(crate) fn fill_block(
    data: &crate::data::DataCache,
    tx: &mut crate::Tx<'_>,
    ino: Ino,
    block: u64,
    maps: &[Mapping],
) -> Attempt<Option<(u64, Arc<PageBuf>)>> {
    let Some(m) = maps.iter().find(|m| m.file <= block && block < m.file.saturating_add(m.len))
    else {
        return Ok(None);
    };
    let Some(disk) = m.disk.map(|d| d.saturating_add(block.saturating_sub(m.file))) else {
        return Ok(None);
    };
    if m.fresh {
        return Ok(None);
    }
    if let Some((_, _, bytes)) = data.read(ino, Extent { start: block, len: 1 }).first() {
        return Ok(Some((disk, Arc::new(PageBuf::from_slice(bytes)))));
    }
    Ok(Some((disk, tx.fill(disk)?)))
}

/// What the first and last block hold beside the written bytes. Past the old end they hold zeroes,
/// whatever the disk says.
fn edges(
    data: &crate::data::DataCache,
    tx: &mut crate::Tx<'_>,
    ino: Ino,
    maps: &[Mapping],
    (offset, end, size): (u64, u64, u64),
    range: Extent,
) -> Attempt<Edges> {
    let bs = tx.block_size() as u64;
    let mut e = Edges::default();
    let last = range.start.saturating_add(range.len).saturating_sub(1);
    let partial_head = !offset.is_multiple_of(bs);
    let partial_tail = !end.is_multiple_of(bs) && end < size;
    if range.len == 1 && (partial_head || partial_tail) && offset <= size {
        e.patch = data.is_dirty_block(ino, last);
        if e.patch {
            e.head = fill_block(data, tx, ino, last, maps)?.map(|(_, b)| b);
            return Ok(e);
        }
    }
    let cut = |b: Arc<PageBuf>, block: u64| -> Arc<PageBuf> {
        let keep = size.saturating_sub(block.saturating_mul(bs));
        if keep >= bs {
            return b;
        }
        let mut copy = PageBuf::clone(&b);
        if let Some(past) = copy.get_mut(usize::try_from(keep).unwrap_or(0)..) {
            past.fill(0);
        }
        Arc::new(copy)
    };
    if partial_head || (range.len == 1 && partial_tail) {
        e.head = fill_block(data, tx, ino, range.start, maps)?.map(|(_, b)| cut(b, range.start));
    }
    if partial_tail && range.len > 1 {
        e.tail = fill_block(data, tx, ino, last, maps)?.map(|(_, b)| cut(b, last));
    }
    Ok(e)
}
