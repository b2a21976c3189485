//! Where everything of a new volume goes. Pure arithmetic.
//!
//! Each group: copy of superblock and descriptors (groups 0, 1 and powers of 3, 5 and 7), block
//! bitmap, inode bitmap, inode table, data. The first group's data begins with the root directory
//! and lost+found.

use super::MkfsOptions;
use crate::superblock::sparse_copy;
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::FsError;

/// The first inode that is not reserved.
pub(crate) const LOST_FOUND_INO: u32 = 11;
/// A last group with less room for data than this is not made (as mke2fs).
const LAST_GROUP_DATA: u64 = 50;

/// One group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlan {
    pub(crate) index: u32,
    pub(crate) start: u64,
    /// Blocks of the group.
    pub(crate) len: u64,
    pub(crate) has_super: bool,
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    /// Blocks in use, all at the group's start.
    pub(crate) used: u64,
}

impl GroupPlan {
    pub(crate) fn free_blocks(&self) -> u64 {
        self.len - self.used
    }
}

/// The whole volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) block_size: u32,
    pub(crate) blocks: u64,
    pub(crate) first_data_block: u64,
    pub(crate) blocks_per_group: u64,
    pub(crate) inodes: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) inode_table_blocks: u64,
    pub(crate) gdt_blocks: u64,
    pub(crate) groups: Vec<GroupPlan>,
    pub(crate) root_block: u64,
    pub(crate) lost_found_blocks: u64,
}

fn refuse(what: impl Into<alloc::borrow::Cow<'static, str>>) -> FsError {
    FsError::unsupported(what)
}

fn check(opts: &MkfsOptions) -> Result<(), FsError> {
    if !opts.block_size.is_power_of_two() || !(1024..=65536).contains(&opts.block_size) {
        return Err(refuse("block size must be a power of two from 1024 to 65536"));
    }
    if !opts.inode_size.is_power_of_two()
        || opts.inode_size < 128
        || u32::from(opts.inode_size) > opts.block_size
    {
        return Err(refuse("inode size must be a power of two from 128 to the block size"));
    }
    if opts.reserved_percent > 50 {
        return Err(refuse("more than half of the volume reserved"));
    }
    Ok(())
}

impl Layout {
    pub(crate) fn new(opts: &MkfsOptions) -> Result<Self, FsError> {
        check(opts)?;
        let bs = u64::from(opts.block_size);
        let blocks = opts.size / bs;
        if blocks > u64::from(u32::MAX) {
            return Err(refuse("more than 2^32 - 1 blocks: take larger ones"));
        }
        let mut l = Self {
            block_size: opts.block_size,
            blocks,
            first_data_block: u64::from(opts.block_size == 1024),
            // The free counts of a descriptor are 16 bits wide.
            blocks_per_group: (bs * 8).min(65528),
            inodes: 0,
            inodes_per_group: 0,
            inode_table_blocks: 0,
            gdt_blocks: 0,
            groups: Vec::new(),
            root_block: 0,
            lost_found_blocks: 0,
        };
        let mut count = l.size_groups(opts)?;
        let data = l.last_group_data(count);
        if count > 1 && data < i128::from(LAST_GROUP_DATA) {
            l.blocks = l.first_data_block + (count - 1) * l.blocks_per_group;
            count = l.size_groups(opts)?;
        }
        // Root, one block of lost+found, and at least one to use.
        if l.last_group_data(count) < 3 {
            return Err(refuse(format!("a volume of {} blocks is too small", l.blocks)));
        }
        l.place(count)?;
        Ok(l)
    }

    /// Numbers that follow from the number of blocks. Returns the number of groups.
    fn size_groups(&mut self, opts: &MkfsOptions) -> Result<u64, FsError> {
        let bs = u64::from(self.block_size);
        let count = self.blocks.saturating_sub(self.first_data_block);
        let count = count.div_ceil(self.blocks_per_group).max(1);
        self.gdt_blocks = (count * 32).div_ceil(bs);
        let ratio: u64 = if opts.size < 512 << 20 { 4096 } else { 16384 };
        // Inodes never take more than a quarter of the volume by themselves.
        let ratio = ratio.max(bs).max(4 * u64::from(opts.inode_size));
        let wanted = opts.inodes.map_or(self.blocks * bs / ratio, u64::from);
        // A whole number of table blocks and of bitmap bytes.
        let step = (bs / u64::from(opts.inode_size)).max(8);
        let per = wanted.div_ceil(count).max(16).next_multiple_of(step);
        let most = (bs * 8).min(65528) / step * step;
        if opts.inodes.is_some() && per > most {
            return Err(refuse("more inodes than the groups can hold"));
        }
        let per = per.min(most);
        self.inodes_per_group = per as u32;
        self.inodes = u32::try_from(per * count).map_err(|_| refuse("more than 2^32 inodes"))?;
        self.inode_table_blocks = per * u64::from(opts.inode_size) / bs;
        if self.head(0) >= self.blocks_per_group {
            return Err(refuse("no room for inode tables and descriptors in a group"));
        }
        Ok(count)
    }

    /// Blocks of a group that hold no files.
    fn head(&self, group: u32) -> u64 {
        let copies = if sparse_copy(group) { 1 + self.gdt_blocks } else { 0 };
        copies + 2 + self.inode_table_blocks
    }

    fn last_group_data(&self, count: u64) -> i128 {
        let start = self.first_data_block + (count - 1) * self.blocks_per_group;
        i128::from(self.blocks) - i128::from(start) - i128::from(self.head(count as u32 - 1))
    }

    fn place(&mut self, count: u64) -> Result<(), FsError> {
        for index in 0..count as u32 {
            let start = self.first_data_block + u64::from(index) * self.blocks_per_group;
            let copies = if sparse_copy(index) { 1 + self.gdt_blocks } else { 0 };
            let block_bitmap = start + copies;
            self.groups.push(GroupPlan {
                index,
                start,
                len: self.blocks_per_group.min(self.blocks - start),
                has_super: sparse_copy(index),
                block_bitmap,
                inode_bitmap: block_bitmap + 1,
                inode_table: block_bitmap + 2,
                used: self.head(index),
            });
        }
        let want = (16384 / u64::from(self.block_size)).clamp(1, 12);
        let first = self.groups.first_mut().ok_or(FsError::Bug("a volume without groups"))?;
        let room = first.free_blocks();
        self.lost_found_blocks = if room > 8 * want { want } else { 1 };
        self.root_block = first.start + first.used;
        first.used += 1 + self.lost_found_blocks;
        Ok(())
    }

    pub(crate) fn free_inodes(&self, g: &GroupPlan) -> u32 {
        self.inodes_per_group - if g.index == 0 { LOST_FOUND_INO } else { 0 }
    }
}
