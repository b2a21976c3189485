//! `showtrans`, `settrans`: the passive translator of a node, a command line that is kept with it.
//! Words end in zero bytes, as the Hurd keeps them.

use super::target::{Target, each};
use crate::cli::print;
use anyhow::Result;
use seawall_diskfs::XattrHow;
use seawall_ipc::Status;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::string::{String, ToString};
use std::vec::Vec;

const NAME: &[u8] = b"gnu.translator";

/// The words of a command line, printable.
pub(super) fn words(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\0").unwrap_or(line);
    let words: Vec<String> = line.split(|b| *b == 0).map(super::list::text).collect();
    words.join(" ")
}

pub(super) fn show(targets: &[Target]) -> Result<()> {
    each(targets, |target| {
        let mut client = target.connect()?;
        let found = client.find(&target.path, false)?;
        let line = match client.getxattr(found.fid, NAME) {
            Ok(line) => words(&line),
            Err(e) if e.is(Status::ENODATA) => String::new(),
            Err(e) => return Err(e.on(target.to_string()).into()),
        };
        print(&std::format!("{line}\n"))?;
        Ok(client.clunk(found.fid)?)
    })
}

pub(super) fn set(target: &Target, command: &[OsString]) -> Result<()> {
    let mut client = target.connect()?;
    let found = client.find(&target.path, false)?;
    let mut line = Vec::new();
    for word in command {
        line.extend_from_slice(word.as_bytes());
        line.push(0);
    }
    let done = if command.is_empty() {
        client.removexattr(found.fid, NAME).or_else(|e| match e.is(Status::ENODATA) {
            true => Ok(()),
            false => Err(e),
        })
    } else {
        client.setxattr(found.fid, NAME, &line, XattrHow::Any)
    };
    done.map_err(|e| e.on(target.to_string()))?;
    Ok(client.clunk(found.fid)?)
}
