//! The store's session core: a state machine without I/O.
//!
//! A host decodes requests, hands them to [`Core::request`], executes the [`Job`]s it gets back
//! with its backend, reports them with [`Core::job_done`], runs a flush when told to and reports it
//! with [`Core::flush_done`], and sends the replies that come out. What a SYNC means is decided
//! here and in [`crate::ledger`], once for every transport:
//!
//! * A SYNC that was dequeued at time t is answered Ok only by a flush that *started* after t, or
//!   when everything acknowledged is durable already. SYNCs that wait share one flush.
//! * SYNC with DRAIN first waits for every earlier write of its session and fails with the first
//!   error among them that the client has not seen, so a client may send writes and the SYNC
//!   without waiting. Without this a write that failed behind the client's back would be followed
//!   by an Ok.
//! * A failed flush is sticky (see the ledger).
//! * A store, or a part of it, has one exclusive writer or any number of others (see `writer`).
//!
//! Bounds: sessions, requests in flight per session, tags and remembered errors are all capped.

mod control;
mod drain;
mod job;
mod member;
mod writer;

pub use control::Cancel;
pub(crate) use control::lost_of;
pub use job::{CloseReason, Effect, Job, JobKind, Step};
pub use member::CoreLimits;

use crate::ledger::{Ledger, Started, Want};
use crate::stats::{Count, Tallies};
use crate::wire;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use drain::PendingSync;
use member::Member;
use seawall_blockdev::{Caps, DevError, Run, SeqState, Tag};
use seawall_ipc::storeproto::{Info, SessionStats, Stats, op, rights};
use seawall_ipc::{Reply, Request, Status, encode_body, flags};

/// Names one session of a server.
pub type SessionId = u64;

/// All sessions of one store.
#[derive(Debug)]
pub struct Core {
    name: String,
    caps: Caps,
    limits: CoreLimits,
    boot_id: [u8; 16],
    ledger: Ledger,
    tallies: Tallies,
    members: BTreeMap<SessionId, Member>,
    next_session: SessionId,
    /// Exclusive writers so far.
    generation: u64,
    /// SYNCs the running flush will answer.
    riding: Vec<PendingSync>,
    /// SYNCs that came after it started.
    waiting: Vec<PendingSync>,
    /// CANCELs of SYNCs that ride.
    cancels: Vec<Cancel>,
}

impl Core {
    /// A core over a device of these capabilities that was flushed when it was opened. `boot_id` is
    /// new for every start of a server.
    pub fn new(name: String, caps: Caps, boot_id: [u8; 16], limits: CoreLimits) -> Self {
        Self {
            name,
            caps,
            limits,
            boot_id,
            ledger: Ledger::new(caps.cache),
            tallies: Tallies::default(),
            members: BTreeMap::new(),
            next_session: 1,
            generation: 0,
            riding: Vec::new(),
            waiting: Vec::new(),
            cancels: Vec::new(),
        }
    }

    /// Capabilities of the device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Limits of every session.
    pub fn limits(&self) -> &CoreLimits {
        &self.limits
    }

    /// Where the store stands.
    pub fn seqs(&self) -> SeqState {
        self.ledger.seqs()
    }

    /// The account of sequences.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Opens a session of the whole store with all rights, or `None` when there are too many.
    pub fn open_session(&mut self) -> Option<SessionId> {
        self.add_session(Run::new(0, self.caps.size), rights::ALL, Vec::new())
    }

    fn add_session(
        &mut self,
        window: Run,
        rights: u32,
        ancestors: Vec<SessionId>,
    ) -> Option<SessionId> {
        if self.members.len() >= self.limits.sessions_max as usize {
            return None;
        }
        let id = self.next_session;
        self.next_session = self.next_session.saturating_add(1);
        self.members.insert(id, Member::new(window, rights, ancestors));
        Some(id)
    }

    /// Forgets a session. Jobs that were handed out may still be reported; their writes keep their
    /// sequences. Its SYNCs are answered to nobody.
    pub fn close_session(&mut self, id: SessionId) {
        self.members.remove(&id);
        self.cancels.retain(|cancel| cancel.id != id);
    }

    /// Requests of a session that are not answered yet.
    pub fn in_flight(&self, id: SessionId) -> u32 {
        self.members.get(&id).map_or(0, |m| m.in_flight)
    }

    /// One request, in the order of arrival. `body` is its control body, empty if it has none; a
    /// payload stays with the host, which has checked that its length is the record's.
    pub fn request(
        &mut self,
        id: SessionId,
        request: &Request,
        body: &[u8],
        out: &mut Vec<Effect>,
    ) -> Step {
        let Some(member) = self.members.get_mut(&id) else {
            return Step::Close(CloseReason::NoSession);
        };
        if member.in_flight >= self.limits.in_flight_max {
            return Step::Close(CloseReason::Credit);
        }
        if !member.greeted && request.op != op::HELLO {
            return self.refuse(id, request, Status::EPROTO, out);
        }
        match request.op {
            op::HELLO => self.hello(id, request, body, out),
            op::INFO => self.reply_body(id, request, &self.info_of(id), out),
            op::STATS if !member.may(rights::STATS) => self.refuse(id, request, Status::EPERM, out),
            op::STATS => self.reply_body(id, request, &self.stats(), out),
            op::READ | op::WRITE | op::WRITE_ZEROES | op::DISCARD => self.io(id, request, out),
            op::SYNC => self.sync(id, request, out),
            op::OPEN_RANGE => self.open_range(id, request, body, out),
            op::CANCEL => self.cancel(id, request, out),
            op::CLEAR_FAULT => self.clear_fault(id, request, out),
            op::BYE => {
                out.push(Effect::reply(id, answer(request, Status::OK, 0)));
                Step::Close(CloseReason::Bye)
            }
            _ => self.refuse(id, request, Status::EOPNOTSUPP, out),
        }
    }

    fn refuse(
        &mut self,
        id: SessionId,
        request: &Request,
        status: Status,
        out: &mut Vec<Effect>,
    ) -> Step {
        self.count(id, Tag(request.tag), Count::Error);
        out.push(Effect::reply(id, answer(request, status, 0)));
        Step::Done
    }

    fn count(&mut self, id: SessionId, tag: Tag, what: Count) {
        self.tallies.add(tag, what);
        if let Some(member) = self.members.get_mut(&id) {
            member.tally.add(what);
        }
    }

    fn reply_body<T: serde::Serialize>(
        &self,
        id: SessionId,
        request: &Request,
        value: &T,
        out: &mut Vec<Effect>,
    ) -> Step {
        self.reply_with_body(id, request, answer(request, Status::OK, 0), value, out)
    }

    fn reply_with_body<T: serde::Serialize>(
        &self,
        id: SessionId,
        request: &Request,
        reply: Reply,
        value: &T,
        out: &mut Vec<Effect>,
    ) -> Step {
        match encode_body(value) {
            Ok(body) => out.push(Effect::Reply { id, reply, body }),
            Err(_) => out.push(Effect::reply(id, answer(request, Status::EOVERFLOW, 0))),
        }
        Step::Done
    }

    /// What INFO answers to a session: its window, and whether it was given the right to write.
    fn info_of(&self, id: SessionId) -> Info {
        let whole = self.info();
        let Some(member) = self.members.get(&id) else { return whole };
        let read_only = whole.read_only || !member.was_given(rights::WRITE);
        Info { size: member.window.len, read_only, ..whole }
    }

    /// What INFO answers to a session of the whole store.
    pub fn info(&self) -> Info {
        let seqs = self.ledger.seqs();
        Info {
            name: self.name.clone(),
            size: self.caps.size,
            logical: self.caps.logical,
            physical: self.caps.physical,
            atomic_write: self.caps.atomic_write,
            max_io: self.caps.max_io.min(self.limits.payload_max),
            cache: wire::cache_to_wire(self.caps.cache),
            fua: self.caps.fua,
            order: self.caps.order,
            acked_survives_server_death: self.caps.acked_survives_server_death,
            read_only: self.caps.read_only,
            acked: seqs.acked.0,
            durable: seqs.durable.0,
            faulted: self.ledger.is_faulted(),
        }
    }

    /// What STATS answers.
    pub fn stats(&self) -> Stats {
        let sessions = self.members.iter().map(|(id, member)| SessionStats {
            session_id: *id,
            client: member.client.clone(),
            in_flight: member.in_flight,
            counters: member.tally.to_wire(),
        });
        Stats { sessions: sessions.collect(), ..self.tallies.to_wire() }
    }

    fn io(&mut self, id: SessionId, request: &Request, out: &mut Vec<Effect>) -> Step {
        let run = Run::new(request.offset, request.length);
        let kind = match request.op {
            op::READ => JobKind::Read,
            op::WRITE => JobKind::Write { fua: request.flags & flags::FUA != 0 },
            op::WRITE_ZEROES => JobKind::Zero { keep: request.flags & flags::NO_HOLE != 0 },
            _ => JobKind::Discard,
        };
        let (run, started) = match self.admit(id, request, kind, run) {
            Ok(admitted) => admitted,
            Err(error) => {
                if let Some(member) = self.members.get_mut(&id) {
                    let index = member.begin(kind.is_write());
                    member.end(index, kind.is_write(), Err(error));
                }
                return self.refuse(id, request, wire::status_of(error), out);
            }
        };
        let index = self.members.get_mut(&id).map_or(0, |m| m.begin(kind.is_write()));
        Step::Io(Job {
            id,
            index,
            op: request.op,
            cookie: request.cookie,
            kind,
            run,
            tag: Tag(request.tag),
            started,
        })
    }

    /// The run on the device.
    fn admit(
        &self,
        id: SessionId,
        request: &Request,
        kind: JobKind,
        run: Run,
    ) -> Result<(Run, Started), DevError> {
        let member = self.members.get(&id).ok_or(DevError::Stale)?;
        let run = control::place(&self.caps, member.window, run)?;
        let fua = request.flags & flags::FUA != 0;
        let sync = if fua { rights::SYNC } else { 0 };
        if !member.may(kind.right() | sync) {
            return Err(DevError::Denied);
        }
        let by_payload = matches!(kind, JobKind::Read | JobKind::Write { .. });
        if by_payload && run.len > u64::from(self.limits.payload_max) {
            return Err(DevError::OutOfRange);
        }
        if request.op == op::WRITE && u64::from(request.inline_len) != run.len
            || request.region != 0
        {
            return Err(DevError::OutOfRange);
        }
        if kind.is_write() && self.caps.read_only {
            return Err(DevError::ReadOnly);
        }
        let order = request.flags & flags::PRE_BARRIER != 0;
        if (fua && !(self.caps.fua && request.op == op::WRITE)) || (order && !self.caps.order) {
            return Err(DevError::Unsupported);
        }
        Ok((run, self.ledger.start(fua)?))
    }

    /// A job ended. Returns its reply, whose payload (for a read that succeeded) the host attaches;
    /// SYNCs that waited for it go to `out`.
    pub fn job_done(
        &mut self,
        job: &Job,
        result: Result<(), DevError>,
        out: &mut Vec<Effect>,
    ) -> Reply {
        let is_write = job.kind.is_write();
        let value = match result {
            Ok(()) if is_write => self.ledger.ack(job.run, job.started, job.kind.is_fua()).0,
            Ok(()) => job.run.len,
            Err(_) => 0,
        };
        self.count(job.id, job.tag, job.count(result));
        if let Some(member) = self.members.get_mut(&job.id) {
            member.end(job.index, is_write, result);
        }
        self.drain(job.id, out);
        let status = wire::status_of_result(&result);
        Reply { op: job.op, cookie: job.cookie, status: status.0, value, ..Reply::default() }
    }

    /// Goes on with SYNCs that waited for a request that ended.
    fn drain(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        let drained = self.members.get_mut(&id).map(Member::drained).unwrap_or_default();
        for (sync, error) in drained {
            match error {
                None => self.want_flush(sync, out),
                Some(status) => self.answer_sync(sync, Err(status), out),
            }
        }
    }

    fn sync(&mut self, id: SessionId, request: &Request, out: &mut Vec<Effect>) -> Step {
        let tag = Tag(request.tag);
        self.count(id, tag, Count::Sync);
        let Some(member) = self.members.get_mut(&id) else {
            return Step::Close(CloseReason::NoSession);
        };
        if !member.may(rights::SYNC) {
            return self.refuse(id, request, Status::EPERM, out);
        }
        let index = member.begin(false);
        let drain = request.flags & flags::DRAIN != 0;
        let sync = PendingSync { id, index, cookie: request.cookie, tag, seen: request.aux };
        let ready = if drain { member.drain(sync) } else { Some((sync, None)) };
        match ready {
            None => {}
            Some((sync, None)) => self.want_flush(sync, out),
            Some((sync, Some(status))) => self.answer_sync(sync, Err(status), out),
        }
        Step::Done
    }

    fn want_flush(&mut self, sync: PendingSync, out: &mut Vec<Effect>) {
        self.queue_sync(sync, out);
        self.start_flush(out);
    }

    /// Answers a SYNC that needs no flush, else lets it wait for one.
    fn queue_sync(&mut self, sync: PendingSync, out: &mut Vec<Effect>) {
        match self.ledger.want_sync() {
            Want::Fail(error) => self.answer_sync(sync, Err(wire::status_of(error)), out),
            Want::Already(seq) => {
                if self.caps.cache == seawall_blockdev::CacheClass::Flushable {
                    self.count(sync.id, sync.tag, Count::Skipped);
                }
                self.answer_sync(sync, Ok(seq.0), out);
            }
            Want::Flush => self.waiting.push(sync),
        }
    }

    /// Starts a flush for everybody who waits, unless one runs.
    fn start_flush(&mut self, out: &mut Vec<Effect>) {
        if self.waiting.is_empty() || self.ledger.is_flushing() {
            return;
        }
        self.ledger.flush_started();
        self.riding = core::mem::take(&mut self.waiting);
        let riding = core::mem::take(&mut self.riding);
        for (i, sync) in riding.iter().enumerate() {
            self.count(sync.id, sync.tag, if i == 0 { Count::Flush } else { Count::Rider });
        }
        self.riding = riding;
        out.push(Effect::Flush);
    }

    /// The flush that [`Effect::Flush`] asked for ended.
    pub fn flush_done(&mut self, result: Result<(), DevError>, out: &mut Vec<Effect>) {
        let result = self.ledger.flush_done(result);
        if result.is_err() {
            self.tallies.add_flush_error();
        }
        let answer = result.map(|seq| seq.0).map_err(wire::status_of);
        for sync in core::mem::take(&mut self.riding) {
            self.answer_sync(sync, answer, out);
        }
        // Those that came during the flush share the next, or meet the fault this one left.
        for sync in core::mem::take(&mut self.waiting) {
            self.queue_sync(sync, out);
        }
        self.start_flush(out);
    }

    /// What the last flush of a server's life has to do; on [`Want::Flush`] the host runs it and
    /// reports it with [`Core::flush_done`]. Only valid while no flush runs.
    pub fn begin_final_flush(&mut self) -> Want {
        let want = self.ledger.want_sync();
        if want == Want::Flush {
            self.ledger.flush_started();
        }
        want
    }

    fn answer_sync(
        &mut self,
        sync: PendingSync,
        result: Result<u64, Status>,
        out: &mut Vec<Effect>,
    ) {
        if result.is_err() {
            self.count(sync.id, sync.tag, Count::Error);
        }
        let Some(member) = self.members.get_mut(&sync.id) else { return };
        member.end(sync.index, false, Ok(()));
        let status = result.err().unwrap_or(Status::OK);
        let value = result.unwrap_or(self.ledger.seqs().durable.0);
        let reply = Reply {
            op: op::SYNC,
            cookie: sync.cookie,
            status: status.0,
            value,
            ..Reply::default()
        };
        out.push(Effect::reply(sync.id, reply));
        self.answer_cancels(sync.id, sync.cookie, out);
    }
}

fn answer(request: &Request, status: Status, value: u64) -> Reply {
    Reply { op: request.op, cookie: request.cookie, status: status.0, value, ..Reply::default() }
}

/// Checks a run against a device: whole blocks, inside, not empty.
///
/// # Errors
/// [`DevError::OutOfRange`].
pub fn check_run(caps: &Caps, run: Run) -> Result<(), DevError> {
    let block = u64::from(caps.logical.max(1));
    let inside = run.end().is_some_and(|end| end <= caps.size);
    let whole = run.start.is_multiple_of(block) && run.len.is_multiple_of(block);
    if inside && whole && run.len > 0 { Ok(()) } else { Err(DevError::OutOfRange) }
}
