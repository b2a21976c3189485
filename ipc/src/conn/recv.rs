//! The receiving half.

use super::fds::{Fds, ROOM};
use crate::codec::{Decoder, Dialect, Event, Header, ProtocolError};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::vec::Vec;
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Payloads from here on are followed by a receive of a single header, so that the next payload is
/// not pulled into the buffer and copied.
const LARGE_PAYLOAD: usize = 16 * 1024;
/// Slices of one payload per system call.
const SLICES_MAX: usize = 64;

/// Why receiving ended.
#[derive(Debug, Error)]
pub enum RecvError {
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The stream ended inside a message.
    #[error("connection ended inside a message")]
    Truncated,
    /// The socket failed.
    #[error("receive failed: {0}")]
    Io(#[from] io::Error),
}

/// Receives messages of one direction from a stream socket.
#[derive(Debug)]
pub struct Receiver<H> {
    decoder: Decoder<H>,
    header_only: bool,
    fds: Fds,
}

impl<H: Header> Receiver<H> {
    /// A receiver at the start of a connection.
    pub fn new(dialect: Dialect) -> Self {
        Self { decoder: Decoder::new(dialect), header_only: false, fds: Fds::default() }
    }

    /// The decoder, to change its limits.
    pub fn decoder_mut(&mut self) -> &mut Decoder<H> {
        &mut self.decoder
    }

    /// The next event that needs no I/O, or `None`.
    ///
    /// # Errors
    /// [`RecvError::Protocol`].
    pub fn buffered_event(&mut self) -> Result<Option<Event<H>>, RecvError> {
        let event = self.decoder.next_event()?;
        if let Some(Event::Header(header)) = &event {
            self.fds.claim(header)?;
        }
        self.fds.check(self.decoder.is_idle())?;
        Ok(event)
    }

    /// The descriptors of the record that was returned last. Those that are not taken are closed
    /// when the next record comes.
    pub fn take_fds(&mut self) -> Vec<OwnedFd> {
        self.fds.take()
    }

    /// The next event, blocking; `None` when the peer closed the connection between two messages.
    ///
    /// # Errors
    /// Any [`RecvError`].
    pub fn event<Fd: AsFd>(&mut self, socket: Fd) -> Result<Option<Event<H>>, RecvError> {
        loop {
            if let Some(event) = self.buffered_event()? {
                return Ok(Some(event));
            }
            if self.receive(socket.as_fd(), RecvFlags::empty())? == 0 {
                return self.at_end();
            }
        }
    }

    /// As [`Receiver::event`], on a tokio socket. Cancel safe: nothing received is lost.
    ///
    /// # Errors
    /// Any [`RecvError`].
    pub async fn event_tokio(
        &mut self,
        socket: &UnixStream,
    ) -> Result<Option<Event<H>>, RecvError> {
        loop {
            if let Some(event) = self.buffered_event()? {
                return Ok(Some(event));
            }
            let receive = || self.receive(socket, RecvFlags::DONTWAIT);
            if socket.async_io(Interest::READABLE, receive).await? == 0 {
                return self.at_end();
            }
        }
    }

    fn at_end(&self) -> Result<Option<Event<H>>, RecvError> {
        if self.decoder.is_idle() { Ok(None) } else { Err(RecvError::Truncated) }
    }

    fn spare_limit(&self) -> usize {
        if self.header_only { H::LEN } else { usize::MAX }
    }

    fn receive<Fd: AsFd>(&mut self, socket: Fd, flags: RecvFlags) -> io::Result<usize> {
        let limit = self.spare_limit();
        self.header_only = false;
        let n = recv_into(
            socket,
            &mut [IoSliceMut::new(self.decoder.spare(limit))],
            flags,
            &mut self.fds,
        )?;
        self.decoder.commit(n);
        Ok(n)
    }

    /// Receives the announced payload into `slices`, blocking. Together they must be exactly as
    /// long as the payload.
    ///
    /// # Errors
    /// [`RecvError::Truncated`] or [`RecvError::Io`].
    pub fn payload<Fd: AsFd>(
        &mut self,
        socket: Fd,
        slices: &mut [&mut [u8]],
    ) -> Result<(), RecvError> {
        let mut at = self.begin_payload(slices);
        while self.decoder.payload_left() > 0 {
            self.payload_step(socket.as_fd(), slices, &mut at, RecvFlags::empty())?;
        }
        Ok(())
    }

    /// As [`Receiver::payload`], on a tokio socket. Not cancel safe: a dropped future leaves the
    /// connection inside a message.
    ///
    /// # Errors
    /// [`RecvError::Truncated`] or [`RecvError::Io`].
    pub async fn payload_tokio(
        &mut self,
        socket: &UnixStream,
        slices: &mut [&mut [u8]],
    ) -> Result<(), RecvError> {
        let mut at = self.begin_payload(slices);
        while self.decoder.payload_left() > 0 {
            let step = || self.payload_step(socket, slices, &mut at, RecvFlags::DONTWAIT);
            socket.async_io(Interest::READABLE, step).await?;
        }
        Ok(())
    }

    /// Receives and drops the announced payload, blocking.
    ///
    /// # Errors
    /// [`RecvError::Truncated`] or [`RecvError::Io`].
    pub fn skip_payload<Fd: AsFd>(&mut self, socket: Fd) -> Result<(), RecvError> {
        let mut sink = [0u8; 4096];
        while self.decoder.payload_left() > 0 {
            let n = self.decoder.payload_left().min(sink.len());
            let mut slices = [sink.get_mut(..n).unwrap_or_default()];
            let mut at = self.begin_payload(&mut slices);
            if at.slice == 0 {
                self.payload_step(socket.as_fd(), &mut slices, &mut at, RecvFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Copies what is already buffered and returns the position reached.
    fn begin_payload(&mut self, slices: &mut [&mut [u8]]) -> Cursor {
        self.header_only = self.decoder.payload_left() >= LARGE_PAYLOAD;
        let mut at = Cursor::default();
        for slice in slices.iter_mut() {
            let n = self.decoder.take_payload(slice);
            at.advance(n, slice.len());
            if n < slice.len() {
                break;
            }
        }
        at
    }

    /// One receive into the rest of the slices, followed by the decoder's buffer.
    fn payload_step<Fd: AsFd>(
        &mut self,
        socket: Fd,
        slices: &mut [&mut [u8]],
        at: &mut Cursor,
        flags: RecvFlags,
    ) -> io::Result<()> {
        let left = self.decoder.payload_left();
        let limit = self.spare_limit();
        let mut iov: Vec<IoSliceMut<'_>> = Vec::with_capacity(4);
        let mut direct = 0usize;
        for (i, slice) in slices.iter_mut().enumerate().skip(at.slice).take(SLICES_MAX) {
            let from = if i == at.slice { at.byte } else { 0 };
            let rest = slice.get_mut(from..).unwrap_or_default();
            direct = direct.saturating_add(rest.len());
            iov.push(IoSliceMut::new(rest));
        }
        if direct > left || direct == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "payload and slices differ"));
        }
        if direct == left {
            iov.push(IoSliceMut::new(self.decoder.spare(limit)));
        }
        let n = recv_into(socket, &mut iov, flags, &mut self.fds)?;
        drop(iov);
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let payload = n.min(direct);
        self.decoder.payload_received(payload);
        self.decoder.commit(n.saturating_sub(payload));
        let mut moved = payload;
        while let Some(slice) = slices.get(at.slice) {
            let step = moved.min(slice.len().saturating_sub(at.byte));
            moved = moved.saturating_sub(step);
            at.advance(step, slice.len());
            if moved == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// How far into the slices the payload has come.
#[derive(Default)]
struct Cursor {
    slice: usize,
    byte: usize,
}

impl Cursor {
    fn advance(&mut self, n: usize, slice_len: usize) {
        self.byte = self.byte.saturating_add(n);
        if self.byte >= slice_len {
            self.slice = self.slice.saturating_add(1);
            self.byte = 0;
        }
    }
}

/// One `recvmsg`; interrupted calls are repeated. Descriptors join the queue.
fn recv_into<Fd: AsFd>(
    socket: Fd,
    iov: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
    fds: &mut Fds,
) -> io::Result<usize> {
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    loop {
        // Of more descriptors than there is room for the kernel closes the rest and says CTRUNC.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ROOM))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(socket.as_fd(), iov, &mut control, flags);
        fds.push(&mut control);
        match got {
            Ok(got) if got.flags.contains(ReturnFlags::CTRUNC) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    ProtocolError::StrayDescriptors,
                ));
            }
            Ok(got) => return Ok(got.bytes),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
