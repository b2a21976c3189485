//! An opened volume: its geometry and what it may be used for.

use crate::dirent::DirLimits;
use crate::features::{COMPAT_HAS_JOURNAL, RO_COMPAT_KNOWN, ro_compat_names};
use crate::superblock::{STATE_ERROR, STATE_VALID, Superblock};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;
use seawall_diskfs::{Attempt, Change, FsError, Site, Stage, Tx};

/// How to open a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Never write.
    pub read_only: bool,
    /// Write although the volume was not cleanly unmounted or carries the error mark. Its clean
    /// mark then stays cleared.
    pub force: bool,
}

/// An ext2 volume: constants read at open, no other state.
#[derive(Clone, Debug)]
pub struct Ext2 {
    pub(crate) sb: Superblock,
    pub(crate) overhead: u64,
    pub(crate) size_max: u64,
    pub(crate) was_clean: bool,
    read_only_because: Vec<String>,
}

impl Ext2 {
    /// Opens a volume from bytes 1024 to 2047 of a device of `device_size` bytes.
    ///
    /// Read-write features: `ext_attr`, `resize_inode`, `dir_index`, `filetype`, `sparse_super`,
    /// `large_file`, `extra_isize` and unknown compatible ones. `has_journal` and unknown read-only
    /// ones make it read-only, as does a volume that was not cleanly unmounted (unless
    /// [`OpenOptions::force`]).
    ///
    /// # Errors
    /// `Unsupported` names the incompatible features that the engine lacks, `needs_recovery` among
    /// them; `Corrupt` says which number of the superblock is wrong or that the device is shorter
    /// than the volume.
    pub fn open(
        superblock: &[u8; 1024],
        device_size: u64,
        opts: OpenOptions,
    ) -> Result<Self, FsError> {
        let sb = Superblock::parse(superblock, device_size)?;
        let was_clean = sb.state & (STATE_VALID | STATE_ERROR) == STATE_VALID;
        let mut why = ro_compat_names(sb.ro_compat & !RO_COMPAT_KNOWN);
        if sb.compat & COMPAT_HAS_JOURNAL != 0 {
            why.push("has_journal".to_string());
        }
        if !was_clean && !opts.force {
            why.push("not cleanly unmounted (run e2fsck, or force)".to_string());
        }
        if opts.read_only {
            why.push("asked for".to_string());
        }
        Ok(Self {
            overhead: sb.overhead(),
            size_max: crate::blockmap::size_max(sb.block_size),
            sb,
            was_clean,
            read_only_because: why,
        })
    }

    /// The geometry.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Why the volume is read-only: names of features, or a sentence. Empty when it is writable.
    pub fn read_only_because(&self) -> &[String] {
        &self.read_only_because
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.sb.block_size)
    }

    /// Pointers in an indirect block.
    pub(crate) fn pointers(&self) -> u64 {
        u64::from(self.sb.block_size / 4)
    }

    /// 512-byte units of a block.
    pub(crate) fn sectors(&self) -> u64 {
        u64::from(self.sb.block_size / 512)
    }

    pub(crate) fn dir_limits(&self) -> DirLimits {
        DirLimits {
            block_size: self.sb.block_size as usize,
            filetype: self.sb.has_filetype(),
            first_ino: self.sb.first_ino,
            inodes: self.sb.inodes,
        }
    }

    /// Block and offset of the superblock.
    fn super_place(&self) -> (u64, usize) {
        if self.sb.block_size == 1024 { (1, 0) } else { (0, 1024) }
    }

    /// The superblock's bytes for changing. Counts and marks need no order.
    pub(crate) fn modify_super<T>(
        &self,
        tx: &mut Tx<'_>,
        f: impl FnOnce(&mut [u8]) -> Result<T, FsError>,
    ) -> Attempt<T> {
        let change = Change { site: Site::Hypermetadata, stage: Stage::Any, owner: None };
        self.modify_super_at(tx, change, f)
    }

    /// As [`Self::modify_super`], for what needs an order.
    pub(crate) fn modify_super_at<T>(
        &self,
        tx: &mut Tx<'_>,
        change: Change,
        f: impl FnOnce(&mut [u8]) -> Result<T, FsError>,
    ) -> Attempt<T> {
        let (block, off) = self.super_place();
        let buf: &mut PageBuf = tx.modify(block, "superblock", change)?;
        let b = seawall_diskfs::bytes::slice_mut(buf, off, 1024)?;
        Ok(f(b)?)
    }

    /// A copy of the superblock's bytes as this transaction sees them.
    pub(crate) fn read_super<T>(
        &self,
        tx: &mut Tx<'_>,
        f: impl FnOnce(&[u8]) -> Result<T, FsError>,
    ) -> Attempt<T> {
        let (block, off) = self.super_place();
        let buf = tx.read(block, "superblock")?;
        Ok(f(seawall_diskfs::bytes::slice(&buf, off, 1024)?)?)
    }
}
