//! `struct ext4_inode` byte for byte, read and written in place.
//!
//! The fields have no alignment, so any bytes of the right length are one, and a look-up pays for
//! one check of the length instead of one for each field.

use core::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The old format's 128 bytes.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawInode {
    pub(super) mode: U16,
    pub(super) uid: U16,
    pub(super) size: U32,
    pub(super) atime: U32,
    pub(super) ctime: U32,
    pub(super) mtime: U32,
    pub(super) dtime: U32,
    pub(super) gid: U16,
    pub(super) links: U16,
    pub(super) sectors: U32,
    pub(super) flags: U32,
    /// `i_translator` of the Hurd.
    pub(super) osd1: U32,
    pub(super) block: [U32; 15],
    pub(super) generation: U32,
    pub(super) file_acl: U32,
    pub(super) size_high: U32,
    faddr: U32,
    pub(super) sectors_high: U16,
    pub(super) file_acl_high: U16,
    pub(super) uid_high: U16,
    pub(super) gid_high: U16,
    /// `i_author` of the Hurd, or a checksum.
    osd2: U32,
}

/// What larger inodes have behind that. How much of it means something says `extra_isize`.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawExtra {
    pub(super) extra_isize: U16,
    checksum_high: U16,
    pub(super) ctime_extra: U32,
    pub(super) mtime_extra: U32,
    pub(super) atime_extra: U32,
    pub(super) crtime: U32,
    pub(super) crtime_extra: U32,
}

const _: () = assert!(size_of::<RawInode>() == 128 && offset_of!(RawInode, block) == 0x28);
const _: () = assert!(offset_of!(RawInode, generation) == 0x64);
const _: () = assert!(offset_of!(RawInode, sectors_high) == 0x74 && size_of::<RawExtra>() == 24);

impl RawInode {
    /// The inode at the start of the bytes, with what stands behind it where inodes are larger than
    /// 128 bytes; `None` when the bytes end in it.
    pub(super) fn split(b: &[u8]) -> Option<(&Self, Option<&RawExtra>)> {
        let (raw, rest) = Self::ref_from_prefix(b).ok()?;
        if rest.is_empty() {
            return Some((raw, None));
        }
        let (extra, _) = RawExtra::ref_from_prefix(rest).ok()?;
        Some((raw, Some(extra)))
    }

    /// As [`Self::split`], for changing.
    pub(super) fn split_mut(b: &mut [u8]) -> Option<(&mut Self, Option<&mut RawExtra>)> {
        let (raw, rest) = Self::mut_from_prefix(b).ok()?;
        if rest.is_empty() {
            return Some((raw, None));
        }
        let (extra, _) = RawExtra::mut_from_prefix(rest).ok()?;
        Some((raw, Some(extra)))
    }
}
