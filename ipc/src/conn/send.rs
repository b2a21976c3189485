//! The sending half.

use crate::codec::Gather;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::vec::Vec;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Pieces per system call.
const SLICES_MAX: usize = 256;
/// Descriptors per message: as many as the receiver has room for.
const FDS_MAX: usize = super::fds::ROOM;

/// Result of a send that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything is in the socket.
    All,
    /// The socket is full after this many bytes.
    Partly(usize),
}

/// A gather on its way out: slices and how far they are sent.
struct Progress<'g> {
    slices: Vec<&'g [u8]>,
    next: usize,
    sent: usize,
    /// Leave with the first byte.
    fds: &'g [BorrowedFd<'g>],
}

impl<'g> Progress<'g> {
    fn new(gather: &'g Gather<'_>, skip: usize) -> Self {
        let slices = gather.parts().map(|part| part.bytes()).collect();
        let mut progress = Self { slices, next: 0, sent: 0, fds: &[] };
        progress.advance(skip);
        progress
    }

    fn is_done(&self) -> bool {
        self.next >= self.slices.len()
    }

    fn advance(&mut self, mut n: usize) {
        self.sent = self.sent.saturating_add(n);
        while let Some(slice) = self.slices.get_mut(self.next) {
            if n < slice.len() {
                *slice = slice.get(n..).unwrap_or_default();
                return;
            }
            n = n.saturating_sub(slice.len());
            self.next = self.next.saturating_add(1);
        }
    }

    fn step<Fd: AsFd>(&mut self, socket: Fd, flags: SendFlags) -> io::Result<()> {
        let rest = self.slices.get(self.next..).unwrap_or_default();
        let iov: Vec<IoSlice<'_>> =
            rest.iter().take(SLICES_MAX).map(|slice| IoSlice::new(slice)).collect();
        let flags = flags | SendFlags::NOSIGNAL;
        let n = loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !self.fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(self.fds)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
            }
            match sendmsg(socket.as_fd(), &iov, &mut control, flags) {
                Ok(n) => break n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.fds = &[];
        self.advance(n);
        Ok(())
    }
}

/// Sends everything, blocking.
///
/// # Errors
/// The socket's.
pub fn send<Fd: AsFd>(socket: Fd, gather: &Gather<'_>) -> io::Result<()> {
    let mut progress = Progress::new(gather, 0);
    while !progress.is_done() {
        progress.step(socket.as_fd(), SendFlags::empty())?;
    }
    Ok(())
}

/// Sends one message with the descriptors its flags announce (at most 4), blocking. It must be the
/// only one in the gather: descriptors travel with the first byte of their record.
///
/// # Errors
/// The socket's.
pub fn send_fds<Fd: AsFd>(
    socket: Fd,
    gather: &Gather<'_>,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut progress = Progress { fds, ..Progress::new(gather, 0) };
    while !progress.is_done() {
        progress.step(socket.as_fd(), SendFlags::empty())?;
    }
    Ok(())
}

/// Sends what the socket takes without waiting, from byte `skip` of the gather on.
///
/// # Errors
/// The socket's, but never `WouldBlock`.
pub fn send_now<Fd: AsFd>(socket: Fd, gather: &Gather<'_>, skip: usize) -> io::Result<Sent> {
    let mut progress = Progress::new(gather, skip);
    while !progress.is_done() {
        match progress.step(socket.as_fd(), SendFlags::DONTWAIT) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Sent::Partly(progress.sent));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(Sent::All)
}

/// Sends everything on a tokio socket. Not cancel safe: a dropped future may leave part of a
/// message on the wire.
///
/// # Errors
/// The socket's.
pub async fn send_tokio(socket: &UnixStream, gather: &Gather<'_>) -> io::Result<()> {
    let mut progress = Progress::new(gather, 0);
    while !progress.is_done() {
        let step = || progress.step(socket, SendFlags::DONTWAIT);
        socket.async_io(Interest::WRITABLE, step).await?;
    }
    Ok(())
}
