//! Device errors, a small fixed set: the store's wire statuses map to it one to one.

use thiserror::Error;

/// Why a device request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum DevError {
    /// Offset or length is not a multiple of the logical block, or the range leaves the device.
    #[error("request outside the device or not aligned to its blocks")]
    OutOfRange,
    /// The medium failed. After a failed `sync` everything since the last durable sequence is lost
    /// until it is written again.
    #[error("input/output error")]
    Io,
    /// The device cannot do this (flush, FUA, order).
    #[error("operation not supported by the device")]
    Unsupported,
    /// The device or this session is read-only.
    #[error("device is read-only")]
    ReadOnly,
    /// No space behind a thin or sparse device.
    #[error("no space left on the device")]
    NoSpace,
    /// Somebody else holds the writer's lock.
    #[error("device is in use by another writer")]
    Busy,
    /// The session lacks the right.
    #[error("not permitted in this session")]
    Denied,
    /// The session was evicted by a newer one.
    #[error("session is stale")]
    Stale,
    /// The server is gone or the connection broke; what was in flight may or may not have happened.
    #[error("the store server is gone")]
    Gone,
    /// The peer broke the protocol.
    #[error("protocol error")]
    Protocol,
    /// The other side, or this one, is out of memory or slots.
    #[error("out of memory or request slots")]
    NoMemory,
}
