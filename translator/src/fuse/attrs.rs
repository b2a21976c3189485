//! Extended attributes and inode flags, for the kernel.
//!
//! With access lists on, the kernel checks them itself: it reads the attributes that hold them and
//! keeps them until an inode is invalidated. It knows nothing of inode flags, which the engine
//! enforces; `lsattr` and `chattr` arrive as ioctl(2).

use super::ops::{Fuse, ctx};
use crate::session::Change;
use fuser::{Errno, INodeNo, ReplyIoctl, ReplyXattr, Request};
use seawall_diskfs::{Format, XattrHow};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::vec::Vec;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`: the kernel passes 4 bytes, whatever the numbers say.
const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR`: the same flags in another coding, in a `struct fsxattr`. The kernel asks
/// for them before it sets any.
const GETXFLAGS: u32 = 0x801C_581F;
const XFLAGS_BYTES: usize = 28;
/// (`FS_*_FL`, `FS_XFLAG_*`): immutable, append, sync, noatime, nodump.
const XFLAGS: [(u32, u32); 5] =
    [(0x10, 0x8), (0x20, 0x10), (0x8, 0x20), (0x80, 0x40), (0x40, 0x80)];
/// `FAT_IOCTL_GET_ATTRIBUTES` and `FAT_IOCTL_SET_ATTRIBUTES`, as `fatattr` uses them: 4 bytes.
const GET_DOS: u32 = 0x8004_7210;
const SET_DOS: u32 = 0x4004_7211;
/// What holds them.
const DOSATTRIB: &[u8] = b"user.DOSATTRIB";
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

type Result<T> = std::result::Result<T, Errno>;

impl<F: Format> Fuse<F> {
    pub(super) fn attribute(&self, req: &Request, ino: INodeNo, name: &OsStr) -> Result<Vec<u8>> {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        self.run(&ctx, |fs, t| fs.getxattr(&ctx, ino, name.as_bytes(), t))
    }

    /// Names, each with a zero byte behind it.
    pub(super) fn attributes_of(&self, req: &Request, ino: INodeNo) -> Result<Vec<u8>> {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        let names = self.run(&ctx, |fs, t| fs.listxattr(&ctx, ino, t))?;
        let mut out = Vec::new();
        // The kernel checks who reads a `trusted` attribute, not who sees its name.
        for name in names.iter().filter(|n| req.uid() == 0 || !n.starts_with(b"trusted.")) {
            out.extend_from_slice(name);
            out.push(0);
        }
        Ok(out)
    }

    pub(super) fn set_attribute(
        &self,
        req: &Request,
        ino: INodeNo,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
    ) -> Result<()> {
        let how = match flags {
            0 => XattrHow::Any,
            XATTR_CREATE => XattrHow::Create,
            XATTR_REPLACE => XattrHow::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        self.take(&ctx, |fs, t| fs.setxattr(&ctx, ino, (name.as_bytes(), value), how, t))
    }

    pub(super) fn remove_attribute(&self, req: &Request, ino: INodeNo, name: &OsStr) -> Result<()> {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        self.run(&ctx, |fs, t| fs.removexattr(&ctx, ino, name.as_bytes(), t))
    }

    pub(super) fn inode_flags(
        &self,
        req: &Request,
        ino: INodeNo,
        command: u32,
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        let get = || self.run(&ctx, |fs, t| fs.getattr(&ctx, ino, t)).map(|a| a.flags);
        match command {
            GETFLAGS => Ok(get()?.to_le_bytes().to_vec()),
            GETXFLAGS => {
                let flags = get()?;
                let set = XFLAGS.iter().filter(|(flag, _)| flags & flag != 0);
                let mut out = set.fold(0, |all, (_, x)| all | x).to_le_bytes().to_vec();
                out.resize(XFLAGS_BYTES, 0);
                Ok(out)
            }
            SETFLAGS => {
                let flags = data.first_chunk().ok_or(Errno::EINVAL)?;
                let flags = u32::from_le_bytes(*flags);
                self.run(&ctx, |fs, t| fs.set_flags(&ctx, ino, flags, t))?;
                self.engine.announce(&[Change::Attr(ino)]);
                Ok(Vec::new())
            }
            // Other formats may keep such an attribute, and do not act on it.
            GET_DOS | SET_DOS if self.has_acls => Err(Errno::ENOTTY),
            GET_DOS => {
                let text = self.run(&ctx, |fs, t| fs.getxattr(&ctx, ino, DOSATTRIB, t));
                let text = text.map_err(|_| Errno::ENOTTY)?;
                let hex = text.strip_prefix(b"0x").and_then(|h| std::str::from_utf8(h).ok());
                let value = hex.and_then(|h| u32::from_str_radix(h, 16).ok());
                Ok(value.ok_or(Errno::ENOTTY)?.to_le_bytes().to_vec())
            }
            SET_DOS => {
                let value = u32::from_le_bytes(*data.first_chunk().ok_or(Errno::EINVAL)?);
                let text = std::format!("{value:#x}").into_bytes();
                self.run(&ctx, |fs, t| {
                    fs.setxattr(&ctx, ino, (DOSATTRIB, &text), XattrHow::Any, t)
                })?;
                self.engine.announce(&[Change::Attr(ino)]);
                Ok(Vec::new())
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// The kernel asks for the size first (`size` 0), then for the bytes.
pub(super) fn sized(reply: ReplyXattr, size: u32, got: Result<Vec<u8>>) {
    match got {
        Err(e) => reply.error(e),
        Ok(data) => match u32::try_from(data.len()) {
            Ok(len) if size == 0 => reply.size(len),
            Ok(len) if len <= size => reply.data(&data),
            _ => reply.error(Errno::ERANGE),
        },
    }
}

pub(super) fn flagged(reply: ReplyIoctl, done: Result<Vec<u8>>) {
    match done {
        Ok(data) => reply.ioctl(0, &data),
        Err(e) => reply.error(e),
    }
}
