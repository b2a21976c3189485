//! From a directory of a mount to the socket of its server.
//!
//! The name is made of the mount's device number, which every file in it shows in stat(2):
//! `/run/seawall/mount-MAJOR-MINOR.sock` for root, the same under `$XDG_RUNTIME_DIR` for others. A
//! server with a socket of its own choice puts a symbolic link there.

use super::system::is_dead;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::{format, io};

fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !rustix::process::geteuid().is_root() => Path::new(&dir).join("seawall"),
        _ => PathBuf::from("/run/seawall"),
    }
}

fn name(dev: u64) -> String {
    format!("mount-{}-{}.sock", rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// Where the server of a mount listens when nothing else is asked for. Makes the folder, and takes
/// away the link that a server which was killed left for another mount of this number.
///
/// # Errors
/// When the folder cannot be made.
pub fn socket_path(dev: u64) -> io::Result<PathBuf> {
    let folder = folder();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let path = folder.join(name(dev));
    // The number is this mount's by now, so no living server has the link.
    if path.symlink_metadata().is_ok_and(|m| m.is_symlink()) {
        std::fs::remove_file(&path)?;
    }
    Ok(path)
}

/// A symbolic link that goes away with its value.
pub(crate) struct Link(PathBuf);

impl Link {
    /// Leads from the mount's device number to the socket.
    pub(crate) fn new(dev: u64, socket: &Path) -> io::Result<Self> {
        let path = socket_path(dev)?;
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        symlink(std::path::absolute(socket)?, &path)?;
        Ok(Self(path))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _another_server_may_be_quicker = std::fs::remove_file(&self.0);
    }
}

/// The socket that a path means: itself, or that of the mount which it lies in.
///
/// # Errors
/// In words, with what to do.
pub fn find_socket(path: &Path) -> Result<PathBuf, String> {
    if is_dead(path) {
        let dir = path.display();
        return Err(format!("{dir}: the server of this mount is gone; run `umount {dir}`"));
    }
    let meta = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if meta.file_type().is_socket() {
        return Ok(path.to_path_buf());
    }
    let name = name(meta.dev());
    let places = [folder(), PathBuf::from("/run/seawall")];
    places.iter().map(|p| p.join(&name)).find(|p| p.exists()).ok_or_else(|| {
        let path = path.display().to_string();
        format!("{path}: neither a server's socket nor in a mount of one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_servers_link_makes_room() {
        // A number that no mount of this machine has.
        let dev = rustix::fs::makedev(4095, 4095);
        let socket = Path::new("/nowhere/socket");
        std::mem::forget(Link::new(dev, socket).unwrap());
        let path = socket_path(dev).unwrap();
        assert!(path.symlink_metadata().is_err());
        let link = Link::new(dev, socket).unwrap();
        assert_eq!(std::fs::read_link(&path).unwrap(), socket);
        drop(link);
        assert!(path.symlink_metadata().is_err());
    }
}
