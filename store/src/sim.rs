//! Device models in virtual time: a pure function from requests to completion times.
//!
//! A model never looks at a clock. `submit(now, request)` says when the request is acknowledged and
//! when its data is on the medium, both in virtual nanoseconds, so the same requests give the same
//! times on every machine. Used by `sim:` stores and by the simulator.
//!
//! One serial device: a request costs `command + length / bandwidth`, plus `switch` when it does
//! not begin near the end of the last one, plus `idle_wake` after a pause. With a write cache it is
//! acknowledged when the cache took it. A profile is data; one that lacks a cost leaves it 0.

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

/// When a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The host sees the answer.
    pub acked: Nanos,
    /// The device is done with it.
    pub media: Nanos,
}

/// A write cache inside the device that acknowledges early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// Its size, bytes.
    pub bytes: u64,
    /// Rate at which it takes data, bytes per second.
    pub fill_rate: u64,
}

/// Costs of a device. 0 means the cost does not exist (for rates: infinitely fast).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name in `sim:NAME:STORE`.
    pub name: &'static str,
    /// Medium rate, bytes per second.
    pub rate: u64,
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
    /// Requests the device queues.
    pub slots: u32,
    /// Cache that acknowledges before the medium has the data.
    pub cache: Option<CacheModel>,
    /// Acknowledged writes may be lost at power loss until a flush.
    pub volatile: bool,
}

/// The virtual SSD of the Hurd thread: two numbers were measured there, 0.75 s for 1000 rounds of
/// create, write, fsync and close without a flush and 1.25 s with one each. 0.25 ms a write and
/// 0.50 ms a flush reproduce them with two writes a round and 0.25 ms for the rest. The thread says
/// nothing about reads; they cost what a write costs.
pub const QEMU_SSD: Profile = Profile {
    name: "qemu-ssd",
    rate: 0,
    read_command: 250_000,
    write_command: 250_000,
    flush_command: 500_000,
    switch: 0,
    near: 0,
    idle_wake: 0,
    max_request: 1024 * 1024,
    slots: 64,
    cache: None,
    volatile: true,
};

/// All profiles.
pub const PROFILES: [Profile; 1] = [QEMU_SSD];

/// Pause after which `idle_wake` is due, ns.
const IDLE_AFTER: Nanos = 50_000_000;

impl Profile {
    /// The profile of that name.
    pub fn find(name: &str) -> Option<Profile> {
        PROFILES.iter().find(|p| p.name == name).copied()
    }
}

/// A device in virtual time.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
    /// When the medium is free.
    free: Nanos,
    /// End of the last request, for `switch`.
    head: u64,
}

impl Model {
    /// An idle device at time 0.
    pub fn new(profile: Profile) -> Self {
        Self { profile, free: 0, head: 0 }
    }

    /// Its costs.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// When the device has nothing left to do.
    pub fn idle_at(&self) -> Nanos {
        self.free
    }

    /// Takes a request at `now`. Requests are served in the order of the calls.
    pub fn submit(&mut self, now: Nanos, request: SimRequest) -> Completion {
        let p = self.profile;
        let start = now.max(self.free);
        let mut cost = match request.kind {
            Kind::Read => p.read_command,
            Kind::Write => p.write_command,
            Kind::Flush => p.flush_command,
        };
        if p.idle_wake > 0 && start >= self.free.saturating_add(IDLE_AFTER) {
            cost = cost.saturating_add(p.idle_wake);
        }
        if request.kind != Kind::Flush {
            cost = cost.saturating_add(transfer(request.len, p.rate));
            if self.head.abs_diff(request.start) > p.near {
                cost = cost.saturating_add(p.switch);
            }
            self.head = request.start.saturating_add(request.len);
        }
        let media = start.saturating_add(cost);
        self.free = media;
        let acked = match (request.kind, p.cache) {
            (Kind::Write, Some(cache)) => {
                let taken = start.saturating_add(transfer(request.len, cache.fill_rate));
                taken.max(media.saturating_sub(transfer(cache.bytes, p.rate))).min(media)
            }
            _ => media,
        };
        Completion { acked, media }
    }
}

/// Time for `len` bytes at `rate` bytes per second.
fn transfer(len: u64, rate: u64) -> Nanos {
    let nanos = u128::from(len) * 1_000_000_000;
    nanos.checked_div(u128::from(rate)).map_or(0, |n| u64::try_from(n).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_rounds_take_what_the_thread_measured() {
        let round = |model: &mut Model, mut now: Nanos, flush: bool| {
            for start in [0, 1 << 20] {
                let write = SimRequest { kind: Kind::Write, start, len: 4096 };
                now = model.submit(now, write).acked;
            }
            if flush {
                let flush = SimRequest { kind: Kind::Flush, start: 0, len: 0 };
                now = model.submit(now, flush).acked;
            }
            now + 250_000
        };
        for (flush, expected) in [(false, 750_000_000), (true, 1_250_000_000)] {
            let mut model = Model::new(QEMU_SSD);
            let end = (0..1000).fold(0, |now, _| round(&mut model, now, flush));
            assert_eq!(end, expected);
        }
    }

    #[test]
    fn a_cache_acknowledges_early_until_it_is_full() {
        let cache = Some(CacheModel { bytes: 1_000_000, fill_rate: 100_000_000 });
        let p = Profile { rate: 10_000_000, write_command: 0, cache, ..QEMU_SSD };
        let mut model = Model::new(p);
        let write = |start| SimRequest { kind: Kind::Write, start, len: 1_000_000 };
        let first = model.submit(0, write(0));
        assert_eq!(first, Completion { acked: 10_000_000, media: 100_000_000 });
        let second = model.submit(first.acked, write(1_000_000));
        assert_eq!(second, Completion { acked: 110_000_000, media: 200_000_000 });
    }
}
