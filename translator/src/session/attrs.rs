//! Extended attributes and inode flags.

use super::names::current;
use super::{Change, Made, Result, Session};
use crate::protocol::{Xattr, XattrReply};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Ctx, Done};

impl Session {
    pub(super) fn xattr<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        fid: u32,
        body: &Xattr,
    ) -> Result<Made> {
        let node = self.fids.node(fid)?;
        let ino = node.ino;
        let reply = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, node, t)?;
            let done = |d: Done<()>| Done { value: XattrReply::Done, after: d.after, more: d.more };
            let plain = |value| Done { value, after: None, more: false };
            Ok(match body {
                Xattr::Get { name } => {
                    plain(XattrReply::Value(fs.getxattr(ctx, ino, name, t)?.value))
                }
                Xattr::List => plain(XattrReply::Names(fs.listxattr(ctx, ino, t)?.value)),
                Xattr::Set { name, value, how } => {
                    done(fs.setxattr(ctx, ino, (name, value), *how, t)?)
                }
                Xattr::Remove { name } => done(fs.removexattr(ctx, ino, name, t)?),
            })
        })?;
        if reply == XattrReply::Done {
            self.changed(Change::Attr(ino));
        }
        Made::body(&reply)
    }

    pub(super) fn flags<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        fid: u32,
        set: Option<u32>,
    ) -> Result<Made> {
        let node = self.fids.node(fid)?;
        let attr = driver::run(host, ctx, |fs, t| {
            let value = current(fs, ctx, node, t)?;
            match set {
                None => Ok(Done { value, after: None, more: false }),
                Some(flags) => fs.set_flags(ctx, node.ino, flags, t),
            }
        })?;
        if set.is_some() {
            self.changed(Change::Attr(node.ino));
        }
        Made::body(&attr.flags)
    }
}
