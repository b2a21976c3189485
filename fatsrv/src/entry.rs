//! The 32 bytes of a directory slot.
//!
//! A [`RawEntry`] keeps every byte, those that nobody defines too: what an update does not mean to
//! change it writes back as it was (the upper bits of the NT byte, the high start word of FAT12 and
//! FAT16, which OS/2 uses for attributes).
//!
//! Layout (Microsoft's "FAT General Overview" of 2000, `struct msdos_dir_entry` of Linux), all
//! little-endian: name 11 bytes, attributes 1, NT byte 1, creation hundredths 1, creation time 2,
//! creation date 2, access date 2, start high 2, time 2, date 2, start low 2, size 4.

/// Bytes of a slot.
pub const SLOT: usize = 32;
/// Offset of the name: 8 bytes of base, 3 of extension, padded with spaces.
pub const OFF_NAME: usize = 0;
/// Offset of the attributes.
pub const OFF_ATTR: usize = 11;
/// Offset of the byte with the lower-case bits.
pub const OFF_NT: usize = 12;
/// Offset of the creation time's hundredths of a second, 0 to 199.
pub const OFF_CRT_TENTHS: usize = 13;
/// Offset of the creation time.
pub const OFF_CRT_TIME: usize = 14;
/// Offset of the creation date.
pub const OFF_CRT_DATE: usize = 16;
/// Offset of the date of the last access.
pub const OFF_ACC_DATE: usize = 18;
/// Offset of the high word of the first cluster.
pub const OFF_START_HIGH: usize = 20;
/// Offset of the time of the last change.
pub const OFF_MOD_TIME: usize = 22;
/// Offset of the date of the last change.
pub const OFF_MOD_DATE: usize = 24;
/// Offset of the low word of the first cluster.
pub const OFF_START_LOW: usize = 26;
/// Offset of the size in bytes.
pub const OFF_SIZE: usize = 28;

/// Attribute: may not be written.
pub const ATTR_READ_ONLY: u8 = 0x01;
/// Attribute: not shown by default.
pub const ATTR_HIDDEN: u8 = 0x02;
/// Attribute: part of an operating system.
pub const ATTR_SYSTEM: u8 = 0x04;
/// Attribute: a volume label, no file.
pub const ATTR_VOLUME: u8 = 0x08;
/// Attribute: a directory.
pub const ATTR_DIRECTORY: u8 = 0x10;
/// Attribute: changed since the last backup.
pub const ATTR_ARCHIVE: u8 = 0x20;
/// All attributes of a slot that holds part of a long name.
pub const ATTR_LONG: u8 = 0x0f;

/// NT byte: the base is shown in lower case.
pub const NT_LOWER_BASE: u8 = 0x08;
/// NT byte: the extension is shown in lower case.
pub const NT_LOWER_EXT: u8 = 0x10;

/// First byte of a slot that held something once.
pub const FREE: u8 = 0xe5;
/// First byte of a slot after which nothing was ever written.
pub const END: u8 = 0x00;
/// First byte of a name that begins with the character of code 0xE5.
pub const KANJI_E5: u8 = 0x05;

/// Name of a directory's entry for itself.
pub const DOT: [u8; 11] = *b".          ";
/// Name of a directory's entry for its parent.
pub const DOT_DOT: [u8; 11] = *b"..         ";

/// True if the slot held something once and may be taken.
#[inline]
pub fn is_free(slot: &[u8; SLOT]) -> bool {
    slot[OFF_NAME] == FREE
}

/// True if the directory ends before this slot.
#[inline]
pub fn is_end(slot: &[u8; SLOT]) -> bool {
    slot[OFF_NAME] == END
}

/// True if the slot is in use and holds part of a long name. As on Linux the attributes must be
/// exactly [`ATTR_LONG`]; with more bits it is a label that nobody understands.
#[inline]
pub fn is_long(slot: &[u8; SLOT]) -> bool {
    slot[OFF_ATTR] == ATTR_LONG && !is_free(slot) && !is_end(slot)
}

/// A short slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEntry {
    /// Base and extension in the volume's code page.
    pub name: [u8; 11],
    /// `ATTR_*` bits.
    pub attr: u8,
    /// `NT_LOWER_*` bits, and others that are kept as they are.
    pub nt: u8,
    /// Hundredths of a second to add to the creation time, 0 to 199.
    pub crt_tenths: u8,
    /// Creation time.
    pub crt_time: u16,
    /// Creation date.
    pub crt_date: u16,
    /// Date of the last access.
    pub acc_date: u16,
    /// First cluster as stored, high word included; [`RawEntry::first_cluster`] is what counts.
    pub start: u32,
    /// Time of the last change.
    pub mod_time: u16,
    /// Date of the last change.
    pub mod_date: u16,
    /// Size in bytes; 0 for a directory.
    pub size: u32,
}

impl RawEntry {
    /// Takes a slot apart.
    pub fn from_bytes(slot: &[u8; SLOT]) -> Self {
        let [
            name @ ..,
            attr,
            nt,
            tenths,
            ct0,
            ct1,
            cd0,
            cd1,
            ad0,
            ad1,
            sh0,
            sh1,
            mt0,
            mt1,
            md0,
            md1,
            sl0,
            sl1,
            z0,
            z1,
            z2,
            z3,
        ] = *slot;
        Self {
            name,
            attr,
            nt,
            crt_tenths: tenths,
            crt_time: u16::from_le_bytes([ct0, ct1]),
            crt_date: u16::from_le_bytes([cd0, cd1]),
            acc_date: u16::from_le_bytes([ad0, ad1]),
            start: u32::from_le_bytes([sl0, sl1, sh0, sh1]),
            mod_time: u16::from_le_bytes([mt0, mt1]),
            mod_date: u16::from_le_bytes([md0, md1]),
            size: u32::from_le_bytes([z0, z1, z2, z3]),
        }
    }

    /// Puts a slot together; the exact inverse of [`RawEntry::from_bytes`].
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let [n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10] = self.name;
        let [ct0, ct1] = self.crt_time.to_le_bytes();
        let [cd0, cd1] = self.crt_date.to_le_bytes();
        let [ad0, ad1] = self.acc_date.to_le_bytes();
        let [sl0, sl1, sh0, sh1] = self.start.to_le_bytes();
        let [mt0, mt1] = self.mod_time.to_le_bytes();
        let [md0, md1] = self.mod_date.to_le_bytes();
        let [z0, z1, z2, z3] = self.size.to_le_bytes();
        let (attr, nt, tenths) = (self.attr, self.nt, self.crt_tenths);
        [
            n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, attr, nt, tenths, ct0, ct1, cd0, cd1, ad0,
            ad1, sh0, sh1, mt0, mt1, md0, md1, sl0, sl1, z0, z1, z2, z3,
        ]
    }

    /// First cluster. `wide` is true on FAT32; elsewhere the high word belongs to others.
    #[inline]
    pub fn first_cluster(&self, wide: bool) -> u32 {
        if wide { self.start } else { self.start & 0xffff }
    }

    /// Sets the first cluster; without `wide` the high word stays as it is.
    #[inline]
    pub fn set_first_cluster(&mut self, cluster: u32, wide: bool) {
        self.start =
            if wide { cluster } else { (self.start & 0xffff_0000) | (cluster & 0x0000_ffff) };
    }

    /// A directory.
    #[inline]
    pub fn is_dir(&self) -> bool {
        self.attr & (ATTR_DIRECTORY | ATTR_VOLUME) == ATTR_DIRECTORY
    }

    /// A volume label.
    #[inline]
    pub fn is_label(&self) -> bool {
        self.attr & (ATTR_DIRECTORY | ATTR_VOLUME) == ATTR_VOLUME && self.attr & 0x3f != ATTR_LONG
    }

    /// The entry for the directory itself or for its parent.
    #[inline]
    pub fn is_dots(&self) -> bool {
        self.name == DOT || self.name == DOT_DOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_round_trip() {
        for seed in 0..=255u8 {
            let slot: [u8; SLOT] = core::array::from_fn(|i| (i as u8).wrapping_mul(37) ^ seed);
            assert_eq!(RawEntry::from_bytes(&slot).to_bytes(), slot);
        }
    }

    #[test]
    fn fields_stand_where_the_format_says() {
        let mut slot = [0u8; SLOT];
        slot[..11].copy_from_slice(b"README  TXT");
        slot[OFF_ATTR] = ATTR_ARCHIVE;
        slot[OFF_NT] = NT_LOWER_EXT;
        slot[OFF_CRT_TENTHS] = 199;
        for (off, v) in [
            (OFF_CRT_TIME, 1u16),
            (OFF_CRT_DATE, 2),
            (OFF_ACC_DATE, 3),
            (OFF_START_HIGH, 4),
            (OFF_MOD_TIME, 5),
            (OFF_MOD_DATE, 6),
            (OFF_START_LOW, 7),
        ] {
            slot[off..off + 2].copy_from_slice(&v.to_le_bytes());
        }
        slot[OFF_SIZE..].copy_from_slice(&0x0102_0304u32.to_le_bytes());
        let e = RawEntry::from_bytes(&slot);
        let want = RawEntry {
            name: *b"README  TXT",
            attr: ATTR_ARCHIVE,
            nt: NT_LOWER_EXT,
            crt_tenths: 199,
            crt_time: 1,
            crt_date: 2,
            acc_date: 3,
            start: 0x0004_0007,
            mod_time: 5,
            mod_date: 6,
            size: 0x0102_0304,
        };
        assert_eq!(e, want);
        assert_eq!((e.first_cluster(true), e.first_cluster(false)), (0x0004_0007, 7));
    }

    #[test]
    fn the_high_word_is_left_alone_on_narrow_volumes() {
        let mut e = RawEntry { start: 0xabcd_0001, ..RawEntry::default() };
        e.set_first_cluster(0x1_0005, false);
        assert_eq!(e.start, 0xabcd_0005);
        e.set_first_cluster(0x1_0005, true);
        assert_eq!(e.start, 0x1_0005);
    }
}
