//! What makes two names the same: the upper case of every UTF-16 unit.
//!
//! Windows compares long names unit by unit with a fixed upper-case table (the one that NTFS keeps
//! in `$UpCase`). [`unit()`] follows it from `core`'s Unicode tables: a character goes to its
//! simple upper case if that is one character whose lower case leads back, so that dotless i, long
//! s, the micro sign and the titlecase digraphs stay themselves; final sigma goes to sigma, and
//! Greek letters with iota subscript to their one-unit capitals. Surrogate pairs are not folded: to
//! Windows U+10428 and U+10400 are two files, and folding more than it does would make one of them
//! unreachable. All that the table of Windows Vista folds is folded here into the same classes;
//! letters that Unicode has got since (version 5.0: Georgian capitals, Cherokee, more Latin and
//! Cyrillic) are folded here and not there.

use alloc::vec::Vec;
use seawall_diskfs::name_hash;

/// Longest long name in UTF-16 units.
pub const UNITS_MAX: usize = 255;

/// The upper case of one unit.
#[inline]
pub fn unit(u: u16) -> u16 {
    match u {
        0x61..=0x7a => u - 0x20,
        0..=0x7f => u,
        _ => beyond_ascii(u),
    }
}

fn beyond_ascii(u: u16) -> u16 {
    match u {
        0x03c2 => return 0x03a3,
        0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => return u + 8,
        0x1fb3 | 0x1fc3 | 0x1ff3 => return u + 9,
        _ => {}
    }
    char::from_u32(u32::from(u))
        .and_then(|c| upper(c).filter(|up| lower(*up) == Some(c)))
        .and_then(|up| u16::try_from(u32::from(up)).ok())
        .unwrap_or(u)
}

/// Upper case, if it is one character.
pub(crate) fn upper(c: char) -> Option<char> {
    let mut all = c.to_uppercase();
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// Lower case, if it is one character.
pub(crate) fn lower(c: char) -> Option<char> {
    let mut all = c.to_lowercase();
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// The folded form of a name.
pub fn fold(units: &[u16]) -> Vec<u16> {
    units.iter().map(|&u| unit(u)).collect()
}

/// True if both names are the same, without folding either into memory.
pub fn same(a: &[u16], b: &[u16]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&x, &y)| x == y || unit(x) == unit(y))
}

/// The folded name as bytes, low byte of each unit first: what [`hash`] hashes.
pub fn key(units: &[u16]) -> Vec<u8> {
    units.iter().flat_map(|&u| unit(u).to_le_bytes()).collect()
}

/// Hash of the folded form of a name; takes names as they are and folded ones alike. Units past
/// [`UNITS_MAX`] do not count.
pub fn hash(units: &[u16]) -> u32 {
    let mut bytes = [0u8; UNITS_MAX * 2];
    let mut len = 0;
    for (place, &u) in bytes.chunks_exact_mut(2).zip(units) {
        place.copy_from_slice(&unit(u).to_le_bytes());
        len += 2;
    }
    name_hash(bytes.get(..len).unwrap_or(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(s: &str) -> alloc::string::String {
        let units: Vec<u16> = s.encode_utf16().collect();
        alloc::string::String::from_utf16(&fold(&units)).unwrap()
    }

    #[test]
    fn letters_fold_as_windows_folds_them() {
        assert_eq!(folded("abc.TXT-09"), "ABC.TXT-09");
        assert_eq!(folded("\u{e4}\u{f6}\u{fc}\u{ff}"), "\u{c4}\u{d6}\u{dc}\u{178}");
        assert_eq!(folded("\u{3c3}\u{3c2}\u{3a3}"), "\u{3a3}\u{3a3}\u{3a3}");
        assert_eq!(folded("\u{436}\u{45e}"), "\u{416}\u{40e}");
        assert_eq!(folded("\u{1f80}\u{1fb3}"), "\u{1f88}\u{1fbc}");
        assert_eq!(folded("\u{ff41}\u{24d0}\u{2170}"), "\u{ff21}\u{24b6}\u{2160}");
        // Two characters, no upper case of its own, or a way that does not lead back.
        for same in ["\u{df}", "\u{149}", "\u{131}", "\u{17f}", "\u{b5}", "\u{1c5}", "\u{130}"] {
            assert_eq!(folded(same), same);
        }
        assert_eq!(folded("\u{10428}"), "\u{10428}");
    }

    #[test]
    fn folding_twice_is_folding_once() {
        for u in 0..=u16::MAX {
            assert_eq!(unit(unit(u)), unit(u), "{u:04x}");
        }
    }

    #[test]
    fn the_hash_is_that_of_the_key() {
        for name in ["", "a", "Stra\u{df}e.txt", "\u{1f600}"] {
            let units: Vec<u16> = name.encode_utf16().collect();
            assert_eq!(hash(&units), name_hash(&key(&units)));
            assert_eq!(hash(&units), hash(&fold(&units)));
            assert!(same(&units, &fold(&units)));
        }
        let long: Vec<u16> = core::iter::repeat_n(0x78, UNITS_MAX).collect();
        assert_eq!(hash(&long), name_hash(&key(&long)));
        assert!(!same(&[0x61], &[0x61, 0x62]));
    }
}
