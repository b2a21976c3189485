//! `?direct`: past the page cache with `O_DIRECT`.
//!
//! The kernel refuses buffers and offsets that are not aligned. It says what it wants (statx(2),
//! `STATX_DIOALIGN`); where it does not, a page is assumed. Offsets and lengths are whole blocks
//! because the block of the store is made that large; a buffer that is not aligned is copied
//! through one that is. Data still sits in the device's own cache: a flush is as needed as without.

use super::super::writev::{read_full, write_full};
use rustix::fs::{AtFlags, StatxFlags, statx};
use seawall_blockdev::{DevError, PAGE, PageBuf};
use std::fs::File;
use std::io;

/// What the kernel demands of direct requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Align {
    /// Of buffers in memory, bytes.
    pub(super) memory: usize,
    /// Of offsets and lengths, bytes.
    pub(super) block: u32,
}

impl Align {
    /// Asks for it.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
        let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let (memory, block) = match told {
            true => (stat.stx_dio_mem_align, stat.stx_dio_offset_align),
            false => (PAGE as u32, PAGE as u32),
        };
        let usable = |n: u32| n.is_power_of_two() && n as usize <= PAGE;
        if !usable(memory) || !usable(block) {
            let problem = "the filesystem has no direct I/O for it, or none for pages";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        Ok(Self { memory: memory as usize, block })
    }

    pub(super) fn fits(&self, buf: &[u8]) -> bool {
        buf.as_ptr().addr().is_multiple_of(self.memory)
    }
}

/// Reads into a buffer that is not aligned.
pub(super) fn read_through(file: &File, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
    let mut page = PageBuf::try_zeroed(buf.len()).ok_or(DevError::NoMemory)?;
    read_full(file, start, &mut page)?;
    buf.copy_from_slice(&page);
    Ok(())
}

/// Writes from a buffer that is not aligned.
pub(super) fn write_through(
    file: &File,
    start: u64,
    buf: &[u8],
    dsync: bool,
) -> Result<(), DevError> {
    let mut page = PageBuf::try_zeroed(buf.len()).ok_or(DevError::NoMemory)?;
    page.copy_from_slice(buf);
    write_full(file, start, &[&page], dsync)
}
