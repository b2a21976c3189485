//! Groups whose bitmaps and inode table were never written (`uninit_bg`): first use makes them.
//!
//! mke2fs writes no bitmap for an empty group and may leave its inode table as the disk was; flags
//! in the descriptor say so, under a checksum. The crash case: a name that leads to an inode which
//! the descriptor on disk still calls unused. So the new bitmap and zeroed table blocks go at
//! `Init`, the descriptor at `Prepare`, both before the name (`Link`).

use crate::Ext2;
use crate::group::Group;
use alloc::vec;
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, BlockRef, Change, FsError, Site, Stage, Tx};

const MAP: Change = Change { site: Site::Bitmap, stage: Stage::Init, owner: None };
const TABLE: Change = Change { site: Site::Inode, stage: Stage::Init, owner: None };

/// Sets bits `from..to`.
fn set(map: &mut [u8], from: u64, to: u64) {
    for n in from..to {
        if let Some(b) = usize::try_from(n / 8).ok().and_then(|i| map.get_mut(i)) {
            *b |= 1 << (n % 8);
        }
    }
}

impl Ext2 {
    /// The block bitmap of a group in which nothing but its own structures is in use: what one
    /// marked as never written stands for.
    pub(crate) fn own_blocks(&self, g: &Group) -> Vec<u8> {
        let mut map = vec![0; self.sb.block_size as usize];
        let (start, end) = (self.sb.group_start(g.index), self.sb.group_end(g.index));
        let head = self.sb.group_head(g.index) + self.sb.reserved_head(g.index);
        set(&mut map, 0, head.min(end - start));
        let table = (g.inode_table, self.sb.inode_table_blocks());
        for (from, len) in [(g.block_bitmap, 1), (g.inode_bitmap, 1), table] {
            set(&mut map, from.saturating_sub(start), (from + len).saturating_sub(start));
        }
        set(&mut map, end - start, self.block_bytes() * 8);
        map
    }

    /// The block bitmap of a group that is about to be allocated from.
    pub(crate) fn block_map(&self, tx: &mut Tx<'_>, g: &Group) -> Attempt<BlockRef> {
        // What `g` was read from may have changed since, and only in this direction.
        if g.blocks_uninit && self.group(tx, g.index)?.blocks_uninit {
            let map = self.own_blocks(g);
            tx.create_block(g.block_bitmap, "block bitmap", MAP)?.copy_from_slice(&map);
            self.begin_use(tx, &Group { blocks_uninit: false, ..*g })?;
        }
        tx.read(g.block_bitmap, "block bitmap")
    }

    /// The inode bitmap of a group that is about to be allocated from. With inodes the group also
    /// has a block bitmap, as Linux keeps it.
    pub(crate) fn inode_map(&self, tx: &mut Tx<'_>, g: &Group) -> Attempt<BlockRef> {
        if g.inodes_uninit
            && let now = self.group(tx, g.index)?
            && now.inodes_uninit
        {
            self.block_map(tx, &now)?;
            let map = tx.create_block(g.inode_bitmap, "inode bitmap", MAP)?;
            map.fill(0);
            set(map, u64::from(self.sb.inodes_per_group), self.block_bytes() * 8);
            self.begin_use(tx, &Group { blocks_uninit: false, inodes_uninit: false, ..now })?;
        }
        tx.read(g.inode_bitmap, "inode bitmap")
    }

    /// Inode `bit` of a group is about to be used: nothing up to it is garbage from here on.
    pub(crate) fn claim_inode(&self, tx: &mut Tx<'_>, g: &Group, bit: u64) -> Attempt<()> {
        let begun = u32::try_from(bit + 1).unwrap_or(u32::MAX);
        if begun <= g.inodes_begun {
            return Ok(());
        }
        let now = self.group(tx, g.index)?;
        if begun <= now.inodes_begun {
            return Ok(());
        }
        if begun > self.sb.inodes_per_group {
            return Err(FsError::Bug("an inode past its group").into());
        }
        if !now.table_zeroed {
            let per = u64::from(self.sb.block_size / u32::from(self.sb.inode_size));
            // The block of the last inode in use was zeroed with the first one in it.
            for n in u64::from(now.inodes_begun).div_ceil(per)..u64::from(begun).div_ceil(per) {
                tx.create_block(now.inode_table + n, "inode", TABLE)?;
            }
        }
        self.begin_use(tx, &Group { inodes_begun: begun, ..now })
    }
}
