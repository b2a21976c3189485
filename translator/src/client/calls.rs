//! Operations that wait for their reply.

use super::pipe::{Client, Outgoing};
use super::{ClientError, ROOT};
use crate::protocol::{
    Allocate, Attach, Control, ControlReply, Create, Link, Mkdir, Mknod, NodeReply, Open,
    ReaddirReply, Rename, Symlink, Walk, WalkReply, Xattr, XattrReply, flags, limit, op,
};
use seawall_blockdev::PageBuf;
use seawall_diskfs::{Attr, Cred, Kind, OpenFlags, RenameFlags, SetAttr, StatFs, XattrHow};
use seawall_ipc::{Request, Status, decode_body};
use std::string::{String, ToString};
use std::vec::Vec;

/// Symlinks followed in one path.
const LINKS_MAX: u32 = 40;

/// A node that a path led to.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its fid; the caller clunks it.
    pub fid: u32,
    /// Its attributes.
    pub attr: Attr,
}

fn on(op: u16, fid: u32) -> Request {
    Request { op, aux: fid, ..Request::default() }
}

type Result<T> = core::result::Result<T, ClientError>;

impl Client {
    fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        request: Request,
        data: Outgoing,
    ) -> Result<T> {
        self.wait_for(request, data)?.value_of()
    }

    fn tell(&mut self, request: Request, data: Outgoing) -> Result<u64> {
        let reply = self.wait_for(request, data)?;
        reply.ok()?;
        Ok(reply.value)
    }

    /// Binds a fid to the root, for somebody else if `cred` is given (user 0 only).
    ///
    /// # Errors
    /// EPERM; as all calls: `Peer` when the server is gone, else `Op`.
    pub fn attach(&mut self, fid: u32, cred: Option<Cred>) -> Result<Attr> {
        let body = self.body(&Attach { cred })?;
        Ok(self.ask::<NodeReply>(on(op::ATTACH, fid), body)?.attr)
    }

    /// One Walk of at most [`limit::WALK`] components. Returns the new fid.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn walk(
        &mut self,
        fid: u32,
        names: Vec<Vec<u8>>,
        open: Option<OpenFlags>,
    ) -> Result<(u32, WalkReply)> {
        let new_fid = self.new_fid();
        let body = self.body(&Walk { new_fid, names, open, getattr: true })?;
        match self.ask(on(op::WALK, fid), body) {
            Ok(reply) => Ok((new_fid, reply)),
            Err(e) => {
                self.free_fid(new_fid);
                Err(e)
            }
        }
    }

    /// Finds a path from the root. Symlinks on the way are followed, the last one if `follow`.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EACCES, ELOOP with the path.
    pub fn find(&mut self, path: &[u8], follow: bool) -> Result<Found> {
        let found = self.resolve(path, follow).and_then(|found| {
            if found.attr.kind == Kind::Dir || !wants_folder(path) {
                return Ok(found);
            }
            self.clunk(found.fid)?;
            let (status, text) = (Status::ENOTDIR, String::new());
            Err(ClientError::Op { op: op::WALK, path: text.clone(), status, words: text })
        });
        let name = || std::format!("{}:{}", self.socket_name(), String::from_utf8_lossy(path));
        found.map_err(|e| e.on(name()))
    }

    fn resolve(&mut self, path: &[u8], follow: bool) -> Result<Found> {
        let names: Vec<Vec<u8>> = components(path).collect();
        let trailing = wants_folder(path);
        if names.len() <= self.hello().walk_max.min(limit::WALK) as usize
            && let Ok((fid, reply)) = self.walk(ROOT, names, None)
        {
            match reply.attr {
                Some(attr) if attr.kind != Kind::Symlink || !(follow || trailing) => {
                    return Ok(Found { fid, attr });
                }
                _ => self.clunk(fid)?,
            }
        }
        self.resolve_links(path, follow)
    }

    /// One component at a time, for paths with symlinks; and for the error of those without.
    fn resolve_links(&mut self, path: &[u8], follow: bool) -> Result<Found> {
        let mut at = self.start()?;
        // Components still to go, the next one last.
        let mut todo: Vec<Vec<u8>> = components(path).rev().collect();
        let trailing = wants_folder(path);
        let mut links = 0u32;
        while let Some(name) = todo.pop() {
            let stepped = self.walk(at.fid, [name].into(), None);
            let (fid, reply) = match stepped {
                Ok(found) => found,
                Err(e) => {
                    self.clunk(at.fid)?;
                    return Err(e);
                }
            };
            let Some(attr) = reply.attr else { return Err(self.peer("a walk without attributes")) };
            let last = todo.is_empty() && !trailing;
            if attr.kind != Kind::Symlink || (last && !follow) {
                self.clunk(at.fid)?;
                at = Found { fid, attr };
                continue;
            }
            links += 1;
            let target = self.readlink(fid)?;
            self.clunk(fid)?;
            if links > LINKS_MAX {
                self.clunk(at.fid)?;
                let (path, words) = (String::new(), String::new());
                return Err(ClientError::Op { op: op::WALK, path, status: Status::ELOOP, words });
            }
            if target.starts_with(b"/") {
                self.clunk(at.fid)?;
                at = self.start()?;
            }
            todo.extend(components(&target).rev());
        }
        Ok(at)
    }

    fn start(&mut self) -> Result<Found> {
        let (fid, reply) = self.walk(ROOT, Vec::new(), None)?;
        match reply.attr {
            Some(attr) => Ok(Found { fid, attr }),
            None => Err(self.peer("a walk without attributes")),
        }
    }

    /// Opens a fid.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn open(&mut self, fid: u32, flags: OpenFlags, policy: Option<String>) -> Result<Attr> {
        let body = self.body(&Open { flags, policy })?;
        Ok(self.ask::<NodeReply>(on(op::OPEN, fid), body)?.attr)
    }

    /// Makes a file, or finds it, and opens it. Returns its fid.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn create(
        &mut self,
        dir: u32,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(u32, Attr)> {
        let new_fid = self.new_fid();
        let create = Create { new_fid, name: name.to_vec(), mode, flags, policy: None };
        let body = self.body(&create)?;
        match self.ask::<NodeReply>(on(op::CREATE, dir), body) {
            Ok(reply) => Ok((new_fid, reply.attr)),
            Err(e) => {
                self.free_fid(new_fid);
                Err(e)
            }
        }
    }

    /// Reads at most `len` bytes (and the server's payload limit); empty at the end.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn read(&mut self, fid: u32, offset: u64, len: usize) -> Result<PageBuf> {
        let length = len.min(self.payload_max()) as u64;
        let request = Request { offset, length, ..on(op::READ, fid) };
        let reply = self.wait_for(request, Outgoing::None)?;
        reply.ok()?;
        Ok(reply.data)
    }

    /// Writes all of `data`, in as many requests as it takes.
    ///
    /// # Errors
    /// As [`Client::attach`]; what was written before stays.
    pub fn write(&mut self, fid: u32, mut offset: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let piece = data.get(..self.payload_max()).unwrap_or(data);
            let length = piece.len() as u64;
            let request = Request { offset, length, ..on(op::WRITE, fid) };
            let taken = self.tell(request, Outgoing::Data(PageBuf::from_slice(piece)))?;
            let taken = usize::try_from(taken).unwrap_or(0).min(piece.len());
            if taken == 0 {
                return Err(self.peer("a write of which nothing was taken"));
            }
            offset = offset.saturating_add(taken as u64);
            data = data.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next data, or hole, at or after `offset`; `None` when there is none.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn seek(&mut self, fid: u32, offset: u64, hole: bool) -> Result<Option<u64>> {
        let flags = if hole { flags::HOLE } else { 0 };
        match self.tell(Request { offset, flags, ..on(op::SEEK, fid) }, Outgoing::None) {
            Ok(at) => Ok(Some(at)),
            Err(e) if e.is(Status::ENXIO) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Closes a fid: runs the policy's close site.
    ///
    /// # Errors
    /// What the close site, or writeback before it, failed with. The fid is gone either way.
    pub fn close(&mut self, fid: u32) -> Result<()> {
        let done = self.tell(on(op::CLOSE, fid), Outgoing::None);
        self.free_fid(fid);
        done.map(|_| ())
    }

    /// Forgets a fid.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn clunk(&mut self, fid: u32) -> Result<()> {
        let done = self.tell(on(op::CLUNK, fid), Outgoing::None);
        self.free_fid(fid);
        done.map(|_| ())
    }

    /// Attributes.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn getattr(&mut self, fid: u32) -> Result<Attr> {
        self.ask(on(op::GETATTR, fid), Outgoing::None)
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn setattr(&mut self, fid: u32, set: &SetAttr) -> Result<Attr> {
        let body = self.body(set)?;
        self.ask(on(op::SETATTR, fid), body)
    }

    /// Space and limits.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn statfs(&mut self) -> Result<StatFs> {
        self.ask(on(op::STATFS, ROOT), Outgoing::None)
    }

    /// Target of a symlink.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn readlink(&mut self, fid: u32) -> Result<Vec<u8>> {
        self.ask(on(op::READLINK, fid), Outgoing::None)
    }

    /// A part of a listing with attributes, from `cookie` on; empty at the end.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn readdir(&mut self, fid: u32, cookie: u64) -> Result<ReaddirReply> {
        let length = u64::from(limit::READDIR_BYTES);
        let (offset, flags) = (cookie, flags::ATTRS);
        self.ask(Request { offset, length, flags, ..on(op::READDIR, fid) }, Outgoing::None)
    }

    /// The whole listing without `.` and `..`, with attributes.
    ///
    /// # Errors
    /// As [`Client::attach`]; `Peer` when the server sends a name that is none: one with `/` could
    /// lead a copy out of its folder.
    pub fn list(&mut self, fid: u32) -> Result<Vec<(Vec<u8>, Attr)>> {
        let mut out = Vec::new();
        let mut cookie = 0;
        loop {
            let part = self.readdir(fid, cookie)?.entries;
            let Some((last, _)) = part.last() else { return Ok(out) };
            if last.next == cookie {
                return Err(self.peer("a listing that does not move on"));
            }
            cookie = last.next;
            for (entry, attr) in part {
                let name = entry.name;
                if name == b"." || name == b".." {
                    continue;
                }
                if name.is_empty() || name.iter().any(|b| *b == b'/' || *b == 0) {
                    return Err(self.peer("a listing with a name that is none"));
                }
                match attr {
                    Some(attr) => out.push((name, attr)),
                    None => return Err(self.peer("a listing without attributes")),
                }
            }
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn mkdir(&mut self, dir: u32, name: &[u8], mode: u32) -> Result<Attr> {
        let body = self.body(&Mkdir { new_fid: None, name: name.to_vec(), mode })?;
        Ok(self.ask::<NodeReply>(on(op::MKDIR, dir), body)?.attr)
    }

    /// Makes a special file.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn mknod(&mut self, dir: u32, node: &Mknod) -> Result<Attr> {
        let body = self.body(node)?;
        Ok(self.ask::<NodeReply>(on(op::MKNOD, dir), body)?.attr)
    }

    /// Makes a symlink.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn symlink(&mut self, dir: u32, name: &[u8], target: &[u8]) -> Result<Attr> {
        let body = self.body(&Symlink { name: name.to_vec(), target: target.to_vec() })?;
        Ok(self.ask::<NodeReply>(on(op::SYMLINK, dir), body)?.attr)
    }

    /// Adds the name `name` in `dir` to the node of `fid`.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn link(&mut self, fid: u32, dir: u32, name: &[u8]) -> Result<Attr> {
        let body = self.body(&Link { fid, name: name.to_vec() })?;
        Ok(self.ask::<NodeReply>(on(op::LINK, dir), body)?.attr)
    }

    /// Removes a name; `is_dir` an empty directory's.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn unlink(&mut self, dir: u32, name: &[u8], is_dir: bool) -> Result<()> {
        let flags = if is_dir { flags::DIR } else { 0 };
        let body = self.body(&name)?;
        self.tell(Request { flags, ..on(op::UNLINK, dir) }, body).map(|_| ())
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn rename(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let (name, to_name) = (from.1.to_vec(), to.1.to_vec());
        let body = self.body(&Rename { name, to_fid: to.0, to_name, flags })?;
        self.tell(on(op::RENAME, from.0), body).map(|_| ())
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// ENODATA; as [`Client::attach`].
    pub fn getxattr(&mut self, fid: u32, name: &[u8]) -> Result<Vec<u8>> {
        match self.xattr(fid, &Xattr::Get { name: name.to_vec() })? {
            XattrReply::Value(value) => Ok(value),
            _ => Err(self.peer("an attribute without a value")),
        }
    }

    /// Names of extended attributes.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn listxattr(&mut self, fid: u32) -> Result<Vec<Vec<u8>>> {
        match self.xattr(fid, &Xattr::List)? {
            XattrReply::Names(names) => Ok(names),
            _ => Err(self.peer("a list of attributes that is none")),
        }
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// EEXIST and ENODATA as `how` says; ENOSPC; as [`Client::attach`].
    pub fn setxattr(&mut self, fid: u32, name: &[u8], value: &[u8], how: XattrHow) -> Result<()> {
        let (name, value) = (name.to_vec(), value.to_vec());
        self.xattr(fid, &Xattr::Set { name, value, how }).map(|_| ())
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// ENODATA; as [`Client::attach`].
    pub fn removexattr(&mut self, fid: u32, name: &[u8]) -> Result<()> {
        self.xattr(fid, &Xattr::Remove { name: name.to_vec() }).map(|_| ())
    }

    fn xattr(&mut self, fid: u32, what: &Xattr) -> Result<XattrReply> {
        let body = self.body(what)?;
        self.ask(on(op::XATTR, fid), body)
    }

    /// Gives the `len` bytes from `offset` on of an open file blocks, or takes them away.
    ///
    /// # Errors
    /// ENOSPC, EFBIG; EOPNOTSUPP for what the format cannot hold; as [`Client::attach`]. A range
    /// may then be done in part.
    pub fn allocate(&mut self, fid: u32, (offset, len): (u64, u64), what: Allocate) -> Result<()> {
        let body = self.body(&what)?;
        let request = Request { offset, length: len, ..on(op::ALLOCATE, fid) };
        self.tell(request, body).map(|_| ())
    }

    /// Inode flags (`FS_*_FL`), after setting them if `set` is given.
    ///
    /// # Errors
    /// EPERM; EOPNOTSUPP where the format has none; as [`Client::attach`].
    pub fn inode_flags(&mut self, fid: u32, set: Option<u32>) -> Result<u32> {
        let body = self.body(&set)?;
        self.ask(on(op::FLAGS, fid), body)
    }

    /// fsync, or fdatasync. Returns the durable sequence.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn fsync(&mut self, fid: u32, datasync: bool) -> Result<u64> {
        let flags = if datasync { flags::DATASYNC } else { 0 };
        self.tell(Request { flags, ..on(op::FSYNC, fid) }, Outgoing::None)
    }

    /// Makes everything durable, as the policy says. Returns the durable sequence.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn syncfs(&mut self) -> Result<u64> {
        self.tell(on(op::SYNCFS, ROOT), Outgoing::None)
    }

    /// Asks something of the server itself; returns when it is done.
    ///
    /// # Errors
    /// EPERM for others than the server's user and user 0; else what went wrong, in words.
    pub fn control(&mut self, what: &Control) -> Result<ControlReply> {
        let body = self.body(what)?;
        let reply = self.wait_for(on(op::CONTROL, 0), body)?;
        if !reply.status.is_ok() {
            let words = match decode_body(&reply.body) {
                Ok(ControlReply::Failed(words)) => words,
                _ => String::new(),
            };
            let e = reply.error(reply.status, words);
            return Err(e.on(self.socket_name().to_string()));
        }
        reply.value_of()
    }
}

/// Whether a path can only be a folder's: it ends in `/` or `/.`.
pub(crate) fn wants_folder(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Components of a path; empty ones and `.` are left out.
pub(crate) fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    path.split(|b| *b == b'/').filter(|c| !c.is_empty() && *c != b".").map(<[u8]>::to_vec)
}
