//! A blocking client of a filesystem server.
//!
//! * Pipelined: [`Client::post`] queues a request, [`Client::complete`] returns the next reply.
//!   Requests leave together; fids are the client's own, so a file can be made, written and closed
//!   without waiting. The calls in [`Client`] with names of operations wait for their reply.
//! * Never stuck against a server that waits for its replies to be read: while a send does not go
//!   on, replies are received.
//! * A server that is gone fails everything in flight and later with ESHUTDOWN; what was in flight
//!   may or may not have happened.
//! * Errors say what was asked, of which path, and carry the error number.

mod calls;
mod error;
mod pipe;

pub use calls::Found;
pub(crate) use calls::{components, wants_folder};
pub use error::ClientError;
pub use pipe::{Client, Completion, Outgoing};

/// The fid of the root.
pub const ROOT: u32 = 0;
