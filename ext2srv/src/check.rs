//! A checker: what `e2fsck -fn` looks at, as data, over a device that is only read.
//!
//! What it guarantees:
//!
//! * It never writes: it has a device that it only reads.
//! * Nothing on the device makes it panic, loop or use memory without bound. Each block is followed
//!   once as a block of a tree and each shared directory block is read once, so the time is linear
//!   in the volume; bitmaps and tables come out of [`CheckOptions::memory`], findings are bounded
//!   by [`CheckOptions::keep`] of each severity and the rest is counted.
//! * What it does not understand it names ([`Kind::NotChecked`], or `Unsupported` when the volume
//!   cannot be read at all). It is never silently clean.
//!
//! The severities follow the reference: a volume whose findings are all notes is one that
//! `e2fsck -fn` leaves with status 0.
//!
//! Order: superblock and descriptors mark the volume's own structures; every inode claims its
//! blocks; every directory names inodes; then what has no name, a wrong count, or a bit that
//! nothing explains is told. Later parts leave out what an earlier finding already explains.

mod bitmaps;
mod blocks;
mod connect;
mod dirs;
mod finding;
mod geometry;
mod groups;
mod htree;
mod inodes;
mod nodes;
mod raw;
mod special;
mod tree;
mod xattr;

pub use finding::{Finding, Kind};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use connect::Dir;
use geometry::Geo;
use groups::Desc;
use nodes::Nodes;
use seawall_blockdev::{BlockDev, PageBuf};
use seawall_diskfs::FsError;
use seawall_diskfs::check::{Bits, Budget, KEEP, Progress, Reader, Report};

/// Bounds of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Findings that are kept, of each severity.
    pub keep: usize,
    /// Bytes of memory for bitmaps and tables: 1 bit for each block and 2 for those in use, 8 bytes
    /// for each inode in use, 64 for each group, 16 for each directory and 12 for each name of the
    /// largest one.
    pub memory: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { keep: KEEP, memory: 1 << 30 }
    }
}

/// A check under way.
struct Check<'a> {
    dev: Reader<'a>,
    geo: Geo,
    found: Report<Finding>,
    budget: Budget,
    progress: &'a mut dyn FnMut(Progress),
    groups: Vec<Desc>,
    /// Blocks of the volume's own structures. Bits count from the first block.
    own: Bits,
    /// Those of them that are only kept for more descriptors.
    spare: Bits,
    /// Blocks that something owns.
    claimed: Bits,
    /// Blocks that more than one thing owns.
    shared: Bits,
    /// Shared blocks of directories that were read already.
    seen: Bits,
    nodes: Nodes,
    /// Directories, by inode number.
    dirs: Vec<Dir>,
    /// Groups whose inode table could not be read in full.
    blind: BTreeSet<u32>,
    /// Groups whose descriptor calls an inode unused that has a name.
    disowned: BTreeSet<u32>,
    /// Attribute block -> its own count of owners, owners found.
    attrs: BTreeMap<u64, (u32, u32)>,
    /// A block with more than one owner was found.
    any_shared: bool,
    /// How often a block that has an owner may still be claimed one by one. Extents are short and
    /// name many blocks: without this bound a small image would cost the square of its size.
    again: u64,
}

/// Checks the volume on `dev`. `progress` is told now and then how far it is.
///
/// # Errors
/// `Unsupported` for a volume with features that cannot be read, or one that needs more memory than
/// [`CheckOptions::memory`]; `Io` when the device is gone. A damaged volume is no error.
pub fn check(
    dev: &mut dyn BlockDev,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report<Finding>, FsError> {
    let mut found = Report::new(options.keep);
    let mut dev = Reader::new(dev);
    let Some(original) = dev.read(1024, 1024)? else {
        let f = Finding::new(Kind::Superblock).detail("the device ends before it");
        found.add(f);
        return Ok(found);
    };
    let Some(geo) = Geo::read(&original, dev.size, &mut found)? else { return Ok(found) };
    let mut budget = Budget::new(options.memory);
    let bits = geo.blocks - geo.first_block;
    let mut check = Check {
        own: Bits::new(bits, &mut budget)?,
        spare: Bits::new(bits, &mut budget)?,
        claimed: Bits::new(bits, &mut budget)?,
        shared: Bits::new(bits, &mut budget)?,
        seen: Bits::new(bits, &mut budget)?,
        nodes: Nodes::new(geo.inodes, &mut budget)?,
        dev,
        geo,
        found,
        budget,
        progress,
        groups: Vec::new(),
        dirs: Vec::new(),
        blind: BTreeSet::new(),
        disowned: BTreeSet::new(),
        attrs: BTreeMap::new(),
        any_shared: false,
        again: bits.saturating_mul(8).saturating_add(1 << 20),
    };
    check.read_groups()?;
    check.scan_inodes()?;
    check.name_owners()?;
    check.check_attr_counts();
    check.scan_dirs()?;
    check.check_tree();
    check.check_links();
    check.check_bitmaps()?;
    check.check_backups(&original)?;
    Ok(check.found)
}

impl Check<'_> {
    fn add(&mut self, finding: Finding) {
        self.found.add(finding);
    }

    fn tell(&mut self, phase: &'static str, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }

    /// Reads a block; one that cannot be read is a finding, to which `more` adds.
    fn read_block(
        &mut self,
        block: u64,
        more: impl FnOnce(Finding) -> Finding,
    ) -> Result<Option<PageBuf>, FsError> {
        let bs = self.geo.bs;
        let buf = match block.checked_mul(bs) {
            Some(start) => self.dev.read(start, bs as usize)?,
            None => None,
        };
        if buf.is_none() {
            self.found.add(more(Finding::new(Kind::Unreadable).block(block)));
        }
        Ok(buf)
    }

    /// Bit number of a block.
    fn bit(&self, block: u64) -> u64 {
        block.wrapping_sub(self.geo.first_block)
    }
}
