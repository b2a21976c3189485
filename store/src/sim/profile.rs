//! What a device costs: data, no behaviour but the arithmetic of its limits.

use super::Nanos;
use alloc::borrow::Cow;

/// Bytes of one segment of a request, on average: what lies together in the host's memory. It is
/// the host's number (fitted on the sizes of requests that one writer made), needed to say how
/// large a request gets on a device that limits the count of segments.
pub const SEGMENT: u64 = 18 * 1024;

/// Depth of a queue right after the first write.
const DEPTH_FIRST: u32 = 8;
/// The depth doubles after each of these, ns.
pub(super) const DEPTH_STEP: Nanos = 100_000_000;

/// A write cache inside the device that acknowledges early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// Its size, bytes.
    pub bytes: u64,
    /// Rate at which it takes data, bytes per second.
    pub fill_rate: u64,
}

/// A medium that gets slower when much was written: flash that takes data fast as long as it has
/// prepared room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowAfter {
    /// Bytes that can be written at the full rate.
    pub bytes: u64,
    /// Rate after that, bytes per second.
    pub rate: u64,
    /// Room that comes back while the medium does nothing, bytes per second; 0: none ever.
    pub recover: u64,
}

/// A medium that pauses now and then in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Chance that a write command pauses, in millionths.
    pub per_million: u32,
    /// How long, ns.
    pub time: Nanos,
    /// Decides which ones: the same seed and number of the write, the same answer.
    pub seed: u64,
}

/// Costs of a device. 0 means the cost or the limit does not exist (for rates: infinitely fast).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name in `sim:NAME:STORE`.
    pub name: Cow<'static, str>,
    /// What it models, one line.
    pub about: Cow<'static, str>,
    /// Rate of writes to the medium, bytes per second.
    pub rate: u64,
    /// Rate of reads, bytes per second.
    pub read_rate: u64,
    /// Fixed cost of a read, ns.
    pub read_command: Nanos,
    /// Fixed cost of a write, ns.
    pub write_command: Nanos,
    /// Fixed cost of a flush, ns.
    pub flush_command: Nanos,
    /// Cost of a request that does not begin within `near` bytes of the end of the last, ns.
    pub switch: Nanos,
    /// See `switch`.
    pub near: u64,
    /// Cost of the first request after 50 ms without one, ns.
    pub idle_wake: Nanos,
    /// Largest request, bytes.
    pub max_request: u32,
    /// Most segments of a request.
    pub max_segments: u32,
    /// Requests the device queues. At least 1.
    pub slots: u32,
    /// Cache that acknowledges before the medium has the data.
    pub cache: Option<CacheModel>,
    /// Falls to another rate after so many bytes.
    pub slow: Option<SlowAfter>,
    /// Pauses.
    pub stall: Option<Stall>,
    /// Acknowledged writes may be lost at power loss until a flush.
    pub volatile: bool,
}

impl Profile {
    /// The built-in profile of that name.
    pub fn find(name: &str) -> Option<Profile> {
        super::PROFILES.into_iter().find(|p| p.name == name)
    }

    /// Names of the built-in profiles, with commas between them.
    pub fn names() -> alloc::string::String {
        super::PROFILES.map(|p| p.name).join(", ")
    }

    /// Largest request, bytes, of a host whose segments have `segment` bytes on average:
    /// [`SEGMENT`] for one that nothing is known of. Never 0.
    pub fn request_max(&self, segment: u64) -> u64 {
        let size = match self.max_request {
            0 => u64::MAX,
            max => u64::from(max),
        };
        let segments = match self.max_segments {
            0 => u64::MAX,
            max => u64::from(max).saturating_mul(segment.max(1)),
        };
        size.min(segments)
    }

    /// Lengths of the requests that `len` bytes in one piece become: all as large as
    /// [`request_max`](Self::request_max) but the last.
    pub fn split(&self, len: u64, segment: u64) -> impl Iterator<Item = u64> + use<> {
        let max = self.request_max(segment);
        let mut left = len;
        core::iter::from_fn(move || {
            let next = left.min(max);
            left = left.saturating_sub(next);
            (next > 0).then_some(next)
        })
    }

    /// Requests in flight that a host allows itself `since` ns after its first write: 8, doubled
    /// every 100 ms, at most the slots. It stands in for a host that raises the depth while it
    /// learns how fast the device answers.
    pub fn depth(&self, since: Nanos) -> u32 {
        let doublings = u32::try_from(since / DEPTH_STEP).unwrap_or(u32::MAX).min(28);
        DEPTH_FIRST.saturating_mul(1 << doublings).min(self.slots).max(1)
    }

    /// Time on the medium for `len` bytes of a write at the full rate, without any fixed cost, ns.
    pub fn write_time(&self, len: u64) -> Nanos {
        transfer(len, self.rate)
    }
}

/// Time for `len` bytes at `rate` bytes per second, ns, rounded down; 0 at rate 0.
pub(super) fn transfer(len: u64, rate: u64) -> Nanos {
    let nanos = u128::from(len).saturating_mul(1_000_000_000);
    nanos.checked_div(u128::from(rate)).map_or(0, |n| u64::try_from(n).unwrap_or(u64::MAX))
}

/// Bytes that `rate` moves in `nanos`.
pub(super) fn moved(nanos: Nanos, rate: u64) -> u64 {
    let bytes = u128::from(nanos).saturating_mul(u128::from(rate)) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
