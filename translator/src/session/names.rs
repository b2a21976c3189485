//! Operations that find, make, move and remove names.

use super::changes::target;
use super::fids::NodeId;
use super::{Change, Fail, Made, Result, Session};
use crate::protocol::{
    Attach, Link, Mkdir, Mknod, Node, NodeReply, Rename, Symlink, Walk, WalkReply, limit,
};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{
    Attempt, Attr, Ctx, Done, Format, Fs, Kind, NewNode, OpenFlags, Refused, SetAttr, Ticket,
    Timestamp,
};
use seawall_ipc::{Status, encode_body};

/// Attributes of a node, if it still is the one that the fid was bound to.
pub(super) fn current<F: Format>(
    fs: &mut Fs<F>,
    ctx: &Ctx,
    node: NodeId,
    t: &mut Ticket,
) -> Attempt<Attr> {
    let attr = fs.getattr(ctx, node.ino, t)?.value;
    if attr.generation == node.generation { Ok(attr) } else { Err(Refused::Stale.into()) }
}

fn plain<T>(value: T) -> Done<T> {
    Done { value, after: None, more: false }
}

impl Session {
    pub(super) fn attach<H: Host>(
        &mut self,
        host: &mut H,
        now: Timestamp,
        fid: u32,
        body: &Attach,
    ) -> Result<Made> {
        self.fids.may_bind(fid, None)?;
        if let Some(cred) = &body.cred {
            if self.peer.uid != 0 {
                return Err(Refused::NotPermitted.into());
            }
            self.cred = cred.clone();
        }
        let ctx = self.ctx(now);
        let root = host.with(|fs| fs.geometry().root);
        let attr = driver::run(host, &ctx, |fs, t| fs.getattr(&ctx, root, t))?;
        self.fids.bind(fid, (&attr).into(), None);
        Made::body(&NodeReply { attr })
    }

    pub(super) fn walk<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        fid: u32,
        body: &Walk,
    ) -> Result<Made> {
        if body.names.len() > limit::WALK as usize {
            return Err(Status::EINVAL.into());
        }
        self.fids.may_bind(body.new_fid, Some(fid))?;
        let mut node = self.fids.node(fid)?;
        let mut reply = WalkReply::default();
        let mut attr = None;
        for name in &body.names {
            let found = driver::run(host, ctx, |fs, t| {
                current(fs, ctx, node, t)?;
                fs.lookup(ctx, node.ino, name, t)
            });
            match found {
                Ok(a) => {
                    let (ino, generation) = (a.ino.0, a.generation);
                    reply.nodes.push(Node { ino, generation, kind: a.kind });
                    node = (&a).into();
                    attr = Some(a);
                }
                Err(e) => return Err(Fail::Walk(e, encode_body(&reply).unwrap_or_default())),
            }
        }
        let mut handle = None;
        if let Some(flags) = body.open {
            let opened = self.open_node(host, ctx, node, flags, None);
            match opened {
                Ok((h, a)) => {
                    handle = Some(h);
                    attr = Some(a);
                }
                Err(Fail::Fs(e)) => {
                    return Err(Fail::Walk(e, encode_body(&reply).unwrap_or_default()));
                }
                Err(e) => return Err(e),
            }
        }
        if body.getattr {
            reply.attr = match attr {
                Some(a) => Some(a),
                None => {
                    Some(driver::run(host, ctx, |fs, t| Ok(plain(current(fs, ctx, node, t)?)))?)
                }
            };
        }
        self.fids.bind(body.new_fid, node, handle);
        Made::body(&reply)
    }

    fn make<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
    ) -> Result<Attr> {
        let dir = self.fids.node(dir)?;
        let made = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, dir, t)?;
            fs.create(ctx, dir.ino, name, node, mode, t)
        });
        self.changed_name(dir.ino, name, None);
        Ok(made?)
    }

    pub(super) fn mkdir<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Mkdir,
    ) -> Result<Made> {
        if let Some(fid) = body.new_fid {
            self.fids.may_bind(fid, None)?;
        }
        let attr = self.make(host, ctx, dir, &body.name, NewNode::Dir, body.mode)?;
        if let Some(fid) = body.new_fid {
            self.fids.bind(fid, (&attr).into(), None);
        }
        Made::body(&NodeReply { attr })
    }

    pub(super) fn mknod<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Mknod,
    ) -> Result<Made> {
        match body.kind {
            Kind::Fifo | Kind::Socket => {}
            Kind::CharDev | Kind::BlockDev if self.cred.uid == 0 => {}
            Kind::CharDev | Kind::BlockDev => return Err(Refused::NotPermitted.into()),
            Kind::File | Kind::Dir | Kind::Symlink => return Err(Refused::Invalid.into()),
        }
        let node = NewNode::Special(body.kind, body.rdev);
        let attr = self.make(host, ctx, dir, &body.name, node, body.mode)?;
        Made::body(&NodeReply { attr })
    }

    pub(super) fn symlink<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Symlink,
    ) -> Result<Made> {
        let node = NewNode::Symlink(&body.target);
        let attr = self.make(host, ctx, dir, &body.name, node, 0o777)?;
        Made::body(&NodeReply { attr })
    }

    pub(super) fn link<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Link,
    ) -> Result<Made> {
        let (dir, node) = (self.fids.node(dir)?, self.fids.node(body.fid)?);
        let made = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, dir, t)?;
            current(fs, ctx, node, t)?;
            fs.link(ctx, node.ino, dir.ino, &body.name, t)
        });
        self.changed_name(dir.ino, &body.name, Some(node.ino));
        Made::body(&NodeReply { attr: made? })
    }

    pub(super) fn unlink<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        name: &[u8],
        rmdir: bool,
    ) -> Result<Made> {
        let dir = self.fids.node(dir)?;
        let mut gone = None;
        let done = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, dir, t)?;
            gone = target(fs, ctx, dir.ino, name, t)?;
            if rmdir { fs.rmdir(ctx, dir.ino, name, t) } else { fs.unlink(ctx, dir.ino, name, t) }
        });
        self.changed_name(dir.ino, name, gone);
        done?;
        Ok(Made::default())
    }

    pub(super) fn rename<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Rename,
    ) -> Result<Made> {
        let (from, to) = (self.fids.node(dir)?, self.fids.node(body.to_fid)?);
        let (mut moved, mut gone) = (None, None);
        let done = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, from, t)?;
            current(fs, ctx, to, t)?;
            moved = target(fs, ctx, from.ino, &body.name, t)?;
            gone = target(fs, ctx, to.ino, &body.to_name, t)?;
            fs.rename(ctx, (from.ino, &body.name), (to.ino, &body.to_name), body.flags, t)
        });
        self.changed_name(from.ino, &body.name, moved);
        self.changed_name(to.ino, &body.to_name, gone);
        done?;
        Ok(Made::default())
    }

    /// Opens a node, and empties it if asked. Returns the handle and the attributes afterwards.
    pub(super) fn open_node<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        node: NodeId,
        flags: OpenFlags,
        policy: Option<&str>,
    ) -> Result<(seawall_diskfs::Handle, Attr)> {
        let policy = preset(policy)?;
        check_flags(flags)?;
        let (handle, attr) = driver::run(host, ctx, |fs, t| {
            let attr = current(fs, ctx, node, t)?;
            let handle = fs.open(ctx, node.ino, flags, t)?.value;
            Ok(plain((handle, attr)))
        })?;
        self.opened(host, ctx, handle, attr, flags, policy)
    }

    /// What follows an open: the handle's own policy, and O_TRUNC.
    pub(super) fn opened<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        handle: seawall_diskfs::Handle,
        attr: Attr,
        flags: OpenFlags,
        policy: Option<seawall_diskfs::Policy>,
    ) -> Result<(seawall_diskfs::Handle, Attr)> {
        let mut out = Ok(attr);
        if let Some(p) = policy {
            out = host.with(|fs| fs.set_handle_policy(handle, p.into())).map(|()| attr);
        }
        if out.is_ok() && flags.truncate && attr.size > 0 && attr.kind == Kind::File {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            out = driver::run(host, ctx, |fs, t| fs.set_attr(ctx, attr.ino, &set, t));
            self.changed(Change::Data(attr.ino));
        }
        match out {
            Ok(attr) => Ok((handle, attr)),
            Err(e) => {
                host.with(|fs| fs.clunk(handle));
                super::reap(host, ctx);
                Err(e.into())
            }
        }
    }
}

pub(super) fn check_flags(flags: OpenFlags) -> Result<()> {
    if (flags.truncate || flags.append) && !flags.write {
        return Err(Refused::Invalid.into());
    }
    Ok(())
}

pub(super) fn preset(name: Option<&str>) -> Result<Option<seawall_diskfs::Policy>> {
    let Some(name) = name else { return Ok(None) };
    match seawall_diskfs::policy::preset(name) {
        Some(p) => Ok(Some(p)),
        None => Err(Refused::Invalid.into()),
    }
}

/// The bytes of names in a listing are the peer's to choose; the body stays below its limit.
pub(super) fn readdir_limits(wanted: u64) -> (usize, usize) {
    let bytes = wanted.clamp(1, u64::from(limit::READDIR_BYTES));
    (limit::READDIR_ENTRIES as usize, usize::try_from(bytes).unwrap_or(1))
}
