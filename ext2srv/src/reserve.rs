//! Blocks kept in reserve (`s_r_blocks_count`): the last free ones are for user 0, and for the user
//! and group that the volume or the mount names. A volume that users filled still has room for the
//! system's own files, and allocation does not degrade to single blocks.

use crate::Ext2;
use crate::superblock::S_FREE_BLOCKS;
use seawall_diskfs::bytes::u32_at;
use seawall_diskfs::{Attempt, Refused, Tx};

impl Ext2 {
    /// Who may use the reserve instead of those whom the superblock names (`resuid=`, `resgid=`).
    #[must_use]
    pub fn with_reserve_for(mut self, uid: Option<u32>, gid: Option<u32>) -> Self {
        self.reserved_for =
            (uid.unwrap_or(self.reserved_for.0), gid.unwrap_or(self.reserved_for.1));
        self
    }

    /// How many of `want` blocks the caller may take. `NoSpace` when only the reserve is left.
    pub(crate) fn may_take(&self, tx: &mut Tx<'_>, want: u64) -> Attempt<u64> {
        let kept = u64::from(self.sb.reserved_blocks);
        let (uid, gid) = self.reserved_for;
        if kept == 0 || tx.caller_is(uid, gid) {
            return Ok(want);
        }
        let free = u64::from(self.read_super(tx, |s| u32_at(s, S_FREE_BLOCKS))?);
        if free >= kept.saturating_add(want) {
            return Ok(want);
        }
        // The superblock's count is the one that may be wrong: the groups have the last word.
        let (mut free, mut seen) = (0u64, None);
        for index in 0..self.sb.groups {
            free += u64::from(self.free_counts(tx, index, &mut seen)?.0);
        }
        match free.saturating_sub(kept).min(want) {
            0 => Err(Refused::NoSpace.into()),
            n => Ok(n),
        }
    }
}
