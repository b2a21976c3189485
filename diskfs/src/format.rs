//! What an on-disk format provides. Everything above it (handles, permissions, caches, order,
//! policy) is the same for both filesystems and lives in this crate.
//!
//! Rules for implementers:
//!
//! * No I/O, clock, randomness or hidden state: all metadata goes through the [`Tx`], and `&self`
//!   is the geometry read at mount plus nothing. A call may be made many times; only the last
//!   attempt commits.
//! * Order: changes are made in ascending [`Stage`](crate::Stage) order, each with its stage, site
//!   and owner. `Init` before `Link`, `Unlink` before `Free`.
//! * Every inode that an operation changes is named by [`Tx::touch`], every new name by
//!   [`Tx::named`], every directory whose entries change by [`Tx::dir_changed`].
//! * Disk data is hostile: checked access only, bounded loops, `Corrupt` with site and block.

use crate::{
    Attempt, Attr, DirEntry, Extent, FsError, Ino, NewNode, RenameFlags, SetAttr, StatFs, Tx,
};
use alloc::string::String;
use alloc::vec::Vec;

/// Constants of a mounted volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a filesystem block (FAT: a sector or cluster, as the format counts).
    pub block_size: u32,
    /// Blocks of the volume; every block number is below it.
    pub blocks: u64,
    /// Root directory.
    pub root: Ino,
    /// Longest name in bytes.
    pub name_max: usize,
    /// Longest symlink target in bytes.
    pub symlink_max: usize,
    /// Largest file in bytes.
    pub size_max: u64,
    /// The volume must not be written (unknown read-only features, or asked for).
    pub read_only: bool,
}

/// Where a run of file blocks lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First file block.
    pub file: u64,
    /// Number of blocks.
    pub len: u64,
    /// First filesystem block; `None` for a hole.
    pub disk: Option<u64>,
    /// Allocated by this transaction: the old content on disk means nothing.
    pub fresh: bool,
}

/// What became of an inode that lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlinked {
    /// The inode.
    pub ino: Ino,
    /// Links left. At 0 the inode is freed after its last close.
    pub nlink: u32,
}

/// An on-disk format. `R` is [`Attempt`].
pub trait Format: Send + 'static {
    /// Constants.
    fn geometry(&self) -> Geometry;

    /// Whether the volume's clean mark was set at mount.
    fn was_clean(&self) -> bool;

    /// Sets or clears the clean mark (site `hypermetadata`, stage `Any`). Clearing also notes the
    /// mount where the format does; setting happens last, after everything else is written.
    fn set_clean(&self, tx: &mut Tx<'_>, clean: bool) -> Attempt<()>;

    /// Notes on disk that the volume was found to contradict itself, so that it is checked before
    /// it is
    /// used again (site `hypermetadata`, stage `Any`). A format that has no such mark does nothing.
    fn set_damaged(&self, _tx: &mut Tx<'_>) -> Attempt<()> {
        Ok(())
    }

    /// Checks at mount what every operation relies on (ext2: the group descriptors), so that a
    /// volume which cannot work is refused with its reason.
    fn check_mount(&self, _tx: &mut Tx<'_>) -> Attempt<()> {
        Ok(())
    }

    /// What the volume is, in a few words for people: variant, label, state. `None`: nothing to
    /// say.
    fn describe(&self, tx: &mut Tx<'_>) -> Attempt<Option<String>> {
        let _ = tx;
        Ok(None)
    }

    /// Where the next search for free space begins (FAT: a cluster), so that runs can be repeated
    /// on the same part of a device. `Range` for what is no such place.
    fn set_next_free(&self, tx: &mut Tx<'_>, unit: u64) -> Attempt<()> {
        let _ = (tx, unit);
        Err(FsError::unsupported("a place where allocation goes on, on this format").into())
    }

    /// Space and limits.
    fn statfs(&self, tx: &mut Tx<'_>) -> Attempt<StatFs>;

    /// Attributes. `Stale` when the inode is not in use.
    fn attr(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Attr>;

    /// Changes attributes; `set.size` is always `None` here. `Now` means `tx.now()`; ctime is set.
    fn set_attr(&self, tx: &mut Tx<'_>, ino: Ino, set: &SetAttr) -> Attempt<()>;

    /// Finds a name; `None` when it is absent. `dir` is a directory.
    fn lookup(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Ino>>;

    /// As [`Format::lookup`], once `check` agrees with the attributes of `dir`, which may be of any
    /// kind. A format that finds both in one place has it in one look.
    fn lookup_if(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        check: &mut dyn FnMut(&mut Tx<'_>, &Attr) -> Attempt<()>,
    ) -> Attempt<Option<Ino>> {
        let attr = self.attr(tx, dir)?;
        check(tx, &attr)?;
        self.lookup(tx, dir, name)
    }

    /// Lists entries from `cookie` (0: start, `.` and `..` included) until `emit` returns false,
    /// which means the entry was not taken.
    fn readdir(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<()>;

    /// A symlink's target.
    fn readlink(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<u8>>;

    /// Makes a node and its name. The name is known to be absent and not too long; `mode` are the
    /// permission bits.
    #[allow(clippy::too_many_arguments, reason = "one call per on-disk creation")]
    fn create(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        owner: (u32, u32),
    ) -> Attempt<Ino>;

    /// Adds a name to a non-directory. The name is known to be absent.
    fn link(&self, tx: &mut Tx<'_>, ino: Ino, dir: Ino, name: &[u8]) -> Attempt<()>;

    /// Removes a name: of a non-directory, or with `rmdir` of an empty directory (`NotEmpty`
    /// else). The kind was checked.
    fn unlink(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8], rmdir: bool) -> Attempt<Unlinked>;

    /// Moves a name. Kinds and loops were checked; a directory that is replaced must be empty
    /// (`NotEmpty`). The new name is durable before the old one goes (stages `Link`, `Unlink`).
    /// Returns what the replaced target became.
    fn rename(
        &self,
        tx: &mut Tx<'_>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Attempt<Option<Unlinked>>;

    /// The parent of a directory (its `..`).
    fn parent(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Ino>;

    /// Maps file blocks for reading. Covers `range` completely, in order, as few runs as possible.
    fn map(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>>;

    /// Maps file blocks for writing: holes are allocated (contiguous where possible), marked
    /// `fresh`. Sites: bitmaps `bitmap`, indirect blocks `indirect`, the inode `inode`.
    fn map_alloc(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>>;

    /// After a write: sets mtime and ctime to now, clears set-id bits when `clear_setid`, and grows
    /// the size to `size` when it is larger.
    fn wrote(&self, tx: &mut Tx<'_>, ino: Ino, size: u64, clear_setid: bool) -> Attempt<()>;

    /// One bounded step of setting the size to `size` (site `truncate` rides on the blocks' own).
    /// Growing is one step. Shrinking lowers the size and frees from the end; every step leaves a
    /// consistent file. Returns true when another step is needed. Bytes past the new end inside
    /// its last block are the caller's (the data cache) to zero.
    fn truncate_step(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<bool>;

    /// Makes a hole of a range of file blocks, in bounded steps: returns the block from which the
    /// next one goes on, or `None` when nothing is left. The size stays.
    fn punch_step(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Option<u64>> {
        let _ = (tx, ino, range);
        Err(crate::FsError::unsupported("holes in files").into())
    }

    /// Frees an inode without links and (truncated) without blocks.
    fn free_inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()>;

    /// Whether files can have holes. Where not, what lies between a file's end and a write past it
    /// is written as zeroes, and growing a file writes zeroes too.
    fn has_holes(&self) -> bool {
        true
    }

    /// Whether a file can have storage past its size ([`Format::map_alloc`] without
    /// [`Format::wrote`]). It is given back after the last close, by a
    /// [`Format::truncate_step`] to the size.
    fn has_reserve(&self) -> bool {
        false
    }

    /// Whether a node has one name, which is found in several spellings, so that renaming it to
    /// another spelling is a change.
    fn folds_names(&self) -> bool {
        false
    }

    /// The spelling in which the volume keeps a name, on formats that fold names. `None` when it is
    /// absent.
    fn spelling(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Vec<u8>>> {
        Ok(self.lookup(tx, dir, name)?.map(|_| name.to_vec()))
    }

    /// Whether nodes can have extended attributes. Where not, the other calls never come.
    fn has_xattrs(&self) -> bool {
        false
    }

    /// Whether nodes can have access lists, as attributes.
    fn has_acls(&self) -> bool {
        self.has_xattrs()
    }

    /// Value of the attribute with this full name (`user.x`); access lists in the kernel's form.
    /// `None` when it is absent, or the format has no place for such a name.
    fn xattr_get(&self, tx: &mut Tx<'_>, ino: Ino, name: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let _ = (tx, ino, name);
        Ok(None)
    }

    /// Full names of all attributes.
    fn xattr_list(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<Vec<u8>>> {
        let _ = (tx, ino);
        Ok(Vec::new())
    }

    /// Sets an attribute, or takes it away; ctime is set. `NoSpace` when it does not fit.
    fn xattr_set(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        let _ = (tx, ino, name, value);
        Err(FsError::unsupported("extended attributes on this format").into())
    }

    /// Attributes of a node made in this transaction: durable before its name (stage `Init`).
    fn xattr_init(&self, tx: &mut Tx<'_>, ino: Ino, list: &[(&[u8], Vec<u8>)]) -> Attempt<()> {
        let _ = (tx, ino, list);
        Err(FsError::unsupported("extended attributes on this format").into())
    }

    /// Sets those inode flags ([`crate::flags`]) that callers may set; ctime is set.
    fn set_flags(&self, tx: &mut Tx<'_>, ino: Ino, flags: u32) -> Attempt<()> {
        let _ = (tx, ino, flags);
        Err(FsError::unsupported("inode flags on this format").into())
    }

    /// Sets the access time to now and nothing else, so that no fsync has to cover it (no
    /// [`Tx::touch`], no owner).
    fn set_atime(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let _ = (tx, ino);
        Ok(())
    }

    /// Puts an inode that has no links but lives on (somebody holds it, or freeing it takes several
    /// steps) on the volume's list of such inodes, in the transaction that makes it so. Returns
    /// false where the format has no list; then the volume's checker frees it after a crash.
    fn orphan_add(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<bool> {
        let _ = (tx, ino);
        Ok(false)
    }

    /// Takes an inode off the list, in the transaction that frees it and before it is freed.
    fn orphan_remove(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let _ = (tx, ino);
        Ok(())
    }

    /// Inodes on the list, at mount. `Corrupt` when the list is damaged: it is then left alone.
    fn orphan_list(&self, tx: &mut Tx<'_>) -> Attempt<Vec<Ino>> {
        let _ = tx;
        Ok(Vec::new())
    }
}
