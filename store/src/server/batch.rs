//! Receiving a batch: what has arrived, within the session's credit and a bound on memory.
//!
//! Payloads lie page-aligned in one arena, in the order of their requests; the space a read will
//! fill is set aside in it too.

use core::ops::Range;
use seawall_blockdev::{PAGE, PageBuf};
use seawall_ipc::conn::{Receiver, RecvError};
use seawall_ipc::storeproto::{DIALECT, op};
use seawall_ipc::{Event, Inline, Request};
use std::os::unix::net::UnixStream;
use std::vec::Vec;

const ARENA_FIRST: usize = 256 * 1024;
const ARENA_MAX: usize = 4 * 1024 * 1024;
/// A batch that has this many bytes is executed before more is received.
const BATCH_BYTES: usize = 1024 * 1024;

/// A received request.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) request: Request,
    pub(super) body: Vec<u8>,
    /// Its place in the arena: the payload of a write, the space for a read.
    pub(super) place: Range<usize>,
}

pub(super) struct Inbox {
    receiver: Receiver<Request>,
    arena: PageBuf,
    used: usize,
    /// A request whose bytes did not fit into the last batch.
    held: Option<Request>,
    payload_max: usize,
}

impl Inbox {
    pub(super) fn new(payload_max: u32) -> Self {
        let mut receiver = Receiver::new(DIALECT);
        let limits = seawall_ipc::Limits { payload_max, ..DIALECT.limits };
        receiver.decoder_mut().set_limits(limits);
        Self {
            receiver,
            arena: PageBuf::zeroed(ARENA_FIRST),
            used: 0,
            held: None,
            payload_max: payload_max as usize,
        }
    }

    /// The arena, for executing and answering a batch.
    pub(super) fn arena(&mut self) -> &mut PageBuf {
        &mut self.arena
    }

    /// Blocks for one request, then takes those that are here already: at most `max`. `false` when
    /// the client closed the connection.
    pub(super) fn receive(
        &mut self,
        socket: &UnixStream,
        max: usize,
        items: &mut Vec<Item>,
    ) -> Result<bool, RecvError> {
        self.used = 0;
        while items.len() < max && self.used < BATCH_BYTES {
            let request = match self.held.take() {
                Some(request) => request,
                None => match self.next_header(socket, items.is_empty())? {
                    Some(request) => request,
                    None => return Ok(!items.is_empty()),
                },
            };
            let need = self.need(&request);
            if !self.make_room(need, items.is_empty()) {
                self.held = Some(request);
                break;
            }
            items.push(self.inline(socket, request, need)?);
        }
        Ok(true)
    }

    fn next_header(
        &mut self,
        socket: &UnixStream,
        block: bool,
    ) -> Result<Option<Request>, RecvError> {
        let event =
            if block { self.receiver.event(socket)? } else { self.receiver.buffered_event()? };
        match event {
            Some(Event::Header(request)) => Ok(Some(request)),
            Some(_) => Err(RecvError::Truncated),
            None => Ok(None),
        }
    }

    /// Bytes of arena the request needs.
    fn need(&self, request: &Request) -> usize {
        match request.op {
            op::WRITE => request.inline_len as usize,
            op::READ => {
                let len = usize::try_from(request.length).unwrap_or(usize::MAX);
                // A longer one is refused by the core and needs no space.
                if len > self.payload_max { 0 } else { len }
            }
            _ => 0,
        }
    }

    fn make_room(&mut self, need: usize, first: bool) -> bool {
        let free = self.arena.len().saturating_sub(self.used);
        if need <= free {
            return true;
        }
        if !first {
            return false;
        }
        let doubled = self.arena.len().saturating_mul(2).min(ARENA_MAX);
        let Some(arena) = PageBuf::try_zeroed(need.max(doubled)) else { return false };
        self.arena = arena;
        true
    }

    fn inline(
        &mut self,
        socket: &UnixStream,
        request: Request,
        need: usize,
    ) -> Result<Item, RecvError> {
        let place = self.used..self.used.saturating_add(need);
        self.used = place.end.next_multiple_of(PAGE).min(self.arena.len());
        let mut body = Vec::new();
        if request.inline_len > 0 {
            match (DIALECT.request)(request.op) {
                Inline::Body => match self.receiver.event(socket)? {
                    Some(Event::Body(bytes)) => body = bytes,
                    _ => return Err(RecvError::Truncated),
                },
                Inline::Payload => match self.receiver.event(socket)? {
                    Some(Event::Payload { .. }) => {
                        let to = self.arena.get_mut(place.clone()).unwrap_or_default();
                        self.receiver.payload(socket, &mut [to])?;
                    }
                    _ => return Err(RecvError::Truncated),
                },
                Inline::None | Inline::Skip => {}
            }
        }
        Ok(Item { request, body, place })
    }
}
