//! The store: a block device behind messages.
//!
//! What it guarantees: **a sync that says Ok is never a lie.** [`session`] and [`ledger`] decide
//! what a SYNC may answer, without I/O, once for every way of reaching a store:
//!
//! * [`LocalStore`]: in this process, over a [`backend::Backend`]; no socket, no runtime.
//! * [`Client`]: over a Unix socket to a server; shareable by threads.
//! * [`server::serve`]: the server, also behind `store serve`.
//! * [`open`] takes a STORE name as the command lines do and returns an [`AnyStore`].
//!
//! All of them implement [`seawall_blockdev::BlockDev`] (the client for `&Client`).
//!
//! The crash case behind it: a write that failed or was dropped behind the caller's back, followed
//! by a sync that said Ok. Here a SYNC names the sequence up to which everything is durable, a
//! failed flush is sticky, and a device that cannot flush says so.
//!
//! Without feature `std` the crate is `no_std` + `alloc`: session core, ledger, statistics, device
//! models, partition tables and the backend trait.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod backend;
pub mod ledger;
pub mod partition;
pub mod ranges;
pub mod session;
pub mod sim;
pub mod stats;
pub mod wire;

#[cfg(feature = "std")]
mod block_on;
#[cfg(feature = "std")]
pub mod cli;
#[cfg(feature = "std")]
pub mod client;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod local;
#[cfg(feature = "std")]
pub mod name;
#[cfg(feature = "std")]
mod plan;
#[cfg(feature = "std")]
pub mod server;

#[cfg(feature = "std")]
pub use client::{Access, Client};
#[cfg(feature = "std")]
pub use error::StoreError;
#[cfg(feature = "std")]
pub use local::LocalStore;
#[cfg(feature = "std")]
pub use name::{AnyStore, OpenOptions, SimClock, open, open_backend, profile_of};
pub use seawall_ipc::storeproto::{Counters, Info, SessionStats, Stats, TagStats, sizes};
