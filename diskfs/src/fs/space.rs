//! fallocate(2): blocks ahead of writes, and holes.
//!
//! Both go in bounded steps, each of which is a consistent file. Blocks that are allocated hold
//! zeroes, which are written like data, because no format here can mark a block as unwritten; so
//! there are none past the size. The crash case is that of any write.

use crate::flags::{FL_APPEND, FL_IMMUTABLE};
use crate::fs::data_ops::{fill_block, may_write_at};
use crate::fs::{Done, Fs};
use crate::slice::Slice;
use crate::{
    Attempt, Attr, Ctx, Extent, Format, FsError, Handle, IO_MAX, Ino, Kind, Refused, Site, Ticket,
};
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;

/// What to do with a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Holes get blocks; the file grows to the range's end.
    Allocate,
    /// The same, and the size stays: `Unsupported` when the range reaches past it.
    AllocateKeepSize,
    /// What the range holds is gone and reads as zeroes; the size stays.
    Punch,
}

impl<F: Format> Fs<F> {
    /// fallocate(2) of `len` bytes from `offset` on, through a handle open for writing. Takes
    /// several steps (`more`).
    ///
    /// # Errors
    /// `Invalid` for a length of 0 and for what is not a file; `Unsupported` for what the format
    /// cannot hold; `NoSpace` leaves what the steps before allocated.
    pub fn space(
        &mut self,
        ctx: &Ctx,
        handle: Handle,
        (offset, len): (u64, u64),
        what: Space,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let (ino, flags) = self.handle_info(handle)?;
        if !flags.write {
            return Err(Refused::BadHandle.into());
        }
        self.writable()?;
        let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
        // Made so after the open; an append-only file grows, and holes are no growth.
        let fixed = if what == Space::Punch { FL_IMMUTABLE | FL_APPEND } else { FL_IMMUTABLE };
        if attr.flags & fixed != 0 {
            return Err(Refused::NotPermitted.into());
        }
        let end = offset.checked_add(len).ok_or(Refused::FileTooBig)?;
        if attr.kind != Kind::File || len == 0 {
            return Err(Refused::Invalid.into());
        }
        // What only grows takes no holes.
        may_write_at(&attr, if what == Space::Punch { offset } else { attr.size })?;
        if end > self.geo.size_max {
            return Err(Refused::FileTooBig.into());
        }
        let reserve = what == Space::AllocateKeepSize && end > attr.size;
        if reserve && !self.format.has_reserve() {
            return Err(FsError::unsupported("blocks past the end of a file").into());
        }
        self.refresh_fills(ticket);
        let setid = attr.mode & 0o6000 != 0 && ctx.cred.as_ref().is_some_and(|c| c.uid != 0);
        let file = File { handle, ino, size: attr.size, setid, attr };
        match what {
            _ if reserve => self.reserve_step(ctx, file, end, ticket),
            Space::Allocate if !self.format.has_holes() => {
                let mut done = self.extend(ctx, ino, end, ticket)?;
                if let Some(o) = self.nodes.handle_mut(handle) {
                    o.dirty = true;
                }
                self.after_write(&mut done.after, handle, &attr, 0);
                Ok(done)
            }
            Space::Punch => self.punch_step(ctx, file, offset, end, ticket),
            _ => self.allocate_step(ctx, file, offset, end, ticket),
        }
    }

    /// The first run of holes in the byte range, at most one write long.
    pub(crate) fn first_hole(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        (offset, end): (u64, u64),
        ticket: &mut Ticket,
    ) -> Attempt<Option<Extent>> {
        let bs = u64::from(self.geo.block_size);
        let most = (IO_MAX as u64 / bs).max(1);
        self.look(ctx, ticket, |f, tx| {
            let (mut at, stop) = (offset / bs, end.div_ceil(bs));
            while at < stop {
                let range = Extent { start: at, len: (stop - at).min(1 << 14) };
                let hole = f.map(tx, ino, range)?.into_iter().find(|m| m.disk.is_none());
                if let Some(m) = hole {
                    return Ok(Some(Extent { start: m.file, len: m.len.min(most) }));
                }
                at = at.saturating_add(range.len);
            }
            Ok(None)
        })
    }

    fn allocate_step(
        &mut self,
        ctx: &Ctx,
        file: File,
        offset: u64,
        end: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let bs = u64::from(self.geo.block_size);
        let hole = self.first_hole(ctx, file.ino, (offset, end), ticket)?;
        let (hole, upto) = match hole {
            Some(h) => (h, h.start.saturating_add(h.len).saturating_mul(bs).min(end)),
            None if end > file.size => (Extent { start: end / bs, len: 0 }, end),
            None => return Ok(Done::plain(())),
        };
        let bytes = hole.len.saturating_mul(bs);
        self.admit_data(bytes)?;
        let size = file.size.max(upto);
        let mut tx = self.meta.tx(ticket, ctx);
        // What lies past the old end in its block must read as zeroes now.
        let grows = size > file.size && !file.size.is_multiple_of(bs);
        let old_end = grows.then_some(file.size / bs);
        let gap = match old_end {
            Some(block) => {
                let maps = self.format.map(&mut tx, file.ino, Extent { start: block, len: 1 })?;
                fill_block(&self.data, &mut tx, file.ino, block, &maps)?.map(|b| (block, b))
            }
            None => None,
        };
        let maps = match hole.len {
            0 => Vec::new(),
            _ => self.format.map_alloc(&mut tx, file.ino, hole)?,
        };
        self.format.wrote(&mut tx, file.ino, size, file.setid)?;
        let new_indirect = tx.effects.new_indirect;
        let staged = tx.stage();
        let mut after = self.commit(staged, Site::Data);
        if let Some((block, (disk, buf))) = gap {
            self.zero_past(file.ino, block, disk, &buf, file.size);
        }
        for m in maps.iter().filter(|m| m.fresh) {
            let Some(disk) = m.disk else { continue };
            let len = usize::try_from(m.len.saturating_mul(bs)).unwrap_or(0);
            let zeroes = Slice::new(PageBuf::zeroed(len));
            self.put(file.ino, Extent { start: m.file, len: m.len }, disk, zeroes);
        }
        if let Some(o) = self.nodes.handle_mut(file.handle) {
            o.dirty = true;
        }
        self.after_write(&mut after, file.handle, &file.attr, new_indirect);
        Ok(Done { value: (), after, more: upto < end || hole.len > 0 })
    }

    fn punch_step(
        &mut self,
        ctx: &Ctx,
        file: File,
        offset: u64,
        end: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let bs = u64::from(self.geo.block_size);
        // Past the end there is nothing; the block that holds the end goes as a whole.
        let stop = if end >= file.size { file.size.div_ceil(bs) } else { end / bs };
        let start = offset.div_ceil(bs);
        let whole = Extent { start, len: stop.saturating_sub(start) };
        let end = end.min(file.size);
        let ino = file.ino;
        let mut tx = self.meta.tx(ticket, ctx);
        let mut edges = Vec::new();
        for (block, from, to) in edge_blocks((offset, end), bs, whole) {
            let maps = self.format.map(&mut tx, ino, Extent { start: block, len: 1 })?;
            if let Some((disk, old)) = fill_block(&self.data, &mut tx, ino, block, &maps)? {
                edges.push((block, disk, old, from, to));
            }
        }
        let next = self.format.punch_step(&mut tx, ino, whole)?;
        self.format.wrote(&mut tx, ino, file.size, file.setid)?;
        let staged = tx.stage();
        let mut after = self.commit(staged, Site::Truncate);
        let done = next.unwrap_or(stop).saturating_sub(start);
        self.data.punch(ino, Extent { start, len: done });
        for (block, disk, old, from, to) in edges {
            let mut buf = PageBuf::clone(&old);
            if let Some(part) = buf.get_mut(from..to) {
                part.fill(0);
            }
            self.put(ino, Extent { start: block, len: 1 }, disk, Slice::new(buf));
        }
        if let Some(o) = self.nodes.handle_mut(file.handle) {
            o.dirty = true;
        }
        self.after_write(&mut after, file.handle, &file.attr, 0);
        Ok(Done { value: (), after, more: next.is_some() })
    }
}

#[derive(Clone, Copy)]
pub(crate) struct File {
    handle: Handle,
    pub(crate) ino: Ino,
    pub(crate) size: u64,
    setid: bool,
    attr: Attr,
}

/// Blocks that the byte range covers in part: number, and bytes from and to.
fn edge_blocks(
    (offset, end): (u64, u64),
    bs: u64,
    whole: Extent,
) -> impl Iterator<Item = (u64, usize, usize)> {
    let inside = move |b: u64| b >= whole.start && b < whole.start.saturating_add(whole.len);
    let (first, last) = (offset / bs, end / bs);
    let blocks = [Some(first), (last != first).then_some(last)];
    blocks.into_iter().flatten().filter_map(move |b| {
        let base = b.saturating_mul(bs);
        let from = offset.max(base).saturating_sub(base);
        let to = end.min(base.saturating_add(bs)).saturating_sub(base);
        let bytes = |v: u64| usize::try_from(v).unwrap_or(0);
        (!inside(b) && from < to).then(|| (b, bytes(from), bytes(to)))
    })
}
