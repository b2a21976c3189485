//! What every part of Seawall means by "a block device".
//!
//! The contract is small and has no default bodies, so a device cannot be written without deciding
//! what its `sync` means:
//!
//! * Addresses and lengths are **bytes**, multiples of [`Caps::logical`].
//! * A write that returned is *acknowledged* and has a sequence number; it may still sit in a
//!   volatile cache. Only [`BlockDev::sync`] makes acknowledged writes durable, and it returns the
//!   highest sequence that is.
//! * A device that cannot flush says so ([`CacheClass`]) and answers `Unsupported`. It never
//!   answers `Ok` for a barrier that did not happen.
//!
//! The crash case behind it: drivers whose flush defaulted to `Ok` lost acknowledged data in real
//! systems, and no test above them could notice.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod buf;
mod caps;
mod dev;
mod error;
mod numbered;

pub use buf::{PAGE, PageBuf};
pub use caps::{CacheClass, Caps};
pub use dev::{BlockDev, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun};
pub use error::DevError;
pub use numbered::{Numbered, RawDev};
