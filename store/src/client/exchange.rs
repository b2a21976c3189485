//! Sending a call's requests and collecting its replies.

use super::Client;
use super::shared::{Call, Letter, Shared};
use crate::plan::Plan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seawall_blockdev::{DevError, PageBuf};
use seawall_ipc::conn::{Receiver, RecvError, send};
use seawall_ipc::storeproto::{DIALECT, op};
use seawall_ipc::{Event, Gather, Reply, Request, Status};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::vec::Vec;

/// The data of a call.
pub(super) enum Data<'d, 'b> {
    Nothing,
    /// One request with a control body; its reply's body.
    Control {
        body: &'d [u8],
        answer: &'d mut Vec<u8>,
        /// Descriptors that came with the reply.
        fds: &'d mut Vec<OwnedFd>,
    },
    /// Write payloads: one piece per request.
    Out(&'d Plan<&'b [u8]>),
    /// Read payloads: one piece per request.
    In(&'d mut Plan<&'b mut [u8]>),
}

/// Replies of one call.
struct Progress<'d, 'b> {
    call: Call,
    requests: &'d [Request],
    data: Data<'d, 'b>,
    replies: Vec<Option<Reply>>,
    sent: usize,
    done: usize,
}

impl Client {
    /// Sends all requests, as credit allows, and waits for all replies.
    pub(super) fn exchange(
        &self,
        requests: &[Request],
        data: Data<'_, '_>,
    ) -> Result<Vec<Reply>, DevError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.lock().begin(requests.len());
        let replies = std::vec![None; requests.len()];
        let mut progress = Progress { call, requests, data, replies, sent: 0, done: 0 };
        let result = self.run(&mut progress);
        self.lock().end(call);
        result?;
        progress.replies.into_iter().map(|reply| reply.ok_or(DevError::Protocol)).collect()
    }

    /// Why nothing can be asked of the server any more; `None` while the connection stands. Never
    /// waits.
    pub fn trouble(&self) -> Option<DevError> {
        if let Some(error) = self.lock().dead {
            return Some(error);
        }
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let ended = fds.iter().any(|f| f.revents().intersects(closed));
        (polled.is_ok() && ended).then_some(DevError::Gone)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, p: &mut Progress<'_, '_>) -> Result<(), DevError> {
        while p.done < p.requests.len() {
            let credit = self.take_credit(p.requests.len().saturating_sub(p.sent))?;
            if credit > 0 {
                self.send_some(p, credit)?;
            } else {
                self.wait(p)?;
            }
        }
        Ok(())
    }

    fn take_credit(&self, wanted: usize) -> Result<usize, DevError> {
        let mut shared = self.lock();
        if let Some(error) = shared.dead {
            return Err(error);
        }
        let n = shared.credit.min(u32::try_from(wanted).unwrap_or(u32::MAX));
        shared.credit = shared.credit.saturating_sub(n);
        Ok(n as usize)
    }

    fn send_some(&self, p: &mut Progress<'_, '_>, count: usize) -> Result<(), DevError> {
        let end = p.sent.saturating_add(count);
        let mut gather = Gather::new(DIALECT);
        for (i, request) in p.requests.iter().enumerate().take(end).skip(p.sent) {
            let request = Request { cookie: p.call.base.saturating_add(i as u64), ..*request };
            match &p.data {
                Data::Control { body, .. } => gather.message_with_body(&request, body),
                Data::Out(plan) => {
                    let bufs = plan.pieces.get(i).and_then(|piece| {
                        plan.segments.get(piece.first..piece.first.saturating_add(piece.count))
                    });
                    let bufs = bufs.unwrap_or_default().iter().copied();
                    gather.message_with_payload(&request, bufs);
                }
                Data::Nothing | Data::In(_) => gather.message(&request),
            }
        }
        p.sent = end;
        let guard = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send(&self.socket, &gather);
        drop(guard);
        sent.map_err(|e| self.die(DevError::Gone, &e))
    }

    /// Ends the connection for everybody and returns the error they all get.
    fn die(&self, error: DevError, why: &dyn core::fmt::Display) -> DevError {
        let mut shared = self.lock();
        let error = *shared.dead.get_or_insert_with(|| {
            tracing::info!(peer = %self.peer, reason = %why, "store connection ended");
            error
        });
        drop(shared);
        let _already_closed = self.socket.shutdown(Shutdown::Both);
        self.turn.notify_all();
        error
    }

    /// Waits until a reply of this call is there: by leading, or by mail from the leader.
    fn wait(&self, p: &mut Progress<'_, '_>) -> Result<(), DevError> {
        let before = p.done;
        let mut shared = self.lock();
        loop {
            p.take_mail(&mut shared).map_err(|()| DevError::Protocol)?;
            let may_send = p.sent < p.requests.len() && shared.credit > 0;
            if p.done > before || may_send {
                return Ok(());
            }
            if let Some(error) = shared.dead {
                return Err(error);
            }
            if !shared.leading {
                shared.leading = true;
                break;
            }
            shared = self.turn.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        drop(shared);
        let led = self.lead(p);
        let mut shared = self.lock();
        shared.leading = false;
        if shared.is_crowded() {
            self.turn.notify_all();
        }
        led
    }

    /// Receives until this call has a reply and nothing more of it is buffered, or until it has all
    /// it sent for.
    fn lead(&self, p: &mut Progress<'_, '_>) -> Result<(), DevError> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let before = p.done;
        let mut freed = 0;
        while p.done < p.sent {
            let more = p.sent == p.requests.len() || p.done == before;
            let event = if more {
                receiver.event(&self.socket)
            } else {
                receiver.buffered_event().map(|event| event.map(Some).unwrap_or_default())
            };
            let reply = match event {
                Ok(Some(Event::Header(reply))) => reply,
                Ok(None) if !more => break,
                Ok(None) => return Err(self.die(DevError::Gone, &"the server closed it")),
                Ok(Some(_)) => return Err(self.die(DevError::Protocol, &"inline bytes alone")),
                Err(error) => return Err(self.fail(error)),
            };
            freed += 1;
            if p.wants(&reply) {
                p.receive(&reply, &mut receiver, &self.socket).map_err(|e| self.fail(e))?;
                self.note(&reply);
                p.finish(&reply).map_err(|()| self.die(DevError::Protocol, &"wrong reply"))?;
            } else {
                self.forward(reply, &mut receiver)?;
                self.lock().credit += 1;
                freed -= 1;
                self.turn.notify_all();
            }
        }
        self.lock().credit += freed;
        Ok(())
    }

    fn fail(&self, error: RecvError) -> DevError {
        match &error {
            RecvError::Protocol(_) => self.die(DevError::Protocol, &error),
            RecvError::Truncated | RecvError::Io(_) => self.die(DevError::Gone, &error),
        }
    }

    /// Counts failed writes: a later SYNC need not report what was seen here.
    fn note(&self, reply: &Reply) {
        let write_class = matches!(reply.op, op::WRITE | op::WRITE_ZEROES | op::DISCARD);
        if write_class && reply.status != 0 {
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Receives a reply of another thread's call and leaves it in the mail.
    fn forward(&self, reply: Reply, receiver: &mut Receiver<Reply>) -> Result<(), DevError> {
        if !self.lock().is_known(reply.cookie) {
            return Err(self.die(DevError::Protocol, &"reply to a request that is not under way"));
        }
        let mut letter = Letter {
            reply,
            payload: PageBuf::default(),
            body: Vec::new(),
            fds: receiver.take_fds(),
        };
        if reply.inline_len > 0 {
            match receiver.event(&self.socket).map_err(|e| self.fail(e))? {
                Some(Event::Body(body)) => letter.body = body,
                Some(Event::Payload { len }) => {
                    letter.payload = PageBuf::try_zeroed(len)
                        .ok_or_else(|| self.die(DevError::NoMemory, &"no memory for a reply"))?;
                    receiver
                        .payload(&self.socket, &mut [&mut letter.payload])
                        .map_err(|e| self.fail(e))?;
                }
                _ => return Err(self.die(DevError::Gone, &"the server closed it")),
            }
        }
        self.note(&reply);
        self.lock().mail.insert(reply.cookie, letter);
        Ok(())
    }
}

impl Progress<'_, '_> {
    /// True for a reply to a request of this call that was sent and has no reply yet.
    fn wants(&self, reply: &Reply) -> bool {
        let index = self.call.index(reply.cookie).filter(|index| *index < self.sent);
        index.and_then(|index| self.replies.get(index)).is_some_and(Option::is_none)
    }

    fn slices(&mut self, cookie: u64) -> Option<usize> {
        self.call.index(cookie)
    }

    /// Receives the inline bytes of an own reply.
    fn receive(
        &mut self,
        reply: &Reply,
        receiver: &mut Receiver<Reply>,
        socket: &std::os::unix::net::UnixStream,
    ) -> Result<(), RecvError> {
        if let Data::Control { fds, .. } = &mut self.data {
            **fds = receiver.take_fds();
        }
        if reply.inline_len == 0 {
            return Ok(());
        }
        match receiver.event(socket)? {
            Some(Event::Body(body)) => {
                if let Data::Control { answer, .. } = &mut self.data {
                    **answer = body;
                }
                Ok(())
            }
            Some(Event::Payload { len }) => {
                let index = self.slices(reply.cookie).unwrap_or(usize::MAX);
                let Data::In(plan) = &mut self.data else { return Err(RecvError::Truncated) };
                let piece = plan.pieces.get(index).filter(|p| p.len == len as u64);
                let Some(piece) = piece else { return Err(RecvError::Truncated) };
                let range = piece.first..piece.first.saturating_add(piece.count);
                let slices = plan.segments.get_mut(range).unwrap_or_default();
                receiver.payload(socket, slices)
            }
            _ => Err(RecvError::Truncated),
        }
    }

    /// Checks and keeps an own reply.
    fn finish(&mut self, reply: &Reply) -> Result<(), ()> {
        let index = self.call.index(reply.cookie).ok_or(())?;
        let request = self.requests.get(index).ok_or(())?;
        let expected = match self.data {
            Data::In(_) if Status(reply.status).is_ok() => request.length,
            Data::In(_) => 0,
            _ => u64::from(reply.inline_len),
        };
        if reply.op != request.op || u64::from(reply.inline_len) != expected {
            return Err(());
        }
        let slot = self.replies.get_mut(index).filter(|slot| slot.is_none()).ok_or(())?;
        *slot = Some(*reply);
        self.done = self.done.saturating_add(1);
        Ok(())
    }

    fn take_mail(&mut self, shared: &mut Shared) -> Result<(), ()> {
        if shared.mail.is_empty() {
            return Ok(());
        }
        let call = self.call;
        let cookies = (call.base..).take(self.sent);
        for cookie in cookies {
            let Some(letter) = shared.mail.remove(&cookie) else { continue };
            if let Data::Control { answer, fds, .. } = &mut self.data {
                **answer = letter.body;
                **fds = letter.fds;
            }
            if let Data::In(plan) = &mut self.data
                && !letter.payload.is_empty()
            {
                let index = call.index(cookie).ok_or(())?;
                let piece = plan.pieces.get(index).ok_or(())?;
                let range = piece.first..piece.first.saturating_add(piece.count);
                let mut rest: &[u8] = &letter.payload;
                for slice in plan.segments.get_mut(range).unwrap_or_default() {
                    let (front, tail) = rest.split_at_checked(slice.len()).ok_or(())?;
                    slice.copy_from_slice(front);
                    rest = tail;
                }
            }
            self.finish(&letter.reply)?;
        }
        Ok(())
    }
}
