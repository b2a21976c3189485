//! The listening socket.
//!
//! Mode 0600 from its first moment: Linux takes it from the socket's inode, which `fchmod` can set
//! before `bind`. A socket file left behind by a dead server is removed; one on which somebody
//! answers is not.

use crate::error::StoreError;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::string::ToString;

const BACKLOG: i32 = 64;

/// A bound socket whose file is removed at the end, if it still is this socket's.
#[derive(Debug)]
pub struct Listening {
    /// The socket, non-blocking; taken by whoever accepts.
    pub listener: Option<UnixListener>,
    path: PathBuf,
    inode: Option<(u64, u64)>,
}

impl Listening {
    /// Binds and listens, mode 0600.
    ///
    /// # Errors
    /// `SocketBusy` when a server answers there; `File` for everything else, naming the path.
    pub fn bind(path: &Path) -> Result<Self, StoreError> {
        remove_stale(path)?;
        let fail = |e: io::Error| StoreError::file("listen on", path, e);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|e| fail(e.into()))?;
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(|e| fail(e.into()))?;
        let address = SocketAddrUnix::new(path).map_err(|e| fail(e.into()))?;
        bind(&socket, &address).map_err(|e| fail(e.into()))?;
        listen(&socket, BACKLOG).map_err(|e| fail(e.into()))?;
        let inode = path.symlink_metadata().ok().map(|m| (m.dev(), m.ino()));
        Ok(Self { listener: Some(UnixListener::from(socket)), path: path.to_path_buf(), inode })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let now = self.path.symlink_metadata().ok().map(|m| (m.dev(), m.ino()));
        if now.is_some() && now == self.inode {
            let _another_server_may_be_quicker = std::fs::remove_file(&self.path);
        }
    }
}

fn remove_stale(path: &Path) -> Result<(), StoreError> {
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    if !meta.file_type().is_socket() {
        let problem = io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no socket");
        return Err(StoreError::file("listen on", path, problem));
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(socket = %path.display(), "removing the socket of a dead server");
            std::fs::remove_file(path).map_err(|e| StoreError::file("remove stale", path, e))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(StoreError::SocketBusy { path: path.display().to_string() }),
        Err(e) => Err(StoreError::file("examine", path, e)),
    }
}
