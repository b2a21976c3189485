//! Between the engine's types and FUSE's.

use crate::server::Engine;
use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use seawall_diskfs::driver::Host;
use seawall_diskfs::{Attr, Format, FsError, Ino, Kind, OpenFlags, SetTime, Timestamp};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// FUSE's root is node 1, the engine's has a number of its own (ext2: 2). The two numbers change
/// places, so that a volume which names an inode 1 does not reach the root by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    root: u64,
}

impl Numbers {
    pub(super) fn of<F: Format>(engine: &Arc<Engine<F>>) -> Self {
        Self { root: engine.host().with(|fs| fs.geometry().root.0) }
    }

    fn swap(self, n: u64) -> u64 {
        match n {
            1 => self.root,
            n if n == self.root => 1,
            n => n,
        }
    }

    pub(super) fn ino(self, node: INodeNo) -> Ino {
        Ino(self.swap(node.0))
    }

    pub(super) fn node(self, ino: Ino) -> INodeNo {
        INodeNo(self.swap(ino.0))
    }

    pub(super) fn is_root(self, ino: Ino) -> bool {
        ino.0 == self.root
    }
}

pub(super) fn generation(a: &Attr) -> Generation {
    Generation(a.generation.into())
}

pub(super) fn kind(k: Kind) -> FileType {
    match k {
        Kind::File => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDev => FileType::CharDevice,
        Kind::BlockDev => FileType::BlockDevice,
    }
}

/// `node` is the number that the kernel is to know the inode by.
pub(super) fn attr(a: &Attr, node: INodeNo) -> FileAttr {
    FileAttr {
        ino: node,
        size: a.size,
        blocks: a.blocks,
        atime: time(a.atime),
        mtime: time(a.mtime),
        ctime: time(a.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(a.kind),
        perm: u16::try_from(a.mode & 0o7777).unwrap_or(0),
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        rdev: encode_dev(a.rdev),
        blksize: a.blksize,
        flags: 0,
    }
}

/// A name that is known to be absent: node 0.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The kernel's 32-bit form (`new_encode_dev`): 12 bits of major, 20 of minor.
pub(super) fn encode_dev((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

pub(super) fn decode_dev(dev: u32) -> (u32, u32) {
    ((dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xf_ff00))
}

fn time(t: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(t.nanos.into());
    let whole = Duration::from_secs(t.secs.unsigned_abs());
    let at = if t.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    at.and_then(|at| at.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// The kernel counts nanoseconds forward from the second; fuser 0.18.0 takes them off a negative
/// one, which is undone here.
pub(super) fn timestamp(t: SystemTime) -> Timestamp {
    let (d, negative) = match t.duration_since(UNIX_EPOCH) {
        Ok(d) => (d, false),
        Err(e) => (e.duration(), true),
    };
    let secs = i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    Timestamp { secs: if negative { -secs } else { secs }, nanos: d.subsec_nanos() }
}

pub(super) fn set_time(t: Option<TimeOrNow>) -> SetTime {
    match t {
        None => SetTime::Omit,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(t)) => SetTime::At(timestamp(t)),
    }
}

pub(super) fn errno(e: &FsError) -> Errno {
    Errno::from_i32(e.errno())
}

/// `append` counts when the file is opened only: the kernel keeps the place of appends, and writes
/// pages back through any handle. With its writeback cache it reads through handles that are open
/// for writing only.
pub(super) fn open_flags(flags: i32, kernel_writeback: bool) -> OpenFlags {
    let bits = rustix::fs::OFlags::from_bits_retain(flags.cast_unsigned());
    let mode = bits & rustix::fs::OFlags::RWMODE;
    let write = mode == rustix::fs::OFlags::WRONLY || mode == rustix::fs::OFlags::RDWR;
    // The kernel's numbers: O_SYNC is O_DSYNC and one bit more, and the library's DSYNC is not the
    // kernel's.
    const O_DSYNC: u32 = 0o10_000;
    const O_SYNC: u32 = 0o4_010_000;
    let raw = flags.cast_unsigned();
    let sync = raw & O_SYNC == O_SYNC;
    OpenFlags {
        read: mode != rustix::fs::OFlags::WRONLY || kernel_writeback,
        write,
        append: bits.contains(rustix::fs::OFlags::APPEND),
        truncate: false,
        exclusive: bits.contains(rustix::fs::OFlags::EXCL),
        sync,
        dsync: !sync && raw & O_DSYNC != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_both_sides_of_1970() {
        for (secs, nanos) in [(0, 0), (5, 7), (-1, 0), (i64::from(i32::MIN), 0)] {
            let t = Timestamp { secs, nanos };
            assert_eq!(timestamp(time(t)), t);
        }
        // As fuser hands over second -2 and 800,000,000 ns, which is 1.2 s before 1970.
        let odd = UNIX_EPOCH - Duration::new(2, 800_000_000);
        assert_eq!(timestamp(odd), Timestamp { secs: -2, nanos: 800_000_000 });
        let right = UNIX_EPOCH - Duration::new(1, 200_000_000);
        assert_eq!(time(Timestamp { secs: -2, nanos: 800_000_000 }), right);
    }

    #[test]
    fn device_numbers_and_the_root() {
        for dev in [(0, 0), (8, 1), (259, 70_000), (4095, 0xf_ffff)] {
            assert_eq!(decode_dev(encode_dev(dev)), dev);
        }
        let n = Numbers { root: 2 };
        assert_eq!(n.ino(INodeNo(1)), Ino(2));
        assert_eq!(n.node(Ino(1)), INodeNo(2));
        assert_eq!(n.node(n.ino(INodeNo(77))), INodeNo(77));
    }

    #[test]
    fn sync_is_more_than_dsync() {
        let both = open_flags(0o4_010_001, false);
        assert!(both.sync && !both.dsync && both.write && !both.read);
        let data = open_flags(0o10_002, false);
        assert!(!data.sync && data.dsync && data.read && data.write);
        assert!(open_flags(1, true).read);
    }
}
