//! The file allocation table: one entry for each cluster.
//!
//! Entries are read from one copy and written to every copy that is kept. The upper four bits of a
//! FAT32 entry belong to nobody and stay as they are. A value that is no cluster, no mark and not
//! free is `Corrupt`, with the block where it stands.

use crate::Fat;
use crate::boot::{FIRST_CLUSTER, FatType};
use alloc::format;
use seawall_diskfs::bytes::{array_at, put};
use seawall_diskfs::{Attempt, BlockRef, Change, FsError, Tx};

/// The table in errors.
pub(crate) const WHAT: &str = "FAT";

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// In no chain.
    Free,
    /// The next cluster of the chain.
    Next(u32),
    /// The last cluster of a chain.
    End,
    /// Not to be used.
    Bad,
}

/// Reads entries, keeping the block of the last one at hand.
#[derive(Default)]
pub(crate) struct Reader {
    held: Option<(u64, BlockRef)>,
}

impl Reader {
    fn byte(&mut self, fat: &Fat, tx: &mut Tx<'_>, pos: u64) -> Attempt<u8> {
        let bs = u64::from(fat.boot.block_size);
        let block = self.block(fat, tx, pos / bs)?;
        let [b] = array_at(block, (pos % bs) as usize)?;
        Ok(b)
    }

    fn block(&mut self, fat: &Fat, tx: &mut Tx<'_>, number: u64) -> Attempt<&BlockRef> {
        if self.held.as_ref().is_none_or(|(n, _)| *n != number) {
            let last = fat.table_end() / u64::from(fat.boot.block_size);
            let ahead = last.saturating_sub(number).max(1);
            self.held = Some((number, tx.read_run(number, ahead, WHAT)?));
        }
        let held = self.held.as_ref().map(|(_, b)| b);
        held.ok_or_else(|| FsError::Bug("a block of the FAT that was just read").into())
    }

    /// The value of an entry, without FAT32's upper bits.
    pub(crate) fn raw(&mut self, fat: &Fat, tx: &mut Tx<'_>, cluster: u32) -> Attempt<u32> {
        let pos = fat.entry_pos(fat.copy_read(), cluster);
        let bs = u64::from(fat.boot.block_size);
        let off = (pos % bs) as usize;
        Ok(match fat.boot.fat_type {
            FatType::Fat12 => {
                let (low, high) = (self.byte(fat, tx, pos)?, self.byte(fat, tx, pos + 1)?);
                let both = u32::from(u16::from_le_bytes([low, high]));
                if cluster & 1 == 0 { both & 0xFFF } else { both >> 4 }
            }
            FatType::Fat16 => {
                let block = self.block(fat, tx, pos / bs)?;
                u32::from(u16::from_le_bytes(array_at(block, off)?))
            }
            FatType::Fat32 => {
                let block = self.block(fat, tx, pos / bs)?;
                u32::from_le_bytes(array_at(block, off)?) & 0x0FFF_FFFF
            }
        })
    }

    /// What the entry of a cluster says.
    pub(crate) fn get(&mut self, fat: &Fat, tx: &mut Tx<'_>, cluster: u32) -> Attempt<Entry> {
        let value = self.raw(fat, tx, cluster)?;
        match fat.entry_of(value) {
            Some(e) => Ok(e),
            None => {
                let what = format!("the entry of cluster {cluster} is {value:#x}");
                Err(fat.bad_entry(cluster, what).into())
            }
        }
    }
}

impl Fat {
    /// The copy that is read.
    pub(crate) fn copy_read(&self) -> u32 {
        self.boot.active_fat.unwrap_or(0)
    }

    /// The copies that are written.
    fn copies(&self) -> core::ops::Range<u32> {
        match self.boot.active_fat {
            Some(n) => n..n + 1,
            None => 0..self.boot.fats,
        }
    }

    /// First byte behind the copy that is read.
    fn table_end(&self) -> u64 {
        self.boot.fat_start(self.copy_read() + 1)
    }

    /// First byte of an entry.
    fn entry_pos(&self, copy: u32, cluster: u32) -> u64 {
        let c = u64::from(cluster);
        let at = match self.boot.fat_type {
            FatType::Fat12 => c + c / 2,
            FatType::Fat16 => c * 2,
            FatType::Fat32 => c * 4,
        };
        self.boot.fat_start(copy) + at
    }

    /// `Corrupt`, at the entry of a cluster.
    pub(crate) fn bad_entry(&self, cluster: u32, what: alloc::string::String) -> FsError {
        let pos = self.entry_pos(self.copy_read(), cluster);
        FsError::corrupt(WHAT, pos / u64::from(self.boot.block_size), what)
    }

    /// The mark of a chain's end.
    pub(crate) fn end_mark(&self) -> u32 {
        self.boot.fat_type.mask()
    }

    pub(crate) fn entry_of(&self, value: u32) -> Option<Entry> {
        let mask = self.boot.fat_type.mask();
        match value & mask {
            0 => Some(Entry::Free),
            n if n >= FIRST_CLUSTER && n < self.boot.cluster_end() => Some(Entry::Next(n)),
            n if n == mask - 8 => Some(Entry::Bad),
            n if n >= mask - 7 => Some(Entry::End),
            _ => None,
        }
    }

    /// Sets one entry in every copy that is kept.
    pub(crate) fn set_entry(
        &self,
        tx: &mut Tx<'_>,
        cluster: u32,
        value: u32,
        change: Change,
    ) -> Attempt<()> {
        self.set_entries(tx, cluster, 1, change, |_| value)
    }

    /// Sets the entries of `count` clusters from `first` on. A block is taken up once for all of
    /// its entries.
    pub(crate) fn set_entries(
        &self,
        tx: &mut Tx<'_>,
        first: u32,
        count: u32,
        change: Change,
        value: impl Fn(u32) -> u32,
    ) -> Attempt<()> {
        let width = match self.boot.fat_type {
            FatType::Fat12 => return self.set_entries_12(tx, first, count, change, value),
            FatType::Fat16 => 2,
            FatType::Fat32 => 4,
        };
        let bs = u64::from(self.boot.block_size);
        for copy in self.copies() {
            let mut at = first;
            let end = first.saturating_add(count);
            while at < end {
                let pos = self.entry_pos(copy, at);
                let block = tx.modify(pos / bs, WHAT, change)?;
                let mut off = (pos % bs) as usize;
                while at < end && (off as u64) < bs {
                    let new = value(at);
                    if width == 2 {
                        put(block, off, &(new as u16).to_le_bytes())?;
                    } else {
                        let old = u32::from_le_bytes(array_at(block, off)?);
                        let new = old & 0xF000_0000 | new & 0x0FFF_FFFF;
                        put(block, off, &new.to_le_bytes())?;
                    }
                    off += width;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Entries of 12 bits share bytes with their neighbours, and two of them a block's edge.
    fn set_entries_12(
        &self,
        tx: &mut Tx<'_>,
        first: u32,
        count: u32,
        change: Change,
        value: impl Fn(u32) -> u32,
    ) -> Attempt<()> {
        let bs = u64::from(self.boot.block_size);
        for copy in self.copies() {
            for cluster in first..first.saturating_add(count) {
                let pos = self.entry_pos(copy, cluster);
                let odd = cluster & 1 != 0;
                let new = value(cluster) & 0xFFF;
                let (keep, bits) = if odd { (0x000F, new << 4) } else { (0xF000, new) };
                for (n, pos) in [pos, pos + 1].into_iter().enumerate() {
                    let (keep, bits) = ((keep >> (8 * n)) as u8, (bits >> (8 * n)) as u8);
                    let block = tx.modify(pos / bs, WHAT, change)?;
                    let off = (pos % bs) as usize;
                    let [old] = array_at(block, off)?;
                    put(block, off, &[old & keep | bits])?;
                }
            }
        }
        Ok(())
    }
}
