//! Errors by who must act.
//!
//! * [`FsError::Refused`]: the caller asked for something that is not so, or not allowed. Nothing
//!   happened.
//! * [`FsError::Io`]: the device failed. Nothing is half-done: what was to be written stays dirty.
//! * [`FsError::Unsupported`]: the volume or the device lacks a feature; the feature is named.
//! * [`FsError::Corrupt`]: the volume contradicts itself; the place is named. Other objects stay
//!   usable.
//!
//! [`FsError::errno`] is the one table of Linux error numbers.

use alloc::borrow::Cow;
use seawall_blockdev::DevError;
use thiserror::Error;

/// What was wrong with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum Refused {
    #[error("no such file or directory")]
    NotFound,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDir,
    #[error("is a directory")]
    IsDir,
    #[error("directory not empty")]
    NotEmpty,
    #[error("name is longer than the filesystem allows")]
    NameTooLong,
    #[error("invalid argument")]
    Invalid,
    #[error("no space left on the volume")]
    NoSpace,
    #[error("filesystem is read-only")]
    ReadOnly,
    #[error("too many links")]
    TooManyLinks,
    #[error("file would be too large")]
    FileTooBig,
    #[error("stale handle")]
    Stale,
    #[error("bad handle, or not open for this")]
    BadHandle,
    #[error("permission denied")]
    Denied,
    #[error("operation not permitted")]
    NotPermitted,
    #[error("busy")]
    Busy,
    #[error("crosses devices")]
    CrossDevice,
    #[error("no data at or after this offset")]
    NoData,
    #[error("too many levels of symbolic links")]
    Loop,
    #[error("too many open handles")]
    TooManyHandles,
    #[error("no such attribute")]
    NoAttr,
    #[error("result does not fit")]
    Range,
    #[error("value is too long")]
    TooBig,
}

/// Where and how a volume contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The on-disk thing: "directory block", "inode", "block bitmap".
    pub site: &'static str,
    /// What is wrong with it.
    pub what: Cow<'static, str>,
    /// Filesystem block where it stands (0 when the superblock itself is meant).
    pub block: u64,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at block {}: {}", self.site, self.block, self.what)
    }
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsError {
    /// The caller's mistake.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The device failed.
    #[error("device: {0}")]
    Io(DevError),
    /// A feature that this volume needs, or this call wants, is missing.
    #[error("not supported: {0}")]
    Unsupported(Cow<'static, str>),
    /// The volume contradicts itself.
    #[error("corrupt filesystem: {0}")]
    Corrupt(Corrupt),
    /// A fault of this program, stopped before it did harm.
    #[error("internal error: {0}")]
    Bug(&'static str),
}

impl FsError {
    /// Shorthand for [`FsError::Corrupt`].
    pub fn corrupt(site: &'static str, block: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self::Corrupt(Corrupt { site, what: what.into(), block })
    }

    /// Shorthand for [`FsError::Unsupported`].
    pub fn unsupported(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Unsupported(what.into())
    }

    /// True when the caller can do nothing about it, so that it belongs in the operator's log.
    pub fn is_the_operators(&self) -> bool {
        match self {
            Self::Io(_) | Self::Corrupt(_) | Self::Bug(_) => true,
            Self::Refused(_) | Self::Unsupported(_) => false,
        }
    }

    /// The Linux error number.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Refused(r) => r.errno(),
            Self::Io(DevError::NoSpace) => 28,
            Self::Io(DevError::ReadOnly) => 30,
            Self::Io(DevError::Unsupported) | Self::Unsupported(_) => 95,
            Self::Io(_) | Self::Bug(_) => 5,
            Self::Corrupt(_) => 117,
        }
    }
}

impl From<DevError> for FsError {
    fn from(e: DevError) -> Self {
        Self::Io(e)
    }
}

impl Refused {
    /// The Linux error number.
    pub fn errno(self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::NotFound => 2,
            Self::NoData => 6,
            Self::TooBig => 7,
            Self::BadHandle => 9,
            Self::Denied => 13,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::CrossDevice => 18,
            Self::NotDir => 20,
            Self::IsDir => 21,
            Self::Invalid => 22,
            Self::TooManyHandles => 23,
            Self::FileTooBig => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::Loop => 40,
            Self::NoAttr => 61,
            Self::Stale => 116,
        }
    }
}

/// Why an attempt at an operation did not finish. `?` carries it out of the engine; the driver acts
/// on it and calls again, except on [`Fault::Err`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// These filesystem blocks are needed and not in memory.
    Need(alloc::vec::Vec<Extent>),
    /// Something else must happen first.
    Wait(Wait),
    /// The operation failed; nothing of it happened.
    Err(FsError),
}

/// A range of filesystem blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub len: u64,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Only space that is not yet safe to reuse is left: write back with a barrier and retry.
    Barrier,
    /// The cache of metadata holds too much that is dirty: write back and retry.
    Room,
    /// More file data would be dirty than the policy's limit: retry when some was written.
    Throttle,
    /// The volume's dirty mark must be set first: run `Fs::mark_dirty` and retry.
    DirtyMark,
    /// A file without holes must reach this size first: run `Fs::extend` and retry.
    Extend(crate::Ino, u64),
    /// Another plan or operation holds what this one needs; retry when something completed.
    Busy,
}

/// Result of an attempt.
pub type Attempt<T> = Result<T, Fault>;

impl From<FsError> for Fault {
    fn from(e: FsError) -> Self {
        Self::Err(e)
    }
}

impl From<Refused> for Fault {
    fn from(e: Refused) -> Self {
        Self::Err(FsError::Refused(e))
    }
}
