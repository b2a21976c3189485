//! 8.3 names: how a new entry gets one.
//!
//! A name that fits 8.3 by itself is its own alias. Any other gets what is left of it in the code
//! page, in capitals, and a tail that makes it unlike all aliases of the directory: `~1` to `~9`,
//! then four digits of a hash. The hash is of the name, so that an attempt repeated after a miss
//! asks about the same aliases.

use crate::codepage::Bytes;
use crate::entry::{FREE, KANJI_E5, NT_LOWER_BASE, NT_LOWER_EXT};
use crate::fold;
use crate::name::{Rules, Shortname, Wanted};
use crate::short::{BASE, Text};
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, Refused};

/// Hashed aliases tried. They all differ and a directory holds no more entries, so one is free.
const TRIES: u32 = 1 << 16;

/// What a new entry has on disk for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The short name.
    pub short: [u8; 11],
    /// The NT byte.
    pub nt: u8,
    /// The long name, if the short one does not say it all.
    pub long: Option<Vec<u16>>,
}

impl Encoded {
    /// Slots that the entry takes, 1 to 21.
    pub fn slots(&self) -> usize {
        1 + self.long.as_ref().map_or(0, |u| u.len().div_ceil(crate::lfn::UNITS_PER_SLOT))
    }

    /// The slots of the long name, to stand before the short slot; see [`crate::lfn::long_slots`].
    pub fn long_slots(&self) -> Vec<[u8; crate::entry::SLOT]> {
        self.long.as_ref().map_or_else(Vec::new, |u| crate::lfn::long_slots(u, &self.short))
    }
}

/// Base or extension of an alias.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: [u8; BASE],
    len: usize,
    /// Most bytes of whole characters that leave room for `~1`, and for a hash and `~1`.
    cut: [usize; 2],
    /// No letter but capitals, and none past ASCII.
    upper: bool,
    /// No letter but small ones, and none past ASCII.
    lower: bool,
    /// Nothing was left out or replaced.
    whole: bool,
}

/// Bytes before `~1`, and before a hash and `~1`.
const CUTS: [usize; 2] = [6, 2];

impl Rules {
    /// What a new entry has on disk for a name that [`Wanted::may_create`].
    ///
    /// `taken` tells if an entry of the directory has a short name; one that the new entry replaces
    /// (a rename that changes the case only) must not count. It is asked at most 65,546 times.
    ///
    /// # Errors
    /// [`Refused::Invalid`] if the name consists of dots and spaces, [`Refused::NoSpace`] if all
    /// aliases are taken, and what `taken` fails with.
    pub fn encode(
        &self,
        wanted: &Wanted,
        taken: &mut dyn FnMut(&[u8; 11]) -> Attempt<bool>,
    ) -> Attempt<Encoded> {
        let (base, ext) = self.split(&wanted.units);
        let (base, ext) = (self.part(base, BASE), self.part(ext, 3));
        if base.len == 0 {
            return Err(Refused::Invalid.into());
        }
        let short = assemble(&base, base.len, &[], &ext);
        let long = || Some(wanted.units.clone());
        if base.whole && ext.whole && self.says(&short, wanted) {
            if !taken(&short)? {
                let nt = self.nt_bits(&base, &ext);
                return Ok(Encoded {
                    short,
                    nt: nt.unwrap_or(0),
                    long: if nt.is_some() { None } else { long() },
                });
            }
        } else if !self.numtail && !taken(&short)? {
            return Ok(Encoded { short, nt: 0, long: long() });
        }
        let short = unlike(&base, &ext, wanted.hash(), taken)?;
        Ok(Encoded { short, nt: 0, long: long() })
    }

    /// True if a lookup of the name finds it by this short name alone.
    fn says(&self, short: &[u8; 11], wanted: &Wanted) -> bool {
        fold::same(Text::new(short, 0, &self.codepage).units(), &wanted.folded)
    }

    /// The NT byte with which the short name shows the name itself, if one does.
    fn nt_bits(&self, base: &Part, ext: &Part) -> Option<u8> {
        match self.shortname {
            Shortname::WinNt => {
                let bit = |p: &Part, bit| match (p.upper, p.lower) {
                    (true, _) => Some(0),
                    (false, true) => Some(bit),
                    (false, false) => None,
                };
                Some(bit(base, NT_LOWER_BASE)? | bit(ext, NT_LOWER_EXT)?)
            }
            Shortname::Lower | Shortname::Win95 | Shortname::Mixed => {
                (base.upper && ext.upper).then_some(0)
            }
        }
    }

    /// Base and extension: at the last dot, if something that counts stands before it.
    fn split<'a>(&self, units: &'a [u16]) -> (&'a [u16], &'a [u16]) {
        let dot = units.iter().rposition(|&u| u == u16::from(b'.'));
        match dot.and_then(|at| units.split_at_checked(at)) {
            Some((base, [_, ext @ ..]))
                if !ext.is_empty() && !base.iter().all(|&u| is_left_out(u)) =>
            {
                (base, ext)
            }
            _ => (units, &[]),
        }
    }

    fn part(&self, units: &[u16], room: usize) -> Part {
        let mut part =
            Part { bytes: [b' '; BASE], len: 0, cut: CUTS, upper: true, lower: true, whole: true };
        for (i, &unit) in units.iter().enumerate() {
            if is_left_out(unit) {
                part.whole = false;
                continue;
            }
            let bytes = self.character(unit, &mut part);
            let end = part.len + bytes.as_slice().len();
            if end > room {
                part.whole = false;
                break;
            }
            for (cut, most) in part.cut.iter_mut().zip(CUTS) {
                if part.len < most && end > most {
                    *cut = part.len;
                }
            }
            for &b in bytes.as_slice() {
                if let Some(place) = part.bytes.get_mut(part.len) {
                    *place = b;
                    part.len += 1;
                }
            }
            if part.len == room {
                part.whole &= i + 1 == units.len();
                break;
            }
        }
        part
    }

    /// The bytes of a unit in an alias; what they cannot say is noted in `part`. DEL is no control
    /// character for DOS, but fsck.fat renames what has one.
    fn character(&self, unit: u16, part: &mut Part) -> Bytes {
        let bytes = char::from_u32(u32::from(unit))
            .filter(|c| !"\"*+,/:;<=>?[\\]|".contains(*c) && !c.is_ascii_control())
            .and_then(|c| self.codepage.encode(c));
        match bytes {
            None => {
                part.whole = false;
                Bytes::One(b'_')
            }
            Some(Bytes::One(b)) => {
                let up = self.codepage.upper(b);
                if b >= 0x7f {
                    (part.upper, part.lower) = (false, false);
                } else if up != b {
                    part.upper = false;
                } else if up.is_ascii_alphabetic() {
                    part.lower = false;
                }
                Bytes::One(up)
            }
            Some(two) => {
                (part.upper, part.lower) = (false, false);
                two
            }
        }
    }
}

/// Left out of an alias.
fn is_left_out(unit: u16) -> bool {
    unit == u16::from(b'.') || unit == u16::from(b' ')
}

/// The first `len` bytes of the base, `tail`, and the extension.
fn assemble(base: &Part, len: usize, tail: &[u8], ext: &Part) -> [u8; 11] {
    let mut short = [b' '; 11];
    let (base_at, ext_at) = short.split_at_mut(BASE);
    let chars = base.bytes.iter().take(len).chain(tail);
    for (place, &b) in base_at.iter_mut().zip(chars) {
        *place = b;
    }
    for (place, &b) in ext_at.iter_mut().zip(ext.bytes.iter().take(ext.len)) {
        *place = b;
    }
    if short[0] == FREE {
        short[0] = KANJI_E5;
    }
    short
}

/// An alias with a tail that no entry has.
fn unlike(
    base: &Part,
    ext: &Part,
    hash: u32,
    taken: &mut dyn FnMut(&[u8; 11]) -> Attempt<bool>,
) -> Attempt<[u8; 11]> {
    let [number, hashed] = [0, 1].map(|i: usize| {
        let most = CUTS.get(i).copied().unwrap_or(0);
        if base.len > most { base.cut.get(i).copied().unwrap_or(0) } else { base.len }
    });
    for digit in b'1'..=b'9' {
        let short = assemble(base, number, &[b'~', digit], ext);
        if !taken(&short)? {
            return Ok(short);
        }
    }
    let digit = b'1' + (hash >> 16 & 7) as u8;
    for step in 0..TRIES {
        // 11 has no factor in common with 65,536: no value comes twice.
        let value = hash.wrapping_sub(step.wrapping_mul(11)) & 0xffff;
        let hex = [12, 8, 4, 0].map(|shift| hex_digit(value >> shift));
        let [a, b, c, d] = hex;
        let short = assemble(base, hashed, &[a, b, c, d, b'~', digit], ext);
        if !taken(&short)? {
            return Ok(short);
        }
    }
    Err(Refused::NoSpace.into())
}

fn hex_digit(value: u32) -> u8 {
    match (value & 15) as u8 {
        n @ 0..=9 => b'0' + n,
        n => b'A' + n - 10,
    }
}

#[cfg(test)]
mod tests;
