//! Changes of attributes and of the size.
//!
//! A truncation goes in bounded steps, each of which leaves a consistent file on disk: the size
//! falls with the blocks, from the end.

use crate::flags::FL_IMMUTABLE;
use crate::fs::data_ops::fill_block;
use crate::fs::perm::{W, in_file_group, is_fixed, may, may_chown, owns};
use crate::fs::xattr::chmod_acl;
use crate::fs::{Done, Fs};
use crate::{
    Attempt, Attr, Ctx, Extent, Format, Ino, Kind, Refused, SetAttr, SetTime, Site, Ticket, Tx,
};

impl<F: Format> Fs<F> {
    /// Changes attributes. With a size it may take several steps (`more`); the other attributes
    /// change with the last.
    pub fn set_attr(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        set: &SetAttr,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Attr>> {
        let attr = self.look(ctx, ticket, |f, tx| {
            let attr = f.attr(tx, ino)?;
            check(f, tx, ctx, &attr, set)?;
            Ok(attr)
        })?;
        let mut more = false;
        let mut after = None;
        if let Some(size) = set.size {
            let done = self.truncate(ctx, &attr, size, ticket)?;
            more = done.more;
            after = done.after;
        }
        let rest = SetAttr { size: None, ..kept_bits(ctx, &attr, set) };
        if more || (rest == SetAttr::default() && set.size.is_some()) {
            let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
            return Ok(Done { value: attr, after, more });
        }
        let done = self.change(ctx, ticket, Site::Inode, |f, tx| {
            tx.waits_for(&attr);
            if let Some(mode) = rest.mode {
                chmod_acl(f, tx, &attr, mode)?;
            }
            f.set_attr(tx, ino, &rest)?;
            f.attr(tx, ino)
        })?;
        let after = done.after.or(after);
        Ok(Done { value: done.value, after, more: false })
    }

    fn truncate(
        &mut self,
        ctx: &Ctx,
        attr: &Attr,
        size: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        match attr.kind {
            Kind::File => {}
            Kind::Dir => return Err(Refused::IsDir.into()),
            _ => return Err(Refused::Invalid.into()),
        }
        if size > self.geo.size_max {
            return Err(Refused::FileTooBig.into());
        }
        if size > attr.size && !self.format.has_holes() {
            return self.extend(ctx, attr.ino, size, ticket);
        }
        self.refresh_fills(ticket);
        self.writable()?;
        let ino = attr.ino;
        let bs = u64::from(self.geo.block_size);
        let low = size.min(attr.size);
        let mut tx = self.meta.tx(ticket, ctx);
        tx.waits_for(attr);
        // What stays of the block at the lower end must read as zeroes if the file grows again.
        let tail = if !low.is_multiple_of(bs) {
            let block = low / bs;
            let maps = self.format.map(&mut tx, ino, Extent { start: block, len: 1 })?;
            fill_block(&self.data, &mut tx, ino, block, &maps)?.map(|b| (block, b))
        } else {
            None
        };
        let more = self.format.truncate_step(&mut tx, ino, size)?;
        let staged = tx.stage();
        let after = self.commit(staged, Site::Truncate);
        self.data.truncate(ino, low.div_ceil(bs));
        if let Some((block, (disk, old))) = tail {
            self.zero_past(ino, block, disk, &old, low);
        }
        Ok(Done { value: (), after, more })
    }
}

fn check<F: Format>(f: &F, tx: &mut Tx<'_>, ctx: &Ctx, attr: &Attr, set: &SetAttr) -> Attempt<()> {
    let at = |t| matches!(t, SetTime::At(_));
    let fixed = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    if (fixed || set.size.is_some() || at(set.atime) || at(set.mtime)) && is_fixed(attr) {
        return Err(Refused::NotPermitted.into());
    }
    if set.mode.is_some() {
        owns(ctx, attr)?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        may_chown(ctx, attr, set.uid, set.gid)?;
    }
    if set.size.is_some() {
        may(f, tx, ctx, attr, W)?;
    }
    for t in [set.atime, set.mtime] {
        match t {
            SetTime::Omit => {}
            SetTime::Now if attr.flags & FL_IMMUTABLE != 0 => {
                return Err(Refused::NotPermitted.into());
            }
            SetTime::Now if owns(ctx, attr).is_ok() => {}
            SetTime::Now => may(f, tx, ctx, attr, W)?,
            SetTime::At(t) if t.nanos < 1_000_000_000 => owns(ctx, attr)?,
            SetTime::At(_) => return Err(Refused::Invalid.into()),
        }
    }
    Ok(())
}

/// The set-id rules: chmod by somebody outside the group drops set-gid, chown of a file drops both.
fn kept_bits(ctx: &Ctx, attr: &Attr, set: &SetAttr) -> SetAttr {
    let mut out = *set;
    if let Some(m) = &mut out.mode {
        *m &= 0o7777;
        if attr.kind != Kind::Dir && !in_file_group(ctx, attr) {
            *m &= !0o2000;
        }
    }
    let owner_changes = set.uid.is_some() || set.gid.is_some();
    if owner_changes && out.mode.is_none() && attr.kind == Kind::File && attr.mode & 0o6000 != 0 {
        let group_exec = attr.mode & 0o010 != 0;
        let drop = if group_exec { 0o6000 } else { 0o4000 };
        out.mode = Some(attr.mode & !drop);
    }
    out
}
