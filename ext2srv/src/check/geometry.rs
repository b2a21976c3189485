//! The superblock as a checker reads it: a number that a mount would refuse is a finding, and the
//! check goes on wherever the rest of the volume can still be found.

use super::finding::{Finding, Kind};
use crate::checksum::{crc16, crc32c};
use crate::htree::{FLAG_UNSIGNED_HASH, Hashing};
use crate::superblock::{GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE, MAGIC, sparse_copy};
use crate::superblock::{STATE_ERROR, STATE_VALID};
use alloc::borrow::Cow;
use alloc::format;
use seawall_diskfs::FsError;
use seawall_diskfs::check::Report;

pub(super) const HAS_JOURNAL: u32 = 0x4;
pub(super) const EXT_ATTR: u32 = 0x8;
const RESIZE_INODE: u32 = 0x10;
pub(super) const DIR_INDEX: u32 = 0x20;
const SPARSE_SUPER2: u32 = 0x200;
const ORPHAN_FILE: u32 = 0x1000;
/// Compatible features whose meaning is known: those above, dir_prealloc, imagic_inodes,
/// fast_commit, stable_inodes. A checker must know them all, as what it does not know may own
/// blocks.
const COMPAT: u32 = 0x123C | 0x1 | 0x2 | 0x400 | 0x800;

pub(super) const FILETYPE: u32 = 0x2;
const RECOVER: u32 = 0x4;
const META_BG: u32 = 0x10;
pub(super) const EXTENTS: u32 = 0x40;
const BITS64: u32 = 0x80;
const FLEX_BG: u32 = 0x200;
const CSUM_SEED: u32 = 0x2000;
pub(super) const LARGE_DIR: u32 = 0x4000;
/// Incompatible features that the check understands.
const INCOMPAT: u32 =
    FILETYPE | RECOVER | META_BG | EXTENTS | BITS64 | FLEX_BG | CSUM_SEED | LARGE_DIR;

const SPARSE_SUPER: u32 = 0x1;
pub(super) const LARGE_FILE: u32 = 0x2;
pub(super) const HUGE_FILE: u32 = 0x8;
const GDT_CSUM: u32 = 0x10;
const QUOTA: u32 = 0x100;
const BIGALLOC: u32 = 0x200;
const METADATA_CSUM: u32 = 0x400;
const PROJECT: u32 = 0x2000;
const SHARED_BLOCKS: u32 = 0x4000;
const VERITY: u32 = 0x8000;
/// Read-only compatible features whose meaning is known: those above, dir_nlink, extra_isize,
/// readonly, orphan_present.
const RO_COMPAT: u32 =
    0x1 | 0x2 | 0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x400 | 0x1000 | 0x2000 | 0x8000 | 0x1_0000;

/// Creator of a volume that GNU/Hurd made: its inodes keep other things where Linux keeps high
/// halves.
const OS_HURD: u32 = 1;

/// How group descriptors are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sum {
    #[default]
    None,
    /// `uninit_bg`: over the volume's identity, the group's number and the descriptor.
    Crc16([u8; 16]),
    /// `metadata_csum`: begins with this seed.
    Crc32c(u32),
}

/// Numbers of the superblock that the check relies on.
#[derive(Clone, Debug, Default)]
pub(super) struct Geo {
    pub(super) bs: u64,
    pub(super) blocks: u64,
    pub(super) inodes: u32,
    pub(super) first_block: u64,
    pub(super) per_group: u64,
    pub(super) inodes_per_group: u32,
    pub(super) inode_size: u64,
    pub(super) first_ino: u32,
    pub(super) groups: u32,
    pub(super) desc_size: u64,
    pub(super) reserved_gdt: u64,
    pub(super) first_meta_bg: u64,
    pub(super) backup_groups: [u32; 2],
    pub(super) compat: u32,
    pub(super) incompat: u32,
    pub(super) ro_compat: u32,
    pub(super) hurd: bool,
    pub(super) journal_inum: u32,
    orphan_file: u32,
    quota_files: [u32; 3],
    pub(super) prealloc_dir_blocks: u64,
    pub(super) hashing: Hashing,
    pub(super) free_blocks: u64,
    pub(super) free_inodes: u64,
    sum: Sum,
    /// A deletion time below the number of inodes cannot be a time.
    pub(super) low_dtime: bool,
}

/// Bytes with fields; what lies outside reads as zero.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn u8(self, off: usize) -> u8 {
        self.0.get(off).copied().unwrap_or(0)
    }

    pub(super) fn u16(self, off: usize) -> u16 {
        u16::from(self.u8(off)) | u16::from(self.u8(off + 1)) << 8
    }

    pub(super) fn u32(self, off: usize) -> u32 {
        u32::from(self.u16(off)) | u32::from(self.u16(off + 2)) << 16
    }
}

type Found = Report<Finding>;

fn bad(found: &mut Found, what: impl Into<Cow<'static, str>>, value: u64) {
    found.add(Finding::new(Kind::Superblock).block(0).detail(what).found(value));
}

impl Geo {
    /// Reads the superblock. `None`: without these numbers nothing else can be found.
    ///
    /// # Errors
    /// `Unsupported` names the incompatible features that make the volume unreadable to this check.
    pub(super) fn read(
        bytes: &[u8],
        device_size: u64,
        found: &mut Found,
    ) -> Result<Option<Self>, FsError> {
        let s = Fields(bytes);
        if s.u16(0x38) != MAGIC {
            bad(found, "no ext2 magic number", u64::from(s.u16(0x38)));
            return Ok(None);
        }
        if s.u32(0x4C) > 1 {
            bad(found, "s_rev_level", u64::from(s.u32(0x4C)));
            return Ok(None);
        }
        if s.u32(0x18) > 6 {
            bad(found, "s_log_block_size", u64::from(s.u32(0x18)));
            return Ok(None);
        }
        let mut geo = Self::fields(s);
        features(&geo, found)?;
        if geo.metadata_csum() {
            let sum = crc32c(!0, bytes.get(..0x3FC).unwrap_or_default());
            if s.u8(0x175) != 1 || s.u32(0x3FC) != sum {
                bad(found, "s_checksum", u64::from(s.u32(0x3FC)));
            }
        }
        if !geo.numbers(s, device_size, found) {
            return Ok(None);
        }
        geo.marks(s, found);
        Ok(Some(geo))
    }

    fn fields(s: Fields<'_>) -> Self {
        let rev1 = s.u32(0x4C) == 1;
        // Linux and e2fsprogs go by the feature words of revision 0 too.
        let incompat = s.u32(0x60);
        let wide = incompat & BITS64 != 0;
        let high = |off: usize| if wide { u64::from(s.u32(off)) << 32 } else { 0 };
        let inodes = s.u32(0);
        let stamps = [0x30, 0x2C, 0x108].map(|off| s.u32(off));
        Self {
            bs: 1024 << (s.u32(0x18) & 7),
            blocks: u64::from(s.u32(4)) | high(0x150),
            inodes,
            first_block: u64::from(s.u32(0x14)),
            per_group: u64::from(s.u32(0x20)),
            inodes_per_group: s.u32(0x28),
            inode_size: u64::from(if rev1 { s.u16(0x58) } else { GOOD_OLD_INODE_SIZE }),
            first_ino: if rev1 { s.u32(0x54) } else { GOOD_OLD_FIRST_INO },
            groups: 0,
            desc_size: if wide { u64::from(s.u16(0xFE)) } else { 32 },
            reserved_gdt: u64::from(s.u16(0xCE)),
            first_meta_bg: u64::from(s.u32(0x104)),
            backup_groups: [s.u32(0x24C), s.u32(0x250)],
            compat: s.u32(0x5C),
            incompat,
            ro_compat: s.u32(0x64),
            hurd: s.u32(0x48) == OS_HURD,
            journal_inum: s.u32(0xE0),
            orphan_file: s.u32(0x280),
            quota_files: [0x240, 0x244, 0x26C].map(|off| s.u32(off)),
            prealloc_dir_blocks: u64::from(s.u8(0xCD)),
            hashing: Hashing {
                seed: [0xEC, 0xF0, 0xF4, 0xF8].map(|off| s.u32(off)),
                unsigned: s.u32(0x160) & FLAG_UNSIGNED_HASH != 0,
                ..Hashing::default()
            },
            free_blocks: u64::from(s.u32(0xC)) | high(0x158),
            free_inodes: u64::from(s.u32(0x10)),
            sum: sum_of(s, incompat, s.u32(0x64)),
            low_dtime: stamps.into_iter().all(|t| t == 0 || t >= inodes),
        }
    }

    /// Checks the numbers against each other. False: they lead nowhere.
    fn numbers(&mut self, s: Fields<'_>, device_size: u64, found: &mut Found) -> bool {
        let bits = self.bs * 8;
        let per_block = self.bs.checked_div(self.inode_size).unwrap_or(0);
        let most_inodes = (per_block * self.per_group.saturating_sub(4)).min(65536 - per_block);
        let (ipg, bpg) = (u64::from(self.inodes_per_group), self.per_group);
        let isize = self.inode_size;
        let reserved = u64::from(s.u32(8));
        let first = u64::from(self.bs == 1024);
        let checks = [
            ("s_blocks_count", self.blocks > self.first_block, self.blocks),
            ("s_inodes_count", self.inodes > 0, u64::from(self.inodes)),
            ("s_first_data_block", self.first_block == first, self.first_block),
            ("s_inode_size", isize.is_power_of_two() && (128..=self.bs).contains(&isize), isize),
            ("s_blocks_per_group", (8..=bits.min(65528)).contains(&bpg) && bpg % 8 == 0, bpg),
            ("s_clusters_per_group", u64::from(s.u32(0x24)) == bpg, u64::from(s.u32(0x24))),
            ("s_log_cluster_size", s.u32(0x1C) == s.u32(0x18), u64::from(s.u32(0x1C))),
            (
                "s_inodes_per_group",
                per_block > 0 && (per_block..=most_inodes.min(bits)).contains(&ipg),
                ipg,
            ),
            ("s_r_blocks_count", reserved <= self.blocks / 2, reserved),
            ("s_reserved_gdt_blocks", self.reserved_gdt <= self.bs / 4, self.reserved_gdt),
            (
                "s_desc_size",
                self.desc_size.is_power_of_two()
                    && (32..=1024).contains(&self.desc_size)
                    && (self.incompat & BITS64 == 0 || self.desc_size >= 64),
                self.desc_size,
            ),
            (
                "s_first_ino",
                (GOOD_OLD_FIRST_INO..=self.inodes).contains(&self.first_ino),
                u64::from(self.first_ino),
            ),
        ];
        for (field, ok, value) in checks {
            if !ok {
                bad(found, field, value);
                return false;
            }
        }
        let groups = (self.blocks - self.first_block).div_ceil(bpg);
        if groups.checked_mul(ipg) != Some(u64::from(self.inodes)) {
            bad(found, "s_inodes_count", u64::from(self.inodes));
            return false;
        }
        self.groups = u32::try_from(groups).unwrap_or(u32::MAX);
        self.size(device_size, found)
    }

    fn size(&self, device_size: u64, found: &mut Found) -> bool {
        let Some(bytes) = self.blocks.checked_mul(self.bs) else {
            bad(found, "s_blocks_count", self.blocks);
            return false;
        };
        if self.meta_bg() && self.first_meta_bg > self.desc_blocks() {
            bad(found, "s_first_meta_bg", self.first_meta_bg);
            return false;
        }
        if bytes > device_size {
            // What is left of the volume is still looked at.
            found.add(Finding::new(Kind::DeviceShort).found(device_size).right(bytes));
        }
        true
    }

    /// What the superblock says of the volume's past.
    fn marks(&self, s: Fields<'_>, found: &mut Found) {
        let state = s.u16(0x3A);
        if state & STATE_VALID == 0 {
            found.add(Finding::new(Kind::NotUnmounted));
        }
        if state & STATE_ERROR != 0 {
            found.add(Finding::new(Kind::ErrorMark));
        }
        if s.u32(0xE8) != 0 {
            found.add(Finding::new(Kind::OrphanHead).found(s.u32(0xE8)));
        }
        if self.incompat & RECOVER != 0 {
            let kind = if self.has_journal() { Kind::NeedsRecovery } else { Kind::JournalWithout };
            found.add(Finding::new(kind).detail(if self.has_journal() {
                ""
            } else {
                "needs_recovery"
            }));
        }
        let named = [0xD0, 0xD4, 0xD8, 0xDC, 0xE0].into_iter().any(|off| s.u32(off) != 0);
        if named && !self.has_journal() {
            found.add(Finding::new(Kind::JournalWithout).detail("s_journal_*"));
        }
        if self.compat & ORPHAN_FILE != 0 && !self.has_journal() {
            found.add(Finding::new(Kind::OrphanFile));
        }
        let mut hint = |field: &'static str, value: u64| {
            found.add(Finding::new(Kind::SuperHint).detail(field).found(value));
        };
        let room = self.inode_size - 128;
        for (field, off) in [("s_min_extra_isize", 0x15C), ("s_want_extra_isize", 0x15E)] {
            let v = u64::from(s.u16(off));
            if room > 0 && v != 0 && (v < 4 || v > room || v % 4 != 0) {
                hint(field, v);
            }
        }
        if s.u32(0x4C) == 0 && self.compat | self.incompat | self.ro_compat != 0 {
            hint("features on revision", 0);
        }
        if !self.resize_inode() && self.reserved_gdt != 0 {
            hint("s_reserved_gdt_blocks without the feature resize_inode", self.reserved_gdt);
        }
    }

    pub(super) fn has_journal(&self) -> bool {
        self.compat & HAS_JOURNAL != 0
    }

    pub(super) fn resize_inode(&self) -> bool {
        self.compat & RESIZE_INODE != 0
    }

    pub(super) fn meta_bg(&self) -> bool {
        self.incompat & META_BG != 0
    }

    pub(super) fn flex_bg(&self) -> bool {
        self.incompat & FLEX_BG != 0
    }

    pub(super) fn wide(&self) -> bool {
        self.incompat & BITS64 != 0
    }

    pub(super) fn extents(&self) -> bool {
        self.incompat & EXTENTS != 0
    }

    pub(super) fn metadata_csum(&self) -> bool {
        self.ro_compat & METADATA_CSUM != 0
    }

    /// What the checksum of a group's descriptor must be; `None` without checksums.
    pub(super) fn desc_sum(&self, group: u32, desc: &[u8]) -> Option<u16> {
        let head = desc.get(..0x1E).unwrap_or_default();
        let tail = desc.get(0x20..).unwrap_or_default();
        let number = group.to_le_bytes();
        match self.sum {
            Sum::None => None,
            Sum::Crc16(uuid) => {
                let parts = [&uuid[..], &number, head, tail];
                Some(parts.iter().fold(!0, |crc, part| crc16(crc, part)))
            }
            Sum::Crc32c(seed) => {
                let parts = [&number[..], head, &[0, 0], tail];
                Some(parts.iter().fold(seed, |crc, part| crc32c(crc, part)) as u16)
            }
        }
    }

    /// True when groups can be marked uninitialized.
    pub(super) fn uninit(&self) -> bool {
        self.ro_compat & (GDT_CSUM | METADATA_CSUM) != 0
    }

    /// Inodes that files of the quota feature own.
    pub(super) fn quota_inode(&self, ino: u32) -> bool {
        matches!(ino, 3 | 4)
    }

    pub(super) fn quota(&self) -> bool {
        self.ro_compat & QUOTA != 0
    }

    /// An inode for files that no directory names: ext4's list of deleted inodes, a quota file.
    pub(super) fn is_nameless(&self, ino: u32) -> bool {
        self.compat & ORPHAN_FILE != 0 && self.orphan_file == ino
            || self.quota() && self.quota_files.contains(&ino)
    }

    /// Group and index of an inode.
    pub(super) fn inode_place(&self, ino: u32) -> (u32, u32) {
        let n = ino.saturating_sub(1);
        (n / self.inodes_per_group.max(1), n % self.inodes_per_group.max(1))
    }

    /// First block of a group.
    pub(super) fn group_start(&self, group: u32) -> u64 {
        self.first_block + u64::from(group) * self.per_group
    }

    /// One past the last block of a group.
    pub(super) fn group_end(&self, group: u32) -> u64 {
        (self.group_start(group) + self.per_group).min(self.blocks)
    }

    /// True for a block of the volume that has a bit in a bitmap.
    pub(super) fn holds(&self, block: u64) -> bool {
        (self.first_block..self.blocks).contains(&block)
    }

    /// Blocks of an inode table.
    pub(super) fn table_blocks(&self) -> u64 {
        (u64::from(self.inodes_per_group) * self.inode_size).div_ceil(self.bs)
    }

    /// Descriptors in a block.
    pub(super) fn descs_per_block(&self) -> u64 {
        self.bs / self.desc_size.max(1)
    }

    /// Blocks that hold the descriptors.
    pub(super) fn desc_blocks(&self) -> u64 {
        u64::from(self.groups).div_ceil(self.descs_per_block().max(1))
    }

    /// Whether a group begins with a superblock.
    pub(super) fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            true
        } else if self.compat & SPARSE_SUPER2 != 0 {
            self.backup_groups.contains(&group)
        } else {
            self.ro_compat & SPARSE_SUPER == 0 || sparse_copy(group)
        }
    }

    /// Descriptor blocks behind the superblocks; with `meta_bg` the others lie in their groups.
    pub(super) fn old_desc_blocks(&self) -> u64 {
        if self.meta_bg() { self.first_meta_bg } else { self.desc_blocks() }
    }

    /// The block of descriptor block `index`, in its first copy.
    pub(super) fn desc_block(&self, index: u64) -> u64 {
        if index < self.old_desc_blocks() {
            return self.first_block + 1 + index;
        }
        let group = u32::try_from(index * self.descs_per_block()).unwrap_or(u32::MAX);
        self.group_start(group) + u64::from(self.has_super(group))
    }

    /// Blocks of superblock and descriptors at a group's start.
    pub(super) fn head(&self, group: u32) -> u64 {
        let sup = u64::from(self.has_super(group));
        let per = self.descs_per_block().max(1);
        let index = u64::from(group) / per;
        if index < self.old_desc_blocks() || !self.meta_bg() {
            return if sup == 1 { 1 + self.old_desc_blocks() + self.reserved_gdt } else { 0 };
        }
        let at = u64::from(group) % per;
        sup + u64::from(at <= 1 || at == per - 1)
    }
}

fn sum_of(s: Fields<'_>, incompat: u32, ro_compat: u32) -> Sum {
    let uuid: [u8; 16] = core::array::from_fn(|i| s.u8(0x68 + i));
    if ro_compat & METADATA_CSUM != 0 {
        let seeded = incompat & CSUM_SEED != 0;
        Sum::Crc32c(if seeded { s.u32(0x270) } else { crc32c(!0, &uuid) })
    } else if ro_compat & GDT_CSUM != 0 {
        Sum::Crc16(uuid)
    } else {
        Sum::None
    }
}

/// Refuses what cannot be read and notes what is not looked at.
fn features(geo: &Geo, found: &mut Found) -> Result<(), FsError> {
    let unread = crate::features::incompat_names(geo.incompat & !INCOMPAT);
    let shape = geo.ro_compat & (BIGALLOC | SHARED_BLOCKS);
    let unread = unread.into_iter().chain(crate::features::ro_compat_names(shape));
    let unread: alloc::vec::Vec<_> = unread.collect();
    if !unread.is_empty() {
        let what = format!("a check of a volume with {}", unread.join(", "));
        return Err(FsError::unsupported(what));
    }
    let mut unknown = |name| found.add(Finding::new(Kind::UnknownFeature).detail(name));
    let names = crate::features::ro_compat_names(geo.ro_compat & !RO_COMPAT & !shape);
    names.into_iter().for_each(&mut unknown);
    for bit in (0..32).map(|n| 1u32 << n).filter(|b| geo.compat & !COMPAT & b != 0) {
        unknown(format!("compatible feature {bit:#x}"));
    }
    let mut skip = |name| found.add(Finding::new(Kind::NotChecked).detail(name));
    let notes = [
        (geo.metadata_csum(), "metadata_csum: checksums but those of superblock and descriptors"),
        (geo.quota() || geo.ro_compat & PROJECT != 0, "quota: the quota files' content"),
        (geo.ro_compat & VERITY != 0, "verity: the hash trees"),
        (geo.has_journal() && geo.compat & ORPHAN_FILE != 0, "orphan_file: its content"),
    ];
    notes.into_iter().filter(|(on, _)| *on).for_each(|(_, name)| skip(name));
    Ok(())
}
