//! [`Ext2`] as a [`Format`].

use crate::Ext2;
use crate::dirent::NAME_MAX;
use crate::inode::{FLAGS_SETTABLE, ROOT_INO};
use crate::superblock::{S_MNT_COUNT, S_MTIME, S_STATE, S_WTIME, STATE_ERROR, STATE_VALID};
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u16_at};
use seawall_diskfs::{
    Attempt, Attr, DirEntry, Extent, Format, Geometry, Ino, Kind, Mapping, NewNode, Refused,
    RenameFlags, SetAttr, SetTime, Stage, StatFs, Timestamp, Tx, Unlinked,
};

/// With more groups than this, mounting does not look at every descriptor, and the free space that
/// is reported is the superblock's: a volume of 256 GiB with blocks of 4 KiB.
const GROUPS_WALKED: u32 = 2048;

impl Format for Ext2 {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: self.sb.block_size,
            blocks: self.sb.blocks,
            root: Ino(ROOT_INO),
            name_max: NAME_MAX,
            symlink_max: self.target_max(),
            size_max: self.size_max(),
            read_only: !self.read_only_because().is_empty(),
        }
    }

    fn was_clean(&self) -> bool {
        self.was_clean
    }

    fn set_clean(&self, tx: &mut Tx<'_>, clean: bool) -> Attempt<()> {
        let now = u32::try_from(tx.now().secs).unwrap_or(0).to_le_bytes();
        let was_clean = self.was_clean;
        self.modify_super(tx, |s| {
            let state = u16_at(s, S_STATE)?;
            if !clean {
                put(s, S_STATE, &(state & !STATE_VALID).to_le_bytes())?;
                let count = u16_at(s, S_MNT_COUNT)?.saturating_add(1);
                put(s, S_MNT_COUNT, &count.to_le_bytes())?;
                put(s, S_MTIME, &now)?;
            } else if was_clean {
                // A volume that was not clean stays so until it is checked.
                put(s, S_STATE, &(state | STATE_VALID).to_le_bytes())?;
            }
            put(s, S_WTIME, &now)
        })
    }

    fn set_damaged(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        self.modify_super(tx, |s| {
            let state = u16_at(s, S_STATE)?;
            put(s, S_STATE, &(state | STATE_ERROR).to_le_bytes())
        })
    }

    fn check_mount(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        for index in 0..self.sb.groups.min(GROUPS_WALKED) {
            self.group(tx, index)?;
        }
        self.check_others(tx)?;
        self.check_journal(tx)
    }

    fn statfs(&self, tx: &mut Tx<'_>) -> Attempt<StatFs> {
        let (mut free, mut files_free) = (0u64, 0u64);
        if self.sb.groups <= GROUPS_WALKED {
            for index in 0..self.sb.groups {
                let g = self.group(tx, index)?;
                free += u64::from(g.free_blocks);
                files_free += u64::from(g.free_inodes);
            }
        } else {
            (free, files_free) = self.read_super(tx, |s| self.sb.free_totals(s))?;
        }
        let blocks = self.sb.blocks.saturating_sub(self.overhead);
        let free = free.min(blocks);
        Ok(StatFs {
            block_size: self.sb.block_size,
            blocks,
            blocks_free: free,
            blocks_available: free.saturating_sub(u64::from(self.sb.reserved_blocks)),
            files: u64::from(self.sb.inodes),
            files_free: files_free.min(u64::from(self.sb.inodes)),
            name_max: NAME_MAX as u32,
        })
    }

    fn attr(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Attr> {
        Ok(self.inode(tx, ino)?.attr(ino, self.sb.block_size))
    }

    fn set_attr(&self, tx: &mut Tx<'_>, ino: Ino, set: &SetAttr) -> Attempt<()> {
        let now = tx.now();
        let time = |old: &mut Timestamp, new: SetTime| match new {
            SetTime::Omit => {}
            SetTime::Now => *old = now,
            SetTime::At(t) => *old = t,
        };
        self.update_inode(tx, ino, Stage::Any, |i| {
            if let Some(mode) = set.mode {
                i.mode = (mode & 0o7777) as u16;
            }
            i.uid = set.uid.unwrap_or(i.uid);
            i.gid = set.gid.unwrap_or(i.gid);
            time(&mut i.atime, set.atime);
            time(&mut i.mtime, set.mtime);
            i.ctime = now;
        })
    }

    fn lookup(&self, tx: &mut Tx<'_>, dir: Ino, name: &[u8]) -> Attempt<Option<Ino>> {
        let inode = self.dir_inode(tx, dir)?;
        Ok(self.find(tx, dir, &inode, name)?.map(|s| s.ino))
    }

    fn lookup_if(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        check: &mut dyn FnMut(&mut Tx<'_>, &Attr) -> Attempt<()>,
    ) -> Attempt<Option<Ino>> {
        let inode = self.inode(tx, dir)?;
        check(tx, &inode.attr(dir, self.sb.block_size))?;
        if inode.kind != Kind::Dir {
            return Err(Refused::NotDir.into());
        }
        Ok(self.find(tx, dir, &inode, name)?.map(|s| s.ino))
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

    fn readlink(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<u8>> {
        self.target(tx, ino)
    }

    fn create(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        owner: (u32, u32),
    ) -> Attempt<Ino> {
        self.create_node(tx, dir, name, node, mode, owner)
    }

    fn link(&self, tx: &mut Tx<'_>, ino: Ino, dir: Ino, name: &[u8]) -> Attempt<()> {
        self.link_node(tx, ino, dir, name)
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
        self.parent_of(tx, dir)
    }

    fn map(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>> {
        let inode = self.inode(tx, ino)?;
        if !inode.has_map(self.sectors()) {
            return Err(Refused::Invalid.into());
        }
        self.map_blocks(tx, &inode, range)
    }

    fn map_alloc(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Vec<Mapping>> {
        let mut inode = self.inode(tx, ino)?;
        if !inode.has_map(self.sectors()) {
            return Err(Refused::Invalid.into());
        }
        let runs = self.map_filled(tx, ino, &mut inode, range)?;
        if runs.iter().any(|m| m.fresh) {
            tx.touch(ino);
            self.put_inode(tx, ino, &inode, Stage::Link)?;
        }
        Ok(runs)
    }

    fn wrote(&self, tx: &mut Tx<'_>, ino: Ino, size: u64, clear_setid: bool) -> Attempt<()> {
        let mut inode = self.inode(tx, ino)?;
        if size > self.size_max() {
            return Err(Refused::FileTooBig.into());
        }
        let now = tx.now();
        inode.mtime = now;
        inode.ctime = now;
        if clear_setid {
            // Set-group-id without group execution is the mark of mandatory locking and stays.
            let sgid = if inode.mode & 0o010 != 0 { 0o2000 } else { 0 };
            inode.mode &= !(0o4000 | sgid);
        }
        let grows = size > inode.size;
        inode.size = inode.size.max(size);
        tx.touch(ino);
        self.put_inode(tx, ino, &inode, if grows { Stage::Link } else { Stage::Any })?;
        if grows { self.note_size(tx, &inode) } else { Ok(()) }
    }

    fn truncate_step(&self, tx: &mut Tx<'_>, ino: Ino, size: u64) -> Attempt<bool> {
        self.shrink_or_grow(tx, ino, size)
    }

    fn punch_step(&self, tx: &mut Tx<'_>, ino: Ino, range: Extent) -> Attempt<Option<u64>> {
        self.punch(tx, ino, range)
    }

    fn free_inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        self.free_node(tx, ino)
    }

    fn has_xattrs(&self) -> bool {
        true
    }

    fn xattr_get(&self, tx: &mut Tx<'_>, ino: Ino, name: &[u8]) -> Attempt<Option<Vec<u8>>> {
        self.attribute(tx, ino, name)
    }

    fn xattr_list(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<Vec<u8>>> {
        self.attributes(tx, ino)
    }

    fn xattr_set(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        self.set_attribute(tx, ino, name, value)
    }

    fn xattr_init(&self, tx: &mut Tx<'_>, ino: Ino, list: &[(&[u8], Vec<u8>)]) -> Attempt<()> {
        self.first_attributes(tx, ino, list)
    }

    fn set_flags(&self, tx: &mut Tx<'_>, ino: Ino, flags: u32) -> Attempt<()> {
        let now = tx.now();
        self.update_inode(tx, ino, Stage::Any, |i| {
            i.flags = i.flags & !FLAGS_SETTABLE | flags & FLAGS_SETTABLE & i.flags_allowed();
            i.ctime = now;
        })
    }

    fn set_atime(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let now = tx.now();
        self.update_quietly(tx, ino, |i| i.atime = now)
    }

    fn orphan_add(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<bool> {
        self.list_orphan(tx, ino)
    }

    fn orphan_remove(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        self.unlist_orphan(tx, ino)
    }

    fn orphan_list(&self, tx: &mut Tx<'_>) -> Attempt<Vec<Ino>> {
        self.orphans(tx)
    }
}
