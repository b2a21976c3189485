//! A name as a caller gives it, and as a caller sees it.
//!
//! Names are UTF-8 outside and UTF-16 on disk. A unit without its other half, which only damage or
//! a careless program leaves on disk, is shown in the three bytes that UTF-8 would have for it and
//! found by them, so that everything that is listed can be opened and removed; nothing new is made
//! with one.
//!
//! Looking up refuses nothing: a name that no entry can have is not found. What may not be created
//! is refused as Windows does: forbidden and control characters, a space at the end, the names of
//! DOS devices. Dots at the end do not count, as on Linux.

use crate::codepage::CodePage;
use crate::fold::{self, UNITS_MAX};
use crate::lfn::Found;
use crate::short::Text;
use alloc::vec::Vec;
use seawall_diskfs::Refused;

/// How 8.3 names are shown and when one is enough: `shortname=` of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shortname {
    /// Shown in lower case; a name of capitals gets no long name.
    Lower,
    /// Shown as stored; a name of capitals gets no long name.
    Win95,
    /// Shown by the NT bits; base and extension of one case each get NT bits and no long name.
    WinNt,
    /// Shown by the NT bits; a name of capitals gets no long name.
    #[default]
    Mixed,
}

impl Shortname {
    /// The rule of a name: `lower`, `win95`, `winnt` or `mixed`.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "lower" => Self::Lower,
            "win95" => Self::Win95,
            "winnt" => Self::WinNt,
            "mixed" => Self::Mixed,
            _ => return None,
        })
    }
}

/// What names mean on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Of short names.
    pub codepage: CodePage,
    /// How short names are shown and made.
    pub shortname: Shortname,
    /// Every made-up alias ends in `~1` or the like; without, the bare one is tried first
    /// (`nonumtail`).
    pub numtail: bool,
}

impl Default for Rules {
    /// As Linux: code page 437, `shortname=mixed`.
    fn default() -> Self {
        Self { codepage: CodePage::CP437, shortname: Shortname::Mixed, numtail: true }
    }
}

/// A name that somebody asks for, without the dots at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// 1 to 255 units.
    pub units: Vec<u16>,
    /// [`fold::fold`] of them.
    pub folded: Vec<u16>,
}

/// What a lookup compares [`Wanted::folded`] with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Of the long name.
    pub long: Option<Vec<u16>>,
    /// Of the 8.3 name.
    pub short: Vec<u16>,
}

impl Wanted {
    /// Hash of the folded name: [`fold::hash`].
    pub fn hash(&self) -> u32 {
        fold::hash(&self.folded)
    }

    /// Whether a new entry may have this name.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for what Windows forbids.
    pub fn may_create(&self) -> Result<(), Refused> {
        let lone = || char::decode_utf16(self.units.iter().copied()).any(|c| c.is_err());
        if self.units.iter().any(|&u| is_forbidden(u))
            || self.units.last() == Some(&u16::from(b' '))
            || is_device(&self.folded)
            || lone()
        {
            return Err(Refused::Invalid);
        }
        Ok(())
    }
}

impl Rules {
    /// A name to look up.
    ///
    /// # Errors
    /// [`Refused::NotFound`] if no entry can have it (nothing left without the dots, not UTF-8),
    /// [`Refused::NameTooLong`] past 255 units.
    pub fn parse(&self, name: &[u8]) -> Result<Wanted, Refused> {
        let units = match core::str::from_utf8(without_dots(name)) {
            Ok(text) => text.encode_utf16().collect(),
            Err(_) => crate::wtf8::decode(without_dots(name)).ok_or(Refused::NotFound)?,
        };
        wanted(units)
    }

    /// A name to create, checked by [`Wanted::may_create`].
    ///
    /// # Errors
    /// As [`Rules::parse`], and [`Refused::Invalid`] for a name that is not UTF-8 or forbidden.
    pub fn parse_new(&self, name: &[u8]) -> Result<Wanted, Refused> {
        let text = core::str::from_utf8(without_dots(name)).map_err(|_| Refused::Invalid)?;
        let wanted = wanted(text.encode_utf16().collect())?;
        wanted.may_create()?;
        Ok(wanted)
    }

    /// The name to list: the long name, or the 8.3 name as [`Shortname`] says.
    pub fn shown(&self, found: &Found) -> Vec<u8> {
        match &found.long {
            Some(long) => crate::wtf8::encode(long),
            None => crate::wtf8::encode(self.short_text(found).units()),
        }
    }

    /// The alias as it is shown, for tools: what `VFAT_IOCTL_READDIR_BOTH` gives beside the long
    /// name.
    pub fn alias(&self, found: &Found) -> Vec<u8> {
        crate::wtf8::encode(self.short_text(found).units())
    }

    /// What a lookup compares.
    pub fn keys(&self, found: &Found) -> Keys {
        let long = found.long.as_deref().map(|units| fold::fold(trimmed(units)));
        Keys { long, short: fold::fold(trimmed(self.short_text(found).units())) }
    }

    /// The hashes of both keys, as [`Wanted::hash`] has them.
    pub fn hashes(&self, found: &Found) -> (Option<u32>, u32) {
        let long = found.long.as_deref().map(|units| fold::hash(trimmed(units)));
        (long, fold::hash(trimmed(self.short_text(found).units())))
    }

    /// True if `wanted` is a name of `found`, long or short.
    pub fn matches(&self, wanted: &Wanted, found: &Found) -> bool {
        self.has_key(found, &wanted.folded)
    }

    /// True if this is the folded form of a name of `found`, long or short.
    pub fn has_key(&self, found: &Found, folded: &[u16]) -> bool {
        let long = found.long.as_deref().map(trimmed);
        long.is_some_and(|long| fold::same(long, folded))
            || fold::same(trimmed(self.short_text(found).units()), folded)
    }

    fn short_text(&self, found: &Found) -> Text {
        let nt = match self.shortname {
            Shortname::Lower => u8::MAX,
            Shortname::Win95 => 0,
            Shortname::WinNt | Shortname::Mixed => found.raw.nt,
        };
        Text::new(&found.raw.name, nt, &self.codepage)
    }
}

fn wanted(units: Vec<u16>) -> Result<Wanted, Refused> {
    if units.is_empty() {
        return Err(Refused::NotFound);
    }
    if units.len() > UNITS_MAX {
        return Err(Refused::NameTooLong);
    }
    let folded = fold::fold(&units);
    Ok(Wanted { units, folded })
}

fn without_dots(mut name: &[u8]) -> &[u8] {
    while let Some(rest) = name.strip_suffix(b".") {
        name = rest;
    }
    name
}

/// Units without the dots at the end, which a lookup strips too.
fn trimmed(mut units: &[u16]) -> &[u16] {
    while let Some((&last, rest)) = units.split_last()
        && last == u16::from(b'.')
    {
        units = rest;
    }
    units
}

fn is_forbidden(unit: u16) -> bool {
    match u8::try_from(unit) {
        Ok(b) => b < 0x20 || b"\"*/:<>?\\|".contains(&b),
        Err(_) => false,
    }
}

/// The names that Windows keeps for devices in every directory, with any extension.
fn is_device(folded: &[u16]) -> bool {
    let base = folded.split(|&u| u == u16::from(b'.')).next().unwrap_or_default();
    let mut text = [0u8; 8];
    let mut len = 0;
    for &unit in base {
        let Some((place, b)) = text.get_mut(len).zip(u8::try_from(unit).ok()) else {
            // Spaces at the end of the base do not count, however many.
            if unit == u16::from(b' ') {
                continue;
            }
            return false;
        };
        *place = b;
        len += 1;
    }
    match text.get(..len).unwrap_or_default().trim_ascii_end() {
        b"CON" | b"PRN" | b"AUX" | b"NUL" | b"CONIN$" | b"CONOUT$" => true,
        // Superscript digits count as digits there.
        [b'C', b'O', b'M', digit] | [b'L', b'P', b'T', digit] => {
            matches!(digit, b'1'..=b'9' | 0xb9 | 0xb2 | 0xb3)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
