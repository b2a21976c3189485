//! FAT12, FAT16 and FAT32 as a [`seawall_diskfs::Format`], with `mkfs` and a checker.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod alias;
pub mod boot;
pub mod codepage;
pub mod entry;
pub mod fold;
pub mod label;
pub mod lfn;
pub mod name;
pub mod short;
pub mod time;
pub mod wtf8;
