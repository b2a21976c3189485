//! A device and a host for tests. Never used in a server.
//!
//! [`MemDev`] is a disk with a volatile cache: `stable` is what a power loss right now would leave
//! at least, and faults are given by count. [`AllMiss`] starts every attempt with an empty cache,
//! so that an engine which keeps state between attempts, or asks in circles, shows itself.

mod ram;

pub use ram::RamDisk;

use crate::driver::Host;
use crate::{Format, Fs, FsError};
use alloc::vec::Vec;
use seawall_blockdev::{CacheClass, Caps, DevError, RawDev, Run, WriteFlags};

/// One request that a [`MemDev`] executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Logged {
    Read(Run),
    Write(Run),
    Flush,
    Discard(Run),
}

/// What discarded bytes of a [`MemDev`] read as.
pub const DISCARDED: u8 = 0xDC;

/// Which requests fail: the n-th from now, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Faults {
    pub read: Option<u64>,
    pub write: Option<u64>,
    pub flush: Option<u64>,
    /// Every write from that one on fails.
    pub dead_after_writes: Option<u64>,
}

/// A disk in memory with a volatile write cache.
#[derive(Clone, Debug)]
pub struct MemDev {
    /// What reads see.
    pub data: Vec<u8>,
    /// What the last flush left on the medium.
    pub stable: Vec<u8>,
    /// Faults to come.
    pub faults: Faults,
    /// Requests executed, when `record` is set.
    pub log: Vec<Logged>,
    /// Keep a log.
    pub record: bool,
    /// Cache class.
    pub cache: CacheClass,
    /// Writes that no flush covered yet, in order: any subset of them may survive a power loss.
    pub unflushed: Vec<(u64, Vec<u8>)>,
}

impl MemDev {
    /// A device with this content, all of it durable.
    pub fn new(data: Vec<u8>) -> Self {
        Self {
            stable: data.clone(),
            data,
            faults: Faults::default(),
            log: Vec::new(),
            record: false,
            cache: CacheClass::Flushable,
            unflushed: Vec::new(),
        }
    }

    fn note(&mut self, l: Logged) {
        if self.record {
            self.log.push(l);
        }
    }
}

/// Counts a fault down; true when it strikes.
fn strikes(counter: &mut Option<u64>) -> bool {
    match counter {
        Some(0) => {
            *counter = None;
            true
        }
        Some(n) => {
            *n = n.saturating_sub(1);
            false
        }
        None => false,
    }
}

fn range(start: u64, len: usize) -> Option<core::ops::Range<usize>> {
    let start = usize::try_from(start).ok()?;
    Some(start..start.checked_add(len)?)
}

impl RawDev for MemDev {
    fn caps(&self) -> Caps {
        Caps {
            size: self.data.len() as u64,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache: self.cache,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: false,
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.note(Logged::Read(Run::new(start, buf.len() as u64)));
        if strikes(&mut self.faults.read) {
            return Err(DevError::Io);
        }
        let src = range(start, buf.len()).and_then(|r| self.data.get(r));
        buf.copy_from_slice(src.ok_or(DevError::OutOfRange)?);
        Ok(())
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        let run = Run::new(start, buf.len() as u64);
        self.note(Logged::Write(run));
        if strikes(&mut self.faults.write) {
            return Err(DevError::Io);
        }
        if self.faults.dead_after_writes == Some(0) {
            return Err(DevError::Gone);
        }
        self.faults.dead_after_writes = self.faults.dead_after_writes.map(|n| n.saturating_sub(1));
        let dst = range(start, buf.len()).and_then(|r| self.data.get_mut(r));
        dst.ok_or(DevError::OutOfRange)?.copy_from_slice(buf);
        self.unflushed.push((start, buf.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DevError> {
        self.note(Logged::Flush);
        if strikes(&mut self.faults.flush) {
            // What the failed flush dropped is gone: only a rewrite makes it durable.
            self.unflushed.clear();
            return Err(DevError::Io);
        }
        for (start, bytes) in core::mem::take(&mut self.unflushed) {
            let dst = range(start, bytes.len()).and_then(|r| self.stable.get_mut(r));
            if let Some(dst) = dst {
                dst.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// What was there is gone: it reads as bytes that nobody wrote.
    fn discard(&mut self, run: Run) -> Result<(), DevError> {
        self.note(Logged::Discard(run));
        let r = range(run.start, usize::try_from(run.len).unwrap_or(usize::MAX));
        let dst = r.and_then(|r| self.data.get_mut(r)).ok_or(DevError::OutOfRange)?;
        dst.fill(DISCARDED);
        self.unflushed.push((run.start, alloc::vec![DISCARDED; dst.len()]));
        Ok(())
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        let r = range(run.start, usize::try_from(run.len).unwrap_or(usize::MAX));
        let dst = r.and_then(|r| self.data.get_mut(r)).ok_or(DevError::OutOfRange)?;
        dst.fill(0);
        self.unflushed.push((run.start, alloc::vec![0; dst.len()]));
        Ok(())
    }
}

/// A host that drops everything clean before each attempt.
#[derive(Debug)]
pub struct AllMiss<H>(pub H);

impl<H: Host> Host for AllMiss<H> {
    type Format = H::Format;
    type Dev = H::Dev;

    fn with<R>(&mut self, f: impl FnOnce(&mut Fs<H::Format>) -> R) -> R {
        self.0.with(f)
    }

    fn dev(&mut self) -> &mut H::Dev {
        self.0.dev()
    }

    fn wait(&mut self, seen: u64) -> Result<(), FsError> {
        self.0.wait(seen)
    }

    fn wake(&mut self) {
        self.0.wake();
    }

    fn before_attempt(&mut self) {
        self.0.with(|fs| fs.drop_clean());
    }
}

/// Mounts a format on one thread with default memory and the named preset.
///
/// # Errors
/// As `Fs::new`; `Unsupported` for an unknown preset.
pub fn mount<F: Format, D: seawall_blockdev::BlockDev>(
    format: F,
    dev: D,
    preset: &str,
) -> Result<crate::driver::Blocking<F, D>, FsError> {
    let policy = crate::policy::preset(preset)
        .ok_or_else(|| FsError::unsupported(alloc::format!("no preset '{preset}'")))?;
    let fs = Fs::new(format, dev.caps(), dev.seqs(), crate::MountOpts::new(policy))?;
    Ok(crate::driver::Blocking { fs, dev })
}
