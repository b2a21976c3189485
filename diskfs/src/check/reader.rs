//! Reads of a check. What the device cannot read is a finding, not an end; what the device no
//! longer answers for is an end.

use crate::FsError;
use seawall_blockdev::{BlockDev, DevError, PageBuf, ReadRun, Tag};

/// A device that is only read.
pub struct Reader<'a> {
    dev: &'a mut dyn BlockDev,
    logical: u64,
    max_io: usize,
    /// Bytes of the device.
    pub size: u64,
}

impl<'a> Reader<'a> {
    /// A reader of the device.
    pub fn new(dev: &'a mut dyn BlockDev) -> Self {
        let caps = dev.caps();
        let logical = u64::from(caps.logical.max(1));
        let max_io = (caps.max_io as usize).max(caps.logical as usize).max(512);
        Self { logical, max_io, size: caps.size, dev }
    }

    /// Reads `len` bytes at byte `start`; `None` when they cannot be read or lie outside.
    ///
    /// # Errors
    /// `Io` when the device is gone, or there is no memory for `len` bytes.
    pub fn read(&mut self, start: u64, len: usize) -> Result<Option<PageBuf>, FsError> {
        let first = start - start % self.logical;
        let Some(end) = start.checked_add(len as u64) else { return Ok(None) };
        let last = end.next_multiple_of(self.logical);
        if last > self.size {
            return Ok(None);
        }
        let window = usize::try_from(last - first).unwrap_or(usize::MAX);
        let no_memory = FsError::Io(DevError::NoMemory);
        let mut buf = PageBuf::try_zeroed(window).ok_or_else(|| no_memory.clone())?;
        let mut at = first;
        for part in buf.chunks_mut(self.max_io) {
            let run = part.len() as u64;
            match self.dev.read(&mut [ReadRun { start: at, buf: part }], Tag(0)) {
                Ok(()) => {}
                Err(DevError::Io) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
            at += run;
        }
        if first == start && window == len {
            return Ok(Some(buf));
        }
        let inside = buf.get((start - first) as usize..).and_then(|b| b.get(..len));
        Ok(inside.map(PageBuf::from_slice))
    }
}
