//! What one protocol allows: magic, operations, flags and limits.

use crate::record::{REPLY_BIT, REPLY_LEN, REQUEST_LEN, Reply, Request, flags};
use alloc::vec::Vec;
use thiserror::Error;

/// What the inline bytes of a message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    /// There must be none.
    None,
    /// A control body: collected by the decoder, at most [`Limits::body_max`].
    Body,
    /// Data: received by the host, at most [`Limits::payload_max`].
    Payload,
    /// An operation this side does not know: its bytes, at most [`Limits::payload_max`], are
    /// dropped without being kept, and the host answers EOPNOTSUPP.
    Skip,
}

/// Limits that are checked before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest control body, bytes.
    pub body_max: u32,
    /// Largest payload, bytes.
    pub payload_max: u32,
    /// Most descriptors that may travel with one record.
    pub fds_max: u8,
}

/// One protocol's rules for records. A plain value: the codec and the connections are the same for
/// the store and the filesystem protocol.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// First four bytes of every record, as a little-endian integer.
    pub magic: u32,
    /// Flag bits a request may carry, without the descriptor count.
    pub request_flags: u16,
    /// Flag bits a reply may carry, without the descriptor count.
    pub reply_flags: u16,
    /// What a request's inline bytes are, by operation.
    pub request: fn(u16) -> Inline,
    /// What a reply's inline bytes are, by operation (without [`REPLY_BIT`]).
    pub reply: fn(u16) -> Inline,
    /// Limits.
    pub limits: Limits,
}

/// A record that breaks the protocol. The connection closes and the reason is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Not a record of this protocol.
    #[error("bad magic {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// What was there.
        found: u32,
        /// The dialect's.
        expected: u32,
    },
    /// A request where a reply must be, or the other way round.
    #[error("operation {0:#06x} is in the wrong direction")]
    Direction(u16),
    /// A flag bit the dialect does not know.
    #[error("operation {op}: unknown flag bits {bits:#06x}")]
    Flags {
        /// Operation.
        op: u16,
        /// The unknown bits.
        bits: u16,
    },
    /// Inline bytes beyond the limit, or where none may be.
    #[error("operation {op}: {len} inline bytes, at most {limit} allowed")]
    Length {
        /// Operation.
        op: u16,
        /// Announced length.
        len: u32,
        /// Largest allowed here.
        limit: u32,
    },
    /// More descriptors than this connection takes.
    #[error("operation {op}: {count} descriptors announced, at most {limit} allowed")]
    Descriptors {
        /// Operation.
        op: u16,
        /// Announced.
        count: u8,
        /// Largest allowed here.
        limit: u8,
    },
    /// A record announced descriptors that did not come with its first byte.
    #[error("operation {op}: {count} descriptors announced, {found} came")]
    MissingDescriptors {
        /// Operation.
        op: u16,
        /// Announced.
        count: u8,
        /// There.
        found: u8,
    },
    /// Descriptors arrived that no record announced, or more than fit, so that the kernel dropped
    /// some.
    #[error("descriptors arrived that were not announced")]
    StrayDescriptors,
}

/// A record type: [`Request`] or [`Reply`].
pub trait Header: Copy + core::fmt::Debug {
    /// Bytes on the wire.
    const LEN: usize;

    /// Parses and checks exactly [`Header::LEN`] bytes.
    ///
    /// # Errors
    /// What is wrong with the record.
    fn parse(bytes: &[u8], dialect: &Dialect) -> Result<Self, ProtocolError>;

    /// Appends the wire bytes.
    fn put(&self, dialect: &Dialect, out: &mut Vec<u8>);

    /// Inline bytes that follow.
    fn inline_len(&self) -> u32;

    /// A copy that announces `len` inline bytes.
    fn with_inline_len(self, len: u32) -> Self;

    /// What the inline bytes are.
    fn inline(&self, dialect: &Dialect) -> Inline;
    /// Its operation.
    fn op(&self) -> u16;
    /// Its flags.
    fn flags(&self) -> u16;
    /// Descriptors that travel with it.
    fn fd_count(&self) -> u8 {
        (self.flags() >> flags::FD_SHIFT) as u8
    }
}

impl Dialect {
    fn check(&self, op: u16, bits: u16, known: u16, inline: Inline, len: u32) -> Check {
        let unknown = bits & !known & !flags::FD_MASK;
        if unknown != 0 {
            return Err(ProtocolError::Flags { op, bits: unknown });
        }
        let count = (bits >> flags::FD_SHIFT) as u8;
        if count > self.limits.fds_max {
            return Err(ProtocolError::Descriptors { op, count, limit: self.limits.fds_max });
        }
        let limit = match inline {
            Inline::None => 0,
            Inline::Body => self.limits.body_max,
            Inline::Payload | Inline::Skip => self.limits.payload_max,
        };
        if len > limit {
            return Err(ProtocolError::Length { op, len, limit });
        }
        Ok(())
    }

    fn check_magic(&self, found: u32) -> Check {
        if found == self.magic {
            return Ok(());
        }
        Err(ProtocolError::Magic { found, expected: self.magic })
    }
}

type Check = Result<(), ProtocolError>;

impl Header for Request {
    const LEN: usize = REQUEST_LEN;

    fn parse(bytes: &[u8], dialect: &Dialect) -> Result<Self, ProtocolError> {
        let (magic, request) =
            Self::get(bytes).ok_or(ProtocolError::Magic { found: 0, expected: dialect.magic })?;
        dialect.check_magic(magic)?;
        if request.op & REPLY_BIT != 0 {
            return Err(ProtocolError::Direction(request.op));
        }
        let inline = request.inline(dialect);
        // An unknown operation may come with flags of its own: it is answered, not punished.
        let known = if inline == Inline::Skip { !0 } else { dialect.request_flags };
        dialect.check(request.op, request.flags, known, inline, request.inline_len)?;
        Ok(request)
    }

    fn put(&self, dialect: &Dialect, out: &mut Vec<u8>) {
        Request::put(self, dialect.magic, out);
    }

    fn inline_len(&self) -> u32 {
        self.inline_len
    }

    fn with_inline_len(self, inline_len: u32) -> Self {
        Self { inline_len, ..self }
    }

    fn inline(&self, dialect: &Dialect) -> Inline {
        (dialect.request)(self.op)
    }

    fn op(&self) -> u16 {
        self.op
    }

    fn flags(&self) -> u16 {
        self.flags
    }
}

impl Header for Reply {
    const LEN: usize = REPLY_LEN;

    fn parse(bytes: &[u8], dialect: &Dialect) -> Result<Self, ProtocolError> {
        let (magic, mut reply) =
            Self::get(bytes).ok_or(ProtocolError::Magic { found: 0, expected: dialect.magic })?;
        dialect.check_magic(magic)?;
        if reply.op & REPLY_BIT == 0 {
            return Err(ProtocolError::Direction(reply.op));
        }
        reply.op &= !REPLY_BIT;
        let inline = reply.inline(dialect);
        dialect.check(reply.op, reply.flags, dialect.reply_flags, inline, reply.inline_len)?;
        Ok(reply)
    }

    fn put(&self, dialect: &Dialect, out: &mut Vec<u8>) {
        Reply::put(self, dialect.magic, out);
    }

    fn inline_len(&self) -> u32 {
        self.inline_len
    }

    fn with_inline_len(self, inline_len: u32) -> Self {
        Self { inline_len, ..self }
    }

    fn inline(&self, dialect: &Dialect) -> Inline {
        (dialect.reply)(self.op)
    }

    fn op(&self) -> u16 {
        self.op
    }

    fn flags(&self) -> u16 {
        self.flags
    }
}
