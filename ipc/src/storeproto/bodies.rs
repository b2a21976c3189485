//! Control bodies of the store protocol.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// First message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol version the client speaks.
    pub version: u16,
    /// Feature bits it can use.
    pub offered: u64,
    /// Feature bits it cannot do without.
    pub required: u64,
    /// Who it is, for logs and statistics; at most 64 bytes are kept.
    pub client: String,
}

/// Answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// Version the session uses.
    pub version: u16,
    /// Feature bits in use: offered by both.
    pub features: u64,
    /// Changes when a server starts; sequences are scoped to it.
    pub boot_id: [u8; 16],
    /// Session number, for logs and statistics.
    pub session_id: u64,
    /// Generation of the exclusive writer of this part of the store, which may be this session:
    /// how many there were so far. 0 when there is none.
    pub generation: u64,
    /// Requests the client may have in flight.
    pub in_flight_max: u32,
    /// Largest payload, bytes.
    pub payload_max: u32,
}

/// Why HELLO was refused with EBUSY: a session that may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InUse {
    /// Its number.
    pub session_id: u64,
    /// The name it gave in HELLO.
    pub client: String,
    /// It is the exclusive writer. Else it is in the way of one.
    pub exclusive: bool,
    /// How many more are in the way.
    pub more: u32,
}

/// What a minted session covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRange {
    /// First byte, in the minting session's own offsets.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Bits of [`rights`](super::rights), a subset of the minting session's.
    pub rights: u32,
    /// Generation of an exclusive writer. Only 0, no exclusion, is supported yet.
    pub generation: u64,
}

/// What CLEAR_FAULT gave up: writes acknowledged after `after` up to `through` may be gone, where
/// `runs` says. Empty when there was no fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Durable sequence.
    pub after: u64,
    /// Newest acknowledged sequence.
    pub through: u64,
    /// Bytes in all runs, also those left out.
    pub bytes: u64,
    /// Start and length of each run in bytes, ascending, at most [`Lost::RUNS_MAX`].
    pub runs: Vec<(u64, u64)>,
    /// True when there were more.
    pub more: bool,
}

impl Lost {
    /// Most runs that are named.
    pub const RUNS_MAX: usize = 1024;
}

/// What stands between an acknowledged write and stable media. A number outside the named ones is
/// to be read as [`CacheWire::UNKNOWN`]: it promises nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheWire(pub u8);

impl CacheWire {
    /// Nobody knows.
    pub const UNKNOWN: Self = Self(0);
    /// An acknowledged write is durable.
    pub const WRITE_THROUGH: Self = Self(1);
    /// SYNC makes acknowledged writes durable.
    pub const FLUSHABLE: Self = Self(2);
    /// Nothing does.
    pub const UNFLUSHABLE: Self = Self(3);
}

/// Capabilities and position of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// What the store serves, as its operator named it.
    pub name: String,
    /// Size, bytes.
    pub size: u64,
    /// Smallest addressable unit, bytes.
    pub logical: u32,
    /// Unit that is old or new after power loss, bytes.
    pub physical: u32,
    /// Largest aligned write that is old or new as a whole after power loss, bytes.
    pub atomic_write: u32,
    /// Largest single request, bytes.
    pub max_io: u32,
    /// Cache class.
    pub cache: CacheWire,
    /// FUA is supported.
    pub fua: bool,
    /// PRE_BARRIER is supported.
    pub order: bool,
    /// Acknowledged writes survive the death of the server process.
    pub acked_survives_server_death: bool,
    /// Writes are refused, also to a session that did not give them up in HELLO.
    pub read_only: bool,
    /// Newest acknowledged sequence.
    pub acked: u64,
    /// Durable sequence.
    pub durable: u64,
    /// True while a failed flush makes every SYNC fail.
    pub faulted: bool,
}

/// What one tag, session or store did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Reads that succeeded.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// WRITE_ZEROES and DISCARD acknowledged.
    pub zeroes: u64,
    /// Their bytes.
    pub zero_bytes: u64,
    /// SYNC requests received.
    pub syncs: u64,
    /// Device flushes started on behalf of one of them.
    pub flushes: u64,
    /// Syncs that shared a flush somebody else's sync had started.
    pub riders: u64,
    /// Syncs answered without a flush: everything acknowledged was durable already.
    pub skipped: u64,
    /// Requests of any kind that failed.
    pub errors: u64,
    /// Read sizes: (n, count) for sizes from 2^n to 2^(n+1)-1 bytes, ascending, no zero counts. n
    /// from 128 on means something else; see [`sizes`](super::sizes).
    pub read_sizes: Vec<(u8, u64)>,
    /// Write sizes, as above.
    pub write_sizes: Vec<(u8, u64)>,
}

/// Counters of one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagStats {
    /// The tag; `u32::MAX` collects tags beyond the number the store keeps apart.
    pub tag: u32,
    /// Its counters.
    pub counters: Counters,
}

/// Counters of one live session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStats {
    /// Session number.
    pub session_id: u64,
    /// The name it gave in HELLO.
    pub client: String,
    /// Requests not answered yet.
    pub in_flight: u32,
    /// Its counters.
    pub counters: Counters,
}

/// Statistics since the store started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Everything.
    pub total: Counters,
    /// Device flushes that failed.
    pub flush_errors: u64,
    /// By tag, ascending.
    pub tags: Vec<TagStats>,
    /// Live sessions.
    pub sessions: Vec<SessionStats>,
}
