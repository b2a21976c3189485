//! Framed connections over stream sockets, blocking and tokio.
//!
//! * [`Receiver`]: one `recvmsg` drains what has arrived into a bounded buffer. A payload under way
//!   is received straight into the caller's slices, together with the head of the next message in
//!   the same call. After a large payload only one header is buffered per call, so a stream of
//!   large messages is received without a copy, at one system call each.
//! * [`send`] and [`send_tokio`]: headers and payloads of many messages in few `sendmsg` calls,
//!   never SIGPIPE, short sends continued.
//!
//! Descriptors: a stream has no message boundaries, so a record says in its flags how many travel
//! with it, they are sent with its first byte ([`send_fds`]), and the receiver keeps a queue of
//! those that came. One that no record claims, one that is missing, and a message of which the
//! kernel dropped some end the connection; whatever is not taken is closed.

mod fds;
mod recv;
mod send;

pub use recv::{Receiver, RecvError};
pub use send::{Sent, send, send_fds, send_now, send_tokio};
