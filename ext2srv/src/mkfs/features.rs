//! Features that [`mkfs()`](super::mkfs()) makes, by the names that e2fsprogs gives them.

use crate::features::{
    COMPAT_DIR_INDEX, COMPAT_EXT_ATTR, COMPAT_HAS_JOURNAL, COMPAT_SPARSE_SUPER2, INCOMPAT_FILETYPE,
    INCOMPAT_META_BG, RO_COMPAT_DIR_NLINK, RO_COMPAT_EXTRA_ISIZE, RO_COMPAT_GDT_CSUM,
    RO_COMPAT_HUGE_FILE, RO_COMPAT_LARGE_FILE, RO_COMPAT_SPARSE_SUPER,
};
use alloc::format;
use seawall_diskfs::FsError;

/// Which features a new volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a set of features")]
pub struct MkfsFeatures {
    /// Directory entries carry the kind of what they name.
    pub filetype: bool,
    /// Copies of the superblock in few groups.
    pub sparse_super: bool,
    /// In two at most.
    pub sparse_super2: bool,
    /// Files of 2 GiB and more.
    pub large_file: bool,
    /// Files of 2 TiB and more.
    pub huge_file: bool,
    /// Group descriptors in the groups they describe.
    pub meta_bg: bool,
    /// Checksums of group descriptors.
    pub uninit_bg: bool,
    /// Directories of more than 65,000 others.
    pub dir_nlink: bool,
    /// Room for more times in inodes above 128 bytes.
    pub extra_isize: bool,
    /// Extended attributes.
    pub ext_attr: bool,
    /// Indexed directories.
    pub dir_index: bool,
    /// `has_journal`: an empty journal, which Linux mounts as ext3.
    pub journal: bool,
}

impl Default for MkfsFeatures {
    fn default() -> Self {
        let none = Self::none();
        Self { filetype: true, sparse_super: true, large_file: true, ..none }
    }
}

/// Names, in the order of [`MkfsFeatures::field`].
const NAMES: [&str; 12] = [
    "filetype",
    "sparse_super",
    "sparse_super2",
    "large_file",
    "huge_file",
    "meta_bg",
    "uninit_bg",
    "dir_nlink",
    "extra_isize",
    "ext_attr",
    "dir_index",
    "has_journal",
];

impl MkfsFeatures {
    /// None at all.
    pub fn none() -> Self {
        Self {
            filetype: false,
            sparse_super: false,
            sparse_super2: false,
            large_file: false,
            huge_file: false,
            meta_bg: false,
            uninit_bg: false,
            dir_nlink: false,
            extra_isize: false,
            ext_attr: false,
            dir_index: false,
            journal: false,
        }
    }

    fn field(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "filetype" => &mut self.filetype,
            "sparse_super" => &mut self.sparse_super,
            "sparse_super2" => &mut self.sparse_super2,
            "large_file" => &mut self.large_file,
            "huge_file" => &mut self.huge_file,
            "meta_bg" => &mut self.meta_bg,
            "uninit_bg" => &mut self.uninit_bg,
            "dir_nlink" => &mut self.dir_nlink,
            "extra_isize" => &mut self.extra_isize,
            "ext_attr" => &mut self.ext_attr,
            "dir_index" => &mut self.dir_index,
            "has_journal" => &mut self.journal,
            _ => return None,
        })
    }

    /// Adds a feature, takes it away (`^NAME`) or takes all away (`none`), as mke2fs does.
    ///
    /// # Errors
    /// `Unsupported` names a feature that is not made, and those that are.
    pub fn set(&mut self, name: &str) -> Result<(), FsError> {
        if name == "none" {
            *self = Self::none();
            return Ok(());
        }
        let bare = name.strip_prefix('^').unwrap_or(name);
        let field = self.field(bare).ok_or_else(|| {
            FsError::unsupported(format!("mkfs with feature {bare}; made are {}", NAMES.join(", ")))
        })?;
        *field = bare == name;
        Ok(())
    }

    /// `s_feature_compat`, `_incompat` and `_ro_compat`.
    pub(super) fn words(&self) -> (u32, u32, u32) {
        let bits = |list: &[(bool, u32)]| {
            list.iter().filter(|(on, _)| *on).fold(0, |word, (_, bit)| word | bit)
        };
        let compat = bits(&[
            (self.journal, COMPAT_HAS_JOURNAL),
            (self.ext_attr, COMPAT_EXT_ATTR),
            (self.dir_index, COMPAT_DIR_INDEX),
            (self.sparse_super2, COMPAT_SPARSE_SUPER2),
        ]);
        let incompat =
            bits(&[(self.filetype, INCOMPAT_FILETYPE), (self.meta_bg, INCOMPAT_META_BG)]);
        let ro_compat = bits(&[
            (self.sparse_super, RO_COMPAT_SPARSE_SUPER),
            (self.large_file, RO_COMPAT_LARGE_FILE),
            (self.huge_file, RO_COMPAT_HUGE_FILE),
            (self.uninit_bg, RO_COMPAT_GDT_CSUM),
            (self.dir_nlink, RO_COMPAT_DIR_NLINK),
            (self.extra_isize, RO_COMPAT_EXTRA_ISIZE),
        ]);
        (compat, incompat, ro_compat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_field_and_a_bit() {
        for name in NAMES {
            let mut f = MkfsFeatures::none();
            f.set(name).unwrap();
            let (a, b, c) = f.words();
            assert_eq!(a.count_ones() + b.count_ones() + c.count_ones(), 1, "{name}");
            f.set(&format!("^{name}")).unwrap();
            assert_eq!(f, MkfsFeatures::none());
        }
        let e = MkfsFeatures::default().set("extent").unwrap_err();
        assert!(format!("{e}").contains("feature extent; made are filetype, "), "{e}");
    }
}
