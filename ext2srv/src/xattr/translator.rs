//! The Hurd's translator of a node: on volumes whose creator is the Hurd a block that
//! `i_translator` names, with two bytes of length and the command line (words that end in zero
//! bytes); elsewhere an attribute like others. Both are `gnu.translator`.
//!
//! The block belongs to the inode as a block of data does: it counts in `i_blocks`, a new one is
//! there (`Init`) before the inode names it (`Link`), and it is given back (`Free`) after the name
//! is gone (`Unlink`), or with the inode.

use crate::Ext2;
use crate::inode::Inode;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, slice, u16_at, u32_at};
use seawall_diskfs::{Attempt, Change, Extent, FsError, Ino, Refused, Site, Stage, Tx};

const WHAT: &str = "translator block";
/// `i_translator`.
const I_TRANSLATOR: usize = 0x24;
/// `EXT2_OS_HURD`.
const OS_HURD: u32 = 1;

impl Ext2 {
    /// The volume keeps translators in blocks.
    pub(crate) fn is_hurd(&self) -> bool {
        self.sb.creator_os == OS_HURD
    }

    /// An inode's translator block.
    pub(crate) fn translator_block(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Option<u64>> {
        if !self.is_hurd() {
            return Ok(None);
        }
        let (at, off) = self.inode_place(tx, ino)?;
        let block = u64::from(u32_at(&tx.read(at, "inode")?, off + I_TRANSLATOR)?);
        if block == 0 {
            return Ok(None);
        }
        self.check_pointer(block, at)?;
        Ok(Some(block))
    }

    /// The command line.
    pub(super) fn translator(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Option<Vec<u8>>> {
        let Some(block) = self.translator_block(tx, ino)? else { return Ok(None) };
        let b = tx.read(block, WHAT)?;
        let len = usize::from(u16_at(&b, 0)?);
        match slice(&b, 2, len) {
            Ok(line) => Ok(Some(line.to_vec())),
            Err(_) => Err(FsError::corrupt(WHAT, block, "longer than its block").into()),
        }
    }

    /// Sets or takes away the command line. The caller puts the inode afterwards, which says no
    /// more than its number of blocks.
    pub(super) fn set_translator(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        line: Option<&[u8]>,
    ) -> Attempt<()> {
        let old = self.translator_block(tx, ino)?;
        let Some(line) = line else {
            if let Some(block) = old {
                self.point(tx, ino, 0, Stage::Unlink)?;
                inode.sectors = inode.sectors.saturating_sub(self.sectors());
                self.free_run(tx, Extent { start: block, len: 1 })?;
            }
            return Ok(());
        };
        let len = u16::try_from(line.len()).map_err(|_| Refused::NoSpace)?;
        if line.len() + 2 > self.sb.block_size as usize {
            return Err(Refused::NoSpace.into());
        }
        // Never in place: a crash finds the old line or the new one.
        let block = self.alloc_run(tx, self.home_goal(ino)?, 1)?.start;
        let change = Change { site: Site::Inode, stage: Stage::Init, owner: Some(ino) };
        let b = tx.create_block(block, WHAT, change)?;
        put(b, 0, &len.to_le_bytes())?;
        put(b, 2, line)?;
        self.point(tx, ino, block, Stage::Link)?;
        match old {
            Some(old) => self.free_run(tx, Extent { start: old, len: 1 }),
            None => {
                inode.sectors += self.sectors();
                Ok(())
            }
        }
    }

    fn point(&self, tx: &mut Tx<'_>, ino: Ino, block: u64, stage: Stage) -> Attempt<()> {
        let block = u32::try_from(block).map_err(|_| FsError::Bug("block number"))?;
        let raw = self.raw_inode(tx, ino, stage)?;
        Ok(put(raw, I_TRANSLATOR, &block.to_le_bytes())?)
    }

    /// Gives a freed inode's translator block back.
    pub(crate) fn drop_translator(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let Some(block) = self.translator_block(tx, ino)? else { return Ok(()) };
        self.point(tx, ino, 0, Stage::Free)?;
        self.free_run(tx, Extent { start: block, len: 1 })
    }
}
