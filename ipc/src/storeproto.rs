//! The store protocol on the shared records: magic, operations, control bodies, versions.
//!
//! Field use per operation (request -> reply):
//!
//! | op | request | reply |
//! |---|---|---|
//! | HELLO | body [`Hello`] | body [`HelloReply`]; EPROTO: `value` = features; EBUSY: [`InUse`] |
//! | INFO | - | body [`Info`] |
//! | READ | offset, length, tag | payload of `length` bytes; `value` = bytes |
//! | WRITE | offset, length, tag, flags FUA PRE_BARRIER, payload | `value` = ack_seq |
//! | WRITE_ZEROES, DISCARD | offset, length, tag | `value` = ack_seq |
//! | SYNC | tag, flag DRAIN; with DRAIN `aux` = failed writes seen | `value` = durable_seq |
//! | STATS | - | body [`Stats`] |
//! | OPEN_RANGE | body [`OpenRange`] | `value` = session; its connected socket travels |
//! | CANCEL | offset = cookie of the target | after the target's reply; `value` = 1: dropped |
//! | CLEAR_FAULT | flag ACCEPT_LOSS | body [`Lost`]; `value` = bytes lost |
//! | BYE | - | empty; then the server closes |
//!
//! `aux` of a SYNC with DRAIN: how many failed write-class replies of this session the client has
//! read. The SYNC fails with the first error among earlier requests beyond those, so a client that
//! waited for its writes and repeated the failed ones is not told twice; a client that never reads
//! replies sends 0.

mod bodies;
pub mod sizes;

pub use bodies::{
    CacheWire, Counters, Hello, HelloReply, InUse, Info, Lost, OpenRange, SessionStats, Stats,
    TagStats,
};

use crate::codec::body::BODY_MAX;
use crate::codec::{Dialect, Inline, Limits};
use crate::record::flags;

/// Versions of the store protocol.
///
/// Changing the layout or meaning of any message of the newest version needs a new variant here,
/// with one line saying what changed, and a new set of fixtures under `tests/golden`. The fixtures
/// of older versions stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Version {
    /// HELLO INFO READ WRITE WRITE_ZEROES DISCARD SYNC STATS BYE OPEN_RANGE CANCEL CLEAR_FAULT.
    V1 = 1,
}

impl Version {
    /// The newest version.
    pub const CURRENT: Self = Self::V1;
}

/// First bytes of every record: "SWST".
pub const MAGIC: u32 = u32::from_le_bytes(*b"SWST");

/// Operations. 1 to 63 belong to the store protocol.
pub mod op {
    /// Opens the session.
    pub const HELLO: u16 = 1;
    /// Asks for capabilities.
    pub const INFO: u16 = 2;
    /// Mints an attenuated session.
    pub const OPEN_RANGE: u16 = 3;
    /// Shares a memory region (later version).
    pub const ATTACH: u16 = 4;
    /// Ends the sharing (later version).
    pub const DETACH: u16 = 5;
    /// Reads.
    pub const READ: u16 = 6;
    /// Writes.
    pub const WRITE: u16 = 7;
    /// Zeroes a range.
    pub const WRITE_ZEROES: u16 = 8;
    /// Gives a range's storage back.
    pub const DISCARD: u16 = 9;
    /// Makes acknowledged writes durable.
    pub const SYNC: u16 = 10;
    /// Drops queued work.
    pub const CANCEL: u16 = 11;
    /// Asks for statistics.
    pub const STATS: u16 = 12;
    /// Accepts a loss.
    pub const CLEAR_FAULT: u16 = 13;
    /// Ends the session.
    pub const BYE: u16 = 14;

    /// The name used in logs.
    pub fn name(op: u16) -> &'static str {
        match op {
            HELLO => "HELLO",
            INFO => "INFO",
            OPEN_RANGE => "OPEN_RANGE",
            ATTACH => "ATTACH",
            DETACH => "DETACH",
            READ => "READ",
            WRITE => "WRITE",
            WRITE_ZEROES => "WRITE_ZEROES",
            DISCARD => "DISCARD",
            SYNC => "SYNC",
            CANCEL => "CANCEL",
            STATS => "STATS",
            CLEAR_FAULT => "CLEAR_FAULT",
            BYE => "BYE",
            _ => "unknown operation",
        }
    }
}

/// What a session may do.
pub mod rights {
    /// READ.
    pub const READ: u32 = 1 << 0;
    /// WRITE and WRITE_ZEROES.
    pub const WRITE: u32 = 1 << 1;
    /// SYNC and FUA.
    pub const SYNC: u32 = 1 << 2;
    /// DISCARD.
    pub const DISCARD: u32 = 1 << 3;
    /// STATS.
    pub const STATS: u32 = 1 << 4;
    /// CLEAR_FAULT, on a session of the whole store.
    pub const ADMIN: u32 = 1 << 5;
    /// All of them: a session that was opened on the listening socket.
    pub const ALL: u32 = (1 << 6) - 1;
}

/// Default limits.
pub mod limit {
    /// Requests in flight per session.
    pub const IN_FLIGHT: u32 = 128;
    /// Payload of one request, bytes.
    pub const PAYLOAD: u32 = 1024 * 1024;
    /// Sessions per server.
    pub const SESSIONS: u32 = 64;
}

/// Feature bits of HELLO. A client asks for what it offers or requires, and sets no other bit.
pub mod feature {
    /// The session writes nothing: it gives up WRITE and DISCARD, and goes on beside any writer.
    /// To a server without this feature it is a session like any other.
    pub const READ_ONLY: u64 = 1 << 0;
    /// The session is the only one that may write to its part of the store: it is opened only when
    /// no other that may write is, and until it ends others that may write are refused, both with
    /// EBUSY. Sessions it mints belong to it. To be required, not only offered: a server without
    /// this feature excludes nobody.
    pub const EXCLUSIVE: u64 = 1 << 1;
}

/// Feature bits this version offers.
pub const FEATURES: u64 = feature::READ_ONLY | feature::EXCLUSIVE;

fn request_inline(op: u16) -> Inline {
    match op {
        op::HELLO | op::OPEN_RANGE => Inline::Body,
        op::WRITE => Inline::Payload,
        op::INFO
        | op::READ
        | op::WRITE_ZEROES
        | op::DISCARD
        | op::SYNC
        | op::STATS
        | op::BYE
        | op::CANCEL
        | op::CLEAR_FAULT => Inline::None,
        _ => Inline::Skip,
    }
}

fn reply_inline(op: u16) -> Inline {
    match op {
        op::HELLO | op::INFO | op::STATS | op::CLEAR_FAULT => Inline::Body,
        op::READ => Inline::Payload,
        _ => Inline::None,
    }
}

/// The store protocol's rules for records.
pub const DIALECT: Dialect = Dialect {
    magic: MAGIC,
    request_flags: flags::FUA
        | flags::PRE_BARRIER
        | flags::DRAIN
        | flags::NO_HOLE
        | flags::FAST
        | flags::ACCEPT_LOSS,
    reply_flags: 0,
    request: request_inline,
    reply: reply_inline,
    limits: Limits { body_max: BODY_MAX as u32, payload_max: limit::PAYLOAD, fds_max: 1 },
};
