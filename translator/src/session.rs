//! One session of a filesystem server, without sockets, threads or a clock.
//!
//! A host decodes records (`seawall_ipc::Decoder`), hands each request with its inline bytes to
//! [`Session::handle`], and sends the [`Answer`]. Operations run through
//! [`seawall_diskfs::driver`] on whatever implements its `Host`: a mutex and a store client in a
//! server, one thread and a block driver in a kernel.
//!
//! Guarantees:
//! * A fid is bound to an inode *and* its generation: a number that was freed and given out again
//!   is ESTALE, never another file.
//! * `Close` runs the policy's close site and tells its error once; a session that ends without it
//!   has its handles forgotten: nobody is left to hear an error, and what was written stays dirty
//!   until the flusher or a sync writes it.
//! * Nothing a peer sends can panic, or hold more than the limits of its session.

mod attrs;
mod changes;
mod control;
mod fids;
mod files;
mod names;
mod space;

pub use changes::Change;
pub use control::not_durable;

use crate::protocol::{DIALECT, FEATURES, Hello, HelloReply, Version, feature, flags, limit, op};
use alloc::string::String;
use alloc::vec::Vec;
use fids::Fids;
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Cred, Ctx, Done, FsError, Slice, Timestamp};
use seawall_ipc::codec::Inline;
use seawall_ipc::{Reply, Request, Status, decode_body, encode_body};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in protocol::limit")]
pub struct Limits {
    pub in_flight: u32,
    pub payload: u32,
    pub fids: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: limit::IN_FLIGHT, payload: limit::PAYLOAD, fids: limit::FIDS }
    }
}

/// What all sessions of a server have in common.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Changes when a server starts.
    pub boot_id: [u8; 16],
    /// The user that may use Control, beside user 0.
    pub owner: u32,
    /// Limits.
    pub limits: Limits,
}

/// Inline bytes of a request.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// None.
    #[default]
    None,
    /// A control body.
    Body(Vec<u8>),
    /// The data of a write. The engine keeps it without copying.
    Payload(Slice),
}

/// What to send.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The record; its inline length is set by whoever sends it.
    pub reply: Reply,
    /// Its body, if the operation has one.
    pub body: Vec<u8>,
    /// Its payload, if the operation has one.
    pub payload: Slice,
    /// What went wrong, for the host's log. The peer sees the status.
    pub failure: Option<FsError>,
}

/// What a request leads to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Send this.
    Answer(Answer),
    /// Stop serving, unmount, send what [`Session::stopped`] makes of the result.
    Shutdown,
}

/// Why a request failed: an engine's error or a number of the protocol's own.
pub(crate) enum Fail {
    Fs(FsError),
    Status(Status),
    Text(Status, String),
    /// A walk that did not arrive, and the body that says how far it came.
    Walk(FsError, Vec<u8>),
}

impl From<FsError> for Fail {
    fn from(e: FsError) -> Self {
        Self::Fs(e)
    }
}

impl From<seawall_diskfs::Refused> for Fail {
    fn from(e: seawall_diskfs::Refused) -> Self {
        Self::Fs(e.into())
    }
}

impl From<Status> for Fail {
    fn from(s: Status) -> Self {
        Self::Status(s)
    }
}

/// What a request made, when it succeeded.
#[derive(Default)]
pub(crate) struct Made {
    value: u64,
    body: Vec<u8>,
    payload: Slice,
}

type Result<T> = core::result::Result<T, Fail>;

impl Made {
    fn value(value: u64) -> Self {
        Self { value, ..Self::default() }
    }

    fn body<T: Serialize>(body: &T) -> Result<Self> {
        let body = encode_body(body).map_err(|_| Status::EOVERFLOW)?;
        Ok(Self { body, ..Self::default() })
    }
}

pub(crate) fn parse<T: DeserializeOwned>(input: &Input) -> Result<T> {
    match input {
        Input::Body(bytes) => Ok(decode_body(bytes).map_err(|_| Status::EINVAL)?),
        // An empty body is no inline bytes at all.
        _ => Ok(decode_body(&[]).map_err(|_| Status::EINVAL)?),
    }
}

/// One client's state.
#[derive(Debug)]
pub struct Session {
    id: u64,
    server: Server,
    /// Who the socket says it is.
    peer: Cred,
    /// Whom it acts for.
    cred: Cred,
    fids: Fids,
    greeted: bool,
    client: String,
    changes: Vec<Change>,
    /// Milliseconds that a close asked to be kept waiting.
    linger_ms: u32,
}

impl Session {
    /// A session with a peer whose credentials the host knows from the transport.
    pub fn new(id: u64, server: Server, peer: Cred) -> Self {
        let fids = Fids::new(server.limits.fids as usize);
        let cred = peer.clone();
        Self {
            id,
            server,
            peer,
            cred,
            fids,
            greeted: false,
            client: String::new(),
            changes: Vec::new(),
            linger_ms: 0,
        }
    }

    /// The name that the client gave, for logs.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Fids in use.
    pub fn fids(&self) -> usize {
        self.fids.len()
    }

    fn ctx(&self, now: Timestamp) -> Ctx {
        Ctx {
            now,
            cred: Some(self.cred.clone()),
            owner: (self.cred.uid, self.cred.gid),
            ..Ctx::default()
        }
    }

    /// Executes a request.
    pub fn handle<H: Host>(
        &mut self,
        host: &mut H,
        now: Timestamp,
        request: &Request,
        input: Input,
    ) -> Outcome {
        if request.op == op::CONTROL {
            return self.control(host, now, request, &input);
        }
        let made = self.dispatch(host, now, request, input);
        Outcome::Answer(answer(request, made))
    }

    fn dispatch<H: Host>(
        &mut self,
        host: &mut H,
        now: Timestamp,
        request: &Request,
        input: Input,
    ) -> Result<Made> {
        if (DIALECT.request)(request.op) == Inline::Skip {
            return Err(Status::EOPNOTSUPP.into());
        }
        if request.op == op::HELLO {
            let folds = host.with(|fs| fs.folds_names());
            return self.hello(&parse(&input)?, folds);
        }
        if !self.greeted {
            return Err(Status::EPROTO.into());
        }
        let ctx = self.ctx(now);
        match request.op {
            op::ATTACH => self.attach(host, now, request.aux, &parse(&input)?),
            op::WALK => self.walk(host, &ctx, request.aux, &parse(&input)?),
            op::OPEN => self.open(host, &ctx, request.aux, &parse(&input)?),
            op::CREATE => self.create(host, &ctx, request.aux, &parse(&input)?),
            op::READ => self.read(host, &ctx, request),
            op::WRITE => self.write(host, &ctx, request, input),
            op::SEEK => self.seek(host, &ctx, request),
            op::CLOSE => self.close(host, &ctx, request.aux),
            op::CLUNK => self.clunk(host, &ctx, request.aux),
            op::GETATTR => self.getattr(host, &ctx, request.aux),
            op::SETATTR => self.setattr(host, &ctx, request.aux, &parse(&input)?),
            op::STATFS => self.statfs(host, &ctx, request.aux),
            op::READLINK => self.readlink(host, &ctx, request.aux),
            op::READDIR => self.readdir(host, &ctx, request),
            op::MKDIR => self.mkdir(host, &ctx, request.aux, &parse(&input)?),
            op::MKNOD => self.mknod(host, &ctx, request.aux, &parse(&input)?),
            op::SYMLINK => self.symlink(host, &ctx, request.aux, &parse(&input)?),
            op::LINK => self.link(host, &ctx, request.aux, &parse(&input)?),
            op::UNLINK => {
                let dir = request.flags & flags::DIR != 0;
                self.unlink(host, &ctx, request.aux, &parse::<Vec<u8>>(&input)?, dir)
            }
            op::RENAME => self.rename(host, &ctx, request.aux, &parse(&input)?),
            op::XATTR => self.xattr(host, &ctx, request.aux, &parse(&input)?),
            op::ALLOCATE => self.allocate(host, &ctx, request, parse(&input)?),
            op::FLAGS => self.flags(host, &ctx, request.aux, parse(&input)?),
            op::FSYNC => self.fsync(host, request),
            op::SYNCFS => self.syncfs(host, request.aux),
            // Requests run in order, so what a Cancel names has been executed.
            op::CANCEL => Ok(Made::value(0)),
            _ => Err(Status::EOPNOTSUPP.into()),
        }
    }

    fn hello(&mut self, hello: &Hello, folds: bool) -> Result<Made> {
        let features = if folds { FEATURES } else { FEATURES & !feature::FOLDS };
        let missing = hello.required & !features;
        if hello.version != Version::CURRENT as u16 || missing != 0 {
            return Err(Status::EPROTO.into());
        }
        self.greeted = true;
        self.client = hello.client.chars().filter(|c| !c.is_control()).take(64).collect();
        let limits = self.server.limits;
        Made::body(&HelloReply {
            version: hello.version,
            features: hello.offered & features,
            boot_id: self.server.boot_id,
            session_id: self.id,
            in_flight_max: limits.in_flight,
            payload_max: limits.payload,
            fids_max: limits.fids,
            walk_max: limit::WALK,
        })
    }

    /// The answer to a Shutdown after the host stopped and unmounted.
    pub fn stopped(&self, request: &Request, result: core::result::Result<(), FsError>) -> Answer {
        control::finish(
            request,
            result.map(|()| crate::protocol::ControlReply::Done).map_err(Fail::Fs),
        )
    }

    /// The client is gone: forgets its handles.
    pub fn end<H: Host>(&mut self, host: &mut H, now: Timestamp) {
        let ctx = Ctx { now, cred: None, owner: (0, 0), ..Ctx::default() };
        let handles = self.fids.clear();
        if handles.is_empty() {
            return;
        }
        host.with(|fs| handles.iter().for_each(|h| fs.clunk(*h)));
        reap(host, &ctx);
    }
}

/// Frees what lost its last name and handle. An inode that cannot be freed now stays on the list.
pub(crate) fn reap<H: Host>(host: &mut H, ctx: &Ctx) {
    let nothing = |_: &mut seawall_diskfs::Fs<H::Format>, _: &mut seawall_diskfs::Ticket| {
        Ok(Done { value: (), after: None, more: false })
    };
    // An empty operation cannot fail; the driver reaps at its end.
    let _always_ok = driver::run(host, ctx, nothing);
}

fn status_of(e: &FsError) -> u32 {
    u32::try_from(e.errno()).unwrap_or(Status::EIO.0)
}

pub(crate) fn answer(request: &Request, made: Result<Made>) -> Answer {
    let mut reply = Reply { op: request.op, cookie: request.cookie, ..Reply::default() };
    match made {
        Ok(made) => {
            reply.value = made.value;
            Answer { reply, body: made.body, payload: made.payload, failure: None }
        }
        Err(fail) => {
            let mut body = Vec::new();
            let failure = match fail {
                Fail::Fs(e) => {
                    reply.status = status_of(&e);
                    Some(e)
                }
                Fail::Walk(e, came) => {
                    reply.status = status_of(&e);
                    body = came;
                    Some(e)
                }
                Fail::Status(s) | Fail::Text(s, _) => {
                    reply.status = s.0;
                    None
                }
            };
            if request.op == op::HELLO && reply.status == Status::EPROTO.0 {
                reply.value = FEATURES;
            }
            Answer { reply, body, failure, ..Answer::default() }
        }
    }
}
