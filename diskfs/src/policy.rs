//! The durability policy: which site forces what out, what stands between epochs, who may write an
//! inode back, and when the flusher runs. It is data; [`crate::Fs`] compiles it into plans, so
//! every host executes the same barriers.
//!
//! A policy never weakens the store's Sync. Where `fsync` is below `barrier`, its Ok means only
//! what the policy says, and [`Policy::fsync_is_durable`] lets every report print that.

use crate::Site;
use alloc::collections::BTreeMap;
use alloc::string::String;
use serde::{Deserialize, Serialize};

mod file;
mod presets;

pub use file::PolicyFile;
pub use presets::{PRESETS, preset};

/// What a site does, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Nothing.
    #[default]
    None,
    /// Submit, best effort: skipped when another writer owns the inode.
    Start,
    /// Own the inode, submit everything, do not wait.
    Submit,
    /// Submit and wait.
    Wait,
    /// The caller waits for a barrier shared with others.
    Defer {
        /// Longest wait for company, milliseconds.
        ms: u32,
        /// Dirty bytes that end the wait early.
        bytes: u64,
    },
    /// These blocks only, each written with its own durability.
    Fua,
    /// Wait, then Sync.
    Barrier,
}

/// When a site's action applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At every write of the site.
    Always,
    /// Where a caller waits.
    #[default]
    Waited,
    /// Only on a sync mount or an O_SYNC handle.
    Synchronous,
}

/// One site's switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SitePolicy {
    /// What.
    pub action: Action,
    /// When.
    #[serde(default)]
    pub when: When,
}

/// What stands between two epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Nothing: epochs are not kept apart.
    #[default]
    None,
    /// An order barrier; a Sync on a store without one, counted as a Sync.
    Order,
    /// A Sync.
    Sync,
}

/// When freed space may be given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reuse {
    #[default]
    AtOnce,
    AfterBarrier,
}

/// Which operations wait for their own epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waited {
    /// Those that ask.
    #[default]
    AsCalled,
    /// All: every operation returns when what it changed was written as its sites say.
    All,
}

/// When data blocks are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// When they are written to the cache.
    #[default]
    AtWrite,
    /// One page at a time from a single head at writeback.
    LogHead,
}

/// Who may write an inode's data back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Exclusion {
    /// Anybody, at the same time.
    None,
    /// One writer an inode.
    #[default]
    PerInode,
    /// Inodes with at least this much dirty data take a turn that is one for the filesystem.
    Global {
        /// Threshold in bytes.
        min_bytes: u64,
    },
}

/// Which requests may not be merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeBoundary {
    /// Any neighbours may merge.
    #[default]
    None,
    /// Not across inodes.
    Inode,
    /// Not across inodes, nor across a jump of the file offset.
    InodeOffset,
}

/// What a close of a written handle does, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClosePolicy {
    /// The file's data.
    pub data: Action,
    /// The inode and what leads to the data.
    pub inode: Action,
    /// Milliseconds that a close of a written handle waits after what it did.
    pub linger_ms: u32,
}

/// The flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flusher {
    /// Dirty bytes that wake it.
    pub background: u64,
    /// Dirty bytes at which writers wait.
    pub limit: u64,
    /// Milliseconds between passes.
    pub interval_ms: u64,
    /// Age in milliseconds at which dirty data is written whatever the threshold.
    pub expire_ms: u64,
    /// Bytes of one inode written before the next has its turn.
    pub chunk: u64,
    /// Largest request, bytes.
    pub max_request: u64,
}

impl Default for Flusher {
    fn default() -> Self {
        Self {
            background: 64 << 20,
            limit: 192 << 20,
            interval_ms: 5_000,
            expire_ms: 30_000,
            chunk: 4 << 20,
            max_request: 1 << 20,
        }
    }
}

/// What the filesystem makes of a store that cannot flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnsupported {
    /// Ok without a word.
    Ignore,
    /// Ok with a warning.
    Warn,
    /// fsync, syncfs and O_SYNC writes return EOPNOTSUPP.
    #[default]
    Fail,
    /// As `Fail`, and the volume goes read-only.
    ReadOnly,
    /// The volume is not mounted.
    RefuseMount,
}

/// What the filesystem makes of a failed flush or write, and of damage that an operation meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// One warning that names the site; the call returns Ok. Damage fails the operation all the
    /// same.
    Warn,
    /// EIO, once to each open handle.
    #[default]
    Fail,
    /// As `Fail`, and the volume goes read-only.
    ReadOnly,
}

/// What fsync does on an inode with nothing dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanFsync {
    /// Nothing. A periodic pass that wrote everything without a flush makes the next fsync lie:
    /// this is the Hurd's gap, kept for its presets.
    Nothing,
    /// Looks whether everything of the file is durable, and syncs when it is not.
    #[default]
    Check,
}

/// A whole policy.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Name in reports.
    pub name: String,
    /// Axis 1: site to action. A site that is absent does nothing.
    pub sites: BTreeMap<Site, SitePolicy>,
    /// Axis 1: the close site, by part.
    pub close: ClosePolicy,
    /// Axis 2.
    pub boundary: Boundary,
    /// Axis 2.
    pub reuse: Reuse,
    /// Axis 2.
    pub waited: Waited,
    /// Axis 2.
    pub allocation: Allocation,
    /// Axis 3.
    pub exclusion: Exclusion,
    /// Axis 3.
    pub merge_boundary: MergeBoundary,
    /// Axis 4.
    pub flusher: Flusher,
    /// A store that cannot flush.
    pub on_unsupported: OnUnsupported,
    /// A failed flush or write.
    pub on_error: OnError,
    /// fsync of a clean inode.
    pub clean_fsync: CleanFsync,
}

impl Policy {
    /// A site's switch.
    pub fn site(&self, site: Site) -> SitePolicy {
        self.sites.get(&site).copied().unwrap_or_default()
    }

    /// The action at a site for a caller that waits, on a synchronous mount or handle or not.
    pub fn action(&self, site: Site, synchronous: bool) -> Action {
        let s = self.site(site);
        match s.when {
            When::Synchronous if !synchronous && self.waited != Waited::All => Action::Start,
            _ => s.action,
        }
    }

    /// True when Ok from fsync means durable: `barrier` at `fsync_meta` and a check of clean
    /// inodes.
    pub fn fsync_is_durable(&self) -> bool {
        self.site(Site::FsyncMeta).action >= Action::Fua && self.clean_fsync == CleanFsync::Check
    }

    /// True when epochs are kept apart.
    pub fn ordered(&self) -> bool {
        self.boundary != Boundary::None
    }
}
