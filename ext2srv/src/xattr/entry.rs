//! The table of attributes, in a block of its own or behind an inode's fields
//! (`struct ext4_xattr_entry`): entries upwards from the start, values downwards from the end, both
//! in steps of four bytes, and a zero word behind the last entry.
//!
//! A table from disk is hostile: its names and values lie inside it, together they are no longer
//! than it is, and what is not so is an error in words for the caller to say where it stands.

use alloc::vec::Vec;
use core::cmp::Ordering;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{put, slice, u16_at, u32_at};

/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// Longest name behind its prefix: its length has one byte.
pub(crate) const NAME_MAX: usize = 255;

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of the name space (`e_name_index`).
    pub(crate) index: u8,
    /// Name without the name space's prefix.
    pub(crate) name: Vec<u8>,
    /// Value as it stands on disk.
    pub(crate) value: Vec<u8>,
}

fn pad(len: usize) -> usize {
    len.next_multiple_of(4)
}

impl Entry {
    pub(crate) fn is(&self, index: u8, name: &[u8]) -> bool {
        self.index == index && self.name == name
    }

    /// The order in a block: the kernel ends a search at the first entry that is greater.
    pub(crate) fn order(&self, index: u8, name: &[u8]) -> Ordering {
        let key = |i: u8, n: &[u8]| (i, n.len());
        key(self.index, &self.name).cmp(&key(index, name)).then_with(|| (*self.name).cmp(name))
    }

    /// `e_hash`: of name and value.
    fn hash(&self) -> u32 {
        let by_name = self.name.iter().fold(0u32, |h, c| h.rotate_left(5) ^ u32::from(*c));
        self.value.chunks(4).fold(by_name, |h, chunk| {
            let mut word = [0; 4];
            for (w, c) in word.iter_mut().zip(chunk) {
                *w = *c;
            }
            h.rotate_left(16) ^ u32::from_le_bytes(word)
        })
    }
}

/// Bytes that a table takes, its end mark included.
pub(crate) fn table_len(entries: &[Entry]) -> usize {
    let each = |e: &Entry| pad(ENTRY + e.name.len()) + pad(e.value.len());
    entries.iter().map(each).sum::<usize>() + 4
}

/// `h_hash` of a block: of all entries in order. 0 means "not to be shared".
pub(crate) fn table_hash(entries: &[Entry]) -> u32 {
    let hashes = entries.iter().map(Entry::hash);
    hashes.clone().fold(0u32, |h, e| h.rotate_left(16) ^ e) * u32::from(hashes.min() != Some(0))
}

/// Reads the table that begins at `first`; its values' offsets count from `base`. With the feature
/// `ea_inode` (such a volume is never written) values in inodes of their own are left out.
pub(crate) fn parse(
    b: &[u8],
    first: usize,
    base: usize,
    ea_inode: bool,
) -> Result<Vec<Entry>, &'static str> {
    parse_fields(b, first, base, ea_inode)
        .unwrap_or(Err("an attribute's entry runs out of its table"))
}

fn parse_fields(
    b: &[u8],
    first: usize,
    base: usize,
    ea_inode: bool,
) -> Result<Result<Vec<Entry>, &'static str>, FsError> {
    // Where the table ends is known first: no value lies before that.
    let mut at = first;
    while u32_at(b, at)? != 0 {
        let [name_len, ..] = *slice(b, at, ENTRY)? else { return Ok(Err("a short entry")) };
        at += pad(ENTRY + usize::from(name_len));
    }
    let end = at + 4;
    let mut room = b.len() - end;
    let mut out = Vec::new();
    at = first;
    while at < end - 4 {
        let [name_len, index, ..] = *slice(b, at, ENTRY)? else { return Ok(Err("a short entry")) };
        let (offset, inode) = (usize::from(u16_at(b, at + 2)?), u32_at(b, at + 4)?);
        let size = u32_at(b, at + 8)? as usize;
        let name = slice(b, at + ENTRY, usize::from(name_len))?.to_vec();
        at += pad(ENTRY + usize::from(name_len));
        if inode != 0 && ea_inode {
            continue;
        }
        if inode != 0 {
            return Ok(Err("an attribute's value in an inode of its own without the feature"));
        }
        if size > room {
            return Ok(Err("values are longer than their table"));
        }
        room -= size;
        let value = match size {
            0 => Vec::new(),
            _ if base + offset < end => return Ok(Err("a value lies over the entries")),
            _ => slice(b, base + offset, size)?.to_vec(),
        };
        out.push(Entry { index, name, value });
    }
    Ok(Ok(out))
}

/// Puts a table at `first` and zeroes what it leaves free up to the end of `b`. `hashed`: entries
/// in a block carry their hash, those in an inode 0. The caller has seen that it fits.
pub(crate) fn encode(
    entries: &[Entry],
    b: &mut [u8],
    first: usize,
    base: usize,
    hashed: bool,
) -> Result<(), FsError> {
    b.get_mut(first..).ok_or(FsError::Bug("attributes outside their table"))?.fill(0);
    let (mut at, mut value_at) = (first, b.len());
    for e in entries {
        value_at = value_at
            .checked_sub(pad(e.value.len()))
            .ok_or(FsError::Bug("attributes that do not fit"))?;
        let offset = if e.value.is_empty() { 0 } else { value_at - base };
        put(b, at, &[e.name.len() as u8, e.index])?;
        put(b, at + 2, &(offset as u16).to_le_bytes())?;
        put(b, at + 8, &(e.value.len() as u32).to_le_bytes())?;
        put(b, at + 12, &(if hashed { e.hash() } else { 0 }).to_le_bytes())?;
        put(b, at + ENTRY, &e.name)?;
        put(b, value_at, &e.value)?;
        at += pad(ENTRY + e.name.len());
    }
    if at + 4 > value_at {
        return Err(FsError::Bug("attributes that do not fit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entry(index: u8, name: &str, value: &[u8]) -> Entry {
        Entry { index, name: name.as_bytes().to_vec(), value: value.to_vec() }
    }

    #[test]
    fn what_is_put_is_read() {
        let list = [entry(1, "a", b"12345"), entry(1, "bb", b""), entry(6, "selinux", b"x\0")];
        for (first, base) in [(32, 0), (4, 4)] {
            let len = first + table_len(&list);
            let mut b = vec![0xFF; len];
            encode(&list, &mut b, first, base, true).unwrap();
            assert_eq!(parse(&b, first, base, false).unwrap(), list);
            let mut short = vec![0; len - 4];
            encode(&list, &mut short, first, base, true).unwrap_err();
        }
    }

    #[test]
    fn the_order_is_by_name_space_then_length_then_bytes() {
        let mut list = [entry(6, "a", b""), entry(1, "bb", b""), entry(1, "c", b"")];
        list.sort_by(|a, b| a.order(b.index, &b.name));
        let names: Vec<&[u8]> = list.iter().map(|e| &*e.name).collect();
        assert_eq!(names, [b"c".as_slice(), b"bb", b"a"]);
    }

    #[test]
    fn wild_tables_are_read_or_refused() {
        let list = [entry(1, "name", b"value"), entry(2, "", &[7; 40])];
        let mut good = vec![0; 256];
        encode(&list, &mut good, 32, 0, true).unwrap();
        for at in 32..100 {
            for v in [0, 1, 4, 0x7F, 0xFE, 0xFF] {
                let mut b = good.clone();
                b[at] = v;
                if let Ok(got) = parse(&b, 32, 0, false) {
                    assert!(got.iter().map(|e| e.value.len()).sum::<usize>() < 256);
                }
            }
        }
        assert!(parse(&[1; 40], 32, 0, false).is_err());
        assert!(parse(&[0; 3], 4, 4, false).is_err());
    }
}
