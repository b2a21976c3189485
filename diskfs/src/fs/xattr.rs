//! Extended attributes and inode flags: who may read and change what.
//!
//! The rules are Linux's: `user` follows the permissions of files and directories, `trusted` is for
//! user 0 alone, `security` is changed by user 0, an access list by the owner. A host whose kernel
//! has checked passes no credentials.

use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::flags::{FL_APPEND, FL_IMMUTABLE, FL_PRIVILEGED};
use crate::fs::perm::{R, W, in_file_group, may, owns};
use crate::fs::{Done, Fs};
use crate::{
    Attempt, Attr, Ctx, Fault, Format, FsError, Ino, Kind, Refused, SetAttr, Site, Ticket, Tx,
};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Longest value of an attribute, bytes.
pub const XATTR_MAX: usize = 64 << 10;
/// Longest name of an attribute, bytes.
pub const XATTR_NAME_MAX: usize = 255;

/// Attributes of a new node: name and value.
pub(crate) type Attributes = Vec<(&'static [u8], Vec<u8>)>;

/// What setting an attribute expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum XattrHow {
    /// Nothing.
    #[default]
    Any,
    /// It is not there: EEXIST else.
    Create,
    /// It is there: ENODATA else.
    Replace,
}

fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

fn is_root(ctx: &Ctx) -> bool {
    ctx.cred.as_ref().is_none_or(|c| c.uid == 0)
}

/// Whether the caller may read (`R`) or change (`W`) an attribute of this name.
fn may_attr<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    attr: &Attr,
    name: &[u8],
    want: u32,
) -> Attempt<()> {
    if want == W && attr.flags & (FL_IMMUTABLE | FL_APPEND) != 0 {
        return Err(Refused::NotPermitted.into());
    }
    let absent = if want == W { Refused::NotPermitted } else { Refused::NoAttr };
    if name.starts_with(b"trusted.") {
        return if is_root(ctx) { Ok(()) } else { Err(absent.into()) };
    }
    if name.starts_with(b"security.") {
        return if want == R || is_root(ctx) { Ok(()) } else { Err(absent.into()) };
    }
    if is_acl(name) {
        return if want == R { Ok(()) } else { Ok(owns(ctx, attr)?) };
    }
    if name.starts_with(b"user.") {
        if !matches!(attr.kind, Kind::File | Kind::Dir) {
            return Err(absent.into());
        }
        if want == W && attr.kind == Kind::Dir && attr.mode & 0o1000 != 0 {
            owns(ctx, attr)?;
        }
    }
    if name.starts_with(b"gnu.") && want == W {
        return Ok(owns(ctx, attr)?);
    }
    may(f, tx, ctx, attr, want)
}

impl<F: Format> Fs<F> {
    /// `Unsupported` for what this mount does not keep.
    fn check_attr(&self, name: &[u8]) -> Result<(), FsError> {
        if name.len() > XATTR_NAME_MAX {
            return Err(Refused::Range.into());
        }
        if !self.format.has_xattrs() {
            return Err(FsError::unsupported("extended attributes on this format"));
        }
        let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"gnu."];
        let known = match spaces.iter().find_map(|s| name.strip_prefix(*s)) {
            Some(b"") => return Err(Refused::Invalid.into()),
            Some(_) => self.opts.user_xattr || !name.starts_with(b"user."),
            None => is_acl(name) && self.opts.acl,
        };
        if known { Ok(()) } else { Err(FsError::unsupported("attributes of this name")) }
    }

    /// Value of an attribute; `NoAttr` when it is not there.
    pub fn getxattr(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<Vec<u8>>> {
        self.check_attr(name)?;
        let value = self.look(ctx, ticket, |f, tx| {
            let attr = f.attr(tx, ino)?;
            no_acl_on_links(&attr, name)?;
            may_attr(f, tx, ctx, &attr, name, R)?;
            f.xattr_get(tx, ino, name)?.ok_or(Fault::from(Refused::NoAttr))
        })?;
        Ok(Done::plain(value))
    }

    /// Names of the attributes that the caller may know of.
    pub fn listxattr(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Vec<Vec<u8>>>> {
        if !self.format.has_xattrs() {
            return Ok(Done::plain(Vec::new()));
        }
        let mut names = self.look(ctx, ticket, |f, tx| f.xattr_list(tx, ino))?;
        names.retain(|n| {
            self.check_attr(n).is_ok() && (is_root(ctx) || !n.starts_with(b"trusted."))
        });
        Ok(Done::plain(names))
    }

    /// Sets an attribute. An access list also sets the mode, and one that says no more than the
    /// mode is not kept.
    pub fn setxattr(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        (name, value): (&[u8], &[u8]),
        how: XattrHow,
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.check_attr(name)?;
        if value.len() > XATTR_MAX {
            return Err(Refused::TooBig.into());
        }
        self.change(ctx, ticket, Site::Inode, |f, tx| {
            let attr = f.attr(tx, ino)?;
            no_acl_on_links(&attr, name)?;
            may_attr(f, tx, ctx, &attr, name, W)?;
            tx.waits_for(&attr);
            if how != XattrHow::Any {
                let there = f.xattr_get(tx, ino, name)?.is_some();
                match how {
                    XattrHow::Create if there => return Err(Refused::Exists.into()),
                    XattrHow::Replace if !there => return Err(Refused::NoAttr.into()),
                    _ => {}
                }
            }
            if is_acl(name) {
                set_acl(f, tx, ctx, &attr, name, value)
            } else {
                f.xattr_set(tx, ino, name, Some(value))
            }
        })
    }

    /// Takes an attribute away; `NoAttr` when it is not there.
    pub fn removexattr(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        name: &[u8],
        ticket: &mut Ticket,
    ) -> Attempt<Done<()>> {
        self.check_attr(name)?;
        self.change(ctx, ticket, Site::Inode, |f, tx| {
            let attr = f.attr(tx, ino)?;
            no_acl_on_links(&attr, name)?;
            may_attr(f, tx, ctx, &attr, name, W)?;
            tx.waits_for(&attr);
            if f.xattr_get(tx, ino, name)?.is_none() {
                // Taking away a list that is not there is fine, as for the kernel.
                return if is_acl(name) { Ok(()) } else { Err(Refused::NoAttr.into()) };
            }
            f.xattr_set(tx, ino, name, None)
        })
    }

    /// Sets the inode flags that callers may set. Those of [`FL_PRIVILEGED`] are user 0's.
    pub fn set_flags(
        &mut self,
        ctx: &Ctx,
        ino: Ino,
        flags: u32,
        ticket: &mut Ticket,
    ) -> Attempt<Done<Attr>> {
        self.change(ctx, ticket, Site::Inode, |f, tx| {
            let attr = f.attr(tx, ino)?;
            if !matches!(attr.kind, Kind::File | Kind::Dir) {
                return Err(FsError::unsupported("inode flags of a special file").into());
            }
            owns(ctx, &attr)?;
            if (attr.flags ^ flags) & FL_PRIVILEGED != 0 && !is_root(ctx) {
                return Err(Refused::NotPermitted.into());
            }
            f.set_flags(tx, ino, flags)?;
            let attr = f.attr(tx, ino)?;
            tx.waits_for(&attr);
            Ok(attr)
        })
    }
}

fn no_acl_on_links(attr: &Attr, name: &[u8]) -> Result<(), FsError> {
    if attr.kind == Kind::Symlink && is_acl(name) {
        return Err(FsError::unsupported("access lists on symlinks"));
    }
    Ok(())
}

fn set_acl<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    attr: &Attr,
    name: &[u8],
    value: &[u8],
) -> Attempt<()> {
    let acl = Acl::parse(value).map_err(|_| Refused::Invalid)?;
    if name == ACL_DEFAULT {
        if attr.kind != Kind::Dir {
            return Err(if acl.is_some() { Refused::Denied } else { Refused::Invalid }.into());
        }
        return f.xattr_set(tx, attr.ino, name, acl.map(|a| a.bytes()).as_deref());
    }
    let Some(acl) = acl else { return f.xattr_set(tx, attr.ino, name, None) };
    let (bits, whole) = acl.mode();
    let keeps = attr.kind == Kind::Dir
        || match ctx.cred {
            Some(_) => in_file_group(ctx, attr),
            // The kernel does not say which other groups the caller is in: the bit goes.
            None => ctx.owner.0 == 0 || ctx.owner.1 == attr.gid,
        };
    let special = attr.mode & if keeps { 0o7000 } else { 0o5000 };
    f.xattr_set(tx, attr.ino, name, (!whole).then(|| acl.bytes()).as_deref())?;
    let set = SetAttr { mode: Some(special | bits), ..SetAttr::default() };
    f.set_attr(tx, attr.ino, &set)
}

/// A stored list. One that is none is damage of the volume.
pub(crate) fn stored<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ino: Ino,
    name: &[u8],
) -> Attempt<Option<Acl>> {
    if !tx.acl {
        return Ok(None);
    }
    let Some(value) = f.xattr_get(tx, ino, name)? else { return Ok(None) };
    let wrong = |_| FsError::corrupt("access list", 0, alloc::format!("of inode {}", ino.0));
    Ok(Acl::parse(&value).map_err(wrong)?)
}

/// The access list follows a chmod.
pub(crate) fn chmod_acl<F: Format>(f: &F, tx: &mut Tx<'_>, attr: &Attr, mode: u32) -> Attempt<()> {
    if attr.kind == Kind::Symlink {
        return Ok(());
    }
    let Some(mut acl) = stored(f, tx, attr.ino, ACL_ACCESS)? else { return Ok(()) };
    acl.set_mode(mode);
    f.xattr_set(tx, attr.ino, ACL_ACCESS, Some(&acl.bytes()))
}

/// What a node gets from its directory's default list: attributes and mode. Without a list the
/// caller's umask counts.
pub(crate) fn inherited<F: Format>(
    f: &F,
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    dir: Ino,
    kind: Kind,
    mode: u32,
) -> Attempt<(Attributes, u32)> {
    let mut list = Vec::new();
    if kind == Kind::Symlink {
        return Ok((list, mode));
    }
    let Some(acl) = stored(f, tx, dir, ACL_DEFAULT)? else {
        return Ok((list, mode & !ctx.umask));
    };
    let (own, mode) = acl.inherit(mode);
    if !own.mode().1 {
        list.push((ACL_ACCESS, own.bytes()));
    }
    if kind == Kind::Dir {
        list.push((ACL_DEFAULT, acl.bytes()));
    }
    Ok((list, mode))
}
