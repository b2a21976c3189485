//! FAT12, FAT16 and FAT32 as a [`seawall_diskfs::Format`], with `mkfs` and a checker.
//!
//! What the engine guarantees, with the crash case behind each rule:
//!
//! * New clusters have their chain, and a new directory its dots, before anything leads to them
//!   ([`Stage::Init`](seawall_diskfs::Stage) before `Link`). Otherwise power loss leaves an entry
//!   that leads to a free cluster, which the next file gets too.
//! * An entry goes before its clusters are given back (`Unlink` before `Free`), and they are given
//!   out again when that is durable. Otherwise two files share a cluster, and a checker can only
//!   guess whose bytes it holds.
//! * A rename writes the new entry before it removes the old one: both names, never none.
//! * A chain that loops, leads nowhere or disagrees with its file's size ends the operation with
//!   `Corrupt`, naming the block. No cluster is handed out twice for one file or freed twice.
//!   Nothing on disk makes the engine panic, loop or allocate without bound.
//!
//! Format facts are those of Microsoft's FAT specification 1.03 and, where it is silent, of Linux's
//! `vfat`; `docs/fat.md` says where this differs.
//!
//! FAT has no inodes: see `node` for what stands for them, and `space` for why FSINFO is not
//! believed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod alias;
mod attributes;
pub mod boot;
mod chain;
pub mod check;
pub mod codepage;
#[cfg(feature = "std")]
pub mod command;
mod dir;
pub mod entry;
pub mod fold;
mod format;
mod fsinfo;
pub mod label;
pub mod lfn;
mod mkfs;
pub mod name;
mod names;
mod node;
pub mod short;
mod size;
mod space;
mod table;
pub mod time;
mod volume;
pub mod wtf8;

pub use boot::Boot;
pub use mkfs::{MkfsOptions, mkfs};
pub use volume::{Fat, HEAD_BYTES, Marks, OpenOptions, ROOT};
