//! The codec: bytes in, events out, and back. It does no I/O and never blocks.
//!
//! A [`Decoder`] is fed whatever arrived, in any split, and yields a header, then its control body
//! or the announcement of a payload. A [`Gather`] lines up headers, bodies and borrowed payloads
//! for one vectored send. What a message may carry is decided by the [`Dialect`], before anything
//! is allocated: a forged length costs the peer its connection and this side nothing.

pub mod body;
mod decoder;
mod dialect;
mod gather;

pub use decoder::{Decoder, Event};
pub use dialect::{Dialect, Header, Inline, Limits, ProtocolError};
pub use gather::{Gather, Part};
