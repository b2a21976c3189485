//! Policy sites: the points where a filesystem may force something out. Every block that a
//! transaction changes is tagged with its site, the tag travels with the write to the store, and
//! the policy decides per site what happens.

use seawall_blockdev::Tag;
use serde::{Deserialize, Serialize};

macro_rules! sites {
    ($($(#[$doc:meta])* $name:ident = $n:literal, $text:literal;)*) => {
        /// A policy site.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum Site { $($(#[$doc])* $name = $n,)* }

        impl Site {
            /// Every site, in the order of reports.
            pub const ALL: &[Site] = &[$(Site::$name,)*];

            /// The name used in policies and reports.
            pub fn name(self) -> &'static str {
                match self { $(Site::$name => $text,)* }
            }

            /// The site of a wire tag.
            pub fn from_tag(tag: Tag) -> Option<Site> {
                match tag.0 { $($n => Some(Site::$name),)* _ => None }
            }
        }
    };
}

sites! {
    /// ext2: superblock, group descriptors, clean bit. FAT: FSINFO, dirty bits.
    Hypermetadata = 1, "hypermetadata";
    /// ext2: block and inode bitmaps.
    Bitmap = 2, "bitmap";
    /// FAT: allocation table sectors, all copies.
    FatTable = 3, "fat_table";
    /// ext2: inode table write. FAT: size, start and times in a directory entry.
    Inode = 4, "inode";
    /// ext2: a new indirect block's pointer.
    Indirect = 5, "indirect";
    /// Directory blocks.
    Dirent = 6, "dirent";
    /// File data.
    Data = 7, "data";
    /// The last close of a written handle.
    Close = 8, "close";
    /// A change of size.
    Truncate = 9, "truncate";
    /// Create, mkdir, unlink, rmdir, rename, link.
    NameOp = 10, "name_op";
    /// fdatasync and O_DSYNC writes.
    FsyncData = 11, "fsync_data";
    /// fsync and O_SYNC writes.
    FsyncMeta = 12, "fsync_meta";
    /// Whole filesystem, on request.
    Syncfs = 13, "syncfs";
    /// Switch to read-only.
    RemountRo = 14, "remount_ro";
    /// Unmount and shutdown.
    Unmount = 15, "unmount";
    /// The flusher's passes.
    Periodic = 16, "periodic";
    /// With a journal.
    JournalCommit = 17, "journal_commit";
    /// With a journal.
    JournalCheckpoint = 18, "journal_checkpoint";
}

impl Site {
    /// The tag of this site's requests.
    pub fn tag(self) -> Tag {
        Tag(self as u32)
    }

    fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// A set of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SiteSet(u32);

impl SiteSet {
    /// Adds a site.
    pub fn insert(&mut self, s: Site) {
        self.0 |= s.bit();
    }

    /// True when the site is in the set.
    pub fn contains(self, s: Site) -> bool {
        self.0 & s.bit() != 0
    }

    /// True when nothing is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both.
    pub fn union(self, other: SiteSet) -> SiteSet {
        SiteSet(self.0 | other.0)
    }

    /// The sites, in report order.
    pub fn iter(self) -> impl Iterator<Item = Site> {
        Site::ALL.iter().copied().filter(move |s| self.contains(*s))
    }
}
