//! CANCEL, CLEAR_FAULT and OPEN_RANGE.
//!
//! * CANCEL drops queued work only: a SYNC that no flush was started for, or a job its host has not
//!   started. Its reply comes after the target's, so that the client may use cookie and buffer
//!   again when it reads it.
//! * CLEAR_FAULT ends a sticky fault without the lost bytes having been written again. That is a
//!   decision to lose data, so it takes the ADMIN right on the whole store and the flag
//!   ACCEPT_LOSS, and says what was lost.
//! * OPEN_RANGE mints a session that sees part of the store, or may do less with it. It never
//!   grants what the minting session does not have.

use super::member::Member;
use super::{Core, Effect, Job, SessionId, Step, answer, check_run};
use crate::ranges::RangeSet;
use crate::stats::Count;
use crate::wire;
use alloc::vec::Vec;
use seawall_blockdev::{Caps, DevError, Run, SeqState, Tag};
use seawall_ipc::storeproto::{Lost, OpenRange, rights};
use seawall_ipc::{Reply, Request, Status, decode_body, flags};

/// A CANCEL that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// Session it belongs to.
    pub id: SessionId,
    /// Cookie of the request to drop.
    pub target: u64,
    index: u64,
    reply: Reply,
}

/// The account of a loss, as it goes over the wire.
pub(crate) fn lost_of(seqs: SeqState, runs: &RangeSet) -> Lost {
    let named = runs.iter().take(Lost::RUNS_MAX).map(|run| (run.start, run.len)).collect();
    Lost {
        after: seqs.durable.0,
        through: seqs.acked.0,
        bytes: runs.bytes(),
        runs: named,
        more: runs.len() > Lost::RUNS_MAX,
    }
}

impl Core {
    pub(super) fn cancel(
        &mut self,
        id: SessionId,
        request: &Request,
        out: &mut Vec<Effect>,
    ) -> Step {
        let target = request.offset;
        let Some(member) = self.members.get_mut(&id) else { return Step::Done };
        let index = member.begin(false);
        let cancel = Cancel { id, target, index, reply: answer(request, Status::OK, 0) };
        let queued = member.cancel_drain(target).or_else(|| {
            let mine = |s: &super::PendingSync| s.id == id && s.cookie == target;
            let at = self.waiting.iter().position(mine)?;
            Some(self.waiting.remove(at))
        });
        if let Some(sync) = queued {
            self.answer_sync(sync, Err(Status::ECANCELED), out);
            let reply = self.cancel_done(cancel, true);
            out.push(Effect::reply(id, reply));
            return Step::Done;
        }
        if self.riding.iter().any(|s| s.id == id && s.cookie == target) {
            self.cancels.push(cancel);
            return Step::Done;
        }
        Step::Cancel(cancel)
    }

    /// A job that its host had not started was dropped. Returns its reply, for which
    /// [`Core::cancel_done`] has the one that must follow. To a DRAIN it is a failed request.
    pub fn job_canceled(&mut self, job: &Job, out: &mut Vec<Effect>) -> Reply {
        self.count(job.id, job.tag, Count::Error);
        if let Some(member) = self.members.get_mut(&job.id) {
            let error = job.kind.is_write().then_some(Status::ECANCELED);
            member.end_with(job.index, job.kind.is_write(), error);
        }
        self.drain(job.id, out);
        let status = Status::ECANCELED.0;
        Reply { op: job.op, cookie: job.cookie, status, ..Reply::default() }
    }

    /// The reply to a CANCEL: its target was dropped, or was answered before.
    pub fn cancel_done(&mut self, cancel: Cancel, dropped: bool) -> Reply {
        if let Some(member) = self.members.get_mut(&cancel.id) {
            member.end_with(cancel.index, false, None);
        }
        Reply { value: u64::from(dropped), ..cancel.reply }
    }

    /// Answers the CANCELs that waited for a SYNC under way.
    pub(super) fn answer_cancels(&mut self, id: SessionId, target: u64, out: &mut Vec<Effect>) {
        while let Some(at) = self.cancels.iter().position(|c| c.id == id && c.target == target) {
            let cancel = self.cancels.remove(at);
            let reply = self.cancel_done(cancel, false);
            out.push(Effect::reply(id, reply));
        }
    }

    pub(super) fn clear_fault(
        &mut self,
        id: SessionId,
        request: &Request,
        out: &mut Vec<Effect>,
    ) -> Step {
        let whole = Run::new(0, self.caps.size);
        let admin = |m: &Member| m.may(rights::ADMIN) && m.window == whole;
        if !self.members.get(&id).is_some_and(admin) {
            return self.refuse(id, request, Status::EPERM, out);
        }
        if request.flags & flags::ACCEPT_LOSS == 0 {
            return self.refuse(id, request, Status::EINVAL, out);
        }
        let seqs = self.ledger.seqs();
        let lost = lost_of(seqs, &self.ledger.clear_fault());
        let reply = answer(request, Status::OK, lost.bytes);
        let step = self.reply_with_body(id, request, reply, &lost, out);
        out.push(Effect::LossAccepted { id, lost });
        step
    }

    pub(super) fn open_range(
        &mut self,
        id: SessionId,
        request: &Request,
        body: &[u8],
        out: &mut Vec<Effect>,
    ) -> Step {
        match self.mint(id, body) {
            Ok(minted) => {
                let reply = answer(request, Status::OK, minted);
                out.push(Effect::Mint { id, minted, reply });
                Step::Done
            }
            Err(status) => self.refuse(id, request, status, out),
        }
    }

    fn mint(&mut self, id: SessionId, body: &[u8]) -> Result<SessionId, Status> {
        let asked = decode_body::<OpenRange>(body).map_err(|_| Status::EINVAL)?;
        let member = self.members.get(&id).ok_or(Status::ESTALE)?;
        if asked.generation != 0 {
            return Err(Status::EOPNOTSUPP);
        }
        if asked.rights & !rights::ALL != 0 || !member.may(asked.rights) {
            return Err(Status::EPERM);
        }
        let window = member.window;
        let window = place(&self.caps, window, Run::new(asked.offset, asked.length))
            .map_err(wire::status_of)?;
        // Those that are gone are left out, so this is no longer than the list of sessions.
        let mut ancestors = member.ancestors.clone();
        ancestors.retain(|ancestor| self.members.contains_key(ancestor));
        ancestors.push(id);
        self.add_session(window, asked.rights, ancestors).ok_or(Status::ENOMEM)
    }

    /// The host could not make the socket of a minted session: it is forgotten, and this is the
    /// reply.
    pub fn mint_failed(&mut self, id: SessionId, minted: SessionId, reply: Reply) -> Reply {
        self.close_session(minted);
        self.count(id, Tag(0), Count::Error);
        Reply { status: Status::ENOMEM.0, value: 0, flags: 0, ..reply }
    }
}

/// A run of a session's window as a run of the device.
///
/// # Errors
/// [`DevError::OutOfRange`].
pub(super) fn place(caps: &Caps, window: Run, run: Run) -> Result<Run, DevError> {
    check_run(&Caps { size: window.len, ..*caps }, run)?;
    let start = window.start.checked_add(run.start).ok_or(DevError::OutOfRange)?;
    Ok(Run::new(start, run.len))
}
