//! One session's state.

use super::SessionId;
use super::drain::{Drain, Drained, PendingSync};
use crate::stats::Tally;
use alloc::string::String;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Run};
use seawall_ipc::Status;
use seawall_ipc::storeproto::{limit, rights};

/// Rights to change the store.
const CHANGES: u32 = rights::WRITE | rights::DISCARD;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreLimits {
    /// Sessions at a time.
    pub sessions_max: u32,
    /// Requests in flight per session.
    pub in_flight_max: u32,
    /// Largest payload, bytes.
    pub payload_max: u32,
}

impl Default for CoreLimits {
    fn default() -> Self {
        Self {
            sessions_max: limit::SESSIONS,
            in_flight_max: limit::IN_FLIGHT,
            payload_max: limit::PAYLOAD,
        }
    }
}

#[derive(Debug)]
pub(super) struct Member {
    /// The part of the device it sees.
    pub(super) window: Run,
    rights: u32,
    /// It said in HELLO that it writes nothing.
    pub(super) gave_up: bool,
    /// Its generation if it is an exclusive writer, else 0.
    pub(super) generation: u64,
    /// The live sessions it descends from by OPEN_RANGE.
    pub(super) ancestors: Vec<SessionId>,
    pub(super) greeted: bool,
    pub(super) client: String,
    pub(super) in_flight: u32,
    pub(super) tally: Tally,
    next_index: u64,
    drain: Drain,
}

impl Member {
    pub(super) fn new(window: Run, rights: u32, ancestors: Vec<SessionId>) -> Self {
        Self {
            window,
            rights,
            gave_up: false,
            generation: 0,
            ancestors,
            greeted: false,
            client: String::new(),
            in_flight: 0,
            tally: Tally::default(),
            next_index: 0,
            drain: Drain::default(),
        }
    }

    /// True when it has all of these rights.
    pub(super) fn may(&self, rights: u32) -> bool {
        let without = if self.gave_up { CHANGES } else { 0 };
        self.rights & !without & rights == rights
    }

    /// True when its socket came with all of these rights, whether it gave some up or not.
    pub(super) fn was_given(&self, rights: u32) -> bool {
        self.rights & rights == rights
    }

    /// True when its socket came with a right to change the store.
    pub(super) fn could_write(&self) -> bool {
        self.rights & CHANGES != 0
    }

    /// A request begins; returns its place in the session's order.
    pub(super) fn begin(&mut self, is_write: bool) -> u64 {
        let index = self.next_index;
        self.next_index = self.next_index.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        if is_write {
            self.drain.begin(index);
        }
        index
    }

    /// It is answered.
    pub(super) fn end(&mut self, index: u64, is_write: bool, result: Result<(), DevError>) {
        self.end_with(index, is_write, result.err().map(crate::wire::status_of));
    }

    /// It is answered, with this status unless it succeeded.
    pub(super) fn end_with(&mut self, index: u64, is_write: bool, error: Option<Status>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if is_write {
            self.drain.end(index, error);
        }
    }

    /// Takes a SYNC back that still waits for writes.
    pub(super) fn cancel_drain(&mut self, cookie: u64) -> Option<PendingSync> {
        self.drain.cancel(cookie)
    }

    pub(super) fn drain(&mut self, sync: PendingSync) -> Option<Drained> {
        self.drain.push(sync)
    }

    pub(super) fn drained(&mut self) -> Vec<Drained> {
        self.drain.ready()
    }
}
