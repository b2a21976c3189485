//! What a check can find. Each kind has a severity, a stable name and a text; a finding adds where.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt::{self, Display};
use seawall_diskfs::check::{self, Place, Severity};

seawall_diskfs::check_kinds! {
    NotChecked = Note, "not_checked", "not checked";
    NotUnmounted = Note, "not_unmounted", "the volume was not cleanly unmounted";
    ErrorMark = Note, "error_mark", "the volume carries the error mark";
    NeedsRecovery = Note, "needs_recovery",
        "the journal was not replayed; what it holds was not checked";
    OrphanHead = Note, "orphan_head", "the superblock names a deleted inode that waits to be freed";
    SuperCount = Note, "super_count", "a free count of the superblock is wrong";
    SuperHint = Note, "super_hint", "a hint of the superblock is wrong";
    BackupDiffers = Note, "backup_differs", "a backup differs from the original";
    UninitFlag = Note, "uninit_flag", "the group is marked uninitialized without the feature";
    SpecialFlags = Note, "special_flags", "a device, fifo or socket is immutable or append-only";
    TypeUnset = Note, "type_unset", "a directory record does not say the type of its node";
    DotLong = Note, "dot_long", "the record of '.' is longer than it needs to be";

    Superblock = Damage, "superblock", "the superblock cannot be right";
    DeviceShort = Damage, "device_short", "the device ends before the volume";
    UnknownFeature = Repairable, "unknown_feature", "a feature that is not known";
    JournalWithout = Damage, "journal_without", "the superblock speaks of a journal but has none";
    OrphanFile = Repairable, "orphan_file",
        "the orphan_file feature is set but there is no journal";
    JournalInode = Damage, "journal_inode", "the journal's inode or first block is damaged";
    ResizeInode = Damage, "resize_inode", "the inode of reserved descriptor blocks is damaged";
    BadBlocksInode = Damage, "bad_blocks_inode", "the inode of bad blocks is damaged";
    ReservedInode = Repairable, "reserved_inode", "a reserved inode is in use";
    Unreadable = Damage, "unreadable", "the device cannot read this";

    GroupPlace = Damage, "group_place", "a bitmap or inode table lies outside its group";
    GroupOverlap = Damage, "group_overlap", "the volume's own structures overlap";
    GroupChecksum = Repairable, "group_checksum", "the group descriptor's checksum is wrong";

    RootMissing = Damage, "root_missing", "there is no root directory";
    Mode = Damage, "mode", "the mode names no kind of node";
    OrphanLink = Repairable, "orphan_link", "left over from a list of deleted inodes";
    ZeroDtime = Repairable, "zero_dtime", "a deleted inode has no deletion time";
    SetDtime = Repairable, "set_dtime", "an inode in use has a deletion time";
    FieldNotZero = Repairable, "field_not_zero", "a field that must be zero is not";
    FlagWithout = Repairable, "flag_without", "a flag whose feature is not set";
    TimeRange = Note, "time_range", "a time before 1970 is written as one after 2310";
    ExtraSize = Damage, "extra_size", "i_extra_isize does not fit the inode";
    SpecialSize = Repairable, "special_size", "a device, fifo or socket has a size";
    Special = Damage, "special", "a device, fifo or socket carries the flag of a directory or file";
    Symlink = Damage, "symlink", "a symbolic link's target is damaged";
    LargeFile = Repairable, "large_file", "a file of 2 GiB or more without the feature large_file";

    PointerRange = Damage, "pointer_range", "a pointer leads out of the volume";
    PointerMetadata = Damage, "pointer_metadata", "a pointer leads to the volume's own structures";
    PointerShared = Damage, "pointer_shared", "a block has more than one owner";
    ExtentTree = Damage, "extent_tree", "the extent tree is damaged";
    TooBig = Damage, "too_big", "a block lies further on than a node of this kind can have one";
    DirEmpty = Damage, "dir_empty", "a directory has no blocks";
    DirHole = Damage, "dir_hole", "a directory has a hole";
    Size = Repairable, "size", "the size does not fit the blocks";
    SectorCount = Repairable, "sector_count", "i_blocks is wrong";

    AttrPlace = Damage, "attr_place", "the attribute block cannot be there";
    AttrBlock = Damage, "attr_block", "the attribute block is damaged";
    AttrInode = Damage, "attr_inode", "the attributes in the inode are damaged";
    AttrHash = Damage, "attr_hash", "an attribute does not fit its hash";
    AttrCount = Repairable, "attr_count", "the attribute block's owner count is wrong";

    DirRecord = Damage, "dir_record", "a directory record's length is wrong";
    DotMissing = Damage, "dot_missing", "'.' is missing or not first";
    DotWrong = Damage, "dot_wrong", "'.' is not the directory itself";
    DotdotMissing = Damage, "dotdot_missing", "'..' is missing or not second";
    DotTerminator = Repairable, "dot_terminator", "'.' or '..' is not followed by a zero byte";
    DotdotWrong = Damage, "dotdot_wrong", "'..' is not the directory that holds the name";
    NameBad = Damage, "name_bad", "a name is empty or holds a slash or zero byte";
    NameDots = Damage, "name_dots", "'.' or '..' a second time";
    NameRange = Damage, "name_range", "a name of an inode that is none for files";
    UninitUse = Repairable, "uninit_use",
        "a name of an inode that its group's descriptor calls unused";
    NameUnused = Damage, "name_unused", "a name of an inode that is not in use";
    NameRoot = Damage, "name_root", "a name of the root directory";
    NameSelf = Damage, "name_self", "a name of the directory that holds it";
    NameSecond = Damage, "name_second", "a second name of a directory";
    NameTwice = Damage, "name_twice", "the same name twice in one directory";
    TypeWrong = Repairable, "type_wrong", "a directory record says another type than the inode";

    IndexRoot = Repairable, "index_root", "the root of the directory's index is damaged";
    IndexNode = Repairable, "index_node", "a block of the directory's index is damaged";
    IndexBlock = Repairable, "index_block", "the directory's index leads out of it";
    IndexOrder = Repairable, "index_order", "the directory's index is not in order";
    IndexHash = Repairable, "index_hash", "a name is not where the directory's index looks for it";
    IndexLeaf = Repairable, "index_leaf", "the directory's index leads to a block not once";

    Unreachable = Damage, "unreachable", "a directory that no path leads to";
    DirLoop = Damage, "dir_loop", "a directory inside itself";
    Nameless = Damage, "nameless", "an inode in use without a name";
    LinkCount = Repairable, "link_count", "the link count is wrong";

    BlockLost = Repairable, "block_lost", "blocks are marked in use but nothing owns them";
    BlockUnmarked = Repairable, "block_unmarked", "blocks are in use but marked free";
    InodeLost = Repairable, "inode_lost", "inodes are marked in use but are not";
    InodeUnmarked = Repairable, "inode_unmarked", "inodes are in use but marked free";
    BlockPadding = Repairable, "block_padding",
        "the end of the block bitmap is not filled with ones";
    InodePadding = Repairable, "inode_padding",
        "the end of the inode bitmap is not filled with ones";
    FreeBlocks = Repairable, "free_blocks", "the group's count of free blocks is wrong";
    FreeInodes = Repairable, "free_inodes", "the group's count of free inodes is wrong";
    UsedDirs = Repairable, "used_dirs", "the group's count of directories is wrong";
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub place: Place,
    /// The name concerned.
    pub name: Option<Box<[u8]>>,
    /// The field or structure concerned.
    pub detail: Cow<'static, str>,
    /// What is there.
    pub found: Option<u64>,
    /// What should be there.
    pub right: Option<u64>,
}

impl Finding {
    pub(super) fn new(kind: Kind) -> Self {
        let (place, detail) = (Place::default(), Cow::Borrowed(""));
        Self { kind, place, name: None, detail, found: None, right: None }
    }

    pub(super) fn inode(mut self, inode: u32) -> Self {
        self.place.inode = Some(u64::from(inode));
        self
    }

    pub(super) fn block(mut self, block: u64) -> Self {
        self.place.block = Some(block);
        self
    }

    pub(super) fn group(mut self, group: u32) -> Self {
        self.place.group = Some(group);
        self
    }

    pub(super) fn name(mut self, name: &[u8]) -> Self {
        self.name = Some(name.into());
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
        self.place
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        let parts = [
            ("inode ", self.place.inode),
            ("block ", self.place.block),
            ("group ", self.place.group.map(u64::from)),
        ];
        for (what, number) in parts {
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
        if let Some(name) = &self.name {
            write!(f, ": \"{}\"", name.escape_ascii())?;
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
        let f = Finding::new(Kind::LinkCount).inode(13).group(0).found(3u16).right(2u32);
        let text = "inode 13, group 0: the link count is wrong (found 3, should be 2)";
        assert_eq!(f.to_string(), text);
        let f = Finding::new(Kind::NameUnused).inode(2).name(b"a\n").found(99u32);
        let text = "inode 2: a name of an inode that is not in use: \"a\\n\" (99)";
        assert_eq!(f.to_string(), text);
    }

    #[test]
    fn names_are_stable_and_single() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
