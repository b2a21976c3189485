//! Plans: what a policy makes of a request for durability, as steps that any host executes.
//!
//! A host asks [`crate::Fs::next`] for a step, does it, and says how it went with
//! [`crate::Fs::complete`]. Blocks and data in a step are frozen until then. A write that failed
//! leaves its blocks dirty. A plan's verdict comes from [`crate::Fs::finish`].
//!
//! A plan knows what its caller waits for. A step that nobody waits for (`waited: false`) may
//! complete at any time, also after the plan was finished: its plan goes on without it, and what
//! fails then is told to each open handle of the file once.
//!
//! Who may walk an inode's dirty data beside whom is the policy's `exclusion`. A plan that has an
//! inode keeps it until it asks for its next step: until the host has submitted the last one.

use crate::data::Claim;
use crate::epoch::Epoch;
use crate::slice::Slice;
use crate::{FsError, Handle, Ino, Site, SiteSet, Timestamp};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Seq, Tag, WriteFlags};

mod compile;
mod flush;
mod own;
mod step;
mod walk;

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
    /// A pass of the flusher, for when [`crate::Fs::wants_writeback`]: chunk by chunk, one inode
    /// after another, until not more than the policy's background threshold is dirty and in no
    /// step. Under pressure of metadata it is a `Whole(Periodic)`.
    Background,
    /// A pass of the flusher, for each of its intervals: inodes that were first dirtied
    /// `expire_ms` before `now` are written completely, the metadata likewise.
    Expired {
        /// The time, on the clock of [`crate::Ctx::now`].
        now: Timestamp,
    },
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
        /// False: the plan goes on before this is complete, and so may its caller.
        waited: bool,
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

/// What a finished plan leaves to its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Milliseconds that the caller is to be kept waiting, without any lock: Linux's FAT sleeps at
    /// the end of a close that flushed.
    pub linger_ms: u32,
    /// Steps of the plan that are still under way.
    pub in_flight: u32,
}

/// Why a plan writes data; the counters are kept by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Background,
    Expiry,
    Close,
    Fsync,
    Sync,
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
    /// The plan does not go on before it is complete.
    pub(crate) waited: bool,
    /// Keeps freed blocks from reuse while data is under way to them.
    pub(crate) io: Option<u64>,
}

/// What a walker does about an inode that another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Waits for its turn.
    Wait,
    /// Leaves it alone: not a full sync, in the words of `exclusion`.
    Skip,
}

/// What walkers know of each other.
#[derive(Debug, Default)]
pub(crate) struct Walkers {
    /// The plan whose walker has the filesystem's turn, and in which inode; see
    /// [`crate::policy::Exclusion::Global`].
    pub(crate) turn: Option<(PlanId, Ino)>,
    pub(crate) turn_wanted: BTreeSet<PlanId>,
    /// Walkers whose request the device is taking, and in which inode: their rivals wait.
    pub(crate) stopped: BTreeMap<PlanId, Ino>,
    /// The inode with which the flusher goes on.
    pub(crate) flush_from: Ino,
    /// Bytes that a writer waits to put into the data cache.
    pub(crate) room_wanted: u64,
    /// Why the last write of file data failed, if it did.
    pub(crate) failing: Option<DevError>,
}

/// A walk over dirty data of one inode, or of all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) only: Option<Ino>,
    /// Where it goes on.
    pub(crate) at: (Ino, u64),
    /// Newest generation that it covers.
    pub(crate) upto: u64,
    pub(crate) own: Own,
    /// It is over when what it covers is written; else when it is submitted.
    pub(crate) waits: bool,
}

/// A pass of the flusher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Only inodes that were dirty at this time; `None`: as many as are above the threshold.
    pub(crate) before: Option<Timestamp>,
    pub(crate) now: Timestamp,
    pub(crate) upto: u64,
    /// The inode that has its turn, and how much of its chunk is left.
    pub(crate) turn: Option<(Ino, u64)>,
}

/// What a phase does.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Data(Walk),
    Flush(Pass),
    /// Epochs in order, with the policy's boundary.
    Epochs {
        upto: Epoch,
        current: Option<Epoch>,
    },
    /// These blocks in any order, whatever their epoch.
    Blocks(BlockList),
    /// A Sync, unless everything that it must cover is durable.
    Sync {
        site: Site,
        cover: Cover,
        waited: bool,
    },
}

/// Blocks to write in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockList {
    pub(crate) list: Vec<u64>,
    pub(crate) at: usize,
    /// Those whose older version another plan was writing: that write covers less than what this
    /// plan must.
    pub(crate) retry: Vec<u64>,
    /// It is over when they are written; else when they are submitted.
    pub(crate) waits: bool,
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
    pub(crate) reason: Reason,
    pub(crate) phases: VecDeque<Phase>,
    /// Steps under way that it waits for.
    pub(crate) running: u32,
    pub(crate) wrote: Seq,
    /// Bytes of data that it handed out.
    pub(crate) bytes: u64,
    pub(crate) error: Option<FsError>,
    pub(crate) handle: Option<Handle>,
    pub(crate) ino: Option<Ino>,
    /// Inodes whose data it owns.
    pub(crate) owns_data: Vec<Ino>,
    /// The inode that it waits for.
    pub(crate) wants: Option<Ino>,
    /// A full pass: every inode counts as clean afterwards.
    pub(crate) whole: bool,
    /// The inode counts as clean afterwards.
    pub(crate) cleans: Option<Ino>,
    /// Failures are the caller's to hear; false for the flusher.
    pub(crate) waited: bool,
    pub(crate) linger_ms: u32,
}
