//! The receiving state machine.

use super::{Dialect, Header, Inline, ProtocolError};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Bytes of the receive buffer: about 30 messages with 4 KiB payloads.
const BUFFER_LEN: usize = 128 * 1024;

/// What the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<H> {
    /// A record. A body or payload of the length it announces follows as the next event.
    Header(H),
    /// The control body of the record before.
    Body(Vec<u8>),
    /// A payload of the record before begins. The host takes it with
    /// [`Decoder::take_payload`] and [`Decoder::payload_received`] before the next event.
    Payload {
        /// Bytes.
        len: usize,
    },
}

#[derive(Debug)]
enum State {
    Header,
    Body { want: usize },
    PayloadNext { len: usize },
    Payload { left: usize },
    Skip { left: usize },
    Failed(ProtocolError),
}

/// Turns bytes, in any split, into [`Event`]s. Memory: a fixed buffer of 128 KiB plus one body.
#[derive(Debug)]
pub struct Decoder<H> {
    dialect: Dialect,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    state: State,
    body: Vec<u8>,
    header: PhantomData<H>,
}

impl<H: Header> Decoder<H> {
    /// A decoder at the start of a connection.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            buffer: alloc::vec![0; BUFFER_LEN],
            start: 0,
            end: 0,
            state: State::Header,
            body: Vec::new(),
            header: PhantomData,
        }
    }

    /// The protocol it speaks.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Replaces the limits, after HELLO agreed on others.
    pub fn set_limits(&mut self, limits: super::Limits) {
        self.dialect.limits = limits;
    }

    /// True between two messages with nothing buffered: the only place where a stream may end.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Header) && self.start == self.end
    }

    /// Room for up to `limit` received bytes (at least one byte unless events or payload bytes wait
    /// to be taken). Follow with [`Decoder::commit`].
    pub fn spare(&mut self, limit: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }
        let stop = self.end.saturating_add(limit).min(self.buffer.len());
        self.buffer.get_mut(self.end..stop).unwrap_or_default()
    }

    /// Says that `n` bytes were placed at the front of [`Decoder::spare`].
    pub fn commit(&mut self, n: usize) {
        self.end = self.end.saturating_add(n).min(self.buffer.len());
    }

    /// Copies as much of `bytes` as there is room for and returns how much that was.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let spare = self.spare(bytes.len());
        let n = spare.len().min(bytes.len());
        if let (Some(to), Some(from)) = (spare.get_mut(..n), bytes.get(..n)) {
            to.copy_from_slice(from);
        }
        self.commit(n);
        n
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, n: usize) {
        self.start = self.start.saturating_add(n).min(self.end);
    }

    /// The next event, or `None` when more bytes are needed or a payload must be taken first.
    ///
    /// # Errors
    /// The peer broke the protocol. Every later call returns the same error.
    pub fn next_event(&mut self) -> Result<Option<Event<H>>, ProtocolError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Header => return self.next_header(),
                State::Body { want } => return Ok(self.next_body(want)),
                State::PayloadNext { len } => {
                    self.state = State::Payload { left: len };
                    return Ok(Some(Event::Payload { len }));
                }
                State::Payload { left: 0 } | State::Skip { left: 0 } => self.state = State::Header,
                State::Payload { .. } => return Ok(None),
                State::Skip { left } => {
                    let n = left.min(self.buffered().len());
                    if n == 0 {
                        return Ok(None);
                    }
                    self.consume(n);
                    self.state = State::Skip { left: left.saturating_sub(n) };
                }
            }
        }
    }

    fn next_header(&mut self) -> Result<Option<Event<H>>, ProtocolError> {
        let Some(bytes) = self.buffered().get(..H::LEN) else {
            return self.early_magic();
        };
        let header = match H::parse(bytes, &self.dialect) {
            Ok(header) => header,
            Err(error) => return self.fail(error),
        };
        self.consume(H::LEN);
        let len = usize::try_from(header.inline_len()).unwrap_or(usize::MAX);
        self.state = match header.inline(&self.dialect) {
            _ if len == 0 => State::Header,
            Inline::None => State::Header,
            Inline::Body => {
                self.body = Vec::new();
                State::Body { want: len }
            }
            Inline::Payload => State::PayloadNext { len },
            Inline::Skip => State::Skip { left: len },
        };
        Ok(Some(Event::Header(header)))
    }

    /// Refuses a stream of another protocol at its fourth byte, before a whole record is there.
    fn early_magic(&mut self) -> Result<Option<Event<H>>, ProtocolError> {
        let Some(first) = self.buffered().first_chunk::<4>() else { return Ok(None) };
        let found = u32::from_le_bytes(*first);
        if found == self.dialect.magic {
            return Ok(None);
        }
        self.fail(ProtocolError::Magic { found, expected: self.dialect.magic })
    }

    fn fail(&mut self, error: ProtocolError) -> Result<Option<Event<H>>, ProtocolError> {
        self.state = State::Failed(error);
        Err(error)
    }

    fn next_body(&mut self, want: usize) -> Option<Event<H>> {
        let n = want.saturating_sub(self.body.len()).min(self.buffered().len());
        let piece = self.buffer.get(self.start..self.start.saturating_add(n)).unwrap_or_default();
        // Grows with what arrived, not with what was announced.
        self.body.extend_from_slice(piece);
        self.consume(n);
        if self.body.len() < want {
            return None;
        }
        self.state = State::Header;
        Some(Event::Body(core::mem::take(&mut self.body)))
    }

    /// Bytes of the announced payload that are not taken yet.
    pub fn payload_left(&self) -> usize {
        match self.state {
            State::Payload { left } => left,
            State::PayloadNext { len } => len,
            _ => 0,
        }
    }

    /// Moves payload bytes that are already buffered to the front of `out` and returns how many.
    pub fn take_payload(&mut self, out: &mut [u8]) -> usize {
        let n = self.payload_left().min(out.len()).min(self.buffered().len());
        let from = self.buffered().get(..n).unwrap_or_default();
        if let Some(to) = out.get_mut(..n) {
            to.copy_from_slice(from);
        }
        self.consume(n);
        self.payload_received(n);
        n
    }

    /// Says that `n` payload bytes went past the decoder, straight into the host's buffer. Only
    /// valid while no payload byte is buffered.
    pub fn payload_received(&mut self, n: usize) {
        if let State::Payload { left } | State::PayloadNext { len: left } = self.state {
            self.state = State::Payload { left: left.saturating_sub(n) };
        }
    }
}
