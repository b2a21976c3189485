//! `file:PATH`: a regular file or a block device, through the kernel's page cache or, with
//! `?direct`, past it.
//!
//! * A flush is `fdatasync`. `Write::flush` of a file does nothing and is never used. Growth
//!   happens only when the file is opened and is made durable with `fsync` of the file and of its
//!   directory there.
//! * The file is flushed when it is opened for writing, so what was in it before counts as durable
//!   only once it is.
//! * One writer: an exclusive `flock`, and `O_EXCL` on a block device, which fails while it is
//!   mounted. A second writer gets EBUSY.
//! * Acknowledged writes are in the kernel, so they survive the death of this process.

mod direct;

use super::writev::{dev_error, read_full, write_full};
use super::{Backend, BackendOp, Submission};
use crate::error::StoreError;
use async_trait::async_trait;
use direct::Align;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use seawall_blockdev::{CacheClass, Caps, DevError, PageBuf, Run};
use std::boxed::Box;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::string::ToString;
use std::vec::Vec;

/// Block of a regular file. Nothing larger is known to survive power loss as a whole.
const FILE_BLOCK: u32 = 512;
/// Most adjacent writes that go out as one call.
const MERGE_MAX: usize = 256;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// Without the writer's lock; writes are refused.
    pub read_only: bool,
    /// Creates the file if it is not there and sets its length to this many bytes.
    pub create_size: Option<u64>,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
}

/// A file or block device.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    caps: Caps,
    /// With `direct`.
    align: Option<Align>,
    /// Sector of the device, or of an image: not raised by `direct`.
    table_unit: u32,
}

impl FileBackend {
    /// Opens a file or block device.
    ///
    /// # Errors
    /// [`StoreError`] naming the path: not there, locked, not a file or block device, unflushable.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, StoreError> {
        let fail = |what: &'static str| move |cause| StoreError::file(what, path, cause);
        let known = path.metadata();
        let is_block = known.as_ref().is_ok_and(|m| m.file_type().is_block_device());
        let exists = known.is_ok();
        let mut open = OpenOptions::new();
        open.read(true).write(!options.read_only);
        if options.create_size.is_some() && !options.read_only && !is_block {
            open.create(true);
        }
        let exclusive = if is_block && !options.read_only { OFlags::EXCL } else { OFlags::empty() };
        let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
        open.custom_flags((exclusive | direct).bits().cast_signed());
        let mut file = open.open(path).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::BUSY) => StoreError::Busy { what: path.display().to_string() },
            _ => StoreError::file("open", path, e),
        })?;
        let kind = file.metadata().map_err(fail("examine"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(StoreError::NotAStore { path: path.display().to_string() });
        }
        if !options.read_only {
            lock(&file, path)?;
            if let Some(size) = options.create_size.filter(|_| kind.is_file()) {
                file.set_len(size).map_err(fail("resize"))?;
            }
            file.sync_all().map_err(fail("flush"))?;
            if !exists {
                sync_directory(path).map_err(fail("flush the directory of"))?;
            }
        }
        let align = options.direct.then(|| Align::of(&file)).transpose();
        let align = align.map_err(fail("use direct I/O on"))?;
        let (logical, physical) =
            block_sizes(&file, kind.is_block_device(), align.as_ref()).map_err(fail("examine"))?;
        let (table_unit, _) =
            block_sizes(&file, kind.is_block_device(), None).map_err(fail("examine"))?;
        let size = file.seek(SeekFrom::End(0)).map_err(fail("measure"))?;
        let size = size.checked_div(u64::from(logical)).unwrap_or(0) * u64::from(logical);
        if size == 0 {
            return Err(StoreError::Empty { path: path.display().to_string() });
        }
        let caps = Caps {
            size,
            logical,
            physical,
            atomic_write: physical,
            max_io: 1024 * 1024,
            cache: CacheClass::Flushable,
            fua: true,
            order: false,
            acked_survives_server_death: true,
            read_only: options.read_only,
        };
        Ok(Self { file, caps, align, table_unit })
    }

    /// True when the kernel takes this buffer as it is.
    fn fits(&self, buf: &[u8]) -> bool {
        self.align.is_none_or(|align| align.fits(buf))
    }

    fn read(&self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        if self.fits(buf) {
            return read_full(&self.file, start, buf);
        }
        direct::read_through(&self.file, start, buf)
    }

    fn zero(&self, run: Run, keep: bool) -> Result<(), DevError> {
        let how = if keep { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        match self.allocate(how, run) {
            Err(DevError::Unsupported) => self.write_zeroes(run),
            done => done,
        }
    }

    fn allocate(&self, how: FallocateFlags, run: Run) -> Result<(), DevError> {
        loop {
            match fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, run.start, run.len) {
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS) => return Err(DevError::Unsupported),
                Err(errno) => return Err(dev_error(errno)),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn write_zeroes(&self, run: Run) -> Result<(), DevError> {
        let zeroes = PageBuf::try_zeroed(65_536).ok_or(DevError::NoMemory)?;
        let mut at = run.start;
        let mut left = run.len;
        while left > 0 {
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(zeroes.len());
            write_full(&self.file, at, &[zeroes.get(..n).unwrap_or_default()], false)?;
            at = at.saturating_add(n as u64);
            left = left.saturating_sub(n as u64);
        }
        Ok(())
    }

    /// Writes the longest run of adjacent writes at the front of the batch in one go and returns
    /// how many requests that was.
    fn write_adjacent(&self, batch: &mut [Submission<'_>]) -> usize {
        let mut bufs: Vec<&[u8]> = Vec::new();
        let mut first = None;
        let mut end = 0u64;
        let mut dsync = false;
        for s in batch.iter().take(MERGE_MAX) {
            let BackendOp::Write { start, buf, fua } = &s.op else { break };
            if first.is_some() && (*start != end || *fua != dsync || !self.fits(buf)) {
                break;
            }
            if !self.fits(buf) {
                let result = direct::write_through(&self.file, *start, buf, *fua);
                batch.iter_mut().take(1).for_each(|s| s.result = result);
                return 1;
            }
            first.get_or_insert(*start);
            dsync = *fua;
            end = start.saturating_add(buf.len() as u64);
            bufs.push(buf);
        }
        let count = bufs.len();
        let result = write_full(&self.file, first.unwrap_or(0), &bufs, dsync);
        batch.iter_mut().take(count).for_each(|s| s.result = result);
        count
    }
}

fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy { what: path.display().to_string() }),
        Err(TryLockError::Error(e)) => Err(StoreError::file("lock", path, e)),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn block_sizes(file: &File, is_block: bool, align: Option<&Align>) -> io::Result<(u32, u32)> {
    let least = align.map_or(1, |align| align.block);
    if !is_block {
        let logical = FILE_BLOCK.max(least);
        return Ok((logical, logical));
    }
    let logical = rustix::fs::ioctl_blksszget(file)?.max(least);
    let physical = rustix::fs::ioctl_blkpbszget(file)?;
    Ok((logical, physical.max(logical)))
}

#[async_trait]
impl Backend for FileBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn table_unit(&self) -> Option<u32> {
        Some(self.table_unit)
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        let mut rest = batch;
        while !rest.is_empty() {
            let done = match rest.first_mut() {
                Some(Submission { op: BackendOp::Write { .. }, .. }) => self.write_adjacent(rest),
                Some(s) => {
                    s.result = match &mut s.op {
                        BackendOp::Read { start, buf } => self.read(*start, buf),
                        BackendOp::Zero { run, keep } => self.zero(*run, *keep),
                        BackendOp::Discard { run } => {
                            self.allocate(FallocateFlags::PUNCH_HOLE, *run)
                        }
                        BackendOp::Write { .. } => Err(DevError::Io),
                    };
                    1
                }
                None => 0,
            };
            rest = rest.get_mut(done.max(1)..).unwrap_or_default();
        }
    }

    async fn flush(&self) -> Result<(), DevError> {
        self.file.sync_data().map_err(|e| {
            tracing::error!(error = %e, "fdatasync failed");
            match Errno::from_io_error(&e) {
                Some(Errno::NOSPC | Errno::DQUOT) => DevError::NoSpace,
                _ => DevError::Io,
            }
        })
    }

    fn flush_is_instant(&self) -> bool {
        false
    }
}
