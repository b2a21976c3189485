//! Long names: slots to a name and back.
//!
//! A long name stands in 1 to 20 slots before the short slot it belongs to, last part first. Each
//! has its number (from 1, the last part with bit 0x40), 13 UTF-16 units and the checksum of the
//! short name. A system without long names sees labels there and may rename, delete or create
//! between them, and a crash may cut a set anywhere; a [`Scanner`] believes a long name only if
//! every slot is there, in order, with the checksum of the short name that follows. Everything else
//! costs the entry its long name and nothing more. These are the rules of Linux vfat, but that more
//! than 255 units, or a name of dots only, are damage too: nobody could look such a name up.

use crate::entry::{self, RawEntry, SLOT};
use crate::fold::UNITS_MAX;
use alloc::vec::Vec;

/// Units in one slot.
pub const UNITS_PER_SLOT: usize = 13;
/// Most slots of a long name.
pub const SLOTS_MAX: usize = 20;
/// Bit in the number of the last part, which comes first on disk.
const LAST: u8 = 0x40;
/// Offset of a long slot's checksum.
const OFF_SUM: usize = 13;
/// Offsets of a long slot's units.
const OFF_UNITS: [usize; UNITS_PER_SLOT] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
/// What `/` and NUL in a damaged name are shown as.
pub(crate) const REPLACED: u16 = 0xfffd;

/// Checksum of a short name, as its long slots hold it.
pub fn checksum(short: &[u8; 11]) -> u8 {
    short.iter().fold(0u8, |sum, &b| sum.rotate_right(1).wrapping_add(b))
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// First slot: that of the long name, or `slot`.
    pub first: u32,
    /// The short slot.
    pub slot: u32,
    /// The short slot's fields.
    pub raw: RawEntry,
    /// The long name, 1 to 255 units, any `/` in it replaced by U+FFFD.
    pub long: Option<Vec<u16>>,
}

/// What a slot was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It may be taken.
    Free,
    /// Nothing follows: it and all after it may be taken.
    End,
    /// Part of a long name; whose, if anyone's, a later slot tells.
    Part,
    /// In use, and no file: contradictory attributes or a blank name.
    Ignored,
    /// A volume label.
    Label(RawEntry),
    /// A file or directory, `.` and `..` among them.
    Entry(Found),
}

/// Reads the slots of one directory in order.
#[derive(Clone, Debug)]
pub struct Scanner {
    units: [u16; UNITS_PER_SLOT * SLOTS_MAX],
    /// First slot of the long name.
    first: u32,
    sum: u8,
    /// Number of parts; 0 outside a long name.
    parts: u8,
    /// Parts still to come.
    missing: u8,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// At the start of a directory, or after any short slot.
    pub fn new() -> Self {
        let units = [0; UNITS_PER_SLOT * SLOTS_MAX];
        Self { units, first: 0, sum: 0, parts: 0, missing: 0 }
    }

    /// Takes the next slot.
    pub fn push(&mut self, slot_index: u32, bytes: &[u8; SLOT]) -> Seen {
        if entry::is_long(bytes) {
            self.part(slot_index, bytes);
            return Seen::Part;
        }
        let complete = self.parts > 0 && self.missing == 0;
        let parts = core::mem::take(&mut self.parts);
        if entry::is_end(bytes) {
            return Seen::End;
        }
        if entry::is_free(bytes) {
            return Seen::Free;
        }
        let raw = RawEntry::from_bytes(bytes);
        if raw.is_label() {
            return Seen::Label(raw);
        }
        if raw.attr & entry::ATTR_VOLUME != 0 {
            return Seen::Ignored;
        }
        let long =
            if complete && checksum(&raw.name) == self.sum { self.name(parts) } else { None };
        if long.is_none() && crate::short::is_blank(&raw.name) {
            return Seen::Ignored;
        }
        let first = if long.is_some() { self.first } else { slot_index };
        Seen::Entry(Found { first, slot: slot_index, raw, long })
    }

    fn part(&mut self, slot_index: u32, bytes: &[u8; SLOT]) {
        let (number, sum) = (bytes[0] & !LAST, bytes[OFF_SUM]);
        if bytes[0] & LAST != 0 {
            self.parts = 0;
            if number == 0 || usize::from(number) > SLOTS_MAX {
                return;
            }
            (self.first, self.sum, self.parts, self.missing) = (slot_index, sum, number, number);
        } else if self.parts == 0 || self.missing != number || self.sum != sum {
            self.parts = 0;
            return;
        }
        self.missing -= 1;
        let at = usize::from(self.missing) * UNITS_PER_SLOT;
        for (unit, off) in self.units.iter_mut().skip(at).zip(OFF_UNITS) {
            let low = bytes.get(off).copied().unwrap_or(0);
            let high = bytes.get(off + 1).copied().unwrap_or(0);
            *unit = u16::from_le_bytes([low, high]);
        }
    }

    fn name(&self, parts: u8) -> Option<Vec<u16>> {
        let all = self.units.get(..usize::from(parts) * UNITS_PER_SLOT)?;
        let name = all.split(|&u| u == 0).next()?;
        if name.len() > UNITS_MAX || name.iter().all(|&u| u == u16::from(b'.')) {
            return None;
        }
        let shown = |&u: &u16| if u == u16::from(b'/') { REPLACED } else { u };
        Some(name.iter().map(shown).collect())
    }
}

/// The slots of a long name in the order they take on disk, to stand right before the short slot.
/// Units past 255 are dropped; an empty name has no slots.
pub fn long_slots(units: &[u16], short: &[u8; 11]) -> Vec<[u8; SLOT]> {
    let units = units.get(..UNITS_MAX).unwrap_or(units);
    let sum = checksum(short);
    let mut slots = Vec::with_capacity(units.len().div_ceil(UNITS_PER_SLOT));
    for (i, part) in units.chunks(UNITS_PER_SLOT).enumerate() {
        let mut slot = [0u8; SLOT];
        // At most 20 parts.
        slot[0] = i as u8 + 1;
        slot[entry::OFF_ATTR] = entry::ATTR_LONG;
        slot[OFF_SUM] = sum;
        // A short part ends with one NUL, then 0xffff; a full one has neither.
        let padded = part.iter().copied().chain([0]).chain(core::iter::repeat(0xffff));
        for (off, unit) in OFF_UNITS.into_iter().zip(padded) {
            if let Some(place) = slot.get_mut(off..off + 2) {
                place.copy_from_slice(&unit.to_le_bytes());
            }
        }
        slots.push(slot);
    }
    if let Some(last) = slots.last_mut() {
        last[0] |= LAST;
    }
    slots.reverse();
    slots
}

#[cfg(test)]
mod tests;
