//! Volume labels: 11 bytes in the code page, in the root directory and in the boot sector.

use crate::codepage::CodePage;
use crate::entry::{FREE, KANJI_E5};
use alloc::string::String;
use seawall_diskfs::Refused;

/// What the boot sector has for no label.
pub const NO_NAME: [u8; 11] = *b"NO NAME    ";

/// The text of a label; `None` if it is blank. [`NO_NAME`] is text like any other: only in the boot
/// sector does it mean none.
pub fn label_shown(label: &[u8; 11], page: &CodePage) -> Option<String> {
    let mut label = *label;
    if label[0] == KANJI_E5 {
        label[0] = FREE;
    }
    let end = label.iter().position(|&b| b == 0).unwrap_or(label.len());
    let text = page.decode(label.get(..end)?.trim_ascii_end());
    (!text.is_empty()).then_some(text)
}

/// The bytes of a label, in capitals.
///
/// # Errors
/// [`Refused::NameTooLong`] past 11 bytes; [`Refused::Invalid`] for an empty text, a space at the
/// start, characters that Windows forbids in labels (`"*+,./:;<=>?[\]|` and controls) or that the
/// code page lacks.
pub fn label_from(text: &str, page: &CodePage) -> Result<[u8; 11], Refused> {
    let text = text.trim_end_matches(' ');
    if text.is_empty() || text.starts_with(' ') {
        return Err(Refused::Invalid);
    }
    let mut label = [b' '; 11];
    let mut places = label.iter_mut();
    for c in text.chars() {
        if c.is_control() || "\"*+,./:;<=>?[\\]|".contains(c) {
            return Err(Refused::Invalid);
        }
        let bytes = page.encode(c).ok_or(Refused::Invalid)?;
        for &b in bytes.as_slice() {
            let b = if bytes.as_slice().len() == 1 { page.upper(b) } else { b };
            *places.next().ok_or(Refused::NameTooLong)? = b;
        }
    }
    if label[0] == FREE {
        label[0] = KANJI_E5;
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: u16) -> CodePage {
        CodePage::by_number(n).unwrap()
    }

    #[test]
    fn labels_are_shown_by_code_page() {
        let shown = |l: &[u8; 11]| label_shown(l, &page(850));
        assert_eq!(shown(b"ROOTLABEL  ").as_deref(), Some("ROOTLABEL"));
        assert_eq!(shown(b"\x05T\x90        ").as_deref(), Some("\u{d5}T\u{c9}"));
        assert_eq!(shown(b"TWO WORDS  ").as_deref(), Some("TWO WORDS"));
        assert_eq!(shown(&[b' '; 11]), None);
        assert_eq!(shown(&[0; 11]), None);
    }

    #[test]
    fn labels_are_made_in_capitals() {
        let made = |s: &str| label_from(s, &page(850));
        assert_eq!(made("rootLabel"), Ok(*b"ROOTLABEL  "));
        assert_eq!(made("\u{f5}t\u{e9} "), Ok(*b"\x05T\x90        "));
        assert_eq!(made("12345678901"), Ok(*b"12345678901"));
        assert_eq!(made("123456789012"), Err(Refused::NameTooLong));
        for bad in ["", "  ", " x", "a/b", "a.b", "a\tb", "\u{20ac}", "a[", "a*"] {
            assert_eq!(made(bad), Err(Refused::Invalid), "{bad:?}");
        }
        let kanji = label_from("\u{8703}a", &page(932)).unwrap();
        assert_eq!(&kanji, b"\x05\x87A        ");
        assert_eq!(label_shown(&kanji, &page(932)).as_deref(), Some("\u{8703}A"));
    }
}
