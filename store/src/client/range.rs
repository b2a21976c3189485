//! Minting sessions and accepting losses.

use super::Client;
use super::exchange::Data;
use crate::wire::check;
use seawall_blockdev::{DevError, Run};
use seawall_ipc::storeproto::{Lost, OpenRange, op};
use seawall_ipc::{Request, decode_body, encode_body, flags};
use std::os::unix::net::UnixStream;
use std::vec::Vec;

impl Client {
    /// Mints a session of part of the store: `run` in this session's offsets, `rights` (bits of
    /// [`seawall_ipc::storeproto::rights`]) a subset of its own. The socket is the capability: use
    /// it with [`Client::over`] or pass it on. It outlives this session.
    ///
    /// # Errors
    /// [`DevError::Denied`] for rights this session does not have, [`DevError::OutOfRange`],
    /// [`DevError::NoMemory`] when the server has no room for a session, the connection's.
    pub fn open_range(&self, run: Run, rights: u32) -> Result<UnixStream, DevError> {
        let asked = OpenRange { offset: run.start, length: run.len, rights, generation: 0 };
        let body = encode_body(&asked).map_err(|_| DevError::Protocol)?;
        let (mut answer, mut fds) = (Vec::new(), Vec::new());
        let data = Data::Control { body: &body, answer: &mut answer, fds: &mut fds };
        let request = Request { op: op::OPEN_RANGE, ..Request::default() };
        let replies = self.exchange(&[request], data)?;
        check(replies.first().ok_or(DevError::Protocol)?.status)?;
        fds.pop().map(UnixStream::from).ok_or(DevError::Protocol)
    }

    /// Gives up what a failed flush may have lost, so that syncs can succeed again; the server logs
    /// it. Returns what that is.
    ///
    /// # Errors
    /// [`DevError::Denied`] without the ADMIN right on the whole store, the connection's.
    pub fn accept_loss(&self) -> Result<Lost, DevError> {
        let (mut answer, mut fds) = (Vec::new(), Vec::new());
        let data = Data::Control { body: &[], answer: &mut answer, fds: &mut fds };
        let flags = flags::ACCEPT_LOSS;
        let request = Request { op: op::CLEAR_FAULT, flags, ..Request::default() };
        let replies = self.exchange(&[request], data)?;
        check(replies.first().ok_or(DevError::Protocol)?.status)?;
        decode_body(&answer).map_err(|_| DevError::Protocol)
    }
}
