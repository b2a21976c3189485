//! `part:N:STORE`: one partition of a store, as a store of its own.
//!
//! Requests are moved by the partition's start and go on to the store below; one that leaves the
//! partition is refused here, whoever asked for it and whatever was checked before. A flush is the
//! flush of the whole store below: it covers more than the partition, never less.
//!
//! The table is read once, when the partition is opened. Whoever changes a table that is in use
//! changes it for the next one who opens it.

use super::{Backend, BackendOp, Submission};
use crate::block_on::block_on;
use crate::partition::{Disk, PartError, Table};
use async_trait::async_trait;
use seawall_blockdev::{Caps, DevError, Run};
use std::boxed::Box;

/// A partition of a backend.
pub struct PartBackend {
    inner: Box<dyn Backend>,
    start: u64,
    caps: Caps,
}

impl PartBackend {
    /// Reads the table of `inner` and takes partition `number` of it.
    ///
    /// # Errors
    /// [`PartError`]: no table, no such partition, or one that is not where a partition may be.
    pub fn open(number: u32, inner: Box<dyn Backend>) -> Result<Self, PartError> {
        let run = {
            let mut read = |start, buf: &mut [u8]| read_at(&*inner, start, buf);
            let mut disk = Disk::new(&inner.caps(), inner.table_unit(), &mut read);
            let table = Table::read(&mut disk)?;
            if let Some(backup) = table.backup {
                tracing::warn!("{backup}");
            }
            table.select(&disk, number)?
        };
        let caps = caps_at(inner.caps(), run);
        Ok(Self { inner, start: run.start, caps })
    }

    /// Where it is on the store below, bytes.
    pub fn run(&self) -> Run {
        Run::new(self.start, self.caps.size)
    }

    fn holds(&self, op: &BackendOp<'_>) -> bool {
        op.run().end().is_some_and(|end| end <= self.caps.size)
    }
}

/// Capabilities of a part: what the device does as a whole with a block of `physical` bytes, it
/// does only where its own such blocks begin.
fn caps_at(below: Caps, run: Run) -> Caps {
    let aligned = match run.start.trailing_zeros() {
        bits @ 0..=30 => 1u32 << bits,
        _ => 1 << 31,
    };
    let physical = below.physical.min(aligned).max(below.logical);
    let atomic_write = below.atomic_write.min(aligned);
    Caps { size: run.len, physical, atomic_write, ..below }
}

fn read_at(inner: &dyn Backend, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
    let mut batch = [Submission::new(BackendOp::Read { start, buf })];
    block_on(inner.submit(&mut batch));
    let [done] = batch;
    done.result
}

/// Moves a request that is inside the partition.
fn shift(op: &mut BackendOp<'_>, to: impl Fn(u64) -> u64) {
    match op {
        BackendOp::Read { start, .. } | BackendOp::Write { start, .. } => *start = to(*start),
        BackendOp::Zero { run, .. } | BackendOp::Discard { run } => run.start = to(run.start),
    }
}

#[async_trait]
impl Backend for PartBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn table_unit(&self) -> Option<u32> {
        self.inner.table_unit()
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        // The whole batch goes on at once, so that neighbours still leave as one call.
        for inside in batch.chunk_by_mut(|a, b| self.holds(&a.op) == self.holds(&b.op)) {
            if !inside.iter().all(|s| self.holds(&s.op)) {
                inside.iter_mut().for_each(|s| s.result = Err(DevError::OutOfRange));
                continue;
            }
            inside.iter_mut().for_each(|s| shift(&mut s.op, |at| at.saturating_add(self.start)));
            self.inner.submit(inside).await;
            inside.iter_mut().for_each(|s| shift(&mut s.op, |at| at.saturating_sub(self.start)));
        }
    }

    async fn flush(&self) -> Result<(), DevError> {
        self.inner.flush().await
    }

    fn flush_is_instant(&self) -> bool {
        self.inner.flush_is_instant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_blockdev::CacheClass;

    #[test]
    fn what_is_whole_depends_on_where_the_part_begins() {
        let disk = Caps {
            physical: 4096,
            atomic_write: 16384,
            ..Caps::disk(1 << 30, CacheClass::Flushable)
        };
        for (start, physical, atomic_write) in [
            (1 << 20, 4096, 16384),
            (8192, 4096, 8192),
            (63 * 512, 512, 512),
            (1 << 40, 4096, 16384),
        ] {
            let caps = caps_at(disk, Run::new(start, 1 << 20));
            assert_eq!((caps.physical, caps.atomic_write), (physical, atomic_write));
            assert_eq!((caps.size, caps.logical), (1 << 20, 512));
        }
    }
}
