//! `cat`, `mkdir`, `rm`, `mv`, `ln`.

use super::target::{Target, each};
use crate::client::{Client, ClientError, wants_folder};
use crate::protocol::op;
use anyhow::{Result, bail};
use seawall_diskfs::{Kind, OpenFlags, RenameFlags};
use seawall_ipc::Status;
use seawall_store::cli::still_read;
use std::ffi::OsStr;
use std::format;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::string::{String, ToString};
use std::vec::Vec;

pub(super) fn cat(targets: &[Target]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    each(targets, |target| {
        let mut client = target.connect()?;
        let fail = |e: ClientError| e.on(target.to_string());
        let found = client.find(&target.path, true)?;
        let read = OpenFlags { read: true, ..OpenFlags::default() };
        client.open(found.fid, read, None).map_err(fail)?;
        let mut at = 0;
        loop {
            let data = client.read(found.fid, at, usize::MAX).map_err(fail)?;
            if data.is_empty() {
                break;
            }
            if !still_read(out.write_all(&data))? {
                return Ok(());
            }
            at += data.len() as u64;
        }
        client.close(found.fid).map_err(fail)?;
        still_read(out.flush())?;
        Ok(())
    })
}

pub(super) fn mkdir(targets: &[Target], parents: bool, mode: u32) -> Result<()> {
    each(targets, |target| {
        let mut client = target.connect()?;
        let fail = |e: ClientError| e.on(target.to_string());
        if !parents {
            let (dir, name) = target.split()?;
            let dir = client.find(&dir, true)?;
            client.mkdir(dir.fid, &name, mode).map_err(fail)?;
            return Ok(());
        }
        let mut path = Vec::from(b"/");
        for name in crate::client::components(&target.path) {
            let dir = client.find(&path, true)?;
            match client.mkdir(dir.fid, &name, mode) {
                Err(e) if !e.is(Status::EEXIST) => return Err(fail(e).into()),
                _ => {}
            }
            client.clunk(dir.fid)?;
            path = super::target::join(&path, &name);
        }
        if client.find(&path, true)?.attr.kind != Kind::Dir {
            bail!("{target}: exists and is no folder");
        }
        Ok(())
    })
}

pub(super) fn rm(targets: &[Target], recursive: bool, force: bool) -> Result<()> {
    each(targets, |target| {
        let mut client = target.connect()?;
        let (dir, name) = target.split()?;
        let found = match client.find(&target.path, false) {
            Err(e) if force && e.is(Status::ENOENT) => return Ok(()),
            found => found?,
        };
        let dir = client.find(&dir, true)?;
        let is_dir = found.attr.kind == Kind::Dir;
        if is_dir && !recursive {
            bail!("{target}: is a folder; use -r to remove it with all that is in it");
        }
        if is_dir {
            empty(&mut client, found.fid, target.to_string().as_bytes())?;
        }
        client.clunk(found.fid)?;
        client.unlink(dir.fid, &name, is_dir).map_err(|e| e.on(target.to_string()))?;
        Ok(())
    })
}

/// Removes everything in a folder; `path` is its name in messages.
fn empty(client: &mut Client, fid: u32, path: &[u8]) -> Result<()> {
    for (name, attr) in client.list(fid)? {
        let path = super::target::join(path, &name);
        let is_dir = attr.kind == Kind::Dir;
        if is_dir {
            let (below, _) = client.walk(fid, [name.clone()].into(), None)?;
            empty(client, below, &path)?;
            client.clunk(below)?;
        }
        let fail = |e: ClientError| e.on(String::from_utf8_lossy(&path).into_owned());
        client.unlink(fid, &name, is_dir).map_err(fail)?;
    }
    Ok(())
}

/// Where a name goes: into `to` if that is a folder, else to the name `to`; a new name that ends in
/// `/` is only for a `folder`.
pub(super) fn destination(
    client: &mut Client,
    to: &Target,
    name: Option<&[u8]>,
    folder: bool,
) -> Result<(u32, Vec<u8>)> {
    match (client.find(&to.path, true), name) {
        (Ok(found), Some(name)) if found.attr.kind == Kind::Dir => {
            return Ok((found.fid, name.to_vec()));
        }
        (Ok(found), _) => client.clunk(found.fid)?,
        (Err(e), _) if e.is(Status::ENOENT) && (folder || !wants_folder(&to.path)) => {}
        (Err(e), _) => return Err(e.into()),
    }
    let (dir, name) = to.split()?;
    Ok((client.find(&dir, true)?.fid, name))
}

pub(super) fn mv(from: &Target, to: &Target, no_replace: bool) -> Result<()> {
    if from.socket != to.socket {
        bail!("{from} and {to} are on two servers; copy it with cp and remove it with rm");
    }
    let mut client = from.connect()?;
    let (dir, name) = from.split()?;
    let found = client.find(&from.path, false)?;
    let folder = found.attr.kind == Kind::Dir;
    client.clunk(found.fid)?;
    let dir = client.find(&dir, true)?;
    let (to_dir, to_name) = destination(&mut client, to, Some(&name), folder)?;
    let flags = RenameFlags { no_replace, ..RenameFlags::default() };
    let renamed = client.rename((dir.fid, &name), (to_dir, &to_name), flags);
    Ok(renamed.map_err(|e| e.on(format!("{from} to {to}")))?)
}

pub(super) fn ln(what: &OsStr, to: &Target, symbolic: bool) -> Result<()> {
    let mut client = to.connect()?;
    let fail = |e: ClientError| e.on(to.to_string());
    if symbolic {
        let (dir, name) = to.split()?;
        let dir = client.find(&dir, true)?;
        client.symlink(dir.fid, &name, what.as_bytes()).map_err(fail)?;
        return Ok(());
    }
    let text = what.to_str().unwrap_or_default();
    let from: Target =
        text.parse().map_err(|e| anyhow::anyhow!("{}: {e}", what.to_string_lossy()))?;
    if from.socket != to.socket {
        let (path, words) = (format!("{from} and {to}"), String::new());
        let status = Status::EXDEV;
        return Err(ClientError::Op { op: op::LINK, path, status, words }.into());
    }
    let found = client.find(&from.path, false)?;
    let (dir, name) = destination(&mut client, to, from.name(), false)?;
    client.link(found.fid, dir, &name).map_err(fail)?;
    Ok(())
}
