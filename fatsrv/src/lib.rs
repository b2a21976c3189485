//! FAT12, FAT16 and FAT32 as a [`seawall_diskfs::Format`], with `mkfs` and a checker.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod alias;
mod attributes;
pub mod boot;
mod chain;
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
pub use volume::{Fat, HEAD_BYTES, Marks, OpenOptions, ROOT};
