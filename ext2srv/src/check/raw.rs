//! An inode's fields as they stand, believed or not.

use super::geometry::{Fields, Geo};

pub(super) const FL_IMMUTABLE: u32 = 0x10;
pub(super) const FL_APPEND: u32 = 0x20;
pub(super) const FL_INDEX: u32 = 0x1000;
pub(super) const FL_IMAGIC: u32 = 0x2000;
pub(super) const FL_HUGE_FILE: u32 = 0x4_0000;
pub(super) const FL_EXTENTS: u32 = 0x8_0000;
pub(super) const FL_INLINE_DATA: u32 = 0x1000_0000;
const FL_ENCRYPT: u32 = 0x800;
pub(super) const FL_CASEFOLD: u32 = 0x4000_0000;

/// Flags that name a feature which the check refuses: on a volume without it they are damage.
pub(super) const FL_REFUSED: u32 = FL_INLINE_DATA | FL_CASEFOLD | FL_ENCRYPT;

/// One inode's bytes.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    f: Fields<'a>,
    bytes: &'a [u8],
}

impl<'a> Raw<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { f: Fields(bytes), bytes }
    }

    pub(super) fn fields(&self) -> Fields<'a> {
        self.f
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn mode(&self) -> u16 {
        self.f.u16(0)
    }

    /// Type byte that a directory record of it has; 0 when the mode names none.
    pub(super) fn file_type(&self) -> u8 {
        match self.mode() >> 12 {
            0o10 => 1,
            0o04 => 2,
            0o02 => 3,
            0o06 => 4,
            0o01 => 5,
            0o14 => 6,
            0o12 => 7,
            _ => 0,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.file_type() == 1
    }

    pub(super) fn is_dir(&self) -> bool {
        self.file_type() == 2
    }

    pub(super) fn is_link(&self) -> bool {
        self.file_type() == 7
    }

    pub(super) fn size(&self) -> u64 {
        u64::from(self.f.u32(4)) | u64::from(self.size_high()) << 32
    }

    pub(super) fn size_high(&self) -> u32 {
        self.f.u32(0x6C)
    }

    pub(super) fn dtime(&self) -> u32 {
        self.f.u32(0x14)
    }

    pub(super) fn links(&self) -> u16 {
        self.f.u16(0x1A)
    }

    pub(super) fn flags(&self) -> u32 {
        self.f.u32(0x20)
    }

    /// `i_blocks`, as it stands.
    pub(super) fn blocks(&self, geo: &Geo) -> u64 {
        let high =
            if geo.ro_compat & super::geometry::HUGE_FILE != 0 { self.blocks_high() } else { 0 };
        u64::from(self.f.u32(0x1C)) | u64::from(high) << 32
    }

    pub(super) fn blocks_high(&self) -> u16 {
        self.f.u16(0x74)
    }

    pub(super) fn i_block(&self) -> &'a [u8] {
        self.bytes.get(0x28..0x64).unwrap_or_default()
    }

    pub(super) fn pointer(&self, n: usize) -> u32 {
        self.f.u32(0x28 + n * 4)
    }

    pub(super) fn acl_high(&self) -> u16 {
        self.f.u16(0x76)
    }

    /// Block of its attributes.
    pub(super) fn acl(&self, geo: &Geo) -> u64 {
        let high = if geo.wide() && !geo.hurd { self.acl_high() } else { 0 };
        u64::from(self.f.u32(0x68)) | u64::from(high) << 32
    }

    /// On a volume of GNU/Hurd, the block of its passive translator.
    pub(super) fn translator(&self, geo: &Geo) -> u64 {
        if geo.hurd { u64::from(self.f.u32(0x24)) } else { 0 }
    }

    pub(super) fn extra_isize(&self) -> u16 {
        self.f.u16(0x80)
    }

    /// True for a symbolic link whose target lies in the inode.
    pub(super) fn is_short_link(&self) -> bool {
        self.is_link() && (1..60).contains(&self.size())
    }

    /// True when `i_block` leads to blocks.
    pub(super) fn has_map(&self) -> bool {
        self.is_file() || self.is_dir() || (self.is_link() && !self.is_short_link())
    }

    /// True when `i_block` is an extent tree.
    pub(super) fn by_extents(&self, geo: &Geo) -> bool {
        geo.extents() && self.flags() & FL_EXTENTS != 0
    }
}
