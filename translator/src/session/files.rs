//! Operations on what a fid is bound to.

use super::names::{check_flags, current, preset, readdir_limits};
use super::{Change, Input, Made, Result, Session};
use crate::protocol::{Create, NodeReply, Open, ReaddirReply, flags};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Ctx, Done, FsError, PlanReq, Refused, SeekWhat, SetAttr, Site};
use seawall_ipc::{Request, Status};

impl Session {
    pub(super) fn open<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        fid: u32,
        body: &Open,
    ) -> Result<Made> {
        let found = self.fids.get(fid)?;
        if found.handle.is_some() {
            return Err(Status::EINVAL.into());
        }
        let policy = body.policy.as_deref();
        let (handle, attr) = self.open_node(host, ctx, found.node, body.flags, policy)?;
        self.fids.bind(fid, found.node, Some(handle));
        Made::body(&NodeReply { attr })
    }

    pub(super) fn create<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        dir: u32,
        body: &Create,
    ) -> Result<Made> {
        self.fids.may_bind(body.new_fid, None)?;
        let dir = self.fids.node(dir)?;
        let policy = preset(body.policy.as_deref())?;
        check_flags(body.flags)?;
        let made = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, dir, t)?;
            fs.create_open(ctx, dir.ino, &body.name, body.mode, body.flags, t)
        });
        self.changed_name(dir.ino, &body.name, None);
        let (attr, handle) = made?;
        let (handle, attr) = self.opened(host, ctx, handle, attr, body.flags, policy)?;
        self.fids.bind(body.new_fid, (&attr).into(), Some(handle));
        Made::body(&NodeReply { attr })
    }

    pub(super) fn read<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        request: &Request,
    ) -> Result<Made> {
        let handle = self.fids.handle(request.aux)?;
        let most = u64::from(self.server.limits.payload);
        let len = usize::try_from(request.length.min(most)).map_err(|_| Status::EINVAL)?;
        let payload = driver::read(host, ctx, handle, request.offset, len)?;
        Ok(Made { value: payload.len() as u64, payload, ..Made::default() })
    }

    pub(super) fn write<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        request: &Request,
        input: Input,
    ) -> Result<Made> {
        let handle = self.fids.handle(request.aux)?;
        let data = match input {
            Input::Payload(data) => data,
            _ => seawall_diskfs::Slice::default(),
        };
        let offset = request.offset;
        let ino = self.fids.node(request.aux)?.ino;
        let done = driver::run(host, ctx, |fs, t| fs.write(ctx, handle, offset, &data, t));
        self.changed(Change::Data(ino));
        Ok(Made::value(done?.0 as u64))
    }

    pub(super) fn seek<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        request: &Request,
    ) -> Result<Made> {
        let handle = self.fids.handle(request.aux)?;
        let what = if request.flags & flags::HOLE != 0 { SeekWhat::Hole } else { SeekWhat::Data };
        let at = driver::run(host, ctx, |fs, t| fs.seek(ctx, handle, request.offset, what, t))?;
        Ok(Made::value(at))
    }

    pub(super) fn close<H: Host>(&mut self, host: &mut H, ctx: &Ctx, fid: u32) -> Result<Made> {
        let Some(handle) = self.fids.remove(fid)?.handle else { return Ok(Made::default()) };
        let closed = driver::verdict(host, PlanReq::Close(handle));
        host.with(|fs| fs.clunk(handle));
        super::reap(host, ctx);
        self.linger_ms = self.linger_ms.max(closed?.linger_ms);
        Ok(Made::default())
    }

    /// How long the answers are to be held back, milliseconds: closes that flushed last as long as
    /// the policy says. The host waits, with nothing locked.
    pub fn take_linger(&mut self) -> u32 {
        core::mem::take(&mut self.linger_ms)
    }

    pub(super) fn clunk<H: Host>(&mut self, host: &mut H, ctx: &Ctx, fid: u32) -> Result<Made> {
        if let Some(handle) = self.fids.remove(fid)?.handle {
            host.with(|fs| fs.clunk(handle));
            super::reap(host, ctx);
        }
        Ok(Made::default())
    }

    pub(super) fn getattr<H: Host>(&mut self, host: &mut H, ctx: &Ctx, fid: u32) -> Result<Made> {
        let node = self.fids.node(fid)?;
        let attr = driver::run(host, ctx, |fs, t| {
            Ok(Done { value: current(fs, ctx, node, t)?, after: None, more: false })
        })?;
        Made::body(&attr)
    }

    pub(super) fn setattr<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        fid: u32,
        set: &SetAttr,
    ) -> Result<Made> {
        let fid = self.fids.get(fid)?;
        let mut ctx = ctx.clone();
        let sizes_only = *set == SetAttr { size: set.size, ..SetAttr::default() };
        if let (Some(handle), true) = (fid.handle, sizes_only) {
            let (_, how) = host.with(|fs| fs.handle_info(handle))?;
            if !how.write {
                return Err(Refused::Invalid.into());
            }
            // ftruncate: the right was checked when the handle was opened, as for a write.
            ctx.cred = None;
        }
        let (node, done) = (
            fid.node,
            driver::run(host, &ctx, |fs, t| {
                current(fs, &ctx, fid.node, t)?;
                fs.set_attr(&ctx, fid.node.ino, set, t)
            }),
        );
        self.changed(Change::Data(node.ino));
        Made::body(&done?)
    }

    pub(super) fn statfs<H: Host>(&mut self, host: &mut H, ctx: &Ctx, fid: u32) -> Result<Made> {
        self.fids.node(fid)?;
        Made::body(&driver::run(host, ctx, |fs, t| fs.statfs(ctx, t))?)
    }

    pub(super) fn readlink<H: Host>(&mut self, host: &mut H, ctx: &Ctx, fid: u32) -> Result<Made> {
        let node = self.fids.node(fid)?;
        let target = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, node, t)?;
            fs.readlink(ctx, node.ino, t)
        })?;
        Made::body(&target)
    }

    pub(super) fn readdir<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        request: &Request,
    ) -> Result<Made> {
        let node = self.fids.node(request.aux)?;
        let (entries, bytes) = readdir_limits(request.length);
        let attrs = request.flags & flags::ATTRS != 0;
        let entries = driver::run(host, ctx, |fs, t| {
            current(fs, ctx, node, t)?;
            fs.readdir(ctx, node.ino, request.offset, entries, bytes, attrs, t)
        })?;
        Made::body(&ReaddirReply { entries })
    }

    pub(super) fn fsync<H: Host>(&mut self, host: &mut H, request: &Request) -> Result<Made> {
        let handle = self.fids.handle(request.aux)?;
        let datasync = request.flags & flags::DATASYNC != 0;
        driver::run_plan(host, PlanReq::Fsync { handle, datasync })?;
        Ok(Made::value(host.with(|fs| fs.seqs().durable.0)))
    }

    pub(super) fn syncfs<H: Host>(&mut self, host: &mut H, fid: u32) -> Result<Made> {
        self.fids.node(fid)?;
        sync_all(host)?;
        Ok(Made::value(host.with(|fs| fs.seqs().durable.0)))
    }
}

pub(super) fn sync_all<H: Host>(host: &mut H) -> core::result::Result<(), FsError> {
    driver::run_plan(host, PlanReq::Whole(Site::Syncfs))
}
