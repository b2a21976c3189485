//! Folders that go away with the test.

use std::path::{Path, PathBuf};

/// A fresh folder, removed on drop.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// In the system's place for temporary files (`TMPDIR`). Its path is short, so sockets fit: a
    /// socket's path has at most 107 bytes.
    pub fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    /// Beside the build, hence on a disk even where temporary files live in memory. For large
    /// images and for tests of real flushes. Paths may be too long for sockets.
    pub fn on_disk() -> Self {
        let exe = std::env::current_exe().unwrap();
        let target = exe.ancestors().nth(3).unwrap().join("tmp");
        std::fs::create_dir_all(&target).unwrap();
        Self::under(&target)
    }

    /// In memory where the system has a place for that, else as [`Scratch::new`]. For small images
    /// that are written and checked thousands of times.
    pub fn in_memory() -> Self {
        let shm = Path::new("/dev/shm");
        if shm.is_dir() { Self::under(shm) } else { Self::new() }
    }

    fn under(folder: &Path) -> Self {
        Self(tempfile::Builder::new().prefix("seawall-").tempdir_in(folder).unwrap())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of something in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A new folder in it.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
