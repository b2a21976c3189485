//! A checker: what `fsck.fat -n` looks at, as data, over a device that is only read.
//!
//! What it guarantees:
//!
//! * It never writes: it has a device that it only reads.
//! * Nothing on the device makes it panic, loop or use memory without bound. Each cluster is
//!   claimed once and read once as part of a directory, so the time is linear in the volume; the
//!   FAT, bitmaps and tables come out of [`CheckOptions::memory`], findings are bounded by
//!   [`CheckOptions::keep`] of each severity and the rest is counted.
//! * What it cannot read is a finding. It is never silently clean.
//!
//! The severities follow the reference: a volume whose findings are all notes is one that
//! `fsck.fat -n` leaves with status 0.
//!
//! Order: the boot sector, its copy and FSINFO; the FATs, entry by entry; the tree, in which every
//! name claims its chain; the labels; then the chains that nothing claims, and the counts.

mod chains;
mod dirs;
mod finding;
mod geometry;
mod long;
mod lost;
mod names;
mod table;

pub use finding::{Finding, Kind};

use crate::boot::{BOOT_BYTES, Boot};
use crate::name::Rules;
use alloc::vec::Vec;
use dirs::Dir;
use seawall_blockdev::BlockDev;
use seawall_diskfs::FsError;
use seawall_diskfs::check::{Bits, Budget, KEEP, Progress, Reader, Report};
use table::Table;

/// Bounds of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Findings that are kept, of each severity.
    pub keep: usize,
    /// Bytes of memory: the parts of the FAT that are in use, 2 bits for each cluster in use, 48
    /// bytes and the name for each directory, 40 for each name of the largest one.
    pub memory: u64,
    /// How short names are shown, and which long names are the same.
    pub rules: Rules,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { keep: KEEP, memory: 1 << 30, rules: Rules::default() }
    }
}

/// A check under way.
struct Check<'a> {
    dev: Reader<'a>,
    boot: Boot,
    rules: Rules,
    found: Report<Finding>,
    budget: Budget,
    progress: &'a mut dyn FnMut(Progress),
    table: Table,
    /// Clusters that something owns; bits are cluster numbers.
    claimed: Bits,
    /// Directories that were found.
    dirs: Vec<Dir>,
    /// The first label of the root directory.
    label: Option<[u8; 11]>,
}

/// Checks the volume on `dev`. `progress` is told now and then how far it is.
///
/// # Errors
/// `Unsupported` for another filesystem, or a volume that needs more memory than
/// [`CheckOptions::memory`]; `Io` when the device is gone. A damaged volume is no error.
pub fn check(
    dev: &mut dyn BlockDev,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report<Finding>, FsError> {
    let mut found = Report::new(options.keep);
    let mut dev = Reader::new(dev);
    let sector = dev.read(0, BOOT_BYTES)?;
    let Some(sector) = sector.as_deref().and_then(|b| b.first_chunk::<BOOT_BYTES>()) else {
        found.add(Finding::new(Kind::Boot).detail("the device ends before it, or cannot read it"));
        return Ok(found);
    };
    let boot = match Boot::parse_unsized(sector) {
        Ok(boot) => boot,
        Err(FsError::Corrupt(c)) => {
            found.add(Finding::new(Kind::Boot).detail(c.what));
            return Ok(found);
        }
        Err(e) => return Err(e),
    };
    let mut budget = Budget::new(options.memory);
    let mut check = Check {
        claimed: Bits::new(u64::from(boot.cluster_end()), &mut budget)?,
        table: Table::new(&boot, &mut budget)?,
        dev,
        rules: options.rules,
        found,
        budget,
        progress,
        dirs: Vec::new(),
        label: None,
        boot,
    };
    check.check_boot(sector)?;
    let free_hint = check.check_fsinfo(sector)?;
    check.read_table()?;
    check.check_state(sector);
    check.scan_tree()?;
    check.check_labels();
    check.check_lost()?;
    check.check_free(free_hint);
    Ok(check.found)
}

impl Check<'_> {
    fn add(&mut self, finding: Finding) {
        self.found.add(finding);
    }

    fn tell(&mut self, phase: &'static str, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }
}
