//! Why a store could not be opened or served.

use crate::partition::PartError;
use seawall_blockdev::DevError;
use std::io;
use std::path::Path;
use std::string::{String, ToString};
use thiserror::Error;

/// One clear line: what is wrong with which object.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The STORE name is not understood.
    #[error("{name}: {problem}")]
    Name {
        /// What was given.
        name: String,
        /// What is wrong with it and what is accepted.
        problem: String,
    },
    /// A kind of store that does not exist yet.
    #[error("{name}: stores of kind {kind} are not supported yet")]
    NotYet {
        /// What was given.
        name: String,
        /// The kind.
        kind: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {path}: {cause}")]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// Somebody else writes to it.
    #[error("{what} is in use by another writer (EBUSY); stop it or open with ?ro")]
    Busy {
        /// The object.
        what: String,
    },
    /// A session of its server writes to it.
    #[error("{what} is in use by another writer, {by} (EBUSY); stop that first, or open read-only")]
    Held {
        /// The socket.
        what: String,
        /// Names of the sessions.
        by: String,
    },
    /// Neither a regular file nor a block device.
    #[error("{path} is neither a regular file nor a block device")]
    NotAStore {
        /// The file.
        path: String,
    },
    /// Shorter than a block.
    #[error("{path} is shorter than one block of 512 bytes")]
    Empty {
        /// The file.
        path: String,
    },
    /// A server listens on the socket already.
    #[error("{path}: a server answers on this socket already")]
    SocketBusy {
        /// The socket.
        path: String,
    },
    /// The server at the other end refused or broke the protocol.
    #[error("{peer}: {problem}")]
    Peer {
        /// The socket.
        peer: String,
        /// What happened.
        problem: String,
    },
    /// The partition is not there, or not to be used.
    #[error("{name}: {cause}")]
    Partition {
        /// What was given.
        name: String,
        /// Why.
        cause: PartError,
    },
    /// A request failed.
    #[error("{name}: {what}: {cause}")]
    Device {
        /// The store.
        name: String,
        /// The request.
        what: String,
        /// Why.
        cause: DevError,
    },
}

impl StoreError {
    pub(crate) fn file(what: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::File { what, path: path.display().to_string(), cause }
    }

    pub(crate) fn name(name: &str, problem: impl Into<String>) -> Self {
        Self::Name { name: name.to_string(), problem: problem.into() }
    }

    pub(crate) fn peer(peer: &str, problem: impl ToString) -> Self {
        Self::Peer { peer: peer.to_string(), problem: problem.to_string() }
    }
}
