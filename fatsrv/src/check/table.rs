//! The FAT in memory: the copy that counts, in pieces of which those of free clusters only are not
//! kept, compared with the other copies and looked at entry by entry.

use super::Check;
use super::finding::{Finding, Kind};
use crate::boot::{Boot, FIRST_CLUSTER, FatType};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::array_at;
use seawall_diskfs::check::{Budget, pieces};

/// Bytes of a piece: a multiple of each entry's size, so that none lies in two.
const PIECE: usize = 12 << 10;
/// Pieces that are read at a time.
const AT_ONCE: u64 = 64;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Free,
    Next(u32),
    Bad,
    End,
    /// 1, or one of the marks without a meaning, or a number past the last cluster.
    Wrong,
}

/// The entries of one copy.
pub(super) struct Table {
    fat_type: FatType,
    end: u32,
    pieces: Vec<Option<Box<[u8]>>>,
}

/// Bytes that hold the entries of the volume's clusters.
fn table_bytes(boot: &Boot) -> u64 {
    (u64::from(boot.cluster_end()) * u64::from(boot.fat_type.bits())).div_ceil(8)
}

impl Table {
    /// All free.
    pub(super) fn new(boot: &Boot, budget: &mut Budget) -> Result<Self, FsError> {
        let pieces = pieces(table_bytes(boot).div_ceil(PIECE as u64), budget)?;
        Ok(Self { fat_type: boot.fat_type, end: boot.cluster_end(), pieces })
    }

    /// Entries of a piece.
    fn per_piece(&self) -> u32 {
        PIECE as u32 * 8 / self.fat_type.bits()
    }

    /// The value of entry `n` of a piece; 0 past its end.
    fn value_in(&self, piece: &[u8], n: u32) -> u32 {
        let n = n as usize;
        match self.fat_type {
            FatType::Fat12 => {
                let at = n * 3 / 2;
                let byte = |at: usize| u32::from(piece.get(at).copied().unwrap_or(0));
                let both = byte(at) | byte(at + 1) << 8;
                if n.is_multiple_of(2) { both & 0xFFF } else { both >> 4 }
            }
            FatType::Fat16 => array_at(piece, n * 2).map_or(0, |b| u16::from_le_bytes(b).into()),
            FatType::Fat32 => array_at(piece, n * 4).map_or(0, u32::from_le_bytes) & 0x0FFF_FFFF,
        }
    }

    /// The value of an entry; 0 past the last.
    pub(super) fn value(&self, cluster: u32) -> u32 {
        let per = self.per_piece();
        let piece = self.pieces.get((cluster / per) as usize).and_then(|p| p.as_deref());
        piece.map_or(0, |p| self.value_in(p, cluster % per))
    }

    /// What a value says.
    pub(super) fn means(&self, value: u32) -> Entry {
        let top = self.fat_type.mask();
        match value {
            0 => Entry::Free,
            1 => Entry::Wrong,
            v if v < self.end => Entry::Next(v),
            v if v >= top - 7 => Entry::End,
            v if v == top - 8 => Entry::Bad,
            _ => Entry::Wrong,
        }
    }

    /// What the entry of a cluster says.
    pub(super) fn get(&self, cluster: u32) -> Entry {
        self.means(self.value(cluster))
    }

    /// Clusters from `from` on whose entry is not 0, with its value.
    pub(super) fn used(&self, from: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let per = self.per_piece();
        let first = (from / per) as usize;
        let kept = self.pieces.iter().enumerate().skip(first);
        let kept = kept.filter_map(move |(i, p)| Some((i as u32 * per, p.as_deref()?)));
        kept.flat_map(move |(base, piece)| {
            let all = (base..self.end.min(base + per)).map(move |n| (n, piece));
            all.map(move |(n, piece)| (n, self.value_in(piece, n - base)))
        })
        .filter(move |(n, v)| *n >= from && *v != 0)
    }

    /// True when the first entry of a FAT is one: all ones but for the media byte's low bits.
    fn is_media(&self, value: u32) -> bool {
        value | 0xF == self.fat_type.mask()
    }
}

impl Check<'_> {
    /// Reads the copy that counts and looks at each of its entries.
    pub(super) fn read_table(&mut self) -> Result<(), FsError> {
        let copy = self.choose_copy()?;
        let (total, step) = (table_bytes(&self.boot), AT_ONCE * PIECE as u64);
        let others: Vec<u32> = (0..self.boot.fats).filter(|n| *n != copy).collect();
        let mut differ = alloc::vec![false; others.len()];
        let mut at = 0;
        while at < total {
            self.tell("FAT", at, total);
            let len = step.min(total - at);
            let part = self.read_part(copy, at, len)?;
            for (copy, differs) in others.iter().zip(differ.iter_mut()).filter(|(_, d)| !**d) {
                let other = self.read_part(*copy, at, len)?;
                if let Some(off) = part.iter().zip(other.iter()).position(|(a, b)| a != b) {
                    *differs = true;
                    self.differ(copy + 1, at + off as u64);
                }
            }
            for (i, piece) in part.chunks(PIECE).enumerate() {
                let slot = self.table.pieces.get_mut((at / PIECE as u64) as usize + i);
                if let Some(slot) = slot.filter(|_| piece.iter().any(|b| *b != 0)) {
                    self.budget.take(1, PIECE)?;
                    *slot = Some(piece.into());
                }
            }
            at += len;
        }
        self.check_entries();
        Ok(())
    }

    /// The active copy; or the first, or a later one where the first is none.
    fn choose_copy(&mut self) -> Result<u32, FsError> {
        let (active, media) = (self.boot.active_fat, self.boot.media);
        let mut good = None;
        for copy in 0..self.boot.fats {
            if active.is_some_and(|a| a != copy) {
                continue;
            }
            let head = self.read_part(copy, 0, 4)?;
            let value = self.table.value_in(&head, 0);
            if self.table.is_media(value) {
                good = good.or(Some(copy));
                if value & 0xFF != u32::from(media) {
                    let f = Finding::new(Kind::MediaDiffers).detail(format!("FAT {}", copy + 1));
                    self.add(f.found(value & 0xFF).right(media));
                }
            } else {
                let f = Finding::new(Kind::MediaEntry).detail(format!("FAT {}", copy + 1));
                self.add(f.found(value));
            }
        }
        Ok(active.or(good).unwrap_or(0))
    }

    fn read_part(&mut self, copy: u32, at: u64, len: u64) -> Result<Vec<u8>, FsError> {
        let start = self.boot.fat_start(copy) + at;
        if let Some(b) = self.dev.read(start, len as usize)? {
            return Ok(b.to_vec());
        }
        let f = Finding::new(Kind::Unreadable).detail(format!("FAT {}", copy + 1));
        self.add(f.cluster(self.cluster_at(at)));
        Ok(alloc::vec![0; len as usize])
    }

    /// The cluster whose entry stands at a byte of the FAT.
    fn cluster_at(&self, byte: u64) -> u32 {
        u32::try_from(byte * 8 / u64::from(self.boot.fat_type.bits())).unwrap_or(u32::MAX)
    }

    fn differ(&mut self, copy: u32, byte: u64) {
        let kept = self.boot.active_fat.is_none();
        let kind = if kept { Kind::FatsDiffer } else { Kind::FatStale };
        let f = Finding::new(kind).detail(format!("FAT {copy}, from this cluster on"));
        let cluster = self.cluster_at(byte);
        self.add(f.cluster(cluster));
    }

    fn check_entries(&mut self) {
        let (table, end) = (&self.table, self.boot.cluster_end());
        for (cluster, value) in table.used(FIRST_CLUSTER) {
            if table.means(value) == Entry::Wrong {
                let past = value >= end && value < table.fat_type.mask() - 0xF;
                let kind = if past { Kind::EntryRange } else { Kind::EntryReserved };
                self.found.add(Finding::new(kind).cluster(cluster).found(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(fat_type: FatType, bytes: &[u8], clusters: u32) -> Table {
        let mut piece = alloc::vec![0; PIECE];
        piece[..bytes.len()].copy_from_slice(bytes);
        Table { fat_type, end: clusters + 2, pieces: alloc::vec![None, Some(piece.into())] }
    }

    #[test]
    fn entries_are_read_in_every_width() {
        let t = table(FatType::Fat12, &[0x34, 0x12, 0xFF, 0xF7, 0xFF, 0xFF], 9000);
        let base = t.per_piece();
        assert_eq!(base, 8192);
        assert_eq!([0, 1, 2, 3].map(|n| t.value(base + n)), [0x234, 0xFF1, 0xFF7, 0xFFF]);
        let used: Vec<u32> = t.used(2).map(|(n, _)| n - base).collect();
        assert_eq!(used, [0, 1, 2, 3]);
        let t = table(FatType::Fat32, &[1, 0, 0, 0xF0, 0xF7, 0xFF, 0xFF, 0x1F], 9000);
        let base = t.per_piece();
        assert_eq!([t.value(base), t.value(base + 1)], [1, 0x0FFF_FFF7]);
        assert_eq!((t.get(base), t.get(base + 1)), (Entry::Wrong, Entry::Bad));
        assert_eq!(t.value(90_000), 0);
    }

    #[test]
    fn marks_have_their_meaning() {
        let t = table(FatType::Fat16, &[], 60_000);
        for (value, want) in [
            (0, Entry::Free),
            (1, Entry::Wrong),
            (2, Entry::Next(2)),
            (60_001, Entry::Next(60_001)),
            (60_002, Entry::Wrong),
            (0xFFF6, Entry::Wrong),
            (0xFFF7, Entry::Bad),
            (0xFFF8, Entry::End),
            (0xFFFF, Entry::End),
        ] {
            assert_eq!(t.means(value), want, "{value:#x}");
        }
    }
}
