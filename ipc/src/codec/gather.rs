//! Lining up messages for one vectored send.

use super::{Dialect, Header};
use alloc::vec::Vec;
use core::ops::Range;

/// One piece of a vectored send, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Headers and bodies, copied into the gather's own buffer.
    Copied(&'a [u8]),
    /// A payload, sent from where it lies.
    Borrowed(&'a [u8]),
}

impl<'a> Part<'a> {
    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Copied(b) | Self::Borrowed(b) => b,
        }
    }
}

enum Piece<'p> {
    Copied(Range<usize>),
    Borrowed(&'p [u8]),
}

/// Messages waiting for one vectored send. Headers and bodies are copied side by side (32 or 64
/// bytes each); payloads are borrowed.
pub struct Gather<'p> {
    dialect: Dialect,
    copied: Vec<u8>,
    pieces: Vec<Piece<'p>>,
    len: usize,
}

impl<'p> Gather<'p> {
    /// An empty gather.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, copied: Vec::new(), pieces: Vec::new(), len: 0 }
    }

    /// Adds a message without inline bytes.
    pub fn message<H: Header>(&mut self, header: &H) {
        self.push_header(header, 0);
    }

    /// Adds a message with a control body. The header's inline length is set here.
    pub fn message_with_body<H: Header>(&mut self, header: &H, body: &[u8]) {
        self.push_header(header, body.len());
        self.raw(body);
    }

    /// Adds a message with a payload in one or more slices.
    pub fn message_with_payload<H, I>(&mut self, header: &H, payload: I)
    where
        H: Header,
        I: IntoIterator<Item = &'p [u8]> + Clone,
    {
        let len = payload.clone().into_iter().map(<[u8]>::len).sum();
        self.push_header(header, len);
        for slice in payload {
            if !slice.is_empty() {
                self.pieces.push(Piece::Borrowed(slice));
                self.len = self.len.saturating_add(slice.len());
            }
        }
    }

    /// Adds bytes that are already encoded.
    pub fn raw(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        self.extend(start);
    }

    fn push_header<H: Header>(&mut self, header: &H, inline: usize) {
        // A length that does not fit is larger than any limit: the peer refuses it.
        let header = header.with_inline_len(u32::try_from(inline).unwrap_or(u32::MAX));
        let start = self.copied.len();
        header.put(&self.dialect, &mut self.copied);
        self.extend(start);
    }

    fn extend(&mut self, start: usize) {
        let end = self.copied.len();
        self.len = self.len.saturating_add(end.saturating_sub(start));
        match self.pieces.last_mut() {
            Some(Piece::Copied(range)) => range.end = end,
            _ => self.pieces.push(Piece::Copied(start..end)),
        }
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in wire order.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Copied(range) => {
                Part::Copied(self.copied.get(range.clone()).unwrap_or_default())
            }
            Piece::Borrowed(bytes) => Part::Borrowed(bytes),
        })
    }

    /// All bytes copied together; for tests and for transports without vectored sends.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.parts().for_each(|part| out.extend_from_slice(part.bytes()));
        out
    }
}
