//! What a device can do, stated by the device and never guessed.

/// What stands between an acknowledged write and stable media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheClass {
    /// An acknowledged write is durable. `sync` is `Ok` without work.
    WriteThrough,
    /// A volatile cache that `sync` empties.
    Flushable,
    /// A volatile cache that nothing can empty: `sync` is always `Unsupported`.
    Unflushable,
    /// Nobody knows; treated like [`CacheClass::Unflushable`].
    Unknown,
}

impl CacheClass {
    /// True when `sync` can make acknowledged writes durable (or they already are).
    pub fn can_promise(self) -> bool {
        matches!(self, Self::WriteThrough | Self::Flushable)
    }

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteThrough => "write-through",
            Self::Flushable => "flushable",
            Self::Unflushable => "unflushable",
            Self::Unknown => "unknown",
        }
    }
}

/// Capabilities of a device. All sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Size of the device.
    pub size: u64,
    /// Smallest addressable unit; offsets and lengths are multiples of it.
    pub logical: u32,
    /// Unit that is old or new after power loss.
    pub physical: u32,
    /// Largest aligned write that is old or new as a whole after power loss.
    pub atomic_write: u32,
    /// Largest single request. Longer runs are split by the caller.
    pub max_io: u32,
    /// Cache class.
    pub cache: CacheClass,
    /// A write can carry its own durability ([`crate::WriteFlags::fua`]).
    pub fua: bool,
    /// A write can carry [`crate::WriteFlags::pre_barrier`].
    pub order: bool,
    /// Acknowledged writes survive the death of the server process that took them.
    pub acked_survives_server_death: bool,
    /// Writes are refused.
    pub read_only: bool,
}

impl Caps {
    /// A plain disk: 512-byte sectors, requests of at most 1 MiB, neither FUA nor order, and
    /// nothing said about what survives a server's death. What its cache does is for its driver to
    /// say.
    pub const fn disk(size: u64, cache: CacheClass) -> Self {
        Self {
            size,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: false,
        }
    }
}
