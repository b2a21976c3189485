//! Sending and receiving.

use super::error::ClientError;
use crate::protocol::{DIALECT, FEATURES, Hello, HelloReply, Version, limit, op};
use rustix::event::{PollFd, PollFlags, poll};
use seawall_blockdev::PageBuf;
use seawall_ipc::conn::{Receiver, RecvError, Sent, send_now};
use seawall_ipc::{Event, Gather, Reply, Request, Status, decode_body, encode_body};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::string::{String, ToString};
use std::vec::Vec;

/// Requests queued before they are sent on their own.
const QUEUE_MAX: usize = 32;
/// Payload bytes queued before they are sent on their own.
const QUEUE_BYTES: usize = 512 * 1024;
/// Reply bytes on the way beyond which nothing is sent.
const REPLY_BYTES: u64 = 8 * 1024 * 1024;

/// Inline bytes of a request.
#[derive(Debug, Default)]
pub enum Outgoing {
    /// None.
    #[default]
    None,
    /// A control body.
    Body(Vec<u8>),
    /// Data of a write.
    Data(PageBuf),
}

/// A reply.
#[derive(Debug)]
pub struct Completion {
    /// As returned by [`Client::post`].
    pub cookie: u64,
    /// The operation.
    pub op: u16,
    /// Its result.
    pub status: Status,
    /// As the operation says.
    pub value: u64,
    /// Control body.
    pub body: Vec<u8>,
    /// Data of a read.
    pub data: PageBuf,
}

impl Completion {
    /// The body as a value.
    ///
    /// # Errors
    /// `Op` with the status, or with EPROTO when the body is not such a value.
    pub fn value_of<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        self.ok()?;
        decode_body(&self.body).map_err(|e| self.error(Status::EPROTO, e.to_string()))
    }

    /// Nothing, or the error.
    ///
    /// # Errors
    /// `Op` with the status.
    pub fn ok(&self) -> Result<(), ClientError> {
        if self.status.is_ok() { Ok(()) } else { Err(self.error(self.status, String::new())) }
    }

    pub(super) fn error(&self, status: Status, words: String) -> ClientError {
        ClientError::Op { op: self.op, path: String::new(), status, words }
    }
}

/// A session with a filesystem server.
pub struct Client {
    socket: UnixStream,
    name: String,
    hello: HelloReply,
    receiver: Receiver<Reply>,
    queue: Vec<(Request, Outgoing)>,
    queued: usize,
    /// Sent or queued, not answered: bytes that the answer may have.
    flight: BTreeMap<u64, u64>,
    expected: u64,
    done: VecDeque<Completion>,
    next_cookie: u64,
    next_fid: u32,
    free_fids: Vec<u32>,
}

impl Client {
    /// Connects, opens a session and binds [`super::ROOT`]. `name` is for the server's log.
    ///
    /// # Errors
    /// `Connect`, `Peer`, or what the server says to Attach.
    pub fn connect(path: &Path, name: &str) -> Result<Self, ClientError> {
        let mut client = Self::connect_control(path, name)?;
        client.attach(super::ROOT, None).map_err(|e| e.on(path.display().to_string()))?;
        Ok(client)
    }

    /// Connects and opens a session without a root: for [`Client::control`], which has to work on a
    /// volume that cannot be read.
    ///
    /// # Errors
    /// `Connect` or `Peer`.
    pub fn connect_control(path: &Path, name: &str) -> Result<Self, ClientError> {
        let socket = UnixStream::connect(path)
            .map_err(|cause| ClientError::Connect { socket: path.display().to_string(), cause })?;
        let hello = HelloReply {
            in_flight_max: 1,
            payload_max: limit::PAYLOAD,
            walk_max: 1,
            fids_max: 1,
            ..HelloReply::default()
        };
        let mut client = Self {
            socket,
            name: path.display().to_string(),
            hello,
            receiver: Receiver::new(DIALECT),
            queue: Vec::new(),
            queued: 0,
            flight: BTreeMap::new(),
            expected: 0,
            done: VecDeque::new(),
            next_cookie: 0,
            next_fid: super::ROOT + 1,
            free_fids: Vec::new(),
        };
        client.greet(name).map_err(|e| e.on(path.display().to_string()))?;
        Ok(client)
    }

    fn greet(&mut self, name: &str) -> Result<(), ClientError> {
        let version = Version::CURRENT as u16;
        let hello = Hello { version, offered: FEATURES, required: 0, client: name.to_string() };
        let request = Request { op: op::HELLO, ..Request::default() };
        let reply = self.wait_for(request, self.body(&hello)?)?;
        if reply.status == Status::EPROTO {
            return Err(self.peer(std::format!(
                "the server does not speak version {version} (its features: {:#x})",
                reply.value
            )));
        }
        let hello: HelloReply = reply.value_of()?;
        self.hello = HelloReply {
            in_flight_max: hello.in_flight_max.clamp(1, 1024),
            payload_max: hello.payload_max.clamp(1, limit::PAYLOAD),
            walk_max: hello.walk_max.max(1),
            fids_max: hello.fids_max.max(1),
            ..hello
        };
        Ok(())
    }

    /// What the server said in Hello.
    pub fn hello(&self) -> &HelloReply {
        &self.hello
    }

    /// The socket's path, for messages.
    pub fn socket_name(&self) -> &str {
        &self.name
    }

    /// Largest payload of one request, bytes.
    pub fn payload_max(&self) -> usize {
        self.hello.payload_max as usize
    }

    pub(super) fn peer(&self, problem: impl ToString) -> ClientError {
        ClientError::Peer { socket: self.name.clone(), problem: problem.to_string() }
    }

    pub(super) fn body<T: serde::Serialize>(&self, value: &T) -> Result<Outgoing, ClientError> {
        encode_body(value).map(Outgoing::Body).map_err(|e| self.peer(e))
    }

    /// An unused fid. Give it back with [`Client::free_fid`] once a Close or Clunk of it is posted.
    pub fn new_fid(&mut self) -> u32 {
        self.free_fids.pop().unwrap_or_else(|| {
            let fid = self.next_fid;
            self.next_fid = fid.wrapping_add(1).max(1);
            fid
        })
    }

    /// Makes a fid available again: requests run in order, so it may be bound anew at once.
    pub fn free_fid(&mut self, fid: u32) {
        self.free_fids.push(fid);
    }

    /// Requests that are not answered.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// True when [`Client::post`] would not wait. Callers that post without end take completions
    /// whenever this is false, so that replies do not pile up here.
    pub fn has_room(&self) -> bool {
        self.flight.len() < self.hello.in_flight_max as usize && self.expected < REPLY_BYTES
    }

    /// Queues a request and returns its cookie. Waits while the window is full; replies that come
    /// meanwhile are kept for [`Client::complete`].
    ///
    /// # Errors
    /// `Peer` when the server is gone or breaks the protocol.
    pub fn post(&mut self, request: Request, data: Outgoing) -> Result<u64, ClientError> {
        if !self.has_room() {
            self.flush()?;
        }
        while !self.has_room() {
            let reply = self.receive_one()?;
            self.done.push_back(reply);
        }
        self.next_cookie = self.next_cookie.wrapping_add(1).max(1);
        let cookie = self.next_cookie;
        let bytes = match request.op {
            op::READ => request.length,
            op::READDIR => request.length.saturating_mul(3),
            _ => 512,
        };
        self.flight.insert(cookie, bytes);
        self.expected = self.expected.saturating_add(bytes);
        self.queued = self.queued.saturating_add(match &data {
            Outgoing::Data(d) => d.len(),
            _ => 0,
        });
        self.queue.push((Request { cookie, ..request }, data));
        if self.queue.len() >= QUEUE_MAX || self.queued >= QUEUE_BYTES {
            self.flush()?;
        }
        Ok(cookie)
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        let queue = core::mem::take(&mut self.queue);
        self.queued = 0;
        if queue.is_empty() {
            return Ok(());
        }
        let mut gather = Gather::new(DIALECT);
        for (request, data) in &queue {
            match data {
                Outgoing::None => gather.message(request),
                Outgoing::Body(b) => gather.message_with_body(request, b),
                Outgoing::Data(d) => gather.message_with_payload(request, [&**d]),
            }
        }
        let mut sent = 0;
        loop {
            match send_now(&self.socket, &gather, sent) {
                Ok(Sent::All) => return Ok(()),
                Ok(Sent::Partly(n)) => sent = n,
                Err(e) => return Err(self.gone(e)),
            }
            if self.wait_to_send()? {
                let reply = self.receive_one()?;
                self.done.push_back(reply);
            }
        }
    }

    /// Waits until the socket takes or has something; true when it has.
    fn wait_to_send(&self) -> Result<bool, ClientError> {
        let wanted = PollFlags::IN | PollFlags::OUT;
        let mut fds = [PollFd::new(&self.socket, wanted)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(self.gone(e.into())),
        }
        Ok(fds.iter().any(|f| f.revents().contains(PollFlags::IN)))
    }

    /// The next reply, in whatever order they come; `None` when nothing is in flight.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn complete(&mut self) -> Result<Option<Completion>, ClientError> {
        // Sending may have to receive first, so what is kept is looked at afterwards.
        self.flush()?;
        if let Some(done) = self.done.pop_front() {
            return Ok(Some(done));
        }
        if self.flight.is_empty() { Ok(None) } else { self.receive_one().map(Some) }
    }

    /// Posts a request and waits for its reply; others are kept.
    pub(super) fn wait_for(
        &mut self,
        request: Request,
        data: Outgoing,
    ) -> Result<Completion, ClientError> {
        let cookie = self.post(request, data)?;
        self.flush()?;
        let kept = self.done.iter().position(|d| d.cookie == cookie);
        if let Some(done) = kept.and_then(|at| self.done.remove(at)) {
            return Ok(done);
        }
        loop {
            let reply = self.receive_one()?;
            if reply.cookie == cookie {
                return Ok(reply);
            }
            self.done.push_back(reply);
        }
    }

    /// Receives one reply from the socket.
    fn receive_one(&mut self) -> Result<Completion, ClientError> {
        let reply = match self.receiver.event(&self.socket) {
            Ok(Some(Event::Header(reply))) => reply,
            Ok(Some(_)) => return Err(self.peer("the server's reply is out of order")),
            Ok(None) => return Err(self.gone(io::ErrorKind::UnexpectedEof.into())),
            Err(e) => return Err(self.broken(e)),
        };
        let Some(bytes) = self.flight.remove(&reply.cookie) else {
            return Err(self.peer("the server answers what was not asked"));
        };
        self.expected = self.expected.saturating_sub(bytes);
        let mut done = Completion {
            cookie: reply.cookie,
            op: reply.op,
            status: Status(reply.status),
            value: reply.value,
            body: Vec::new(),
            data: PageBuf::default(),
        };
        if reply.inline_len > 0 {
            match self.receiver.event(&self.socket) {
                Ok(Some(Event::Body(body))) => done.body = body,
                Ok(Some(Event::Payload { len })) => {
                    done.data = PageBuf::zeroed(len);
                    let into = &mut [&mut *done.data];
                    self.receiver.payload(&self.socket, into).map_err(|e| self.broken(e))?;
                }
                Ok(_) => return Err(self.peer("the server's reply is out of order")),
                Err(e) => return Err(self.broken(e)),
            }
        }
        Ok(done)
    }

    fn broken(&self, e: RecvError) -> ClientError {
        match e {
            RecvError::Io(e) => self.gone(e),
            RecvError::Truncated => self.gone(io::ErrorKind::UnexpectedEof.into()),
            RecvError::Protocol(e) => self.peer(e),
        }
    }

    fn gone(&self, e: io::Error) -> ClientError {
        if self.hello.version == 0 {
            return self.peer(std::format!(
                "the filesystem server closed the connection at once ({e}): it has as many \
                 sessions as it may (`--max-sessions`), or is ending"
            ));
        }
        self.peer(std::format!(
            "the filesystem server is gone ({e}); what was under way may or may not have happened"
        ))
    }
}
