//! Group descriptors (`struct ext2_group_desc`, 32 bytes): where a group's bitmaps and inode table
//! are, and its free counts. Read through the transaction like any block, and checked each time:
//! without the feature `flex_bg` everything of a group lies inside it.

use crate::Ext2;
use crate::superblock::DESC_SIZE;
use seawall_diskfs::bytes::{put, u16_at, u32_at};
use seawall_diskfs::{Attempt, BlockRef, Change, FsError, Site, Stage, Tx};

const WHAT: &str = "group descriptor";
const BG_FREE_BLOCKS: usize = 0x0C;
const BG_FREE_INODES: usize = 0x0E;
const BG_USED_DIRS: usize = 0x10;

/// A checked descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) index: u32,
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u16,
    pub(crate) free_inodes: u16,
}

/// Changes of a group's counts and of the superblock's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) blocks: i64,
    pub(crate) inodes: i64,
    pub(crate) dirs: i64,
}

fn add16(b: &mut [u8], off: usize, delta: i64) -> Result<(), FsError> {
    let v = i64::from(u16_at(b, off)?).saturating_add(delta).clamp(0, i64::from(u16::MAX));
    put(b, off, &u16::try_from(v).unwrap_or_default().to_le_bytes())
}

fn add32(b: &mut [u8], off: usize, delta: i64) -> Result<(), FsError> {
    let v = i64::from(u32_at(b, off)?).saturating_add(delta).clamp(0, i64::from(u32::MAX));
    put(b, off, &u32::try_from(v).unwrap_or_default().to_le_bytes())
}

impl Ext2 {
    /// Block and offset of a group's descriptor.
    fn desc_place(&self, group: u32) -> (u64, usize) {
        let per = self.sb.block_size / DESC_SIZE;
        let block = self.sb.first_data_block + 1 + u64::from(group / per);
        (block, ((group % per) * DESC_SIZE) as usize)
    }

    /// Reads and checks a descriptor.
    pub(crate) fn group(&self, tx: &mut Tx<'_>, index: u32) -> Attempt<Group> {
        if index >= self.sb.groups {
            return Err(FsError::Bug("group number past the last group").into());
        }
        let (block, off) = self.desc_place(index);
        let ahead = self.sb.first_data_block + 1 + self.sb.gdt_blocks - block;
        let b = tx.read_run(block, ahead, WHAT)?;
        let g = Group {
            index,
            block_bitmap: u64::from(u32_at(&b, off)?),
            inode_bitmap: u64::from(u32_at(&b, off + 4)?),
            inode_table: u64::from(u32_at(&b, off + 8)?),
            free_blocks: u16_at(&b, off + BG_FREE_BLOCKS)?,
            free_inodes: u16_at(&b, off + BG_FREE_INODES)?,
        };
        self.check_group(&g).map_err(|what| FsError::corrupt(WHAT, block, what))?;
        Ok(g)
    }

    /// Free blocks and inodes of a group, for passing over those that are full. `seen` keeps the
    /// descriptors' block for the next call.
    pub(crate) fn free_counts(
        &self,
        tx: &mut Tx<'_>,
        index: u32,
        seen: &mut Option<(u64, BlockRef)>,
    ) -> Attempt<(u16, u16)> {
        let (block, off) = self.desc_place(index);
        let b = match seen {
            Some((at, b)) if *at == block => b,
            _ => {
                let ahead = self.sb.first_data_block + 1 + self.sb.gdt_blocks - block;
                &seen.insert((block, tx.read_run(block, ahead, WHAT)?)).1
            }
        };
        Ok((u16_at(b, off + BG_FREE_BLOCKS)?, u16_at(b, off + BG_FREE_INODES)?))
    }

    fn check_group(&self, g: &Group) -> Result<(), &'static str> {
        let start = self.sb.group_start(g.index) + self.group_head(g.index);
        let end = self.sb.group_end(g.index);
        let table_end = g.inode_table + self.sb.inode_table_blocks();
        let inside = |b: u64| b >= start && b < end;
        if !inside(g.block_bitmap) {
            return Err("block bitmap lies outside its group");
        }
        if !inside(g.inode_bitmap) {
            return Err("inode bitmap lies outside its group");
        }
        if !inside(g.inode_table) || table_end > end {
            return Err("inode table lies outside its group");
        }
        let in_table = |b: u64| b >= g.inode_table && b < table_end;
        if g.block_bitmap == g.inode_bitmap || in_table(g.block_bitmap) || in_table(g.inode_bitmap)
        {
            return Err("bitmaps and inode table overlap");
        }
        Ok(())
    }

    /// Blocks of superblock and descriptor copies at a group's start.
    fn group_head(&self, group: u32) -> u64 {
        if self.sb.has_super(group) { 1 + self.sb.gdt_blocks } else { 0 }
    }

    /// True when the run holds a block of the group's own structures, which no file may own.
    pub(crate) fn hits_metadata(&self, g: &Group, start: u64, len: u64) -> bool {
        let meets = |s: u64, n: u64| start < s + n && s < start + len;
        meets(self.sb.group_start(g.index), self.group_head(g.index))
            || meets(g.block_bitmap, 1)
            || meets(g.inode_bitmap, 1)
            || meets(g.inode_table, self.sb.inode_table_blocks())
    }

    /// Adds to a group's counts and the superblock's totals.
    pub(crate) fn count(&self, tx: &mut Tx<'_>, group: u32, c: Counts) -> Attempt<()> {
        let (block, off) = self.desc_place(group);
        let change = Change { site: Site::Hypermetadata, stage: Stage::Any, owner: None };
        let b = tx.modify(block, WHAT, change)?;
        add16(b, off + BG_FREE_BLOCKS, c.blocks)?;
        add16(b, off + BG_FREE_INODES, c.inodes)?;
        add16(b, off + BG_USED_DIRS, c.dirs)?;
        self.modify_super(tx, |s| {
            add32(s, crate::superblock::S_FREE_BLOCKS, c.blocks)?;
            add32(s, crate::superblock::S_FREE_INODES, c.inodes)
        })
    }
}
