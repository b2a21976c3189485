//! What the core asks of its host.

use super::{Cancel, SessionId};
use crate::ledger::Started;
use crate::stats::Count;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Run, Tag};
use seawall_ipc::Reply;
use seawall_ipc::storeproto::{Lost, rights};

/// What becomes of a request.
#[derive(Debug)]
pub enum Step {
    /// Answered or waiting; effects hold what there is to send.
    Done,
    /// The host executes this and reports it.
    Io(Job),
    /// The host drops the job of that cookie if it has not started it and reports it with
    /// [`super::Core::job_canceled`]; either way it then asks [`super::Core::cancel_done`] for the
    /// reply.
    Cancel(Cancel),
    /// The host sends what is in the effects, then closes the connection.
    Close(CloseReason),
}

/// Why a session closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said BYE.
    Bye,
    /// HELLO without a readable body.
    Body,
    /// More requests in flight than the limit.
    Credit,
    /// The session does not exist.
    NoSession,
}

impl CloseReason {
    /// The text for logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bye => "the client said goodbye",
            Self::Body => "HELLO body does not decode",
            Self::Credit => "more requests in flight than allowed",
            Self::NoSession => "no such session",
        }
    }
}

/// What a job does to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Reads the run.
    Read,
    /// Writes the run.
    Write {
        /// Durable before it is acknowledged.
        fua: bool,
    },
    /// Zeroes the run.
    Zero {
        /// Keeps it allocated.
        keep: bool,
    },
    /// Gives the run's storage back.
    Discard,
}

impl JobKind {
    /// True for what has a sequence.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// The right it takes.
    pub(super) fn right(self) -> u32 {
        match self {
            Self::Read => rights::READ,
            Self::Write { .. } | Self::Zero { .. } => rights::WRITE,
            Self::Discard => rights::DISCARD,
        }
    }

    pub(super) fn is_fua(self) -> bool {
        matches!(self, Self::Write { fua: true })
    }
}

/// One request for the backend.
#[derive(Debug)]
pub struct Job {
    /// Session it belongs to.
    pub id: SessionId,
    pub(super) index: u64,
    pub(super) op: u16,
    /// Cookie of the request.
    pub cookie: u64,
    /// What it does.
    pub kind: JobKind,
    /// Where.
    pub run: Run,
    /// Key of its statistics.
    pub tag: Tag,
    pub(super) started: Started,
}

impl Job {
    pub(super) fn count(&self, result: Result<(), DevError>) -> Count {
        match (result, self.kind) {
            (Err(_), _) => Count::Error,
            (Ok(()), JobKind::Read) => Count::Read(self.run.len),
            (Ok(()), JobKind::Write { .. }) => Count::Write(self.run.len),
            (Ok(()), JobKind::Zero { .. } | JobKind::Discard) => Count::Zero(self.run.len),
        }
    }
}

/// What the host must do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a reply.
    Reply {
        /// To this session.
        id: SessionId,
        /// The record.
        reply: Reply,
        /// Its control body, empty if it has none.
        body: Vec<u8>,
    },
    /// Make a connected pair of sockets, serve one end as session `minted`, and send the reply with
    /// the other end; if that fails, send what [`super::Core::mint_failed`] returns.
    Mint {
        /// The session that asked.
        id: SessionId,
        /// The new one.
        minted: SessionId,
        /// The reply.
        reply: Reply,
    },
    /// Log that a client accepted the loss of data.
    LossAccepted {
        /// The session that did.
        id: SessionId,
        /// What is lost.
        lost: Lost,
    },
    /// Flush the device, then call [`super::Core::flush_done`]. Never asked for twice at a time.
    Flush,
}

impl Effect {
    pub(super) fn reply(id: SessionId, reply: Reply) -> Self {
        Self::Reply { id, reply, body: Vec::new() }
    }
}
