//! A store in this process: a backend, the ledger and the statistics of a server, no socket.
//!
//! With memory, file and device-model backends every call runs to its end on the calling thread, so
//! a simulation in virtual time is a plain sequence of calls.

use crate::backend::{Backend, BackendOp, Clock, Submission};
use crate::block_on::block_on;
use crate::ledger::{Ledger, Started, Want};
use crate::plan::{Piece, plan};
use crate::ranges::RangeSet;
use crate::session::{check_run, lost_of};
use crate::sim::Nanos;
use crate::stats::{Count, Tallies};
use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun,
};
use seawall_ipc::storeproto::{Lost, Stats};
use std::sync::Arc;
use std::vec::Vec;

/// A store in this process.
pub struct LocalStore {
    backend: Arc<dyn Backend>,
    caps: Caps,
    ledger: Ledger,
    tallies: Tallies,
    clock: Clock,
}

impl LocalStore {
    /// A store over a backend, in real time.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::with_clock(backend, Clock::wall())
    }

    /// A store over a backend whose device model lives in `clock`.
    pub fn with_clock(backend: Arc<dyn Backend>, clock: Clock) -> Self {
        let caps = backend.caps();
        let (ledger, tallies) = (Ledger::new(caps.cache), Tallies::default());
        Self { backend, caps, ledger, tallies, clock }
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The clock its device model lives in; advance it to declare host costs.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Nanoseconds of that clock.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Requests, bytes, syncs and device flushes in total and by tag.
    pub fn stats(&self) -> Stats {
        self.tallies.to_wire()
    }

    /// What a failed flush may have lost and nobody has written again.
    pub fn lost(&self) -> &RangeSet {
        self.ledger.lost()
    }

    /// Gives up what a failed flush may have lost, so that syncs can succeed again; says and logs
    /// what that is.
    pub fn clear_fault(&mut self) -> Lost {
        let seqs = self.ledger.seqs();
        let lost = lost_of(seqs, &self.ledger.clear_fault());
        tracing::warn!(bytes = lost.bytes, runs = ?lost.runs, "loss accepted");
        lost
    }

    fn check(&self, pieces: &[Piece]) -> Result<(), DevError> {
        pieces.iter().try_for_each(|p| check_run(&self.caps, Run::new(p.start, p.len)))
    }

    fn count(&mut self, tag: Tag, what: Count) {
        self.tallies.add(tag, what);
    }

    /// Runs the batch; one result per piece.
    fn execute(&self, pieces: &[Piece], batch: &mut [Submission<'_>]) -> Vec<Result<(), DevError>> {
        block_on(self.backend.submit(batch));
        pieces
            .iter()
            .map(|p| {
                let end = p.first.saturating_add(p.count);
                let results = batch.get(p.first..end).unwrap_or_default();
                results.iter().try_for_each(|s| s.result)
            })
            .collect()
    }

    fn one(&mut self, op: BackendOp<'_>, tag: Tag) -> Result<Seq, DevError> {
        let run = op.run();
        check_run(&self.caps, run)?;
        if self.caps.read_only {
            return Err(DevError::ReadOnly);
        }
        let started = self.ledger.start(false)?;
        let mut batch = [Submission::new(op)];
        block_on(self.backend.submit(&mut batch));
        let [done] = batch;
        match done.result {
            Ok(()) => {
                self.count(tag, Count::Zero(run.len));
                Ok(self.ledger.ack(run, started, false))
            }
            Err(error) => {
                self.count(tag, Count::Error);
                Err(error)
            }
        }
    }

    fn admit(&self, pieces: &[Piece], flags: WriteFlags) -> Result<Started, DevError> {
        self.check(pieces)?;
        if self.caps.read_only {
            return Err(DevError::ReadOnly);
        }
        if (flags.fua && !self.caps.fua) || (flags.pre_barrier && !self.caps.order) {
            return Err(DevError::Unsupported);
        }
        self.ledger.start(flags.fua)
    }
}

impl BlockDev for LocalStore {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn seqs(&self) -> SeqState {
        self.ledger.seqs()
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError> {
        let slices = runs.iter_mut().map(|r| (r.start, &mut *r.buf, tag.0));
        let plan = plan(slices, self.caps.max_io);
        self.check(&plan.pieces)?;
        let mut batch = Vec::with_capacity(plan.segments.len());
        let mut segments = plan.segments.into_iter();
        for p in &plan.pieces {
            let mut start = p.start;
            for buf in segments.by_ref().take(p.count) {
                let len = buf.len() as u64;
                batch.push(Submission::new(BackendOp::Read { start, buf }));
                start = start.saturating_add(len);
            }
        }
        let mut first_error = Ok(());
        for (p, result) in plan.pieces.iter().zip(self.execute(&plan.pieces, &mut batch)) {
            self.count(tag, if result.is_ok() { Count::Read(p.len) } else { Count::Error });
            first_error = first_error.and(result);
        }
        first_error
    }

    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError> {
        let plan = plan(runs.iter().map(|r| (r.start, r.buf, r.tag.0)), self.caps.max_io);
        let started = match self.admit(&plan.pieces, flags) {
            Ok(started) => started,
            Err(error) => {
                self.count(Tag(plan.pieces.first().map_or(0, |p| p.tag)), Count::Error);
                return Err(error);
            }
        };
        let mut batch = Vec::with_capacity(plan.segments.len());
        let mut segments = plan.segments.into_iter();
        for p in &plan.pieces {
            let mut start = p.start;
            for buf in segments.by_ref().take(p.count) {
                let op = BackendOp::Write { start, buf, fua: flags.fua };
                batch.push(Submission::new(op));
                start = start.saturating_add(buf.len() as u64);
            }
        }
        let mut last = Ok(self.ledger.seqs().acked);
        for (p, result) in plan.pieces.iter().zip(self.execute(&plan.pieces, &mut batch)) {
            let count = if result.is_ok() { Count::Write(p.len) } else { Count::Error };
            self.count(Tag(p.tag), count);
            let acked =
                result.map(|()| self.ledger.ack(Run::new(p.start, p.len), started, flags.fua));
            last = last.and(acked);
        }
        last
    }

    fn sync(&mut self, tag: Tag) -> Result<Seq, DevError> {
        self.count(tag, Count::Sync);
        let result = match self.ledger.want_sync() {
            Want::Fail(error) => Err(error),
            Want::Already(seq) => {
                if self.caps.cache == CacheClass::Flushable {
                    self.count(tag, Count::Skipped);
                }
                Ok(seq)
            }
            Want::Flush => {
                self.count(tag, Count::Flush);
                self.ledger.flush_started();
                let done = self.ledger.flush_done(block_on(self.backend.flush()));
                if done.is_err() {
                    self.tallies.add_flush_error();
                }
                done
            }
        };
        if result.is_err() {
            self.count(tag, Count::Error);
        }
        result
    }

    fn discard(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        self.one(BackendOp::Discard { run }, tag)
    }

    fn write_zeroes(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        self.one(BackendOp::Zero { run, keep: false }, tag)
    }
}
