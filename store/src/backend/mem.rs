//! `mem:SIZE` and `zero:SIZE`: memory that is allocated when it is first written.
//!
//! The medium is the process's memory: it lives as long as the server does. The cache class is
//! Flushable with an instant flush, so that what is counted and skipped above it is what a disk
//! would see.

use super::{Backend, BackendOp, Submission};
use async_trait::async_trait;
use seawall_blockdev::{CacheClass, Caps, DevError, PageBuf, Run};
use std::boxed::Box;
use std::sync::{PoisonError, RwLock};
use std::vec::Vec;

/// Unit of allocation and locking, bytes.
const CHUNK: u64 = 256 * 1024;
/// Largest store: its table takes 32 bytes a chunk.
const SIZE_MAX: u64 = 1 << 42;

/// A store in memory.
pub struct MemBackend {
    caps: Caps,
    chunks: Vec<RwLock<Option<PageBuf>>>,
}

impl MemBackend {
    /// `size` bytes of zeroes, rounded down to whole blocks of 512.
    ///
    /// # Errors
    /// [`DevError::OutOfRange`] for less than a block or more than 4 TiB.
    pub fn new(size: u64) -> Result<Self, DevError> {
        Self::with(size, false)
    }

    /// `size` bytes that read as zero and refuse writes.
    ///
    /// # Errors
    /// As [`MemBackend::new`].
    pub fn zero(size: u64) -> Result<Self, DevError> {
        Self::with(size, true)
    }

    fn with(size: u64, read_only: bool) -> Result<Self, DevError> {
        let size = size & !511;
        if size == 0 || size > SIZE_MAX {
            return Err(DevError::OutOfRange);
        }
        let caps = Caps {
            size,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1024 * 1024,
            cache: CacheClass::Flushable,
            fua: true,
            order: false,
            acked_survives_server_death: false,
            read_only,
        };
        let count = if read_only { 0 } else { size.div_ceil(CHUNK) };
        let chunks = (0..count).map(|_| RwLock::new(None)).collect();
        Ok(Self { caps, chunks })
    }

    fn execute(&self, op: &mut BackendOp<'_>) -> Result<(), DevError> {
        match op {
            BackendOp::Read { start, buf } => {
                self.read(*start, buf);
                Ok(())
            }
            BackendOp::Write { start, buf, .. } => self.write(*start, buf),
            BackendOp::Zero { run, .. } | BackendOp::Discard { run } => {
                self.zero_run(*run);
                Ok(())
            }
        }
    }

    fn read(&self, start: u64, buf: &mut [u8]) {
        for (index, from, piece) in pieces_mut(start, buf) {
            let guard = self
                .chunks
                .get(index)
                .map(|lock| lock.read().unwrap_or_else(PoisonError::into_inner));
            let bytes = guard.as_ref().and_then(|chunk| chunk.as_ref());
            match bytes.and_then(|chunk| chunk.get(from..from.saturating_add(piece.len()))) {
                Some(bytes) => piece.copy_from_slice(bytes),
                None => piece.fill(0),
            }
        }
    }

    fn write(&self, start: u64, buf: &[u8]) -> Result<(), DevError> {
        let mut rest = buf;
        let mut at = start;
        while !rest.is_empty() {
            let (index, from, len) = place(at, rest.len());
            let (piece, tail) = rest.split_at_checked(len).ok_or(DevError::OutOfRange)?;
            let lock = self.chunks.get(index).ok_or(DevError::OutOfRange)?;
            let mut guard = lock.write().unwrap_or_else(PoisonError::into_inner);
            if guard.is_none() {
                *guard = Some(PageBuf::try_zeroed(CHUNK as usize).ok_or(DevError::NoMemory)?);
            }
            if let Some(chunk) = guard.as_mut()
                && let Some(to) = chunk.get_mut(from..from.saturating_add(len))
            {
                to.copy_from_slice(piece);
            }
            rest = tail;
            at = at.saturating_add(len as u64);
        }
        Ok(())
    }

    fn zero_run(&self, run: Run) {
        let mut at = run.start;
        let mut left = run.len;
        while left > 0 {
            let (index, from, len) = place(at, usize::try_from(left).unwrap_or(usize::MAX));
            if let Some(lock) = self.chunks.get(index) {
                let mut guard = lock.write().unwrap_or_else(PoisonError::into_inner);
                if len as u64 == CHUNK {
                    *guard = None;
                } else if let Some(chunk) = guard.as_mut()
                    && let Some(to) = chunk.get_mut(from..from.saturating_add(len))
                {
                    to.fill(0);
                }
            }
            at = at.saturating_add(len as u64);
            left = left.saturating_sub(len as u64);
        }
    }
}

/// Chunk, offset in it, and how much of `len` fits there.
fn place(at: u64, len: usize) -> (usize, usize, usize) {
    let from = at % CHUNK;
    let room = usize::try_from(CHUNK.saturating_sub(from)).unwrap_or(usize::MAX);
    (usize::try_from(at / CHUNK).unwrap_or(usize::MAX), from as usize, len.min(room))
}

fn pieces_mut(start: u64, buf: &mut [u8]) -> impl Iterator<Item = (usize, usize, &mut [u8])> {
    let mut at = start;
    let mut rest = buf;
    core::iter::from_fn(move || {
        let (index, from, len) = place(at, rest.len());
        let (piece, tail) = core::mem::take(&mut rest).split_at_mut_checked(len)?;
        rest = tail;
        at = at.saturating_add(len as u64);
        if piece.is_empty() { None } else { Some((index, from, piece)) }
    })
}

#[async_trait]
impl Backend for MemBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn table_unit(&self) -> Option<u32> {
        Some(self.caps.logical)
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        for s in batch {
            s.result = self.execute(&mut s.op);
        }
    }

    async fn flush(&self) -> Result<(), DevError> {
        Ok(())
    }

    fn flush_is_instant(&self) -> bool {
        true
    }
}
