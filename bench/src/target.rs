//! What an application does to a filesystem, one call at a time, whoever serves it.
//!
//! A workload is written once against [`Target`] and runs on the simulator and on real servers, so
//! that both rows of a table did the same calls in the same order.

use crate::outcome::Counted;
use anyhow::Result;
use seawall_diskfs::Slice;

/// Nanoseconds since some start, virtual or real.
pub type Nanos = u64;

/// A mounted filesystem.
pub trait Target {
    /// A directory.
    type Dir: Copy;
    /// An open file.
    type File;

    /// The time as the application sees it.
    fn now(&self) -> Nanos;

    /// The root directory.
    fn root(&self) -> Self::Dir;

    /// Makes a directory.
    ///
    /// # Errors
    /// As every call here: what the filesystem said, with the name.
    fn mkdir(&mut self, dir: Self::Dir, name: &[u8]) -> Result<Self::Dir>;

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn symlink(&mut self, dir: Self::Dir, name: &[u8], to: &[u8]) -> Result<()>;

    /// Makes a file and opens it for writing. The name is new.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn create(&mut self, dir: Self::Dir, name: &[u8]) -> Result<Self::File>;

    /// Writes all of `data` at `offset`, bytes.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn write(&mut self, file: &Self::File, offset: u64, data: &Slice) -> Result<()>;

    /// fsync.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn fsync(&mut self, file: &Self::File) -> Result<()>;

    /// close.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn close(&mut self, file: Self::File) -> Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn unlink(&mut self, dir: Self::Dir, name: &[u8]) -> Result<()>;

    /// syncfs.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn syncfs(&mut self) -> Result<()>;

    /// Unmounts; nothing but [`Target::counted`] may follow.
    ///
    /// # Errors
    /// As [`Target::mkdir`].
    fn unmount(&mut self) -> Result<()>;

    /// Counters since the mount, of the filesystem and of its store.
    ///
    /// # Errors
    /// When a server does not answer.
    fn counted(&mut self) -> Result<Counted>;
}
