//! An opened volume: its geometry and what it may be used for.

use crate::dirent::DirLimits;
use crate::features::{
    COMPAT_HAS_JOURNAL, INCOMPAT_EXTENTS, INCOMPAT_RECOVER, RO_COMPAT_HUGE_FILE, only_read,
};
use crate::superblock::{STATE_ERROR, STATE_VALID, Superblock};
use alloc::format;
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
    /// Read a volume whose journal holds changes that were never replayed, as it is without them:
    /// what changed last may be missing or inconsistent. Needs `read_only`.
    pub no_recovery: bool,
}

/// An ext2 volume: constants read at open, no other state.
#[derive(Clone, Debug)]
pub struct Ext2 {
    pub(crate) sb: Superblock,
    pub(crate) overhead: u64,
    pub(crate) size_max: u64,
    pub(crate) was_clean: bool,
    no_writes: bool,
    /// User and group that may use reserved blocks.
    pub(crate) reserved_for: (u32, u32),
    read_only_because: Vec<String>,
}

/// Refuses a use of the volume that its features forbid.
fn check_use(sb: &Superblock, opts: OpenOptions) -> Result<(), FsError> {
    if sb.incompat & INCOMPAT_RECOVER != 0 && !(opts.read_only && opts.no_recovery) {
        return Err(FsError::unsupported(
            "needs_recovery: the volume's journal holds changes; replay them (e2fsck), or mount \
             -o ro,norecovery to read the volume without them",
        ));
    }
    if opts.read_only {
        return Ok(());
    }
    let mut names = only_read(sb.incompat, sb.ro_compat);
    if sb.compat & COMPAT_HAS_JOURNAL != 0 && sb.journal_inode == 0 {
        names.push("has_journal (on another device)".to_string());
    }
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(", ");
    Err(FsError::unsupported(format!(
        "writing a volume with {names}; a read-only mount (-o ro) works"
    )))
}

impl Ext2 {
    /// Opens a volume from bytes 1024 to 2047 of a device of `device_size` bytes.
    ///
    /// What is written: revision 0 and 1; `ext_attr`, `resize_inode`, `dir_index`, `filetype`,
    /// `sparse_super`, `sparse_super2`, `meta_bg`, `large_file`, `huge_file`, `uninit_bg`,
    /// `dir_nlink`, `extra_isize`, and compatible features that nobody has to know. `has_journal`
    /// is, while the journal is empty: [`Format::check_mount`](seawall_diskfs::Format::check_mount)
    /// looks. A volume that was not cleanly unmounted opens read-only, unless
    /// [`OpenOptions::force`].
    ///
    /// What is read with [`OpenOptions::read_only`]: `extent`, `64bit`, `flex_bg`, `mmp` while
    /// nobody uses the volume, `ea_inode`, `large_dir`, `metadata_csum` with or without a seed
    /// (sums are checked, but those of bitmaps, which a reader has no use for), and read-only
    /// compatible features, known or not, but `bigalloc`.
    ///
    /// # Errors
    /// `Unsupported` names the features that the engine cannot read, or cannot write when writing
    /// was asked for; `Corrupt` says which number of the superblock is wrong or that the device is
    /// shorter than the volume.
    pub fn open(
        superblock: &[u8; 1024],
        device_size: u64,
        opts: OpenOptions,
    ) -> Result<Self, FsError> {
        let sb = Superblock::parse(superblock, device_size)?;
        let was_clean = sb.state & (STATE_VALID | STATE_ERROR) == STATE_VALID;
        check_use(&sb, opts)?;
        let mut why = Vec::new();
        if !was_clean && !opts.force {
            why.push("not cleanly unmounted (run e2fsck, or force)".to_string());
        }
        if opts.read_only {
            why.push("asked for".to_string());
        }
        Ok(Self {
            overhead: sb.overhead(),
            size_max: crate::blockmap::size_max(
                sb.block_size,
                sb.ro_compat & RO_COMPAT_HUGE_FILE != 0,
                sb.incompat & INCOMPAT_EXTENTS != 0,
            ),
            reserved_for: (sb.reserved_for.0.into(), sb.reserved_for.1.into()),
            sb,
            was_clean,
            no_writes: opts.read_only,
            read_only_because: why,
        })
    }

    /// True when the volume has these incompatible features.
    pub(crate) fn incompat(&self, bits: u32) -> bool {
        self.sb.incompat & bits == bits
    }

    /// True when the volume has these read-only compatible features.
    pub(crate) fn ro_compat(&self, bits: u32) -> bool {
        self.sb.ro_compat & bits == bits
    }

    /// True when the volume was opened for reading alone.
    pub(crate) fn writes_never(&self) -> bool {
        self.no_writes
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
