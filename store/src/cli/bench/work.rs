//! One session's work.

use super::{Bench, Op};
use crate::error::StoreError;
use crate::name::AnyStore;
use anyhow::Context;
use hdrhistogram::Histogram;
use seawall_blockdev::{BlockDev, DevError, PageBuf, ReadRun, Tag, WriteFlags, WriteRun};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// Tag of all requests.
const TAG: Tag = Tag(0);
/// The clock face is redrawn this often.
const TICK: Duration = Duration::from_millis(100);
/// Reads of ten batches of `mixed`.
const MIXED_READS: u64 = 7;

/// What was done.
#[derive(Debug)]
pub(super) struct Tally {
    /// Operations.
    pub(super) ops: u64,
    /// Reads among them.
    pub(super) reads: u64,
    /// Latency of each operation, ns.
    pub(super) latency: Histogram<u64>,
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        // Up to a minute, to three digits: about 150 KiB.
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
        Ok(Self { ops: 0, reads: 0, latency })
    }

    pub(super) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.ops = self.ops.saturating_add(other.ops);
        self.reads = self.reads.saturating_add(other.reads);
        self.latency.add(&other.latency).context("latencies do not add up")
    }
}

/// A session and its place in the store.
pub(super) struct Worker {
    store: AnyStore,
    op: Op,
    random: Option<u64>,
    size: u64,
    bufs: Vec<PageBuf>,
    /// Blocks of `size` from here on are this worker's.
    first: u64,
    blocks: u64,
    next: u64,
}

impl Worker {
    pub(super) fn new(args: &Bench, store: AnyStore, batch: u32, n: u32, of: u32) -> Self {
        let size = args.size.max(1);
        let all = store.caps().size / size;
        let blocks = (all / u64::from(of.max(1))).max(u64::from(batch)).max(1);
        let bufs = (0..batch).map(|i| {
            let mut buf = PageBuf::zeroed(size as usize);
            buf.fill(i as u8 ^ 0x5a);
            buf
        });
        Self {
            op: args.op,
            random: args.random.then_some(0x5ea_0a11 ^ u64::from(n)),
            size,
            bufs: bufs.collect(),
            first: blocks.saturating_mul(u64::from(n)).min(all.saturating_sub(blocks)),
            blocks,
            next: 0,
            store,
        }
    }

    pub(super) fn close(self) -> Result<(), StoreError> {
        self.store.close()
    }

    /// Batches until `end`; `tick` is told the time now and then.
    pub(super) fn run(
        &mut self,
        end: Instant,
        tick: &mut dyn FnMut(Instant),
    ) -> anyhow::Result<Tally> {
        let mut tally = Tally::new()?;
        let mut drawn = Instant::now();
        let mut before = drawn;
        let mut batches = 0u64;
        while before < end {
            let starts: Vec<u64> = (0..self.bufs.len()).map(|_| self.place()).collect();
            let reads = match self.op {
                Op::Read => true,
                Op::Mixed => batches % 10 < MIXED_READS,
                Op::Write | Op::Sync => false,
            };
            self.batch(&starts, reads)?;
            let now = Instant::now();
            let nanos = now.saturating_duration_since(before).as_nanos();
            let count = starts.len() as u64;
            tally.latency.saturating_record_n(u64::try_from(nanos).unwrap_or(u64::MAX), count);
            tally.ops = tally.ops.saturating_add(count);
            tally.reads = tally.reads.saturating_add(if reads { count } else { 0 });
            batches = batches.wrapping_add(1);
            if now.saturating_duration_since(drawn) >= TICK {
                tick(now);
                drawn = now;
            }
            before = now;
        }
        Ok(tally)
    }

    /// The next request's offset, bytes.
    fn place(&mut self) -> u64 {
        let block = match &mut self.random {
            Some(state) => {
                // xorshift64: a fixed sequence, so that two runs ask for the same blocks.
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                *state % self.blocks
            }
            None => self.next % self.blocks,
        };
        self.next = self.next.wrapping_add(1);
        self.first.saturating_add(block).saturating_mul(self.size)
    }

    fn batch(&mut self, starts: &[u64], reads: bool) -> Result<(), DevError> {
        if reads {
            let places = starts.iter().zip(&mut self.bufs);
            let mut runs: Vec<ReadRun<'_>> =
                places.map(|(start, buf)| ReadRun { start: *start, buf }).collect();
            return self.store.read(&mut runs, TAG);
        }
        let places = starts.iter().zip(&self.bufs);
        let runs: Vec<WriteRun<'_>> =
            places.map(|(start, buf)| WriteRun { start: *start, buf, tag: TAG }).collect();
        if self.op != Op::Sync {
            return self.store.write(&runs, WriteFlags::default()).map(|_| ());
        }
        self.store.write_sync(&runs, TAG).map(|_| ())
    }
}
