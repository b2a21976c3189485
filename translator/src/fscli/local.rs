//! Local files: what the standard library does not reach.

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, chownat,
    mknodat, openat, utimensat,
};
use rustix::io::Errno;
use seawall_diskfs::{Attr, Kind, SetAttr, SetTime, Timestamp};
use std::fs::{File, Metadata, Permissions};
use std::io::Result;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Kind of a local file.
pub(super) fn kind(meta: &Metadata) -> Option<Kind> {
    let t = meta.file_type();
    Some(match () {
        () if t.is_dir() => Kind::Dir,
        () if t.is_symlink() => Kind::Symlink,
        () if t.is_file() => Kind::File,
        () if t.is_fifo() => Kind::Fifo,
        () if t.is_socket() => Kind::Socket,
        () if t.is_char_device() => Kind::CharDev,
        () if t.is_block_device() => Kind::BlockDev,
        () => return None,
    })
}

fn time(secs: i64, nanos: i64) -> SetTime {
    SetTime::At(Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) })
}

/// What to set on a copy of a local file: times, mode (but of a symlink) and, for user 0, owner.
pub(super) fn attributes(meta: &Metadata, as_root: bool) -> SetAttr {
    SetAttr {
        mode: (!meta.file_type().is_symlink()).then_some(meta.mode() & 0o7777),
        uid: as_root.then(|| meta.uid()),
        gid: as_root.then(|| meta.gid()),
        size: None,
        atime: time(meta.atime(), meta.atime_nsec()),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
    }
}

/// True when the numbers say that there may be holes.
pub(super) fn may_have_holes(size: u64, sectors: u64) -> bool {
    sectors.saturating_mul(512) < size
}

/// The next run of data at or after `at`; `None` when only a hole is left. A file system that does
/// not know holes has data everywhere.
pub(super) fn next_data(file: &File, at: u64, size: u64) -> Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some((at, size))),
        Err(e) => return Err(e.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some((start, end.min(size))).filter(|(start, end)| start < end))
}

/// Opens for reading; never through a symlink, never a device or pipe that was put there meanwhile.
pub(super) fn open_source(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// Creates or empties a file; never through a symlink.
pub(super) fn create(path: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Makes a special file.
pub(super) fn make_special(path: &Path, attr: &Attr) -> Result<()> {
    let kind = match attr.kind {
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharDev => FileType::CharacterDevice,
        Kind::BlockDev => FileType::BlockDevice,
        Kind::File | Kind::Dir | Kind::Symlink => return Err(Errno::INVAL.into()),
    };
    let dev = rustix::fs::makedev(attr.rdev.0, attr.rdev.1);
    Ok(mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, dev)?)
}

/// Removes what stands at a name, if it is no folder.
pub(super) fn make_way(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(m) if m.is_dir() => Ok(()),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn timespec(t: Timestamp) -> Timespec {
    Timespec { tv_sec: t.secs, tv_nsec: i64::from(t.nanos) }
}

/// Owner (as user 0), mode and times, in this order: each can change the one before.
pub(super) fn apply(path: &Path, attr: &Attr, as_root: bool) -> Result<()> {
    if as_root {
        let (uid, gid) = (Uid::from_raw(attr.uid), Gid::from_raw(attr.gid));
        chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if attr.kind != Kind::Symlink {
        std::fs::set_permissions(path, Permissions::from_mode(attr.mode))?;
    }
    let times =
        Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// True for user 0.
pub(super) fn as_root() -> bool {
    rustix::process::geteuid().is_root()
}
