//! The memory of a check: bitmaps and tables in pieces that are made when something is put into
//! them, all of them paid from one budget. A volume that needs more is refused, whatever it claims
//! to be.

use crate::FsError;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// Bytes of a piece of a bitmap.
const PIECE: usize = 4096;
/// Bits of a piece.
const PIECE_BITS: u64 = 8 * PIECE as u64;

/// Memory that a check may still use.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    all: u64,
}

impl Budget {
    /// `bytes` of memory.
    pub fn new(bytes: u64) -> Self {
        Self { left: bytes, all: bytes }
    }

    /// Takes `count` things of `size` bytes.
    ///
    /// # Errors
    /// `Unsupported` when that is more than is left.
    pub fn take(&mut self, count: u64, size: usize) -> Result<(), FsError> {
        let bytes = count.saturating_mul(size as u64);
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(FsError::unsupported(format!(
                "a check of this volume in {} bytes of memory",
                self.all
            ))),
        }
    }

    /// Gives back what was taken.
    pub fn give(&mut self, count: u64, size: usize) {
        self.left = self.left.saturating_add(count.saturating_mul(size as u64)).min(self.all);
    }
}

/// `count` pieces of a table, none of them made, paid from `budget`.
///
/// # Errors
/// `Unsupported` when it is not enough.
pub fn pieces<T>(count: u64, budget: &mut Budget) -> Result<Vec<Option<T>>, FsError> {
    budget.take(count, size_of::<Option<T>>())?;
    let n = usize::try_from(count).map_err(|_| FsError::unsupported("a volume of this size"))?;
    Ok(core::iter::repeat_with(|| None).take(n).collect())
}

/// A bitmap.
#[derive(Debug)]
pub struct Bits(Vec<Option<Box<[u8]>>>);

impl Bits {
    /// `len` clear bits.
    ///
    /// # Errors
    /// As [`Budget::take`].
    pub fn new(len: u64, budget: &mut Budget) -> Result<Self, FsError> {
        Ok(Self(pieces(len.div_ceil(PIECE_BITS), budget)?))
    }

    fn piece(&self, n: u64) -> Option<&[u8]> {
        let at = usize::try_from(n / PIECE_BITS).ok()?;
        self.0.get(at)?.as_deref()
    }

    /// Bit `n`; clear past the end.
    pub fn get(&self, n: u64) -> bool {
        self.byte(n / 8) & 1 << (n % 8) != 0
    }

    /// Bits `8 * at` to `8 * at + 7`.
    pub fn byte(&self, at: u64) -> u8 {
        let piece = self.piece(at.saturating_mul(8));
        piece.and_then(|p| p.get(at as usize % PIECE)).copied().unwrap_or(0)
    }

    /// Sets bit `n` and says whether it was set.
    ///
    /// # Errors
    /// As [`Budget::take`]; `Bug` for a bit past the end.
    pub fn set(&mut self, n: u64, budget: &mut Budget) -> Result<bool, FsError> {
        let at = usize::try_from(n / PIECE_BITS).unwrap_or(usize::MAX);
        let Some(slot) = self.0.get_mut(at) else {
            return Err(FsError::Bug("a bit outside the checker's map"));
        };
        if slot.is_none() {
            budget.take(1, PIECE)?;
        }
        let piece = slot.get_or_insert_with(|| alloc::vec![0u8; PIECE].into_boxed_slice());
        let mask = 1 << (n % 8);
        let Some(byte) = piece.get_mut((n % PIECE_BITS / 8) as usize) else { return Ok(false) };
        let was = *byte & mask != 0;
        *byte |= mask;
        Ok(was)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_and_paid_for() {
        let mut budget = Budget::new(15_000);
        let mut bits = Bits::new(1 << 20, &mut budget).unwrap();
        for n in [0, 7, 8, 40_000, (1 << 20) - 1] {
            assert!(!bits.get(n));
            assert!(!bits.set(n, &mut budget).unwrap());
            assert!(bits.set(n, &mut budget).unwrap());
            assert!(bits.get(n));
        }
        assert_eq!(bits.byte(0), 0x81);
        assert_eq!(bits.byte(5000), 1);
        assert!(matches!(bits.set(500_000, &mut budget), Err(FsError::Unsupported(_))));
        assert!(bits.set(1 << 21, &mut budget).is_err());
        assert!(Bits::new(u64::MAX, &mut budget).is_err());
    }
}
