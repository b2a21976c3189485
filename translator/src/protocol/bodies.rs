//! Control bodies of the filesystem protocol. Names and targets are bytes.

use alloc::string::String;
use alloc::vec::Vec;
use seawall_diskfs::{Attr, Cred, DirEntry, Kind, OpenFlags, RenameFlags, Site};
use serde::{Deserialize, Serialize};

/// First message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol version the client speaks.
    pub version: u16,
    /// Feature bits it can use.
    pub offered: u64,
    /// Feature bits it cannot do without.
    pub required: u64,
    /// Who it is, for logs; at most 64 bytes are kept.
    pub client: String,
}

/// Answer to [`Hello`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// Version the session uses.
    pub version: u16,
    /// Feature bits in use: offered by both.
    pub features: u64,
    /// Changes when a server starts; fids and generations are scoped to it.
    pub boot_id: [u8; 16],
    /// Session number, for logs.
    pub session_id: u64,
    /// Requests the client may have in flight.
    pub in_flight_max: u32,
    /// Largest payload, bytes.
    pub payload_max: u32,
    /// Fids the client may hold.
    pub fids_max: u32,
    /// Components of one Walk.
    pub walk_max: u32,
}

/// Asks for the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// Acts for somebody else; only for a peer whose user is 0, else EPERM. It holds for the whole
    /// session from here on.
    pub cred: Option<Cred>,
}

/// A node that a fid was bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReply {
    /// Its attributes.
    pub attr: Attr,
}

/// Walks to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The fid to bind; may be the one that the walk starts from if that is not open.
    pub new_fid: u32,
    /// At most [`super::limit::WALK`] components; `.` and `..` work. None: another fid of the same
    /// node. Symlinks are not followed: the client sees their kind in the reply.
    pub names: Vec<Vec<u8>>,
    /// Opens it, too.
    pub open: Option<OpenFlags>,
    /// Returns its attributes.
    pub getattr: bool,
}

/// What a walk came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Inode.
    pub ino: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// Kind.
    pub kind: Kind,
}

/// Answer to [`Walk`]. With an error status it says how far the walk came; no fid is bound then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkReply {
    /// One for each component that was found.
    pub nodes: Vec<Node>,
    /// Attributes of the last, if asked for.
    pub attr: Option<Attr>,
}

/// Opens a fid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// How.
    pub flags: OpenFlags,
    /// A preset that holds for this handle instead of the mount's policy.
    pub policy: Option<String>,
}

/// Makes a file and opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The fid to bind.
    pub new_fid: u32,
    /// Name in the directory.
    pub name: Vec<u8>,
    /// Permission bits, 07777. The client has applied its umask.
    pub mode: u32,
    /// How to open it. Without `exclusive` a file that is there is opened.
    pub flags: OpenFlags,
    /// As in [`Open`].
    pub policy: Option<String>,
}

/// Answer to Readdir. No entries: the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaddirReply {
    /// Entries, `.` and `..` among them.
    pub entries: Vec<(DirEntry, Option<Attr>)>,
}

/// Makes a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mkdir {
    /// Binds this fid to it.
    pub new_fid: Option<u32>,
    /// Name.
    pub name: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// Makes a special file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mknod {
    /// Name.
    pub name: Vec<u8>,
    /// Fifo, socket, character or block device.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Device as (major, minor); devices are for user 0.
    pub rdev: (u32, u32),
}

/// Makes a symlink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symlink {
    /// Name.
    pub name: Vec<u8>,
    /// Where it points.
    pub target: Vec<u8>,
}

/// Adds a name to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Fid of the node.
    pub fid: u32,
    /// Name in the record's directory.
    pub name: Vec<u8>,
}

/// Moves a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rename {
    /// Name in the record's directory.
    pub name: Vec<u8>,
    /// Fid of the new directory.
    pub to_fid: u32,
    /// Name there.
    pub to_name: Vec<u8>,
    /// NOREPLACE, EXCHANGE.
    pub flags: RenameFlags,
}

/// What is asked of the server itself. Each returns when it is done. For the server's user and
/// user 0, else EPERM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// The syncfs of the whole volume.
    Sync,
    /// Which policy is in force.
    PolicyGet,
    /// Puts a preset in force.
    PolicySet(String),
    /// Counters.
    Stats,
    /// Everything written back, clean mark set, no more changes. EBUSY with a handle open for
    /// writing.
    RemountRo,
    /// Later version: EOPNOTSUPP.
    Freeze,
    /// Later version: EOPNOTSUPP.
    Thaw,
    /// Everything written back, clean mark set, then the server ends. The reply's status is that
    /// of the last flush.
    Shutdown,
    /// The next search for free space begins at this place (FAT: a cluster).
    NextFree(u64),
}

/// Answer to [`Control`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlReply {
    /// Done.
    Done,
    /// To PolicyGet and PolicySet.
    Policy(PolicyInfo),
    /// To Stats.
    Stats(StatsReply),
    /// What went wrong, beside the status.
    Failed(String),
}

/// The policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    /// Its name, with options that changed it.
    pub name: String,
    /// What makes fsync's Ok less than durable; `None` when Ok means durable.
    pub not_durable: Option<String>,
    /// Presets that can be put in force.
    pub presets: Vec<String>,
    /// The whole policy as text.
    pub text: String,
}

/// Counters of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in diskfs::SiteStats")]
pub struct SiteCounters {
    pub site: Site,
    pub hits: u64,
    pub writes: u64,
    pub bytes: u64,
    pub syncs_sent: u64,
    pub syncs_merged: u64,
    pub syncs_skipped: u64,
    pub syncs_failed: u64,
}

/// A named counter. Names may be added within a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name.
    pub name: String,
    /// Value.
    pub value: u64,
}

/// Counters since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsReply {
    /// The policy's name.
    pub policy: String,
    /// The store's cache class.
    pub cache: String,
    /// As in [`PolicyInfo`].
    pub not_durable: Option<String>,
    /// True when nothing may be changed.
    pub read_only: bool,
    /// Sites that did something, in the order of reports.
    pub sites: Vec<SiteCounters>,
    /// Everything else.
    pub counters: Vec<Counter>,
}
