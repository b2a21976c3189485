//! What has to be known of a journal to leave it alone, and of a volume that others may use.
//!
//! A volume with a journal is written without it, as Linux's ext2 did: that is right while the
//! journal is empty. One that is not would be replayed over the changes by the next mount.

use crate::Ext2;
use crate::features::{COMPAT_HAS_JOURNAL, INCOMPAT_MMP, INCOMPAT_RECOVER};
use alloc::format;
use alloc::string::String;
use seawall_diskfs::bytes::{array_at, slice, u32_at};
use seawall_diskfs::{Attempt, Extent, FsError, Ino, Tx};

/// First word of each block of a journal that is none of data.
const JOURNAL_MAGIC: u32 = 0xC03B_3998;
/// Where the log begins; 0: it is empty.
const S_START: usize = 0x1C;
const MMP_MAGIC: u32 = 0x004D_4D50;
/// Nobody uses the volume.
const MMP_CLEAN: u32 = 0xFF4D_4D50;
/// e2fsck does.
const MMP_FSCK: u32 = 0xE24D_4D50;

impl Ext2 {
    /// Refuses a volume with a journal that is not empty. `needs_recovery` says that first, but
    /// only if nobody cleared it.
    pub(crate) fn check_journal(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        let recover = self.incompat(INCOMPAT_RECOVER);
        if self.sb.compat & COMPAT_HAS_JOURNAL == 0 || recover || self.writes_never() {
            return Ok(());
        }
        let ino = Ino(u64::from(self.sb.journal_inode));
        let wrong = |block, what: String| FsError::corrupt("journal", block, what);
        let inode = self.special_inode(tx, ino)?;
        let inode = inode.ok_or_else(|| wrong(0, format!("inode {} is not in use", ino.0)))?;
        let runs = self.map_blocks(tx, &inode, Extent { start: 0, len: 1 })?;
        let block = runs.first().and_then(|m| m.disk);
        let block = block.ok_or_else(|| wrong(0, "has no first block".into()))?;
        let b = tx.read(block, "journal")?;
        let be = |off| array_at(&b, off).map(u32::from_be_bytes);
        if be(0)? != JOURNAL_MAGIC {
            return Err(wrong(block, "no magic number".into()).into());
        }
        if be(S_START)? != 0 {
            let what = "has_journal: writing a volume whose journal is not empty; run e2fsck";
            return Err(FsError::unsupported(what).into());
        }
        Ok(())
    }

    /// Refuses a volume that another host uses, or left without an end (`mmp`).
    pub(crate) fn check_others(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        if !self.incompat(INCOMPAT_MMP) {
            return Ok(());
        }
        let block = self.sb.mmp_block;
        self.check_pointer(block, 0)?;
        let b = tx.read(block, "mmp block")?;
        if u32_at(&b, 0)? != MMP_MAGIC {
            return Err(FsError::corrupt("mmp block", block, "no magic number").into());
        }
        let seq = u32_at(&b, 4)?;
        if seq == MMP_CLEAN {
            return Ok(());
        }
        let node = slice(&b, 16, 64)?;
        let node = node.split(|b| *b == 0).next().unwrap_or_default();
        let who = if seq == MMP_FSCK { "e2fsck" } else { "a host" };
        let what = format!(
            "mmp: the volume is in use by {who} ({}), or was not let go",
            String::from_utf8_lossy(node).escape_default()
        );
        Err(FsError::unsupported(what).into())
    }
}
