//! The boot sector against the device and its copy, FSINFO, the marks of a volume in use, labels.

use super::Check;
use super::finding::{Finding, Kind};
use crate::boot::{BOOT_BYTES, FAT16_MAX, FIRST_CLUSTER, FatType, STATE_DIRTY, STATE_ERROR};
use crate::entry::{FREE, KANJI_E5};
use crate::label::NO_NAME;
use crate::volume::entry_marks;
use alloc::format;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{u16_at, u32_at};

/// Signatures of FSINFO and where they stand.
const SIGNATURES: [(usize, u32); 3] = [(0, 0x4161_5252), (484, 0x6141_7272), (508, 0xAA55_0000)];
/// "Nobody knows", in both numbers of FSINFO.
const UNKNOWN: u32 = u32::MAX;

/// `None` for a byte that a label may have. Letters beyond ASCII are fine in some code page.
fn bad_in_label(b: u8) -> bool {
    b < b' ' || b"\"*+,./:;<=>?[\\]|".contains(&b)
}

impl Check<'_> {
    pub(super) fn check_boot(&mut self, b: &[u8; BOOT_BYTES]) -> Result<(), FsError> {
        let boot = &self.boot;
        let (sector, total) = (u64::from(boot.sector), boot.total_sectors);
        let mut found = alloc::vec::Vec::new();
        // An odd last sector cannot be read on every kernel; the reference leaves it out too.
        if (total & !1) * sector > self.dev.size {
            let f = Finding::new(Kind::DeviceShort).detail("bytes");
            found.push(f.found(self.dev.size).right(total * sector));
        }
        let all = (total * sector).saturating_sub(boot.data_start) / u64::from(boot.cluster);
        if all > u64::from(boot.clusters) {
            let f = Finding::new(Kind::ShortFat).detail("clusters with an entry");
            found.push(f.found(boot.clusters).right(all));
        }
        let slots = u16_at(b, 17)?;
        if slots % 16 != 0 {
            found.push(Finding::new(Kind::RootSlots).found(slots));
        }
        if boot.fat_type == FatType::Fat32 && u64::from(boot.clusters) <= FAT16_MAX {
            found.push(Finding::new(Kind::FewClusters).found(boot.clusters));
        }
        for f in found {
            self.add(f);
        }
        if self.boot.fat_type == FatType::Fat32 { self.check_backup(b) } else { Ok(()) }
    }

    fn check_backup(&mut self, b: &[u8; BOOT_BYTES]) -> Result<(), FsError> {
        let at = u16_at(b, 50)?;
        if at == 0 {
            let room = self.boot.reserved >= 3;
            let kind = if room { Kind::BackupAbsent } else { Kind::BackupNoRoom };
            self.add(Finding::new(kind));
            return Ok(());
        }
        let start = u64::from(at) * u64::from(self.boot.sector);
        let Some(copy) = self.dev.read(start, BOOT_BYTES)? else {
            let f = Finding::new(Kind::Unreadable);
            self.add(f.detail(format!("the copy of the boot sector in sector {at}")));
            return Ok(());
        };
        if let Some(off) = b.iter().zip(copy.iter()).position(|(a, b)| a != b) {
            let f = Finding::new(Kind::BackupDiffers);
            self.add(f.detail(format!("sector {at}, from byte {off} on")));
        }
        Ok(())
    }

    /// FSINFO's number of free clusters.
    pub(super) fn check_fsinfo(&mut self, b: &[u8; BOOT_BYTES]) -> Result<Option<u32>, FsError> {
        if self.boot.fat_type != FatType::Fat32 {
            return Ok(None);
        }
        let at = u16_at(b, 48)?;
        if at == 0 {
            self.add(Finding::new(Kind::FsinfoAbsent));
            return Ok(None);
        }
        let start = u64::from(at) * u64::from(self.boot.sector);
        let Some(info) = self.dev.read(start, 512)? else {
            let f = Finding::new(Kind::Unreadable).detail(format!("FSINFO in sector {at}"));
            self.add(f);
            return Ok(None);
        };
        if let Some((off, sig)) = SIGNATURES.iter().find(|(o, s)| u32_at(&info, *o) != Ok(*s)) {
            let f = Finding::new(Kind::Fsinfo).detail(format!("sector {at}, byte {off}"));
            self.add(f.found(u32_at(&info, *off)?).right(*sig));
            return Ok(None);
        }
        let (free, next) = (u32_at(&info, 488)?, u32_at(&info, 492)?);
        if next != UNKNOWN && !(FIRST_CLUSTER..self.boot.cluster_end()).contains(&next) {
            self.add(Finding::new(Kind::NextFree).found(next));
        }
        if free == UNKNOWN {
            self.add(Finding::new(Kind::FreeUnknown));
        }
        Ok(Some(free).filter(|n| *n != UNKNOWN))
    }

    pub(super) fn check_free(&mut self, hint: Option<u32>) {
        let Some(hint) = hint else { return };
        let used = self.table.used(FIRST_CLUSTER).count() as u64;
        let free = u64::from(self.boot.clusters).saturating_sub(used);
        if u64::from(hint) != free {
            self.add(Finding::new(Kind::FreeCount).found(hint).right(free));
        }
    }

    /// The marks in the boot sector and in the FAT's second entry.
    pub(super) fn check_state(&mut self, b: &[u8; BOOT_BYTES]) {
        let state = b.get(self.boot.state_at()).copied().unwrap_or(0);
        let (clean, sound) = entry_marks(self.boot.fat_type);
        let value = self.table.value(1);
        for (kind, byte, bit) in
            [(Kind::NotUnmounted, STATE_DIRTY, clean), (Kind::ErrorMark, STATE_ERROR, sound)]
        {
            let (in_boot, in_fat) = (state & byte != 0, value & bit != bit);
            let place = match (in_boot, in_fat) {
                (true, true) => "in boot sector and FAT",
                (true, false) => "in the boot sector",
                (false, true) => "in the FAT",
                (false, false) => continue,
            };
            self.add(Finding::new(kind).detail(place));
        }
    }

    pub(super) fn check_labels(&mut self) {
        // Without an extended boot record there is a label of zeroes, which is none either.
        let boot = self.boot.label.unwrap_or([0; 11]);
        let Some(mut root) = self.label else {
            if boot != NO_NAME {
                let bad = boot.iter().any(|b| bad_in_label(*b)) || boot.first() == Some(&b' ');
                let kind = if bad { Kind::LabelBad } else { Kind::LabelBootOnly };
                let f = Finding::new(kind).detail(format!("\"{}\"", boot.escape_ascii()));
                self.add(f);
            }
            return;
        };
        if let Some(first) = root.first_mut().filter(|f| **f == KANJI_E5) {
            *first = FREE;
        }
        let shown = root.escape_ascii();
        if root.iter().any(|b| bad_in_label(*b)) || root.first() == Some(&b' ') {
            let f =
                Finding::new(Kind::LabelBad).detail(format!("\"{shown}\" in the root directory"));
            self.add(f);
        } else if boot != root {
            let f = Finding::new(Kind::LabelDiffers);
            self.add(f.detail(format!("\"{}\" and \"{shown}\"", boot.escape_ascii())));
        }
    }
}
