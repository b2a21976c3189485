//! The device queue: how many requests are under way, who may send the next, what was sent.

use super::consts::{MS, SEGMENT};
use super::walker::Request;
use crate::target::Nanos;
use seawall_diskfs::StepId;
use seawall_store::sim::{Model, Profile, SimRequest};

/// Upper edges of the request sizes that are counted apart, bytes; the last class has none.
pub(crate) const EDGES: [u64; 9] = [
    4 << 10,
    8 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    (768 << 10) - 1,
    (1 << 20) - 1,
    (2 << 20) - 1,
];

/// What a device was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Write requests.
    pub(crate) requests: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
    /// Those of them that were file data.
    pub(crate) data_bytes: u64,
    /// Flushes.
    pub(crate) flushes: u64,
    /// Runs of file data as walkers claimed them, before the device's limits split them.
    pub(crate) runs: u64,
    /// Those of at least 768 KiB.
    pub(crate) large_runs: u64,
    /// Those claimed while a rival walked beside, and their bytes.
    pub(crate) raced: (u64, u64),
    /// Requests by size, see [`EDGES`].
    pub(crate) sizes: [u64; 10],
}

impl Sent {
    fn note(&mut self, len: u64, data: bool) {
        self.requests += 1;
        self.bytes += len;
        self.data_bytes += if data { len } else { 0 };
        let class = EDGES.iter().position(|e| len <= *e).unwrap_or(EDGES.len());
        if let Some(n) = self.sizes.get_mut(class) {
            *n += 1;
        }
    }

    /// A walker claimed a run of file data.
    pub(super) fn claimed(&mut self, bytes: u64, raced: bool) {
        self.runs += 1;
        self.large_runs += u64::from(bytes >= 768 << 10);
        if raced {
            self.raced.0 += 1;
            self.raced.1 += bytes;
        }
    }

    /// Mean request, KiB.
    pub(crate) fn average_kib(&self) -> f64 {
        self.bytes as f64 / 1024.0 / self.requests.max(1) as f64
    }
}

/// One request that was sent, for what is on the medium at a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Step that it was part of.
    pub(crate) step: StepId,
    /// File data.
    pub(crate) data: bool,
    /// Device offset, bytes.
    pub(crate) start: u64,
    /// Length, bytes.
    pub(crate) len: u64,
    /// When the medium has it.
    pub(crate) media: Nanos,
}

/// A device and its queue.
pub(crate) struct Queue {
    model: Model,
    /// Requests under way.
    under_way: u32,
    /// What was sent so far.
    pub(crate) sent: Sent,
    /// Every write, when somebody wants to know what a pulled device holds.
    pub(crate) log: Option<Vec<Written>>,
}

impl Queue {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { model: Model::new(profile), under_way: 0, sent: Sent::default(), log: None }
    }

    /// Largest request, bytes.
    pub(crate) fn largest(&self) -> u64 {
        self.model.profile().request_max(SEGMENT)
    }

    /// When more requests may be under way than now.
    pub(crate) fn grows_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.model.first_write()?;
        let step = 100 * MS;
        let next = first + (now.saturating_sub(first) / step + 1) * step;
        (self.model.depth(now) < self.model.profile().slots).then_some(next)
    }

    pub(crate) fn has_room(&self, now: Nanos) -> bool {
        self.under_way < self.model.depth(now)
    }

    /// Sends a write; returns when it is acknowledged. `jump`: it passes those that wait.
    pub(super) fn write(&mut self, now: Nanos, r: &Request, jump: bool) -> Nanos {
        let (start, len, data) = (r.start, r.len, r.data);
        self.under_way += 1;
        self.sent.note(len, data);
        let done = self.model.submit(now, SimRequest::write(start, len));
        if let Some(log) = &mut self.log {
            log.push(Written { step: r.step, data, start, len, media: done.media });
        }
        if jump {
            let p = self.model.profile();
            let moved = (len * 1_000_000_000).checked_div(p.rate).unwrap_or(0);
            return done.acked.min(now + p.write_command + p.switch + moved);
        }
        done.acked
    }

    /// Sends a flush; returns when it is answered.
    pub(crate) fn flush(&mut self, now: Nanos) -> Nanos {
        self.under_way += 1;
        self.sent.flushes += 1;
        self.model.submit(now, SimRequest::flush()).acked
    }

    /// A request ended.
    pub(crate) fn ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}
