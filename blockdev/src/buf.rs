//! Page-aligned byte buffers without `unsafe`.
//!
//! A payload that starts 1 to 63 bytes past a page boundary relative to its source makes the
//! processor's string copy two to three times slower (a plain `Vec<u8>` of a large allocation
//! starts 16 bytes past one), and `O_DIRECT` refuses it. So every payload, cache block and data
//! page lives in a [`PageBuf`].

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment and granularity of a [`PageBuf`], in bytes.
pub const PAGE: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// An owned byte buffer whose first byte is page aligned. Length is in bytes and need not be a
/// multiple of a page; the allocation is rounded up to whole pages.
#[derive(Clone, Default)]
pub struct PageBuf {
    pages: Vec<Page>,
    len: usize,
}

impl PageBuf {
    /// A zeroed buffer of `len` bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: alloc::vec![Page([0; PAGE]); len.div_ceil(PAGE)], len }
    }

    /// A zeroed buffer, or `None` when the allocator refuses. For lengths that a peer chose.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let n = len.div_ceil(PAGE);
        let mut pages = Vec::new();
        pages.try_reserve_exact(n).ok()?;
        pages.resize(n, Page([0; PAGE]));
        Some(Self { pages, len })
    }

    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        let (whole, rest) = bytes.as_chunks::<PAGE>();
        let mut pages = Vec::with_capacity(bytes.len().div_ceil(PAGE));
        // Straight into place: to zero the pages first would double the memory traffic.
        pages.extend(whole.iter().map(|page| Page(*page)));
        if !rest.is_empty() {
            let mut last = [0; PAGE];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            pages.push(Page(last));
        }
        Self { pages, len: bytes.len() }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shortens the buffer; a longer `len` is ignored.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Bytes held from the allocator, for memory budgets.
    pub fn footprint(&self) -> usize {
        self.pages.capacity().saturating_mul(PAGE)
    }
}

impl Deref for PageBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.pages.as_bytes().get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for PageBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.pages.as_mut_bytes().get_mut(..len).unwrap_or_default()
    }
}

impl core::fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PageBuf({} bytes)", self.len)
    }
}

impl PartialEq for PageBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PageBuf {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_page_and_keeps_its_length() {
        for len in [0usize, 1, 4095, 4096, 4097, 1 << 20] {
            let mut b = PageBuf::zeroed(len);
            assert_eq!(b.len(), len);
            assert_eq!(b.as_ptr() as usize % PAGE, 0);
            b.fill(7);
            assert!(b.iter().all(|x| *x == 7));
        }
        assert_eq!(&*PageBuf::from_slice(b"abc"), b"abc");
        for len in [0usize, 1, 4095, 4096, 4097, 3 * 4096, 3 * 4096 + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(&*PageBuf::from_slice(&bytes), bytes);
        }
        let mut b = PageBuf::from_slice(b"abc");
        b.truncate(2);
        b.truncate(9);
        assert_eq!(&*b, b"ab");
    }
}
