//! Positional reads and writes of whole buffers, vectored, on a file or block device.

use rustix::io::{Errno, ReadWriteFlags, pread, pwritev, pwritev2};
use seawall_blockdev::DevError;
use std::fs::File;
use std::io::IoSlice;
use std::vec::Vec;

/// Buffers per system call.
const SLICES_MAX: usize = 256;

/// The device error for a host error number.
pub(super) fn dev_error(errno: Errno) -> DevError {
    match errno {
        Errno::NOSPC | Errno::DQUOT => DevError::NoSpace,
        Errno::ROFS | Errno::BADF | Errno::PERM => DevError::ReadOnly,
        Errno::OPNOTSUPP => DevError::Unsupported,
        Errno::NOMEM => DevError::NoMemory,
        _ => DevError::Io,
    }
}

/// Fills `buf` from `start`; the end of the file inside it is an error.
pub(super) fn read_full(file: &File, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
    let mut done = 0usize;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match pread(file, rest, start.saturating_add(done as u64)) {
            Ok(0) => return Err(DevError::Io),
            Ok(n) => done = done.saturating_add(n),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(dev_error(errno)),
        }
    }
    Ok(())
}

/// Writes all buffers one after the other from `start` on.
pub(super) fn write_full(
    file: &File,
    start: u64,
    bufs: &[&[u8]],
    dsync: bool,
) -> Result<(), DevError> {
    let mut slices: Vec<&[u8]> = bufs.to_vec();
    let mut next = 0usize;
    let mut at = start;
    while let Some(rest) = slices.get(next..).filter(|rest| !rest.is_empty()) {
        let iov: Vec<IoSlice<'_>> = rest.iter().take(SLICES_MAX).map(|b| IoSlice::new(b)).collect();
        let written = if dsync {
            pwritev2(file, &iov, at, ReadWriteFlags::DSYNC)
        } else {
            pwritev(file, &iov, at)
        };
        let mut n = match written {
            Ok(0) => return Err(DevError::Io),
            Ok(n) => n,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(dev_error(errno)),
        };
        at = at.saturating_add(n as u64);
        while let Some(slice) = slices.get_mut(next) {
            if n < slice.len() {
                *slice = slice.get(n..).unwrap_or_default();
                break;
            }
            n = n.saturating_sub(slice.len());
            next = next.saturating_add(1);
        }
    }
    Ok(())
}
