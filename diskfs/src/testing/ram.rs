//! A disk in memory for figures: it does nothing that costs time.

use alloc::vec::Vec;
use seawall_blockdev::{CacheClass, Caps, DevError, RawDev, Run, WriteFlags};

/// A disk in memory whose flush costs nothing.
#[derive(Debug)]
pub struct RamDisk(pub Vec<u8>);

impl RamDisk {
    fn part(&mut self, start: u64, len: usize) -> Result<&mut [u8], DevError> {
        let at = usize::try_from(start).map_err(|_| DevError::OutOfRange)?;
        let end = at.checked_add(len).ok_or(DevError::OutOfRange)?;
        self.0.get_mut(at..end).ok_or(DevError::OutOfRange)
    }
}

impl RawDev for RamDisk {
    fn caps(&self) -> Caps {
        Caps {
            acked_survives_server_death: false,
            ..Caps::disk(self.0.len() as u64, CacheClass::Flushable)
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        buf.copy_from_slice(self.part(start, buf.len())?);
        Ok(())
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        self.part(start, buf.len())?.copy_from_slice(buf);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, _run: Run) -> Result<(), DevError> {
        Ok(())
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        // New memory is zero; touching it would only make it resident.
        let part = self.part(run.start, usize::try_from(run.len).unwrap_or(usize::MAX))?;
        if part.iter().any(|b| *b != 0) {
            part.fill(0);
        }
        Ok(())
    }
}
