//! Renaming. The new name is there (`Link`) before the old one goes (`Unlink`), so a crash leaves
//! both or one of them and never none. A replaced name changes its inode number in place: one name
//! that is the old file or the new one.

use crate::Ext2;
use crate::dir::{Spot, dirent};
use seawall_diskfs::{Attempt, FsError, Ino, Kind, Refused, RenameFlags, Stage, Tx, Unlinked};

impl Ext2 {
    /// See [`seawall_diskfs::Format::rename`].
    pub(crate) fn rename_node(
        &self,
        tx: &mut Tx<'_>,
        (from_dir, from_name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Attempt<Option<Unlinked>> {
        if flags.exchange {
            return Err(FsError::unsupported("exchange of two names on ext2").into());
        }
        let from_parent = self.dir_inode(tx, from_dir)?;
        let source = self.find_known(tx, from_dir, &from_parent, from_name)?;
        let node = self.inode(tx, source.ino)?;
        let to_parent = self.dir_inode(tx, to_dir)?;
        let target = self.find(tx, to_dir, &to_parent, to_name)?;
        if target.is_some_and(|t| t.ino == source.ino) {
            return Ok(None);
        }
        if target.is_some() && flags.no_replace {
            return Err(Refused::Exists.into());
        }
        let moved = node.kind == Kind::Dir && from_dir != to_dir;
        let victim = match target {
            Some(t) => Some((t, self.inode(tx, t.ino)?)),
            None => None,
        };
        if let Some((t, v)) = &victim
            && v.kind == Kind::Dir
        {
            self.check_empty(tx, t.ino, v)?;
        }

        let now = tx.now();
        self.update_inode(tx, source.ino, Stage::Any, |i| i.ctime = now)?;
        if moved {
            let links = self.one_more_child(&to_parent)?;
            self.update_inode(tx, to_dir, Stage::Prepare, |d| d.links = links)?;
        }
        match target {
            Some(t) => {
                self.retarget(tx, to_dir, t, source.ino, node.kind)?;
                tx.named(to_dir, source.ino);
            }
            None => self.add_name(tx, to_dir, to_name, source.ino, node.kind)?,
        }
        if moved {
            self.set_parent(tx, source.ino, to_dir)?;
        }
        // A name that was added may have moved this one to another block.
        let source = if from_dir == to_dir && target.is_none() {
            let parent = self.dir_inode(tx, from_dir)?;
            self.find_known(tx, from_dir, &parent, from_name)?
        } else {
            source
        };
        self.remove_name(tx, from_dir, source)?;
        if moved {
            self.drop_parent_link(tx, from_dir)?;
        }
        let Some((t, v)) = victim else { return Ok(None) };
        let left = self.drop_link(tx, t.ino)?;
        if v.kind == Kind::Dir {
            self.drop_parent_link(tx, to_dir)?;
        }
        Ok(Some(left))
    }

    /// The record `..` of a directory, which stands in its first block.
    fn parent_spot(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Spot> {
        let inode = self.dir_inode(tx, dir)?;
        let limits = self.dir_limits();
        let block = self.first_disk_block(tx, &inode)?;
        self.check_pointer(block, 0)?;
        let b = tx.read(block, "directory block")?;
        let (off, ino) = limits
            .find(&b, block, b"..")?
            .ok_or_else(|| FsError::corrupt("directory block", block, "no entry for .."))?;
        Ok(Spot { block, index: 0, off, ino: Ino(u64::from(ino)) })
    }

    /// See [`seawall_diskfs::Format::parent`].
    pub(crate) fn parent_of(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Ino> {
        Ok(self.parent_spot(tx, dir)?.ino)
    }

    fn set_parent(&self, tx: &mut Tx<'_>, dir: Ino, parent: Ino) -> Attempt<()> {
        let spot = self.parent_spot(tx, dir)?;
        tx.dir_changed(dir);
        tx.index_keep(dir);
        let b = tx.modify(spot.block, "directory block", dirent(dir, Stage::Link))?;
        Ok(self.dir_limits().retarget(b, spot.off, parent.0 as u32, Kind::Dir)?)
    }
}
