//! mount(2), umount(2) and what surrounds them.

use super::{IO_BYTES, MountError, Spec, system};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::{format, io};

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True when the mount that the path lies in has lost its server. Asked with statfs(2): the kernel
/// still has attributes of the root and would answer stat(2) itself.
pub(super) fn is_dead(path: &Path) -> bool {
    rustix::fs::statfs(path).is_err_and(|e| e == Errno::NOTCONN)
}

/// The mount point's real path, if it can be one.
pub(super) fn check(dir: &Path) -> Result<PathBuf, MountError> {
    let bad = |what: String| MountError::Dir { dir: dir.to_path_buf(), what };
    if is_dead(dir) {
        let dir = dir.display();
        return Err(bad(format!(
            "a server that is gone left its mount here; run `umount {dir}` first"
        )));
    }
    match std::fs::metadata(dir) {
        Ok(m) if m.is_dir() => {}
        Ok(_) => return Err(bad("the mount point is not a directory".to_string())),
        Err(e) => return Err(bad(e.to_string())),
    }
    std::fs::canonicalize(dir).map_err(|e| bad(e.to_string()))
}

/// Mounts, and returns the descriptor on which the kernel's requests arrive.
pub(super) fn mount(dir: &Path, spec: &Spec) -> Result<OwnedFd, MountError> {
    let open = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", open, Mode::empty())
        .map_err(|e| system(dir, "open /dev/fuse")(e.into()))?;
    let o = spec.options;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},max_read={IO_BYTES}",
        device.as_raw_fd(),
        uid.as_raw(),
        gid.as_raw(),
    );
    if spec.options.others() {
        data.push_str(",allow_other");
    }
    if o.checks {
        data.push_str(",default_permissions");
    }
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOATIME, o.noatime);
    flags.set(MountFlags::RDONLY, spec.read_only);
    flags.set(MountFlags::NOSUID, !o.suid);
    flags.set(MountFlags::NODEV, !o.dev);
    flags.set(MountFlags::NOEXEC, !o.exec);
    let data = CString::new(data).map_err(|e| system(dir, "options")(e.into()))?;
    let kind = format!("fuse.{}", spec.kind);
    rustix::mount::mount(spec.source.as_str(), dir, kind.as_str(), flags, data.as_c_str())
        .map_err(|e| match e {
            Errno::PERM => MountError::Dir {
                dir: dir.to_path_buf(),
                what: "mounting needs root (CAP_SYS_ADMIN)".to_string(),
            },
            e => system(dir, "mount")(e.into()),
        })?;
    Ok(device)
}

/// Takes a mount that nobody will serve out of the name space.
pub(super) fn detach(dir: &Path) {
    if let Err(error) = unmount(dir, UnmountFlags::DETACH) {
        tracing::warn!(%error, dir = %dir.display(), "cannot unmount");
    }
}

pub(super) fn unmount(dir: &Path, flags: UnmountFlags) -> rustix::io::Result<()> {
    rustix::mount::unmount(dir, flags)
}

pub(super) fn device_number(dir: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(dir)?.dev())
}

/// Has the kernel send the dirty pages of a mount, if it still is the one of this number.
pub(super) fn sync_pages(dir: &Path, dev: u64) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(dir, flags, Mode::empty())?;
    if rustix::fs::fstat(&root)?.st_dev != dev {
        return Ok(());
    }
    Ok(rustix::fs::syncfs(&root)?)
}

/// Lets the kernel read ahead as far as one request goes. FUSE's own negotiation only lowers it.
pub(super) fn read_ahead(dev: u64, kib: u32) {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&path, kib.to_string()) {
        tracing::debug!(%error, path, "the kernel's own read-ahead stays");
    }
}
