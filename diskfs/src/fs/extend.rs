//! Growing a file of a format without holes: what it grows by is written as zeroes.
//!
//! It goes in bounded steps, each of which is a consistent file. A write past the end waits for it
//! and then continues the file. The crash case is that of any write: the size can be there before
//! the zeroes are.

use crate::fs::data_ops::fill_block;
use crate::fs::space::File;
use crate::fs::{Done, Fs};
use crate::slice::Slice;
use crate::{Attempt, Ctx, Extent, Format, IO_MAX, Ino, Refused, Site, Ticket};
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;

impl<F: Format> Fs<F> {
    /// One step of growing a file to `size` with zeroes; one that is as large is left alone.
    ///
    /// # Errors
    /// `NoSpace` before anything is done when the volume has not enough.
    pub fn extend(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        size: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.writable()?;
        let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
        let from = attr.size;
        if from >= size {
            return Ok(Done::plain(()));
        }
        self.refresh_fills(ticket);
        let bs = u64::from(self.geo.block_size);
        let upto = size.min((from / bs).saturating_mul(bs).saturating_add(IO_MAX as u64));
        let start = from.div_ceil(bs);
        let range = Extent { start, len: upto.div_ceil(bs).saturating_sub(start) };
        self.admit_data(upto.saturating_sub(from))?;
        if upto < size {
            let space = self.look(ctx, ticket, |f, tx| f.statfs(tx))?;
            let free = space.blocks_free.saturating_mul(u64::from(space.block_size));
            if size.saturating_sub(from) > free.saturating_add(bs) {
                return Err(Refused::NoSpace.into());
            }
        }
        let mut tx = self.meta.tx(ticket, ctx);
        tx.allocate_for(ino);
        tx.waits_for(&attr);
        let gap = if from.is_multiple_of(bs) {
            None
        } else {
            let block = from / bs;
            let maps = self.format.map(&mut tx, ino, Extent { start: block, len: 1 })?;
            fill_block(&self.data, &mut tx, ino, block, &maps)?.map(|b| (block, b))
        };
        let maps = match range.len {
            0 => Vec::new(),
            _ => self.format.map_alloc(&mut tx, ino, range)?,
        };
        self.format.wrote(&mut tx, ino, upto, false)?;
        let staged = tx.stage();
        let after = self.commit(staged, Site::Truncate);
        if let Some((block, (disk, buf))) = gap {
            self.zero_past(ino, block, disk, &buf, from);
        }
        for m in &maps {
            let Some(disk) = m.disk else { continue };
            let len = usize::try_from(m.len.saturating_mul(bs)).unwrap_or(0);
            let zeroes = Slice::new(PageBuf::zeroed(len));
            self.put(ino, Extent { start: m.file, len: m.len }, disk, zeroes);
        }
        Ok(Done { value: (), after, more: upto < size })
    }

    /// One step of reserving storage past the end, which is given back after the last close.
    pub(crate) fn reserve_step(
        &mut self,
        ctx: &Ctx,
        file: File,
        end: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let Some(hole) = self.first_hole(ctx, file.ino, (file.size, end), ticket)? else {
            return Ok(Done::plain(()));
        };
        let mut tx = self.meta.tx(ticket, ctx);
        tx.allocate_for(file.ino);
        self.format.map_alloc(&mut tx, file.ino, hole)?;
        let staged = tx.stage();
        let after = self.commit(staged, Site::Data);
        self.nodes.entry(file.ino).listed = true;
        Ok(Done { value: (), after, more: true })
    }
}
