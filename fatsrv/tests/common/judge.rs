//! What the tests of mkfs and the checker share: devices over sparse files, and the judges.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_blockdev::{CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::Timestamp;
use seawall_fat::MkfsOptions;
use seawall_tests::{run, tool};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The time of every test.
pub const TIME: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 123_456_789 };

/// A device over a file.
#[derive(Debug)]
pub struct FileDev {
    file: File,
    size: u64,
}

impl FileDev {
    /// Opens an image.
    pub fn open(path: &Path) -> Numbered<Self> {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let size = file.metadata().unwrap().len();
        Numbered::new(Self { file, size })
    }

    /// Makes a sparse image.
    pub fn create(path: &Path, size: u64) -> Numbered<Self> {
        File::create(path).unwrap().set_len(size).unwrap();
        Self::open(path)
    }
}

impl RawDev for FileDev {
    fn caps(&self) -> Caps {
        Caps::disk(self.size, CacheClass::Flushable)
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

/// A volume of `size` bytes.
pub fn options(size: u64) -> MkfsOptions {
    MkfsOptions::new(size, 0x1234_ABCD, TIME)
}

/// Exit status and output of `fsck.fat -n`.
pub fn fsck(image: &Path) -> (i32, String) {
    let seen = run(tool("timeout").args(["60", "fsck.fat", "-n"]).arg(image));
    (seen.code(), seen.stdout + &seen.stderr)
}

/// Fails unless `fsck.fat -n` ends with 0.
#[track_caller]
pub fn assert_clean(image: &Path, what: &str) {
    let (code, output) = fsck(image);
    assert!(code == 0, "{what}: fsck.fat -n: {code}\n{output}");
}

/// Runs one of mtools on an image; `::` is its root.
#[track_caller]
pub fn mtool(image: &Path, name: &str, args: &[&str]) -> String {
    run(tool(name).arg("-i").arg(image).args(args)).ok().stdout
}
