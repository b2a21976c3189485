//! The kernel's requests.

use super::attrs;
use super::convert::{self, Numbers, attr, errno, generation};
use super::dirs::sync_dir;
use super::{FOREVER, IO_BYTES, Options};
use crate::server::{Engine, EngineHost, now};
use crate::session::Change;
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow,
};
use seawall_blockdev::PageBuf;
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{
    Attempt, Attr, Ctx, Done, Format, Fs, FsError, Handle, Kind, NewNode, PlanReq, Refused,
    SeekWhat, SetAttr, Slice, Space, Ticket,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

type Result<T> = std::result::Result<T, Errno>;

/// lseek(2).
const SEEK_DATA: i32 = 3;
/// lseek(2).
const SEEK_HOLE: i32 = 4;
/// fallocate(2).
const FALLOC_FL_KEEP_SIZE: i32 = 1;
/// fallocate(2): FALLOC_FL_PUNCH_HOLE, which goes with the other only.
const FALLOC_FL_PUNCH_HOLE_KEEP_SIZE: i32 = 2 | FALLOC_FL_KEEP_SIZE;

std::thread_local! {
    /// What a thread read last. To allocate it for each request would cost a page fault for each of
    /// its pages.
    static READ: RefCell<PageBuf> = RefCell::default();
}

pub(super) struct Fuse<F: Format> {
    pub(super) engine: Arc<Engine<F>>,
    pub(super) options: Options,
    pub(super) numbers: Numbers,
    pub(super) handles: Arc<Mutex<BTreeSet<Handle>>>,
    /// Held for reading while inodes that the kernel forgot are freed. Whoever finds no space waits
    /// for that: the kernel was first told that the file is gone.
    pub(super) freeing: Arc<RwLock<()>>,
    /// See `Mounted`.
    pub(super) refused: Arc<AtomicU64>,
    /// Nodes can have extended attributes.
    pub(super) has_xattrs: bool,
    pub(super) has_acls: bool,
    /// A name is found in several spellings.
    pub(super) folds: bool,
}

/// What only the operator can do something about goes to the log.
pub(super) fn fail<F: Format>(engine: &Engine<F>, e: &FsError) -> Errno {
    if e.is_the_operators() {
        engine.failed("mount", e);
    }
    errno(e)
}

pub(super) fn ctx(req: &Request) -> Ctx {
    Ctx { now: now(), owner: (req.uid(), req.gid()), ..Ctx::default() }
}

fn plain<T>(value: T) -> Done<T> {
    Done { value, after: None, more: false }
}

impl<F: Format> Fuse<F> {
    pub(super) fn with<T>(
        &self,
        f: impl FnOnce(&mut EngineHost<'_, F>) -> std::result::Result<T, FsError>,
    ) -> Result<T> {
        match self.engine.while_mounted(f) {
            Some(Ok(value)) => Ok(value),
            Some(Err(e)) => Err(fail(&self.engine, &e)),
            // The server has unmounted; a file that is still open has nothing below it.
            None => Err(Errno::EIO),
        }
    }

    pub(super) fn run<T>(
        &self,
        ctx: &Ctx,
        op: impl FnMut(&mut Fs<F>, &mut Ticket) -> Attempt<Done<T>>,
    ) -> Result<T> {
        self.with(|host| driver::run(host, ctx, op))
    }

    /// As `run`, for what takes space.
    pub(super) fn take<T>(
        &self,
        ctx: &Ctx,
        mut op: impl FnMut(&mut Fs<F>, &mut Ticket) -> Attempt<Done<T>>,
    ) -> Result<T> {
        self.with(|host| match driver::run(host, ctx, &mut op) {
            Err(FsError::Refused(Refused::NoSpace)) => {
                drop(self.freeing.write().unwrap_or_else(PoisonError::into_inner));
                driver::run(host, ctx, &mut op)
            }
            done => done,
        })
    }

    fn make(
        &self,
        req: &Request,
        dir: INodeNo,
        name: &OsStr,
        node: NewNode<'_>,
        (mode, umask): (u32, u32),
    ) -> Result<Attr> {
        let (ctx, dir, name) = (Ctx { umask, ..ctx(req) }, self.numbers.ino(dir), name.as_bytes());
        self.take(&ctx, |fs, t| {
            let done = fs.create(&ctx, dir, name, node, mode, t)?;
            fs.hold(done.value.ino);
            Ok(done)
        })
    }

    fn entry(&self, reply: ReplyEntry, made: Result<Attr>) {
        match made {
            Ok(a) => {
                let node = self.numbers.node(a.ino);
                reply.entry(&self.names_last(), &attr(&a, node), generation(&a));
            }
            Err(e) => reply.error(e),
        }
    }

    /// Attributes as stat(2) shows them: the root by its own number.
    fn attributes(&self, reply: ReplyAttr, got: Result<Attr>) {
        match got {
            Ok(a) => reply.attr(&FOREVER, &attr(&a, INodeNo(a.ino.0))),
            Err(e) => reply.error(e),
        }
    }

    fn keep(&self, handle: Handle) -> FileHandle {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).insert(handle);
        FileHandle(handle.0)
    }

    fn drop_handle(&self, handle: Handle) {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
        self.free(|fs| fs.clunk(handle));
    }

    /// Does something after which inodes may have to be freed, and frees them.
    fn free(&self, f: impl FnOnce(&mut Fs<F>)) {
        let _others_wait = self.freeing.read().unwrap_or_else(PoisonError::into_inner);
        let ctx = Ctx { now: now(), ..Ctx::default() };
        // After the unmount nothing is left to be freed.
        let _unmounted = self.engine.while_mounted(|host| {
            let orphans = host.with(|fs| {
                f(fs);
                fs.has_orphans()
            });
            if orphans {
                // An empty operation cannot fail; the driver frees at its end.
                let _always_ok = driver::run(host, &ctx, |_, _| Ok(plain(())));
            }
        });
    }

    fn opened(&self, writes: bool) -> FopenFlags {
        // A handle that cannot write has nothing that a close could lose.
        let quiet = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        FopenFlags::FOPEN_KEEP_CACHE | quiet
    }

    fn remove(&self, req: &Request, dir: INodeNo, name: &OsStr, rmdir: bool, reply: ReplyEmpty) {
        let (ctx, dir, name) = (ctx(req), self.numbers.ino(dir), name.as_bytes());
        let done = self.run(&ctx, |fs, t| {
            if rmdir { fs.rmdir(&ctx, dir, name, t) } else { fs.unlink(&ctx, dir, name, t) }
        });
        answer(reply, done);
    }

    fn seek(&self, req: &Request, fh: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        let what = match whence {
            SEEK_DATA => SeekWhat::Data,
            SEEK_HOLE => SeekWhat::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let ctx = ctx(req);
        let at = self.run(&ctx, |fs, t| fs.seek(&ctx, Handle(fh.0), from, what, t))?;
        i64::try_from(at).map_err(|_| Errno::EOVERFLOW)
    }
}

fn answer(reply: ReplyEmpty, done: Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

#[allow(clippy::too_many_arguments, reason = "the trait's signatures")]
impl<F: Format> Filesystem for Fuse<F> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT;
        // A name that is not kept would be asked for again right after the listing.
        if !self.folds {
            wanted |= InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        }
        if self.options.kernel_writeback {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        if self.has_acls && self.options.acl {
            // A default access list takes the place of the umask, so that arrives with the mode.
            wanted |= InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        }
        let wanted = wanted & config.capabilities();
        let refused = |what: &str| io::Error::other(std::format!("the kernel refuses {what}"));
        config.add_capabilities(wanted).map_err(|f| refused(&std::format!("{f:?}")))?;
        config.set_max_write(IO_BYTES).map_err(|_| refused("writes of 1 MiB"))?;
        if self.options.kernel_writeback && !wanted.contains(InitFlags::FUSE_WRITEBACK_CACHE) {
            return Err(refused("kernel_writeback"));
        }
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (ctx, dir) = (ctx(req), self.numbers.ino(parent));
        let found = self.run(&ctx, |fs, t| {
            let attr = fs.lookup(&ctx, dir, name.as_bytes(), t)?.value;
            let asked = (dir, name.as_bytes(), attr.ino);
            if self.changes_spelling(fs, (&ctx, req.pid()), asked, t)? {
                return Err(FsError::Refused(Refused::NotFound).into());
            }
            fs.hold(attr.ino);
            Ok(plain(attr))
        });
        match found {
            Err(e) if e.code() == Errno::ENOENT.code() => {
                reply.entry(&self.names_last(), &convert::absent(), Generation(0));
            }
            found => self.entry(reply, found),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.free(|fs| fs.unhold(self.numbers.ino(ino), nlookup));
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        self.attributes(reply, self.run(&ctx, |fs, t| fs.getattr(&ctx, ino, t)));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        let (atime, mtime) = (convert::set_time(atime), convert::set_time(mtime));
        let mode = mode.map(|m| m & 0o7777);
        let set = SetAttr { mode, uid, gid, size, atime, mtime };
        self.attributes(reply, self.take(&ctx, |fs, t| fs.set_attr(&ctx, ino, &set, t)));
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        match self.run(&ctx, |fs, t| fs.readlink(&ctx, ino, t)) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let node = match Kind::from_mode(mode) {
            Some(Kind::File) => NewNode::File,
            Some(k @ (Kind::CharDev | Kind::BlockDev)) => {
                NewNode::Special(k, convert::decode_dev(rdev))
            }
            Some(k @ (Kind::Fifo | Kind::Socket)) => NewNode::Special(k, (0, 0)),
            _ => return reply.error(Errno::EINVAL),
        };
        self.entry(reply, self.make(req, parent, name, node, (mode & 0o7777, umask)));
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.entry(reply, self.make(req, parent, name, NewNode::Dir, (mode & 0o7777, umask)));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(req, parent, name, false, reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(req, parent, name, true, reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let node = NewNode::Symlink(target.as_os_str().as_bytes());
        self.entry(reply, self.make(req, parent, link_name, node, (0o777, 0)));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        if !known.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let flags = seawall_diskfs::RenameFlags {
            no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
            exchange: flags.contains(RenameFlags::RENAME_EXCHANGE),
        };
        let ctx = ctx(req);
        let from = (self.numbers.ino(parent), name.as_bytes());
        let to = (self.numbers.ino(newparent), newname.as_bytes());
        match self.take(&ctx, |fs, t| fs.rename(&ctx, from, to, flags, t)) {
            // A flag that the format cannot do is what the kernel calls invalid.
            Err(e) if e.code() == Errno::EOPNOTSUPP.code() => reply.error(Errno::EINVAL),
            done => answer(reply, done),
        }
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let ctx = ctx(req);
        let (ino, dir) = (self.numbers.ino(ino), self.numbers.ino(newparent));
        let made = self.take(&ctx, |fs, t| {
            let done = fs.link(&ctx, ino, dir, newname.as_bytes(), t)?;
            fs.hold(ino);
            Ok(done)
        });
        self.entry(reply, made);
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (ctx, ino) = (ctx(req), self.numbers.ino(ino));
        let how = convert::open_flags(flags.0, self.options.kernel_writeback);
        let mut accessed = false;
        let opened = self.run(&ctx, |fs, t| {
            accessed |= how.read && fs.note_access(&ctx, ino, t)?;
            let done = fs.open(&ctx, ino, how, t)?;
            fs.host_keeps_place(done.value, self.options.kernel_writeback);
            Ok(done)
        });
        if accessed {
            self.engine.announce(&[Change::Attr(ino)]);
        }
        match opened {
            Ok(h) => reply.opened(self.keep(h), self.opened(how.write)),
            Err(e) => reply.error(e),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (ctx, dir) = (Ctx { umask, ..ctx(req) }, self.numbers.ino(parent));
        let how = convert::open_flags(flags, self.options.kernel_writeback);
        let made = self.take(&ctx, |fs, t| {
            let done = fs.create_open(&ctx, dir, name.as_bytes(), mode & 0o7777, how, t)?;
            fs.hold(done.value.0.ino);
            fs.host_keeps_place(done.value.1, self.options.kernel_writeback);
            Ok(done)
        });
        match made {
            Ok((a, h)) => {
                let (node, time) = (self.numbers.node(a.ino), self.names_last());
                let (fh, flags) = (self.keep(h), self.opened(how.write));
                reply.created(&time, &attr(&a, node), generation(&a), fh, flags);
            }
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (ctx, len) = (ctx(req), usize::try_from(size).unwrap_or(0));
        READ.with_borrow_mut(|buf| {
            if buf.len() < len {
                let Some(larger) = PageBuf::try_zeroed(len) else {
                    return reply.error(Errno::ENOMEM);
                };
                *buf = larger;
            }
            let part = buf.get_mut(..len).unwrap_or_default();
            match self.with(|host| driver::read_into(host, &ctx, Handle(fh.0), offset, part)) {
                Ok(n) => reply.data(part.get(..n).unwrap_or_default()),
                Err(e) => reply.error(e),
            }
        });
    }

    fn write(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: fuser::WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ctx = ctx(req);
        let data = Slice::new(PageBuf::from_slice(data));
        match self.take(&ctx, |fs, t| fs.write(&ctx, Handle(fh.0), offset, &data, t)) {
            Ok((taken, _)) => reply.written(u32::try_from(taken).unwrap_or(0)),
            Err(e) => {
                if write_flags.contains(fuser::WriteFlags::FUSE_WRITE_CACHE) {
                    self.refused.fetch_add(1, Ordering::AcqRel);
                }
                reply.error(e);
            }
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if self.options.no_close {
            return reply.error(Errno::ENOSYS);
        }
        self.close_site(Handle(fh.0), reply);
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.drop_handle(Handle(fh.0));
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let req = PlanReq::Fsync { handle: Handle(fh.0), datasync };
        answer(reply, self.with(|host| driver::run_plan(host, req)));
    }

    /// Not needed: a listing has no state here.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.list(&ctx(req), self.numbers.ino(ino), offset, reply);
    }

    fn readdirplus(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_plus(&ctx(req), self.numbers.ino(ino), offset, reply);
    }

    fn fsyncdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let ino = self.numbers.ino(ino);
        if self.numbers.is_root(ino) {
            return self.sync_everything(ctx(req), ino, datasync, reply);
        }
        answer(reply, self.with(|host| sync_dir(host, &ctx(req), ino, datasync)));
    }

    fn statfs(&self, req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let ctx = ctx(req);
        match self.run(&ctx, |fs, t| fs.statfs(&ctx, t)) {
            Ok(s) => reply.statfs(
                s.blocks,
                s.blocks_free,
                s.blocks_available,
                s.files,
                s.files_free,
                s.block_size,
                s.name_max,
                s.block_size,
            ),
            Err(e) => reply.error(e),
        }
    }

    // ENOSYS is remembered by the kernel: it answers EOPNOTSUPP itself from then on.
    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.has_xattrs {
            return reply.error(Errno::ENOSYS);
        }
        answer(reply, self.set_attribute(req, ino, (name, value), flags));
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.has_xattrs {
            return reply.error(Errno::ENOSYS);
        }
        attrs::sized(reply, size, self.attribute(req, ino, name));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        attrs::sized(reply, size, self.attributes_of(req, ino));
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.has_xattrs {
            return reply.error(Errno::ENOSYS);
        }
        answer(reply, self.remove_attribute(req, ino, name));
    }

    fn fallocate(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let what = match mode {
            0 => Space::Allocate,
            FALLOC_FL_KEEP_SIZE => Space::AllocateKeepSize,
            FALLOC_FL_PUNCH_HOLE_KEEP_SIZE => Space::Punch,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let (ctx, range) = (ctx(req), (offset, length));
        answer(reply, self.take(&ctx, |fs, t| fs.space(&ctx, Handle(fh.0), range, what, t)));
    }

    fn lseek(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        if self.options.kernel_writeback {
            // Data may be in the kernel only: with this answer it takes everything for data.
            return reply.error(Errno::ENOSYS);
        }
        match self.seek(req, fh, offset, whence) {
            Ok(at) => reply.offset(at),
            Err(e) => reply.error(e),
        }
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: fuser::CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: fuser::IoctlFlags,
        command: u32,
        data: &[u8],
        _out_size: u32,
        reply: fuser::ReplyIoctl,
    ) {
        attrs::flagged(reply, self.inode_flags(req, ino, command, data));
    }

    fn poll(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _ph: fuser::PollNotifier,
        _events: fuser::PollEvents,
        _flags: fuser::PollFlags,
        reply: fuser::ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }
}
