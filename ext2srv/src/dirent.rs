//! Directory records (`struct ext4_dir_entry_2`) in one block: inode (4 bytes), record length (2),
//! name length (1), file type (1, with the feature `filetype`), name. Records fill the block.
//!
//! Indexed directories need nothing special here: the blocks of the index look like one unused
//! record, and in the root block the record of `..` spans the index (see [`crate::htree`]).

use alloc::borrow::Cow;
use alloc::vec::Vec;
use seawall_diskfs::bytes::put;
use seawall_diskfs::{FsError, Kind};

const WHAT: &str = "directory block";
/// Bytes before the name.
const HEAD: usize = 8;
/// Longest name.
pub(crate) const NAME_MAX: usize = 255;

/// What records are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirLimits {
    pub(crate) block_size: usize,
    pub(crate) filetype: bool,
    pub(crate) first_ino: u32,
    pub(crate) inodes: u32,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) off: usize,
    /// 0: unused.
    pub(crate) ino: u32,
    /// Bytes to the next record.
    pub(crate) len: usize,
    pub(crate) file_type: u8,
    pub(crate) name: &'a [u8],
}

/// Bytes that a record with a name of `name` bytes needs.
pub(crate) fn need(name: usize) -> usize {
    (HEAD + name).next_multiple_of(4)
}

/// The file type byte of a kind.
pub(crate) fn type_of(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Dir => 2,
        Kind::CharDev => 3,
        Kind::BlockDev => 4,
        Kind::Fifo => 5,
        Kind::Socket => 6,
        Kind::Symlink => 7,
    }
}

/// The kind of a file type byte.
pub(crate) fn kind_of(file_type: u8) -> Option<Kind> {
    Some(match file_type {
        1 => Kind::File,
        2 => Kind::Dir,
        3 => Kind::CharDev,
        4 => Kind::BlockDev,
        5 => Kind::Fifo,
        6 => Kind::Socket,
        7 => Kind::Symlink,
        _ => return None,
    })
}

/// A record length as stored: 65536 does not fit 16 bits and is written as 65535.
pub(crate) fn stored_len(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes()
}

impl DirLimits {
    /// Reads and checks the record at `off`. `block` is named in errors. Whether the name is one
    /// that may be shown is another question: see [`check_name`].
    pub(crate) fn record<'a>(
        &self,
        b: &'a [u8],
        off: usize,
        block: u64,
    ) -> Result<Record<'a>, FsError> {
        let tail = b.get(off..self.block_size).unwrap_or_default();
        let Some(([i0, i1, i2, i3, l0, l1, name_len, last], rest)) = tail.split_first_chunk()
        else {
            return Err(wrong(block, "a record header crosses the end of the block"));
        };
        let ino = u32::from_le_bytes([*i0, *i1, *i2, *i3]);
        let len = match usize::from(u16::from_le_bytes([*l0, *l1])) {
            0 | 0xFFFF if self.block_size == 65536 => 65536,
            n => n,
        };
        if !len.is_multiple_of(4) || len < HEAD || len > tail.len() {
            return Err(wrong(block, "a record's length is wrong"));
        }
        let name_len = usize::from(*name_len);
        let name = match rest.get(..name_len) {
            Some(name) if need(name_len) <= len => name,
            _ => return Err(wrong(block, "a name crosses the end of its record")),
        };
        if ino != 0 {
            if ino > self.inodes || (ino != 2 && ino < self.first_ino) {
                return Err(wrong(block, "a record names an inode outside the inode table"));
            }
            if !self.filetype && *last != 0 {
                return Err(wrong(block, "a name is longer than 255 bytes"));
            }
        }
        Ok(Record { off, ino, len, file_type: if self.filetype { *last } else { 0 }, name })
    }

    /// A copy of the name of the record at `off`.
    pub(crate) fn name_at(&self, b: &[u8], off: usize, block: u64) -> Result<Vec<u8>, FsError> {
        self.record(b, off, block).map(|r| r.name.to_vec())
    }

    /// Calls `f` for each record until it returns `Some`.
    pub(crate) fn walk<'a, T>(
        &self,
        b: &'a [u8],
        block: u64,
        mut f: impl FnMut(Record<'a>) -> Option<T>,
    ) -> Result<Option<T>, FsError> {
        let mut off = 0;
        while off < self.block_size {
            let r = self.record(b, off, block)?;
            off += r.len;
            if let Some(t) = f(r) {
                return Ok(Some(t));
            }
        }
        Ok(None)
    }

    /// Offset of the record with this name. The others are checked as far as the way past them
    /// needs.
    pub(crate) fn find(
        &self,
        b: &[u8],
        block: u64,
        name: &[u8],
    ) -> Result<Option<(usize, u32)>, FsError> {
        let b = b.get(..self.block_size).unwrap_or_default();
        let mut off = 0;
        while let Some((head, rest)) = b.get(off..).and_then(|t| t.split_first_chunk::<HEAD>()) {
            let [_, _, _, _, l0, l1, name_len, _] = *head;
            let len = usize::from(u16::from_le_bytes([l0, l1]));
            let (name_len, tail) = (usize::from(name_len), rest.len() + HEAD);
            if !len.is_multiple_of(4) || len > tail || len < need(name_len) {
                // It is wrong, or longer than its field.
                let len = self.record(b, off, block)?.len;
                off += len;
                continue;
            }
            if name_len == name.len() && rest.get(..name_len) == Some(name) {
                let r = self.record(b, off, block)?;
                if r.ino != 0 {
                    return Ok(Some((off, r.ino)));
                }
            }
            off += len;
        }
        match b.len() - off.min(b.len()) {
            0 => Ok(None),
            _ => self.record(b, off, block).map(|_| None),
        }
    }

    /// Offset of the first record with room for a name of `name` bytes.
    pub(crate) fn room(&self, b: &[u8], block: u64, name: usize) -> Result<Option<usize>, FsError> {
        self.walk(b, block, |r| (slack(&r) >= need(name)).then_some(r.off))
    }

    /// The largest room in a block.
    pub(crate) fn most_room(&self, b: &[u8], block: u64) -> Result<usize, FsError> {
        let mut most = 0;
        self.walk(b, block, |r| {
            most = most.max(slack(&r));
            None::<()>
        })?;
        Ok(most)
    }

    /// Puts a name into the slack of the record at `off`. Returns where its own record is.
    pub(crate) fn insert(
        &self,
        b: &mut [u8],
        block: u64,
        off: usize,
        entry: (u32, Kind, &[u8]),
    ) -> Result<usize, FsError> {
        let r = self.record(b, off, block)?;
        let (used, len) = (used(&r), r.len);
        if len - used < need(entry.2.len()) {
            return Err(FsError::Bug("a directory record has no room after all"));
        }
        if used > 0 {
            put(b, off + 4, &stored_len(used))?;
        }
        self.write(b, off + used, len - used, entry)?;
        Ok(off + used)
    }

    /// Writes a whole record.
    pub(crate) fn write(
        &self,
        b: &mut [u8],
        off: usize,
        len: usize,
        (ino, kind, name): (u32, Kind, &[u8]),
    ) -> Result<(), FsError> {
        let file_type = if self.filetype { type_of(kind) } else { 0 };
        put_record(b, off, len, (ino, file_type, name))
    }

    /// Fills a block with records, the last of which takes what is left. They fit.
    pub(crate) fn pack<'n>(
        &self,
        b: &mut [u8],
        records: impl Iterator<Item = (u32, u8, &'n [u8])>,
    ) -> Result<(), FsError> {
        b.fill(0);
        let (mut last, mut off) = (0, 0);
        for (ino, file_type, name) in records {
            let len = need(name.len());
            put_record(b, off, len, (ino, file_type, name))?;
            last = off;
            off += len;
        }
        put(b, last + 4, &stored_len(self.block_size - last))
    }

    /// Points the record at `off` to another inode.
    pub(crate) fn retarget(
        &self,
        b: &mut [u8],
        off: usize,
        ino: u32,
        kind: Kind,
    ) -> Result<(), FsError> {
        put(b, off, &ino.to_le_bytes())?;
        if self.filetype {
            put(b, off + 7, &[type_of(kind)])?;
        }
        Ok(())
    }

    /// Removes the record at `off`: the one before takes its space, the block's first becomes
    /// unused.
    pub(crate) fn remove(&self, b: &mut [u8], block: u64, off: usize) -> Result<(), FsError> {
        let gone = self.record(b, off, block)?.len;
        let before = self.walk(b, block, |r| (r.off + r.len >= off).then_some((r.off, r.len)))?;
        if let Some((prev, len)) = before
            && off > 0
        {
            if prev + len != off {
                return Err(FsError::Bug("a directory record's place is not a record"));
            }
            put(b, prev + 4, &stored_len(len + gone))?;
        }
        put(b, off, &0u32.to_le_bytes())
    }
}

fn put_record(
    b: &mut [u8],
    off: usize,
    len: usize,
    (ino, file_type, name): (u32, u8, &[u8]),
) -> Result<(), FsError> {
    put(b, off, &ino.to_le_bytes())?;
    put(b, off + 4, &stored_len(len))?;
    put(b, off + 6, &[name.len() as u8, file_type])?;
    put(b, off + HEAD, name)
}

fn wrong(block: u64, what: &'static str) -> FsError {
    FsError::corrupt(WHAT, block, Cow::Borrowed(what))
}

/// A name that is listed must not be taken for a path.
pub(crate) fn check_name(name: &[u8], block: u64) -> Result<(), FsError> {
    if name.is_empty() || name.iter().any(|c| matches!(c, 0 | b'/')) {
        return Err(wrong(block, "a name is empty or holds a slash or zero byte"));
    }
    Ok(())
}

/// Bytes of a record that a new name may take.
pub(crate) fn slack(r: &Record<'_>) -> usize {
    r.len - used(r)
}

pub(crate) fn used(r: &Record<'_>) -> usize {
    if r.ino == 0 { 0 } else { need(r.name.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DirLimits =
        DirLimits { block_size: 1024, filetype: true, first_ino: 11, inodes: 1000 };

    fn fresh() -> Vec<u8> {
        let mut b = alloc::vec![0u8; 1024];
        LIMITS.write(&mut b, 0, 12, (20, Kind::Dir, b".")).unwrap();
        LIMITS.write(&mut b, 12, 1012, (2, Kind::Dir, b"..")).unwrap();
        b
    }

    fn names(b: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        LIMITS
            .walk(b, 7, |r| {
                if r.ino != 0 {
                    out.push(r.name.to_vec());
                }
                None::<()>
            })
            .unwrap();
        out
    }

    #[test]
    fn names_come_and_go() {
        let mut b = fresh();
        for name in [&b"one"[..], b"two", b"three"] {
            let off = LIMITS.room(&b, 7, name.len()).unwrap().unwrap();
            LIMITS.insert(&mut b, 7, off, (30, Kind::File, name)).unwrap();
        }
        assert_eq!(names(&b), [&b"."[..], b"..", b"one", b"two", b"three"]);
        let (off, ino) = LIMITS.find(&b, 7, b"two").unwrap().unwrap();
        assert_eq!(ino, 30);
        LIMITS.remove(&mut b, 7, off).unwrap();
        assert_eq!(names(&b), [&b"."[..], b"..", b"one", b"three"]);
        let off = LIMITS.room(&b, 7, 3).unwrap().unwrap();
        LIMITS.insert(&mut b, 7, off, (31, Kind::File, b"new")).unwrap();
        assert_eq!(names(&b), [&b"."[..], b"..", b"one", b"new", b"three"]);
        LIMITS.remove(&mut b, 7, 0).unwrap();
        assert_eq!(names(&b)[0], b"..");
    }

    #[test]
    fn a_block_of_64_kib_has_one_record() {
        let limits = DirLimits { block_size: 65536, ..LIMITS };
        let mut b = alloc::vec![0u8; 65536];
        limits.write(&mut b, 0, 65536, (0, Kind::File, b"")).unwrap();
        let r = limits.record(&b, 0, 7).unwrap();
        assert_eq!((r.len, r.ino), (65536, 0));
    }

    #[test]
    fn any_bytes_are_walked_or_refused() {
        let mut x = 9u64;
        for _ in 0..2000 {
            let mut b = fresh();
            for _ in 0..3 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b[(x >> 33) as usize % 40] = (x >> 56) as u8;
            }
            let _ = LIMITS.walk(&b, 7, |_| None::<()>);
            let _ = LIMITS.room(&b, 7, 200);
            let off = (x >> 40) as usize % 1030;
            let _ = LIMITS.remove(&mut b, 7, off);
        }
    }
}
