//! FSINFO, and the marks of a volume in use.
//!
//! FSINFO is a hint: where to look for free clusters. Its count is written when the volume is taken
//! out of use and never believed; after a crash it is wrong, and the marks say so.
//!
//! The marks stand in the boot sector (a byte) and in the FAT's entry 1 (bits). Both are read, and
//! both are set before the first change reaches the disk and cleared after the last. A volume that
//! was marked when it was opened stays marked: only a checker may say that it is sound.

use crate::Fat;
use crate::boot::{STATE_DIRTY, STATE_ERROR};
use crate::volume::entry_marks;
use seawall_diskfs::bytes::{put, u8_at, u32_at};
use seawall_diskfs::{Attempt, Change, Site, Stage, Tx};

/// `FSI_LeadSig`, `FSI_StrucSig` and `FSI_TrailSig`, with their offsets.
const SIGNATURES: [(usize, u32); 3] = [(0, 0x4161_5252), (484, 0x6141_7272), (508, 0xAA55_0000)];
/// `FSI_Free_Count`.
const FREE_COUNT: usize = 488;
/// `FSI_Nxt_Free`.
const NEXT_FREE: usize = 492;
/// Memo space: the volume was found to be damaged while it was in use.
const SPACE_DAMAGED: u8 = 3;

const MARK: Change = Change { site: Site::Hypermetadata, stage: Stage::Any, owner: None };

fn is_fsinfo(sector: &[u8]) -> bool {
    SIGNATURES.iter().all(|(at, sig)| u32_at(sector, *at).is_ok_and(|v| v == *sig))
}

/// Where free clusters are, as FSINFO says.
pub(crate) fn next_cluster(sector: &[u8; 512]) -> Option<u32> {
    is_fsinfo(sector).then(|| u32_at(sector, NEXT_FREE).ok()).flatten()
}

impl Fat {
    /// Sets or clears the marks of a volume in use.
    pub(crate) fn mark(&self, tx: &mut Tx<'_>, clean: bool) -> Attempt<()> {
        let damaged = tx.memo(SPACE_DAMAGED, 0).is_some();
        let clears = clean && !self.marks.dirty && !damaged;
        if !clean || clears {
            self.set_state(tx, STATE_DIRTY, !clean)?;
            let (bit, _) = entry_marks(self.boot.fat_type);
            self.set_entry_mark(tx, bit, clean)?;
        }
        if clean { self.write_fsinfo(tx) } else { Ok(()) }
    }

    /// Notes that the volume contradicts itself: it stays marked as in use until it is checked.
    pub(crate) fn mark_damaged(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        tx.set_memo(SPACE_DAMAGED, 0, Some([1, 0, 0, 0]));
        self.set_state(tx, STATE_DIRTY, true)?;
        let (bit, _) = entry_marks(self.boot.fat_type);
        self.set_entry_mark(tx, bit, false)
    }

    fn set_state(&self, tx: &mut Tx<'_>, bit: u8, on: bool) -> Attempt<()> {
        debug_assert!(bit & (STATE_DIRTY | STATE_ERROR) == bit);
        let at = self.boot.state_at();
        let block = tx.modify(0, "boot sector", MARK)?;
        let old = u8_at(block, at)?;
        let new = if on { old | bit } else { old & !bit };
        Ok(put(block, at, &[new])?)
    }

    /// Sets or clears bits of the FAT's entry 1, in every copy that is kept.
    fn set_entry_mark(&self, tx: &mut Tx<'_>, bits: u32, on: bool) -> Attempt<()> {
        if bits == 0 {
            return Ok(());
        }
        let old = crate::table::Reader::default().raw(self, tx, 1)?;
        let new = if on { old | bits } else { old & !bits };
        self.set_entry(tx, 1, new, MARK)
    }

    fn write_fsinfo(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        let Some(sector) = self.boot.fsinfo else { return Ok(()) };
        let pos = u64::from(sector) * u64::from(self.boot.sector);
        let bs = u64::from(self.boot.block_size);
        let (number, off) = (pos / bs, (pos % bs) as usize);
        let block = tx.read(number, "FSINFO")?;
        let is = block.get(off..off + 512).is_some_and(is_fsinfo);
        if !is {
            return Ok(());
        }
        let free = self.free_total(tx)?;
        let next = self.next_cluster(tx);
        let block = tx.modify(number, "FSINFO", MARK)?;
        put(block, off + FREE_COUNT, &free.to_le_bytes())?;
        Ok(put(block, off + NEXT_FREE, &next.to_le_bytes())?)
    }
}
