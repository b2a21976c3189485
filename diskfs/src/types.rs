//! What operations take and return, in the vocabulary that both filesystems share.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// An inode number. ext2: the on-disk number. FAT: a number that is stable while mounted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Ino(pub u64);

/// An open handle of [`crate::Fs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u64);

/// Seconds and nanoseconds since 1970, UTC.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub secs: i64,
    /// 0 to 999,999,999, counted forward from `secs`.
    pub nanos: u32,
}

impl Timestamp {
    /// This many milliseconds before.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        let part = u32::try_from(ms % 1000).unwrap_or(0).saturating_mul(1_000_000);
        let secs = self.secs.saturating_sub_unsigned(ms / 1000);
        match self.nanos.checked_sub(part) {
            Some(nanos) => Self { secs, nanos },
            None => Self {
                secs: secs.saturating_sub(1),
                nanos: self.nanos.saturating_add(1_000_000_000).saturating_sub(part),
            },
        }
    }
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    CharDev,
    BlockDev,
}

impl Kind {
    /// The `S_IFMT` bits.
    pub fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010000,
            Self::CharDev => 0o020000,
            Self::Dir => 0o040000,
            Self::BlockDev => 0o060000,
            Self::File => 0o100000,
            Self::Symlink => 0o120000,
            Self::Socket => 0o140000,
        }
    }

    /// The kind that the `S_IFMT` bits name.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170000 {
            0o010000 => Self::Fifo,
            0o020000 => Self::CharDev,
            0o040000 => Self::Dir,
            0o060000 => Self::BlockDev,
            0o100000 => Self::File,
            0o120000 => Self::Symlink,
            0o140000 => Self::Socket,
            _ => return None,
        })
    }
}

/// Attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Changes when the number is reused.
    pub generation: u32,
    /// Kind.
    pub kind: Kind,
    /// Permission bits with set-id and sticky bits (07777), no kind bits.
    pub mode: u32,
    /// Links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Storage in 512-byte units.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub blksize: u32,
    /// Device number of a special file, as (major, minor).
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the node.
    pub ctime: Timestamp,
    /// Birth, where the format has room.
    pub btime: Option<Timestamp>,
    /// Inode flags as in [`crate::flags`]; 0 where the format has none. Not part of the wire form.
    #[serde(skip)]
    pub flags: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SetTime {
    /// Leave it.
    #[default]
    Omit,
    /// The operation's own time.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to change; `None` leaves one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in Attr")]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: SetTime,
    pub mtime: SetTime,
}

/// What `create` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewNode<'a> {
    /// An empty regular file.
    File,
    /// An empty directory.
    Dir,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A special file with (major, minor), which are 0 for fifos and sockets.
    Special(Kind, (u32, u32)),
}

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Inode.
    pub ino: Ino,
    /// Kind, where the format keeps it in the entry.
    pub kind: Option<Kind>,
    /// Where the listing continues after this entry. Opaque, stable across inserts.
    pub next: u64,
    /// Name bytes.
    pub name: Vec<u8>,
}

/// Space and limits of a volume. Blocks are in units of `block_size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in statvfs")]
pub struct StatFs {
    pub block_size: u32,
    pub blocks: u64,
    pub blocks_free: u64,
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_max: u32,
}

/// Who asks, for permission checks.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cred {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// What an operation knows of the world: the engine has no clock of its own.
#[derive(Clone, Debug, Default)]
pub struct Ctx {
    /// The time that "now" means.
    pub now: Timestamp,
    /// Checked against modes by the engine; `None` when the host has checked (the kernel with
    /// `default_permissions`); it then also drops set-id bits before a write. New nodes are owned
    /// by `owner`.
    pub cred: Option<Cred>,
    /// Owner and group of new nodes when `cred` is `None`; it is then also who may use reserved
    /// space.
    pub owner: (u32, u32),
    /// Permission bits that a new node does not get, unless its directory has a default access
    /// list. 0 when the caller has taken them off.
    pub umask: u32,
}

/// How a handle is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in open(2)")]
pub struct OpenFlags {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub exclusive: bool,
    /// O_SYNC: every write is followed by `fsync_meta`.
    pub sync: bool,
    /// O_DSYNC: every write is followed by `fsync_data`.
    pub dsync: bool,
}

/// Modifiers of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RenameFlags {
    /// Fail when the target exists.
    pub no_replace: bool,
    /// Swap the two names.
    pub exchange: bool,
}
