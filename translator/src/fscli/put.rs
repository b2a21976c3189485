//! `put`: a local tree to a server.
//!
//! Everything of a file is posted at once (Create, Write .., Setattr, Close); replies are looked at
//! as they come. The folder's own times and mode follow after what is in it.
//!
//! A file whose content failed does not stay at its full size, where who compares sizes would take
//! it for whole: `undo` cuts or removes it once the replies are here.

mod undo;

use super::local;
use super::report::Report;
use crate::client::{Client, ClientError, Completion, Outgoing, ROOT};
use crate::protocol::{Create, Link, Mkdir, Mknod, Symlink, Walk, feature, flags, op};
use anyhow::Result;
use seawall_blockdev::PageBuf;
use seawall_diskfs::{Kind, OpenFlags, SetAttr};
use seawall_ipc::{Request, Status, encode_body};
use serde::Serialize;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::format;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;

/// One source file and whether something of it failed already.
struct Item {
    path: PathBuf,
    /// Where it goes, as messages name it.
    to: String,
    folder: Option<Rc<Item>>,
    is_dir: bool,
    failed: Cell<bool>,
    /// A regular file's path on the server.
    place: OnceCell<Vec<Vec<u8>>>,
    /// The name was not there before.
    made: Cell<bool>,
    /// It could be opened, so what is there is what was written.
    opened: Cell<bool>,
    /// Where its content is known to be wrong from, when that failed.
    good: Cell<Option<u64>>,
}

impl Item {
    fn new(path: &Path, to: String, meta: &Metadata, folder: Option<&Rc<Item>>) -> Rc<Self> {
        let (path, folder) = (path.to_path_buf(), folder.cloned());
        Rc::new(Self {
            path,
            to,
            folder,
            is_dir: meta.is_dir(),
            failed: Cell::new(false),
            place: OnceCell::new(),
            made: Cell::new(false),
            opened: Cell::new(false),
            good: Cell::new(None),
        })
    }

    /// True when the folder above it could not be made: its own failure follows from that.
    fn follows(&self) -> bool {
        self.folder.as_ref().is_some_and(|f| f.failed.get() || f.follows())
    }
}

/// What a reply may be.
struct Expect {
    item: Rc<Item>,
    /// Any error is fine: what follows will tell.
    tolerant: bool,
    /// Bytes of a write.
    bytes: u64,
    /// A failure leaves the content wrong from here on.
    content: Option<u64>,
}

/// The whole content is there, and cannot be relied upon.
const NOT_FINISHED: u64 = u64::MAX;

pub(super) struct Putter<'c> {
    client: &'c mut Client,
    report: Report,
    expected: HashMap<u64, Expect>,
    /// Local (device, inode) of files with several names -> path on the server.
    seen: HashMap<(u64, u64), Vec<Vec<u8>>>,
    /// Files whose content failed.
    broken: Vec<Rc<Item>>,
    as_root: bool,
    fsync: bool,
    /// Of the sources' own names: what all spellings have in common -> the first one.
    spellings: HashMap<Vec<u8>, Vec<u8>>,
}

pub(super) fn run(args: &super::Put) -> Result<()> {
    let mut client = args.to.connect()?;
    let mut put = Putter {
        client: &mut client,
        report: Report::new(),
        expected: HashMap::new(),
        seen: HashMap::new(),
        broken: Vec::new(),
        as_root: local::as_root(),
        fsync: args.fsync,
        spellings: HashMap::new(),
    };
    for source in &args.sources {
        put.source(source, &args.to, args.sources.len() > 1)
            .map_err(|e| super::target::named(e, &args.to))?;
    }
    put.drain()?;
    put.undo()?;
    let report = put.report;
    if args.syncfs {
        client.syncfs().map_err(|e| e.on(format!("{}", args.to)))?;
    }
    report.finish(args.json)
}

fn on(op: u16, fid: u32) -> Request {
    Request { op, aux: fid, flags: flags::AFTER, ..Request::default() }
}

type Sent = core::result::Result<(), ClientError>;

/// `/path/..`.
/// What all spellings of a name have in common on a volume that folds names.
fn folded(name: &[u8]) -> Vec<u8> {
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        upper.next().filter(|_| upper.next().is_none()).unwrap_or(c)
    };
    let text: String = String::from_utf8_lossy(name).chars().map(upper).collect();
    text.trim_end_matches(['.', ' ']).as_bytes().to_vec()
}

fn joined(path: &[Vec<u8>]) -> Vec<u8> {
    path.iter().fold(Vec::from(b"/"), |dir, name| super::target::join(&dir, name))
}

/// `SOCKET:/path/name`.
fn named_at(to: &super::Target, path: &[Vec<u8>], name: &[u8]) -> String {
    let path = super::target::join(&joined(path), name);
    super::Target { socket: to.socket.clone(), path }.to_string()
}

impl Putter<'_> {
    fn source(&mut self, source: &Path, to: &super::Target, into: bool) -> Result<()> {
        let meta = match source.symlink_metadata() {
            Ok(meta) => meta,
            Err(e) => {
                self.report.failed(format!("{}: {e}", source.display()));
                return Ok(());
            }
        };
        let last = source.as_os_str().as_bytes().rsplit(|b| *b == b'/').next();
        let named = source.file_name().filter(|_| last != Some(b".".as_slice()));
        let ends_in_slash = crate::client::wants_folder(&to.path);
        let target = match self.client.find(&to.path, true) {
            Ok(found) if found.attr.kind == Kind::Dir => {
                let name = named.map(|n| n.as_bytes().to_vec());
                Some((found.fid, to.path.clone(), name))
            }
            Ok(found) => {
                self.client.clunk(found.fid)?;
                None
            }
            Err(e) if e.is(Status::ENOENT) && !into && (meta.is_dir() || !ends_in_slash) => None,
            Err(e) => return Err(e.into()),
        };
        let (dir, path, name) = match target {
            Some(found) => found,
            None => {
                let (dir, name) = to.split()?;
                let found = self.client.find(&dir, true)?;
                (found.fid, dir, Some(name))
            }
        };
        let path: Vec<Vec<u8>> = crate::client::components(&path).collect();
        match name {
            Some(name) => {
                let item = Item::new(source, named_at(to, &path, &name), &meta, None);
                let mut spellings = std::mem::take(&mut self.spellings);
                let new = self.is_new(&mut spellings, &name, &item);
                self.spellings = spellings;
                if new {
                    self.entry(dir, &path, &name, &item, &meta)?;
                }
            }
            None => self.content(dir, &path, &Item::new(source, to.to_string(), &meta, None))?,
        }
        self.client.clunk(dir)?;
        Ok(())
    }

    fn post<T: Serialize>(
        &mut self,
        item: &Rc<Item>,
        request: Request,
        body: Option<&T>,
        tolerant: bool,
    ) -> Sent {
        let expect = Expect { item: Rc::clone(item), tolerant, bytes: 0, content: None };
        self.post_content(request, body, expect)
    }

    /// [`Putter::post`] of what the content depends on.
    fn post_content<T: Serialize>(
        &mut self,
        request: Request,
        body: Option<&T>,
        expect: Expect,
    ) -> Sent {
        let data = match body.map(encode_body) {
            None => Outgoing::None,
            Some(Ok(body)) => Outgoing::Body(body),
            Some(Err(e)) => {
                self.fail(&expect.item, e);
                return Ok(());
            }
        };
        self.send(request, data, expect)
    }

    fn send(&mut self, request: Request, data: Outgoing, expect: Expect) -> Sent {
        while !self.client.has_room() {
            let Some(done) = self.client.complete()? else { break };
            self.reply(&done);
        }
        let cookie = self.client.post(request, data)?;
        self.expected.insert(cookie, expect);
        Ok(())
    }

    fn reply(&mut self, done: &Completion) {
        let Some(expect) = self.expected.remove(&done.cookie) else { return };
        if done.op == op::CREATE && done.ok().is_ok() {
            expect.item.opened.set(true);
        }
        if expect.tolerant {
            if done.op == op::CREATE && done.ok().is_ok() {
                expect.item.made.set(true);
            }
            return;
        }
        if done.op == op::CREATE && expect.item.made.get() {
            return;
        }
        let short = done.op == op::WRITE && done.value < expect.bytes;
        if (short || done.ok().is_err())
            && let Some(at) = expect.content
        {
            self.wrong_from(&expect.item, at.saturating_add(if short { done.value } else { 0 }));
        }
        match done.ok() {
            Ok(()) if short => {
                self.fail(&expect.item, "the file would be too large");
            }
            Ok(()) => {
                self.report.moved(expect.bytes);
                self.count(done.op, &expect.item);
            }
            Err(e) => self.refused(&expect.item, e),
        }
    }

    /// Counts a thing when the last request that it needs went well.
    fn count(&mut self, op: u16, item: &Item) {
        if item.failed.get() || item.follows() {
            return;
        }
        match op {
            op::CLOSE => self.report.file(),
            op::LINK => self.report.links += 1,
            op::SYMLINK | op::MKNOD => self.report.others += 1,
            op::WALK if item.is_dir => self.report.folders += 1,
            _ => {}
        }
    }

    /// The first failure of a file is told; those that follow from it, or from its folder's, are
    /// not.
    fn fail(&mut self, item: &Item, why: impl core::fmt::Display) {
        if !item.failed.replace(true) && !item.follows() {
            self.report.failed(format!("{}: {why}", item.path.display()));
        }
    }

    /// The content is wrong from `at` on.
    fn wrong_from(&mut self, item: &Rc<Item>, at: u64) {
        match item.good.get() {
            None => self.broken.push(Rc::clone(item)),
            Some(before) if before <= at => return,
            Some(_) => {}
        }
        item.good.set(Some(at));
    }

    /// The same for what the server says, which is about the name on the server.
    fn refused(&mut self, item: &Item, e: ClientError) {
        if !item.failed.replace(true) && !item.follows() {
            let same = match &e {
                ClientError::Op { status, .. } => Some(*status),
                _ => None,
            };
            self.report.refused(same, e.on(item.to.as_str()));
        }
    }

    fn drain(&mut self) -> Sent {
        while let Some(done) = self.client.complete()? {
            self.reply(&done);
        }
        Ok(())
    }

    fn content(&mut self, dir: u32, path: &[Vec<u8>], item: &Rc<Item>) -> Sent {
        let entries =
            std::fs::read_dir(&item.path).and_then(|d| d.collect::<std::io::Result<Vec<_>>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => {
                self.fail(item, e);
                return Ok(());
            }
        };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut spellings = HashMap::new();
        for entry in entries {
            if item.failed.get() || item.follows() {
                break;
            }
            let local = entry.path();
            match local.symlink_metadata() {
                Ok(meta) => {
                    let name = entry.file_name();
                    let to = super::target::join(item.to.as_bytes(), name.as_bytes());
                    let to = String::from_utf8_lossy(&to).into_owned();
                    let below = Item::new(&local, to, &meta, Some(item));
                    if !self.is_new(&mut spellings, name.as_bytes(), &below) {
                        continue;
                    }
                    self.entry(dir, path, entry.file_name().as_bytes(), &below, &meta)?;
                }
                Err(e) => self.report.failed(format!("{}: {e}", local.display())),
            }
        }
        Ok(())
    }

    /// False for another spelling of a name that was put into the same folder before, on a volume
    /// that would take one for the other.
    fn is_new(
        &mut self,
        spellings: &mut HashMap<Vec<u8>, Vec<u8>>,
        name: &[u8],
        item: &Item,
    ) -> bool {
        if self.client.hello().features & feature::FOLDS == 0 {
            return true;
        }
        let first = spellings.entry(folded(name)).or_insert_with(|| name.to_vec());
        let same = first == name;
        if !same {
            let first = String::from_utf8_lossy(first).into_owned();
            self.fail(item, format!("the volume takes this name for that of {first}"));
        }
        same
    }

    fn entry(
        &mut self,
        dir: u32,
        above: &[Vec<u8>],
        name: &[u8],
        item: &Rc<Item>,
        meta: &Metadata,
    ) -> Sent {
        let Some(kind) = local::kind(meta) else {
            self.fail(item, "a kind of file that is not known");
            return Ok(());
        };
        let mut path = above.to_vec();
        path.push(name.to_vec());
        if kind != Kind::Dir && meta.nlink() > 1 {
            let id = (meta.dev(), meta.ino());
            if let Some(first) = self.seen.get(&id).cloned() {
                return self.link(item, dir, name, &first);
            }
            self.seen.insert(id, path.clone());
        }
        match kind {
            Kind::Dir => self.folder(item, dir, &path, name, meta),
            Kind::File => self.file(item, dir, path, name, meta),
            Kind::Symlink => {
                self.post(item, on(op::UNLINK, dir), Some(&name), true)?;
                let target = match std::fs::read_link(&item.path) {
                    Ok(target) => target.as_os_str().as_bytes().to_vec(),
                    Err(e) => {
                        self.fail(item, e);
                        return Ok(());
                    }
                };
                let body = Symlink { name: name.to_vec(), target };
                self.post(item, on(op::SYMLINK, dir), Some(&body), false)?;
                self.finish(item, dir, name, meta)
            }
            Kind::Fifo | Kind::Socket | Kind::CharDev | Kind::BlockDev => {
                self.post(item, on(op::UNLINK, dir), Some(&name), true)?;
                let dev = meta.rdev();
                let rdev = (rustix::fs::major(dev), rustix::fs::minor(dev));
                let body = Mknod { name: name.to_vec(), kind, mode: 0o600, rdev };
                self.post(item, on(op::MKNOD, dir), Some(&body), false)?;
                self.finish(item, dir, name, meta)
            }
        }
    }

    /// Times, mode and owner of something that is not open.
    fn finish(&mut self, item: &Rc<Item>, dir: u32, name: &[u8], meta: &Metadata) -> Sent {
        let fid = self.client.new_fid();
        let walk = Walk { new_fid: fid, names: [name.to_vec()].into(), ..Walk::default() };
        self.post(item, on(op::WALK, dir), Some(&walk), false)?;
        let set = local::attributes(meta, self.as_root);
        self.post(item, on(op::SETATTR, fid), Some(&set), false)?;
        self.clunk(item, fid)
    }

    /// Forgets a fid that was bound if everything went well.
    fn clunk(&mut self, item: &Rc<Item>, fid: u32) -> Sent {
        self.post::<()>(item, on(op::CLUNK, fid), None, true)?;
        self.client.free_fid(fid);
        Ok(())
    }

    fn link(&mut self, item: &Rc<Item>, dir: u32, name: &[u8], first: &[Vec<u8>]) -> Sent {
        let fid = self.client.new_fid();
        let most = self.client.hello().walk_max.max(1) as usize;
        for (i, names) in first.chunks(most).enumerate() {
            let walk = Walk { new_fid: fid, names: names.to_vec(), ..Walk::default() };
            let from = if i == 0 { ROOT } else { fid };
            self.post(item, on(op::WALK, from), Some(&walk), false)?;
        }
        self.post(item, on(op::UNLINK, dir), Some(&name), true)?;
        let body = Link { fid, name: name.to_vec() };
        self.post(item, on(op::LINK, dir), Some(&body), false)?;
        self.clunk(item, fid)
    }

    fn folder(
        &mut self,
        item: &Rc<Item>,
        dir: u32,
        path: &[Vec<u8>],
        name: &[u8],
        meta: &Metadata,
    ) -> Sent {
        // It may be there already; the walk says whether it can be used.
        let body = Mkdir { new_fid: None, name: name.to_vec(), mode: 0o700 };
        self.post(item, on(op::MKDIR, dir), Some(&body), true)?;
        let fid = self.client.new_fid();
        // Through `.`: what is there already and is no folder is refused, and nothing is changed.
        let names = [name.to_vec(), b".".to_vec()].into();
        let walk = Walk { new_fid: fid, names, ..Walk::default() };
        self.post(item, on(op::WALK, dir), Some(&walk), false)?;
        self.content(fid, path, item)?;
        let set = local::attributes(meta, self.as_root);
        self.post(item, on(op::SETATTR, fid), Some(&set), false)?;
        self.clunk(item, fid)
    }

    fn file(
        &mut self,
        item: &Rc<Item>,
        dir: u32,
        path: Vec<Vec<u8>>,
        name: &[u8],
        meta: &Metadata,
    ) -> Sent {
        let file = match local::open_source(&item.path) {
            Ok(file) => file,
            Err(e) => {
                self.fail(item, e);
                return Ok(());
            }
        };
        let fid = self.client.new_fid();
        let how = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let _only_here = item.place.set(path);
        // First so that it fails on what is there: whether the name is new is known then. After a
        // success the second fails on the fid, which is not looked at.
        for exclusive in [true, false] {
            let (name, flags) = (name.to_vec(), OpenFlags { exclusive, ..how });
            let body = Create { new_fid: fid, name, mode: 0o600, flags, policy: None };
            self.post(item, on(op::CREATE, dir), Some(&body), exclusive)?;
        }
        let (written, size) = self.data(item, &file, fid, meta)?;
        let needs = |at| Expect { item: Rc::clone(item), tolerant: false, bytes: 0, content: at };
        if written < size {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            self.post_content(on(op::SETATTR, fid), Some(&set), needs(Some(written)))?;
        }
        let set = local::attributes(meta, self.as_root);
        self.post(item, on(op::SETATTR, fid), Some(&set), false)?;
        if self.fsync {
            self.post_content::<()>(on(op::FSYNC, fid), None, needs(Some(NOT_FINISHED)))?;
        }
        self.post_content::<()>(on(op::CLOSE, fid), None, needs(Some(NOT_FINISHED)))?;
        self.client.free_fid(fid);
        Ok(())
    }

    /// Posts the data, leaving out holes. Returns where the last of it ended, and the size: a file
    /// that failed, or that became shorter meanwhile, ends with its data.
    fn data(
        &mut self,
        item: &Rc<Item>,
        file: &File,
        fid: u32,
        meta: &Metadata,
    ) -> Result2<(u64, u64)> {
        let size = meta.size();
        let holes = local::may_have_holes(size, meta.blocks());
        let mut at = 0;
        let mut end = 0;
        while at < size {
            let run = if holes { local::next_data(file, at, size) } else { Ok(Some((at, size))) };
            match run {
                Ok(Some((start, stop))) => {
                    at = stop;
                    end = self.run(item, file, fid, start, stop)?;
                    if end < stop {
                        return Ok((end, end));
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    self.wrong_from(item, end);
                    self.fail(item, e);
                    return Ok((end, end));
                }
            }
        }
        Ok((end, size))
    }

    fn run(
        &mut self,
        item: &Rc<Item>,
        file: &File,
        fid: u32,
        mut at: u64,
        stop: u64,
    ) -> Result2<u64> {
        let most = self.client.payload_max() as u64;
        while at < stop && !item.failed.get() {
            let len = usize::try_from((stop - at).min(most)).unwrap_or(0);
            let mut data = PageBuf::zeroed(len);
            let n = match read_at(file, &mut data, at) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) => {
                    self.wrong_from(item, at);
                    self.fail(item, e);
                    break;
                }
            };
            data.truncate(n);
            let bytes = n as u64;
            let request = Request { offset: at, length: bytes, ..on(op::WRITE, fid) };
            let expect =
                Expect { item: Rc::clone(item), tolerant: false, bytes, content: Some(at) };
            self.send(request, Outgoing::Data(data), expect)?;
            at = at.saturating_add(bytes);
        }
        Ok(at)
    }
}

type Result2<T> = core::result::Result<T, ClientError>;

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buf: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut done = 0usize;
    while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, at.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done = done.saturating_add(n),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
