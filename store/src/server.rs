//! The store server: sessions over a Unix socket.
//!
//! * Each session has a thread of its own that blocks in `recvmsg`: it drains what has arrived,
//!   executes it inline (page cache or memory) and answers in one `sendmsg`, without waking another
//!   core. tokio accepts, listens for signals and lends the threads that flush: while an
//!   `fdatasync` runs, sessions go on, and the thread that ran it answers everybody it covers.
//! * A session is read only within its credit and after its replies are sent, so a client that does
//!   not read its replies stops its own session and holds at most one batch of memory.
//! * At the end everything that arrived is executed and answered, then the device is flushed once
//!   more; a flush that failed is the server's exit status.
//!
//! Session memory: a receive buffer of 128 KiB and a batch of payloads, 256 KiB at first and at
//! most 4 MiB.

mod batch;
mod link;
mod listen;
mod run;
mod worker;

pub use listen::Listening;
pub use run::{ServeOptions, Server, serve};
