//! Checked little-endian access to on-disk bytes. A field outside its block is a corrupt volume,
//! never a panic.

use crate::FsError;

#[cold]
fn short(off: usize) -> FsError {
    let _ = off;
    FsError::corrupt("structure", 0, "field lies outside its block")
}

/// The `N` bytes at `off`.
#[inline]
pub fn array_at<const N: usize>(b: &[u8], off: usize) -> Result<[u8; N], FsError> {
    off.checked_add(N)
        .and_then(|end| b.get(off..end))
        .and_then(|s| s.try_into().ok())
        .ok_or_else(|| short(off))
}

/// Byte at `off`.
#[inline]
pub fn u8_at(b: &[u8], off: usize) -> Result<u8, FsError> {
    b.get(off).copied().ok_or_else(|| short(off))
}

/// Little-endian u16 at `off`.
#[inline]
pub fn u16_at(b: &[u8], off: usize) -> Result<u16, FsError> {
    array_at(b, off).map(u16::from_le_bytes)
}

/// Little-endian u32 at `off`.
#[inline]
pub fn u32_at(b: &[u8], off: usize) -> Result<u32, FsError> {
    array_at(b, off).map(u32::from_le_bytes)
}

/// Little-endian u64 at `off`.
#[inline]
pub fn u64_at(b: &[u8], off: usize) -> Result<u64, FsError> {
    array_at(b, off).map(u64::from_le_bytes)
}

/// Stores bytes at `off`.
#[inline]
pub fn put(b: &mut [u8], off: usize, v: &[u8]) -> Result<(), FsError> {
    let end = off.checked_add(v.len()).ok_or_else(|| short(off))?;
    b.get_mut(off..end).ok_or_else(|| short(off))?.copy_from_slice(v);
    Ok(())
}

/// A sub-slice, or a corrupt-volume error.
#[inline]
pub fn slice(b: &[u8], off: usize, len: usize) -> Result<&[u8], FsError> {
    off.checked_add(len).and_then(|end| b.get(off..end)).ok_or_else(|| short(off))
}

/// A mutable sub-slice, or a corrupt-volume error.
#[inline]
pub fn slice_mut(b: &mut [u8], off: usize, len: usize) -> Result<&mut [u8], FsError> {
    let end = off.checked_add(len).ok_or_else(|| short(off))?;
    b.get_mut(off..end).ok_or_else(|| short(off))
}
