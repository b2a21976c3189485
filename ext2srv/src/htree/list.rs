//! Listing a directory in the order of its hashes, as Linux does: names move to other blocks when
//! a leaf is split, their hashes stay. A directory of one block is listed the same way, because it
//! may get an index while somebody reads it.
//!
//! A position is 31 bits of the hash over 30 bits of another one of the same name. Names that agree
//! in both stand one behind the other, each a position further.

use super::{LEAF, Path, unless_damaged};
use crate::Ext2;
use crate::dirent::{check_name, kind_of};
use crate::inode::Inode;
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, DirEntry, FsError, Ino, Tx, name_hash};

/// Set in every cookie that is a position, which a place in bytes never has.
const POSITION: u64 = 1 << 62;
/// Positions of `.` and `..`.
const DOTS: u64 = 2;
const LOW_BITS: u32 = 30;
/// Bytes of blocks that names with one hash may fill.
const CHAIN_BYTES: u64 = 4 << 20;

struct Item {
    key: u64,
    entry: DirEntry,
}

fn cookie(position: u64) -> u64 {
    POSITION | position
}

/// Sends `entry` when the listing has got there. False: it was not taken.
fn send(
    want: u64,
    position: u64,
    mut entry: DirEntry,
    emit: &mut dyn FnMut(DirEntry) -> bool,
) -> bool {
    entry.next = cookie(position + 1);
    position < want || emit(entry)
}

impl Ext2 {
    /// True when a directory is listed by hash.
    pub(crate) fn lists_by_hash(&self, inode: &Inode) -> bool {
        self.is_indexed(inode) || self.has_dir_index() && inode.size == self.block_bytes()
    }

    /// Lists a directory from a cookie on. False: it has no tree to go by.
    pub(crate) fn list_by_hash(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<bool> {
        let want = if cookie & POSITION != 0 { cookie & !POSITION } else { 0 };
        let from = hash_at(want);
        let path = if self.is_indexed(inode) {
            match unless_damaged(self.probe(tx, (dir, inode), |_| from))? {
                Some(path) => Some(path),
                None => return Ok(false),
            }
        } else {
            None
        };
        let version = path.as_ref().map_or(self.sb.hashing.version, |p| p.version);
        let mut items = Vec::new();
        let dots = self.gather(tx, (dir, inode), 0, (version, from), &mut items)?;
        for (position, entry) in (0..).zip(dots) {
            if !send(want, position, entry, emit) {
                return Ok(true);
            }
        }
        match path {
            None => _ = send_all(want, items, emit),
            Some(path) => self.list_leaves(tx, (dir, inode), path, want, emit)?,
        }
        Ok(true)
    }

    fn list_leaves(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        mut path: Path,
        want: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<()> {
        let hashed = (path.version, hash_at(want));
        loop {
            let mut items = Vec::new();
            self.gather(tx, (dir, inode), path.leaf, hashed, &mut items)?;
            let mut bytes = 0;
            let next = loop {
                let next = self.next_leaf(tx, (dir, inode), &mut path)?;
                if next.is_none_or(|h| h & 1 == 0) {
                    break next;
                }
                bytes += self.block_bytes();
                if bytes > CHAIN_BYTES {
                    let what = "more names with one hash than can be listed";
                    return Err(FsError::corrupt(super::WHAT, 0, what).into());
                }
                self.gather(tx, (dir, inode), path.leaf, hashed, &mut items)?;
            };
            if !send_all(want, items, emit) || next.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads the names of a directory block with hashes from `from` on. Returns `.` and `..` apart.
    fn gather(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        block: u64,
        (version, from): (u8, u32),
        items: &mut Vec<Item>,
    ) -> Attempt<Vec<DirEntry>> {
        let (disk, _) = self.dir_run(tx, dir, inode, block, block + 1)?;
        let b = tx.read(disk, LEAF)?;
        self.check_dir_sum(inode, &b, disk)?;
        let mut dots = Vec::new();
        let bad = self.dir_limits().walk(&b, disk, |r| {
            if r.ino == 0 {
                return None;
            }
            if let Err(e) = check_name(r.name, disk) {
                return Some(e);
            }
            let (ino, kind) = (Ino(u64::from(r.ino)), kind_of(r.file_type));
            let entry = |name: &[u8]| DirEntry { ino, kind, next: 0, name: name.to_vec() };
            if matches!(r.name, b"." | b"..") {
                dots.push(entry(r.name));
                return None;
            }
            let hash = self.sb.hashing.hash(version, r.name);
            if hash >= from {
                let low = u64::from(name_hash(r.name) >> (32 - LOW_BITS));
                let key = u64::from(hash >> 1) << LOW_BITS | low;
                items.push(Item { key, entry: entry(r.name) });
            }
            None
        })?;
        match bad {
            Some(e) => Err(e.into()),
            None => Ok(dots),
        }
    }
}

/// The lowest hash that may stand at a position.
fn hash_at(position: u64) -> u32 {
    u32::try_from(position.saturating_sub(DOTS) >> LOW_BITS << 1).unwrap_or(u32::MAX)
}

/// Sends names in order. False: one was not taken.
fn send_all(want: u64, mut items: Vec<Item>, emit: &mut dyn FnMut(DirEntry) -> bool) -> bool {
    items.sort_unstable_by(|a, b| (a.key, &a.entry.name).cmp(&(b.key, &b.entry.name)));
    let mut free = 0;
    for item in items {
        let position = free.max(DOTS + item.key);
        free = position + 1;
        if !send(want, position, item.entry, emit) {
            return false;
        }
    }
    true
}
