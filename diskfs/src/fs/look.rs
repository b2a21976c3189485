//! Operations that change nothing.

use crate::flags::{FL_DIRSYNC, FL_SYNC};
use crate::fs::perm::{R, X, may};
use crate::fs::{Done, Fs};
use crate::{Attempt, Attr, Ctx, DirEntry, Fault, Format, Ino, Kind, Refused, StatFs, Ticket, Tx};
use alloc::string::String;
use alloc::vec::Vec;

/// A listing with attributes, when they were asked for.
pub type Listing = Vec<(DirEntry, Option<Attr>)>;

pub(crate) fn dir_attr<F: Format>(f: &F, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Attr> {
    let a = f.attr(tx, dir)?;
    if a.kind == Kind::Dir { Ok(a) } else { Err(Refused::NotDir.into()) }
}

/// As [`dir_attr`], for a directory whose names change: with the flags `D` or `S` that is durable
/// when the operation returns.
pub(crate) fn changing_dir<F: Format>(f: &F, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Attr> {
    let a = dir_attr(f, tx, dir)?;
    tx.effects.sync |= a.flags & (FL_DIRSYNC | FL_SYNC) != 0;
    Ok(a)
}

impl<F: Format> Fs<F> {
    /// Checks a name that is to be looked up or made.
    pub(crate) fn check_name(&self, name: &[u8]) -> Result<(), Refused> {
        if name.len() > self.geo.name_max {
            return Err(Refused::NameTooLong);
        }
        if name.is_empty() || name.iter().any(|c| *c == b'/' || *c == 0) {
            return Err(Refused::Invalid);
        }
        Ok(())
    }

    /// Finds a name. `.` and `..` work. `NotFound` when it is absent.
    pub fn lookup(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<Attr>> {
        self.check_name(name)?;
        let attr = self.look(ctx, ticket, |f, tx| {
            let mut check = |tx: &mut Tx<'_>, d: &Attr| {
                if d.kind != Kind::Dir {
                    return Err(Refused::NotDir.into());
                }
                may(f, tx, ctx, d, X)
            };
            if name != b"." && name != b".." {
                let found = f.lookup_if(tx, dir, name, &mut check)?;
                return f.attr(tx, found.ok_or(Fault::from(Refused::NotFound))?);
            }
            let d = f.attr(tx, dir)?;
            check(tx, &d)?;
            let ino = if name == b"." { dir } else { f.parent(tx, dir)? };
            f.attr(tx, ino)
        })?;
        Ok(Done::plain(attr))
    }

    /// The spelling in which the volume keeps a name, for caches of names; `None` when it is
    /// absent.
    pub fn spelling(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Option<Vec<u8>>> {
        self.look(ctx, ticket, |f, tx| f.spelling(tx, dir, name))
    }

    /// Attributes of an inode.
    pub fn getattr(&mut self, ctx: &Ctx, ino: Ino, ticket: &mut Ticket) -> Attempt<Done<Attr>> {
        self.look(ctx, ticket, |f, tx| f.attr(tx, ino)).map(Done::plain)
    }

    /// Target of a symlink.
    pub fn readlink(&mut self, ctx: &Ctx, ino: Ino, ticket: &mut Ticket) -> Attempt<Done<Vec<u8>>> {
        let (attr, target) = self.look(ctx, ticket, |f, tx| {
            let attr = f.attr(tx, ino)?;
            if attr.kind != Kind::Symlink {
                return Err(Refused::Invalid.into());
            }
            Ok((attr, f.readlink(tx, ino)?))
        })?;
        self.accessed(ctx, &attr, ticket)?;
        Ok(Done::plain(target))
    }

    /// Lists a directory from `cookie` on (0: from the start): at most `max` entries whose names
    /// have at most `max_bytes` bytes together (one entry always fits). An empty listing is the
    /// end.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a listing")]
    pub fn readdir(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        cookie: u64,
        max: usize,
        max_bytes: usize,
        attrs: bool,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Listing>> {
        let (attr, list) = self.look(ctx, ticket, |f, tx| {
            let d = dir_attr(f, tx, dir)?;
            may(f, tx, ctx, &d, R)?;
            let mut entries = Vec::new();
            let mut bytes = 0usize;
            f.readdir(tx, dir, cookie, &mut |e: DirEntry| {
                let with = bytes.saturating_add(e.name.len());
                if entries.len() >= max || (with > max_bytes && !entries.is_empty()) {
                    return false;
                }
                bytes = with;
                entries.push(e);
                true
            })?;
            let mut list = Vec::with_capacity(entries.len());
            for e in entries {
                let attr = if attrs { Some(f.attr(tx, e.ino)?) } else { None };
                list.push((e, attr));
            }
            Ok((d, list))
        })?;
        if cookie == 0 {
            self.accessed(ctx, &attr, ticket)?;
        }
        Ok(Done::plain(list))
    }

    /// Checks at mount what every operation relies on.
    pub fn check_mount(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<()>> {
        self.look(ctx, ticket, |f, tx| f.check_mount(tx)).map(Done::plain)
    }

    /// Space and limits. Space that is free but not yet reusable counts as free.
    pub fn statfs(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<StatFs>> {
        self.look(ctx, ticket, |f, tx| f.statfs(tx)).map(Done::plain)
    }

    /// What the volume is, for people. See [`Format::describe`].
    pub fn describe(&mut self, ctx: &Ctx, ticket: &mut Ticket) -> Attempt<Done<Option<String>>> {
        self.look(ctx, ticket, |f, tx| f.describe(tx)).map(Done::plain)
    }

    /// Makes the next search for free space begin at a place of the format's.
    pub fn set_next_free(
        &mut self,
        ctx: &Ctx,
        unit: u64,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let mut tx = self.meta.tx(ticket, ctx);
        self.format.set_next_free(&mut tx, unit)?;
        let hints = tx.stage().effects.hints;
        self.meta.hints.extend(hints);
        Ok(Done::plain(()))
    }

    /// Whether the caller may access the node: `want` is a sum of 4 (read), 2 (write), 1 (execute).
    pub fn access(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        want: u32,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.look(ctx, ticket, |f, tx| {
            let a = f.attr(tx, ino)?;
            may(f, tx, ctx, &a, want)
        })
        .map(Done::plain)
    }
}
