//! ext2 as a [`seawall_diskfs::Format`], and [`mkfs()`].
//!
//! What the engine guarantees, with the crash case behind each rule:
//!
//! * A new inode and its bitmap bit are ordered before the name that points to it
//!   ([`Stage::Init`](seawall_diskfs::Stage) before `Link`). Otherwise power loss leaves a name for
//!   an inode that was never written.
//! * A name goes before its inode or blocks are given back (`Unlink` before `Free`). Otherwise a
//!   block can have two owners, which a checker cannot repair without harm.
//! * A directory block, a pointer block or a bitmap that contradicts itself ends the operation with
//!   `Corrupt`, naming the block. Nothing on disk makes the engine panic, loop or allocate without
//!   bound.
//!
//! Format facts are those of the Linux header `ext4.h` and of e2fsprogs; field names and offsets
//! are kept where they are read. Blocks are 1 to 64 KiB, inodes 128 bytes up to a block. Features:
//! see [`Ext2::open`].
//!
//! Inodes that lost their last name while something holds them stand on the orphan list of ext3, so
//! that the next mount, or e2fsck, frees what a power loss left.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod balloc;
mod bitmap;
mod blockmap;
pub mod check;
mod checksum;
#[cfg(feature = "std")]
pub mod command;
mod dir;
mod dirent;
mod extents;
mod features;
mod format;
mod group;
mod htree;
mod ialloc;
mod inode;
mod journal;
mod mkfs;
mod names;
mod orphan;
mod punch;
mod rename;
mod reserve;
mod sums;
mod superblock;
mod truncate;
mod uninit;
mod volume;
mod window;
mod xattr;

pub use mkfs::{MkfsFeatures, MkfsOptions, mkfs};
pub use superblock::Superblock;
pub use volume::{Ext2, OpenOptions};
