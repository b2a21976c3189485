//! Where everything of a new volume goes. Pure arithmetic.
//!
//! Each group: copy of superblock and descriptors (where the features say so), block bitmap, inode
//! bitmap, inode table, data. The first group's data begins with the root directory, lost+found and
//! the journal.

use super::{MkfsFeatures, MkfsOptions};
use crate::superblock::sparse_copy;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
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
    pub(crate) features: MkfsFeatures,
    /// With `sparse_super2`: the groups that keep a copy.
    pub(crate) backup_groups: [u32; 2],
    pub(crate) root_block: u64,
    pub(crate) lost_found_blocks: u64,
    /// Without a journal there are none.
    pub(crate) journal: JournalPlan,
}

/// Where the journal goes: pointer blocks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalPlan {
    pub(crate) start: u64,
    pub(crate) pointers: u64,
    pub(crate) blocks: u64,
}

fn refuse(what: impl Into<alloc::borrow::Cow<'static, str>>) -> FsError {
    FsError::unsupported(what)
}

fn check(opts: &MkfsOptions) -> Result<(), FsError> {
    if !opts.block_size.is_power_of_two() || !(1024..=65536).contains(&opts.block_size) {
        let what = "a power of two from 1024 to 65536";
        return Err(refuse(format!("block size {}; it must be {what}", opts.block_size)));
    }
    if !opts.inode_size.is_power_of_two()
        || opts.inode_size < 128
        || u32::from(opts.inode_size) > opts.block_size
    {
        let what = "a power of two from 128 to the block size";
        return Err(refuse(format!("inode size {}; it must be {what}", opts.inode_size)));
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
            features: opts.features,
            backup_groups: [0, 0],
            root_block: 0,
            lost_found_blocks: 0,
            journal: JournalPlan::default(),
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
        if opts.features.journal {
            l.place_journal()?;
        }
        Ok(l)
    }

    /// Numbers that follow from the number of blocks. Returns the number of groups.
    fn size_groups(&mut self, opts: &MkfsOptions) -> Result<u64, FsError> {
        let bs = u64::from(self.block_size);
        let count = self.blocks.saturating_sub(self.first_data_block);
        let count = count.div_ceil(self.blocks_per_group).max(1);
        let last = u32::try_from(count - 1).unwrap_or(0);
        self.backup_groups = [last.min(1), if last > 1 { last } else { 0 }];
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
            let most = most * count;
            return Err(refuse(format!("{wanted} inodes; the volume's groups hold {most}")));
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
        self.copies(group) + 2 + self.inode_table_blocks
    }

    pub(crate) fn has_super(&self, group: u32) -> bool {
        if self.features.sparse_super2 {
            return group == 0 || self.backup_groups.contains(&group);
        }
        !self.features.sparse_super || sparse_copy(group)
    }

    /// Blocks of superblock and descriptors at a group's start.
    fn copies(&self, group: u32) -> u64 {
        let copy = u64::from(self.has_super(group));
        if !self.features.meta_bg {
            return copy * (1 + self.gdt_blocks);
        }
        let per = self.block_size / 32;
        let place = group % per;
        copy + u64::from(place <= 1 || place == per - 1)
    }

    /// Blocks of the descriptor table that a group holds, and where.
    pub(crate) fn table_part(&self, g: &GroupPlan) -> Option<(u64, Range<u64>)> {
        let at = g.start + u64::from(g.has_super);
        let len = self.copies(g.index) - u64::from(g.has_super);
        let first = match self.features.meta_bg {
            true => u64::from(g.index / (self.block_size / 32)),
            false => 0,
        };
        (len > 0).then(|| (at, first..first + len))
    }

    fn last_group_data(&self, count: u64) -> i128 {
        let start = self.first_data_block + (count - 1) * self.blocks_per_group;
        i128::from(self.blocks) - i128::from(start) - i128::from(self.head(count as u32 - 1))
    }

    fn place(&mut self, count: u64) -> Result<(), FsError> {
        for index in 0..count as u32 {
            let start = self.first_data_block + u64::from(index) * self.blocks_per_group;
            let block_bitmap = start + self.copies(index);
            self.groups.push(GroupPlan {
                index,
                start,
                len: self.blocks_per_group.min(self.blocks - start),
                has_super: self.has_super(index),
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

    /// The journal, as large as mke2fs makes it where the first group has room: 1024 blocks at
    /// least, which is the least that a reader takes.
    fn place_journal(&mut self) -> Result<(), FsError> {
        let want = match self.blocks {
            0..32_768 => 1024,
            32_768..262_144 => 4096,
            262_144..524_288 => 8192,
            _ => 16_384,
        };
        let p = u64::from(self.block_size / 4);
        let pointers = |n: u64| match n.saturating_sub(12) {
            0 => 0,
            n if n <= p => 1,
            n => 2 + (n - p).div_ceil(p),
        };
        let first = self.groups.first_mut().ok_or(FsError::Bug("a volume without groups"))?;
        let room = first.free_blocks() / 2;
        let most = room.saturating_sub(pointers(room)).min(12 + p + p * p);
        let blocks = most.min(want);
        if blocks < 1024 || self.blocks < 2048 {
            return Err(refuse(format!("a journal in a volume of {} blocks", self.blocks)));
        }
        let start = first.start + first.used;
        self.journal = JournalPlan { start, pointers: pointers(blocks), blocks };
        first.used += self.journal.pointers + blocks;
        Ok(())
    }

    pub(crate) fn free_inodes(&self, g: &GroupPlan) -> u32 {
        self.inodes_per_group - if g.index == 0 { LOST_FOUND_INO } else { 0 }
    }
}
