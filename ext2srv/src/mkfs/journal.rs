//! An empty journal, as Linux's jbd2 and e2fsck take it: a file in the inode 8, of zeroed blocks
//! behind a superblock that says "nothing in it". Zeroed, because what an older journal left in
//! those blocks could be taken for this one's.

use super::layout::Layout;
use super::{MkfsOptions, Output};
use crate::inode::Inode;
use alloc::vec;
use seawall_blockdev::PageBuf;
use seawall_diskfs::bytes::put;
use seawall_diskfs::{FsError, Kind, Site};

/// First word of a block of a journal that is none of data.
const MAGIC: u32 = 0xC03B_3998;
/// A superblock of the second version.
const SUPERBLOCK_V2: u32 = 4;

/// The journal's inode. Its blocks follow each other; those of pointers come before them.
pub(super) fn inode(opts: &MkfsOptions, l: &Layout) -> Inode {
    let j = l.journal;
    let mut i = Inode::new(Kind::File, 0o600, (0, 0), opts.time);
    i.size = j.blocks * u64::from(opts.block_size);
    i.sectors = (j.blocks + j.pointers) * u64::from(opts.block_size / 512);
    i.extra_isize = opts.inode_size.saturating_sub(128).min(32);
    let first = j.start + j.pointers;
    let data = first..first + j.blocks;
    let tree = j.start..j.start + j.pointers.min(2);
    for (p, b) in i.block.iter_mut().zip(data.take(12).chain(tree)) {
        *p = b as u32;
    }
    i
}

/// Writes the pointer blocks, the zeroes and the superblock.
pub(super) fn write(out: &mut Output<'_>, opts: &MkfsOptions, l: &Layout) -> Result<(), FsError> {
    let j = l.journal;
    let bs = opts.block_size as usize;
    let per = u64::from(opts.block_size / 4);
    let first = j.start + j.pointers;
    let mut tree = vec![0u8; bs * j.pointers as usize];
    for (n, block) in tree.chunks_mut(bs).enumerate() {
        // Block 0 is the single indirect one, block 1 the double, the others stand below it.
        let (from, to) = match n as u64 {
            0 => (first + 12, first + j.blocks),
            1 => (j.start + 2, j.start + j.pointers),
            n => (first + 12 + per * (n - 1), first + j.blocks),
        };
        for (i, b) in (from..to).take(per as usize).enumerate() {
            put(block, i * 4, &(b as u32).to_le_bytes())?;
        }
    }
    if !tree.is_empty() {
        out.write(j.start, &tree, Site::Indirect)?;
    }
    out.zero(first, j.blocks)?;
    let mut b = PageBuf::zeroed(bs);
    let fields = [
        (0x00, MAGIC),
        (0x04, SUPERBLOCK_V2),
        (0x0C, opts.block_size),
        // Length, first block of the log, first sequence expected, where the log begins: nowhere.
        (0x10, j.blocks as u32),
        (0x14, 1),
        (0x18, 1),
        (0x1C, 0),
        // One filesystem uses it.
        (0x40, 1),
    ];
    for (off, v) in fields {
        put(&mut b, off, &v.to_be_bytes())?;
    }
    put(&mut b, 0x30, &opts.uuid)?;
    out.write(first, &b, Site::Inode)
}
