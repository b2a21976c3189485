//! The sending side of one session.
//!
//! Two threads send on a session: its own, and the one that ran a flush it waited for. Whoever
//! holds `busy` sends, and sends what others queued before it lets go. The flush thread never
//! blocks on a client: what the socket does not take at once is finished by another thread.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seawall_ipc::conn::{Sent, send, send_fds, send_now};
use seawall_ipc::storeproto::DIALECT;
use seawall_ipc::{Gather, Reply, flags};
use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use tokio::runtime::Handle;

#[derive(Debug, Default)]
struct Queue {
    /// Encoded replies; bounded by the requests in flight.
    bytes: Vec<u8>,
    busy: bool,
    broken: bool,
}

#[derive(Debug)]
pub(super) struct Link {
    socket: UnixStream,
    queue: Mutex<Queue>,
    /// Signalled when `busy` ends and when replies were queued.
    changed: Condvar,
}

impl Link {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, queue: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until `enough` is true; it is asked again whenever replies were queued.
    pub(super) fn wait_until(&self, mut enough: impl FnMut() -> bool) {
        let mut queue = self.lock();
        while !enough() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The session's own thread: sends the batch's replies and whatever is queued, blocking.
    pub(super) fn send(&self, mut gather: Gather<'_>) -> io::Result<()> {
        let mut queue = self.lock();
        while queue.busy {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        gather.raw(&core::mem::take(&mut queue.bytes));
        if gather.is_empty() {
            return Ok(());
        }
        queue.busy = true;
        drop(queue);
        let sent = send(&self.socket, &gather);
        self.send_queued(sent)
    }

    /// The session's own thread: sends one reply with a descriptor, blocking. It is a message of
    /// its own, so that the descriptor travels with the record's first byte.
    pub(super) fn send_fd(&self, reply: &Reply, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut queue = self.lock();
        while queue.busy {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.busy = true;
        drop(queue);
        let mut gather = Gather::new(DIALECT);
        gather.message(&Reply { flags: reply.flags | 1 << flags::FD_SHIFT, ..*reply });
        let sent = send_fds(&self.socket, &gather, &[fd]);
        self.send_queued(sent)
    }

    /// Sends what is queued until nothing is, then lets go of `busy`.
    fn send_queued(&self, mut sent: io::Result<()>) -> io::Result<()> {
        loop {
            let mut queue = self.lock();
            if sent.is_err() {
                queue.broken = true;
                queue.bytes.clear();
            }
            if queue.bytes.is_empty() {
                queue.busy = false;
                self.changed.notify_all();
                return sent;
            }
            let mut gather = Gather::new(DIALECT);
            gather.raw(&core::mem::take(&mut queue.bytes));
            drop(queue);
            sent = send(&self.socket, &gather);
        }
    }

    /// Another thread: queues encoded replies and sends them if that needs no waiting.
    pub(super) fn push(self: &Arc<Self>, bytes: &[u8], runtime: &Handle) {
        let mut queue = self.lock();
        if !queue.broken {
            queue.bytes.extend_from_slice(bytes);
        }
        self.changed.notify_all();
        if queue.busy || queue.bytes.is_empty() {
            return;
        }
        queue.busy = true;
        let mut gather = Gather::new(DIALECT);
        gather.raw(&core::mem::take(&mut queue.bytes));
        drop(queue);
        match send_now(&self.socket, &gather, 0) {
            Ok(Sent::Partly(n)) => {
                let mut rest = Gather::new(DIALECT);
                rest.raw(gather.to_vec().get(n..).unwrap_or_default());
                let link = Arc::clone(self);
                runtime.spawn_blocking(move || {
                    let sent = send(&link.socket, &rest);
                    link.finish(sent);
                });
            }
            Ok(Sent::All) => self.finish(Ok(())),
            Err(e) => self.finish(Err(e)),
        }
    }

    fn finish(&self, sent: io::Result<()>) {
        if let Err(e) = self.send_queued(sent) {
            tracing::debug!(error = %e, "a session's replies could not be sent");
            self.shutdown(Shutdown::Both);
        }
    }

    /// True when the other end is closed for good: nobody is left to read a reply.
    pub(super) fn hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        polled.is_ok() && fds.iter().any(|f| f.revents().contains(PollFlags::HUP))
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        let _already_closed = self.socket.shutdown(how);
    }
}
