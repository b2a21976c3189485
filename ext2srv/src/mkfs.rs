//! Making a volume: revision 1 with `filetype`, `sparse_super` and `large_file`, what every ext2
//! reader of the last twenty years takes, or with the features asked for. No room is kept for
//! growing the descriptor table.
//!
//! The primary superblock is written last: a device on which this was cut short has no magic number
//! and is refused. Nothing here is durable before the caller's `sync`.

mod features;
mod journal;
mod layout;

use crate::checksum::crc16;
use crate::dirent::DirLimits;
use crate::inode::Inode;
use crate::superblock::{GOOD_OLD_FIRST_INO, MAGIC, STATE_VALID};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
pub use features::MkfsFeatures;
use layout::{GroupPlan, LOST_FOUND_INO, Layout};
use seawall_blockdev::{BlockDev, PageBuf, Run, WriteFlags, WriteRun};
use seawall_diskfs::bytes::{put, slice, slice_mut};
use seawall_diskfs::{FsError, Kind, Site, Timestamp};

/// The journal's inode (`EXT2_JOURNAL_INO`).
const JOURNAL_INO: u32 = 8;
/// The whole inode table was zeroed (`EXT4_BG_INODE_ZEROED`).
const BG_INODE_ZEROED: u16 = 4;

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of the volume; what does not fill a block, or a useful last group, stays unused.
    pub size: u64,
    /// Bytes of a block: a power of two from 1024 to 65536.
    pub block_size: u32,
    /// Bytes of an inode: a power of two from 128 to the block size.
    pub inode_size: u16,
    /// Inodes at least; `None`: one for 4 KiB below 512 MiB, else for 16 KiB.
    pub inodes: Option<u32>,
    /// Hundredths of the volume that only the superuser should fill, at most 50.
    pub reserved_percent: u32,
    /// Volume name, padded with zeroes.
    pub label: [u8; 16],
    /// Volume identity.
    pub uuid: [u8; 16],
    /// Creation time: the library has no clock.
    pub time: Timestamp,
    /// Features, and the journal.
    pub features: MkfsFeatures,
}

impl MkfsOptions {
    /// A volume of `size` bytes as mke2fs would make it: 1 KiB blocks below 512 MiB, else 4 KiB;
    /// 256-byte inodes; 5 % reserved.
    pub fn new(size: u64, uuid: [u8; 16], time: Timestamp) -> Self {
        Self {
            size,
            block_size: if size < 512 << 20 { 1024 } else { 4096 },
            inode_size: 256,
            inodes: None,
            reserved_percent: 5,
            label: [0; 16],
            uuid,
            time,
            features: MkfsFeatures::default(),
        }
    }
}

/// Makes a volume at the start of the device. Old content of the data area stays. Returns the bytes
/// of the volume made, which may be less than asked for: see [`MkfsOptions::size`].
///
/// # Errors
/// `Unsupported` when the options contradict each other, the volume is too small for them, or the
/// device's blocks are larger than the volume's; `Io` from the device.
pub fn mkfs(dev: &mut dyn BlockDev, opts: &MkfsOptions) -> Result<u64, FsError> {
    let caps = dev.caps();
    let layout = Layout::new(opts)?;
    if opts.size > caps.size {
        let what = format!("a volume of {} bytes on a device of {}", opts.size, caps.size);
        return Err(FsError::unsupported(what));
    }
    if caps.logical > opts.block_size {
        let what = format!("blocks of {} bytes on a device of {}", opts.block_size, caps.logical);
        return Err(FsError::unsupported(what));
    }
    let mut out = Output { dev, block_size: u64::from(opts.block_size), max_io: caps.max_io };
    let descs = descriptors(opts, &layout)?;
    // First of all the old magic number goes.
    out.zero(0, layout.first_data_block + 1)?;
    for g in &layout.groups {
        out.zero(g.inode_table, layout.inode_table_blocks)?;
        out.write(g.block_bitmap, &block_bitmap(&layout, g)?, Site::Bitmap)?;
        out.write(g.inode_bitmap, &inode_bitmap(&layout, g)?, Site::Bitmap)?;
        if let Some((at, part)) = layout.table_part(g) {
            let bs = out.block_size;
            let bytes =
                slice(&descs, (part.start * bs) as usize, ((part.end - part.start) * bs) as usize)?;
            out.write(at, bytes, Site::Hypermetadata)?;
        }
        if g.has_super && g.index > 0 {
            let mut block = PageBuf::zeroed(opts.block_size as usize);
            put(&mut block, 0, &superblock(opts, &layout, g.index)?)?;
            out.write(g.start, &block, Site::Hypermetadata)?;
        }
    }
    write_nodes(&mut out, opts, &layout)?;
    let mut block = PageBuf::zeroed(opts.block_size as usize);
    let off = if opts.block_size == 1024 { 0 } else { 1024 };
    put(&mut block, off, &superblock(opts, &layout, 0)?)?;
    out.write(layout.first_data_block, &block, Site::Hypermetadata)?;
    Ok(layout.blocks * u64::from(layout.block_size))
}

/// Whole blocks to the device, in requests that it takes.
struct Output<'a> {
    dev: &'a mut dyn BlockDev,
    block_size: u64,
    max_io: u32,
}

impl Output<'_> {
    fn most(&self) -> u64 {
        (u64::from(self.max_io) / self.block_size * self.block_size).max(self.block_size)
    }

    fn write(&mut self, block: u64, bytes: &[u8], site: Site) -> Result<(), FsError> {
        let most = self.most();
        for (i, part) in bytes.chunks(most as usize).enumerate() {
            let start = block * self.block_size + i as u64 * most;
            let run = WriteRun { start, buf: part, tag: site.tag() };
            self.dev.write(&[run], WriteFlags::default())?;
        }
        Ok(())
    }

    fn zero(&mut self, block: u64, blocks: u64) -> Result<(), FsError> {
        let end = (block + blocks) * self.block_size;
        let mut at = block * self.block_size;
        while at < end {
            let len = self.most().min(end - at);
            self.dev.write_zeroes(Run::new(at, len), Site::Inode.tag())?;
            at += len;
        }
        Ok(())
    }
}

fn descriptors(opts: &MkfsOptions, l: &Layout) -> Result<PageBuf, FsError> {
    let mut b = PageBuf::zeroed((l.gdt_blocks * u64::from(l.block_size)) as usize);
    for g in &l.groups {
        let off = g.index as usize * 32;
        put(&mut b, off, &(g.block_bitmap as u32).to_le_bytes())?;
        put(&mut b, off + 4, &(g.inode_bitmap as u32).to_le_bytes())?;
        put(&mut b, off + 8, &(g.inode_table as u32).to_le_bytes())?;
        put(&mut b, off + 12, &(g.free_blocks() as u16).to_le_bytes())?;
        put(&mut b, off + 14, &(l.free_inodes(g) as u16).to_le_bytes())?;
        put(&mut b, off + 16, &(if g.index == 0 { 2u16 } else { 0 }).to_le_bytes())?;
        if l.features.uninit_bg {
            // Everything is written, so nothing but the inodes not begun is left to say.
            put(&mut b, off + 18, &BG_INODE_ZEROED.to_le_bytes())?;
            put(&mut b, off + 28, &(l.free_inodes(g) as u16).to_le_bytes())?;
            let parts = [&opts.uuid[..], &g.index.to_le_bytes(), slice(&b, off, 30)?];
            let sum = parts.iter().fold(!0, |crc, part| crc16(crc, part));
            put(&mut b, off + 30, &sum.to_le_bytes())?;
        }
    }
    Ok(b)
}

/// Sets bits `from..to`.
fn set_bits(map: &mut [u8], from: u64, to: u64) {
    for n in from..to {
        if let Some(b) = map.get_mut((n / 8) as usize) {
            *b |= 1 << (n % 8);
        }
    }
}

fn block_bitmap(l: &Layout, g: &GroupPlan) -> Result<PageBuf, FsError> {
    let mut b = PageBuf::zeroed(l.block_size as usize);
    set_bits(&mut b, 0, g.used);
    set_bits(&mut b, g.len, u64::from(l.block_size) * 8);
    Ok(b)
}

fn inode_bitmap(l: &Layout, g: &GroupPlan) -> Result<PageBuf, FsError> {
    let mut b = PageBuf::zeroed(l.block_size as usize);
    if g.index == 0 {
        set_bits(&mut b, 0, u64::from(LOST_FOUND_INO));
    }
    set_bits(&mut b, u64::from(l.inodes_per_group), u64::from(l.block_size) * 8);
    Ok(b)
}

/// Root and lost+found: their inodes and blocks.
fn write_nodes(out: &mut Output<'_>, opts: &MkfsOptions, l: &Layout) -> Result<(), FsError> {
    let isize = usize::from(opts.inode_size);
    let bs = opts.block_size as usize;
    let sectors = u64::from(opts.block_size / 512);
    let mut table = vec![0u8; (LOST_FOUND_INO as usize * isize).next_multiple_of(bs)];
    let mut node = |ino: u32, mode: u32, links: u16, first: u64, blocks: u64| {
        let mut i = Inode::new(Kind::Dir, mode, (0, 0), opts.time);
        i.links = links;
        i.size = blocks * u64::from(opts.block_size);
        i.sectors = blocks * sectors;
        i.extra_isize = opts.inode_size.saturating_sub(128).min(32);
        for (p, b) in i.block.iter_mut().zip(first..first + blocks) {
            *p = b as u32;
        }
        let raw = slice_mut(&mut table, (ino as usize - 1) * isize, isize)?;
        i.encode(raw)
    };
    node(2, 0o755, 3, l.root_block, 1)?;
    node(LOST_FOUND_INO, 0o700, 2, l.root_block + 1, l.lost_found_blocks)?;
    if l.features.journal {
        let raw = slice_mut(&mut table, (JOURNAL_INO as usize - 1) * isize, isize)?;
        journal::inode(opts, l).encode(raw)?;
        journal::write(out, opts, l)?;
    }
    let first = l.groups.first().ok_or(FsError::Bug("a volume without groups"))?;
    out.write(first.inode_table, &table, Site::Inode)?;

    let limits = DirLimits {
        block_size: bs,
        filetype: opts.features.filetype,
        first_ino: GOOD_OLD_FIRST_INO,
        inodes: l.inodes,
    };
    let mut dirs: Vec<u8> = vec![0; bs * (1 + l.lost_found_blocks as usize)];
    for (n, b) in dirs.chunks_mut(bs).enumerate() {
        let own = if n == 0 { 2 } else { LOST_FOUND_INO };
        if n > 1 {
            limits.write(b, 0, bs, (0, Kind::Dir, b""))?;
            put(b, 7, &[0])?;
            continue;
        }
        limits.write(b, 0, 12, (own, Kind::Dir, b"."))?;
        if n == 1 {
            limits.write(b, 12, bs - 12, (2, Kind::Dir, b".."))?;
        } else {
            limits.write(b, 12, 12, (2, Kind::Dir, b".."))?;
            limits.write(b, 24, bs - 24, (LOST_FOUND_INO, Kind::Dir, b"lost+found"))?;
        }
    }
    out.write(l.root_block, &dirs, Site::Dirent)
}

fn superblock(opts: &MkfsOptions, l: &Layout, group: u32) -> Result<[u8; 1024], FsError> {
    let mut b = [0u8; 1024];
    let mut w32 = |off: usize, v: u32| put(&mut b, off, &v.to_le_bytes());
    let now = u32::try_from(opts.time.secs).unwrap_or(0);
    let log = opts.block_size.trailing_zeros() - 10;
    let free: u64 = l.groups.iter().map(GroupPlan::free_blocks).sum();
    w32(0x00, l.inodes)?;
    w32(0x04, l.blocks as u32)?;
    w32(0x08, (l.blocks * u64::from(opts.reserved_percent) / 100) as u32)?;
    w32(0x0C, free as u32)?;
    w32(0x10, l.inodes - LOST_FOUND_INO)?;
    w32(0x14, l.first_data_block as u32)?;
    w32(0x18, log)?;
    w32(0x1C, log)?;
    w32(0x20, l.blocks_per_group as u32)?;
    w32(0x24, l.blocks_per_group as u32)?;
    w32(0x28, l.inodes_per_group)?;
    w32(0x30, now)?;
    w32(0x40, now)?;
    w32(0x4C, 1)?;
    w32(0x54, GOOD_OLD_FIRST_INO)?;
    let (compat, incompat, ro_compat) = l.features.words();
    w32(0x5C, compat)?;
    w32(0x60, incompat)?;
    w32(0x64, ro_compat)?;
    if l.features.sparse_super2 {
        w32(0x24C, l.backup_groups[0])?;
        w32(0x250, l.backup_groups[1])?;
    }
    w32(0x108, now)?;
    // Signed name hashes, should directories be indexed later.
    w32(0x160, 1)?;
    let mut w16 = |off: usize, v: u16| put(&mut b, off, &v.to_le_bytes());
    // No check after a number of mounts.
    w16(0x36, 0xFFFF)?;
    w16(0x38, MAGIC)?;
    w16(0x3A, STATE_VALID)?;
    // On errors: continue.
    w16(0x3C, 1)?;
    w16(0x58, opts.inode_size)?;
    w16(0x5A, group as u16)?;
    let extra = opts.inode_size.saturating_sub(128).min(32);
    w16(0x15C, extra)?;
    w16(0x15E, extra)?;
    put(&mut b, 0x68, &opts.uuid)?;
    put(&mut b, 0x78, &opts.label)?;
    put(&mut b, 0xEC, &opts.uuid)?;
    // Half MD4.
    put(&mut b, 0xFC, &[1])?;
    if l.features.journal {
        put(&mut b, 0xE0, &JOURNAL_INO.to_le_bytes())?;
        // A copy of the journal's inode, should that be lost.
        put(&mut b, 0xFD, &[1])?;
        let inode = journal::inode(opts, l);
        put(&mut b, 0x10C, &inode.block_bytes())?;
        put(&mut b, 0x14C, &(inode.size as u32).to_le_bytes())?;
    }
    Ok(b)
}
