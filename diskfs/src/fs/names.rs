//! Operations on names: create, link, unlink, rename.

use crate::flags::FL_APPEND;
use crate::fs::look::changing_dir;
use crate::fs::perm::{R, W, X, is_fixed, may, may_remove, new_owner};
use crate::fs::xattr::inherited;
use crate::fs::{Done, Fs};
use crate::nodes::Nodes;
use crate::{
    Attempt, Attr, Ctx, Fault, Format, FsError, Handle, Ino, Kind, NewNode, OpenFlags, Refused,
    RenameFlags, Site, Ticket, Tx, Unlinked,
};

/// Most directories between a node and the root that a rename walks through.
const DEPTH_MAX: usize = 16_384;

fn kind_of(node: NewNode<'_>) -> Kind {
    match node {
        NewNode::File => Kind::File,
        NewNode::Dir => Kind::Dir,
        NewNode::Symlink(_) => Kind::Symlink,
        NewNode::Special(k, _) => k,
    }
}

impl<F: Format> Fs<F> {
    /// Checks a name that an operation makes or removes.
    fn check_entry(&self, name: &[u8], dots: Refused) -> Result<(), Refused> {
        self.check_name(name)?;
        if name == b"." || name == b".." { Err(dots) } else { Ok(()) }
    }

    /// Makes a node. `Exists` when the name is taken.
    pub fn create(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Attr>> {
        self.check_entry(name, Refused::Exists)?;
        if let NewNode::Symlink(t) = node
            && (t.is_empty() || t.len() > self.geo.symlink_max)
        {
            return Err(if t.is_empty() { Refused::Invalid } else { Refused::NameTooLong }.into());
        }
        let done = self.change(ctx, ticket, Site::NameOp, |f, tx| {
            let d = changing_dir(f, tx, dir)?;
            if f.lookup(tx, dir, name)?.is_some() {
                return Err(Refused::Exists.into());
            }
            may(f, tx, ctx, &d, W | X)?;
            if d.nlink == 0 {
                return Err(Refused::NotFound.into());
            }
            let kind = kind_of(node);
            let (attrs, mode) = inherited(f, tx, ctx, dir, kind, mode)?;
            let (owner, mode) = new_owner(ctx, &d, kind, mode);
            let ino = f.create(tx, dir, name, node, mode, owner)?;
            tx.effects.fresh.push(ino);
            if !attrs.is_empty() {
                f.xattr_init(tx, ino, &attrs)?;
            }
            f.attr(tx, ino)
        })?;
        Ok(done)
    }

    /// open(2) with O_CREAT: makes the file, or opens it when it is there (and `exclusive` is not
    /// set). Returns attributes and a handle.
    pub fn create_open(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
        ticket: &mut Ticket,
    ) -> Attempt<Done<(Attr, Handle)>> {
        let created = self.create(ctx, dir, name, NewNode::File, mode, ticket);
        match created {
            Ok(done) => {
                let handle = self.open_checked(done.value.ino, flags)?;
                Ok(Done { value: (done.value, handle), after: done.after, more: false })
            }
            Err(Fault::Err(FsError::Refused(Refused::Exists))) if !flags.exclusive => {
                let attr = self.lookup(ctx, dir, name, ticket)?.value;
                let handle = self.open(ctx, attr.ino, flags, ticket)?.value;
                Ok(Done::plain((attr, handle)))
            }
            Err(e) => Err(e),
        }
    }

    /// Adds a name to a node that is not a directory.
    pub fn link(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<Attr>> {
        self.check_entry(name, Refused::Exists)?;
        self.change(ctx, ticket, Site::NameOp, |f, tx| {
            let d = changing_dir(f, tx, dir)?;
            let a = f.attr(tx, ino)?;
            if a.kind == Kind::Dir {
                return Err(Refused::NotPermitted.into());
            }
            if a.nlink == 0 {
                return Err(Refused::NotFound.into());
            }
            may(f, tx, ctx, &d, W | X)?;
            if is_fixed(&a) {
                return Err(Refused::NotPermitted.into());
            }
            if f.lookup(tx, dir, name)?.is_some() {
                return Err(Refused::Exists.into());
            }
            f.link(tx, ino, dir, name)?;
            f.attr(tx, ino)
        })
    }

    /// Removes a name of a node that is not a directory.
    pub fn unlink(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.remove(ctx, dir, name, false, ticket)
    }

    /// Removes an empty directory.
    pub fn rmdir(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.remove(ctx, dir, name, true, ticket)
    }

    fn remove(
        &mut self,
        ctx: &Ctx,
        dir: Ino,
        name: &[u8],
        rmdir: bool,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        let dots = match (rmdir, name) {
            (true, b"..") => Refused::NotEmpty,
            (true, _) => Refused::Invalid,
            (false, _) => Refused::IsDir,
        };
        self.check_entry(name, dots)?;
        let done = self.change_nodes(ctx, ticket, Site::NameOp, |f, tx, nodes| {
            let d = changing_dir(f, tx, dir)?;
            let ino = f.lookup(tx, dir, name)?.ok_or(Fault::from(Refused::NotFound))?;
            let a = f.attr(tx, ino)?;
            may_remove(f, tx, ctx, &d, &a)?;
            match (a.kind == Kind::Dir, rmdir) {
                (true, false) => return Err(Refused::IsDir.into()),
                (false, true) => return Err(Refused::NotDir.into()),
                _ => {}
            }
            let left = f.unlink(tx, dir, name, rmdir)?;
            list_held(f, tx, nodes, left)
        })?;
        self.lost_name(done.value);
        Ok(Done { value: (), after: done.after, more: false })
    }

    /// An inode without links is freed when nothing holds it any more.
    fn lost_name(&mut self, (u, listed): (Unlinked, bool)) {
        if u.nlink > 0 {
            return;
        }
        let n = self.nodes.entry(u.ino);
        n.orphan = true;
        n.listed |= listed;
        if !self.nodes.is_held(u.ino) {
            self.orphans.insert(u.ino);
        }
    }

    /// Moves a name, replacing what stands at the new one.
    pub fn rename(
        &mut self,
        ctx: &Ctx,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        if flags.exchange && flags.no_replace {
            return Err(Refused::Invalid.into());
        }
        self.check_entry(from.1, Refused::Busy)?;
        self.check_entry(to.1, Refused::Busy)?;
        let done = self.change_nodes(ctx, ticket, Site::NameOp, |f, tx, nodes| {
            let (fd, td) = (changing_dir(f, tx, from.0)?, changing_dir(f, tx, to.0)?);
            let src = f.lookup(tx, from.0, from.1)?.ok_or(Fault::from(Refused::NotFound))?;
            let a = f.attr(tx, src)?;
            may_remove(f, tx, ctx, &fd, &a)?;
            may(f, tx, ctx, &td, W | X)?;
            if td.nlink == 0 {
                return Err(Refused::NotFound.into());
            }
            if a.kind == Kind::Dir && from.0 != to.0 {
                // Moving a directory changes its `..`.
                may(f, tx, ctx, &a, W)?;
                outside(f, tx, src, to.0)?;
            }
            let target = f.lookup(tx, to.0, to.1)?;
            let respelled = target == Some(src) && from != to && f.folds_names();
            if let Some(t) = target.filter(|_| !respelled) {
                if flags.no_replace {
                    return Err(Refused::Exists.into());
                }
                let b = f.attr(tx, t)?;
                may_remove(f, tx, ctx, &td, &b)?;
                if flags.exchange {
                    if b.kind == Kind::Dir && from.0 != to.0 {
                        may(f, tx, ctx, &b, W)?;
                        outside(f, tx, t, from.0)?;
                    }
                } else if t == src {
                    return Ok(None);
                } else {
                    match (a.kind == Kind::Dir, b.kind == Kind::Dir) {
                        (true, false) => return Err(Refused::NotDir.into()),
                        (false, true) => return Err(Refused::IsDir.into()),
                        _ => {}
                    }
                    if b.kind == Kind::Dir && is_above(f, tx, t, from.0)? {
                        return Err(Refused::NotEmpty.into());
                    }
                }
            } else if flags.exchange && !respelled {
                return Err(Refused::NotFound.into());
            }
            let left = f.rename(tx, from, to, flags)?;
            left.map(|u| list_held(f, tx, nodes, u)).transpose()
        })?;
        if let Some(u) = done.value {
            self.lost_name(u);
        }
        Ok(Done { value: (), after: done.after, more: false })
    }

    /// Opens an inode after checking the caller's rights.
    pub fn open(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        flags: OpenFlags,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Handle>> {
        if flags.write && self.read_only {
            return Err(Refused::ReadOnly.into());
        }
        self.look(ctx, ticket, |f, tx| {
            let a = f.attr(tx, ino)?;
            if a.kind == Kind::Dir && flags.write {
                return Err(Refused::IsDir.into());
            }
            if a.kind == Kind::Symlink {
                return Err(Refused::Loop.into());
            }
            let want = if flags.read { R } else { 0 } | if flags.write { W } else { 0 };
            append_only(&a, flags)?;
            may(f, tx, ctx, &a, want)
        })?;
        Ok(Done::plain(self.open_checked(ino, flags)?))
    }

    pub(crate) fn open_checked(&mut self, ino: Ino, flags: OpenFlags) -> Attempt<Handle> {
        self.nodes.open(ino, flags).ok_or_else(|| Refused::TooManyHandles.into())
    }
}

/// A file that only grows is opened for appending, and not emptied.
fn append_only(a: &Attr, flags: OpenFlags) -> Result<(), Refused> {
    if a.flags & FL_APPEND != 0 && ((flags.write && !flags.append) || flags.truncate) {
        return Err(Refused::NotPermitted);
    }
    Ok(())
}

/// Puts an inode that lost its last name on the volume's list if something holds it: the crash case
/// is a power loss before the last close, after which nobody would free it.
fn list_held<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    nodes: &Nodes,
    left: Unlinked,
) -> Attempt<(Unlinked, bool)> {
    // A kernel forgets what nobody has open as soon as it knows that the name is gone: the two
    // superblock writes of the list are saved, and a crash in between leaves what preen frees.
    let listed = left.nlink == 0 && nodes.is_open(left.ino) && f.orphan_add(tx, left.ino)?;
    Ok((left, listed))
}

/// `Invalid` when `dir` is `node` or lies below it.
fn outside<F: Format>(f: &F, tx: &mut Tx<'_>, node: Ino, dir: Ino) -> Attempt<()> {
    if is_above(f, tx, node, dir)? { Err(Refused::Invalid.into()) } else { Ok(()) }
}

fn is_above<F: Format>(f: &F, tx: &mut Tx<'_>, node: Ino, dir: Ino) -> Attempt<bool> {
    let root = f.geometry().root;
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        if at == node {
            return Ok(true);
        }
        if at == root {
            return Ok(false);
        }
        at = f.parent(tx, at)?;
    }
    Err(FsError::corrupt("directory tree", 0, "the way up does not reach the root").into())
}
