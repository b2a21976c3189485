//! A shared view into a page-aligned buffer: how payloads travel without copies.

use alloc::sync::Arc;
use seawall_blockdev::PageBuf;

/// A byte range of a shared [`PageBuf`]. Cloning shares.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    buf: Arc<PageBuf>,
    off: usize,
    len: usize,
}

impl Slice {
    /// The whole buffer.
    pub fn new(buf: PageBuf) -> Self {
        let len = buf.len();
        Self { buf: Arc::new(buf), off: 0, len }
    }

    /// The whole of a shared buffer.
    pub fn shared(buf: Arc<PageBuf>) -> Self {
        let len = buf.len();
        Self { buf, off: 0, len }
    }

    /// A part of this view; clamped to it.
    pub fn part(&self, off: usize, len: usize) -> Self {
        let off = off.min(self.len);
        let len = len.min(self.len.saturating_sub(off));
        Self { buf: self.buf.clone(), off: self.off.saturating_add(off), len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same bytes in a buffer of their own, when the one they are in is much larger: a small
    /// rest must not hold the memory of all that was overwritten around it.
    pub(crate) fn compact(self) -> Self {
        if self.is_empty() || self.buf.len() / 16 < self.len {
            return self;
        }
        PageBuf::try_zeroed(self.len).map_or(self.clone(), |mut buf| {
            buf.copy_from_slice(&self);
            Self::new(buf)
        })
    }

    /// The bytes for changing, when nobody else holds the buffer.
    pub(crate) fn unique_mut(&mut self) -> Option<&mut [u8]> {
        let end = self.off.saturating_add(self.len);
        Arc::get_mut(&mut self.buf)?.get_mut(self.off..end)
    }
}

impl core::ops::Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buf.get(self.off..self.off.saturating_add(self.len)).unwrap_or_default()
    }
}

impl From<PageBuf> for Slice {
    fn from(buf: PageBuf) -> Self {
        Self::new(buf)
    }
}
