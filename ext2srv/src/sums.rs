//! Checksums under `metadata_csum` of what is read: inodes, blocks of directories and of their
//! indexes, nodes of extents, attribute blocks. CRC-32C, begun with the volume's seed; what belongs
//! to an inode goes on with its number and generation. Facts of the format: Linux `fs/ext4`,
//! `inode.c`, `namei.c`, `extents.c` and `xattr.c`.
//!
//! Such volumes are only read, so no sum is made here. A block whose sum is wrong is damage of that
//! block (`Corrupt`); what stands elsewhere stays readable.

use crate::Ext2;
use crate::checksum::crc32c;
use crate::htree::{NODE_ENTRIES, ROOT_ENTRIES};
use crate::inode::Inode;
use crate::superblock::DescSum;
use seawall_diskfs::bytes::{slice, u16_at, u32_at};
use seawall_diskfs::{FsError, Ino};

/// `i_generation`.
const I_GENERATION: usize = 0x64;
/// `l_i_checksum_lo` and `i_checksum_hi`.
const SUM_LOW: usize = 0x7C;
const SUM_HIGH: usize = 0x82;
/// Bytes of an inode in the old format.
const OLD: usize = 128;
/// The record at the end of a directory block that holds its sum: no inode, 12 bytes, no name, and
/// a kind that is none.
const TAIL: [u8; 8] = [0, 0, 0, 0, 12, 0, 0, 0xDE];
const TAIL_LEN: usize = 12;
/// Bytes of an entry, of an index or of a node of extents.
const INDEX_ENTRY: usize = 8;
const EXTENT_ENTRY: usize = 12;
/// `h_checksum` of an attribute block.
const H_CHECKSUM: usize = 16;
/// `EXT2_OS_LINUX`: other systems have something else where an inode's sum is.
const OS_LINUX: u32 = 0;

const WRONG: &str = "the checksum is wrong";

fn ensure(fits: bool, what: &'static str, block: u64) -> Result<(), FsError> {
    if fits { Ok(()) } else { Err(FsError::corrupt(what, block, WRONG)) }
}

impl Ext2 {
    fn sum_seed(&self) -> Option<u32> {
        match self.sb.desc_sum {
            DescSum::Crc32c(seed) => Some(seed),
            _ => None,
        }
    }

    /// Checks an inode's bytes. Returns the seed of the sums of its blocks, if the volume has such.
    pub(crate) fn inode_sums(&self, raw: &[u8], ino: Ino) -> Result<Option<u32>, &'static str> {
        let Some(seed) = self.sum_seed() else { return Ok(None) };
        let outside = |_| "inode lies outside its block";
        let number = u32::try_from(ino.0).unwrap_or(0);
        let generation = slice(raw, I_GENERATION, 4).map_err(outside)?;
        let seed = crc32c(crc32c(seed, &number.to_le_bytes()), generation);
        let fits = self.sb.creator_os != OS_LINUX || inode_fits(raw, seed).map_err(outside)?;
        if fits { Ok(Some(seed)) } else { Err(WRONG) }
    }

    /// Checks a block of a directory that names are read from. Blocks of its index come by, too: a
    /// first record, or a second one behind `.`, that leaves no room for the sum of names. In the
    /// place of that sum they may have anything.
    pub(crate) fn check_dir_sum(&self, inode: &Inode, b: &[u8], disk: u64) -> Result<(), FsError> {
        const WHAT: &str = "directory block";
        let Some(seed) = inode.sums else { return Ok(()) };
        let limits = self.dir_limits();
        let record = |off| limits.record(b, off, disk).map_or((0, 0), |r| (r.ino, r.len));
        let index = match record(0) {
            (0, n) if n == limits.block_size => Some(NODE_ENTRIES),
            (_, 12) if record(12).1 == limits.block_size - 12 => Some(ROOT_ENTRIES),
            _ => None,
        };
        if let Some(base) = index.filter(|_| self.is_indexed(inode)) {
            let (limit, count) = (u16_at(b, base)?, u16_at(b, base + 2)?);
            return ensure(index_fits(b, seed, base, limit.into(), count.into())?, WHAT, disk);
        }
        let names = limits.block_size.saturating_sub(TAIL_LEN);
        if slice(b, names, TAIL.len())? != TAIL {
            return Err(FsError::corrupt(WHAT, disk, "there is no checksum"));
        }
        let sum = crc32c(seed, slice(b, 0, names)?);
        ensure(u32_at(b, names + TAIL.len())? == sum, WHAT, disk)
    }

    /// Checks an index block with `count` entries of `limit` from `base` on.
    pub(crate) fn check_index_sum(
        &self,
        inode: &Inode,
        (b, disk): (&[u8], u64),
        base: usize,
        (limit, count): (usize, usize),
    ) -> Result<(), FsError> {
        let Some(seed) = inode.sums else { return Ok(()) };
        ensure(index_fits(b, seed, base, limit, count)?, crate::htree::WHAT, disk)
    }

    /// Checks a node of extents below the root; its room was checked.
    pub(crate) fn check_extent_sum(
        &self,
        inode: &Inode,
        (b, disk): (&[u8], u64),
        what: &'static str,
    ) -> Result<(), FsError> {
        let Some(seed) = inode.sums else { return Ok(()) };
        let end = (usize::from(u16_at(b, 4)?) + 1) * EXTENT_ENTRY;
        let sum = slice(b, 0, end).map(|node| crc32c(seed, node))?;
        // A node with room for so many entries that its sum has none is not a kernel's.
        let stored = u32_at(b, end).ok();
        ensure(stored == Some(sum), what, disk)
    }

    /// Checks an attribute block.
    pub(crate) fn check_xattr_sum(
        &self,
        b: &[u8],
        disk: u64,
        what: &'static str,
    ) -> Result<(), FsError> {
        let Some(seed) = self.sum_seed() else { return Ok(()) };
        let rest = H_CHECKSUM + 4;
        let len = (self.sb.block_size as usize).saturating_sub(rest);
        let sum = crc32c(seed, &disk.to_le_bytes());
        let sum = crc32c(crc32c(sum, slice(b, 0, H_CHECKSUM)?), &[0; 4]);
        let sum = crc32c(sum, slice(b, rest, len)?);
        ensure(u32_at(b, H_CHECKSUM)? == sum, what, disk)
    }
}

/// The sum stands in two halves, the upper one only where the inode reaches so far.
fn inode_fits(raw: &[u8], seed: u32) -> Result<bool, FsError> {
    let low = u16_at(raw, SUM_LOW)?;
    let sum = crc32c(crc32c(seed, slice(raw, 0, SUM_LOW)?), &[0; 2]);
    let sum = crc32c(sum, slice(raw, SUM_LOW + 2, OLD - SUM_LOW - 2)?);
    if raw.len() <= OLD {
        return Ok(sum as u16 == low);
    }
    let sum = crc32c(sum, slice(raw, OLD, SUM_HIGH - OLD)?);
    // i_extra_isize says how many of the bytes behind the old ones are fields.
    if OLD + usize::from(u16_at(raw, OLD)?) < SUM_HIGH + 2 {
        let sum = crc32c(sum, slice(raw, SUM_HIGH, raw.len() - SUM_HIGH)?);
        return Ok(sum as u16 == low);
    }
    let sum = crc32c(crc32c(sum, &[0; 2]), slice(raw, SUM_HIGH + 2, raw.len() - SUM_HIGH - 2)?);
    Ok(sum == u32::from(low) | u32::from(u16_at(raw, SUM_HIGH)?) << 16)
}

/// The sum covers the block up to the last entry in use, and the reserved word before it.
fn index_fits(
    b: &[u8],
    seed: u32,
    base: usize,
    limit: usize,
    count: usize,
) -> Result<bool, FsError> {
    let tail = base + limit * INDEX_ENTRY;
    if count > limit || tail + INDEX_ENTRY > b.len() {
        return Ok(false);
    }
    let sum = crc32c(seed, slice(b, 0, base + count * INDEX_ENTRY)?);
    let sum = crc32c(crc32c(sum, slice(b, tail, 4)?), &[0; 4]);
    Ok(u32_at(b, tail + 4)? == sum)
}
