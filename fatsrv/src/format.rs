//! [`Fat`] as a [`Format`].

use crate::Fat;
use crate::attributes::DOSATTRIB;
use crate::entry::{ATTR_ARCHIVE, ATTR_DIRECTORY, ATTR_READ_ONLY};
use crate::node::{Node, Place};
use crate::size::SIZE_MAX;
use crate::volume::ROOT;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use seawall_diskfs::{
    Attempt, Attr, DirEntry, Extent, Format, FsError, Geometry, Ino, Kind, Mapping, NewNode,
    Refused, RenameFlags, SetAttr, SetTime, Stage, StatFs, Timestamp, Tx, Unlinked,
};

/// Longest name: 255 UTF-16 units are at most so many bytes of UTF-8.
const NAME_BYTES: usize = 255 * 3;
/// The write bits.
const WRITE: u32 = 0o222;

impl Fat {
    fn mask(&self, dir: bool) -> u32 {
        if dir { self.opts.dmask } else { self.opts.fmask }
    }

    /// The read-only attribute can be shown as, and set by, the write bits.
    fn holds_read_only(&self, dir: bool) -> bool {
        (!dir || self.opts.rodir) && WRITE & !self.mask(dir) != 0
    }

    fn mode(&self, node: &Node) -> u32 {
        let dir = node.raw.attr & ATTR_DIRECTORY != 0;
        let locked = node.raw.attr & ATTR_READ_ONLY != 0 && (!dir || self.opts.rodir);
        (0o777 & !self.mask(dir)) & if locked { !WRITE } else { !0 }
    }

    fn attributes(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Attr> {
        let node = self.node(tx, ino)?;
        let dir = node.raw.is_dir();
        let (size, nlink) = match (dir, node.place) {
            (true, Place::Nameless) => (0, 0),
            (true, _) => {
                let d = self.dir(ino)?;
                (u64::from(self.dir_slots(tx, &d)?) * 32, self.subdirs(tx, &d)? + 2)
            }
            (false, place) => (u64::from(node.raw.size), u32::from(place != Place::Nameless)),
        };
        let raw = &node.raw;
        let zone = self.opts.zone;
        let root = ino == ROOT;
        let time = |t: Timestamp| if root { Timestamp::default() } else { t };
        let changed = time(zone.to_utc(raw.mod_date, raw.mod_time, 0));
        let cluster = u64::from(self.boot.cluster);
        Ok(Attr {
            ino,
            generation: u32::from(raw.crt_date) << 16
                ^ u32::from(raw.crt_time) << 8
                ^ u32::from(raw.crt_tenths),
            kind: if dir { Kind::Dir } else { Kind::File },
            mode: self.mode(&node),
            nlink,
            uid: self.opts.uid,
            gid: self.opts.gid,
            size,
            blocks: size.div_ceil(cluster) * (cluster / 512),
            blksize: self.boot.cluster,
            rdev: (0, 0),
            atime: time(zone.to_utc(raw.acc_date, 0, 0)),
            mtime: changed,
            ctime: changed,
            btime: (!root).then(|| zone.to_utc(raw.crt_date, raw.crt_time, raw.crt_tenths)),
            flags: 0,
        })
    }

    /// What can be kept of a mode: with all write bits that the mask leaves, or with none. Linux
    /// lets everything else succeed without effect; see `fat_sanitize_mode` there.
    fn set_mode(&self, node: &mut Node, mode: u32) -> Result<(), Refused> {
        let dir = node.raw.is_dir();
        if mode & 0o7000 != 0 && !self.opts.quiet {
            return Err(Refused::NotPermitted);
        }
        let allowed = 0o777 & !self.mask(dir);
        let (rest, write) = (mode & allowed & !WRITE, mode & allowed & WRITE);
        if rest != allowed & !WRITE || !self.holds_read_only(dir) {
            return Ok(());
        }
        match write {
            0 => node.raw.attr |= ATTR_READ_ONLY,
            w if w == allowed & WRITE => node.raw.attr &= !ATTR_READ_ONLY,
            _ => {}
        }
        Ok(())
    }

    fn change_attributes(&self, tx: &mut Tx<'_>, ino: Ino, set: &SetAttr) -> Attempt<()> {
        let mut node = self.node(tx, ino)?;
        let owner = set.uid.is_some_and(|u| u != self.opts.uid)
            || set.gid.is_some_and(|g| g != self.opts.gid);
        if owner && !self.opts.quiet {
            return Err(Refused::NotPermitted.into());
        }
        let old = node.raw;
        if let Some(mode) = set.mode {
            self.set_mode(&mut node, mode)?;
        }
        let now = tx.now();
        let at = |t: SetTime| match t {
            SetTime::Omit => None,
            SetTime::Now => Some(self.opts.zone.to_dos(now)),
            SetTime::At(t) => Some(self.opts.zone.to_dos(t)),
        };
        if let Some((date, ..)) = at(set.atime) {
            node.raw.acc_date = date;
        }
        if let Some((date, time, _)) = at(set.mtime) {
            node.raw.mod_date = date;
            node.raw.mod_time = time;
        }
        if node.raw == old {
            return Ok(());
        }
        if !node.raw.is_dir() {
            node.raw.attr |= ATTR_ARCHIVE;
        }
        tx.touch(ino);
        self.put_node(tx, &node, Stage::Any)
    }

    /// Lists entries; the dots come first, whatever the directory holds.
    fn list(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<()> {
        let dir = self.dir(ino)?;
        if let Place::Nameless = self.node(tx, ino)?.place {
            return Ok(());
        }
        let dot = |ino, next, name: &[u8]| DirEntry {
            ino,
            kind: Some(Kind::Dir),
            next,
            name: name.to_vec(),
        };
        if cookie == 0 && !emit(dot(ino, 1, b".")) {
            return Ok(());
        }
        // A damaged `..` must not hide the names.
        if cookie <= 1 {
            let up = match self.parent_of(tx, &dir) {
                Err(seawall_diskfs::Fault::Err(_)) => ino,
                other => other?,
            };
            if !emit(dot(up, 2, b"..")) {
                return Ok(());
            }
        }
        let Ok(from) = u32::try_from(cookie.saturating_sub(2)) else { return Ok(()) };
        let mut entries = Vec::new();
        self.each_entry(tx, &dir, from, &mut |found, pos| {
            if !found.raw.is_dots() {
                entries.push((found.clone(), pos));
            }
            // A listing takes what fits into a reply.
            Ok(entries.len() < 1024)
        })?;
        for (found, pos) in entries {
            let is_dir = found.raw.is_dir();
            let e = DirEntry {
                ino: self.number(tx, &found.raw, pos),
                kind: Some(if is_dir { Kind::Dir } else { Kind::File }),
                next: u64::from(found.slot) + 3,
                name: self.opts.rules.shown(&found),
            };
            if !emit(e) {
                break;
            }
        }
        Ok(())
    }
}

impl Format for Fat {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: self.boot.block_size,
            blocks: self.boot.blocks(),
            root: ROOT,
            name_max: NAME_BYTES,
            // There are none, which a longer limit does not hide.
            symlink_max: 4095,
            size_max: SIZE_MAX,
            read_only: self.opts.read_only,
        }
    }

    fn was_clean(&self) -> bool {
        !self.marks.dirty
    }

    fn set_clean(&self, tx: &mut Tx<'_>, clean: bool) -> Attempt<()> {
        self.mark(tx, clean)
    }

    fn set_damaged(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        self.mark_damaged(tx)
    }

    fn statfs(&self, tx: &mut Tx<'_>) -> Attempt<StatFs> {
        let free = u64::from(self.free_total(tx)?);
        Ok(StatFs {
            block_size: self.boot.cluster,
            blocks: u64::from(self.boot.clusters),
            blocks_free: free,
            blocks_available: free,
            files: 0,
            files_free: 0,
            name_max: 255,
        })
    }

    fn attr(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Attr> {
        self.attributes(tx, ino)
    }

    fn set_attr(&self, tx: &mut Tx<'_>, ino: Ino, set: &SetAttr) -> Attempt<()> {
        self.change_attributes(tx, ino, set)
    }

    fn lookup(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Ino>> {
        self.find_node(tx, dir, name)
    }

    fn readdir(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Attempt<()> {
        self.list(tx, dir, cookie, emit)
    }

    fn readlink(&self, _tx: &mut Tx<'_>, _ino: Ino) -> Attempt<Vec<u8>> {
        Err(Refused::Invalid.into())
    }

    fn create(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        _owner: (u32, u32),
    ) -> Attempt<Ino> {
        self.create_node(tx, dir, name, node, mode)
    }

    fn link(&self, _tx: &mut Tx<'_>, _ino: Ino, _dir: Ino, _name: &[u8]) -> Attempt<()> {
        Err(Refused::NotPermitted.into())
    }

    fn unlink(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8], rmdir: bool) -> Attempt<Unlinked> {
        self.unlink_node(tx, dir, name, rmdir)
    }

    fn rename(
        &self,
        tx: &mut Tx<'_>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Attempt<Option<Unlinked>> {
        self.rename_node(tx, from, to, flags)
    }

    fn parent(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Ino> {
        let dir = self.dir(dir)?;
        self.parent_of(tx, &dir)
    }

    fn map(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>> {
        self.map_file(tx, ino, range)
    }

    fn map_alloc(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>> {
        self.map_filled(tx, ino, range)
    }

    fn wrote(&self, tx: &mut Tx<'_>, ino: Ino, size: u64, _clear_setid: bool) -> Attempt<()> {
        self.note_write(tx, ino, size)
    }

    fn truncate_step(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<bool> {
        self.cut_step(tx, ino, size)
    }

    fn free_inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        self.forget_node(tx, ino);
        tx.forget_runs(ino, 0);
        tx.free_inode(ino);
        Ok(())
    }

    fn set_atime(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let mut node = self.node(tx, ino)?;
        let (date, ..) = self.opts.zone.to_dos(tx.now());
        if node.raw.acc_date == date {
            return Ok(());
        }
        node.raw.acc_date = date;
        self.put_node_quietly(tx, &node)
    }

    fn describe(&self, tx: &mut Tx<'_>) -> Attempt<Option<String>> {
        self.describe_volume(tx).map(Some)
    }

    fn set_next_free(&self, tx: &mut Tx<'_>, unit: u64) -> Attempt<()> {
        let cluster = u32::try_from(unit).ok();
        let inside = cluster.filter(|c| self.boot.cluster_start(*c).is_some());
        let Some(cluster) = inside else {
            let last = self.boot.cluster_end() - 1;
            let what = format!("cluster {unit}: this volume has 2 to {last}");
            return Err(FsError::unsupported(what).into());
        };
        self.set_next_cluster(tx, cluster);
        Ok(())
    }

    fn has_xattrs(&self) -> bool {
        true
    }

    fn has_acls(&self) -> bool {
        false
    }

    fn xattr_get(&self, tx: &mut Tx<'_>, ino: Ino, name: &[u8]) -> Attempt<Option<Vec<u8>>> {
        match name {
            DOSATTRIB => self.dos_attributes(tx, ino).map(Some),
            _ => Ok(None),
        }
    }

    fn xattr_set(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        match name {
            DOSATTRIB => self.set_dos_attributes(tx, ino, value),
            _ => Err(FsError::unsupported("attributes of this name on FAT").into()),
        }
    }

    fn has_holes(&self) -> bool {
        false
    }

    fn has_reserve(&self) -> bool {
        true
    }

    fn folds_names(&self) -> bool {
        true
    }

    fn spelling(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let dir = self.dir(dir)?;
        let hit = self.find_name(tx, &dir, name)?;
        Ok(hit.map(|h| self.opts.rules.shown(&h.found)))
    }
}
