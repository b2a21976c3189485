//! Filesystem servers in the Hurd's sense: a process that gives a name space to messages.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
pub mod cli;
#[cfg(feature = "std")]
pub mod client;
#[cfg(feature = "std")]
pub mod fscli;
#[cfg(feature = "std")]
pub mod fuse;
pub mod protocol;
#[cfg(feature = "std")]
pub mod server;
pub mod session;
