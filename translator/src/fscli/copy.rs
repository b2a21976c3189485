//! `cp`: within a server or between two.

use super::simple::destination;
use super::target::{Target, join};
use crate::client::{Client, ClientError};
use crate::protocol::Mknod;
use anyhow::{Result, bail};
use seawall_diskfs::{Attr, Kind, OpenFlags, SetAttr, SetTime};
use seawall_ipc::Status;
use std::collections::HashMap;
use std::string::{String, ToString};
use std::vec::Vec;

struct Copy {
    from: Client,
    to: Client,
    as_root: bool,
    /// Inodes with several names -> fid of the copy.
    seen: HashMap<u64, u32>,
}

pub(super) fn run(from: &Target, to: &Target, recursive: bool) -> Result<()> {
    let mut copy = Copy {
        from: from.connect()?,
        to: to.connect()?,
        as_root: super::local::as_root(),
        seen: HashMap::new(),
    };
    let found = copy.from.find(&from.path, false)?;
    if found.attr.kind == Kind::Dir && !recursive {
        bail!("{from}: is a folder; use -r to copy it with all that is in it");
    }
    let folder = found.attr.kind == Kind::Dir;
    let (dir, name) = destination(&mut copy.to, to, from.name(), folder)?;
    if found.attr.kind == Kind::Dir && from.socket == to.socket {
        inside(&mut copy, found.attr.ino.0, dir, from, to)?;
    }
    copy.node(found.fid, &found.attr, dir, &name, from.to_string().as_bytes())
}

/// A folder is not copied into itself: that would never end.
fn inside(copy: &mut Copy, ino: u64, dir: u32, from: &Target, to: &Target) -> Result<()> {
    let (mut fid, reply) = copy.to.walk(dir, Vec::new(), None)?;
    let mut at = reply.attr.map(|a| a.ino.0);
    loop {
        if at == Some(ino) {
            bail!("{from}: cannot be copied into itself, {to}");
        }
        let (up, reply) = copy.to.walk(fid, [b"..".to_vec()].into(), None)?;
        copy.to.clunk(fid)?;
        fid = up;
        let above = reply.attr.map(|a| a.ino.0);
        if above == at {
            copy.to.clunk(fid)?;
            return Ok(());
        }
        at = above;
    }
}

fn named(path: &[u8]) -> impl Fn(ClientError) -> ClientError + '_ {
    |e| e.on(String::from_utf8_lossy(path).into_owned())
}

impl Copy {
    fn node(&mut self, fid: u32, a: &Attr, dir: u32, name: &[u8], path: &[u8]) -> Result<()> {
        let fail = named(path);
        let shared = a.kind != Kind::Dir && a.nlink > 1;
        if let Some(first) = self.seen.get(&a.ino.0).filter(|_| shared) {
            self.to.link(*first, dir, name).map_err(fail)?;
            return Ok(());
        }
        let made = match a.kind {
            Kind::File => self.file(fid, a, dir, name).map_err(fail)?,
            Kind::Dir => {
                match self.to.mkdir(dir, name, 0o700) {
                    Err(e) if !e.is(Status::EEXIST) => return Err(fail(e).into()),
                    _ => {}
                }
                let (made, _) = self.to.walk(dir, [name.to_vec()].into(), None).map_err(&fail)?;
                for (name, attr) in self.from.list(fid).map_err(&fail)? {
                    let path = join(path, &name);
                    let (below, _) = self.from.walk(fid, [name.clone()].into(), None)?;
                    self.node(below, &attr, made, &name, &path)?;
                    self.from.clunk(below)?;
                }
                made
            }
            Kind::Symlink => {
                let target = self.from.readlink(fid).map_err(&fail)?;
                self.to.symlink(dir, name, &target).map_err(&fail)?;
                self.to.walk(dir, [name.to_vec()].into(), None).map_err(fail)?.0
            }
            kind => {
                let node = Mknod { name: name.to_vec(), kind, mode: 0o600, rdev: a.rdev };
                self.to.mknod(dir, &node).map_err(&fail)?;
                self.to.walk(dir, [name.to_vec()].into(), None).map_err(fail)?.0
            }
        };
        let set = SetAttr {
            mode: (a.kind != Kind::Symlink).then_some(a.mode),
            uid: self.as_root.then_some(a.uid),
            gid: self.as_root.then_some(a.gid),
            size: None,
            atime: SetTime::At(a.atime),
            mtime: SetTime::At(a.mtime),
        };
        self.to.setattr(made, &set).map_err(named(path))?;
        if a.kind == Kind::File {
            // The close site runs; the name is found again for later links.
            self.to.close(made).map_err(named(path))?;
        } else {
            self.to.clunk(made)?;
        }
        if shared {
            let (first, _) =
                self.to.walk(dir, [name.to_vec()].into(), None).map_err(named(path))?;
            self.seen.insert(a.ino.0, first);
        }
        Ok(())
    }

    fn file(&mut self, fid: u32, a: &Attr, dir: u32, name: &[u8]) -> Result<u32, ClientError> {
        let read = OpenFlags { read: true, ..OpenFlags::default() };
        let write = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let (source, _) = self.from.walk(fid, Vec::new(), Some(read))?;
        let (made, _) = self.to.create(dir, name, 0o600, write)?;
        let mut at = 0;
        while let Some(start) = self.from.seek(source, at, false)? {
            let end = self.from.seek(source, start, true)?.unwrap_or(a.size);
            at = start;
            while at < end {
                let most = usize::try_from(end - at).unwrap_or(usize::MAX);
                let data = self.from.read(source, at, most)?;
                if data.is_empty() {
                    break;
                }
                self.to.write(made, at, &data)?;
                at += data.len() as u64;
            }
            if end <= start {
                break;
            }
            at = end;
        }
        self.from.close(source)?;
        self.to.setattr(made, &SetAttr { size: Some(a.size), ..SetAttr::default() })?;
        Ok(made)
    }
}
