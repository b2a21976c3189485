//! Attribute blocks. One block can serve several inodes and counts them; a freed inode gives its
//! share back. The attributes themselves are left alone.

use crate::Ext2;
use seawall_diskfs::bytes::{put, u32_at};
use seawall_diskfs::{Attempt, Change, Extent, FsError, Ino, Site, Stage, Tx};

const WHAT: &str = "attribute block";
const MAGIC: u32 = 0xEA02_0000;
const H_REFCOUNT: usize = 4;
/// More owners than this no writer makes (`EXT2_XATTR_REFCOUNT_MAX`).
const REFCOUNT_MAX: u32 = 1024;

impl Ext2 {
    /// Takes one owner off an attribute block and frees it with the last.
    pub(crate) fn drop_acl(&self, tx: &mut Tx<'_>, ino: Ino, block: u64) -> Attempt<()> {
        self.check_pointer(block, block)?;
        let b = tx.read(block, WHAT)?;
        let count = u32_at(&b, H_REFCOUNT)?;
        if u32_at(&b, 0)? != MAGIC || count == 0 || count > REFCOUNT_MAX {
            return Err(FsError::corrupt(WHAT, block, "no attribute block").into());
        }
        if count == 1 {
            return self.free_run(tx, Extent { start: block, len: 1 });
        }
        let change = Change { site: Site::Inode, stage: Stage::Free, owner: Some(ino) };
        let b = tx.modify(block, WHAT, change)?;
        Ok(put(b, H_REFCOUNT, &(count - 1).to_le_bytes())?)
    }
}
