//! The device under a table, as its reader sees it.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use seawall_blockdev::{Caps, DevError};

/// Fills the buffer from an offset: whole blocks, at most the largest request.
type ReadAt<'d> = &'d mut dyn FnMut(u64, &mut [u8]) -> Result<(), DevError>;

/// A device whose table is read.
pub struct Disk<'d> {
    size: u64,
    logical: u32,
    max_io: u32,
    unit: Option<u32>,
    read: ReadAt<'d>,
}

impl fmt::Debug for Disk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disk({} bytes, blocks of {})", self.size, self.logical)
    }
}

impl<'d> Disk<'d> {
    /// A device with these capabilities. `unit` is what its table counts in
    /// ([`crate::backend::Backend::table_unit`]); blocks of 512 bytes say it by themselves.
    pub fn new(caps: &Caps, unit: Option<u32>, read: ReadAt<'d>) -> Self {
        let Caps { size, logical, max_io, .. } = *caps;
        let unit = unit.or((logical == 512).then_some(512));
        Self { size, logical, max_io, unit, read }
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn logical(&self) -> u32 {
        self.logical
    }

    pub(super) fn unit(&self) -> Option<u32> {
        self.unit
    }

    /// Rounded down.
    pub(super) fn whole_blocks(&self, len: u64) -> u64 {
        len - len.checked_rem(u64::from(self.logical)).unwrap_or(0)
    }

    /// Any bytes of the device.
    ///
    /// # Errors
    /// The device's; `OutOfRange` when they are not all inside.
    pub(super) fn bytes(&mut self, start: u64, len: usize) -> Result<Vec<u8>, DevError> {
        let block = u64::from(self.logical.max(1));
        let end = start.checked_add(len as u64).ok_or(DevError::OutOfRange)?;
        let from = self.whole_blocks(start);
        let to = end.checked_next_multiple_of(block).ok_or(DevError::OutOfRange)?;
        if to > self.size {
            return Err(DevError::OutOfRange);
        }
        let bytes = usize::try_from(to - from).map_err(|_| DevError::NoMemory)?;
        let mut buf = vec![0u8; bytes];
        let largest = self.whole_blocks(u64::from(self.max_io)).max(block);
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        let mut at = from;
        for piece in buf.chunks_mut(largest) {
            (self.read)(at, piece)?;
            at = at.saturating_add(piece.len() as u64);
        }
        let skip = usize::try_from(start - from).map_err(|_| DevError::OutOfRange)?;
        buf.drain(..skip);
        buf.truncate(len);
        Ok(buf)
    }
}
