//! A blocking client of a store server over a Unix socket.
//!
//! * Shareable: [`BlockDev`] is implemented for `&Client`; threads share one session. There is no
//!   reader thread. Of the threads that wait, one (the leader) receives: its own read payloads
//!   straight into its caller's buffers, those of others into a buffer they pick up.
//! * Pipelined: all requests of a call leave in one vectored send, within the server's credit.
//! * A server that is gone fails everything in flight and everything later with
//!   [`DevError::Gone`]; what was in flight may or may not have happened.
//! * SYNC goes out with DRAIN and says how many failed writes this side has seen, so an error is
//!   told once and none is missed.

mod access;
mod exchange;
mod range;
mod shared;
mod submit;

pub use access::Access;

use crate::error::StoreError;
use crate::plan::{Piece, plan};
use crate::session::check_run;
use crate::wire::{caps_of, check};
use exchange::Data;
use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun,
};
use seawall_ipc::conn::{Receiver, widen};
use seawall_ipc::storeproto::{
    CacheWire, DIALECT, Hello, HelloReply, Info, Stats, Version, limit, op,
};
use seawall_ipc::{Limits, Reply, Request, decode_body, encode_body, flags};
use shared::Shared;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::string::{String, ToString};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::vec::Vec;

/// Largest payload this side takes, whatever the server offers.
const PAYLOAD_MAX: u32 = 16 * 1024 * 1024;
/// Most requests in flight, whatever the server offers.
const IN_FLIGHT_MAX: u32 = 1024;

/// A session with a store server.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    peer: String,
    hello: HelloReply,
    access: Access,
    info: Info,
    caps: Caps,
    shared: Mutex<Shared>,
    turn: Condvar,
    sending: Mutex<()>,
    receiver: Mutex<Receiver<Reply>>,
    acked: AtomicU64,
    durable: AtomicU64,
    /// Failed write-class replies read so far.
    failures: AtomicU32,
}

impl Client {
    /// Connects and opens a session that may write beside others ([`Access::Shared`]). `name` is
    /// for the server's logs and statistics, and for those it is in the way of.
    ///
    /// # Errors
    /// [`StoreError`] naming the socket; [`StoreError::Held`] when somebody holds the store for
    /// himself.
    pub fn connect(path: &Path, name: &str) -> Result<Self, StoreError> {
        Self::connect_as(path, name, Access::Shared)
    }

    /// As [`Client::connect`], with this access.
    ///
    /// # Errors
    /// As there; [`StoreError::Held`] too when others may write and `access` is exclusive.
    pub fn connect_as(path: &Path, name: &str, access: Access) -> Result<Self, StoreError> {
        let socket = UnixStream::connect(path)
            .map_err(|e| StoreError::file("connect to the store server on", path, e))?;
        Self::over_as(socket, &path.display().to_string(), name, access)
    }

    /// Opens a session over a connected socket; `peer` names it in errors.
    ///
    /// # Errors
    /// [`StoreError::Peer`], [`StoreError::Held`].
    pub fn over(socket: UnixStream, peer: &str, name: &str) -> Result<Self, StoreError> {
        Self::over_as(socket, peer, name, Access::Shared)
    }

    /// As [`Client::over`], with this access.
    ///
    /// # Errors
    /// As there.
    pub fn over_as(
        socket: UnixStream,
        peer: &str,
        name: &str,
        access: Access,
    ) -> Result<Self, StoreError> {
        let fail = |e: DevError| StoreError::peer(peer, e);
        if let Err(error) = widen(&socket) {
            tracing::debug!(peer, %error, "the send buffer stays as it is");
        }
        let mut client = Self::unopened(socket, peer);
        let hello = Hello {
            version: Version::CURRENT as u16,
            offered: access.offered(),
            required: access.required(),
            client: name.to_string(),
        };
        let body = encode_body(&hello).map_err(|e| StoreError::peer(peer, e))?;
        let (reply, body) = client.control(op::HELLO, &body).map_err(fail)?;
        access::opened(peer, &hello, &reply, &body)?;
        client.access = access;
        client.hello = decode_body(&body).map_err(|e| StoreError::peer(peer, e))?;
        client.agree();
        client.refresh().map_err(fail)?;
        let mut caps = caps_of(&client.info);
        caps.read_only |= access == Access::ReadOnly;
        if caps.logical == 0 || caps.max_io < caps.logical {
            return Err(StoreError::peer(peer, "the server's block or request size is impossible"));
        }
        client.caps = caps;
        client.acked.store(client.info.acked, Ordering::Release);
        client.durable.store(client.info.durable, Ordering::Release);
        Ok(client)
    }

    fn unopened(socket: UnixStream, peer: &str) -> Self {
        let hello = HelloReply {
            version: Version::CURRENT as u16,
            features: 0,
            boot_id: [0; 16],
            session_id: 0,
            generation: 0,
            in_flight_max: 1,
            payload_max: limit::PAYLOAD,
        };
        let info = Info {
            name: String::new(),
            size: 0,
            logical: 1,
            physical: 1,
            atomic_write: 1,
            max_io: limit::PAYLOAD,
            cache: CacheWire::UNKNOWN,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: true,
            acked: 0,
            durable: 0,
            faulted: false,
        };
        Self {
            socket,
            peer: peer.to_string(),
            caps: caps_of(&info),
            hello,
            access: Access::Shared,
            info,
            shared: Mutex::new(Shared::new(1)),
            turn: Condvar::new(),
            sending: Mutex::new(()),
            receiver: Mutex::new(Receiver::new(DIALECT)),
            acked: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            failures: AtomicU32::new(0),
        }
    }

    /// Takes over the limits of HELLO, within our own.
    fn agree(&mut self) {
        let in_flight = self.hello.in_flight_max.clamp(1, IN_FLIGHT_MAX);
        let payload_max = self.hello.payload_max.min(PAYLOAD_MAX);
        self.hello.payload_max = payload_max;
        self.shared = Mutex::new(Shared::new(in_flight));
        let limits = Limits { payload_max, ..DIALECT.limits };
        let receiver = self.receiver.get_mut().unwrap_or_else(PoisonError::into_inner);
        receiver.decoder_mut().set_limits(limits);
    }

    /// Asks for capabilities and position again.
    fn refresh(&mut self) -> Result<(), DevError> {
        let mut info = self.ask::<Info>(op::INFO)?;
        let block = info.logical.max(1);
        info.max_io = info.max_io.min(self.hello.payload_max) / block * block;
        self.info = info;
        Ok(())
    }

    /// What the server said in HELLO.
    pub fn hello(&self) -> &HelloReply {
        &self.hello
    }

    /// True when somebody else held the store for himself when this session was opened.
    pub fn is_held_by_another(&self) -> bool {
        self.hello.generation != 0 && self.access != Access::Exclusive
    }

    /// Keeps a session that gave up writing from it, also at a server that would let it.
    fn may_write(&self) -> Result<(), DevError> {
        if self.access == Access::ReadOnly { Err(DevError::ReadOnly) } else { Ok(()) }
    }

    /// What the server said in INFO when the session was opened.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Asks for INFO now.
    ///
    /// # Errors
    /// The connection's.
    pub fn current_info(&self) -> Result<Info, DevError> {
        self.ask(op::INFO)
    }

    /// Asks for the server's statistics.
    ///
    /// # Errors
    /// The connection's.
    pub fn stats(&self) -> Result<Stats, DevError> {
        self.ask(op::STATS)
    }

    /// Writes, then makes everything acknowledged durable, in one send: SYNC with DRAIN waits for
    /// the writes in front of it. Returns the durable sequence.
    ///
    /// # Errors
    /// The first of a write, else that of the sync.
    pub fn write_sync(&self, runs: &[WriteRun<'_>], tag: Tag) -> Result<Seq, DevError> {
        self.may_write()?;
        let plan = plan(runs.iter().map(|r| (r.start, r.buf, r.tag.0)), self.info.max_io);
        self.check(&plan.pieces)?;
        let mut requests = self.requests(op::WRITE, 0, &plan.pieces);
        requests.push(self.sync_request(tag));
        let replies = self.exchange(&requests, Data::Out(&plan))?;
        let (sync, writes) = replies.split_last().ok_or(DevError::Protocol)?;
        self.acknowledged(writes)?;
        self.synced(sync)
    }

    /// Process id of the server as it was when it began to listen, if it is on this machine.
    pub fn peer_pid(&self) -> Option<i32> {
        let peer = rustix::net::sockopt::socket_peercred(&self.socket).ok()?;
        Some(peer.pid.as_raw_nonzero().get())
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// [`StoreError::Peer`] when the server was gone already.
    pub fn close(self) -> Result<(), StoreError> {
        let done = self.control(op::BYE, &[]);
        done.map(|_| ()).map_err(|e| StoreError::peer(&self.peer, e))
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, op: u16) -> Result<T, DevError> {
        let (reply, body) = self.control(op, &[])?;
        check(reply.status)?;
        decode_body(&body).map_err(|_| DevError::Protocol)
    }

    fn control(&self, op: u16, body: &[u8]) -> Result<(Reply, Vec<u8>), DevError> {
        let mut answer = Vec::new();
        let request = Request { op, ..Request::default() };
        let data = Data::Control { body, answer: &mut answer, fds: &mut Vec::new() };
        let replies = self.exchange(&[request], data)?;
        Ok((replies.first().copied().ok_or(DevError::Protocol)?, answer))
    }

    fn check(&self, pieces: &[Piece]) -> Result<(), DevError> {
        pieces.iter().try_for_each(|p| check_run(&self.caps, Run::new(p.start, p.len)))
    }

    fn requests(&self, op: u16, flags: u16, pieces: &[Piece]) -> Vec<Request> {
        let request = |p: &Piece| Request {
            op,
            flags,
            offset: p.start,
            length: p.len,
            tag: p.tag,
            ..Request::default()
        };
        pieces.iter().map(request).collect()
    }

    fn write_class(&self, request: Request) -> Result<Seq, DevError> {
        self.may_write()?;
        check_run(&self.caps, Run::new(request.offset, request.length))?;
        let replies = self.exchange(&[request], Data::Nothing)?;
        self.acknowledged(&replies)
    }

    /// The newest sequence among write replies, or the first error.
    fn acknowledged(&self, replies: &[Reply]) -> Result<Seq, DevError> {
        let mut newest = 0;
        let mut first_error = Ok(());
        for reply in replies {
            match check(reply.status) {
                Ok(()) => newest = newest.max(reply.value),
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        self.acked.fetch_max(newest, Ordering::AcqRel);
        if self.caps.cache == CacheClass::WriteThrough {
            self.durable.fetch_max(newest, Ordering::AcqRel);
        }
        first_error.map(|()| Seq(self.acked.load(Ordering::Acquire).max(newest)))
    }

    fn do_read(&self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError> {
        let slices = runs.iter_mut().map(|r| (r.start, &mut *r.buf, tag.0));
        let mut plan = plan(slices, self.info.max_io);
        self.check(&plan.pieces)?;
        let requests = self.requests(op::READ, 0, &plan.pieces);
        let replies = self.exchange(&requests, Data::In(&mut plan))?;
        replies.iter().try_for_each(|reply| check(reply.status))
    }

    fn do_write(&self, runs: &[WriteRun<'_>], wanted: WriteFlags) -> Result<Seq, DevError> {
        self.may_write()?;
        let plan = plan(runs.iter().map(|r| (r.start, r.buf, r.tag.0)), self.info.max_io);
        self.check(&plan.pieces)?;
        if (wanted.fua && !self.caps.fua) || (wanted.pre_barrier && !self.caps.order) {
            return Err(DevError::Unsupported);
        }
        let fua = if wanted.fua { flags::FUA } else { 0 };
        let mut requests = self.requests(op::WRITE, fua, &plan.pieces);
        if let Some(first) = requests.first_mut()
            && wanted.pre_barrier
        {
            first.flags |= flags::PRE_BARRIER;
        }
        let replies = self.exchange(&requests, Data::Out(&plan))?;
        self.acknowledged(&replies)
    }

    /// A SYNC with DRAIN that says which failures this side has seen so far.
    fn sync_request(&self, tag: Tag) -> Request {
        let seen = self.failures.load(Ordering::Acquire);
        let (op, flags, tag) = (op::SYNC, flags::DRAIN, tag.0);
        Request { op, flags, tag, aux: seen, ..Request::default() }
    }

    fn synced(&self, reply: &Reply) -> Result<Seq, DevError> {
        check(reply.status)?;
        self.durable.fetch_max(reply.value, Ordering::AcqRel);
        Ok(Seq(reply.value))
    }

    fn do_sync(&self, tag: Tag) -> Result<Seq, DevError> {
        let replies = self.exchange(&[self.sync_request(tag)], Data::Nothing)?;
        self.synced(replies.first().ok_or(DevError::Protocol)?)
    }
}

impl BlockDev for &Client {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn seqs(&self) -> SeqState {
        let durable = Seq(self.durable.load(Ordering::Acquire));
        SeqState { acked: Seq(self.acked.load(Ordering::Acquire)).max(durable), durable }
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError> {
        self.do_read(runs, tag)
    }

    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError> {
        self.do_write(runs, flags)
    }

    fn sync(&mut self, tag: Tag) -> Result<Seq, DevError> {
        self.do_sync(tag)
    }

    fn discard(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        let (offset, length, tag) = (run.start, run.len, tag.0);
        self.write_class(Request { op: op::DISCARD, offset, length, tag, ..Request::default() })
    }

    fn write_zeroes(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        let (offset, length, tag) = (run.start, run.len, tag.0);
        let op = op::WRITE_ZEROES;
        self.write_class(Request { op, offset, length, tag, ..Request::default() })
    }
}
