//! What every Seawall filesystem engine shares, as the Hurd's libdiskfs does for its own.
//!
//! An engine is a [`Format`] (on-disk knowledge) inside an [`Fs`] (caches, order, handles, policy).
//! Operations look synchronous but do no I/O: a miss returns [`Fault::Need`], the driver fetches
//! and calls again. Durability is a [`Policy`] compiled into plans, so every host executes the same
//! barriers.
//!
//! The line that nothing here crosses: a sync that says Ok is never a lie.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acl;
pub mod bytes;
mod cache;
pub mod check;
mod data;
mod dirindex;
pub mod driver;
mod epoch;
mod error;
pub mod flags;
mod format;
mod fs;
mod hash;
mod memo;
mod nodes;
mod pending;
mod plan;
pub mod policy;
mod runs;
mod site;
mod sizes;
mod slice;
mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod ticket;
mod tx;
mod types;
mod windows;

pub use dirindex::{IndexBuild, name_hash};
pub use epoch::{Epoch, OPEN_EPOCHS_MAX, Stage};
pub use error::{Attempt, Corrupt, Extent, Fault, FsError, Refused, Wait};
pub use format::{Format, Geometry, Mapping, Unlinked};
pub use fs::{
    Atime, AtimeOpts, Done, Fs, IO_MAX, Listing, MountOpts, ReadPlan, SeekWhat, Segment, Source,
    Space, XATTR_MAX, XATTR_NAME_MAX, XattrHow,
};
pub use hash::{FixedHasher, HashMap};
pub use memo::Words;
pub use plan::{After, IoRun, PlanId, PlanReq, Step, StepId, Verdict};
pub use policy::Policy;
pub use runs::Run;
pub use site::{Site, SiteSet};
pub use sizes::CacheSizes;
pub use slice::Slice;
pub use stats::{Event, FsStats, SiteStats, Writeback};
pub use ticket::{READ_AHEAD_MAX, Ticket};
pub use tx::{BlockRef, Change, Tx};
pub use types::{
    Attr, Cred, Ctx, DirEntry, Handle, Ino, Kind, NewNode, OpenFlags, RenameFlags, SetAttr,
    SetTime, StatFs, Timestamp,
};
