//! 8.3 names: what they look like.
//!
//! Base and extension are padded with spaces and end early at a NUL; 0x05 in the first place stands
//! for 0xE5, which would free the slot. Bytes that are no character of the code page show as `?`,
//! as on Linux; `/` and NUL, which no path can hold, as U+FFFD.

use crate::codepage::CodePage;
use crate::entry::{FREE, KANJI_E5, NT_LOWER_BASE, NT_LOWER_EXT};
use crate::lfn::REPLACED;

/// Bytes of the base.
pub(crate) const BASE: usize = 8;

/// True if a name has no characters: Linux shows no such entry.
pub fn is_blank(name: &[u8; 11]) -> bool {
    let (base, ext) = parts(name);
    base.iter().chain(ext).all(|&b| b == b' ')
}

/// Base and extension up to their NULs.
fn parts(name: &[u8; 11]) -> (&[u8], &[u8]) {
    let (base, ext) = name.split_at(BASE);
    let end = |part: &'_ [u8]| part.iter().position(|&b| b == 0).unwrap_or(part.len());
    (base.get(..end(base)).unwrap_or(base), ext.get(..end(ext)).unwrap_or(ext))
}

/// An 8.3 name as UTF-16: at most 8 units, a dot and 3 units.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    units: [u16; 12],
    len: usize,
}

impl Text {
    /// The text of a name; `nt` with the `NT_LOWER_*` bits that shall count.
    pub fn new(name: &[u8; 11], nt: u8, page: &CodePage) -> Self {
        let mut name = *name;
        if name[0] == KANJI_E5 {
            name[0] = FREE;
        }
        let (base, ext) = parts(&name);
        let mut text = Self::default();
        text.add(base, nt & NT_LOWER_BASE != 0, page);
        let without = text.len;
        text.push(u16::from(b'.'));
        let dot = text.len;
        text.add(ext, nt & NT_LOWER_EXT != 0, page);
        if text.len == dot {
            text.len = without;
        }
        // What nobody could look up: the dots of a name that is nothing else.
        if text.units().iter().all(|&u| u == u16::from(b'.')) {
            text.units = [REPLACED; 12];
        }
        text
    }

    /// The units.
    pub fn units(&self) -> &[u16] {
        self.units.get(..self.len).unwrap_or(&self.units)
    }

    fn push(&mut self, unit: u16) {
        if let Some(place) = self.units.get_mut(self.len) {
            *place = if unit == u16::from(b'/') || unit == 0 { REPLACED } else { unit };
            self.len += 1;
        }
    }

    /// Adds a part without the spaces at its end.
    fn add(&mut self, mut part: &[u8], lower: bool, page: &CodePage) {
        let mut end = self.len;
        while let Some(&first) = part.first() {
            let (c, len) = match page.decode_one(part) {
                Some((_, 1)) if lower => {
                    page.decode_one(&[page.lower(first)]).map_or(('?', 1), |(c, _)| (c, 1))
                }
                Some(one) => one,
                None => ('?', 1),
            };
            for unit in c.encode_utf16(&mut [0; 2]) {
                self.push(*unit);
            }
            if c != ' ' {
                end = self.len;
            }
            part = part.get(len..).unwrap_or_default();
        }
        self.len = end;
    }
}
