//! Counters of a mounted filesystem: the price side of every report.

use crate::Site;
use crate::plan::{Plan, Reason};
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

/// What wrote file data back, and what it met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writeback {
    /// Passes of the flusher that wrote something.
    pub passes: u64,
    /// Bytes written because more than the background threshold was dirty.
    pub background_bytes: u64,
    /// Bytes written because of their age.
    pub expiry_bytes: u64,
    /// Bytes written by closes.
    pub close_bytes: u64,
    /// Bytes written by fsync and synchronous writes.
    pub fsync_bytes: u64,
    /// Bytes written by requests for the whole filesystem, and to make room.
    pub sync_bytes: u64,
    /// Times that a walker left inodes alone because another had them.
    pub skipped: u64,
    /// Waits of writers for room.
    pub throttled: u64,
    /// Milliseconds of them, as the host tells.
    pub throttled_ms: u64,
    /// Bytes that the flusher's pass which runs, or ran last, has written.
    pub pass_bytes: u64,
    /// Milliseconds of the last pass that ended, as the host tells.
    pub last_pass_ms: u64,
}

impl Writeback {
    pub(crate) fn wrote(&mut self, p: &Plan, bytes: u64) {
        let counter = match p.reason {
            Reason::Background => &mut self.background_bytes,
            Reason::Expiry => &mut self.expiry_bytes,
            Reason::Close => &mut self.close_bytes,
            Reason::Fsync => &mut self.fsync_bytes,
            Reason::Sync => &mut self.sync_bytes,
        };
        *counter = counter.saturating_add(bytes);
        if matches!(p.reason, Reason::Background | Reason::Expiry) {
            self.pass_bytes = p.bytes;
        }
    }

    pub(crate) fn ended(&mut self, p: &Plan) {
        if matches!(p.reason, Reason::Background | Reason::Expiry) && p.bytes > 0 {
            self.passes = self.passes.saturating_add(1);
        }
    }
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
    /// What wrote file data back.
    pub writeback: Writeback,
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
