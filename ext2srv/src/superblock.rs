//! The superblock: 1024 bytes at byte 1024 of the volume (`struct ext4_super_block`).
//!
//! Every number that another part of the engine divides by, multiplies with or indexes by is
//! checked here, once, at open. After that the geometry is constant; counts and the state are read
//! from the block through the transaction each time.

use crate::checksum::crc32c;
use crate::features::{
    COMPAT_RESIZE_INODE, COMPAT_SPARSE_SUPER2, INCOMPAT_64BIT, INCOMPAT_CSUM_SEED,
    INCOMPAT_FLEX_BG, INCOMPAT_META_BG, RO_COMPAT_GDT_CSUM, RO_COMPAT_METADATA_CSUM,
    RO_COMPAT_SPARSE_SUPER, refuse_unreadable,
};
use crate::htree::{FLAG_UNSIGNED_HASH, Hashing};
use alloc::borrow::Cow;
use alloc::format;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{array_at, u8_at, u16_at, u32_at};

pub(crate) const MAGIC: u16 = 0xEF53;
pub(crate) const STATE_VALID: u16 = 1;
pub(crate) const STATE_ERROR: u16 = 2;
/// First inode number for files on revision 0, and on every volume that mke2fs makes.
pub(crate) const GOOD_OLD_FIRST_INO: u32 = 11;
/// Inode size of revision 0.
pub(crate) const GOOD_OLD_INODE_SIZE: u16 = 128;
/// Bytes of a group descriptor without the feature `64bit`.
const DESC_SIZE: u32 = 32;

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
pub(crate) const S_FEATURE_COMPAT: usize = 0x5C;
pub(crate) const S_FEATURE_RO_COMPAT: usize = 0x64;
pub(crate) const S_LAST_ORPHAN: usize = 0xE8;

/// How group descriptors are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescSum {
    /// Not at all.
    None,
    /// `uninit_bg`: CRC-16 over the volume's identity, the group's number and the descriptor.
    Crc16,
    /// `metadata_csum`: the low half of a CRC-32C that begins with this seed.
    Crc32c(u32),
}

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
    /// Bytes of a group descriptor.
    pub desc_size: u32,
    /// Blocks of the group descriptor table.
    pub gdt_blocks: u64,
    /// With `meta_bg`: the first block of the table that stands in the groups it describes.
    pub first_meta_bg: Option<u64>,
    /// With `sparse_super2`: the groups that keep a copy, 0 for none.
    pub backup_groups: [u32; 2],
    /// Blocks behind each copy of the table that are kept for its growth.
    pub reserved_gdt_blocks: u16,
    /// `s_feature_compat`.
    pub compat: u32,
    /// `s_feature_incompat`.
    pub incompat: u32,
    /// `s_feature_ro_compat` at open; `large_file` may be added later.
    pub ro_compat: u32,
    /// `s_creator_os`: 0 Linux, 1 the Hurd.
    pub creator_os: u32,
    /// User and group that may fill the reserved blocks, beside user 0.
    pub reserved_for: (u16, u16),
    /// `s_state` at open.
    pub state: u16,
    /// `s_errors`: what to do about damage. 1 continue, 2 go read-only, 3 panic.
    pub errors: u16,
    /// Bytes past the 128 that a new inode uses.
    pub extra_isize: u16,
    /// How names are hashed in indexed directories.
    pub(crate) hashing: Hashing,
    /// `s_uuid`.
    pub uuid: [u8; 16],
    /// `s_volume_name`, padded with zeroes.
    pub label: [u8; 16],
    /// The block that says who uses the volume, with the feature `mmp`.
    pub(crate) mmp_block: u64,
    /// The journal's inode; 0: none, or on another device.
    pub(crate) journal_inode: u32,
    pub(crate) desc_sum: DescSum,
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
        refuse_unreadable(incompat, ro_compat)?;
        let uuid = array_at(b, 0x68)?;
        let desc_sum = checksum(b, incompat, ro_compat, &uuid)?;

        let (block_size, first_data_block) = block_size(b)?;
        let (first_ino, inode_size) = inode_fields(b, dynamic, block_size)?;
        let wide = incompat & INCOMPAT_64BIT != 0;
        let high = |off: usize| if wide { u32_at(b, off) } else { Ok(0) };
        let blocks = u64::from(u32_at(b, 0x04)?) | u64::from(high(0x150)?) << 32;
        let desc_size = if wide { desc_size(b)? } else { DESC_SIZE };
        let sb = Self {
            block_size,
            blocks,
            inodes: u32_at(b, 0x00)?,
            reserved_blocks: if high(0x154)? == 0 { u32_at(b, 0x08)? } else { u32::MAX },
            first_data_block,
            blocks_per_group: u64::from(u32_at(b, 0x20)?),
            inodes_per_group: u32_at(b, 0x28)?,
            inode_size,
            first_ino,
            groups: 0,
            desc_size,
            gdt_blocks: 0,
            first_meta_bg: match incompat & INCOMPAT_META_BG {
                0 => None,
                _ => Some(u64::from(u32_at(b, 0x104)?)),
            },
            backup_groups: backup_groups(b, compat)?,
            reserved_gdt_blocks: if compat & COMPAT_RESIZE_INODE != 0 {
                u16_at(b, 0xCE)?
            } else {
                0
            },
            compat,
            incompat,
            ro_compat,
            creator_os: u32_at(b, 0x48)?,
            reserved_for: (u16_at(b, 0x50)?, u16_at(b, 0x52)?),
            state: u16_at(b, S_STATE)?,
            errors: u16_at(b, 0x3C)?,
            extra_isize: extra_isize(b, inode_size)?,
            hashing: hashing(b)?,
            uuid,
            label: array_at(b, 0x78)?,
            mmp_block: u64::from(u32_at(b, 0x168)?) | u64::from(u32_at(b, 0x16C)?) << 32,
            journal_inode: u32_at(b, 0xE0)?,
            desc_sum,
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
        self.groups = u32::try_from(groups).map_err(|_| {
            let bit = if self.incompat & INCOMPAT_64BIT != 0 { "64bit: " } else { "" };
            bad(format!("{bit}{groups} block groups are too many"))
        })?;
        self.gdt_blocks = groups.div_ceil(u64::from(self.descs_per_block()));
        ensure(
            self.first_meta_bg.is_none_or(|first| first <= self.gdt_blocks),
            "meta_bg: s_first_meta_bg is past the descriptor table",
        )?;
        ensure(
            u64::from(self.inodes) == groups * u64::from(self.inodes_per_group),
            "s_inodes_count is not groups x s_inodes_per_group",
        )?;
        ensure(
            self.first_ino >= GOOD_OLD_FIRST_INO && self.first_ino <= self.inodes,
            "s_first_ino is outside the inode table",
        )?;
        // With `flex_bg` bitmaps and tables may stand in other groups.
        let own = if self.has_flex_bg() { 0 } else { 2 + self.inode_table_blocks() };
        let head = self.group_head(0) + own;
        ensure(
            head < self.blocks_per_group.min(self.blocks),
            "the first group has no room for its descriptors and inode table",
        )?;
        ensure(
            u64::from(self.reserved_blocks) <= self.blocks,
            "s_r_blocks_count is above s_blocks_count",
        )?;
        let bytes = u128::from(self.blocks) * u128::from(self.block_size);
        if bytes > u128::from(device_size) {
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

    /// True when a group's bitmaps and inode table may stand anywhere.
    pub(crate) fn has_flex_bg(&self) -> bool {
        self.incompat & INCOMPAT_FLEX_BG != 0
    }

    /// Group descriptors in a block.
    pub(crate) fn descs_per_block(&self) -> u32 {
        self.block_size / self.desc_size
    }

    /// Where block `n` of the descriptor table is, and how many blocks of it stand in a row there.
    pub(crate) fn desc_block(&self, n: u64) -> (u64, u64) {
        let old = self.first_meta_bg.unwrap_or(self.gdt_blocks);
        if n < old {
            return (self.first_data_block + 1 + n, old - n);
        }
        let first = u32::try_from(n * u64::from(self.descs_per_block())).unwrap_or(u32::MAX);
        (self.group_start(first) + u64::from(self.has_super(first)), 1)
    }

    /// Blocks of superblock and descriptor copies at a group's start.
    pub(crate) fn group_head(&self, group: u32) -> u64 {
        let copy = u64::from(self.has_super(group));
        let old = self.first_meta_bg.unwrap_or(self.gdt_blocks);
        let per = self.descs_per_block();
        if u64::from(group / per) < old {
            return copy * (1 + old);
        }
        // A table block in the first group that it describes, copies in the second and the last.
        let place = group % per;
        copy + u64::from(place <= 1 || place == per - 1)
    }

    /// Blocks behind [`Self::group_head`] that are kept for a larger table.
    pub(crate) fn reserved_head(&self, group: u32) -> u64 {
        let keeps = self.first_meta_bg.is_none() && self.has_super(group);
        u64::from(keeps) * u64::from(self.reserved_gdt_blocks)
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
            return self.backup_groups.contains(&group);
        }
        self.ro_compat & RO_COMPAT_SPARSE_SUPER == 0 || sparse_copy(group)
    }

    /// Free blocks and inodes as the superblock's bytes `s` count them.
    pub(crate) fn free_totals(&self, s: &[u8]) -> Result<(u64, u64), FsError> {
        let wide = self.incompat & INCOMPAT_64BIT != 0;
        let high = if wide { u64::from(u32_at(s, 0x158)?) } else { 0 };
        let blocks = u64::from(u32_at(s, S_FREE_BLOCKS)?) | high << 32;
        Ok((blocks, u64::from(u32_at(s, S_FREE_INODES)?)))
    }

    /// Blocks that hold no files: what `statfs` takes off the total, as Linux does.
    pub(crate) fn overhead(&self) -> u64 {
        let heads = (0..self.groups).map(|g| self.group_head(g) + self.reserved_head(g));
        let own = u64::from(self.groups).saturating_mul(2 + self.inode_table_blocks());
        heads.sum::<u64>().saturating_add(self.first_data_block).saturating_add(own)
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

/// Bytes of a block, and the block that holds the superblock.
fn block_size(b: &[u8]) -> Result<(u32, u64), FsError> {
    let log = u32_at(b, 0x18)?;
    ensure(log <= 6, "s_log_block_size is above 64 KiB")?;
    let block_size = 1024u32 << log;
    let first_data_block = u64::from(u32_at(b, 0x14)?);
    let fits = first_data_block == u64::from(block_size == 1024);
    ensure(fits, "s_first_data_block does not fit the block size")?;
    Ok((block_size, first_data_block))
}

/// The first inode for files, and the bytes of an inode; revision 0 (not `dynamic`) has no fields
/// for them.
fn inode_fields(b: &[u8], dynamic: bool, block_size: u32) -> Result<(u32, u16), FsError> {
    if !dynamic {
        return Ok((GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE));
    }
    let inode_size = u16_at(b, S_INODE_SIZE)?;
    ensure(
        inode_size.is_power_of_two()
            && inode_size >= GOOD_OLD_INODE_SIZE
            && u32::from(inode_size) <= block_size,
        "s_inode_size is not a power of two from 128 to the block size",
    )?;
    Ok((u32_at(b, S_FIRST_INO)?, inode_size))
}

/// Bytes of a group descriptor with the feature `64bit`.
fn desc_size(b: &[u8]) -> Result<u32, FsError> {
    let size = u32::from(u16_at(b, 0xFE)?);
    if size.is_power_of_two() && (64..=1024).contains(&size) {
        return Ok(size);
    }
    Err(bad(format!("64bit: s_desc_size is {size}, not a power of two from 64 to 1024")))
}

/// Checks the superblock's own checksum, where it has one, and says how descriptors are summed.
fn checksum(
    b: &[u8; 1024],
    incompat: u32,
    ro_compat: u32,
    uuid: &[u8; 16],
) -> Result<DescSum, FsError> {
    if ro_compat & RO_COMPAT_METADATA_CSUM != 0 {
        let [kind] = array_at(b, 0x175)?;
        if kind != 1 {
            return Err(FsError::unsupported(format!("metadata_csum of kind {kind}")));
        }
        let (summed, stored) = b.split_at(0x3FC);
        ensure(
            u32_at(stored, 0)? == crc32c(!0, summed),
            "metadata_csum: the superblock's checksum is wrong",
        )?;
        let seeded = incompat & INCOMPAT_CSUM_SEED != 0;
        let seed = if seeded { u32_at(b, 0x270)? } else { crc32c(!0, uuid) };
        return Ok(DescSum::Crc32c(seed));
    }
    Ok(if ro_compat & RO_COMPAT_GDT_CSUM != 0 { DescSum::Crc16 } else { DescSum::None })
}

/// What a new inode uses past its first 128 bytes: `s_want_extra_isize` and `s_min_extra_isize`,
/// at least 32 (as mke2fs) where there is room.
fn extra_isize(b: &[u8], inode_size: u16) -> Result<u16, FsError> {
    let room = inode_size.saturating_sub(GOOD_OLD_INODE_SIZE);
    let asked = u16_at(b, 0x15C)?.max(u16_at(b, 0x15E)?).max(32);
    Ok((asked & !3).min(room))
}

/// `s_hash_seed`, `s_def_hash_version` and the bit of `s_flags` that says which bytes are hashed.
fn hashing(b: &[u8]) -> Result<Hashing, FsError> {
    let mut seed = [0; 4];
    for (i, word) in seed.iter_mut().enumerate() {
        *word = u32_at(b, 0xEC + i * 4)?;
    }
    let unsigned = u32_at(b, 0x160)? & FLAG_UNSIGNED_HASH != 0;
    Ok(Hashing { seed, version: u8_at(b, 0xFC)?, unsigned })
}

/// Groups with the copies of `sparse_super2`; 0 for none.
fn backup_groups(b: &[u8], compat: u32) -> Result<[u32; 2], FsError> {
    match compat & COMPAT_SPARSE_SUPER2 {
        0 => Ok([0, 0]),
        _ => Ok([u32_at(b, 0x24C)?, u32_at(b, 0x250)?]),
    }
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
        for (off, bit, name) in [(0x61, 0x80, "inline_data"), (0x65, 0x02, "bigalloc")] {
            let mut b = sample();
            b[off] |= bit;
            let e = Superblock::parse(&b, 8 << 20).unwrap_err();
            assert!(alloc::format!("{e}").contains(name), "{e}");
        }
        // What says that numbers are wider, without them.
        let mut b = sample();
        b[0x60] |= 0x80;
        let e = Superblock::parse(&b, 8 << 20).unwrap_err();
        assert!(alloc::format!("{e}").contains("64bit"), "{e}");
    }

    #[test]
    fn descriptors_of_metablock_groups() {
        let mut b = sample();
        let put = |b: &mut [u8; 1024], off: usize, v: u32| {
            b[off..off + 4].copy_from_slice(&v.to_le_bytes());
        };
        // 100 groups of 256 blocks, 32 descriptors a block, the first block in its old place.
        put(&mut b, 0x00, 800);
        put(&mut b, 0x04, 25_601);
        put(&mut b, 0x20, 256);
        put(&mut b, 0x28, 8);
        put(&mut b, 0x60, 0x12);
        put(&mut b, 0x104, 1);
        let sb = Superblock::parse(&b, 1 << 30).unwrap();
        assert_eq!((sb.groups, sb.gdt_blocks), (100, 4));
        assert_eq!(sb.desc_block(0), (2, 1));
        assert_eq!(sb.desc_block(1), (1 + 32 * 256, 1));
        let heads: Vec<u64> = [0, 1, 2, 3, 31, 32, 33, 49, 63, 64].map(|g| sb.group_head(g)).into();
        assert_eq!(heads, [2, 2, 0, 2, 0, 1, 1, 1, 1, 1]);
        put(&mut b, 0x104, 5);
        assert!(Superblock::parse(&b, 1 << 30).is_err());
    }

    #[test]
    fn sparse_copies() {
        let sb = Superblock::parse(&sample(), 8 << 20).unwrap();
        let with: Vec<u32> = (0..60).filter(|g| sb.has_super(*g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49]);
    }
}
