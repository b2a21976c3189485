//! Extended attributes: a block that several inodes may own, and the room behind an inode's fields.
//! Entries stand from the front, values from the back, and none of them may meet.

use super::Check;
use super::blocks::Claim;
use super::finding::{Finding, Kind};
use super::geometry::{EXT_ATTR, Fields};
use super::raw::Raw;
use alloc::collections::BTreeMap;
use seawall_diskfs::FsError;

const MAGIC: u32 = 0xEA02_0000;
/// Bytes of a block's header, and of an entry before its name.
const BLOCK_HEAD: usize = 32;
const ENTRY_HEAD: usize = 16;
/// Bytes before the entries in an inode.
const INODE_HEAD: usize = 4;

/// Why attributes cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Structure(&'static str),
    Hash,
}

/// Parts of a structure that are taken.
#[derive(Default)]
struct Parts {
    taken: BTreeMap<usize, usize>,
    end: usize,
}

impl Parts {
    /// Takes `len` bytes at `at`; false when they are outside or taken.
    fn take(&mut self, at: usize, len: usize) -> bool {
        let Some(end) = at.checked_add(len).filter(|e| *e <= self.end) else { return false };
        let before = self.taken.range(..end).next_back();
        if before.is_some_and(|(_, e)| *e > at) {
            return false;
        }
        if len > 0 {
            self.taken.insert(at, end);
        }
        true
    }
}

/// One entry.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a [u8],
    index: u8,
    offset: usize,
    inode: u32,
    size: usize,
    hash: u32,
    len: usize,
}

impl<'a> Entry<'a> {
    fn at(b: &'a [u8], off: usize) -> Option<Self> {
        let f = Fields(b.get(off..)?);
        let name_len = usize::from(f.u8(0));
        Some(Self {
            name: b.get(off + ENTRY_HEAD..)?.get(..name_len)?,
            index: f.u8(1),
            offset: usize::from(f.u16(2)),
            inode: f.u32(4),
            size: f.u32(8) as usize,
            hash: f.u32(12),
            len: (ENTRY_HEAD + name_len).next_multiple_of(4),
        })
    }

    /// The hash of name and value; `signed`: as systems with signed characters compute it.
    fn hash_of(&self, value: &[u8], signed: bool) -> u32 {
        let name = self.name.iter().fold(0u32, |h, c| {
            let c = if signed { c.cast_signed() as i32 as u32 } else { u32::from(*c) };
            h.rotate_left(5) ^ c
        });
        let words = value.chunks(4).map(|w| Fields(w).u32(0));
        words.fold(name, |h, w| h.rotate_left(16) ^ w)
    }
}

/// Checks the entries of `b` from `first` on; offsets of values count from `base`. In an inode a
/// hash of zero means none.
fn entries(b: &[u8], first: usize, base: usize, in_inode: bool) -> Result<(), Wrong> {
    let mut parts = Parts { end: b.len(), ..Parts::default() };
    parts.take(0, first);
    let mut at = first;
    while at + 4 <= b.len() && Fields(b).u32(at) != 0 {
        let entry = Entry::at(b, at).ok_or(Wrong::Structure("an entry crosses the end"))?;
        if !parts.take(at, entry.len) {
            return Err(Wrong::Structure("entries and values overlap"));
        }
        if entry.index == 0 && !in_inode {
            return Err(Wrong::Structure("an entry without a name space"));
        }
        if entry.inode != 0 {
            return Err(Wrong::Structure("a value in an inode without the feature ea_inode"));
        }
        let room = entry.size.next_multiple_of(4);
        let start = base + entry.offset;
        if entry.size != 0 && (entry.size > b.len() || !parts.take(start, room)) {
            return Err(Wrong::Structure("a value overlaps or lies outside"));
        }
        let value = b.get(start..).and_then(|v| v.get(..room)).unwrap_or_default();
        let unset = in_inode && entry.hash == 0;
        let fits = [false, true].into_iter().any(|s| entry.hash_of(value, s) == entry.hash);
        if !unset && !fits {
            return Err(Wrong::Hash);
        }
        at += entry.len;
    }
    if !parts.take(at, 4.min(b.len().saturating_sub(at))) {
        return Err(Wrong::Structure("the entries have no end"));
    }
    Ok(())
}

impl Check<'_> {
    /// Checks attributes behind an inode's fields, if there are any.
    pub(super) fn check_attr_inode(&mut self, ino: u32, raw: &Raw<'_>, at: usize) {
        let b = raw.bytes().get(at..).unwrap_or_default();
        if Fields(b).u32(0) != MAGIC {
            return;
        }
        if let Err(wrong) = entries(b, INODE_HEAD, INODE_HEAD, true) {
            self.add(match wrong {
                Wrong::Structure(what) => Finding::new(Kind::AttrInode).inode(ino).detail(what),
                Wrong::Hash => Finding::new(Kind::AttrHash).inode(ino),
            });
        }
    }

    /// Checks and claims an inode's attribute block. True when it has one that counts as its own.
    pub(super) fn check_acl(&mut self, ino: u32, raw: &Raw<'_>) -> Result<bool, FsError> {
        let block = raw.acl(&self.geo);
        if block == 0 {
            return Ok(false);
        }
        if self.geo.compat & EXT_ATTR == 0 || !self.geo.holds(block) {
            self.add(Finding::new(Kind::AttrPlace).inode(ino).block(block));
            return Ok(false);
        }
        if let Some((_, owners)) = self.attrs.get_mut(&block) {
            *owners += 1;
            return Ok(true);
        }
        let claim = self.claim(ino, block)?;
        let Some(b) = self.read_block(block, |f| f.inode(ino))? else { return Ok(true) };
        self.budget.take(1, 4 * size_of::<(u64, u32, u32)>())?;
        self.attrs.insert(block, (Fields(&b).u32(4), 1));
        if claim != Claim::First {
            return Ok(true);
        }
        let head = Fields(&b);
        let checked = if head.u32(0) != MAGIC {
            Err(Wrong::Structure("no magic number"))
        } else if head.u32(8) != 1 {
            Err(Wrong::Structure("more than one block"))
        } else {
            entries(&b, BLOCK_HEAD, 0, false)
        };
        if let Err(wrong) = checked {
            self.add(
                match wrong {
                    Wrong::Structure(what) => Finding::new(Kind::AttrBlock).detail(what),
                    Wrong::Hash => Finding::new(Kind::AttrHash),
                }
                .inode(ino)
                .block(block),
            );
        }
        Ok(true)
    }

    /// Compares each attribute block's count of owners with those that were found.
    pub(super) fn check_attr_counts(&mut self) {
        for (block, (stated, owners)) in core::mem::take(&mut self.attrs) {
            if stated != owners {
                let f = Finding::new(Kind::AttrCount).block(block);
                self.add(f.found(stated).right(owners));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let mut p = Parts { end: 100, ..Parts::default() };
        assert!(p.take(10, 10));
        assert!(!p.take(15, 10) && !p.take(5, 6) && !p.take(12, 2) && !p.take(5, 50));
        assert!(p.take(20, 10) && p.take(0, 10));
        assert!(!p.take(90, 11) && !p.take(usize::MAX, 2));
    }

    #[test]
    fn any_bytes_are_judged() {
        let mut x = 5u64;
        for _ in 0..20_000 {
            let b: alloc::vec::Vec<u8> = (0..64)
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (x >> 56) as u8 & if x & 7 < 5 { 31 } else { 255 }
                })
                .collect();
            let _verdict = entries(&b, 4, 4, true);
            let _verdict = entries(&b, 32, 0, false);
        }
    }
}
