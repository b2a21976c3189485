//! Adding names to an indexed directory, and making an index.
//!
//! A leaf without room gives the half of its names in which the new one belongs to a new block at
//! the directory's end. The new block is written first (`Init`), then the entry that leads to it
//! (`Link`), and only then the moved names leave the old block (`Unlink`). The crash case of any
//! other order: names that were safe for years are in neither block. A power loss in between leaves
//! them in both, and the old block holds hashes that its entry does not allow, which e2fsck finds
//! and mends: it makes the index anew and takes the second of two equal names.

use super::{
    ENTRY, Entry, Frame, INFO_LEN, LEAF, NODE_ENTRIES, Path, ROOT_ENTRIES, ROOT_INFO, WHAT,
};
use super::{entry, hash::Hashing};
use crate::Ext2;
use crate::dir::dirent;
use crate::dirent::{Record, need, stored_len, type_of};
use crate::inode::{FL_INDEX, Inode};
use alloc::vec::Vec;
use seawall_diskfs::bytes::put;
use seawall_diskfs::{Attempt, Extent, FsError, Ino, Kind, Mapping, Stage, Tx};

/// A name to be placed.
struct Item {
    hash: u32,
    ino: u32,
    file_type: u8,
    name: Vec<u8>,
    new: bool,
}

/// Where to cut names that are sorted by hash: near the middle of their bytes, both parts no larger
/// than a block, and, where that is possible, not between two names with one hash.
fn cut(items: &[Item], block_size: usize) -> Option<usize> {
    let total: usize = items.iter().map(|i| need(i.name.len())).sum();
    let mut below = 0;
    let mut best: Option<(bool, usize, usize)> = None;
    for (k, pair) in items.windows(2).enumerate() {
        let [a, b] = pair else { continue };
        below += need(a.name.len());
        if below > block_size || total - below > block_size {
            continue;
        }
        let rank = (a.hash == b.hash, below.abs_diff(total - below), k + 1);
        best = Some(best.map_or(rank, |r| r.min(rank)));
    }
    best.map(|(_, _, k)| k)
}

/// What the entry of the upper part says: a hash above all of the lower part, or the same one with
/// the bit that says so. Not the lowest hash of the upper part but one between: e2fsck lets a block
/// hold the hash that the next one begins with, and would not see a name that a power loss left in
/// both.
fn upper_hash(items: &[Item], k: usize) -> u32 {
    let hash = |i: usize| items.get(i).map_or(0, |x| x.hash);
    let (low, high) = (hash(k.saturating_sub(1)), hash(k));
    if low == high {
        return high | 1;
    }
    // Both are even.
    match low + (((high - low) / 2) & !1) {
        between if between > low => between,
        _ => high,
    }
}

fn put_entries(b: &mut [u8], base: usize, entries: &[Entry]) -> Result<(), FsError> {
    put(b, base + 2, &(entries.len() as u16).to_le_bytes())?;
    for (i, e) in entries.iter().enumerate() {
        let at = base + i * ENTRY;
        if i > 0 {
            put(b, at, &e.hash.to_le_bytes())?;
        }
        put(b, at + 4, &e.block.to_le_bytes())?;
    }
    Ok(())
}

/// Puts `upper` behind entry `at`, whose block becomes `lower`.
fn insert(entries: &mut Vec<Entry>, at: usize, lower: u32, upper: Entry) {
    if let Some(e) = entries.get_mut(at) {
        e.block = lower;
    }
    entries.insert((at + 1).min(entries.len()), upper);
}

fn entries_of(b: &[u8], f: &Frame) -> Result<Vec<Entry>, FsError> {
    (0..f.count).map(|i| entry(b, f.base, i)).collect()
}

impl Ext2 {
    fn item(&self, version: u8, r: &Record<'_>) -> Item {
        let hash = self.sb.hashing.hash(version, r.name);
        Item { hash, ino: r.ino, file_type: r.file_type, name: r.name.to_vec(), new: false }
    }

    fn new_item(&self, version: u8, (ino, kind, name): (u32, Kind, &[u8])) -> Item {
        let file_type = if self.sb.has_filetype() { type_of(kind) } else { 0 };
        let hash = self.sb.hashing.hash(version, name);
        Item { hash, ino, file_type, name: name.to_vec(), new: true }
    }

    fn pack_items<'i>(
        &self,
        b: &mut [u8],
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<(), FsError> {
        self.dir_limits().pack(b, items.map(|i| (i.ino, i.file_type, &i.name[..])))
    }

    /// Blocks at a directory's end; their pointers come at `Link` with the size, which the caller
    /// puts. `None` when the directory would get too large.
    fn grow_dir(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        len: u64,
    ) -> Attempt<Option<Vec<u64>>> {
        let start = self.dir_blocks(dir, inode)?;
        let size = (start + len) * self.block_bytes();
        if size > u64::from(u32::MAX) {
            return Ok(None);
        }
        let mut disks = Vec::new();
        for m in self.map_filled(tx, dir, inode, Extent { start, len })? {
            let Mapping { disk: Some(disk), fresh: true, len, .. } = m else {
                let at = m.disk.unwrap_or(0);
                let what = "a block past a directory's end";
                return Err(FsError::corrupt("block map", at, what).into());
            };
            disks.extend(disk..disk + len);
        }
        inode.size = size;
        inode.mtime = tx.now();
        inode.ctime = tx.now();
        tx.touch(dir);
        Ok(Some(disks))
    }

    /// Adds a name to a directory whose tree is usable. False: the tree is full.
    pub(crate) fn tree_add(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        new: (u32, Kind, &[u8]),
    ) -> Attempt<bool> {
        let name = new.2;
        let path = self.probe(tx, (dir, inode), |v| self.sb.hashing.hash(v, name))?;
        let Some(path) = path else { return Ok(false) };
        let (disk, _) = self.dir_run(tx, dir, inode, path.leaf, path.leaf + 1)?;
        let b = tx.read(disk, LEAF)?;
        let limits = self.dir_limits();
        let Some(off) = limits.room(&b, disk, name.len())? else {
            return self.split_leaf(tx, dir, inode, &path, disk, new);
        };
        let b = tx.modify(disk, LEAF, dirent(dir, Stage::Link))?;
        limits.insert(b, disk, off, new)?;
        let now = tx.now();
        self.update_inode(tx, dir, Stage::Any, |d| {
            d.mtime = now;
            d.ctime = now;
        })?;
        Ok(true)
    }

    fn split_leaf(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        path: &Path,
        disk: u64,
        new: (u32, Kind, &[u8]),
    ) -> Attempt<bool> {
        let limits = self.dir_limits();
        let mut items = alloc::vec![self.new_item(path.version, new)];
        let b = tx.read(disk, LEAF)?;
        limits.walk(&b, disk, |r| {
            if r.ino != 0 {
                items.push(self.item(path.version, &r));
            }
            None::<()>
        })?;
        items.sort_by_key(|i| i.hash);
        let Some(k) = cut(&items, limits.block_size) else {
            return Err(FsError::Bug("a directory block that cannot be split").into());
        };
        let full = |f: &Frame| f.count >= f.limit;
        let grows = path.frames.last().is_some_and(full);
        if grows && path.frames.len() > 1 && path.frames.first().is_some_and(full) {
            return Ok(false);
        }
        let start = self.dir_blocks(dir, inode)?;
        let Some(disks) = self.grow_dir(tx, dir, inode, 1 + u64::from(grows))? else {
            return Ok(false);
        };
        let moves_low = items.iter().take(k).any(|i| i.new);
        let (low, high) = items.split_at(k);
        let (moved, kept) = if moves_low { (low, high) } else { (high, low) };
        let lost = FsError::Bug("a directory did not grow");
        let b =
            tx.create_block(*disks.first().ok_or(lost.clone())?, LEAF, dirent(dir, Stage::Init))?;
        self.pack_items(b, moved.iter())?;
        let (leaf, fresh) = (path.leaf as u32, start as u32);
        let (lower, upper) = if moves_low { (fresh, leaf) } else { (leaf, fresh) };
        let upper = Entry { hash: upper_hash(&items, k), block: upper };
        if grows {
            let node = (fresh + 1, *disks.get(1).ok_or(lost)?);
            self.grow_index(tx, dir, path, (lower, upper), node)?;
        } else {
            self.put_entry(tx, dir, path.frames.last(), (lower, upper))?;
        }
        self.put_inode(tx, dir, inode, Stage::Link)?;
        let b = tx.modify(disk, LEAF, dirent(dir, Stage::Unlink))?;
        self.pack_items(b, kept.iter())?;
        Ok(true)
    }

    /// A new entry in an index block that has room.
    fn put_entry(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        frame: Option<&Frame>,
        (lower, upper): (u32, Entry),
    ) -> Attempt<()> {
        let f = frame.ok_or(FsError::Bug("a tree without a root"))?;
        let b = tx.modify(f.disk, WHAT, dirent(dir, Stage::Link))?;
        let mut entries = entries_of(b, f)?;
        insert(&mut entries, f.at, lower, upper);
        Ok(put_entries(b, f.base, &entries)?)
    }

    /// A new entry where the lowest index block is full. `node` is the directory block and the
    /// block for one more.
    fn grow_index(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        path: &Path,
        (lower, upper): (u32, Entry),
        (node, disk): (u32, u64),
    ) -> Attempt<()> {
        let lost = FsError::Bug("a tree without a root");
        let bottom = *path.frames.last().ok_or(lost.clone())?;
        let b = tx.read(bottom.disk, WHAT)?;
        let mut entries = entries_of(&b, &bottom)?;
        insert(&mut entries, bottom.at, lower, upper);
        if path.frames.len() == 1 {
            // The root's entries, which are three fewer than a node holds, go one level down.
            self.new_node(tx, dir, disk, &entries)?;
            let root = tx.modify(bottom.disk, WHAT, dirent(dir, Stage::Link))?;
            put(root, ROOT_INFO + 6, &[1])?;
            return Ok(put_entries(root, bottom.base, &[Entry { hash: 0, block: node }])?);
        }
        let root = path.frames.first().ok_or(lost)?;
        let mid = entries.len() / 2;
        let moves_low = bottom.at + 1 < mid;
        let (low, high) = entries.split_at(mid);
        let (moved, kept) = if moves_low { (low, high) } else { (high, low) };
        let hash = high.first().map_or(0, |e| e.hash);
        self.new_node(tx, dir, disk, moved)?;
        let here = entry(&tx.read(root.disk, WHAT)?, root.base, root.at)?.block;
        let (lower, upper) = if moves_low { (node, here) } else { (here, node) };
        self.put_entry(tx, dir, Some(root), (lower, Entry { hash, block: upper }))?;
        let b = tx.modify(bottom.disk, WHAT, dirent(dir, Stage::Unlink))?;
        Ok(put_entries(b, bottom.base, kept)?)
    }

    fn new_node(&self, tx: &mut Tx<'_>, dir: Ino, disk: u64, entries: &[Entry]) -> Attempt<()> {
        let limit = self.most_entries(NODE_ENTRIES) as u16;
        let b = tx.create_block(disk, WHAT, dirent(dir, Stage::Init))?;
        put(b, 4, &stored_len(self.sb.block_size as usize))?;
        put(b, NODE_ENTRIES, &limit.to_le_bytes())?;
        Ok(put_entries(b, NODE_ENTRIES, entries)?)
    }

    /// True when a directory that outgrows its block gets an index.
    pub(crate) fn makes_tree(&self, inode: &Inode) -> bool {
        self.has_dir_index()
            && Hashing::knows(self.sb.hashing.version)
            && inode.size == self.block_bytes()
    }

    /// Makes an index of a directory of one full block, with a new name. False: the block does not
    /// begin as one must.
    ///
    /// The flag comes with the size, before the names leave block 0: a crash in between leaves a
    /// directory with names twice, and only an index that is wrong makes e2fsck look for them.
    pub(crate) fn make_tree(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        new: (u32, Kind, &[u8]),
    ) -> Attempt<bool> {
        let limits = self.dir_limits();
        let version = self.sb.hashing.version;
        let (disk, _) = self.dir_run(tx, dir, inode, 0, 1)?;
        let b = tx.read(disk, LEAF)?;
        let mut items = alloc::vec![self.new_item(version, new)];
        let (mut dots, mut parent) = (0, None);
        limits.walk(&b, disk, |r| {
            match (r.off, r.name) {
                (0, b".") if r.len == 12 && r.ino != 0 => dots += 1,
                (12, b"..") if r.ino != 0 => {
                    dots += 1;
                    parent = Some((r.ino, r.file_type));
                }
                _ if r.ino != 0 => items.push(self.item(version, &r)),
                _ => {}
            }
            None::<()>
        })?;
        items.sort_by_key(|i| i.hash);
        let Some(k) = cut(&items, limits.block_size).filter(|_| dots == 2 && parent.is_some())
        else {
            return Ok(false);
        };
        let Some(disks) = self.grow_dir(tx, dir, inode, 2)? else { return Ok(false) };
        let (low, high) = items.split_at(k);
        for (part, disk) in [low, high].into_iter().zip(&disks) {
            let b = tx.create_block(*disk, LEAF, dirent(dir, Stage::Init))?;
            self.pack_items(b, part.iter())?;
        }
        inode.flags |= FL_INDEX;
        self.put_inode(tx, dir, inode, Stage::Link)?;
        let limit = self.most_entries(ROOT_ENTRIES) as u16;
        let root = tx.modify(disk, WHAT, dirent(dir, Stage::Unlink))?;
        put(root, 12 + 4, &stored_len(limits.block_size - 12))?;
        if let Some(rest) = root.get_mut(ROOT_INFO..) {
            rest.fill(0);
        }
        put(root, ROOT_INFO + 4, &[version, INFO_LEN, 0, 0])?;
        put(root, ROOT_ENTRIES, &limit.to_le_bytes())?;
        let upper = Entry { hash: upper_hash(&items, k), block: 2 };
        put_entries(root, ROOT_ENTRIES, &[Entry { hash: 0, block: 1 }, upper])?;
        // Of a directory that may have an index in memory: names moved without a word.
        tx.index_drop(dir);
        Ok(true)
    }
}
