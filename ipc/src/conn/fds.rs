//! The queue of received descriptors.

use crate::codec::{Header, ProtocolError};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::vec::Vec;

/// Descriptors that fit into one receive; with more the kernel drops some and says so.
pub(super) const ROOM: usize = 4;
/// Most that wait for their record.
const QUEUED_MAX: usize = 16;

/// Received descriptors: waiting for their record, and those of the record announced last.
#[derive(Debug, Default)]
pub(super) struct Fds {
    queue: VecDeque<OwnedFd>,
    claimed: Vec<OwnedFd>,
}

impl Fds {
    /// Takes what came with one receive.
    pub(super) fn push(&mut self, control: &mut RecvAncillaryBuffer<'_>) {
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.queue.extend(fds);
            }
        }
    }

    /// Sets the descriptors of this record aside; those of the record before are closed.
    pub(super) fn claim<H: Header>(&mut self, header: &H) -> Result<(), ProtocolError> {
        self.claimed.clear();
        let count = header.fd_count();
        let found = self.queue.len();
        if found < usize::from(count) {
            let found = u8::try_from(found).unwrap_or(u8::MAX);
            return Err(ProtocolError::MissingDescriptors { op: header.op(), count, found });
        }
        self.claimed.extend(self.queue.drain(..usize::from(count)));
        Ok(())
    }

    /// `idle`: every byte that was received belongs to a record that was announced.
    pub(super) fn check(&self, idle: bool) -> Result<(), ProtocolError> {
        if (idle && !self.queue.is_empty()) || self.queue.len() > QUEUED_MAX {
            return Err(ProtocolError::StrayDescriptors);
        }
        Ok(())
    }

    pub(super) fn take(&mut self) -> Vec<OwnedFd> {
        core::mem::take(&mut self.claimed)
    }
}
