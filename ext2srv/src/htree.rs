//! Indexed directories (feature `dir_index`, flag `EXT2_INDEX_FL`): a tree over the hashes of the
//! names. Facts of the format: Linux `fs/ext4/namei.c` (`struct dx_root`, `dx_node`, `dx_entry`).
//!
//! Block 0 is the root: the records `.` and `..`, whose second one spans the block, 8 bytes of
//! header (reserved, hash version, header length, levels below, flags), then entries. A node is one
//! unused record with entries in it, so that a reader without the feature sees an empty block. An
//! entry is a hash and a directory block; entry 0 has limit and count in the hash's place, and
//! stands for every hash below entry 1's. The lowest bit of a hash says that names with it begin in
//! the block before.
//!
//! A directory with a usable tree is searched through it and needs no index in memory, so names in
//! a directory of any size cost two or three blocks even when nothing is cached. Another kind of
//! hash, or a tree of another shape, is left to the search through all blocks, and the flag goes
//! with the first change; so it does when the tree is full. A tree that contradicts itself is
//! damage: names are found by reading all blocks, and changes are refused with `Corrupt`. Dropping
//! the flag instead would turn a block that the disk destroyed into a directory that every checker
//! calls clean.

mod grow;
mod hash;
mod list;

pub(crate) use hash::{FLAG_UNSIGNED_HASH, Hashing};

use crate::Ext2;
use crate::dir::Spot;
use crate::features::{COMPAT_DIR_INDEX, INCOMPAT_LARGE_DIR, RO_COMPAT_METADATA_CSUM};
use crate::inode::{FL_INDEX, Inode};
use alloc::vec::Vec;
use seawall_diskfs::bytes::{u8_at, u16_at, u32_at};
use seawall_diskfs::{Attempt, BlockRef, Fault, FsError, Ino, Tx};

/// Site of damage in an index.
pub(crate) const WHAT: &str = "directory index";
const LEAF: &str = "directory block";
/// Where the root's header stands: behind the records of `.` and `..`.
const ROOT_INFO: usize = 24;
pub(crate) const ROOT_ENTRIES: usize = 32;
pub(crate) const NODE_ENTRIES: usize = 8;
const ENTRY: usize = 8;
const INFO_LEN: u8 = 8;
/// Bits of an entry that are a block number.
const BLOCK_MASK: u32 = 0x0FFF_FFFF;

/// An entry: the lowest hash of a directory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u32,
    block: u32,
}

/// One index block on the way to a leaf.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Filesystem block.
    disk: u64,
    /// Offset of entry 0.
    base: usize,
    count: usize,
    limit: usize,
    /// Entry that was followed.
    at: usize,
}

/// The way to the block in which a hash belongs.
#[derive(Debug)]
pub(crate) struct Path {
    version: u8,
    hash: u32,
    levels: usize,
    frames: Vec<Frame>,
    /// Block of the directory.
    leaf: u64,
}

fn damage(disk: u64, what: &'static str) -> Fault {
    FsError::corrupt(WHAT, disk, what).into()
}

fn entry(b: &[u8], base: usize, i: usize) -> Result<Entry, FsError> {
    let at = base + i * ENTRY;
    let hash = if i == 0 { 0 } else { u32_at(b, at)? };
    Ok(Entry { hash, block: u32_at(b, at + 4)? & BLOCK_MASK })
}

/// The last of `count` entries whose hash is not above `hash`.
fn search(b: &[u8], base: usize, count: usize, hash: u32) -> Result<usize, FsError> {
    let (mut low, mut high) = (1, count);
    while low < high {
        let mid = low.midpoint(high);
        if entry(b, base, mid)?.hash > hash {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    Ok(low - 1)
}

impl Ext2 {
    /// The volume has indexed directories.
    pub(crate) fn has_dir_index(&self) -> bool {
        self.sb.compat & COMPAT_DIR_INDEX != 0
    }

    /// The directory says that it is indexed, on a volume that has such.
    pub(crate) fn is_indexed(&self, inode: &Inode) -> bool {
        self.has_dir_index() && inode.flags & FL_INDEX != 0
    }

    /// Entries that fit behind `base`.
    fn most_entries(&self, base: usize) -> usize {
        (self.sb.block_size as usize - base) / ENTRY
    }

    /// Most levels below the root.
    fn most_levels(&self) -> u8 {
        if self.sb.incompat & INCOMPAT_LARGE_DIR != 0 { 2 } else { 1 }
    }

    /// Hash version and levels of the root block; `None` when it is of a kind that is not known.
    fn root_info(&self, b: &[u8], disk: u64) -> Attempt<Option<(u8, u8)>> {
        let limits = self.dir_limits();
        let dots = [(0, 12, &b"."[..]), (12, limits.block_size - 12, b"..")];
        for (off, len, name) in dots {
            let r = limits.record(b, off, disk).map_err(|_| damage(disk, "no root in block 0"))?;
            if r.len != len || r.name != name || r.ino == 0 {
                return Err(damage(disk, "no root in block 0"));
            }
        }
        let (version, len) = (u8_at(b, ROOT_INFO + 4)?, u8_at(b, ROOT_INFO + 5)?);
        let (levels, flags) = (u8_at(b, ROOT_INFO + 6)?, u8_at(b, ROOT_INFO + 7)?);
        if u32_at(b, ROOT_INFO)? != 0 || len != INFO_LEN {
            return Err(damage(disk, "the root's header is wrong"));
        }
        if !Hashing::knows(version) || flags & 1 != 0 {
            return Ok(None);
        }
        if levels > self.most_levels() {
            return Err(damage(disk, "the tree is deeper than the format allows"));
        }
        Ok(Some((version, levels)))
    }

    /// Reads limit and count of an index block.
    fn frame(&self, b: &[u8], disk: u64, base: usize) -> Attempt<Frame> {
        let (limit, count) = (usize::from(u16_at(b, base)?), usize::from(u16_at(b, base + 2)?));
        let tail = usize::from(self.sb.ro_compat & RO_COMPAT_METADATA_CSUM != 0);
        if limit + tail != self.most_entries(base) {
            return Err(damage(disk, "an index block's limit is wrong"));
        }
        if count == 0 || count > limit {
            return Err(damage(disk, "an index block's count is wrong"));
        }
        Ok(Frame { disk, base, count, limit, at: 0 })
    }

    /// The way to the leaf of a hash, which `hash` computes for the tree's version. `None`: the
    /// tree is of a kind that is not known.
    fn probe(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        hash: impl FnOnce(u8) -> u32,
    ) -> Attempt<Option<Path>> {
        let (disk, _) = self.dir_run(tx, dir, inode, 0, 1)?;
        let b = tx.read(disk, WHAT)?;
        let Some((version, levels)) = self.root_info(&b, disk)? else { return Ok(None) };
        let levels = usize::from(levels);
        let frames = Vec::with_capacity(levels + 1);
        let mut path = Path { version, hash: hash(version), levels, frames, leaf: 0 };
        let first = path.hash;
        self.follow(tx, (dir, inode), &mut path, (&b, disk, ROOT_ENTRIES), Some(first))?;
        Ok(Some(path))
    }

    /// From an index block down to a leaf: by the path's hash, or along the first entries.
    fn follow(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        path: &mut Path,
        (b, disk, base): (&BlockRef, u64, usize),
        hash: Option<u32>,
    ) -> Attempt<()> {
        let (mut b, mut disk, mut base) = (b.clone(), disk, base);
        loop {
            let mut f = self.frame(&b, disk, base)?;
            self.check_index_sum(inode, (&b, disk), base, (f.limit, f.count))?;
            f.at = match hash {
                Some(h) => search(&b, base, f.count, h)?,
                None => 0,
            };
            path.leaf = self.child(inode, &b, &f)?;
            path.frames.push(f);
            if path.frames.len() > path.levels {
                return Ok(());
            }
            (b, disk) = self.node(tx, dir, inode, path.leaf)?;
            base = NODE_ENTRIES;
        }
    }

    /// The directory block that a frame's entry names.
    fn child(&self, inode: &Inode, b: &[u8], f: &Frame) -> Attempt<u64> {
        let block = u64::from(entry(b, f.base, f.at)?.block);
        if block == 0 || block >= inode.size / self.block_bytes() {
            return Err(damage(f.disk, "an entry names a block outside the directory"));
        }
        Ok(block)
    }

    /// Reads an index block below the root.
    fn node(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        block: u64,
    ) -> Attempt<(BlockRef, u64)> {
        let (disk, _) = self.dir_run(tx, dir, inode, block, block + 1)?;
        let b = tx.read(disk, WHAT)?;
        let limits = self.dir_limits();
        match limits.record(&b, 0, disk) {
            Ok(r) if r.ino == 0 && r.len == limits.block_size => Ok((b, disk)),
            _ => Err(damage(disk, "an index block holds records")),
        }
    }

    /// Moves a path to the next leaf. Returns that leaf's hash as its entry has it.
    fn next_leaf(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        path: &mut Path,
    ) -> Attempt<Option<u32>> {
        let Some(level) = path.frames.iter().rposition(|f| f.at + 1 < f.count) else {
            return Ok(None);
        };
        path.frames.truncate(level + 1);
        let Some(f) = path.frames.last_mut() else { return Ok(None) };
        f.at += 1;
        let f = *f;
        let b = tx.read(f.disk, WHAT)?;
        let hash = entry(&b, f.base, f.at)?.hash;
        path.leaf = self.child(inode, &b, &f)?;
        if path.frames.len() <= path.levels {
            let (b, disk) = self.node(tx, dir, inode, path.leaf)?;
            self.follow(tx, (dir, inode), path, (&b, disk, NODE_ENTRIES), None)?;
        }
        Ok(Some(hash))
    }

    /// Finds a name through the tree. `None`: there is no tree to use.
    pub(crate) fn find_in_tree(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        name: &[u8],
    ) -> Attempt<Option<Option<Spot>>> {
        if !self.is_indexed(inode) {
            return Ok(None);
        }
        let path = self.probe(tx, (dir, inode), |v| self.sb.hashing.hash(v, name));
        let Some(mut path) = unless_damaged(path)? else { return Ok(None) };
        let limits = self.dir_limits();
        loop {
            let (disk, _) = self.dir_run(tx, dir, inode, path.leaf, path.leaf + 1)?;
            let found = tx.with(disk, 1, LEAF, |b| {
                self.check_dir_sum(inode, b, disk)?;
                limits.find(b, disk, name)
            })?;
            if let Some((off, ino)) = found {
                let ino = Ino(u64::from(ino));
                return Ok(Some(Some(Spot { block: disk, index: path.leaf, off, ino })));
            }
            let next = self.next_leaf(tx, (dir, inode), &mut path).map(Some);
            match unless_damaged(next)? {
                None => return Ok(None),
                Some(Some(h)) if h & !1 == path.hash => {}
                Some(_) => return Ok(Some(None)),
            }
        }
    }

    /// Called before a change of a directory in the place of `name`: true when its tree is to be
    /// kept right. The flag of an index that is not known goes.
    ///
    /// # Errors
    /// `Corrupt` when the way to `name` is damaged.
    pub(crate) fn keeps_tree(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        name: &[u8],
    ) -> Attempt<bool> {
        if self.is_indexed(inode) {
            let path = self.probe(tx, (dir, inode), |v| self.sb.hashing.hash(v, name))?;
            if path.is_some() {
                return Ok(true);
            }
        }
        self.drop_tree(tx, dir, inode)?;
        Ok(false)
    }
}

/// Damage of an index is no reason to find nothing: `None`, and the search reads all blocks.
fn unless_damaged<T>(got: Attempt<Option<T>>) -> Attempt<Option<T>> {
    match got {
        Err(Fault::Err(FsError::Corrupt(c))) if c.site == WHAT => Ok(None),
        other => other,
    }
}
