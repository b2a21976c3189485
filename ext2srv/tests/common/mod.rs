//! What the tests of this crate share: devices over sparse files, and the real e2fsprogs as judges.
#![allow(dead_code, reason = "each test binary uses its own part")]

use seawall_blockdev::{CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// A device over a file, without a cache to flush.
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
        Caps {
            size: self.size,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache: CacheClass::Flushable,
            fua: false,
            order: false,
            acked_survives_server_death: true,
            read_only: false,
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.file.read_exact_at(buf, start).map_err(|_| DevError::Io)
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
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

/// Runs a tool of e2fsprogs; returns its exit status and output.
pub fn tool(name: &str, args: &[&str], image: &Path) -> (i32, String) {
    let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let out = Command::new(name)
        .args(args)
        .arg(image)
        .env("PATH", path)
        .output()
        .unwrap_or_else(|e| panic!("{name} (e2fsprogs) must be installed: {e}"));
    let text =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.code().unwrap_or(-1), text)
}

/// `e2fsck -fn` must find nothing.
pub fn fsck(image: &Path) {
    let (status, text) = tool("e2fsck", &["-fn"], image);
    assert_eq!(status, 0, "e2fsck -fn {}:\n{text}", image.display());
}

/// What debugfs says to a request.
pub fn debugfs(image: &Path, request: &str) -> String {
    tool("debugfs", &["-R", request], image).1
}

/// Makes an image with the real mke2fs.
pub fn mke2fs(image: &Path, size: u64, args: &[&str]) {
    File::create(image).unwrap().set_len(size).unwrap();
    let all: Vec<&str> = ["-q", "-F", "-t", "ext2"].iter().chain(args).copied().collect();
    let (status, text) = tool("mke2fs", &all, image);
    assert_eq!(status, 0, "mke2fs: {text}");
}
