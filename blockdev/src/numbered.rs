//! Sequence numbers for devices that have none.
//!
//! A plain driver (a kernel's disk, a file) knows writes and flushes but not sequences.
//! [`Numbered`] counts its acknowledged writes and moves the durable mark when a flush that started
//! after them returned `Ok`.

use crate::WriteRun;
use crate::{BlockDev, CacheClass, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags};

/// A device without sequences. Wrap it in [`Numbered`].
///
/// # Errors
/// As for [`BlockDev`].
pub trait RawDev {
    /// Capabilities.
    fn caps(&self) -> Caps;
    /// Reads one run.
    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError>;
    /// Writes one run.
    fn write(&mut self, start: u64, buf: &[u8], flags: WriteFlags) -> Result<(), DevError>;
    /// Empties the volatile cache. `Unsupported` when that cannot be done.
    fn flush(&mut self) -> Result<(), DevError>;
    /// Gives storage back; `Unsupported` is fine.
    fn discard(&mut self, run: Run) -> Result<(), DevError>;
    /// Zeroes a range.
    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError>;
}

/// Adds sequence numbers to a [`RawDev`]. After a failed flush the durable mark never moves again:
/// a plain device cannot say which writes the failed flush dropped.
#[derive(Debug)]
pub struct Numbered<D> {
    dev: D,
    state: SeqState,
    lost: bool,
}

impl<D: RawDev> Numbered<D> {
    /// Wraps a device. Acknowledged starts at 1 and durable at 0: what an earlier owner left in the
    /// device's cache is unknown, and unknown counts as not durable.
    pub fn new(dev: D) -> Self {
        Self { dev, state: SeqState { acked: Seq(1), durable: Seq(0) }, lost: false }
    }

    /// The wrapped device.
    pub fn get_ref(&self) -> &D {
        &self.dev
    }

    /// The wrapped device.
    pub fn get_mut(&mut self) -> &mut D {
        &mut self.dev
    }

    /// Unwraps.
    pub fn into_inner(self) -> D {
        self.dev
    }

    fn acked(&mut self) -> Seq {
        self.state.acked = Seq(self.state.acked.0.saturating_add(1));
        if self.dev.caps().cache == CacheClass::WriteThrough {
            self.state.durable = self.state.acked;
        }
        self.state.acked
    }
}

impl<D: RawDev> BlockDev for Numbered<D> {
    fn caps(&self) -> Caps {
        self.dev.caps()
    }

    fn seqs(&self) -> SeqState {
        self.state
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], _tag: Tag) -> Result<(), DevError> {
        runs.iter_mut().try_for_each(|r| self.dev.read(r.start, r.buf))
    }

    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError> {
        for (i, run) in runs.iter().enumerate() {
            let pre_barrier = flags.pre_barrier && i == 0;
            self.dev.write(run.start, run.buf, WriteFlags { pre_barrier, ..flags })?;
        }
        Ok(self.acked())
    }

    fn sync(&mut self, _tag: Tag) -> Result<Seq, DevError> {
        match self.dev.caps().cache {
            CacheClass::WriteThrough => {}
            CacheClass::Flushable => {
                if self.lost {
                    return Err(DevError::Io);
                }
                let covered = self.state.acked;
                if let Err(e) = self.dev.flush() {
                    self.lost = true;
                    return Err(e);
                }
                self.state.durable = self.state.durable.max(covered);
            }
            CacheClass::Unflushable | CacheClass::Unknown => return Err(DevError::Unsupported),
        }
        Ok(self.state.durable)
    }

    fn discard(&mut self, run: Run, _tag: Tag) -> Result<Seq, DevError> {
        self.dev.discard(run)?;
        Ok(self.acked())
    }

    fn write_zeroes(&mut self, run: Run, _tag: Tag) -> Result<Seq, DevError> {
        self.dev.write_zeroes(run)?;
        Ok(self.acked())
    }
}
