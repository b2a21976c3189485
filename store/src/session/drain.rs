//! SYNC with DRAIN: waiting for earlier writes of the session and reporting their errors.

use super::SessionId;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use seawall_blockdev::Tag;
use seawall_ipc::Status;

/// Errors remembered per session until a DRAIN reports them or the client says it has seen them.
const FAILURES_MAX: usize = 128;

/// A SYNC that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingSync {
    pub(super) id: SessionId,
    pub(super) index: u64,
    pub(super) cookie: u64,
    pub(super) tag: Tag,
    /// Failed write-class replies the client has read.
    pub(super) seen: u32,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    /// Its number among the session's failures, from 1.
    ordinal: u64,
    /// Request that failed.
    index: u64,
    status: Status,
}

/// A SYNC that need not wait for writes any more, and the error it must report.
pub(super) type Drained = (PendingSync, Option<Status>);

/// Writes under way and errors of one session.
#[derive(Debug, Default)]
pub(super) struct Drain {
    writing: BTreeSet<u64>,
    failures: VecDeque<Failure>,
    failed: u64,
    waiting: VecDeque<PendingSync>,
}

impl Drain {
    pub(super) fn begin(&mut self, index: u64) {
        self.writing.insert(index);
    }

    pub(super) fn end(&mut self, index: u64, error: Option<Status>) {
        self.writing.remove(&index);
        let Some(status) = error else { return };
        self.failed = self.failed.saturating_add(1);
        let failure = Failure { ordinal: self.failed, index, status };
        if self.failures.len() >= FAILURES_MAX {
            // The newest is kept: while it is unseen the next DRAIN fails.
            self.failures.pop_back();
        }
        self.failures.push_back(failure);
    }

    pub(super) fn push(&mut self, sync: PendingSync) -> Option<Drained> {
        self.waiting.push_back(sync);
        self.ready().pop()
    }

    /// Takes a waiting SYNC out.
    pub(super) fn cancel(&mut self, cookie: u64) -> Option<PendingSync> {
        let at = self.waiting.iter().position(|sync| sync.cookie == cookie)?;
        self.waiting.remove(at)
    }

    /// SYNCs whose earlier writes have all ended, in order.
    pub(super) fn ready(&mut self) -> Vec<Drained> {
        let mut out = Vec::new();
        while let Some(sync) = self.waiting.front().copied() {
            if self.writing.first().is_some_and(|first| *first < sync.index) {
                break;
            }
            self.waiting.pop_front();
            let error = self.report(&sync);
            out.push((sync, error));
        }
        out
    }

    /// The first error among requests before `sync` that its client has not seen. Errors are
    /// reported once: those before `sync` are forgotten.
    fn report(&mut self, sync: &PendingSync) -> Option<Status> {
        let earlier = |f: &&Failure| f.index < sync.index && f.ordinal > u64::from(sync.seen);
        let first = self.failures.iter().filter(earlier).min_by_key(|f| f.index).map(|f| f.status);
        self.failures.retain(|f| f.index > sync.index);
        first
    }
}
