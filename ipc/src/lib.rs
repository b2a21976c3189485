//! Records, codec and connections of both Seawall protocols (store and filesystem).
//!
//! Guarantees:
//! * A peer's bytes are hostile. Magic, flags, operation and lengths are checked before anything is
//!   allocated, and nothing a peer sends can panic, hang or grow memory beyond the limits of the
//!   [`Dialect`].
//! * Bulk data never passes through an encoder: a message's inline bytes are either a control body
//!   (serde) or a payload that the host receives into a page-aligned buffer and sends from there.
//! * Two versions that disagree find out in HELLO, never by misreading each other's bytes: every
//!   message of every version has a committed fixture of its bytes.
//!
//! The core is `no_std` + `alloc` and does no I/O. Feature `std` adds framed sockets ([`conn`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod codec;
#[cfg(feature = "std")]
pub mod conn;
pub mod record;
pub mod status;
pub mod storeproto;

pub use codec::body::{BodyError, decode_body, encode_body};
pub use codec::{Decoder, Dialect, Event, Gather, Header, Inline, Limits, Part, ProtocolError};
pub use record::{REPLY_BIT, REPLY_LEN, REQUEST_LEN, Reply, Request, flags};
pub use status::Status;
