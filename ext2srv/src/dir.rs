//! Directories: searching, listing, adding and removing names.
//!
//! A directory with an index on disk is searched through that ([`crate::htree`]). Another one of
//! more than [`INDEX_MIN`] bytes is searched through an index in memory
//! ([`IndexBuild`](seawall_diskfs::IndexBuild)): a place is a byte of the directory, a chunk a
//! block, room is counted in units of 4 bytes. The same search without an index goes through the
//! blocks, and gives the same result.
//!
//! Such searches are linear. A search longer than [`LONG_SCAN`] blocks keeps its place in the
//! ticket, so an operation that is restarted for missing blocks does not begin anew each time.
//! Because two searches of one operation may share that place, a search that began there goes
//! round: "absent" is said only after every block was seen.

use crate::Ext2;
use crate::dirent::{check_name, kind_of, need, slack};
use crate::inode::{FL_INDEX, Inode};
use alloc::format;
use seawall_diskfs::{
    Attempt, Change, DirEntry, Extent, Fault, FsError, Ino, Kind, Mapping, Refused, Site, Stage,
    Tx, name_hash,
};

const WHAT: &str = "directory block";
/// Scans of more blocks keep their place across attempts.
const LONG_SCAN: u64 = 8;
/// Directories of at most this many bytes are searched without an index.
const INDEX_MIN: u64 = 4096;
/// Bytes of a directory for each name that its index has to hold, at least: names of 8 bytes.
const NAME_BYTES: u64 = 16;
/// Blocks mapped at a time.
const MAP_AHEAD: u64 = 256;

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Filesystem block.
    pub(crate) block: u64,
    /// Block of the directory.
    pub(crate) index: u64,
    /// Byte in the block.
    pub(crate) off: usize,
    /// Inode that the record names.
    pub(crate) ino: Ino,
}

/// Called with a block's place in the directory, its number and its bytes; `Some` ends the search.
type OnBlock<'f, T> = dyn FnMut(u64, u64, &[u8]) -> Result<Option<T>, FsError> + 'f;

/// A change of a directory block.
pub(crate) fn dirent(dir: Ino, stage: Stage) -> Change {
    Change { site: Site::Dirent, stage, owner: Some(dir) }
}

/// Room in the units of an index.
fn units(bytes: usize) -> u16 {
    u16::try_from(bytes / 4).unwrap_or(u16::MAX)
}

/// Key of the hint that says where a directory may have room.
fn room_hint(dir: Ino) -> u64 {
    dir.0 << 8 | 1
}

impl Ext2 {
    /// Blocks of a directory. It has no holes, so it cannot be larger than the volume.
    pub(crate) fn dir_blocks(&self, dir: Ino, inode: &Inode) -> Result<u64, FsError> {
        let n = inode.size / self.block_bytes();
        if !inode.size.is_multiple_of(self.block_bytes()) || n > self.sb.blocks {
            let what = format!("directory inode {} has size {}", dir.0, inode.size);
            return Err(FsError::corrupt("inode", 0, what));
        }
        Ok(n)
    }

    /// The longest known run of a directory's blocks from `index` on.
    pub(crate) fn dir_run(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        index: u64,
        end: u64,
    ) -> Attempt<(u64, u64)> {
        let range = Extent { start: index, len: (end - index).min(MAP_AHEAD) };
        let run = if range.len == 1 {
            self.map_one(tx, inode, index)?.map(|disk| (disk, 1))
        } else {
            let runs = self.map_blocks(tx, inode, range)?;
            runs.first().and_then(|m| Some((m.disk?, m.len)))
        };
        run.ok_or_else(|| {
            let what = format!("directory inode {} has a hole at block {index}", dir.0);
            FsError::corrupt("block map", 0, what).into()
        })
    }

    /// Calls `f(index, block, bytes)` for the directory's blocks in `from..to` until it returns
    /// `Some`.
    fn each_block<T>(
        &self,
        tx: &mut Tx<'_>,
        (dir, inode): (Ino, &Inode),
        (from, to): (u64, u64),
        keep_place: bool,
        f: &mut OnBlock<'_, T>,
    ) -> Attempt<Option<T>> {
        let mut at = from;
        while at < to {
            let (disk, len) = self.dir_run(tx, dir, inode, at, to)?;
            for i in 0..len {
                if keep_place && at + i >= LONG_SCAN {
                    tx.set_resume(dir, at + i);
                }
                let (index, block) = (at + i, disk + i);
                if let Some(t) = tx.with(block, len - i, WHAT, |b| f(index, block, b))? {
                    return Ok(Some(t));
                }
            }
            at += len;
        }
        Ok(None)
    }

    /// As [`Self::each_block`] over the whole directory, from where an earlier attempt stopped and
    /// round.
    fn each_block_round<T>(
        &self,
        tx: &mut Tx<'_>,
        dir: (Ino, &Inode),
        f: &mut OnBlock<'_, T>,
    ) -> Attempt<Option<T>> {
        let blocks = self.dir_blocks(dir.0, dir.1)?;
        let start = tx.resume(dir.0).min(blocks);
        if let Some(t) = self.each_block(tx, dir, (start, blocks), true, f)? {
            return Ok(Some(t));
        }
        self.each_block(tx, dir, (0, start), false, f)
    }

    /// Where a byte of a block stands in the directory. A directory is smaller than 4 GiB.
    fn place(&self, index: u64, off: usize) -> u32 {
        u32::try_from(index * self.block_bytes() + off as u64).unwrap_or(u32::MAX)
    }

    /// Makes an index of a large directory, unless there is one. False: search without.
    fn indexed(&self, tx: &mut Tx<'_>, dir: Ino, inode: &Inode) -> Attempt<bool> {
        if inode.size <= INDEX_MIN {
            return Ok(false);
        }
        if tx.index_ready(dir) {
            return Ok(true);
        }
        let blocks = self.dir_blocks(dir, inode)?;
        let Some(mut build) = tx.index_begin(dir, inode.size / NAME_BYTES) else {
            return Ok(false);
        };
        let limits = self.dir_limits();
        let from = build.next();
        let scan = self.each_block(tx, (dir, inode), (from, blocks), false, &mut |i, block, b| {
            self.check_dir_sum(inode, b, block)?;
            let mut room = 0;
            limits.walk(b, block, |r| {
                if r.ino != 0 {
                    build.name(name_hash(r.name), self.place(i, r.off));
                }
                room = room.max(slack(&r));
                None::<()>
            })?;
            Ok((!build.chunk(units(room))).then_some(()))
        });
        match scan {
            Ok(None) => {
                tx.index_install(build);
                Ok(tx.index_ready(dir))
            }
            Err(Fault::Need(need)) => {
                tx.index_park(build);
                Err(Fault::Need(need))
            }
            Ok(Some(())) | Err(Fault::Err(_)) => {
                tx.index_refuse(dir);
                Ok(false)
            }
            Err(wait) => Err(wait),
        }
    }

    /// Finds a name by the directory's index. `None`: the index does not agree with the blocks.
    fn find_indexed(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        name: &[u8],
    ) -> Attempt<Option<Option<Spot>>> {
        let limits = self.dir_limits();
        let hash = name_hash(name);
        let mut after = None;
        while let Some(place) = tx.index_next(dir, hash, after) {
            let (index, off) = (u64::from(place) / self.block_bytes(), place % self.sb.block_size);
            let off = off as usize;
            if u64::from(place) >= inode.size {
                tx.index_drop(dir);
                return Ok(None);
            }
            let (block, _) = self.dir_run(tx, dir, inode, index, index + 1)?;
            // 0: another name with the same hash.
            let found = tx.with(block, 1, WHAT, |b| {
                self.check_dir_sum(inode, b, block)?;
                Ok(match limits.record(b, off, block) {
                    Ok(r) if r.ino != 0 && r.name == name => Some(r.ino),
                    Ok(r) if r.ino != 0 && name_hash(r.name) == hash => Some(0),
                    _ => None,
                })
            })?;
            match found {
                Some(0) => {}
                Some(ino) => {
                    let ino = Ino(u64::from(ino));
                    return Ok(Some(Some(Spot { block, index, off, ino })));
                }
                None => {
                    tx.index_drop(dir);
                    return Ok(None);
                }
            }
            after = Some(place);
        }
        Ok(Some(None))
    }

    /// Finds a name. A damaged block hides its own names alone: of one that is not found elsewhere
    /// nothing can be said.
    pub(crate) fn find(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        name: &[u8],
    ) -> Attempt<Option<Spot>> {
        if let Some(found) = self.find_in_tree(tx, dir, inode, name)? {
            return Ok(found);
        }
        if self.indexed(tx, dir, inode)?
            && let Some(found) = self.find_indexed(tx, dir, inode, name)?
        {
            return Ok(found);
        }
        let limits = self.dir_limits();
        let mut damage = None;
        let found = self.each_block_round(tx, (dir, inode), &mut |index, block, b| {
            let sum = self.check_dir_sum(inode, b, block);
            match sum.and_then(|()| limits.find(b, block, name)) {
                Ok(found) => {
                    let spot = |(off, ino)| Spot { block, index, off, ino: Ino(u64::from(ino)) };
                    Ok(found.map(spot))
                }
                Err(e @ FsError::Corrupt(_)) => {
                    damage.get_or_insert(e);
                    Ok(None)
                }
                Err(e) => Err(e),
            }
        })?;
        match (found, damage) {
            (None, Some(e)) => Err(e.into()),
            (found, _) => Ok(found),
        }
    }

    /// Finds a name that must be there.
    pub(crate) fn find_known(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &Inode,
        name: &[u8],
    ) -> Attempt<Spot> {
        self.find(tx, dir, inode, name)?.ok_or_else(|| Refused::NotFound.into())
    }

    /// `NotEmpty` when the directory holds more than `.` and `..`.
    pub(crate) fn check_empty(&self, tx: &mut Tx<'_>, dir: Ino, inode: &Inode) -> Attempt<()> {
        let limits = self.dir_limits();
        let other = self.each_block_round(tx, (dir, inode), &mut |_, block, b| {
            limits
                .walk(b, block, |r| (r.ino != 0 && r.name != b"." && r.name != b"..").then_some(()))
        })?;
        if other.is_some() {
            return Err(Refused::NotEmpty.into());
        }
        Ok(())
    }

    /// Lists records from `cookie` on: by hash where the directory has or may get an index, else a
    /// cookie is a byte of the directory.
    pub(crate) fn list(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<()> {
        let inode = self.dir_inode(tx, dir)?;
        if self.lists_by_hash(&inode) && self.list_by_hash(tx, dir, &inode, cookie, emit)? {
            return Ok(());
        }
        let limits = self.dir_limits();
        let bs = self.block_bytes();
        let blocks = self.dir_blocks(dir, &inode)?;
        // A position in an index that is gone: again from the start, since twice is not lost.
        let cookie = if cookie > u64::from(u32::MAX) { 0 } else { cookie };
        let from = (cookie / bs).min(blocks);
        self.each_block(tx, (dir, &inode), (from, blocks), false, &mut |index, block, b| {
            self.check_dir_sum(&inode, b, block)?;
            // A record at the cookie may have been merged away: go on at the first one behind it.
            let end = limits.walk(b, block, |r| {
                let here = index * bs + r.off as u64;
                if here < cookie || r.ino == 0 {
                    return None;
                }
                if let Err(e) = check_name(r.name, block) {
                    return Some(Err(e));
                }
                let entry = DirEntry {
                    ino: Ino(u64::from(r.ino)),
                    kind: kind_of(r.file_type),
                    next: here + r.len as u64,
                    name: r.name.to_vec(),
                };
                (!emit(entry)).then_some(Ok(()))
            })?;
            end.transpose()
        })?;
        Ok(())
    }

    /// Takes the index flag off a directory: the records stay right, the index would not.
    pub(crate) fn drop_tree(&self, tx: &mut Tx<'_>, dir: Ino, inode: &mut Inode) -> Attempt<()> {
        if inode.flags & FL_INDEX != 0 {
            inode.flags &= !FL_INDEX;
            tx.touch(dir);
            self.put_inode(tx, dir, inode, Stage::Prepare)?;
        }
        Ok(())
    }

    /// Adds a name at stage `Link` and sets the directory's times.
    pub(crate) fn add_name(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        ino: Ino,
        kind: Kind,
    ) -> Attempt<()> {
        let mut inode = self.dir_inode(tx, dir)?;
        if inode.links == 0 {
            return Err(Refused::NotFound.into());
        }
        let tree = self.keeps_tree(tx, dir, &mut inode, name)?;
        tx.dir_changed(dir);
        tx.named(dir, ino);
        let entry = (ino.0 as u32, kind, name);
        if tree {
            if self.tree_add(tx, dir, &mut inode, entry)? {
                return Ok(());
            }
            self.drop_tree(tx, dir, &mut inode)?;
        }
        let limits = self.dir_limits();
        let blocks = self.dir_blocks(dir, &inode)?;
        let from = tx.hint(room_hint(dir)).unwrap_or(0).min(blocks.saturating_sub(1));
        let mut fits = |i: u64, block: u64, b: &[u8]| {
            Ok(limits.room(b, block, name.len())?.map(|off| (i, block, off)))
        };
        let known = tx.index_room(dir, from, units(need(name.len())));
        let span = match known {
            Some(Some(index)) => (index, blocks.min(index + 1)),
            Some(None) => (blocks, blocks),
            None => (from, blocks),
        };
        let mut room = self.each_block(tx, (dir, &inode), span, false, &mut fits)?;
        if room.is_none() && span.0 < span.1 && known.is_some() {
            tx.index_drop(dir);
            room = self.each_block(tx, (dir, &inode), (from, blocks), false, &mut fits)?;
        }
        let Some((index, block, off)) = room else {
            if self.makes_tree(&inode) && self.make_tree(tx, dir, &mut inode, entry)? {
                return Ok(());
            }
            return self.append_block(tx, dir, &mut inode, blocks, entry);
        };
        if index >= LONG_SCAN && index != from {
            tx.set_hint(room_hint(dir), index);
        }
        let b = tx.modify(block, WHAT, dirent(dir, Stage::Link))?;
        let off = limits.insert(b, block, off, entry)?;
        let left = limits.most_room(b, block)?;
        tx.index_add(dir, name_hash(name), self.place(index, off));
        tx.index_set_room(dir, index, units(left));
        let now = tx.now();
        self.update_inode(tx, dir, Stage::Any, |d| {
            d.mtime = now;
            d.ctime = now;
        })
    }

    /// Grows the directory by a block that already holds the entry; pointer and size follow.
    fn append_block(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        index: u64,
        entry: (u32, Kind, &[u8]),
    ) -> Attempt<()> {
        let size = (index + 1) * self.block_bytes();
        // A directory's size has 32 bits on disk.
        if size > u64::from(u32::MAX) {
            return Err(Refused::NoSpace.into());
        }
        let run = self.map_filled(tx, dir, inode, Extent { start: index, len: 1 })?;
        let disk = match run.first() {
            Some(Mapping { disk: Some(disk), fresh: true, .. }) => *disk,
            Some(Mapping { disk: Some(disk), .. }) => {
                return Err(
                    FsError::corrupt("block map", *disk, "a block past a directory's end").into()
                );
            }
            _ => return Err(FsError::Bug("a directory did not grow").into()),
        };
        let b = tx.create_block(disk, WHAT, dirent(dir, Stage::Init))?;
        let len = b.len();
        self.dir_limits().write(b, 0, len, entry)?;
        tx.index_add(dir, name_hash(entry.2), self.place(index, 0));
        tx.index_set_room(dir, index, units(len - need(entry.2.len())));
        inode.size = size;
        inode.mtime = tx.now();
        inode.ctime = tx.now();
        tx.touch(dir);
        if index >= LONG_SCAN {
            tx.set_hint(room_hint(dir), index);
        }
        self.put_inode(tx, dir, inode, Stage::Link)
    }

    /// Makes a new directory's first block with `.` and `..`, and a one-block map in `inode`.
    pub(crate) fn first_block(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        inode: &mut Inode,
        parent: Ino,
    ) -> Attempt<()> {
        let block = self.alloc_run(tx, self.home_goal(dir)?, 1)?.start;
        let b = tx.create_block(block, WHAT, dirent(dir, Stage::Init))?;
        let limits = self.dir_limits();
        let dot = need(1);
        let rest = b.len() - dot;
        limits.write(b, 0, dot, (dir.0 as u32, Kind::Dir, b"."))?;
        limits.write(b, dot, rest, (parent.0 as u32, Kind::Dir, b".."))?;
        if let Some(p) = inode.block.first_mut() {
            *p = block as u32;
        }
        inode.size = self.block_bytes();
        inode.sectors = self.sectors();
        Ok(())
    }

    /// Removes the record at `spot` at stage `Unlink` and sets the directory's times.
    pub(crate) fn remove_name(&self, tx: &mut Tx<'_>, dir: Ino, spot: Spot) -> Attempt<()> {
        let mut inode = self.dir_inode(tx, dir)?;
        let gone = self.dir_limits().name_at(&tx.read(spot.block, WHAT)?, spot.off, spot.block)?;
        self.keeps_tree(tx, dir, &mut inode, &gone)?;
        tx.dir_changed(dir);
        if tx.hint(room_hint(dir)).is_some_and(|h| h > spot.index) {
            tx.set_hint(room_hint(dir), spot.index);
        }
        let limits = self.dir_limits();
        let b = tx.modify(spot.block, WHAT, dirent(dir, Stage::Unlink))?;
        let hash = name_hash(&gone);
        limits.remove(b, spot.block, spot.off)?;
        let left = limits.most_room(b, spot.block)?;
        tx.index_remove(dir, hash, self.place(spot.index, spot.off));
        tx.index_set_room(dir, spot.index, units(left));
        let now = tx.now();
        self.update_inode(tx, dir, Stage::Any, |d| {
            d.mtime = now;
            d.ctime = now;
        })
    }

    /// Points the record at `spot` to another inode: one name, old or new.
    pub(crate) fn retarget(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        spot: Spot,
        (ino, kind): (Ino, Kind),
        stage: Stage,
    ) -> Attempt<()> {
        let mut inode = self.dir_inode(tx, dir)?;
        let name = self.dir_limits().name_at(&tx.read(spot.block, WHAT)?, spot.off, spot.block)?;
        self.keeps_tree(tx, dir, &mut inode, &name)?;
        tx.dir_changed(dir);
        let b = tx.modify(spot.block, WHAT, dirent(dir, stage))?;
        self.dir_limits().retarget(b, spot.off, ino.0 as u32, kind)?;
        tx.index_keep(dir);
        let now = tx.now();
        self.update_inode(tx, dir, Stage::Any, |d| {
            d.mtime = now;
            d.ctime = now;
        })
    }
}
