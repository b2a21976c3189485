//! What a client's calls fail with.

use crate::protocol::op;
use seawall_ipc::Status;
use std::io;
use std::string::String;
use thiserror::Error;

/// One clear line: what was asked, of which object, and why not.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody answers on the socket.
    #[error("cannot connect to the filesystem server on {socket}: {cause}; is it running?")]
    Connect {
        /// The socket.
        socket: String,
        /// Why.
        cause: io::Error,
    },
    /// The server refused the session, or broke the protocol.
    #[error("{socket}: {problem}")]
    Peer {
        /// The socket.
        socket: String,
        /// What happened.
        problem: String,
    },
    /// The operation failed.
    #[error("{path}{}", text(*.op, .path, *.status, .words))]
    Op {
        /// Which operation.
        op: u16,
        /// On what.
        path: String,
        /// The error number.
        status: Status,
        /// What the server said in words, if it did.
        words: String,
    },
}

/// Without an object the operation stands in its place.
fn text(op: u16, path: &str, status: Status, words: &str) -> String {
    let what = if path.is_empty() { op::name(op).to_lowercase() } else { String::new() };
    if words.is_empty() {
        std::format!("{what}: {status}")
    } else {
        std::format!("{what}: {words}")
    }
}

impl ClientError {
    /// The Linux error number.
    pub fn errno(&self) -> u32 {
        match self {
            Self::Connect { cause, .. } => {
                cause.raw_os_error().and_then(|e| u32::try_from(e).ok()).unwrap_or(Status::EIO.0)
            }
            Self::Peer { .. } => Status::ESHUTDOWN.0,
            Self::Op { status, .. } => status.0,
        }
    }

    /// True for this status of the server.
    pub fn is(&self, status: Status) -> bool {
        matches!(self, Self::Op { status: s, .. } if *s == status)
    }

    /// The same error of a thing that the user named otherwise than by the socket.
    #[must_use]
    pub fn instead_of_socket(mut self, what: impl Into<String>) -> Self {
        match &mut self {
            Self::Connect { socket, .. } | Self::Peer { socket, .. } => *socket = what.into(),
            Self::Op { path, .. } => *path = what.into(),
        }
        self
    }

    /// The same error with a path, where there is none yet.
    #[must_use]
    pub fn on(mut self, what: impl Into<String>) -> Self {
        if let Self::Op { path, .. } = &mut self
            && path.is_empty()
        {
            *path = what.into();
        }
        self
    }
}
