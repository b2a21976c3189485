//! What is written to the device at once: one step, or several that follow each other.
//!
//! A walker that races another takes what one look-up gives at a time. It keeps a request open,
//! which grows while the next pages follow on the device, and is sent when they do not: as Linux
//! builds its requests.

use crate::driver::Host;
use crate::plan::{IoRun, StepId};
use alloc::vec::Vec;
use seawall_blockdev::{BlockDev, WriteFlags, WriteRun};

/// How much a host takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimits {
    /// Bytes of one step.
    pub step: u64,
    /// Bytes to which steps that follow each other on the device are put together; 0: each is sent
    /// by itself.
    pub request: u64,
}

/// Steps that are written together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// To be completed, all with one result.
    pub steps: Vec<StepId>,
    /// What to write.
    pub runs: Vec<IoRun>,
    /// Flags for all of it.
    pub flags: WriteFlags,
    /// False: the caller goes on before this is complete.
    pub waited: bool,
}

impl Batch {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.data.len() as u64).sum()
    }

    /// True when nothing more may be put behind it.
    pub(super) fn is_full(&self, limits: StepLimits) -> bool {
        self.bytes().saturating_add(limits.step) > limits.request
    }

    /// True when the first run of `next` begins on the device where this ends.
    fn is_followed_by(&self, next: &Batch) -> bool {
        let end = self.runs.last().map(|r| r.start.saturating_add(r.data.len() as u64));
        let same = self.flags == next.flags && self.waited == next.waited;
        same && end.is_some() && end == next.runs.first().map(|r| r.start)
    }

    /// Puts `next` behind what is here, or returns what has to be sent first.
    pub(super) fn take_in(&mut self, mut next: Batch, limits: StepLimits) -> Option<Batch> {
        let sum = self.bytes().saturating_add(next.bytes());
        if self.is_followed_by(&next) && sum <= limits.request {
            self.steps.append(&mut next.steps);
            self.runs.append(&mut next.runs);
            return None;
        }
        let sent = core::mem::replace(self, next);
        (!sent.is_empty()).then_some(sent)
    }

    /// Writes it and completes its steps.
    pub fn run<H: Host>(self, host: &mut H) {
        let runs: Vec<WriteRun<'_>> = self
            .runs
            .iter()
            .map(|r| WriteRun { start: r.start, buf: &r.data, tag: r.tag })
            .collect();
        let result = host.dev().write(&runs, self.flags);
        host.with(|fs| self.steps.iter().for_each(|step| fs.complete(*step, result)));
        host.wake();
    }
}
