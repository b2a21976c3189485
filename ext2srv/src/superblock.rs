//! The superblock: 1024 bytes at byte 1024 of the volume (`struct ext4_super_block`).
//!
//! Every number that another part of the engine divides by, multiplies with or indexes by is
//! checked here, once, at open. After that the geometry is constant; counts and the state are read
//! from the block through the transaction each time.

use crate::features::{
    COMPAT_RESIZE_INODE, COMPAT_SPARSE_SUPER2, INCOMPAT_KNOWN, INCOMPAT_RECOVER,
    RO_COMPAT_SPARSE_SUPER, incompat_names,
};
use alloc::borrow::Cow;
use alloc::format;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{array_at, u16_at, u32_at};

pub(crate) const MAGIC: u16 = 0xEF53;
pub(crate) const STATE_VALID: u16 = 1;
pub(crate) const STATE_ERROR: u16 = 2;
/// First inode number for files on revision 0, and on every volume that mke2fs makes.
pub(crate) const GOOD_OLD_FIRST_INO: u32 = 11;
/// Inode size of revision 0.
pub(crate) const GOOD_OLD_INODE_SIZE: u16 = 128;
/// Bytes of a group descriptor without the feature `64bit`.
pub(crate) const DESC_SIZE: u32 = 32;

// Offsets of fields that change while mounted.
pub(crate) const S_FREE_BLOCKS: usize = 0x0C;
pub(crate) const S_FREE_INODES: usize = 0x10;
pub(crate) const S_MTIME: usize = 0x2C;
pub(crate) const S_WTIME: usize = 0x30;
pub(crate) const S_MNT_COUNT: usize = 0x34;
pub(crate) const S_STATE: usize = 0x3A;
pub(crate) const S_REV_LEVEL: usize = 0x4C;
pub(crate) const S_FIRST_INO: usize = 0x54;
pub(crate) const S_INODE_SIZE: usize = 0x58;
pub(crate) const S_FEATURE_RO_COMPAT: usize = 0x64;
pub(crate) const S_LAST_ORPHAN: usize = 0xE8;

/// The checked geometry of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of a block, 1024 to 65536.
    pub block_size: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    /// Inodes of the volume.
    pub inodes: u32,
    /// Blocks that only the superuser should fill.
    pub reserved_blocks: u32,
    /// The block that holds the superblock: 1 with 1 KiB blocks, else 0.
    pub first_data_block: u64,
    /// Blocks of a group; the last group may be shorter.
    pub blocks_per_group: u64,
    /// Inodes of every group.
    pub inodes_per_group: u32,
    /// Bytes of an inode on disk.
    pub inode_size: u16,
    /// Lowest inode number for files, apart from the root.
    pub first_ino: u32,
    /// Number of groups.
    pub groups: u32,
    /// Blocks of the group descriptor table.
    pub gdt_blocks: u64,
    /// Blocks behind each copy of the table that are kept for its growth.
    pub reserved_gdt_blocks: u16,
    /// `s_feature_compat`.
    pub compat: u32,
    /// `s_feature_incompat`.
    pub incompat: u32,
    /// `s_feature_ro_compat` at open; `large_file` may be added later.
    pub ro_compat: u32,
    /// `s_state` at open.
    pub state: u16,
    /// Bytes past the 128 that a new inode uses.
    pub extra_isize: u16,
    /// `s_uuid`.
    pub uuid: [u8; 16],
    /// `s_volume_name`, padded with zeroes.
    pub label: [u8; 16],
}

fn bad(what: impl Into<Cow<'static, str>>) -> FsError {
    FsError::corrupt("superblock", 0, what)
}

fn ensure(ok: bool, what: &'static str) -> Result<(), FsError> {
    if ok { Ok(()) } else { Err(bad(what)) }
}

impl Superblock {
    /// Reads and checks the superblock of a volume on a device of `device_size` bytes.
    ///
    /// # Errors
    /// `Unsupported` names the incompatible features that the engine lacks; `Corrupt` says which
    /// number is wrong.
    pub fn parse(b: &[u8; 1024], device_size: u64) -> Result<Self, FsError> {
        ensure(u16_at(b, 0x38)? == MAGIC, "no ext2 magic number")?;
        let rev = u32_at(b, S_REV_LEVEL)?;
        if rev > 1 {
            return Err(FsError::unsupported(format!("ext2 revision {rev}")));
        }
        let dynamic = rev == 1;
        let (compat, incompat, ro_compat) = if dynamic {
            (u32_at(b, 0x5C)?, u32_at(b, 0x60)?, u32_at(b, S_FEATURE_RO_COMPAT)?)
        } else {
            (0, 0, 0)
        };
        refuse_incompatible(incompat)?;

        let log = u32_at(b, 0x18)?;
        ensure(log <= 6, "s_log_block_size is above 64 KiB")?;
        let block_size = 1024u32 << log;
        let first_data_block = u64::from(u32_at(b, 0x14)?);
        ensure(
            first_data_block == u64::from(block_size == 1024),
            "s_first_data_block does not fit the block size",
        )?;
        let blocks = u64::from(u32_at(b, 0x04)?);
        let (first_ino, inode_size) = if dynamic {
            (u32_at(b, S_FIRST_INO)?, u16_at(b, S_INODE_SIZE)?)
        } else {
            (GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE)
        };
        ensure(
            inode_size.is_power_of_two()
                && inode_size >= GOOD_OLD_INODE_SIZE
                && u32::from(inode_size) <= block_size,
            "s_inode_size is not a power of two from 128 to the block size",
        )?;
        let sb = Self {
            block_size,
            blocks,
            inodes: u32_at(b, 0x00)?,
            reserved_blocks: u32_at(b, 0x08)?,
            first_data_block,
            blocks_per_group: u64::from(u32_at(b, 0x20)?),
            inodes_per_group: u32_at(b, 0x28)?,
            inode_size,
            first_ino,
            groups: 0,
            gdt_blocks: 0,
            reserved_gdt_blocks: if compat & COMPAT_RESIZE_INODE != 0 {
                u16_at(b, 0xCE)?
            } else {
                0
            },
            compat,
            incompat,
            ro_compat,
            state: u16_at(b, S_STATE)?,
            extra_isize: extra_isize(b, inode_size)?,
            uuid: array_at(b, 0x68)?,
            label: array_at(b, 0x78)?,
        };
        sb.with_groups(device_size)
    }

    fn with_groups(mut self, device_size: u64) -> Result<Self, FsError> {
        let bits = u64::from(self.block_size) * 8;
        // The free counts of a descriptor are 16 bits wide.
        let most = bits.min(u64::from(u16::MAX));
        ensure(
            self.blocks_per_group >= 8 && self.blocks_per_group <= most,
            "s_blocks_per_group does not fit one bitmap block",
        )?;
        let per_block = self.block_size / u32::from(self.inode_size);
        ensure(
            self.inodes_per_group >= per_block && u64::from(self.inodes_per_group) <= most,
            "s_inodes_per_group does not fit one bitmap block",
        )?;
        ensure(self.blocks > self.first_data_block, "s_blocks_count is too small")?;
        let groups = (self.blocks - self.first_data_block).div_ceil(self.blocks_per_group);
        self.groups = u32::try_from(groups).map_err(|_| bad("too many block groups"))?;
        let descs = u64::from(self.block_size / DESC_SIZE);
        self.gdt_blocks = groups.div_ceil(descs);
        ensure(
            u64::from(self.inodes) == groups * u64::from(self.inodes_per_group),
            "s_inodes_count is not groups x s_inodes_per_group",
        )?;
        ensure(
            self.first_ino >= GOOD_OLD_FIRST_INO && self.first_ino <= self.inodes,
            "s_first_ino is outside the inode table",
        )?;
        let head = 1 + self.gdt_blocks + 2 + self.inode_table_blocks();
        ensure(
            head < self.blocks_per_group.min(self.blocks),
            "the first group has no room for its descriptors and inode table",
        )?;
        ensure(
            u64::from(self.reserved_blocks) <= self.blocks,
            "s_r_blocks_count is above s_blocks_count",
        )?;
        let bytes = self.blocks * u64::from(self.block_size);
        if bytes > device_size {
            return Err(bad(format!(
                "the volume has {bytes} bytes but its device only {device_size}"
            )));
        }
        Ok(self)
    }

    /// True when dirent byte 7 is a file type.
    pub fn has_filetype(&self) -> bool {
        self.incompat & crate::features::INCOMPAT_FILETYPE != 0
    }

    /// Blocks of one group's inode table.
    pub fn inode_table_blocks(&self) -> u64 {
        (u64::from(self.inodes_per_group) * u64::from(self.inode_size))
            .div_ceil(u64::from(self.block_size))
    }

    /// First block of a group.
    pub fn group_start(&self, group: u32) -> u64 {
        self.first_data_block + u64::from(group) * self.blocks_per_group
    }

    /// One past the last block of a group.
    pub fn group_end(&self, group: u32) -> u64 {
        (self.group_start(group) + self.blocks_per_group).min(self.blocks)
    }

    /// The group of a block.
    pub fn group_of(&self, block: u64) -> u32 {
        let g = block.saturating_sub(self.first_data_block) / self.blocks_per_group;
        u32::try_from(g).unwrap_or(u32::MAX)
    }

    /// True when the group begins with a copy of the superblock and descriptors.
    pub fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            return true;
        }
        if self.compat & COMPAT_SPARSE_SUPER2 != 0 {
            // Two copies whose places the engine does not need: their bitmap bits are set.
            return false;
        }
        self.ro_compat & RO_COMPAT_SPARSE_SUPER == 0 || sparse_copy(group)
    }

    /// Blocks that hold no files: what `statfs` takes off the total, as Linux does.
    pub(crate) fn overhead(&self) -> u64 {
        let copies = (0..self.groups).filter(|g| self.has_super(*g)).count() as u64;
        self.first_data_block
            + copies * (1 + self.gdt_blocks + u64::from(self.reserved_gdt_blocks))
            + u64::from(self.groups) * (2 + self.inode_table_blocks())
    }
}

/// Whether a group keeps a copy of the superblock under the feature `sparse_super`: groups 0 and 1
/// and the powers of 3, 5 and 7.
pub(crate) fn sparse_copy(group: u32) -> bool {
    let power_of = |base: u32| {
        let mut n = group;
        while n > 1 && n.is_multiple_of(base) {
            n /= base;
        }
        n == 1
    };
    group <= 1 || power_of(3) || power_of(5) || power_of(7)
}

fn refuse_incompatible(incompat: u32) -> Result<(), FsError> {
    if incompat & INCOMPAT_RECOVER != 0 {
        return Err(FsError::unsupported(
            "needs_recovery: the volume's journal must be replayed first (e2fsck)",
        ));
    }
    let unknown = incompat & !INCOMPAT_KNOWN;
    if unknown != 0 {
        let names = incompat_names(unknown).join(", ");
        return Err(FsError::unsupported(format!("ext2 feature {names}")));
    }
    Ok(())
}

/// What a new inode uses past its first 128 bytes: `s_want_extra_isize` and `s_min_extra_isize`,
/// at least 32 (as mke2fs) where there is room.
fn extra_isize(b: &[u8], inode_size: u16) -> Result<u16, FsError> {
    let room = inode_size.saturating_sub(GOOD_OLD_INODE_SIZE);
    let asked = u16_at(b, 0x15C)?.max(u16_at(b, 0x15E)?).max(32);
    Ok((asked & !3).min(room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// 8 MiB, 1 KiB blocks, one group, 2048 inodes of 128 bytes.
    fn sample() -> [u8; 1024] {
        let mut b = [0u8; 1024];
        let mut put = |off: usize, v: u32| b[off..off + 4].copy_from_slice(&v.to_le_bytes());
        put(0x00, 2048);
        put(0x04, 8192);
        put(0x14, 1);
        put(0x20, 8192);
        put(0x24, 8192);
        put(0x28, 2048);
        put(0x38, u32::from(MAGIC) | 1 << 16);
        put(0x4C, 1);
        put(0x54, 11);
        put(0x58, 128);
        put(0x5C, 0x38);
        put(0x60, 2);
        put(0x64, 3);
        b
    }

    #[test]
    fn a_plain_volume_is_read() {
        let sb = Superblock::parse(&sample(), 8 << 20).unwrap();
        assert_eq!((sb.block_size, sb.blocks, sb.groups, sb.gdt_blocks), (1024, 8192, 1, 1));
        assert!(sb.has_filetype());
        assert_eq!(sb.inode_table_blocks(), 256);
    }

    #[test]
    fn a_short_device_is_one_clear_error() {
        let e = Superblock::parse(&sample(), (8 << 20) - 1).unwrap_err();
        assert!(alloc::format!("{e}").contains("8388608 bytes"), "{e}");
    }

    #[test]
    fn wild_numbers_in_any_word_never_panic() {
        let wild = [0u32, 1, 2, 7, 0x7F, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
        for off in (0..1024).step_by(2) {
            for v in wild {
                let mut b = sample();
                let v = v.to_le_bytes();
                let n = v.len().min(1024 - off);
                b[off..off + n].copy_from_slice(&v[..n]);
                let _ = Superblock::parse(&b, u64::MAX);
                let _ = Superblock::parse(&b, 8 << 20);
            }
        }
    }

    #[test]
    fn features_are_refused_by_name() {
        let mut b = sample();
        b[0x60] |= 0x40;
        let e = Superblock::parse(&b, 8 << 20).unwrap_err();
        assert!(alloc::format!("{e}").contains("extent"), "{e}");
        let mut b = sample();
        b[0x60] |= 0x04;
        let e = Superblock::parse(&b, 8 << 20).unwrap_err();
        assert!(alloc::format!("{e}").contains("needs_recovery"), "{e}");
    }

    #[test]
    fn sparse_copies() {
        let sb = Superblock::parse(&sample(), 8 << 20).unwrap();
        let with: Vec<u32> = (0..60).filter(|g| sb.has_super(*g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49]);
    }
}
