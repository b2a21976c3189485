//! `SOCKET:/path`.

use crate::client::{Client, ClientError};
use anyhow::{Result, bail};
use std::format;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::string::String;
use std::vec::Vec;

/// A path on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The server's socket.
    pub(super) socket: PathBuf,
    /// Absolute path in its file system, bytes.
    pub(super) path: Vec<u8>,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        match text.find(":/") {
            Some(at) if at > 0 => {
                let (socket, path) = text.split_at(at);
                let path = path.strip_prefix(':').unwrap_or(path);
                Ok(Self { socket: socket.into(), path: path.into() })
            }
            _ => Err("expected SOCKET:/path".into()),
        }
    }
}

impl Target {
    pub(super) fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.socket, &format!("seawall fs[{}]", std::process::id()))
    }

    /// The last component; `None` when the path names a folder by its content (`/`, `/a/.`).
    pub(super) fn name(&self) -> Option<&[u8]> {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        (!matches!(name, b"" | b"." | b"..")).then_some(name)
    }

    /// Folder and last component.
    pub(super) fn split(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let Some(name) = self.name() else { bail!("{self}: this names no entry of a folder") };
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        let dir = path.strip_suffix(name).unwrap_or(b"/");
        Ok((dir.to_vec(), name.to_vec()))
    }
}

/// Does something for every target; a bad one is told and does not stop the others.
pub(super) fn each(targets: &[Target], mut act: impl FnMut(&Target) -> Result<()>) -> Result<()> {
    let mut failed = None;
    for target in targets {
        if let Err(e) = act(target) {
            let e = named(e, target);
            if targets.len() == 1 {
                return Err(e);
            }
            seawall_store::cli::say(&format!("seawall fs: {e:#}"));
            failed = Some(crate::cli::Told.into());
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The same error with the target's name, if it is a server's and has none.
pub(super) fn named(e: anyhow::Error, target: &Target) -> anyhow::Error {
    match e.downcast::<ClientError>() {
        Ok(e) => e.on(format!("{target}")).into(),
        Err(e) => e,
    }
}

pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

pub(super) fn os(name: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()))
}

impl core::fmt::Display for Target {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.socket.display(), String::from_utf8_lossy(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_paths() {
        let t: Target = "run/fs.sock:/a/b".parse().unwrap();
        assert_eq!((t.socket.to_str(), &*t.path), (Some("run/fs.sock"), b"/a/b".as_slice()));
        assert_eq!(t.split().unwrap(), (b"/a/".to_vec(), b"b".to_vec()));
        for (text, name) in
            [("s:/", None), ("s:/a/.", None), ("s:/a/..", None), ("s:/a/", Some(b"a".as_slice()))]
        {
            assert_eq!(text.parse::<Target>().unwrap().name(), name, "{text}");
        }
        for wrong in ["", "/a/b", "s", "s:a", ":/a"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
