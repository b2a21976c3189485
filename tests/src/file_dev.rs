//! An image as a device.

use seawall_blockdev::{CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A device over a file, flushable in name only: its tests end in orderly ways. A write past its
/// end fails the test.
#[derive(Debug)]
pub struct FileDev {
    file: File,
    size: u64,
}

impl FileDev {
    /// Opens an image.
    pub fn open(path: &Path) -> Numbered<Self> {
        Numbered::new(Self::raw(path))
    }

    /// The same without numbers, to be wrapped.
    pub fn raw(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let size = file.metadata().unwrap().len();
        Self { file, size }
    }

    /// Makes a sparse image.
    pub fn create(path: &Path, size: u64) -> Numbered<Self> {
        File::create(path).unwrap().set_len(size).unwrap();
        Self::open(path)
    }
}

impl RawDev for FileDev {
    fn caps(&self) -> Caps {
        Caps { acked_survives_server_death: true, ..Caps::disk(self.size, CacheClass::Flushable) }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.file.read_exact_at(buf, start).map_err(|_| DevError::Io)
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        assert!(start + buf.len() as u64 <= self.size, "a write past the device");
        self.file.write_all_at(buf, start).map_err(|_| DevError::Io)
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, _run: Run) -> Result<(), DevError> {
        Err(DevError::Unsupported)
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        // What is zero already stays a hole.
        let mut buf = vec![0; run.len as usize];
        self.read(run.start, &mut buf)?;
        if buf.iter().any(|b| *b != 0) {
            buf.fill(0);
            self.write(run.start, &buf, WriteFlags::default())?;
        }
        Ok(())
    }
}
