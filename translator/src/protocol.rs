//! The filesystem protocol on the shared records: magic, operations, bodies, versions.
//!
//! A client names what it works on by *fids*: numbers of its own choice, scoped to its session,
//! each bound to a node (inode and generation) and, once opened, to a handle. It can therefore send
//! `Create`, `Write`, `Setattr` and `Close` of a file at once, without waiting for a reply.
//!
//! The requests of one session are executed in the order in which they were sent. A client that
//! relies on it sets [`flags::AFTER`], so that a later server may run the others side by side.
//!
//! The fid stands in the record's `aux`. Field use (request -> reply) and retry class:
//!
//! | op | request | reply | retry |
//! |---|---|---|---|
//! | Hello | body [`Hello`] | body [`HelloReply`]; on EPROTO `value` = features | yes |
//! | Attach | fid (new), body [`Attach`] | body [`NodeReply`] | yes |
//! | Walk | fid, body [`Walk`] | body [`WalkReply`], also with an error | yes; O_TRUNC no |
//! | Open | fid, body [`Open`] | body [`NodeReply`] | no: the fid is open then |
//! | Create | directory fid, body [`Create`] | body [`NodeReply`] | no with O_EXCL, else as Walk |
//! | Read | fid, offset, length | payload; `value` = bytes, 0 at the end | yes |
//! | Write | fid, offset, payload | `value` = bytes taken | yes, but with O_APPEND no |
//! | Seek | fid, offset, flag HOLE | `value` = offset | yes |
//! | Close | fid | error of the `close` site, once per handle | no: the error is told once |
//! | Clunk | fid | - | yes |
//! | Getattr | fid | body `Attr` | yes |
//! | Setattr | fid, body `SetAttr` | body `Attr` | yes |
//! | Statfs | fid | body `StatFs` | yes |
//! | Readlink | fid | body: the target's bytes | yes |
//! | Readdir | fid, offset = cookie, length, flag ATTRS | body [`ReaddirReply`] | yes |
//! | Mkdir | directory fid, body [`Mkdir`] | body [`NodeReply`] | no: EEXIST the second time |
//! | Mknod | directory fid, body [`Mknod`] | body [`NodeReply`] | no: EEXIST |
//! | Symlink | directory fid, body [`Symlink`] | body [`NodeReply`] | no: EEXIST |
//! | Link | directory fid, body [`Link`] | body [`NodeReply`] | no: EEXIST |
//! | Unlink | directory fid, flag DIR, body: the name's bytes | - | no: ENOENT |
//! | Rename | directory fid, body [`Rename`] | - | no: ENOENT, or swapped back |
//! | Fsync | fid, flag DATASYNC | `value` = durable sequence | yes, but an error is told once |
//! | SyncFs | fid | `value` = durable sequence | yes |
//! | Control | body [`Control`] | body [`ControlReply`] | yes |
//! | Cancel | offset = cookie | `value` = 1 when the request was dropped | yes |
//! | Xattr | fid, body [`Xattr`] | body [`XattrReply`] | Get, List yes; else as its name says |
//! | Flags | fid, body: flags to set, or none | body: inode flags (`FS_*_FL`) | yes |
//! | Allocate | fid, offset, length, body [`Allocate`] | - | yes |
//!
//! Xattr, Flags and Allocate are features of their own ([`feature`]): a server of version 1 without
//! them answers EOPNOTSUPP.
//!
//! Cookies of Readdir are the client's to keep, opaque, and stable across inserts.

mod attrs;
mod bodies;
mod space;

pub use attrs::{Xattr, XattrReply};
pub use bodies::{
    Attach, Control, ControlReply, Counter, Create, Hello, HelloReply, Link, Mkdir, Mknod, Node,
    NodeReply, Open, PolicyInfo, ReaddirReply, Rename, SiteCounters, StatsReply, Symlink, Walk,
    WalkReply,
};
pub use space::Allocate;

use seawall_ipc::codec::body::BODY_MAX;
use seawall_ipc::{Dialect, Inline, Limits};

/// Versions of the filesystem protocol.
///
/// Changing the layout or meaning of any message of the newest version needs a new variant here,
/// with one line saying what changed, and a new set of fixtures. The fixtures of older versions
/// stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Version {
    /// All operations of the table above but those that are features.
    V1 = 1,
}

impl Version {
    /// The newest version.
    pub const CURRENT: Self = Self::V1;
}

/// First bytes of every record: "SWFS".
pub const MAGIC: u32 = u32::from_le_bytes(*b"SWFS");

/// Feature bits.
pub mod feature {
    /// Extended attributes.
    pub const XATTR: u64 = 1 << 0;
    /// Space ahead of writes, and holes.
    pub const ALLOCATE: u64 = 1 << 1;
    /// Inode flags.
    pub const FLAGS: u64 = 1 << 2;
    /// The volume finds a name in several spellings: in use where it does.
    pub const FOLDS: u64 = 1 << 3;
}

/// Feature bits this version offers.
pub const FEATURES: u64 = feature::XATTR | feature::ALLOCATE | feature::FLAGS | feature::FOLDS;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $n:literal, $text:literal;)*) => {
        /// Operations. 64 to 255 belong to the filesystem protocol.
        pub mod op {
            $($(#[$doc])* pub const $name: u16 = $n;)*

            /// The name used in logs and errors.
            pub fn name(op: u16) -> &'static str {
                match op { $($name => $text,)* _ => "unknown operation" }
            }
        }
    };
}

ops! {
    /// Opens the session.
    HELLO = 64, "Hello";
    /// Binds a fid to the root, under the peer's credentials.
    ATTACH = 65, "Attach";
    /// Binds a fid to a node found from another one.
    WALK = 66, "Walk";
    /// Opens a fid.
    OPEN = 67, "Open";
    /// Makes (or finds) a file and opens it.
    CREATE = 68, "Create";
    /// Reads.
    READ = 69, "Read";
    /// Writes.
    WRITE = 70, "Write";
    /// Finds data or a hole.
    SEEK = 71, "Seek";
    /// Runs the policy's close site and forgets the fid.
    CLOSE = 72, "Close";
    /// Forgets a fid.
    CLUNK = 73, "Clunk";
    /// Attributes.
    GETATTR = 74, "Getattr";
    /// Changes attributes.
    SETATTR = 75, "Setattr";
    /// Space and limits.
    STATFS = 76, "Statfs";
    /// Target of a symlink.
    READLINK = 77, "Readlink";
    /// Lists a directory.
    READDIR = 78, "Readdir";
    /// Makes a directory.
    MKDIR = 79, "Mkdir";
    /// Makes a special file.
    MKNOD = 80, "Mknod";
    /// Makes a symlink.
    SYMLINK = 81, "Symlink";
    /// Adds a name.
    LINK = 82, "Link";
    /// Removes a name.
    UNLINK = 83, "Unlink";
    /// Moves a name.
    RENAME = 84, "Rename";
    /// Makes a file durable, as the policy says.
    FSYNC = 85, "Fsync";
    /// Makes everything durable, as the policy says.
    SYNCFS = 86, "SyncFs";
    /// Talks to the server itself.
    CONTROL = 87, "Control";
    /// Drops queued work.
    CANCEL = 88, "Cancel";
    /// Extended attributes.
    XATTR = 89, "Xattr";
    /// Space ahead of writes, and holes.
    ALLOCATE = 90, "Allocate";
    /// Inode flags.
    FLAGS = 91, "Flags";
}

/// Flag bits of a request.
pub mod flags {
    /// Fsync: data and what is needed to find it.
    pub const DATASYNC: u16 = 1 << 0;
    /// Seek: the next hole, not the next data.
    pub const HOLE: u16 = 1 << 1;
    /// Readdir: with attributes.
    pub const ATTRS: u16 = 1 << 2;
    /// Unlink: an empty directory.
    pub const DIR: u16 = 1 << 3;
    /// Executed only after every earlier request of the session.
    pub const AFTER: u16 = 1 << 4;
    /// All of them.
    pub const ALL: u16 = DATASYNC | HOLE | ATTRS | DIR | AFTER;
}

/// Default limits.
pub mod limit {
    /// Requests in flight per session.
    pub const IN_FLIGHT: u32 = 128;
    /// Payload of one request, bytes.
    pub const PAYLOAD: u32 = 1024 * 1024;
    /// Fids per session.
    pub const FIDS: u32 = 4096;
    /// Components of one Walk.
    pub const WALK: u32 = 16;
    /// Sessions per server.
    pub const SESSIONS: u32 = 64;
    /// Bytes of names in one Readdir reply; with attributes the body stays below its limit.
    pub const READDIR_BYTES: u32 = 64 * 1024;
    /// Entries in one Readdir reply.
    pub const READDIR_ENTRIES: u32 = 512;
}

fn request_inline(op: u16) -> Inline {
    match op {
        op::HELLO
        | op::ATTACH
        | op::WALK
        | op::OPEN
        | op::CREATE
        | op::SETATTR
        | op::MKDIR
        | op::MKNOD
        | op::SYMLINK
        | op::LINK
        | op::UNLINK
        | op::RENAME
        | op::CONTROL
        | op::XATTR
        | op::ALLOCATE
        | op::FLAGS => Inline::Body,
        op::WRITE => Inline::Payload,
        op::READ
        | op::SEEK
        | op::CLOSE
        | op::CLUNK
        | op::GETATTR
        | op::STATFS
        | op::READLINK
        | op::READDIR
        | op::FSYNC
        | op::SYNCFS
        | op::CANCEL => Inline::None,
        _ => Inline::Skip,
    }
}

fn reply_inline(op: u16) -> Inline {
    match op {
        op::READ => Inline::Payload,
        op::WRITE
        | op::SEEK
        | op::CLOSE
        | op::CLUNK
        | op::UNLINK
        | op::RENAME
        | op::FSYNC
        | op::SYNCFS
        | op::CANCEL => Inline::None,
        op::HELLO..=op::CONTROL | op::XATTR | op::FLAGS => Inline::Body,
        _ => Inline::None,
    }
}

/// The filesystem protocol's rules for records.
pub const DIALECT: Dialect = Dialect {
    magic: MAGIC,
    request_flags: flags::ALL,
    reply_flags: 0,
    request: request_inline,
    reply: reply_inline,
    limits: Limits { body_max: BODY_MAX as u32, payload_max: limit::PAYLOAD, fds_max: 0 },
};
