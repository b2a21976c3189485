//! Permission checks, for hosts whose kernel has not made them (RPC clients), and what inode flags
//! forbid to everybody: no kernel above knows those.

use crate::acl::ACL_ACCESS;
use crate::flags::{FL_APPEND, FL_IMMUTABLE};
use crate::fs::xattr::stored;
use crate::{Attempt, Attr, Cred, Ctx, Format, Kind, Refused, Tx};

/// Read.
pub(crate) const R: u32 = 4;
/// Write.
pub(crate) const W: u32 = 2;
/// Execute, or search of a directory.
pub(crate) const X: u32 = 1;

fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.gid == gid || cred.groups.contains(&gid)
}

/// Whether the caller may do `want` with the node.
pub(crate) fn may<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    attr: &Attr,
    want: u32,
) -> Attempt<()> {
    if want & W != 0 && attr.flags & FL_IMMUTABLE != 0 {
        return Err(Refused::NotPermitted.into());
    }
    let Some(cred) = &ctx.cred else { return Ok(()) };
    // Without group bits a list grants nothing that others do not have.
    let listed = cred.uid != 0 && cred.uid != attr.uid && attr.mode & 0o070 != 0;
    if listed
        && attr.kind != Kind::Symlink
        && let Some(acl) = stored(f, tx, attr.ino, ACL_ACCESS)?
    {
        return if acl.allows(cred, attr, want) { Ok(()) } else { Err(Refused::Denied.into()) };
    }
    Ok(by_mode(cred, attr, want)?)
}

fn by_mode(cred: &Cred, attr: &Attr, want: u32) -> Result<(), Refused> {
    if cred.uid == 0 {
        let exec = want & X == 0 || attr.kind == Kind::Dir || attr.mode & 0o111 != 0;
        return if exec { Ok(()) } else { Err(Refused::Denied) };
    }
    let shift = if cred.uid == attr.uid {
        6
    } else if in_group(cred, attr.gid) {
        3
    } else {
        0
    };
    if (attr.mode >> shift) & want == want { Ok(()) } else { Err(Refused::Denied) }
}

/// Whether the caller owns the node (chmod, utimes to a given time).
pub(crate) fn owns(ctx: &Ctx, attr: &Attr) -> Result<(), Refused> {
    match &ctx.cred {
        Some(c) if c.uid != 0 && c.uid != attr.uid => Err(Refused::NotPermitted),
        _ => Ok(()),
    }
}

/// Whether the caller may remove a name of `node` from `dir`: the sticky bit's rule, and that of
/// the flags.
pub(crate) fn may_remove<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    dir: &Attr,
    node: &Attr,
) -> Attempt<()> {
    may(f, tx, ctx, dir, W | X)?;
    if is_sticky_for(ctx, dir, node) || dir.flags & FL_APPEND != 0 || is_fixed(node) {
        return Err(Refused::NotPermitted.into());
    }
    Ok(())
}

/// The name of `node` in `dir` is its owner's, and the caller is neither that nor the directory's.
fn is_sticky_for(ctx: &Ctx, dir: &Attr, node: &Attr) -> bool {
    ctx.cred.as_ref().is_some_and(|c| {
        dir.mode & 0o1000 != 0 && c.uid != 0 && c.uid != dir.uid && c.uid != node.uid
    })
}

/// A node whose names and attributes do not change.
pub(crate) fn is_fixed(node: &Attr) -> bool {
    node.flags & (FL_IMMUTABLE | FL_APPEND) != 0
}

/// Owner of a new node in `dir`, and its mode: a set-gid directory passes on its group, and to
/// directories the bit. A program does not get the bit from somebody outside of that group.
pub(crate) fn new_owner(ctx: &Ctx, dir: &Attr, kind: Kind, mode: u32) -> ((u32, u32), u32) {
    let (uid, gid) = ctx.cred.as_ref().map_or(ctx.owner, |c| (c.uid, c.gid));
    let mut mode = mode & 0o7777;
    if dir.mode & 0o2000 == 0 {
        return ((uid, gid), mode);
    }
    if kind == Kind::Dir {
        mode |= 0o2000;
    } else if mode & 0o2010 == 0o2010 && !in_file_group(ctx, dir) {
        mode &= !0o2000;
    }
    ((uid, dir.gid), mode)
}

/// True when the caller keeps set-id bits across a chown, write or chmod of another's group.
pub(crate) fn in_file_group(ctx: &Ctx, attr: &Attr) -> bool {
    ctx.cred.as_ref().is_none_or(|c| c.uid == 0 || in_group(c, attr.gid))
}

/// Whether a chown to (uid, gid) is allowed: root everything, an owner only to groups of his own.
pub(crate) fn may_chown(
    ctx: &Ctx,
    attr: &Attr,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), Refused> {
    let Some(c) = &ctx.cred else { return Ok(()) };
    if c.uid == 0 {
        return Ok(());
    }
    let uid_ok = uid.is_none_or(|u| u == attr.uid);
    let gid_ok = gid.is_none_or(|g| g == attr.gid || in_group(c, g));
    if c.uid == attr.uid && uid_ok && gid_ok { Ok(()) } else { Err(Refused::NotPermitted) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cred, Ino, Timestamp};
    use alloc::vec::Vec;

    fn attr(kind: Kind, mode: u32, uid: u32, gid: u32) -> Attr {
        let t = Timestamp::default();
        Attr {
            ino: Ino(20),
            generation: 0,
            kind,
            mode,
            nlink: 1,
            uid,
            gid,
            size: 0,
            blocks: 0,
            blksize: 1024,
            rdev: (0, 0),
            atime: t,
            mtime: t,
            ctime: t,
            btime: None,
            flags: 0,
        }
    }

    fn user(uid: u32, gid: u32) -> Ctx {
        Ctx { cred: Some(Cred { uid, gid, groups: Vec::new() }), ..Ctx::default() }
    }

    #[test]
    fn names_in_a_sticky_directory_are_their_owners() {
        let dir = attr(Kind::Dir, 0o1777, 5, 5);
        let file = attr(Kind::File, 0o666, 6, 6);
        let kept = |uid| is_sticky_for(&user(uid, 9), &dir, &file);
        assert_eq!([kept(7), kept(0), kept(5), kept(6)], [true, false, false, false]);
        let open = attr(Kind::Dir, 0o777, 5, 5);
        assert!(!is_sticky_for(&user(7, 9), &open, &file));
    }

    #[test]
    fn a_set_gid_directory_passes_its_group_on() {
        let dir = attr(Kind::Dir, 0o2777, 5, 50);
        let made = |ctx: &Ctx, kind, mode| new_owner(ctx, &dir, kind, mode);
        assert_eq!(made(&user(7, 9), Kind::File, 0o644), ((7, 50), 0o644));
        assert_eq!(made(&user(7, 9), Kind::Dir, 0o755), ((7, 50), 0o2755));
        assert_eq!(made(&user(7, 9), Kind::File, 0o2755), ((7, 50), 0o755));
        assert_eq!(made(&user(7, 50), Kind::File, 0o2755), ((7, 50), 0o2755));
        assert_eq!(made(&user(0, 0), Kind::File, 0o2755), ((0, 50), 0o2755));
        let plain = attr(Kind::Dir, 0o777, 5, 50);
        assert_eq!(new_owner(&user(7, 9), &plain, Kind::Dir, 0o755), ((7, 9), 0o755));
    }
}
