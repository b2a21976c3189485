//! The filesystem server: sessions over a Unix socket.
//!
//! * Each session has a thread of its own that blocks in `recvmsg`: it drains what has arrived,
//!   runs the engine inline and answers in one `sendmsg`, without waking another core. tokio
//!   accepts and listens for signals.
//! * The engine is under one mutex that is held for processor time only; device I/O and waiting
//!   happen outside of it. The data of a write is received page-aligned and kept by the cache as it
//!   is.
//! * A session is read only while fewer than its limit of requests are unanswered, and after its
//!   replies are sent: a client that does not read stops only itself.
//! * At the end no operation is under way, then everything is written back, the clean mark is set
//!   and the policy's unmount site runs; what that returns is the server's exit status.
//!
//! Session memory: a receive buffer of 128 KiB, at most [`BATCH_BYTES`] of payloads received and as
//! much to be sent, plus one message of each.

mod engine;
mod flusher;
mod queue;
mod repeats;
mod run;
mod worker;

pub(crate) use engine::now;
pub use engine::{Device, Engine, EngineHost, Front};
pub use run::{Places, ServeError, ServeOptions, serve};
pub(crate) use worker::linger;

/// A batch with this many payload bytes is executed, or answered, before more is taken.
pub const BATCH_BYTES: usize = 1024 * 1024;
