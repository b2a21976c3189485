//! Device models in virtual time: a pure function from requests to completion times.
//!
//! A model never looks at a clock. `submit(now, request)` says when the request is acknowledged and
//! when its data is on the medium, both in virtual nanoseconds, so the same requests give the same
//! times on every machine. Used by `sim:` stores and by the simulator. Integers only.
//!
//! [`Profile`] is data, built in ([`PROFILES`]) or from a TOML file; [`Model`] is one serial medium
//! with these costs; [`Queue`] puts the device's request slots before it.

#[cfg(feature = "std")]
mod file;
mod known;
mod model;
mod profile;
mod queue;

#[cfg(feature = "std")]
pub use file::{ProfileError, load_profile, parse_profile};
pub use known::{
    EVO870, EVO870_UAS, NVME, PNY32, PNY250_UAS, PROFILES, QEMU_SSD, SAMSUNG64, SD_CARD, STALL,
    UFS, WDBLUE,
};
pub use model::Model;
pub use profile::{CacheModel, Profile, SEGMENT, SlowAfter, Stall};
pub use queue::{Admission, Queue};

/// Virtual time in nanoseconds.
pub type Nanos = u64;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Empties the volatile cache.
    Flush,
}

/// One request to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimRequest {
    /// What it does.
    pub kind: Kind,
    /// First byte; ignored for a flush.
    pub start: u64,
    /// Length in bytes; ignored for a flush.
    pub len: u64,
}

impl SimRequest {
    /// A read of `len` bytes from `start` on.
    pub const fn read(start: u64, len: u64) -> Self {
        Self { kind: Kind::Read, start, len }
    }

    /// A write of `len` bytes from `start` on.
    pub const fn write(start: u64, len: u64) -> Self {
        Self { kind: Kind::Write, start, len }
    }

    /// A flush.
    pub const fn flush() -> Self {
        Self { kind: Kind::Flush, start: 0, len: 0 }
    }
}

/// When a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The host sees the answer.
    pub acked: Nanos,
    /// The device is done with it.
    pub media: Nanos,
}
