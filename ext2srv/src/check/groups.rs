//! Group descriptors: where the volume's own structures are, whether they overlap, and whether the
//! backups say the same.

use super::Check;
use super::finding::{Finding, Kind};
use super::geometry::Fields;
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;

/// Flag of a group whose inode table and bitmap were never written.
const INODE_UNINIT: u16 = 1;
/// Flag of a group whose block bitmap was never written.
const BLOCK_UNINIT: u16 = 2;

/// A group descriptor as it stands on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Desc {
    pub(super) block_bitmap: u64,
    pub(super) inode_bitmap: u64,
    pub(super) inode_table: u64,
    pub(super) free_blocks: u32,
    pub(super) free_inodes: u32,
    pub(super) used_dirs: u32,
    unused: u32,
    flags: u16,
    /// It has flags without the feature that gives them a meaning.
    stray: bool,
    /// Its structures lie where they may.
    pub(super) sound: bool,
}

impl Desc {
    fn parse(d: Fields<'_>, wide: bool) -> Self {
        let high = |off: usize| if wide { u64::from(d.u32(off)) << 32 } else { 0 };
        let half = |off: usize| if wide { u32::from(d.u16(off)) << 16 } else { 0 };
        Self {
            block_bitmap: u64::from(d.u32(0)) | high(0x20),
            inode_bitmap: u64::from(d.u32(4)) | high(0x24),
            inode_table: u64::from(d.u32(8)) | high(0x28),
            free_blocks: u32::from(d.u16(0xC)) | half(0x2C),
            free_inodes: u32::from(d.u16(0xE)) | half(0x2E),
            used_dirs: u32::from(d.u16(0x10)) | half(0x30),
            unused: u32::from(d.u16(0x1C)) | half(0x32),
            flags: d.u16(0x12),
            stray: false,
            sound: true,
        }
    }

    pub(super) fn inodes_uninit(&self) -> bool {
        self.flags & INODE_UNINIT != 0 && !self.stray
    }

    pub(super) fn blocks_uninit(&self) -> bool {
        self.flags & BLOCK_UNINIT != 0 && !self.stray
    }

    /// Inodes at the table's end that were never in use.
    pub(super) fn unused(&self) -> u32 {
        if self.stray { 0 } else { self.unused }
    }

    /// True when the descriptor calls the inode at `index` unused, whatever that means here.
    pub(super) fn disowns(&self, index: u32, per_group: u32) -> bool {
        self.flags & INODE_UNINIT != 0 || index >= per_group.saturating_sub(self.unused)
    }

    fn places(&self) -> [u64; 3] {
        [self.block_bitmap, self.inode_bitmap, self.inode_table]
    }
}

impl Check<'_> {
    /// Reads the descriptors and marks the volume's own structures.
    pub(super) fn read_groups(&mut self) -> Result<(), FsError> {
        let groups = u64::from(self.geo.groups);
        self.budget.take(groups, size_of::<Desc>())?;
        self.groups = Vec::new();
        for index in 0..self.geo.desc_blocks() {
            let block = self.geo.desc_block(index);
            let buf = self.read_block(block, |f| f.detail("group descriptors"))?;
            let first = index * self.geo.descs_per_block();
            for i in 0..self.geo.descs_per_block().min(groups - first) {
                let desc = self.one_desc(buf.as_ref(), (first + i) as u32, i, block);
                self.groups.push(desc);
            }
        }
        for group in 0..self.geo.groups {
            self.mark_own(group)?;
        }
        Ok(())
    }

    fn one_desc(&mut self, buf: Option<&PageBuf>, group: u32, i: u64, block: u64) -> Desc {
        let size = self.geo.desc_size as usize;
        let Some(raw) = buf.and_then(|b| b.get(i as usize * size..)).and_then(|b| b.get(..size))
        else {
            return Desc::default();
        };
        let mut desc = Desc::parse(Fields(raw), self.geo.wide());
        let (sum, stands) = (self.geo.desc_sum(group, raw), Fields(raw).u16(0x1E));
        if let Some(right) = sum.filter(|s| *s != stands) {
            let f = Finding::new(Kind::GroupChecksum).group(group).block(block);
            self.add(f.found(stands).right(right));
        }
        if !self.geo.uninit() && (desc.flags & 3 != 0 || desc.unused != 0) {
            self.add(Finding::new(Kind::UninitFlag).group(group).block(block));
            // Whoever goes by the flag misses what is in use there.
            desc.stray = true;
        }
        self.check_places(group, block, &mut desc);
        desc
    }

    fn check_places(&mut self, group: u32, block: u64, desc: &mut Desc) {
        let geo = &self.geo;
        let (start, end) = if geo.flex_bg() {
            (geo.first_block, geo.blocks)
        } else {
            (geo.group_start(group), geo.group_end(group))
        };
        let table_end = desc.inode_table.saturating_add(geo.table_blocks());
        let inside = |b: u64| (start..end).contains(&b);
        let checks = [
            ("block bitmap", inside(desc.block_bitmap), desc.block_bitmap),
            ("inode bitmap", inside(desc.inode_bitmap), desc.inode_bitmap),
            ("inode table", inside(desc.inode_table) && table_end <= end, desc.inode_table),
        ];
        for (what, ok, place) in checks {
            if !ok {
                desc.sound = false;
                let f = Finding::new(Kind::GroupPlace).group(group).block(block);
                self.add(f.detail(what).found(place));
            }
        }
    }

    /// Marks what a group's structures occupy.
    fn mark_own(&mut self, group: u32) -> Result<(), FsError> {
        let start = self.geo.group_start(group);
        let head = self.geo.head(group).min(self.geo.group_end(group) - start);
        self.own(group, start, head, "superblock or descriptors")?;
        for block in start + head.min(1 + self.geo.old_desc_blocks())..start + head {
            self.spare.set(self.bit(block), &mut self.budget)?;
        }
        let desc = self.desc(group);
        let table = self.geo.table_blocks();
        let parts = [
            (desc.inode_table, table, "inode table"),
            (desc.block_bitmap, 1, "block bitmap"),
            (desc.inode_bitmap, 1, "inode bitmap"),
        ];
        for (start, len, what) in parts {
            if desc.sound {
                self.own(group, start, len, what)?;
            }
        }
        Ok(())
    }

    fn own(&mut self, group: u32, start: u64, len: u64, what: &'static str) -> Result<(), FsError> {
        let mut told = false;
        for block in start..start.saturating_add(len).min(self.geo.blocks) {
            let bit = block - self.geo.first_block;
            self.own.set(bit, &mut self.budget)?;
            if self.claimed.set(bit, &mut self.budget)? && !told {
                told = true;
                let f = Finding::new(Kind::GroupOverlap).group(group).block(block);
                self.add(f.detail(what));
            }
        }
        Ok(())
    }

    /// A group's descriptor.
    pub(super) fn desc(&self, group: u32) -> Desc {
        self.groups.get(group as usize).copied().unwrap_or_default()
    }

    /// Compares the copies of superblock and descriptors with the originals.
    pub(super) fn check_backups(&mut self, original: &[u8]) -> Result<(), FsError> {
        for group in 1..self.geo.groups {
            if !self.geo.has_super(group) {
                continue;
            }
            let block = self.geo.group_start(group);
            let Some(copy) = self.dev.read(block * self.geo.bs, 1024)? else {
                self.add(Finding::new(Kind::Unreadable).group(group).block(block));
                continue;
            };
            if let Some(field) = differs(Fields(original), Fields(&copy)) {
                let f = Finding::new(Kind::BackupDiffers).group(group).block(block);
                self.add(f.detail(field));
            }
            self.check_desc_copies(group, block + 1)?;
        }
        Ok(())
    }

    fn check_desc_copies(&mut self, group: u32, first: u64) -> Result<(), FsError> {
        for index in 0..self.geo.old_desc_blocks() {
            let block = first + index;
            if block >= self.geo.group_end(group) {
                return Ok(());
            }
            let Some(buf) = self.read_block(block, |f| f.detail("copy of descriptors"))? else {
                continue;
            };
            let size = self.geo.desc_size as usize;
            let from = (index * self.geo.descs_per_block()) as usize;
            let copies = buf.chunks_exact(size).map(|b| Desc::parse(Fields(b), self.geo.wide()));
            let mut pairs = self.groups.iter().skip(from).zip(copies).enumerate();
            let wrong = pairs.find(|(_, (d, c))| d.places() != c.places()).map(|(i, _)| i);
            if let Some(i) = wrong {
                let f = Finding::new(Kind::BackupDiffers).group(group).block(block);
                self.add(f.detail("descriptor of group").found((from + i) as u64));
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The first field that must be the same in a copy and is not.
fn differs(a: Fields<'_>, b: Fields<'_>) -> Option<&'static str> {
    // What the kernel sets in the original alone: large_file, dir_nlink, orphan_present, extents,
    // needs_recovery.
    let (ro, incompat) = (0x2 | 0x20 | 0x1_0000, 0x40 | 0x4);
    let fields = [
        ("s_magic", 0x38, 0xFFFF),
        ("s_inodes_count", 0, u32::MAX),
        ("s_blocks_count", 4, u32::MAX),
        ("s_log_block_size", 0x18, u32::MAX),
        ("s_blocks_per_group", 0x20, u32::MAX),
        ("s_inodes_per_group", 0x28, u32::MAX),
        ("s_rev_level", 0x4C, u32::MAX),
        ("s_feature_compat", 0x5C, u32::MAX),
        ("s_feature_incompat", 0x60, !incompat),
        ("s_feature_ro_compat", 0x64, !ro),
        ("s_uuid", 0x68, u32::MAX),
        ("s_uuid", 0x6C, u32::MAX),
        ("s_uuid", 0x70, u32::MAX),
        ("s_uuid", 0x74, u32::MAX),
    ];
    let wrong = fields.into_iter().find(|(_, off, mask)| (a.u32(*off) ^ b.u32(*off)) & mask != 0);
    wrong.map(|(name, ..)| name)
}
