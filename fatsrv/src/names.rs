//! Operations on names.
//!
//! The order on disk, with the crash case behind each rule:
//!
//! * A new directory's cluster, with its dots, and its chain come before the entry that names it;
//!   else the entry names whatever the cluster held.
//! * A rename writes the new entry before the old one goes: power loss leaves both names or either,
//!   never none. A directory's `..` changes between the two, so that one of its names agrees with
//!   it. Where the new name exists, its entry takes over the node in one slot, which is
//!   written as a whole.
//! * An entry goes before its clusters are free, so no entry points to a free cluster.

use crate::Fat;
use crate::boot::SLOT;
use crate::dir::{Dir, Hit};
use crate::entry::{self, ATTR_ARCHIVE, ATTR_DIRECTORY, RawEntry};
use crate::node::{Node, Place};
use crate::volume::ROOT;
use alloc::format;
use seawall_diskfs::bytes::put;
use seawall_diskfs::{
    Attempt, Change, FsError, Ino, NewNode, Refused, RenameFlags, Site, Stage, Timestamp, Tx,
    Unlinked,
};

impl Fat {
    /// A new entry's times.
    fn born(&self, now: Timestamp) -> RawEntry {
        let (date, time, tenths) = self.opts.zone.to_dos(now);
        RawEntry {
            crt_tenths: tenths,
            crt_time: time,
            crt_date: date,
            acc_date: date,
            mod_time: time,
            mod_date: date,
            ..RawEntry::default()
        }
    }

    /// Finds a name's node. A subdirectory must name this directory as its parent: one that does
    /// not is reached twice, or leads back up.
    pub(crate) fn find_node(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Ino>> {
        let dir = self.dir(dir)?;
        let Some(hit) = self.find_name(tx, &dir, name)? else { return Ok(None) };
        let ino = self.number(tx, &hit.found.raw, hit.pos);
        if hit.found.raw.is_dir() {
            self.check_subdir(tx, &dir, &hit, ino)?;
        }
        Ok(Some(ino))
    }

    fn check_subdir(&self, tx: &mut Tx<'_>, dir: &Dir, hit: &Hit, ino: Ino) -> Attempt<()> {
        let bs = u64::from(self.boot.block_size);
        let start = self.start(&hit.found.raw);
        if ino == ROOT || self.boot.cluster_start(start).is_none() {
            let what = format!("a subdirectory begins at cluster {start}");
            return Err(FsError::corrupt("directory entry", hit.pos / bs, what).into());
        }
        let parent = self.parent_of(tx, &self.dir(ino)?)?;
        if parent != dir.ino {
            let what = format!("the directory at cluster {start} has another parent");
            return Err(FsError::corrupt("directory entry", hit.pos / bs, what).into());
        }
        self.learn_dir(tx, ino, hit.pos);
        Ok(())
    }

    /// Notes a change of a directory's names in its times.
    fn stamp_dir(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<()> {
        if dir == ROOT {
            return Ok(());
        }
        let mut node = self.node(tx, dir)?;
        let (date, time, _) = self.opts.zone.to_dos(tx.now());
        if (node.raw.mod_date, node.raw.mod_time) == (date, time) {
            return Ok(());
        }
        node.raw.mod_date = date;
        node.raw.mod_time = time;
        self.put_node(tx, &node, Stage::Any)
    }

    pub(crate) fn create_node(
        &self,
        tx: &mut Tx<'_>,
        parent: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
    ) -> Attempt<Ino> {
        let wanted = self.opts.rules.parse_new(name)?;
        let dir = self.dir(parent)?;
        let mut raw = self.born(tx.now());
        let ino = match node {
            NewNode::File => {
                let read_only = mode & 0o222 == 0 && self.opts.fmask & 0o222 != 0o222;
                raw.attr = ATTR_ARCHIVE | if read_only { entry::ATTR_READ_ONLY } else { 0 };
                let pos = self.insert(tx, &dir, &wanted, &raw, None)?;
                self.new_number(tx, pos)
            }
            NewNode::Dir => {
                raw.attr = ATTR_DIRECTORY;
                let cluster = self.take(tx, parent, dir.start, 1)?.first;
                raw.set_first_cluster(cluster, self.wide());
                let ino = self.dir_at(cluster);
                self.make_dots(tx, ino, cluster, parent, &raw)?;
                let pos = self.insert(tx, &dir, &wanted, &raw, None)?;
                self.forget_node(tx, ino);
                self.moved(tx, ino, None, pos);
                self.set_subdirs(tx, ino, Some(0));
                self.count_subdirs(tx, parent, 1);
                ino
            }
            NewNode::Symlink(_) | NewNode::Special(..) => {
                return Err(Refused::NotPermitted.into());
            }
        };
        tx.touch(ino);
        tx.named(parent, ino);
        self.stamp_dir(tx, parent)?;
        Ok(ino)
    }

    fn make_dots(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        cluster: u32,
        parent: Ino,
        raw: &RawEntry,
    ) -> Attempt<()> {
        self.clear_cluster(tx, ino, cluster)?;
        let block = self.block_of(cluster).ok_or(FsError::Bug("a new directory's cluster"))?;
        let change = Change { site: Site::Dirent, stage: Stage::Init, owner: Some(ino) };
        let dot = RawEntry { name: entry::DOT, ..*raw };
        let mut up = RawEntry { name: entry::DOT_DOT, ..*raw };
        up.set_first_cluster(crate::node::dir_cluster(parent).unwrap_or(0), self.wide());
        let buf = tx.modify(block, "directory block", change)?;
        put(buf, 0, &dot.to_bytes())?;
        Ok(put(buf, SLOT as usize, &up.to_bytes())?)
    }

    pub(crate) fn unlink_node(
        &self,
        tx: &mut Tx<'_>,
        parent: Ino,
        name: &[u8],
        rmdir: bool,
    ) -> Attempt<Unlinked> {
        let dir = self.dir(parent)?;
        let hit = self.find_name(tx, &dir, name)?.ok_or(Refused::NotFound)?;
        let ino = self.number(tx, &hit.found.raw, hit.pos);
        if rmdir {
            self.check_subdir(tx, &dir, &hit, ino)?;
            if !self.is_empty_dir(tx, &self.dir(ino)?)? {
                return Err(Refused::NotEmpty.into());
            }
            self.set_subdirs(tx, ino, None);
            self.count_subdirs(tx, parent, -1);
        }
        self.remove(tx, &dir, &hit, Stage::Unlink)?;
        self.lost_entry(tx, ino, &hit.found.raw, Some(hit.pos));
        tx.touch(ino);
        self.stamp_dir(tx, parent)?;
        Ok(Unlinked { ino, nlink: 0 })
    }

    pub(crate) fn rename_node(
        &self,
        tx: &mut Tx<'_>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Attempt<Option<Unlinked>> {
        if flags.exchange {
            // Two entries cannot be swapped so that power loss leaves either both or none.
            return Err(Refused::Invalid.into());
        }
        let (a, b) = (self.dir(from.0)?, self.dir(to.0)?);
        let source = self.find_name(tx, &a, from.1)?.ok_or(Refused::NotFound)?;
        let ino = self.number(tx, &source.found.raw, source.pos);
        let target = self.find_name(tx, &b, to.1)?.filter(|t| t.pos != source.pos);
        let is_dir = source.found.raw.is_dir();
        let (pos, left) = match &target {
            Some(t) => (t.pos, Some(self.take_over(tx, &b, &source, t)?)),
            None => {
                let wanted = self.opts.rules.parse_new(to.1)?;
                let own = (a.ino == b.ino).then_some(source.found.slot);
                (self.insert(tx, &b, &wanted, &source.found.raw, own)?, None)
            }
        };
        if is_dir && a.ino != b.ino {
            self.set_parent(tx, ino, b.ino)?;
            self.count_subdirs(tx, a.ino, -1);
            self.count_subdirs(tx, b.ino, 1);
        }
        // The name that `..` agrees with is there at any time: new name, `..`, old name.
        let away = if is_dir && a.ino != b.ino { Stage::Free } else { Stage::Unlink };
        self.remove(tx, &a, &source, away)?;
        self.moved(tx, ino, Some(source.pos), pos);
        tx.touch(ino);
        tx.named(to.0, ino);
        self.stamp_dir(tx, from.0)?;
        if to.0 != from.0 {
            self.stamp_dir(tx, to.0)?;
        }
        Ok(left)
    }

    /// Puts the source's node under the target's name, in the target's slot.
    fn take_over(&self, tx: &mut Tx<'_>, dir: &Dir, source: &Hit, t: &Hit) -> Attempt<Unlinked> {
        let old = self.number(tx, &t.found.raw, t.pos);
        if t.found.raw.is_dir() {
            self.check_subdir(tx, dir, t, old)?;
            if !self.is_empty_dir(tx, &self.dir(old)?)? {
                return Err(Refused::NotEmpty.into());
            }
            self.set_subdirs(tx, old, None);
            self.count_subdirs(tx, dir.ino, -1);
        }
        let case = entry::NT_LOWER_BASE | entry::NT_LOWER_EXT;
        let nt = source.found.raw.nt & !case | t.found.raw.nt & case;
        let raw = RawEntry { name: t.found.raw.name, nt, ..source.found.raw };
        self.lost_entry(tx, old, &t.found.raw, Some(t.pos));
        tx.touch(old);
        let node = Node { ino: dir.ino, raw, place: Place::Slot(t.pos) };
        self.put_node(tx, &node, Stage::Link)?;
        tx.dir_changed(dir.ino);
        tx.touch(dir.ino);
        tx.index_keep(dir.ino);
        Ok(Unlinked { ino: old, nlink: 0 })
    }
}
