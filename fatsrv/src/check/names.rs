//! The names of one directory: those that may not be, and those that stand twice.

use super::finding::Kind;
use crate::entry::{KANJI_E5, RawEntry};
use crate::fold;
use crate::lfn::Found;
use crate::name::Rules;
use alloc::vec::Vec;
use seawall_diskfs::FsError;
use seawall_diskfs::check::Budget;

/// Names for which memory is taken at a time.
const STEP: usize = 256;

/// Bit of the NT byte: the short name is only there because the slot has a place for one. Some
/// drivers set it beside a long name.
pub(super) const NT_NO_SHORT: u8 = 0x20;

/// True for a short name that the reference renames; `long`: a long name is before it.
pub(super) fn is_bad(raw: &RawEntry, long: bool) -> bool {
    if raw.nt & NT_NO_SHORT != 0 {
        return !long;
    }
    let bad = |(i, b): (usize, &u8)| {
        let control = *b < b' ' && !(i == 0 && *b == KANJI_E5);
        control || *b == 0x7F || b"*?<>|\"\\/:.".contains(b)
    };
    raw.name.first() == Some(&b' ') || raw.name.iter().enumerate().any(bad)
}

/// 64-bit FNV-1a.
fn hash(units: &[u16]) -> u64 {
    let mix = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3);
    fold::key(units).into_iter().fold(0xCBF2_9CE4_8422_2325, mix)
}

/// What is kept of each name until the directory was read.
#[derive(Default)]
pub(super) struct Names {
    short: Vec<([u8; 11], u32)>,
    /// Folded names, long and short, by their hash: two names of one hash are one to a lookup, but
    /// for one in 2^64.
    folded: Vec<(u64, u32)>,
}

impl Names {
    /// Notes the name of a slot, whose short form may be a second time in `found`.
    pub(super) fn add(
        &mut self,
        (name, slot): (&[u8; 11], u32),
        found: Option<&Found>,
        rules: &Rules,
        budget: &mut Budget,
    ) -> Result<(), FsError> {
        if self.short.len().is_multiple_of(STEP) {
            budget.take(STEP as u64, size_of::<([u8; 11], u32)>() + 2 * size_of::<(u64, u32)>())?;
        }
        self.short.push((*name, slot));
        if let Some(found) = found {
            let keys = rules.keys(found);
            let short = hash(&keys.short);
            self.folded.push((short, slot));
            let long = keys.long.map(|k| hash(&k)).filter(|h| *h != short);
            self.folded.extend(long.map(|h| (h, slot)));
        }
        Ok(())
    }

    /// Tells which slots have a name that an earlier slot has.
    pub(super) fn finish(mut self, budget: &mut Budget, tell: &mut dyn FnMut(Kind, u32)) {
        let steps = self.short.len().div_ceil(STEP) as u64;
        let size = size_of::<([u8; 11], u32)>() + 2 * size_of::<(u64, u32)>();
        budget.give(steps * STEP as u64, size);
        self.short.sort_unstable();
        let mut twice = Vec::new();
        for pair in self.short.windows(2) {
            if let [(a, _), (b, slot)] = pair
                && a == b
            {
                twice.push(*slot);
                tell(Kind::NameTwice, *slot);
            }
        }
        twice.sort_unstable();
        self.folded.sort_unstable();
        for pair in self.folded.windows(2) {
            if let [(a, one), (b, slot)] = pair
                && a == b
                && one != slot
                && twice.binary_search(slot).is_err()
            {
                tell(Kind::NameSame, *slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_short_names() {
        let is_bad = |name: &[u8; 11], nt, long| {
            is_bad(&RawEntry { name: *name, nt, ..RawEntry::default() }, long)
        };
        for good in [b"A          ", b"a b+,;=[TXT", b"\x05BC        ", b"\xE4\xFF       \x80 "] {
            assert!(!is_bad(good, 0x18, false), "{}", good.escape_ascii());
            assert!(is_bad(good, 0x20, false));
        }
        let wrong =
            [b" A         ", b"A\x05         ", b"A.B        ", b"A/         ", b"A\x7F         "];
        for bad in wrong {
            assert!(is_bad(bad, 0, true), "{}", bad.escape_ascii());
            assert!(!is_bad(bad, 0x20, true));
        }
    }
}
