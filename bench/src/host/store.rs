//! A device that keeps metadata only: file data is a length. Sparse, so a volume of any size costs
//! what its tables cost.

use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun,
};
use seawall_diskfs::{IoRun, Site};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

type Page = Box<[u8; PAGE as usize]>;

/// Pages of metadata by page number; what is not here reads as zeroes.
#[derive(Clone, Debug)]
pub(crate) struct MetaStore {
    size: u64,
    pages: BTreeMap<u64, Page>,
    seq: u64,
    durable: u64,
}

impl MetaStore {
    /// A device of `size` bytes that reads as zeroes.
    pub(crate) fn new(size: u64) -> Self {
        Self { size, pages: BTreeMap::new(), seq: 0, durable: 0 }
    }

    /// Puts the bytes of a step in place and numbers it.
    pub(crate) fn take(&mut self, runs: &[IoRun]) -> Seq {
        for r in runs.iter().filter(|r| r.tag != Site::Data.tag()) {
            self.put(r.start, &r.data);
        }
        self.seq += 1;
        Seq(self.seq)
    }

    /// A flush: everything taken so far is durable.
    pub(crate) fn flushed(&mut self) -> Seq {
        self.durable = self.seq;
        Seq(self.durable)
    }

    /// Overwrites bytes.
    pub(crate) fn put(&mut self, start: u64, mut bytes: &[u8]) {
        let mut at = start;
        while !bytes.is_empty() {
            let skip = usize::try_from(at % PAGE).unwrap_or(0);
            let len = bytes.len().min(PAGE as usize - skip);
            let (now, rest) = bytes.split_at(len);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            if let Some(dst) = page.get_mut(skip..skip + len) {
                dst.copy_from_slice(now);
            }
            bytes = rest;
            at += len as u64;
        }
    }

    fn get(&self, start: u64, mut buf: &mut [u8]) {
        let mut at = start;
        while !buf.is_empty() {
            let skip = usize::try_from(at % PAGE).unwrap_or(0);
            let len = buf.len().min(PAGE as usize - skip);
            let (now, rest) = buf.split_at_mut(len);
            match self.pages.get(&(at / PAGE)).and_then(|p| p.get(skip..skip + len)) {
                Some(src) => now.copy_from_slice(src),
                None => now.fill(0),
            }
            buf = rest;
            at += len as u64;
        }
    }
}

impl BlockDev for MetaStore {
    fn caps(&self) -> Caps {
        Caps {
            physical: 4096,
            max_io: 4 << 20,
            acked_survives_server_death: false,
            ..Caps::disk(self.size, CacheClass::Flushable)
        }
    }

    fn seqs(&self) -> SeqState {
        SeqState { acked: Seq(self.seq), durable: Seq(self.durable) }
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], _tag: Tag) -> Result<(), DevError> {
        for r in runs {
            if r.start.saturating_add(r.buf.len() as u64) > self.size {
                return Err(DevError::OutOfRange);
            }
            self.get(r.start, r.buf);
        }
        Ok(())
    }

    fn write(&mut self, runs: &[WriteRun<'_>], _flags: WriteFlags) -> Result<Seq, DevError> {
        for r in runs.iter().filter(|r| r.tag != Site::Data.tag()) {
            self.put(r.start, r.buf);
        }
        self.seq += 1;
        Ok(Seq(self.seq))
    }

    fn sync(&mut self, _tag: Tag) -> Result<Seq, DevError> {
        Ok(self.flushed())
    }

    fn discard(&mut self, _run: Run, _tag: Tag) -> Result<Seq, DevError> {
        Err(DevError::Unsupported)
    }

    fn write_zeroes(&mut self, run: Run, _tag: Tag) -> Result<Seq, DevError> {
        let end = run.start.saturating_add(run.len);
        let (first, last) = (run.start.div_ceil(PAGE), end / PAGE);
        if !run.start.is_multiple_of(PAGE) {
            let len = (first * PAGE).min(end) - run.start;
            self.zero(run.start, len);
        }
        let whole: Vec<u64> = self.pages.range(first..last.max(first)).map(|(p, _)| *p).collect();
        for page in whole {
            self.pages.remove(&page);
        }
        if last >= first && !end.is_multiple_of(PAGE) {
            self.zero(last * PAGE, end % PAGE);
        }
        self.seq += 1;
        Ok(Seq(self.seq))
    }
}

impl MetaStore {
    /// Zeroes part of a page, when it is here.
    fn zero(&mut self, start: u64, len: u64) {
        let skip = usize::try_from(start % PAGE).unwrap_or(0);
        let len = usize::try_from(len).unwrap_or(0);
        let page = self.pages.get_mut(&(start / PAGE));
        if let Some(part) = page.and_then(|p| p.get_mut(skip..skip.saturating_add(len))) {
            part.fill(0);
        }
    }
}
