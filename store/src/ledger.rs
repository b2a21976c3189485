//! Sequences, flushes and the sticky fault: what a SYNC may say.
//!
//! Guarantees:
//! * `durable` never covers an acknowledged write that is not on stable media. A flush covers what
//!   was acknowledged before it *started*; what is acknowledged while it runs waits for the next.
//! * A failed flush is never forgiven by a later one that succeeds. The kernel drops the dirty
//!   pages of a failed writeback, so the second `fdatasync` of a file answers Ok for data that is
//!   gone. Therefore everything in (durable, acked] is marked lost, and SYNC and FUA fail until
//!   every unit of it was written again by a write that *started* after the failure.
//!
//! One flush runs at a time. The ledger does no I/O: its host runs the flush.

use crate::ranges::RangeSet;
use seawall_blockdev::{CacheClass, DevError, Run, Seq, SeqState};

/// Taken when a write-class request is handed to the backend, given back when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    faults: u64,
}

/// What a SYNC needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Everything acknowledged is durable.
    Already(Seq),
    /// A flush that starts from now on.
    Flush,
    /// It fails.
    Fail(DevError),
}

#[derive(Debug)]
struct Running {
    covers: u64,
}

/// The store-wide account of acknowledged and durable writes.
#[derive(Debug)]
pub struct Ledger {
    cache: CacheClass,
    acked: u64,
    durable: u64,
    /// Acknowledged since the last flush started.
    dirty: RangeSet,
    /// Covered by the running flush.
    flushing: RangeSet,
    running: Option<Running>,
    lost: RangeSet,
    faults: u64,
}

impl Ledger {
    /// A ledger for a device that was flushed before it was opened: sequence 1 stands for all of
    /// its earlier content and is durable. On a device that cannot flush nothing is.
    pub fn new(cache: CacheClass) -> Self {
        Self {
            cache,
            acked: 1,
            durable: u64::from(cache.can_promise()),
            dirty: RangeSet::new(),
            flushing: RangeSet::new(),
            running: None,
            lost: RangeSet::new(),
            faults: 0,
        }
    }

    /// Where the device stands.
    pub fn seqs(&self) -> SeqState {
        SeqState { acked: Seq(self.acked), durable: Seq(self.durable) }
    }

    /// The cache class.
    pub fn cache(&self) -> CacheClass {
        self.cache
    }

    /// True while a failed flush makes every SYNC fail.
    pub fn is_faulted(&self) -> bool {
        !self.lost.is_empty()
    }

    /// What must be written again before a SYNC can succeed.
    pub fn lost(&self) -> &RangeSet {
        &self.lost
    }

    /// Gives up what a failed flush may have lost and returns it. Writes that were under way when
    /// the flush failed are still to be lost when they are acknowledged.
    pub fn clear_fault(&mut self) -> RangeSet {
        core::mem::replace(&mut self.lost, RangeSet::new())
    }

    /// True while a flush runs.
    pub fn is_flushing(&self) -> bool {
        self.running.is_some()
    }

    /// A write-class request goes to the backend.
    ///
    /// # Errors
    /// [`DevError::Io`] for a FUA write while the fault is sticky.
    pub fn start(&self, fua: bool) -> Result<Started, DevError> {
        if fua && self.is_faulted() {
            return Err(DevError::Io);
        }
        Ok(Started { faults: self.faults })
    }

    /// The backend took the data of a request: assigns the next sequence.
    pub fn ack(&mut self, run: Run, started: Started, fua: bool) -> Seq {
        self.acked = self.acked.saturating_add(1);
        if self.cache == CacheClass::WriteThrough {
            self.durable = self.acked;
            return Seq(self.acked);
        }
        if started.faults != self.faults {
            // A flush failed while this write was under way: whether its data was among what the
            // failure dropped is unknown, so it is.
            self.lost.insert(run);
            return Seq(self.acked);
        }
        self.lost.remove(run);
        if fua {
            if self.durable.saturating_add(1) == self.acked {
                self.durable = self.acked;
            }
        } else {
            self.dirty.insert(run);
        }
        Seq(self.acked)
    }

    /// What a SYNC dequeued now needs.
    pub fn want_sync(&self) -> Want {
        match self.cache {
            CacheClass::Unflushable | CacheClass::Unknown => Want::Fail(DevError::Unsupported),
            CacheClass::WriteThrough => Want::Already(Seq(self.durable)),
            CacheClass::Flushable if self.is_faulted() => Want::Fail(DevError::Io),
            CacheClass::Flushable if self.durable == self.acked => Want::Already(Seq(self.durable)),
            CacheClass::Flushable => Want::Flush,
        }
    }

    /// The host starts a flush. Nothing happens when one runs already.
    pub fn flush_started(&mut self) {
        if self.running.is_none() {
            self.running = Some(Running { covers: self.acked });
            self.flushing.absorb(&mut self.dirty);
        }
    }

    /// The running flush ended.
    ///
    /// # Errors
    /// The flush's error.
    pub fn flush_done(&mut self, result: Result<(), DevError>) -> Result<Seq, DevError> {
        let Some(running) = self.running.take() else { return Err(DevError::Protocol) };
        match result {
            Ok(()) => {
                self.flushing.clear();
                self.durable = self.durable.max(running.covers);
                Ok(Seq(self.durable))
            }
            Err(error) => {
                self.faults = self.faults.saturating_add(1);
                self.lost.absorb(&mut self.flushing);
                self.lost.absorb(&mut self.dirty);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(l: &mut Ledger, start: u64) -> Seq {
        let started = l.start(false).unwrap();
        l.ack(Run::new(start, 512), started, false)
    }

    #[test]
    fn a_write_during_a_flush_waits_for_the_next() {
        let mut l = Ledger::new(CacheClass::Flushable);
        assert_eq!(l.want_sync(), Want::Already(Seq(1)));
        write(&mut l, 0);
        l.flush_started();
        write(&mut l, 512);
        assert_eq!(l.flush_done(Ok(())), Ok(Seq(2)));
        assert_eq!(l.want_sync(), Want::Flush);
    }

    #[test]
    fn a_failed_flush_stays_until_every_unit_was_rewritten() {
        let mut l = Ledger::new(CacheClass::Flushable);
        write(&mut l, 0);
        l.flush_started();
        write(&mut l, 512);
        let late = l.start(false).unwrap();
        assert_eq!(l.flush_done(Err(DevError::Io)), Err(DevError::Io));
        assert_eq!(l.want_sync(), Want::Fail(DevError::Io));
        assert_eq!(l.start(true), Err(DevError::Io));
        l.ack(Run::new(0, 512), late, false);
        write(&mut l, 512);
        assert_eq!(l.want_sync(), Want::Fail(DevError::Io));
        assert_eq!(l.seqs().durable, Seq(1));
        write(&mut l, 0);
        assert_eq!(l.want_sync(), Want::Flush);
        l.flush_started();
        assert_eq!(l.flush_done(Ok(())), Ok(l.seqs().acked));
    }

    #[test]
    fn classes_that_cannot_promise_never_say_ok() {
        for class in [CacheClass::Unflushable, CacheClass::Unknown] {
            let mut l = Ledger::new(class);
            assert_eq!(l.want_sync(), Want::Fail(DevError::Unsupported));
            write(&mut l, 0);
            assert_eq!(l.seqs().durable, Seq(0));
        }
        let mut l = Ledger::new(CacheClass::WriteThrough);
        let seq = write(&mut l, 0);
        assert_eq!(l.want_sync(), Want::Already(seq));
    }
}
