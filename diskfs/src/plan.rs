//! Plans: what a policy makes of a request for durability, as steps that any host executes.
//!
//! A host asks [`crate::Fs::next`] for a step, does it, and says how it went with
//! [`crate::Fs::complete`]. Blocks and data in a step are frozen until then. A write that failed
//! leaves its blocks dirty. A plan's verdict comes from [`crate::Fs::finish`].

use crate::data::Claim;
use crate::epoch::Epoch;
use crate::slice::Slice;
use crate::{FsError, Handle, Ino, Site, SiteSet};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use seawall_blockdev::{Seq, Tag, WriteFlags};

mod compile;
mod step;

/// Names a running plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanId(pub(crate) u64);

/// Names a step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub(crate) u64);

/// A request for durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanReq {
    /// fsync (or fdatasync) of a handle.
    Fsync {
        /// Which.
        handle: Handle,
        /// fdatasync.
        datasync: bool,
    },
    /// The close site of a handle, if it was written since the last one.
    Close(Handle),
    /// Everything, for this site: `Syncfs`, `RemountRo`, `Unmount` or `Periodic`.
    Whole(Site),
    /// Makes room in the caches.
    Room,
    /// Makes freed space reusable.
    Reclaim,
    /// What a committed operation's policy asks for before it returns.
    After(After),
}

/// What must follow a committed operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Its changes are in epochs up to this one.
    pub(crate) upto: Epoch,
    /// Its data is this inode's.
    pub(crate) data: Option<Ino>,
    /// Sites that it changed blocks of.
    pub(crate) sites: SiteSet,
    /// The site that its wait counts for.
    pub(crate) site: Option<Site>,
    /// New indirect blocks whose pointers count as hits of `indirect`.
    pub(crate) indirect: u32,
    /// fsync (Some(false)) or fdatasync (Some(true)) of this handle follows.
    pub(crate) fsync: Option<(Handle, bool)>,
    /// Only the blocks of `hypermetadata`.
    pub(crate) hyper: bool,
    /// Durable when it returns, whatever the policy says of its sites: what changed has the flag
    /// `S` or `D`.
    pub(crate) force: bool,
}

/// One write of a step.
#[derive(Clone, Debug)]
pub struct IoRun {
    /// Device offset, bytes.
    pub start: u64,
    /// The bytes.
    pub data: Slice,
    /// Policy site.
    pub tag: Tag,
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Write these, in any order, then complete.
    Write {
        /// Names the step.
        id: StepId,
        /// Sorted by device offset within metadata and within an inode.
        runs: Vec<IoRun>,
        /// Flags for the whole batch.
        flags: WriteFlags,
    },
    /// Send a Sync, then complete with the durable sequence.
    Sync {
        /// Names the step.
        id: StepId,
        /// Policy site.
        tag: Tag,
    },
    /// Another plan is doing what this one needs; ask again when something completed.
    Busy,
    /// Steps of this plan are still under way.
    Pending,
    /// Nothing left: call `finish`.
    Done,
}

/// Which blocks a step wrote.
#[derive(Debug)]
pub(crate) enum Work {
    Blocks(Vec<(Epoch, u64)>),
    Data(Vec<Claim>),
    Sync { site: Site, covers: Seq },
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) plan: PlanId,
    pub(crate) work: Work,
    /// Keeps freed blocks from reuse while data is under way to them.
    pub(crate) io: Option<u64>,
}

/// What a phase does.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Dirty data of one inode, or of all.
    Data { ino: Option<Ino>, cursor: (Ino, u64), upto: u64 },
    /// Epochs in order, with the policy's boundary.
    Epochs { upto: Epoch, current: Option<Epoch> },
    /// These blocks in any order, whatever their epoch. `retry` are those whose older version
    /// another plan was writing: that write covers less than what this plan must.
    Blocks { list: Vec<u64>, at: usize, retry: Vec<u64> },
    /// A Sync, unless everything that it must cover is durable.
    Sync { site: Site, cover: Cover, waited: bool },
}

/// What a Sync must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// What this plan wrote, and what this inode needs.
    Inode(Ino),
    /// What this plan wrote.
    Plan,
    /// The epochs up to this one that were written and are not known to be durable.
    Epochs(Epoch),
    /// Every acknowledged write.
    All,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) site: Site,
    pub(crate) phases: VecDeque<Phase>,
    pub(crate) running: u32,
    pub(crate) wrote: Seq,
    pub(crate) error: Option<FsError>,
    pub(crate) handle: Option<Handle>,
    pub(crate) ino: Option<Ino>,
    /// Inodes whose data it owns.
    pub(crate) owns_data: Vec<Ino>,
    /// A full pass: every inode counts as clean afterwards.
    pub(crate) whole: bool,
    /// The inode counts as clean afterwards.
    pub(crate) cleans: Option<Ino>,
    /// Failures are the caller's to hear; false for the flusher.
    pub(crate) waited: bool,
}
