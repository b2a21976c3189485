//! Feature bits and their names (`s_feature_compat`, `_incompat`, `_ro_compat`), as e2fsprogs
//! spells them. An unknown incompatible feature refuses the volume, an unknown read-only one makes
//! it read-only, an unknown compatible one means nothing: the rules of the format.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) const COMPAT_HAS_JOURNAL: u32 = 0x4;
pub(crate) const COMPAT_RESIZE_INODE: u32 = 0x10;
pub(crate) const COMPAT_SPARSE_SUPER2: u32 = 0x200;
pub(crate) const INCOMPAT_FILETYPE: u32 = 0x2;
pub(crate) const INCOMPAT_RECOVER: u32 = 0x4;
pub(crate) const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
pub(crate) const RO_COMPAT_LARGE_FILE: u32 = 0x2;
const RO_COMPAT_BTREE_DIR: u32 = 0x4;
pub(crate) const RO_COMPAT_HUGE_FILE: u32 = 0x8;
const RO_COMPAT_EXTRA_ISIZE: u32 = 0x40;

/// Incompatible features that the engine knows.
pub(crate) const INCOMPAT_KNOWN: u32 = INCOMPAT_FILETYPE;
/// Read-only compatible features that it can also write.
pub(crate) const RO_COMPAT_KNOWN: u32 =
    RO_COMPAT_SPARSE_SUPER | RO_COMPAT_LARGE_FILE | RO_COMPAT_BTREE_DIR | RO_COMPAT_EXTRA_ISIZE;

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
                .map_or_else(|| format!("{class} feature {b:#x}"), |(_, name)| name.to_string())
        })
        .collect()
}

/// Names of the incompatible features in `bits`.
pub(crate) fn incompat_names(bits: u32) -> Vec<String> {
    names(bits, INCOMPAT_NAMES, "incompatible")
}

/// Names of the read-only compatible features in `bits`.
pub(crate) fn ro_compat_names(bits: u32) -> Vec<String> {
    names(bits, RO_COMPAT_NAMES, "read-only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_are_named_by_number() {
        assert_eq!(incompat_names(0x40 | 0x80), ["extent", "64bit"]);
        assert_eq!(ro_compat_names(0x8000_0008), ["huge_file", "read-only feature 0x80000000"]);
    }
}
