//! `get`: a tree from a server to local files.
//!
//! A file's Walk, Reads and Close are posted at once and its data is written as it comes. Modes and
//! times of folders come last of all, when nothing is made in them any more.

use super::local;
use super::report::Report;
use super::target::{Target, os};
use crate::client::{Client, ClientError, Completion, Outgoing};
use crate::protocol::{Walk, flags, op};
use anyhow::Result;
use seawall_diskfs::{Attr, Kind, OpenFlags};
use seawall_ipc::{Request, encode_body};
use std::cell::Cell;
use std::collections::HashMap;
use std::format;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::vec::Vec;

const READ: OpenFlags = OpenFlags {
    read: true,
    write: false,
    append: false,
    truncate: false,
    exclusive: false,
    sync: false,
    dsync: false,
};

/// A local file under way.
struct Item {
    path: PathBuf,
    file: File,
    attr: Attr,
    failed: Cell<bool>,
}

enum Expect {
    Opened,
    Data { offset: u64 },
    Closed,
}

struct Getter<'c> {
    client: &'c mut Client,
    report: Report,
    expected: HashMap<u64, (Rc<Item>, Expect)>,
    /// Inodes with several names -> where the first one went.
    seen: HashMap<u64, PathBuf>,
    folders: Vec<(PathBuf, Attr)>,
    as_root: bool,
}

pub(super) fn run(args: &super::Get) -> Result<()> {
    let mut report = Report::new();
    for source in &args.sources {
        let mut client = source.connect()?;
        let mut get = Getter {
            client: &mut client,
            report,
            expected: HashMap::new(),
            seen: HashMap::new(),
            folders: Vec::new(),
            as_root: local::as_root(),
        };
        get.source(source, &args.to).map_err(|e| super::target::named(e, source))?;
        get.drain()?;
        get.finish_folders();
        report = get.report;
    }
    report.finish(args.json)
}

fn on(op: u16, fid: u32) -> Request {
    Request { op, aux: fid, flags: flags::AFTER, ..Request::default() }
}

type Done<T> = core::result::Result<T, ClientError>;

impl Getter<'_> {
    fn source(&mut self, source: &Target, to: &Path) -> Result<()> {
        let found = self.client.find(&source.path, false)?;
        match source.name() {
            None => self.folder(found.fid, &found.attr, to.to_path_buf())?,
            Some(name) => {
                let to = if to.is_dir() { to.join(os(name)) } else { to.to_path_buf() };
                if found.attr.kind == Kind::Dir {
                    self.folder(found.fid, &found.attr, to)?;
                } else {
                    let (dir, name) = source.split()?;
                    let dir = self.client.find(&dir, true)?;
                    self.entry(dir.fid, &name, &found.attr, to)?;
                    self.client.clunk(dir.fid)?;
                }
            }
        }
        self.client.clunk(found.fid)?;
        Ok(())
    }

    fn local<T>(&mut self, path: &Path, result: std::io::Result<T>) -> Option<T> {
        result.map_err(|e| self.report.failed(format!("{}: {e}", path.display()))).ok()
    }

    fn folder(&mut self, fid: u32, attr: &Attr, to: PathBuf) -> Done<()> {
        // A symlink in its place is not a folder: nothing is written through it.
        if !to.symlink_metadata().is_ok_and(|m| m.is_dir()) {
            let made = std::fs::create_dir(&to);
            if self.local(&to, made).is_none() {
                return Ok(());
            }
        }
        self.report.folders += 1;
        for (name, attr) in self.client.list(fid)? {
            let path = to.join(os(&name));
            self.entry(fid, &name, &attr, path)?;
        }
        self.folders.push((to, *attr));
        Ok(())
    }

    fn entry(&mut self, dir: u32, name: &[u8], attr: &Attr, to: PathBuf) -> Done<()> {
        if attr.kind == Kind::Dir {
            let (fid, _) = self.client.walk(dir, [name.to_vec()].into(), None)?;
            self.folder(fid, attr, to)?;
            return self.client.clunk(fid);
        }
        if attr.nlink > 1 {
            if let Some(first) = self.seen.get(&attr.ino.0).cloned() {
                self.report.links += 1;
                let linked = local::make_way(&to).and_then(|()| std::fs::hard_link(first, &to));
                self.local(&to, linked);
                return Ok(());
            }
            self.seen.insert(attr.ino.0, to.clone());
        }
        match attr.kind {
            Kind::File => self.file(dir, name, attr, to),
            Kind::Symlink => {
                let (fid, _) = self.client.walk(dir, [name.to_vec()].into(), None)?;
                let target = self.client.readlink(fid)?;
                self.client.clunk(fid)?;
                self.report.others += 1;
                let made = local::make_way(&to)
                    .and_then(|()| std::os::unix::fs::symlink(os(&target), &to))
                    .and_then(|()| local::apply(&to, attr, self.as_root));
                self.local(&to, made);
                Ok(())
            }
            _ => {
                self.report.others += 1;
                let made = local::make_way(&to)
                    .and_then(|()| local::make_special(&to, attr))
                    .and_then(|()| local::apply(&to, attr, self.as_root));
                self.local(&to, made);
                Ok(())
            }
        }
    }

    fn file(&mut self, dir: u32, name: &[u8], attr: &Attr, to: PathBuf) -> Done<()> {
        let made = local::create(&to);
        let Some(file) = self.local(&to, made) else { return Ok(()) };
        let item = Rc::new(Item { path: to, file, attr: *attr, failed: Cell::new(false) });
        self.report.file();
        if local::may_have_holes(attr.size, attr.blocks) {
            return self.sparse(dir, name, &item);
        }
        let fid = self.client.new_fid();
        let names = [name.to_vec()].into();
        let walk = Walk { new_fid: fid, names, open: Some(READ), getattr: false };
        match encode_body(&walk) {
            Ok(body) => {
                self.send(on(op::WALK, dir), Outgoing::Body(body), &item, Expect::Opened)?
            }
            Err(e) => {
                self.fail(&item, e);
                return Ok(());
            }
        }
        self.reads(&item, fid, 0, attr.size)?;
        self.close(&item, fid)
    }

    /// A file with holes: what is data is asked for first.
    fn sparse(&mut self, dir: u32, name: &[u8], item: &Rc<Item>) -> Done<()> {
        let (fid, _) = match self.client.walk(dir, [name.to_vec()].into(), Some(READ)) {
            Ok(found) => found,
            Err(e @ ClientError::Op { .. }) => {
                self.fail(item, e);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let mut at = 0;
        while at < item.attr.size {
            let Some(start) = self.client.seek(fid, at, false)? else { break };
            let end = self.client.seek(fid, start, true)?.unwrap_or(item.attr.size);
            self.reads(item, fid, start, end.min(item.attr.size))?;
            if end <= at {
                break;
            }
            at = end;
        }
        self.close(item, fid)
    }

    fn reads(&mut self, item: &Rc<Item>, fid: u32, mut at: u64, end: u64) -> Done<()> {
        let most = self.client.payload_max() as u64;
        while at < end {
            let length = (end - at).min(most);
            let request = Request { offset: at, length, ..on(op::READ, fid) };
            self.send(request, Outgoing::None, item, Expect::Data { offset: at })?;
            at = at.saturating_add(length);
        }
        Ok(())
    }

    fn close(&mut self, item: &Rc<Item>, fid: u32) -> Done<()> {
        self.send(on(op::CLOSE, fid), Outgoing::None, item, Expect::Closed)?;
        self.client.free_fid(fid);
        Ok(())
    }

    fn send(
        &mut self,
        request: Request,
        data: Outgoing,
        item: &Rc<Item>,
        expect: Expect,
    ) -> Done<()> {
        while !self.client.has_room() {
            let Some(done) = self.client.complete()? else { break };
            self.reply(&done);
        }
        let cookie = self.client.post(request, data)?;
        self.expected.insert(cookie, (Rc::clone(item), expect));
        Ok(())
    }

    fn reply(&mut self, done: &Completion) {
        let Some((item, expect)) = self.expected.remove(&done.cookie) else { return };
        if let Err(e) = done.ok() {
            self.fail(&item, e);
        }
        match expect {
            Expect::Opened => {}
            Expect::Data { offset } => {
                self.report.moved(done.data.len() as u64);
                if let Err(e) = item.file.write_all_at(&done.data, offset) {
                    self.fail(&item, e);
                }
            }
            Expect::Closed => {
                let finished = item
                    .file
                    .set_len(item.attr.size)
                    .and_then(|()| local::apply(&item.path, &item.attr, self.as_root));
                if let Err(e) = finished {
                    self.fail(&item, e);
                }
            }
        }
    }

    /// The first failure of a file is told.
    fn fail(&mut self, item: &Item, why: impl core::fmt::Display) {
        if !item.failed.replace(true) {
            self.report.failed(format!("{}: {why}", item.path.display()));
        }
    }

    fn drain(&mut self) -> Done<()> {
        while let Some(done) = self.client.complete()? {
            self.reply(&done);
        }
        Ok(())
    }

    fn finish_folders(&mut self) {
        for (path, attr) in core::mem::take(&mut self.folders) {
            let set = local::apply(&path, &attr, self.as_root);
            self.local(&path, set);
        }
    }
}
