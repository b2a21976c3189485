//! Counters of a mounted filesystem: the price side of every report.

use crate::Site;
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// Counters of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteStats {
    /// Times that an operation or plan came by.
    pub hits: u64,
    /// Write requests' pieces handed to the device with this tag.
    pub writes: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Syncs sent.
    pub syncs_sent: u64,
    /// Syncs that another plan's Sync covered.
    pub syncs_merged: u64,
    /// Syncs left out because everything was durable.
    pub syncs_skipped: u64,
    /// Syncs that failed.
    pub syncs_failed: u64,
}

/// Counters of a mounted filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsStats {
    pub(crate) sites: [SiteStats; 19],
    /// Operations that committed a change.
    pub commits: u64,
    /// Attempts that ended in `Need`.
    pub restarts: u64,
    /// Most epochs that held dirty blocks at once.
    pub epochs_open_max: u64,
    /// Epochs written.
    pub epochs_written: u64,
    /// Block cache look-ups that hit.
    pub cache_hits: u64,
    /// Block cache look-ups that missed.
    pub cache_misses: u64,
    /// Bytes of directory indexes.
    pub index_bytes: u64,
    /// Bytes of what the format remembers.
    pub memo_bytes: u64,
    /// Bytes of runs known of files, in formats that need it.
    pub run_bytes: u64,
    /// Directory indexes built.
    pub index_builds: u64,
    /// Blocks given to files since the mount, indirect ones among them.
    pub file_blocks: u64,
    /// Runs that they came in: a run begins where a block does not continue the one before it in
    /// the file. `file_runs` over `file_blocks` says how much new files are in pieces.
    pub file_runs: u64,
    /// Bytes that the device was told are free.
    pub discarded_bytes: u64,
    /// Bytes of dirty file data.
    pub dirty_bytes: u64,
    /// Dirty metadata block versions.
    pub dirty_blocks: u64,
}

impl FsStats {
    /// A site's counters.
    pub fn site(&self, site: Site) -> SiteStats {
        self.sites.get(site as usize).copied().unwrap_or_default()
    }

    /// Changes a site's counters.
    pub(crate) fn count(&mut self, site: Site, f: impl FnOnce(&mut SiteStats)) {
        if let Some(s) = self.sites.get_mut(site as usize) {
            f(s);
        }
    }

    /// Syncs sent, over all sites.
    pub fn syncs_sent(&self) -> u64 {
        self.sites.iter().map(|s| s.syncs_sent).sum()
    }
}

/// Something a person should hear of. Engines do not log; the host drains these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A failure that the policy does not report to the caller.
    Warning {
        /// Where.
        site: Site,
        /// What.
        what: String,
    },
    /// The volume went read-only.
    ReadOnly {
        /// Why.
        why: String,
    },
}
