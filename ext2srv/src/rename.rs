//! Renaming. The new name is there (`Link`) before the old one goes (`Unlink`), so a crash leaves
//! both or one of them and never none. A replaced name changes its inode number in place: one name
//! that is the old file or the new one.
//!
//! An exchange changes two inode numbers in place. In one block that is one write; in two, the
//! second name follows the first (`Link`, `Unlink`), and a crash in between leaves one node with
//! both names and the other, with its content, for a checker to put into lost+found.

use crate::Ext2;
use crate::dir::{Spot, dirent};
use crate::inode::Inode;
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
        if flags.exchange {
            let t = target.ok_or(Refused::NotFound)?;
            return self.exchange(tx, (from_dir, source), (to_dir, t)).map(|()| None);
        }
        let moved = node.kind == Kind::Dir && from_dir != to_dir;
        let victim = match target {
            Some(t) => Some((t, self.inode(tx, t.ino)?)),
            None => None,
        };
        // One directory in another's place: as many `..` lead to the parent as before.
        let gains = moved && victim.as_ref().is_none_or(|(_, v)| v.kind != Kind::Dir);
        if let Some((t, v)) = &victim
            && v.kind == Kind::Dir
        {
            self.check_empty(tx, t.ino, v)?;
        }

        let now = tx.now();
        self.update_inode(tx, source.ino, Stage::Any, |i| i.ctime = now)?;
        if gains {
            self.gain_parent_link(tx, to_dir, &to_parent)?;
        }
        match target {
            Some(t) => {
                self.retarget(tx, to_dir, t, (source.ino, node.kind), Stage::Link)?;
                tx.named(to_dir, source.ino);
            }
            None => self.add_name(tx, to_dir, to_name, source.ino, node.kind)?,
        }
        if moved {
            self.set_parent(tx, source.ino, to_dir, Stage::Link)?;
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
        if v.kind == Kind::Dir && !moved {
            self.drop_parent_link(tx, to_dir)?;
        }
        Ok(Some(left))
    }

    /// A directory gets another one's `..`.
    fn gain_parent_link(&self, tx: &mut Tx<'_>, dir: Ino, parent: &Inode) -> Attempt<()> {
        let links = self.one_more_child(parent)?;
        self.update_inode(tx, dir, Stage::Prepare, |d| d.links = links)
    }

    /// Swaps what two names lead to.
    fn exchange(
        &self,
        tx: &mut Tx<'_>,
        (dir_a, a): (Ino, Spot),
        (dir_b, b): (Ino, Spot),
    ) -> Attempt<()> {
        let (node_a, node_b) = (self.inode(tx, a.ino)?.kind, self.inode(tx, b.ino)?.kind);
        let now = tx.now();
        for ino in [a.ino, b.ino] {
            self.update_inode(tx, ino, Stage::Any, |i| i.ctime = now)?;
        }
        // A directory and something else change places: one parent has a child more.
        let (is_a, is_b) = (node_a == Kind::Dir, node_b == Kind::Dir);
        let passes = match (is_a, is_b) {
            _ if dir_a == dir_b => None,
            (true, false) => Some((dir_a, dir_b)),
            (false, true) => Some((dir_b, dir_a)),
            _ => None,
        };
        if let Some((_, gains)) = passes {
            let parent = self.dir_inode(tx, gains)?;
            self.gain_parent_link(tx, gains, &parent)?;
        }
        let later = if a.block == b.block { Stage::Link } else { Stage::Unlink };
        self.retarget(tx, dir_b, b, (a.ino, node_a), Stage::Link)?;
        self.retarget(tx, dir_a, a, (b.ino, node_b), later)?;
        tx.named(dir_b, a.ino);
        tx.named(dir_a, b.ino);
        if dir_a != dir_b {
            for (is_dir, ino, parent) in [(is_a, a.ino, dir_b), (is_b, b.ino, dir_a)] {
                if is_dir {
                    self.set_parent(tx, ino, parent, later)?;
                }
            }
        }
        if let Some((loses, _)) = passes {
            self.drop_parent_link(tx, loses)?;
        }
        Ok(())
    }

    /// The record `..` of a directory, which stands in its first block.
    fn parent_spot(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Spot> {
        let inode = self.dir_inode(tx, dir)?;
        let limits = self.dir_limits();
        let block = self.first_disk_block(tx, &inode)?;
        self.check_pointer(block, 0)?;
        let b = tx.read(block, "directory block")?;
        self.check_dir_sum(&inode, &b, block)?;
        let (off, ino) = limits
            .find(&b, block, b"..")?
            .ok_or_else(|| FsError::corrupt("directory block", block, "no entry for .."))?;
        Ok(Spot { block, index: 0, off, ino: Ino(u64::from(ino)) })
    }

    /// See [`seawall_diskfs::Format::parent`].
    pub(crate) fn parent_of(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Ino> {
        Ok(self.parent_spot(tx, dir)?.ino)
    }

    fn set_parent(&self, tx: &mut Tx<'_>, dir: Ino, parent: Ino, stage: Stage) -> Attempt<()> {
        let spot = self.parent_spot(tx, dir)?;
        tx.dir_changed(dir);
        tx.index_keep(dir);
        let b = tx.modify(spot.block, "directory block", dirent(dir, stage))?;
        Ok(self.dir_limits().retarget(b, spot.off, parent.0 as u32, Kind::Dir)?)
    }
}
