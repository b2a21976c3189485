//! Feature bits and their names (`s_feature_compat`, `_incompat`, `_ro_compat`), as e2fsprogs
//! spells them, and what the engine does about each.
//!
//! An incompatible feature is written, only read, or refuses the volume by name; an unknown one
//! refuses it. A read-only compatible feature that is not written, unknown ones among them, lets
//! the volume be read. A compatible one means nothing to who does not know it. These are the rules
//! of the format; `docs/compat.md` has the table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use seawall_diskfs::FsError;

pub(crate) const COMPAT_HAS_JOURNAL: u32 = 0x4;
pub(crate) const COMPAT_EXT_ATTR: u32 = 0x8;
pub(crate) const COMPAT_RESIZE_INODE: u32 = 0x10;
pub(crate) const COMPAT_DIR_INDEX: u32 = 0x20;
pub(crate) const COMPAT_SPARSE_SUPER2: u32 = 0x200;
pub(crate) const INCOMPAT_FILETYPE: u32 = 0x2;
pub(crate) const INCOMPAT_RECOVER: u32 = 0x4;
pub(crate) const INCOMPAT_META_BG: u32 = 0x10;
pub(crate) const INCOMPAT_EXTENTS: u32 = 0x40;
pub(crate) const INCOMPAT_64BIT: u32 = 0x80;
pub(crate) const INCOMPAT_MMP: u32 = 0x100;
pub(crate) const INCOMPAT_FLEX_BG: u32 = 0x200;
pub(crate) const INCOMPAT_EA_INODE: u32 = 0x400;
pub(crate) const INCOMPAT_CSUM_SEED: u32 = 0x2000;
pub(crate) const INCOMPAT_LARGE_DIR: u32 = 0x4000;
pub(crate) const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
pub(crate) const RO_COMPAT_LARGE_FILE: u32 = 0x2;
const RO_COMPAT_BTREE_DIR: u32 = 0x4;
pub(crate) const RO_COMPAT_HUGE_FILE: u32 = 0x8;
pub(crate) const RO_COMPAT_GDT_CSUM: u32 = 0x10;
pub(crate) const RO_COMPAT_DIR_NLINK: u32 = 0x20;
pub(crate) const RO_COMPAT_EXTRA_ISIZE: u32 = 0x40;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
pub(crate) const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

/// Incompatible features that the engine writes.
const INCOMPAT_WRITTEN: u32 = INCOMPAT_FILETYPE | INCOMPAT_META_BG;
/// Incompatible features that it reads. `needs_recovery` has a rule of its own.
const INCOMPAT_READ: u32 = INCOMPAT_WRITTEN
    | INCOMPAT_RECOVER
    | INCOMPAT_EXTENTS
    | INCOMPAT_64BIT
    | INCOMPAT_MMP
    | INCOMPAT_FLEX_BG
    | INCOMPAT_EA_INODE
    | INCOMPAT_CSUM_SEED
    | INCOMPAT_LARGE_DIR;
/// Read-only compatible features that it writes.
const RO_COMPAT_WRITTEN: u32 = RO_COMPAT_SPARSE_SUPER
    | RO_COMPAT_LARGE_FILE
    | RO_COMPAT_BTREE_DIR
    | RO_COMPAT_HUGE_FILE
    | RO_COMPAT_GDT_CSUM
    | RO_COMPAT_DIR_NLINK
    | RO_COMPAT_EXTRA_ISIZE;

const INCOMPAT_NAMES: &[(u32, &str)] = &[
    (0x1, "compression"),
    (0x2, "filetype"),
    (0x4, "needs_recovery"),
    (0x8, "journal_dev"),
    (0x10, "meta_bg"),
    (0x40, "extent"),
    (0x80, "64bit"),
    (0x100, "mmp"),
    (0x200, "flex_bg"),
    (0x400, "ea_inode"),
    (0x1000, "dirdata"),
    (0x2000, "metadata_csum_seed"),
    (0x4000, "large_dir"),
    (0x8000, "inline_data"),
    (0x1_0000, "encrypt"),
    (0x2_0000, "casefold"),
];

const RO_COMPAT_NAMES: &[(u32, &str)] = &[
    (0x1, "sparse_super"),
    (0x2, "large_file"),
    (0x4, "btree_dir"),
    (0x8, "huge_file"),
    (0x10, "uninit_bg"),
    (0x20, "dir_nlink"),
    (0x40, "extra_isize"),
    (0x80, "snapshot"),
    (0x100, "quota"),
    (0x200, "bigalloc"),
    (0x400, "metadata_csum"),
    (0x800, "replica"),
    (0x1000, "read-only"),
    (0x2000, "project"),
    (0x4000, "shared_blocks"),
    (0x8000, "verity"),
    (0x1_0000, "orphan_present"),
];

fn names(bits: u32, table: &[(u32, &str)], class: &str) -> Vec<String> {
    (0..32)
        .map(|i| 1u32 << i)
        .filter(|b| bits & b != 0)
        .map(|b| {
            table
                .iter()
                .find(|(bit, _)| *bit == b)
                .map_or_else(|| format!("{class}{b:#x}"), |(_, name)| name.to_string())
        })
        .collect()
}

fn refused(names: &[String]) -> Result<(), FsError> {
    if names.is_empty() {
        return Ok(());
    }
    Err(FsError::unsupported(format!("ext2 feature {}", names.join(", "))))
}

/// Refuses what the engine cannot even read.
///
/// Beside what it does not know: `compression`, `inline_data` and `encrypt`, whose files it would
/// misread; `casefold`, whose names compare otherwise; `journal_dev`, which is no filesystem;
/// `bigalloc`, whose bitmaps count clusters.
pub(crate) fn refuse_unreadable(incompat: u32, ro_compat: u32) -> Result<(), FsError> {
    let mut list = names(incompat & !INCOMPAT_READ, INCOMPAT_NAMES, "");
    list.extend(names(ro_compat & RO_COMPAT_BIGALLOC, RO_COMPAT_NAMES, ""));
    refused(&list)
}

/// Names of the incompatible features in `bits`.
pub(crate) fn incompat_names(bits: u32) -> Vec<String> {
    names(bits, INCOMPAT_NAMES, "incompatible feature ")
}

/// Names of the read-only compatible features in `bits`.
pub(crate) fn ro_compat_names(bits: u32) -> Vec<String> {
    names(bits, RO_COMPAT_NAMES, "read-only feature ")
}

/// Names of the features that the engine reads and does not write.
pub(crate) fn only_read(incompat: u32, ro_compat: u32) -> Vec<String> {
    let mut list = names(incompat & !INCOMPAT_WRITTEN, INCOMPAT_NAMES, "incompatible feature ");
    list.extend(names(ro_compat & !RO_COMPAT_WRITTEN, RO_COMPAT_NAMES, "read-only feature "));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_are_named_by_number() {
        assert_eq!(
            only_read(0x40 | 0x80, 0x8000_0008),
            ["extent", "64bit", "read-only feature 0x80000000"]
        );
        let e = refuse_unreadable(0x10_0000 | 0x8000, 0x200).unwrap_err();
        let text = format!("{e}");
        assert!(text.ends_with(": ext2 feature inline_data, 0x100000, bigalloc"), "{text}");
        assert!(refuse_unreadable(0x2 | 0x10 | 0x40 | 0x2C0, 0x40_0000).is_ok());
    }
}
