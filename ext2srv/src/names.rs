//! Creating, linking and removing nodes.
//!
//! Order on disk: a new inode, its bitmap bit and a directory's first block (`Init`) before the
//! name (`Link`); the name gone (`Unlink`) before the link count falls (`Free`). A parent's link
//! count rises at `Init` and falls at `Free`, so a crash leaves it too high, which a checker mends,
//! and never too low. Many creations in one directory share their two epochs: nothing of the
//! directory but its block has to come late.

use crate::Ext2;
use crate::inode::{FL_EXTENTS, I_BLOCK_BYTES, Inode};
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, slice};
use seawall_diskfs::{
    Attempt, Change, FsError, Ino, Kind, NewNode, Refused, Site, Stage, Tx, Unlinked,
};

impl Ext2 {
    /// See [`seawall_diskfs::Format::create`].
    pub(crate) fn create_node(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u32,
        owner: (u32, u32),
    ) -> Attempt<Ino> {
        let parent = self.dir_inode(tx, dir)?;
        if parent.links == 0 {
            return Err(Refused::NotFound.into());
        }
        let kind = match node {
            NewNode::File => Kind::File,
            NewNode::Dir => Kind::Dir,
            NewNode::Symlink(_) => Kind::Symlink,
            NewNode::Special(kind, _) => kind,
        };
        let links = if kind == Kind::Dir { self.one_more_child(&parent)? } else { 0 };
        let ino = self.alloc_inode(tx, dir, kind == Kind::Dir)?;
        let mut inode = Inode::new(kind, mode, owner, tx.now());
        inode.inherit(&parent);
        match node {
            NewNode::File => {}
            NewNode::Dir => {
                inode.links = 2;
                self.first_block(tx, ino, &mut inode, dir)?;
            }
            NewNode::Symlink(target) => self.put_target(tx, ino, &mut inode, target)?,
            NewNode::Special(_, dev) => inode.set_rdev(dev),
        }
        self.put_new_inode(tx, ino, &mut inode)?;
        if kind == Kind::Dir {
            // A count that a checker repairs without asking; an order would chain the epochs.
            self.update_inode(tx, dir, Stage::Any, |d| d.links = links)?;
        }
        self.add_name(tx, dir, name, ino, kind)?;
        Ok(ino)
    }

    /// A symlink's target: in the inode when it is shorter than 60 bytes, else in a block.
    fn put_target(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        target: &[u8],
    ) -> Attempt<()> {
        if target.is_empty() {
            return Err(Refused::Invalid.into());
        }
        if target.len() > self.target_max() {
            return Err(Refused::NameTooLong.into());
        }
        inode.size = target.len() as u64;
        if target.len() < I_BLOCK_BYTES {
            inode.set_block_bytes(target);
            return Ok(());
        }
        let block = self.alloc_run(tx, self.home_goal(ino)?, 1)?.start;
        let change = Change { site: Site::Data, stage: Stage::Init, owner: Some(ino) };
        put(tx.create_block(block, "symlink", change)?, 0, target)?;
        if let Some(p) = inode.block.first_mut() {
            *p = block as u32;
        }
        inode.sectors = self.sectors();
        Ok(())
    }

    /// Longest symlink target.
    pub(crate) fn target_max(&self) -> usize {
        (self.sb.block_size as usize - 1).min(4095)
    }

    /// See [`seawall_diskfs::Format::readlink`].
    pub(crate) fn target(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<u8>> {
        let inode = self.inode(tx, ino)?;
        if inode.kind != Kind::Symlink {
            return Err(Refused::Invalid.into());
        }
        let wrong = |block| FsError::corrupt("symlink", block, "target length is wrong");
        let len = usize::try_from(inode.size).unwrap_or(usize::MAX);
        let block = u64::from(inode.block.first().copied().unwrap_or(0));
        if !inode.has_map(self.sectors()) {
            if len == 0 || len >= I_BLOCK_BYTES {
                return Err(wrong(0).into());
            }
            return Ok(slice(&inode.block_bytes(), 0, len)?.to_vec());
        }
        let block = match inode.flags & FL_EXTENTS {
            0 => block,
            _ => self.first_disk_block(tx, &inode)?,
        };
        self.check_pointer(block, 0)?;
        if len == 0 || len >= self.sb.block_size as usize {
            return Err(wrong(block).into());
        }
        let b = tx.read(block, "symlink")?;
        Ok(slice(&b, 0, len)?.to_vec())
    }

    /// See [`seawall_diskfs::Format::link`].
    pub(crate) fn link_node(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        dir: Ino,
        name: &[u8],
    ) -> Attempt<()> {
        let inode = self.inode(tx, ino)?;
        if inode.links >= self.links_max() {
            return Err(Refused::TooManyLinks.into());
        }
        if inode.links == 0 {
            return Err(Refused::NotFound.into());
        }
        let now = tx.now();
        self.update_inode(tx, ino, Stage::Prepare, |i| {
            i.links += 1;
            i.ctime = now;
        })?;
        self.add_name(tx, dir, name, ino, inode.kind)
    }

    /// See [`seawall_diskfs::Format::unlink`].
    pub(crate) fn unlink_node(
        &self,
        tx: &mut Tx<'_>,
        dir: Ino,
        name: &[u8],
        rmdir: bool,
    ) -> Attempt<Unlinked> {
        let parent = self.dir_inode(tx, dir)?;
        let spot = self.find_known(tx, dir, &parent, name)?;
        let inode = self.inode(tx, spot.ino)?;
        if rmdir {
            self.check_empty(tx, spot.ino, &inode)?;
        }
        self.remove_name(tx, dir, spot)?;
        let left = self.drop_link(tx, spot.ino)?;
        if rmdir {
            self.drop_parent_link(tx, dir)?;
        }
        Ok(left)
    }

    /// Takes a link off a node at stage `Free`; a directory loses both of its own.
    pub(crate) fn drop_link(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Unlinked> {
        let inode = self.inode(tx, ino)?;
        let nlink = if inode.kind == Kind::Dir { 0 } else { inode.links.saturating_sub(1) };
        let now = tx.now();
        self.update_inode(tx, ino, Stage::Free, |i| {
            i.links = nlink;
            i.ctime = now;
        })?;
        if inode.kind == Kind::Dir {
            tx.dir_changed(ino);
        }
        Ok(Unlinked { ino, nlink: u32::from(nlink) })
    }

    /// A directory lost a child directory's `..`.
    pub(crate) fn drop_parent_link(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<()> {
        // Never below its own two: a count that was wrong must not make a directory vanish.
        self.update_inode(tx, dir, Stage::Free, |d| {
            if d.links > 2 {
                d.links -= 1;
            }
        })
    }

    /// See [`seawall_diskfs::Format::free_inode`].
    pub(crate) fn free_node(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let mut inode = self.inode(tx, ino)?;
        if inode.links > 0 {
            return Err(FsError::Bug("an inode with links is to be freed").into());
        }
        if inode.has_map(self.sectors()) && inode.block.iter().any(|p| *p != 0) {
            return Err(FsError::Bug("an inode with blocks is to be freed").into());
        }
        if inode.file_acl != 0 {
            self.drop_acl(tx, ino, inode.file_acl)?;
        }
        self.drop_translator(tx, ino)?;
        inode.file_acl = 0;
        inode.sectors = 0;
        inode.size = 0;
        // 0 would mean "in use" to every reader, an inode's number a link of the orphan list.
        let now = u32::try_from(tx.now().secs).unwrap_or(u32::MAX);
        inode.dtime = now.max(self.sb.inodes.saturating_add(1));
        let dir = inode.kind == Kind::Dir;
        tx.touch(ino);
        self.put_inode(tx, ino, &inode, Stage::Free)?;
        self.free_inode_bit(tx, ino, dir)
    }
}
