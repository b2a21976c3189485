//! OEM code pages by name.
//!
//! Short names and labels are bytes in the code page of the system that wrote them; nothing on the
//! volume says which. The low half is ASCII in all pages. Single-byte pages come from `oem_cp`,
//! pages with two-byte characters from `encoding_rs`, whose tables are those of the web: 932 is
//! Windows-31J, 949 is UHC, 936 is GBK and 950 is Big5 with the Hong Kong characters. A character
//! is encoded only if its bytes decode to it again, so that a name made here reads back.

use crate::fold;
use alloc::string::String;
use core::fmt;
use encoding_rs::{DecoderResult, EncoderResult, Encoding};
use oem_cp::OEMCPHashMap;
use oem_cp::code_table::{DECODING_TABLE_CP_MAP, ENCODING_TABLE_CP_MAP};
use oem_cp::code_table_type::TableType;

/// Pages from `oem_cp`, each with characters of one byte.
const SINGLE: [u16; 18] =
    [437, 720, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 874];

/// Pages from `encoding_rs`.
fn web(number: u16) -> Option<&'static Encoding> {
    Some(match number {
        932 => encoding_rs::SHIFT_JIS,
        936 => encoding_rs::GBK,
        949 => encoding_rs::EUC_KR,
        950 => encoding_rs::BIG5,
        1250 => encoding_rs::WINDOWS_1250,
        1251 => encoding_rs::WINDOWS_1251,
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Table {
    Full(&'static [char; 128], &'static OEMCPHashMap<char, u8>),
    Holes(&'static [Option<char>; 128], &'static OEMCPHashMap<char, u8>),
    Web(&'static Encoding),
}

/// A code page.
#[derive(Clone, Copy)]
pub struct CodePage {
    number: u16,
    table: Table,
}

/// The bytes of one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// One byte.
    One(u8),
    /// A lead and a trail byte.
    Two([u8; 2]),
}

impl Bytes {
    /// The bytes in order.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::One(b) => core::slice::from_ref(b),
            Self::Two(both) => both,
        }
    }
}

impl fmt::Debug for CodePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodePage({})", self.number)
    }
}

impl PartialEq for CodePage {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for CodePage {}

impl CodePage {
    /// Page 437, that of the IBM PC.
    pub const CP437: Self = Self {
        number: 437,
        table: Table::Full(
            &oem_cp::code_table::DECODING_TABLE_CP437,
            &oem_cp::code_table::ENCODING_TABLE_CP437,
        ),
    };

    /// The page of a name: the number, alone or after `cp`, `ibm`, `oem` or `windows-`.
    pub fn by_name(name: &str) -> Option<Self> {
        let lower = name.trim().to_ascii_lowercase();
        let digits = ["cp", "ibm", "oem", "windows"]
            .iter()
            .find_map(|prefix| lower.strip_prefix(prefix))
            .map_or(lower.as_str(), |rest| rest.strip_prefix(['-', '_']).unwrap_or(rest));
        // `parse` takes a sign.
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Self::by_number(digits.parse().ok()?)
    }

    /// The page of a number.
    pub fn by_number(number: u16) -> Option<Self> {
        if let Some(encoding) = web(number) {
            return Some(Self { number, table: Table::Web(encoding) });
        }
        if !SINGLE.contains(&number) {
            return None;
        }
        let encode = *ENCODING_TABLE_CP_MAP.get(&number)?;
        let table = match DECODING_TABLE_CP_MAP.get(&number)? {
            TableType::Complete(decode) => Table::Full(decode, encode),
            TableType::Incomplete(decode) => Table::Holes(decode, encode),
        };
        Some(Self { number, table })
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// All names, for a message.
    pub fn names() -> &'static str {
        "437, 720, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 874, \
         932, 936, 949, 950, 1250, 1251"
    }

    /// The first character of `bytes` and how many bytes it takes; `None` if they start with no
    /// character of this page. The controls U+0080 to U+009F, with which the tables fill holes, are
    /// none, as on Linux.
    pub fn decode_one(&self, bytes: &[u8]) -> Option<(char, usize)> {
        self.table_decode(bytes).filter(|(c, _)| !('\u{80}'..='\u{9f}').contains(c))
    }

    fn table_decode(&self, bytes: &[u8]) -> Option<(char, usize)> {
        let first = *bytes.first()?;
        if first < 0x80 {
            return Some((char::from(first), 1));
        }
        let at = usize::from(first & 0x7f);
        match self.table {
            Table::Full(decode, _) => Some((*decode.get(at)?, 1)),
            Table::Holes(decode, _) => Some(((*decode.get(at)?)?, 1)),
            Table::Web(encoding) => {
                let one = |len: usize| Some((only_char(encoding, bytes.get(..len)?)?, len));
                one(1).or_else(|| one(2))
            }
        }
    }

    /// The text of `bytes`, `?` for each byte that starts no character.
    pub fn decode(&self, mut bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        while !bytes.is_empty() {
            let (c, len) = self.decode_one(bytes).unwrap_or(('?', 1));
            text.push(c);
            bytes = bytes.get(len..).unwrap_or_default();
        }
        text
    }

    /// The bytes of a character, if this page has it.
    pub fn encode(&self, c: char) -> Option<Bytes> {
        if c.is_ascii() {
            return Some(Bytes::One(c as u8));
        }
        let bytes = match self.table {
            Table::Full(_, encode) | Table::Holes(_, encode) => Bytes::One(*encode.get(&c)?),
            Table::Web(encoding) => web_encode(encoding, c)?,
        };
        (self.decode_one(bytes.as_slice()) == Some((c, bytes.as_slice().len()))).then_some(bytes)
    }

    /// The byte of the upper case of a one-byte character, itself if the page has none.
    pub fn upper(&self, byte: u8) -> u8 {
        self.changed(byte, u8::to_ascii_uppercase, |c| {
            let unit = u16::try_from(u32::from(c)).ok()?;
            char::from_u32(u32::from(fold::unit(unit)))
        })
    }

    /// The byte of the lower case of a one-byte character, itself if the page has none.
    pub fn lower(&self, byte: u8) -> u8 {
        self.changed(byte, u8::to_ascii_lowercase, fold::lower)
    }

    fn changed(
        &self,
        byte: u8,
        ascii: impl Fn(&u8) -> u8,
        other: impl Fn(char) -> Option<char>,
    ) -> u8 {
        if byte < 0x80 {
            return ascii(&byte);
        }
        let changed = || match self.encode(other(self.decode_one(&[byte])?.0)?)? {
            Bytes::One(b) => Some(b),
            Bytes::Two(_) => None,
        };
        changed().unwrap_or(byte)
    }
}

/// The character that all of `bytes` are, if they are one.
fn only_char(encoding: &'static Encoding, bytes: &[u8]) -> Option<char> {
    let mut text = [0u8; 16];
    let (result, read, written) = encoding
        .new_decoder_without_bom_handling()
        .decode_to_utf8_without_replacement(bytes, &mut text, true);
    if result != DecoderResult::InputEmpty || read != bytes.len() {
        return None;
    }
    let mut chars = core::str::from_utf8(text.get(..written)?).ok()?.chars();
    let c = chars.next()?;
    chars.next().is_none().then_some(c)
}

fn web_encode(encoding: &'static Encoding, c: char) -> Option<Bytes> {
    let mut text = [0u8; 4];
    let mut bytes = [0u8; 16];
    let (result, _, written) = encoding.new_encoder().encode_from_utf8_without_replacement(
        c.encode_utf8(&mut text),
        &mut bytes,
        true,
    );
    match (result, bytes.get(..written)?) {
        (EncoderResult::InputEmpty, &[one]) => Some(Bytes::One(one)),
        (EncoderResult::InputEmpty, &[lead, trail]) => Some(Bytes::Two([lead, trail])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn page(n: u16) -> CodePage {
        CodePage::by_number(n).unwrap()
    }

    #[test]
    fn pages_have_many_spellings() {
        for name in ["437", "cp437", "CP437", "IBM437", "cp-437", "oem437"] {
            assert_eq!(CodePage::by_name(name), Some(CodePage::CP437), "{name}");
        }
        assert_eq!(CodePage::by_name("windows-1251"), Some(page(1251)));
        for name in ["", "cp", "+437", "cp+437", "-437", "65001", "utf8", "438", "99999"] {
            assert_eq!(CodePage::by_name(name), None, "{name}");
        }
    }

    #[test]
    fn every_named_page_is_there_and_reads_what_it_writes() {
        for name in CodePage::names().split(", ") {
            let page = CodePage::by_name(name).unwrap();
            assert_eq!(page.number().to_string(), name);
            let mut known = 0;
            for c in (0..=0xffffu32).filter_map(char::from_u32) {
                if let Some(bytes) = page.encode(c) {
                    known += 1;
                    let bytes = bytes.as_slice();
                    assert_eq!(page.decode_one(bytes), Some((c, bytes.len())), "{name} {c:?}");
                }
            }
            assert!(known > 200, "{name}: {known}");
        }
    }

    #[test]
    fn bytes_decode_by_page() {
        assert_eq!(page(850).decode(b"\xe5\x87\x54\x90"), "\u{d5}\u{e7}T\u{c9}");
        assert_eq!(page(437).decode(b"\xe5\xe1"), "\u{3c3}\u{df}");
        assert_eq!(page(866).decode(b"\xe5\x87"), "\u{445}\u{417}");
        assert_eq!(page(858).decode(b"\xd5"), "\u{20ac}");
        // U+8703 in two bytes; a lead byte before a space, and one at the end, are no characters.
        assert_eq!(page(932).decode(b"\xe5\x87A\xe5 \xe5"), "\u{8703}A? ?");
        assert_eq!(page(932).decode(b"\xb1\x5c"), "\u{ff71}\\");
        assert_eq!(page(936).decode(b"\xc4\xe3"), "\u{4f60}");
        assert_eq!(page(949).decode(b"\xb0\xa1"), "\u{ac00}");
        assert_eq!(page(950).decode(b"\xa7\x41"), "\u{4f60}");
    }

    #[test]
    fn what_does_not_come_back_is_not_encoded() {
        // The encoder of the web turns these into a backslash and a tilde.
        assert_eq!(page(932).encode('\u{a5}'), None);
        assert_eq!(page(932).encode('\u{203e}'), None);
        assert_eq!(page(437).encode('\u{20ac}'), None);
        assert_eq!(page(932).encode('\u{8703}'), Some(Bytes::Two([0xe5, 0x87])));
    }

    #[test]
    fn case_stays_inside_the_page() {
        assert_eq!(page(437).upper(0x84), 0x8e);
        assert_eq!(page(437).lower(0x8e), 0x84);
        assert_eq!(page(437).upper(0x98), 0x98, "no capital y with diaeresis here");
        assert_eq!(page(437).upper(0xe1), 0xe1, "sharp s");
        assert_eq!(page(850).upper(0xd5), 0xd5, "dotless i is not i");
        assert_eq!(page(866).upper(0xa0), 0x80);
        assert_eq!(page(932).upper(0xb1), 0xb1);
        assert_eq!([page(437).upper(b'z'), page(437).lower(b'Z')], [b'Z', b'z']);
    }

    #[test]
    fn any_bytes_decode() {
        for name in CodePage::names().split(", ") {
            let page = CodePage::by_name(name).unwrap();
            for a in 0..=255u8 {
                for b in 0..=255u8 {
                    let text = page.decode(&[a, b]);
                    assert!((1..=2).contains(&text.chars().count()), "{name} {a:02x} {b:02x}");
                    assert!(text.encode_utf16().count() <= 2);
                }
                page.upper(a);
                page.lower(a);
            }
        }
    }
}
