//! Filesystem servers in the Hurd's sense: a process that gives a name space to messages.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod protocol;
pub mod session;
