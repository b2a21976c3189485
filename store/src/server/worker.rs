//! One session's thread.

use super::batch::{Inbox, Item};
use super::link::Link;
use super::run::Hub;
use crate::backend::{BackendOp, Submission};
use crate::block_on::block_on;
use crate::session::{CloseReason, Effect, Job, JobKind, SessionId, Step};
use core::ops::Range;
use seawall_blockdev::{DevError, PageBuf};
use seawall_ipc::conn::RecvError;
use seawall_ipc::storeproto::{DIALECT, op};
use seawall_ipc::{Gather, Reply};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::vec::Vec;

/// Why a session ended.
enum End {
    Eof,
    Closed(CloseReason),
    Gone,
    Receive(RecvError),
    Send(std::io::Error),
}

/// A job and its place in the arena.
struct Placed {
    job: Job,
    place: Range<usize>,
}

/// A batch on its way to the backend.
#[derive(Default)]
struct Admitted {
    placed: Vec<Placed>,
    /// Replies that go out behind all others: of canceled jobs, each followed by its CANCEL's.
    late: Vec<Reply>,
    closing: Option<CloseReason>,
}

/// Serves one session until it ends, then waits until everything it asked for is answered.
pub(super) fn session(hub: &Arc<Hub>, link: &Arc<Link>, id: SessionId) {
    let end = serve(hub, link, id);
    match &end {
        End::Eof => tracing::info!(session = id, "session closed by the client"),
        End::Closed(CloseReason::Bye) => tracing::info!(session = id, "session ended"),
        End::Closed(reason) => {
            tracing::warn!(session = id, reason = reason.text(), "session closed");
        }
        End::Gone => tracing::warn!(session = id, "session closed: the backend is gone"),
        End::Receive(error) => tracing::warn!(session = id, %error, "session closed"),
        End::Send(error) => tracing::info!(session = id, %error, "client is gone"),
    }
    if matches!(end, End::Eof | End::Closed(CloseReason::Bye)) {
        link.wait_until(|| hub.core().in_flight(id) == 0);
        // What the flush thread queued may still wait for the socket.
        let _client_may_be_gone = link.send(Gather::new(DIALECT));
    }
}

fn serve(hub: &Arc<Hub>, link: &Arc<Link>, id: SessionId) -> End {
    let limits = *hub.core().limits();
    let mut inbox = Inbox::new(limits.payload_max);
    let mut items = Vec::new();
    loop {
        let mut credit = 0;
        link.wait_until(|| {
            credit = limits.in_flight_max.saturating_sub(hub.core().in_flight(id));
            credit > 0
        });
        items.clear();
        match inbox.receive(link.socket(), credit as usize, &mut items) {
            Ok(true) => {}
            Ok(false) => return End::Eof,
            Err(error) => return End::Receive(error),
        }
        if items.is_empty() {
            // The arena could not grow: the request cannot be taken.
            return End::Receive(RecvError::Truncated);
        }
        if let Err(end) = execute(hub, link, id, &mut items, inbox.arena()) {
            return end;
        }
    }
}

/// Executes one batch and answers it in one send.
fn execute(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    id: SessionId,
    items: &mut Vec<Item>,
    arena: &mut PageBuf,
) -> Result<(), End> {
    let mut effects = Vec::new();
    let Admitted { placed, late, closing } = admit(hub, id, items, &mut effects);
    // A SYNC among these must not wait for the batch: its flush may start now.
    let mut own = hub.spread(id, &mut effects);
    if hub.backend().is_paced() && late.is_empty() && !placed.is_empty() {
        answer(link, &own, &[])?;
        let gone = run_paced(hub, link, id, &placed, arena)?;
        return match closing {
            _ if gone => Err(End::Gone),
            Some(reason) => Err(End::Closed(reason)),
            None => Ok(()),
        };
    }
    let results = run_jobs(hub, &placed, arena);
    let mut replies = Vec::with_capacity(placed.len());
    if !placed.is_empty() {
        let mut core = hub.core();
        for (p, result) in placed.iter().zip(&results) {
            let reply = core.job_done(&p.job, *result, &mut effects);
            let payload = match (p.job.kind, result) {
                (JobKind::Read, Ok(())) => p.place.clone(),
                _ => 0..0,
            };
            replies.push((reply, payload));
        }
    }
    own.extend(hub.spread(id, &mut effects));
    let mut gather = Gather::new(DIALECT);
    if !late.is_empty() {
        // The reply to a CANCEL comes after its target's, which another thread may have.
        hub.settle();
        link.send(Gather::new(DIALECT)).map_err(End::Send)?;
    }
    for o in &own {
        match &o.fd {
            Some(fd) => link.send_fd(&o.reply, fd.as_fd()).map_err(End::Send)?,
            None => gather.message_with_body(&o.reply, &o.body),
        }
    }
    for (reply, place) in &replies {
        let bytes = arena.get(place.clone()).unwrap_or_default();
        gather.message_with_payload(reply, [bytes]);
    }
    late.iter().for_each(|reply| gather.message(reply));
    link.send(gather).map_err(End::Send)?;
    if results.contains(&Err(DevError::Gone)) {
        return Err(End::Gone);
    }
    closing.map_or(Ok(()), |reason| Err(End::Closed(reason)))
}

fn admit(hub: &Hub, id: SessionId, items: &mut Vec<Item>, effects: &mut Vec<Effect>) -> Admitted {
    let mut batch = Admitted::default();
    batch.placed.reserve(items.len());
    items.iter().filter(|i| i.request.op == op::HELLO).for_each(|i| hub.bury(id, &i.body));
    let mut core = hub.core();
    for item in items.drain(..) {
        match core.request(id, &item.request, &item.body, effects) {
            Step::Done => {}
            Step::Io(job) => batch.placed.push(Placed { job, place: item.place }),
            Step::Cancel(cancel) => {
                let queued = batch.placed.iter().position(|p| p.job.cookie == cancel.target);
                if let Some(at) = queued {
                    let job = batch.placed.remove(at).job;
                    batch.late.push(core.job_canceled(&job, effects));
                }
                batch.late.push(core.cancel_done(cancel, queued.is_some()));
            }
            Step::Close(reason) => {
                batch.closing = Some(reason);
                break;
            }
        }
    }
    batch
}

/// Hands the jobs to the backend as one batch, each with its slice of the arena.
fn run_jobs(hub: &Hub, placed: &[Placed], arena: &mut PageBuf) -> Vec<Result<(), DevError>> {
    if placed.is_empty() {
        return Vec::new();
    }
    let mut batch = submissions(placed, arena);
    block_on(hub.backend().submit(&mut batch));
    batch.iter().map(|s| s.result).collect()
}

/// The same on a backend that takes its time for each: each is answered when it is over. True when
/// the backend is gone.
fn run_paced(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    id: SessionId,
    placed: &[Placed],
    arena: &mut PageBuf,
) -> Result<bool, End> {
    let mut batch = submissions(placed, arena);
    let (mut gone, mut sent) = (false, Ok(()));
    let mut done = |i: usize, s: &Submission<'_>| {
        let Some(p) = placed.get(i) else { return };
        let mut effects = Vec::new();
        let reply = hub.core().job_done(&p.job, s.result, &mut effects);
        let own = hub.spread(id, &mut effects);
        let payload: &[u8] = match (&s.op, s.result) {
            (BackendOp::Read { buf, .. }, Ok(())) => buf,
            _ => &[],
        };
        gone |= s.result == Err(DevError::Gone);
        if sent.is_ok() {
            sent = answer(link, &own, &[(reply, payload)]);
        }
    };
    block_on(hub.backend().submit_each(&mut batch, &mut done));
    sent.map(|()| gone)
}

/// Sends replies of the session's own, then those of jobs with what they read.
fn answer(link: &Arc<Link>, own: &[OwnReply], jobs: &[(Reply, &[u8])]) -> Result<(), End> {
    let mut gather = Gather::new(DIALECT);
    for o in own {
        match &o.fd {
            Some(fd) => link.send_fd(&o.reply, fd.as_fd()).map_err(End::Send)?,
            None => gather.message_with_body(&o.reply, &o.body),
        }
    }
    for (reply, payload) in jobs {
        gather.message_with_payload(reply, [*payload]);
    }
    link.send(gather).map_err(End::Send)
}

fn submissions<'a>(placed: &[Placed], arena: &'a mut PageBuf) -> Vec<Submission<'a>> {
    let mut batch = Vec::with_capacity(placed.len());
    let mut rest: &mut [u8] = arena;
    let mut at = 0usize;
    for p in placed {
        let run = p.job.run;
        let mut slice: &mut [u8] = &mut [];
        if !p.place.is_empty() {
            // Places ascend, so each is cut off the front of what is left.
            let (_, tail) = rest.split_at_mut(p.place.start.saturating_sub(at).min(rest.len()));
            let (front, tail) = tail.split_at_mut(p.place.len().min(tail.len()));
            (slice, rest) = (front, tail);
            at = p.place.end;
        }
        let op = match p.job.kind {
            JobKind::Read => BackendOp::Read { start: run.start, buf: slice },
            JobKind::Write { fua } => BackendOp::Write { start: run.start, buf: slice, fua },
            JobKind::Zero { keep } => BackendOp::Zero { run, keep },
            JobKind::Discard => BackendOp::Discard { run },
        };
        batch.push(Submission::new(op));
    }
    batch
}

/// A reply with a control body or a descriptor, for this session.
pub(super) struct OwnReply {
    pub(super) reply: Reply,
    pub(super) body: Vec<u8>,
    pub(super) fd: Option<OwnedFd>,
}
