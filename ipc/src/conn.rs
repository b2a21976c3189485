//! Framed connections over stream sockets, blocking and tokio.
//!
//! * [`Receiver`]: one `recvmsg` drains what has arrived into a bounded buffer. A payload under way
//!   is received straight into the caller's slices, together with the head of the next message in
//!   the same call. After a large payload only one header is buffered per call, so a stream of
//!   large messages is received without a copy, at one system call each.
//! * [`send`] and [`send_tokio`]: headers and payloads of many messages in few `sendmsg` calls,
//!   never SIGPIPE, short sends continued.
//!
//! Descriptors: none are taken yet. A record that announces some, or some that arrive unannounced,
//! end the connection (the kernel closes them). The queue of received descriptors belongs into
//! [`Receiver`], next to its two calls of `recvmsg`.

mod recv;
mod send;

pub use recv::{Receiver, RecvError};
pub use send::{Sent, send, send_now, send_tokio};
