//! What a check can find. Each kind has a severity, a stable name and a text; a finding adds where.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt::{self, Display};
use seawall_diskfs::check::{self, Place, Severity};

seawall_diskfs::check_kinds! {
    BackupDiffers = Note, "backup_differs", "the copy of the boot sector differs from it";
    BackupNoRoom = Note, "backup_no_room",
        "there is no copy of the boot sector, and no reserved sector for one";
    FsinfoAbsent = Note, "fsinfo_absent", "there is no FSINFO sector";
    FreeUnknown = Note, "free_unknown", "FSINFO does not say how many clusters are free";
    NextFree = Note, "next_free", "FSINFO looks for free clusters outside the volume";
    ErrorMark = Note, "error_mark", "the volume carries the mark of a failed medium";
    MediaDiffers = Note, "media_differs", "the media byte of a FAT is not that of the boot sector";
    FatStale = Note, "fat_stale", "a FAT that is not kept differs from the active one";
    FewClusters = Note, "few_clusters",
        "so few clusters for FAT32 that some programs take it for FAT16";
    AfterEnd = Note, "after_end", "entries after the end of the directory";
    DirLarge = Note, "dir_large", "a directory of more than 65536 slots";
    LongStart = Note, "long_start", "a long name begins within another";
    LongFragment = Note, "long_fragment", "a part of a long name without its beginning";
    LongSequence = Note, "long_sequence", "a part of a long name out of order";
    LongUnfinished = Note, "long_unfinished", "a long name without its end";
    LongChecksum = Note, "long_checksum", "a long name of another short name";
    NameSame = Note, "name_same", "two names that a lookup cannot tell apart";
    LabelSecond = Note, "label_second", "a second volume label";
    LabelPlace = Note, "label_place", "a volume label outside the root directory";

    Boot = Damage, "boot", "the boot sector cannot be right";
    DeviceShort = Damage, "device_short", "the device ends before the volume";
    ShortFat = Damage, "short_fat", "the FAT has too few entries for the clusters";
    RootSlots = Repairable, "root_slots",
        "the number of root directory entries is no multiple of 16";
    BackupAbsent = Repairable, "backup_absent", "there is no copy of the boot sector";
    Fsinfo = Repairable, "fsinfo", "the FSINFO sector has wrong signatures";
    Unreadable = Damage, "unreadable", "the device cannot read this";
    NotUnmounted = Repairable, "not_unmounted", "the volume was not cleanly unmounted";

    MediaEntry = Repairable, "media_entry", "the first entry of a FAT is no media byte";
    FatsDiffer = Repairable, "fats_differ", "the FATs differ";
    EntryReserved = Damage, "entry_reserved", "an entry of the FAT has a reserved value";
    EntryRange = Damage, "entry_range", "an entry of the FAT leads out of the volume";

    StartRange = Damage, "start_range", "the first cluster is none of the volume";
    ChainLoop = Damage, "chain_loop", "the chain leads back into itself";
    ChainShared = Damage, "chain_shared", "the chain leads into another one";
    ChainFree = Damage, "chain_free", "the chain leads to a free cluster";
    ChainBad = Damage, "chain_bad", "the chain leads to a bad cluster";
    ChainHuge = Damage, "chain_huge", "the chain of a directory is longer than a file can be";
    ChainShort = Damage, "chain_short", "the file is larger than its chain";
    ChainLong = Repairable, "chain_long", "the chain is longer than the file";
    EmptyStart = Repairable, "empty_start", "an empty file has clusters";

    DirSize = Repairable, "dir_size", "a directory has a size";
    DirStart = Damage, "dir_start", "a directory without clusters";
    DirLoop = Damage, "dir_loop", "a directory that is one above itself";
    Dot = Repairable, "dot", "the first slot is no proper '.'";
    DotDot = Repairable, "dot_dot", "the second slot is no proper '..'";
    NameBad = Repairable, "name_bad", "a short name that may not be";
    NameTwice = Damage, "name_twice", "the same short name twice in one directory";
    LongOrphan = Repairable, "long_orphan", "a long name of nothing";
    LongField = Repairable, "long_field", "a field of a long name's slot that must be zero is not";

    LabelBad = Repairable, "label_bad", "a volume label that may not be";
    LabelBootOnly = Repairable, "label_boot_only",
        "the boot sector has a label and the root directory none";
    LabelDiffers = Repairable, "label_differs",
        "the labels of boot sector and root directory differ";

    Lost = Repairable, "lost", "clusters in use that nothing owns";
    FreeCount = Repairable, "free_count", "FSINFO's number of free clusters is wrong";
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The path concerned, or that of the directory whose slot is. Of a long one only the end.
    pub path: Option<Box<[u8]>>,
    /// The slot of that directory.
    pub slot: Option<u32>,
    /// The cluster concerned.
    pub cluster: Option<u32>,
    /// The field or structure concerned.
    pub detail: Cow<'static, str>,
    /// What is there.
    pub found: Option<u64>,
    /// What should be there.
    pub right: Option<u64>,
}

impl Finding {
    pub(super) fn new(kind: Kind) -> Self {
        let detail = Cow::Borrowed("");
        Self { kind, path: None, slot: None, cluster: None, detail, found: None, right: None }
    }

    pub(super) fn path(mut self, path: Box<[u8]>) -> Self {
        self.path = Some(path);
        self
    }

    pub(super) fn slot(mut self, slot: u32) -> Self {
        self.slot = Some(slot);
        self
    }

    pub(super) fn cluster(mut self, cluster: u32) -> Self {
        self.cluster = Some(cluster);
        self
    }

    pub(super) fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(super) fn found(mut self, found: impl Into<u64>) -> Self {
        self.found = Some(found.into());
        self
    }

    pub(super) fn right(mut self, right: impl Into<u64>) -> Self {
        self.right = Some(right.into());
        self
    }
}

impl check::Finding for Finding {
    fn severity(&self) -> Severity {
        self.kind.severity()
    }

    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    fn place(&self) -> Place {
        Place { block: self.cluster.map(u64::from), ..Place::default() }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        if let Some(path) = &self.path {
            write!(f, "\"")?;
            for part in path.utf8_chunks() {
                write!(f, "{}", part.valid().escape_debug())?;
                write!(f, "{}", part.invalid().escape_ascii())?;
            }
            write!(f, "\"")?;
            before = ", ";
        }
        for (what, number) in [("slot ", self.slot), ("cluster ", self.cluster)] {
            if let Some(n) = number {
                write!(f, "{before}{what}{n}")?;
                before = ", ";
            }
        }
        let colon = if before.is_empty() { "" } else { ": " };
        write!(f, "{colon}{}", self.kind.text())?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        check::write_numbers(f, self.found, self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    #[test]
    fn a_finding_says_where_and_what() {
        let path: Box<[u8]> = b"/a/\xFFb".as_slice().into();
        let f = Finding::new(Kind::ChainLong).path(path).slot(3).cluster(9).found(3u32).right(2u32);
        let text = "\"/a/\\xffb\", slot 3, cluster 9: the chain is longer than the file (found 3, \
                    should be 2)";
        assert_eq!(f.to_string(), text);
    }

    #[test]
    fn names_are_stable_and_single() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
