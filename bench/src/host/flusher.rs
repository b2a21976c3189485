//! When the flusher runs and for how long, as Linux does it: above the threshold or at an age,
//! chunk by chunk, testing only between chunks.

use super::consts::{EXPIRE, FIRST_BANDWIDTH, MIN_CHUNK, SECOND, SMOOTH};
use crate::target::Nanos;

/// Why it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Background,
    Expiry,
}

/// State of the flusher beside its walk.
#[derive(Debug)]
pub(super) struct Flusher {
    /// Dirty bytes above which it starts.
    pub(super) threshold: u64,
    /// How often the age is looked at.
    pub(super) period: Nanos,
    /// Why it runs, when it does.
    pub(super) reason: Option<Reason>,
    /// Bytes that the chunk still has.
    pub(super) budget: u64,
    /// When what is dirty first became so.
    pub(super) dirtied: Option<Nanos>,
    /// A sync is queued: background writing yields to it.
    pub(super) quiet: bool,
    bandwidth: u64,
    measured: (Nanos, u64),
}

impl Flusher {
    pub(super) fn new(threshold: u64, period: Nanos) -> Self {
        Self {
            threshold,
            period,
            reason: None,
            budget: 0,
            dirtied: None,
            quiet: false,
            bandwidth: FIRST_BANDWIDTH,
            measured: (0, 0),
        }
    }

    /// Starts a chunk: half a second of the device's bandwidth as it is believed to be.
    pub(super) fn begin_chunk(&mut self) {
        self.budget = (self.bandwidth / 2 + MIN_CHUNK) / MIN_CHUNK * MIN_CHUNK;
    }

    /// Notes what the device has completed by now while writeback was going on.
    pub(super) fn measure(&mut self, now: Nanos, completed: u64) {
        let (then, had) = self.measured;
        let passed = now.saturating_sub(then);
        if passed < SECOND / 5 {
            return;
        }
        self.measured = (now, completed);
        if passed > SECOND {
            return;
        }
        let rate = u128::from(completed - had) * u128::from(SECOND) / u128::from(passed);
        let old = u128::from(self.bandwidth) * u128::from(SMOOTH.saturating_sub(passed));
        let new = (old + rate * u128::from(passed)) / u128::from(SMOOTH);
        self.bandwidth = u64::try_from(new).unwrap_or(self.bandwidth);
    }

    /// What was dirtied so long ago must be written now.
    pub(super) fn is_expired(&self, now: Nanos) -> bool {
        self.dirtied.is_some_and(|then| now.saturating_sub(then) >= EXPIRE)
    }

    /// Goes on with another chunk?
    pub(super) fn goes_on(&self, dirty: u64) -> bool {
        let wanted = match self.reason {
            Some(Reason::Expiry) => dirty > 0,
            Some(Reason::Background) => dirty > self.threshold,
            None => false,
        };
        wanted && !self.quiet
    }
}
