//! One serial medium in virtual time.
//!
//! A request costs `command + length / rate`, plus `switch` when it does not begin near the end of
//! the last one, plus `idle_wake` when the medium had nothing to do for 50 ms, plus a stall. It
//! starts when the medium is free. Without a write cache it is acknowledged when the medium is done
//! with it; with one as soon as the cache took it: `max(now + length / fill_rate, done - size /
//! rate)`, the second being the time when everything but the size of the cache is on the medium.

use super::profile::{moved, transfer};
use super::{Completion, Kind, Nanos, Profile, SimRequest};

/// Pause after which `idle_wake` is due, ns.
const IDLE_AFTER: Nanos = 50_000_000;

/// A device in virtual time.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
    /// When the medium is free.
    free: Nanos,
    /// End of the last request, for `switch`.
    head: u64,
    /// When the first write came.
    first_write: Option<Nanos>,
    /// Writes so far, for `stall`.
    writes: u64,
    /// Bytes written at the full rate and not recovered, for `slow`.
    spent: u64,
    /// Acknowledgement of the last write: a later one is not acknowledged before it.
    last_ack: Nanos,
}

impl Model {
    /// An idle device at time 0.
    pub fn new(profile: Profile) -> Self {
        let (free, head, writes, spent, last_ack) = (0, 0, 0, 0, 0);
        Self { profile, free, head, first_write: None, writes, spent, last_ack }
    }

    /// Its costs.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// When the device has nothing left to do.
    pub fn idle_at(&self) -> Nanos {
        self.free
    }

    /// When the first write came.
    pub fn first_write(&self) -> Option<Nanos> {
        self.first_write
    }

    /// Requests that may be in flight at `now`; see [`Profile::depth`].
    pub fn depth(&self, now: Nanos) -> u32 {
        self.profile.depth(self.first_write.map_or(0, |first| now.saturating_sub(first)))
    }

    /// Takes a request at `now`. Requests are served in the order of the calls; `now` does not go
    /// back. Whether there is a slot for it is the caller's business ([`super::Queue`]).
    pub fn submit(&mut self, now: Nanos, request: SimRequest) -> Completion {
        let start = now.max(self.free);
        let p = &self.profile;
        let mut cost = match request.kind {
            Kind::Read => p.read_command,
            Kind::Write => p.write_command,
            Kind::Flush => p.flush_command,
        };
        if start >= self.free.saturating_add(IDLE_AFTER) {
            cost = cost.saturating_add(p.idle_wake);
        }
        if request.kind != Kind::Flush {
            if self.head.abs_diff(request.start) > p.near {
                cost = cost.saturating_add(p.switch);
            }
            self.head = request.start.saturating_add(request.len);
        }
        cost = cost.saturating_add(match request.kind {
            Kind::Read => transfer(request.len, self.profile.read_rate),
            Kind::Write => self.write(now, start, request.len),
            Kind::Flush => 0,
        });
        let media = start.saturating_add(cost);
        self.free = media;
        Completion { acked: self.acked(now, media, request), media }
    }

    /// Time of the data of a write, and its stall.
    fn write(&mut self, now: Nanos, start: Nanos, len: u64) -> Nanos {
        self.first_write.get_or_insert(now);
        let number = self.writes;
        self.writes = number.wrapping_add(1);
        let stall = match self.profile.stall {
            Some(s) if draw(s.seed, number) % 1_000_000 < u64::from(s.per_million) => s.time,
            _ => 0,
        };
        let data = match self.profile.slow {
            None => transfer(len, self.profile.rate),
            Some(slow) => {
                let idle = start.saturating_sub(self.free);
                let spent = self.spent.saturating_sub(moved(idle, slow.recover));
                let fast = len.min(slow.bytes.saturating_sub(spent));
                self.spent = spent.saturating_add(fast);
                let rest = transfer(len.saturating_sub(fast), slow.rate);
                transfer(fast, self.profile.rate).saturating_add(rest)
            }
        };
        data.saturating_add(stall)
    }

    fn acked(&mut self, now: Nanos, media: Nanos, request: SimRequest) -> Nanos {
        let acked = match (request.kind, self.profile.cache) {
            (Kind::Write, Some(cache)) => {
                let taken = now.saturating_add(transfer(request.len, cache.fill_rate));
                let rate = self.profile.rate;
                taken.max(media.saturating_sub(transfer(cache.bytes, rate))).min(media)
            }
            _ => media,
        };
        if request.kind == Kind::Write {
            self.last_ack = self.last_ack.max(acked);
            return self.last_ack;
        }
        acked
    }
}

/// The number at this place of the sequence of a seed (splitmix64).
fn draw(seed: u64, number: u64) -> u64 {
    let steps = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut z = seed.wrapping_add(steps);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
