//! Listings, and making directories and everything durable.

use super::FOREVER;
use super::convert::{attr, generation, kind};
use super::ops::{Fuse, fail};
use fuser::{Errno, FileType, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{
    Ctx, DirEntry, Format, FsError, Ino, Kind, Listing, OpenFlags, PlanReq, Site,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::string::ToString;
use std::sync::Arc;

/// Entries of one request. The kernel asks for a page, of which an entry takes 24 bytes and its
/// name, or 152 with attributes.
const ENTRIES: usize = 128;
const ENTRIES_PLUS: usize = 26;
/// Bytes of names of one request.
const NAME_BYTES: usize = 4096;

fn is_dot(e: &DirEntry) -> bool {
    e.name == b"." || e.name == b".."
}

impl<F: Format> Fuse<F> {
    fn listing(
        &self,
        ctx: &Ctx,
        dir: Ino,
        from: u64,
        max: usize,
        attrs: bool,
    ) -> Result<Listing, Errno> {
        self.run(ctx, |fs, t| {
            let done = fs.readdir(ctx, dir, from, max, NAME_BYTES, attrs, t)?;
            if attrs {
                let held = done.value.iter().filter(|(e, _)| !is_dot(e));
                held.for_each(|(e, _)| fs.hold(e.ino));
            }
            Ok(done)
        })
    }

    pub(super) fn list(&self, ctx: &Ctx, dir: Ino, from: u64, mut reply: ReplyDirectory) {
        let list = match self.listing(ctx, dir, from, ENTRIES, false) {
            Ok(list) => list,
            Err(e) => return reply.error(e),
        };
        for (e, _) in &list {
            let kind = e.kind.map_or_else(|| self.kind_of(ctx, e.ino), kind);
            let node = fuser::INodeNo(e.ino.0);
            if reply.add(node, e.next, kind, OsStr::from_bytes(&e.name)) {
                break;
            }
        }
        reply.ok();
    }

    /// Where the format does not keep it in the entry. An inode that cannot be read must not hide
    /// its name: whoever looks it up hears why.
    fn kind_of(&self, ctx: &Ctx, ino: Ino) -> FileType {
        let got = self.run(ctx, |fs, t| fs.getattr(ctx, ino, t));
        got.map_or(FileType::RegularFile, |a| kind(a.kind))
    }

    pub(super) fn list_plus(&self, ctx: &Ctx, dir: Ino, from: u64, mut reply: ReplyDirectoryPlus) {
        let list = match self.listing(ctx, dir, from, ENTRIES_PLUS, true) {
            Ok(list) => list,
            // One bad inode fails the listing with attributes; names alone may do.
            Err(e) => match self.listing(ctx, dir, from, ENTRIES_PLUS, false) {
                Ok(list) => return self.names_only(list, reply),
                Err(_) => return reply.error(e),
            },
        };
        let mut full = false;
        for (e, a) in &list {
            let Some(a) = a else { continue };
            let node = self.numbers.node(e.ino);
            // The kernel takes the entry's number from the attributes. Dots are not looked up.
            let attr = attr(a, if is_dot(e) { fuser::INodeNo(e.ino.0) } else { node });
            let name = OsStr::from_bytes(&e.name);
            full = full || reply.add(node, e.next, name, &FOREVER, &attr, generation(a));
            if full && !is_dot(e) {
                self.unhold(e.ino);
            }
        }
        reply.ok();
    }

    fn unhold(&self, ino: Ino) {
        let _unmounted = self.engine.while_mounted(|host| {
            driver::Host::with(host, |fs| fs.unhold(ino, 1));
        });
    }

    /// Entries with node 0: the kernel shows the name and looks it up when it is used.
    fn names_only(&self, list: Listing, mut reply: ReplyDirectoryPlus) {
        for (e, _) in &list {
            let mut attr = super::convert::absent();
            attr.kind = kind(e.kind.unwrap_or(Kind::File));
            let node = fuser::INodeNo(0);
            let name = OsStr::from_bytes(&e.name);
            if reply.add(node, e.next, name, &FOREVER, &attr, fuser::Generation(0)) {
                break;
            }
        }
        reply.ok();
    }

    /// fsync of the root stands for syncfs: the kernel's pages first, then everything. It stays the
    /// fsync of a directory: a policy may ask more of that. In a thread of its own, since the
    /// kernel sends the pages to the threads of this mount.
    pub(super) fn sync_everything(&self, ctx: Ctx, root: Ino, datasync: bool, reply: ReplyEmpty) {
        let engine = Arc::clone(&self.engine);
        let work = move || {
            // Without a front the mount begins or ends, and nobody could ask for the pages.
            let pages = if engine.has_front() { engine.flush_front() } else { Err(GONE) };
            let done = pages.map(|()| {
                engine.while_mounted(|host| {
                    driver::run_plan(host, PlanReq::Whole(Site::Syncfs))?;
                    sync_dir(host, &ctx, root, datasync)
                })
            });
            match done {
                Ok(Some(Ok(()))) => reply.ok(),
                Ok(Some(Err(e))) | Err(e) => reply.error(fail(&engine, &e)),
                Ok(None) => reply.error(Errno::EIO),
            }
        };
        // Without a thread the reply is dropped, which fuser answers with EIO.
        let thread = std::thread::Builder::new().name("syncfs".to_string());
        if let Err(error) = thread.spawn(work) {
            tracing::warn!(%error, "syncfs");
        }
    }
}

const GONE: FsError = FsError::Io(seawall_blockdev::DevError::Io);

/// fsync of a directory: it has no handle of its own, so one is opened for it.
pub(super) fn sync_dir<H: Host>(
    host: &mut H,
    ctx: &Ctx,
    dir: Ino,
    datasync: bool,
) -> Result<(), FsError> {
    let read = OpenFlags { read: true, ..OpenFlags::default() };
    let handle = driver::run(host, ctx, |fs, t| fs.open(ctx, dir, read, t))?;
    let done = driver::run_plan(host, PlanReq::Fsync { handle, datasync });
    host.with(|fs| fs.clunk(handle));
    done
}
