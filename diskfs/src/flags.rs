//! Inode flags as `lsattr` shows them (Linux's `FS_*_FL`), and those that the engine acts on.

/// `S`: writes and changes are durable when they return.
pub const FL_SYNC: u32 = 0x8;
/// `i`: nothing of the node changes, whoever asks.
pub const FL_IMMUTABLE: u32 = 0x10;
/// `a`: a file only grows, a directory only gains names.
pub const FL_APPEND: u32 = 0x20;
/// `A`: access times are not kept.
pub const FL_NOATIME: u32 = 0x80;
/// `D`: changes of a directory's names are durable when they return.
pub const FL_DIRSYNC: u32 = 0x1_0000;

/// Flags that only user 0 changes.
pub const FL_PRIVILEGED: u32 = FL_IMMUTABLE | FL_APPEND;
