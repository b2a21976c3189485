//! Group descriptors (`struct ext4_group_desc`, 32 bytes, or more with `64bit`): where a group's
//! bitmaps and inode table are, and its free counts. Read through the transaction like any block,
//! never all at once, and checked each time: the checksum where there is one, and that without the
//! feature `flex_bg` everything of a group lies inside it.

use crate::Ext2;
use crate::checksum::{crc16, crc32c};
use crate::superblock::DescSum;
use alloc::format;
use seawall_diskfs::bytes::{put, slice, slice_mut, u16_at, u32_at};
use seawall_diskfs::{Attempt, BlockRef, Change, FsError, Site, Stage, Tx};

const WHAT: &str = "group descriptor";
const BG_FREE_BLOCKS: usize = 0x0C;
const BG_FREE_INODES: usize = 0x0E;
const BG_USED_DIRS: usize = 0x10;
const BG_FLAGS: usize = 0x12;
const BG_ITABLE_UNUSED: usize = 0x1C;
const BG_CHECKSUM: usize = 0x1E;
/// The inode bitmap was never written: no inode of the group is in use.
const BG_INODE_UNINIT: u16 = 1;
/// The block bitmap was never written: only the group's own structures are in use.
const BG_BLOCK_UNINIT: u16 = 2;
/// The whole inode table was zeroed.
const BG_INODE_ZEROED: u16 = 4;

/// A checked descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) index: u32,
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u16,
    pub(crate) free_inodes: u16,
    /// The block bitmap's content is void: see [`Ext2::own_blocks`].
    pub(crate) blocks_uninit: bool,
    /// The inode bitmap's content is void: no inode is in use.
    pub(crate) inodes_uninit: bool,
    /// The inode table holds zeroes where no inode ever was.
    pub(crate) table_zeroed: bool,
    /// Inodes of the group, from the first, of which any may be in use.
    pub(crate) inodes_begun: u32,
    pub(crate) used_dirs: u16,
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
    /// Block and offset of a group's descriptor, and how many blocks of the table follow in a row.
    fn desc_place(&self, group: u32) -> (u64, usize, u64) {
        let per = self.sb.descs_per_block();
        let (block, run) = self.sb.desc_block(u64::from(group / per));
        (block, ((group % per) * self.sb.desc_size) as usize, run)
    }

    /// Reads and checks a descriptor.
    pub(crate) fn group(&self, tx: &mut Tx<'_>, index: u32) -> Attempt<Group> {
        if index >= self.sb.groups {
            return Err(FsError::Bug("group number past the last group").into());
        }
        let (block, off, ahead) = self.desc_place(index);
        let d = slice(tx.view(block, ahead, WHAT)?, off, self.sb.desc_size as usize)?;
        let sum = self.desc_checksum(index, d)?;
        if sum.is_some_and(|s| u16_at(d, BG_CHECKSUM) != Ok(s)) {
            let what = format!("checksum of group {index} is wrong");
            return Err(FsError::corrupt(WHAT, block, what).into());
        }
        if sum.is_some() && u32::from(u16_at(d, BG_ITABLE_UNUSED)?) > self.sb.inodes_per_group {
            let what = "more unused inodes than the group has";
            return Err(FsError::corrupt(WHAT, block, what).into());
        }
        let g = self.decode_group(index, d, sum.is_some())?;
        self.check_group(&g).map_err(|what| FsError::corrupt(WHAT, block, what))?;
        Ok(g)
    }

    /// `summed`: without a checksum the flags mean nothing.
    fn decode_group(&self, index: u32, d: &[u8], summed: bool) -> Result<Group, FsError> {
        let place = |low: usize, high: usize| -> Result<u64, FsError> {
            let high = if self.sb.desc_size >= 64 { u32_at(d, high)? } else { 0 };
            Ok(u64::from(u32_at(d, low)?) | u64::from(high) << 32)
        };
        let flags = if summed { u16_at(d, BG_FLAGS)? } else { BG_INODE_ZEROED };
        let unused = if summed { u32::from(u16_at(d, BG_ITABLE_UNUSED)?) } else { 0 };
        let inodes_uninit = flags & BG_INODE_UNINIT != 0;
        Ok(Group {
            index,
            block_bitmap: place(0x00, 0x20)?,
            inode_bitmap: place(0x04, 0x24)?,
            inode_table: place(0x08, 0x28)?,
            free_blocks: u16_at(d, BG_FREE_BLOCKS)?,
            free_inodes: u16_at(d, BG_FREE_INODES)?,
            used_dirs: u16_at(d, BG_USED_DIRS)?,
            blocks_uninit: flags & BG_BLOCK_UNINIT != 0,
            inodes_uninit,
            table_zeroed: flags & BG_INODE_ZEROED != 0,
            inodes_begun: match inodes_uninit {
                true => 0,
                false => self.sb.inodes_per_group.saturating_sub(unused),
            },
        })
    }

    /// What a descriptor's checksum must be; `None` without checksums.
    fn desc_checksum(&self, index: u32, d: &[u8]) -> Result<Option<u16>, FsError> {
        let head = slice(d, 0, BG_CHECKSUM)?;
        let tail = d.get(BG_CHECKSUM + 2..).unwrap_or_default();
        let number = index.to_le_bytes();
        Ok(match self.sb.desc_sum {
            DescSum::None => None,
            DescSum::Crc16 => {
                let parts = [&self.sb.uuid[..], &number, head, tail];
                Some(parts.iter().fold(!0, |crc, part| crc16(crc, part)))
            }
            DescSum::Crc32c(seed) => {
                let parts = [&number[..], head, &[0, 0], tail];
                Some(parts.iter().fold(seed, |crc, part| crc32c(crc, part)) as u16)
            }
        })
    }

    /// Changes a descriptor and makes its checksum right.
    fn modify_desc(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        stage: Stage,
        f: impl FnOnce(&mut [u8]) -> Result<(), FsError>,
    ) -> Attempt<()> {
        let (block, off, _) = self.desc_place(group);
        let change = Change { site: Site::Hypermetadata, stage, owner: None };
        let d = slice_mut(tx.modify(block, WHAT, change)?, off, self.sb.desc_size as usize)?;
        f(d)?;
        if let Some(sum) = self.desc_checksum(group, d)? {
            put(d, BG_CHECKSUM, &sum.to_le_bytes())?;
        }
        Ok(())
    }

    /// The bitmaps and the inode table's first `inodes_begun` inodes mean something from now on.
    ///
    /// Before the names that lead there (`Prepare`): e2fsck takes no name for an inode that the
    /// descriptor calls unused.
    pub(crate) fn begin_use(&self, tx: &mut Tx<'_>, g: &Group) -> Attempt<()> {
        let unused = self.sb.inodes_per_group.saturating_sub(g.inodes_begun);
        self.modify_desc(tx, g.index, Stage::Prepare, |d| {
            let mut flags = u16_at(d, BG_FLAGS)?;
            if !g.blocks_uninit {
                flags &= !BG_BLOCK_UNINIT;
            }
            if !g.inodes_uninit {
                flags &= !BG_INODE_UNINIT;
            }
            put(d, BG_FLAGS, &flags.to_le_bytes())?;
            put(d, BG_ITABLE_UNUSED, &u16::try_from(unused).unwrap_or(u16::MAX).to_le_bytes())
        })
    }

    /// Free blocks and inodes of a group, for passing over those that are full. `seen` keeps the
    /// descriptors' block for the next call.
    pub(crate) fn free_counts(
        &self,
        tx: &mut Tx<'_>,
        index: u32,
        seen: &mut Option<(u64, BlockRef)>,
    ) -> Attempt<(u16, u16)> {
        let (block, off, ahead) = self.desc_place(index);
        let b = match seen {
            Some((at, b)) if *at == block => b,
            _ => &seen.insert((block, tx.read_run(block, ahead, WHAT)?)).1,
        };
        Ok((u16_at(b, off + BG_FREE_BLOCKS)?, u16_at(b, off + BG_FREE_INODES)?))
    }

    fn check_group(&self, g: &Group) -> Result<(), &'static str> {
        let flex = self.sb.has_flex_bg();
        let (start, end) = if flex {
            (self.sb.first_data_block + 1, self.sb.blocks)
        } else {
            let start = self.sb.group_start(g.index) + self.sb.group_head(g.index);
            (start, self.sb.group_end(g.index))
        };
        if g.index == 0 && g.inodes_begun < self.sb.first_ino - 1 {
            return Err("the reserved inodes are marked unused");
        }
        let table_end = g.inode_table.saturating_add(self.sb.inode_table_blocks());
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

    /// True when the run holds a block of the group's own structures, which no file may own.
    pub(crate) fn hits_metadata(&self, g: &Group, start: u64, len: u64) -> bool {
        let meets = |s: u64, n: u64| start < s + n && s < start + len;
        meets(self.sb.group_start(g.index), self.sb.group_head(g.index))
            || meets(g.block_bitmap, 1)
            || meets(g.inode_bitmap, 1)
            || meets(g.inode_table, self.sb.inode_table_blocks())
    }

    /// Adds to a group's counts and the superblock's totals.
    pub(crate) fn count(&self, tx: &mut Tx<'_>, group: u32, c: Counts) -> Attempt<()> {
        self.modify_desc(tx, group, Stage::Any, |d| {
            add16(d, BG_FREE_BLOCKS, c.blocks)?;
            add16(d, BG_FREE_INODES, c.inodes)?;
            add16(d, BG_USED_DIRS, c.dirs)
        })?;
        self.modify_super(tx, |s| {
            add32(s, crate::superblock::S_FREE_BLOCKS, c.blocks)?;
            add32(s, crate::superblock::S_FREE_INODES, c.inodes)
        })
    }
}
