//! Inode allocation. Files go to their directory's group; directories are spread when they are made
//! in the root, and stay with their parent below it while its group has room.

use crate::Ext2;
use crate::balloc::{PENDING_MANY, set_skipped, skipped};
use crate::bitmap::{assign, first_clear};
use crate::group::{Counts, Group};
use crate::inode::ROOT_INO;
use seawall_diskfs::{Attempt, Change, FsError, Ino, Site, Stage, Tx};

const WHAT: &str = "inode bitmap";
/// Most groups that a new directory compares.
const SPREAD_GROUPS: u32 = 128;

/// Key of the hint that says how far a group's inode bitmap is all taken or pending.
fn skip_hint(group: u32) -> u64 {
    u64::from(group) << 8 | 2
}

impl Ext2 {
    /// Allocates an inode number for a node made in `parent`.
    pub(crate) fn alloc_inode(&self, tx: &mut Tx<'_>, parent: Ino, dir: bool) -> Attempt<Ino> {
        let (home, _) = self.inode_group(parent)?;
        let first = if dir { self.dir_group(tx, parent, home)? } else { home };
        // First a group that also has room for the node's blocks, then any.
        let mut seen = None;
        for with_blocks in [true, false] {
            for n in 0..self.sb.groups {
                let index = (first + n) % self.sb.groups;
                let (blocks, inodes) = self.free_counts(tx, index, &mut seen)?;
                if inodes == 0 || (with_blocks && blocks == 0) {
                    continue;
                }
                let g = self.group(tx, index)?;
                if let Some(ino) = self.take_inode(tx, &g, dir)? {
                    return Ok(ino);
                }
            }
        }
        Err(tx.no_space())
    }

    fn take_inode(&self, tx: &mut Tx<'_>, g: &Group, dir: bool) -> Attempt<Option<Ino>> {
        let map = self.inode_map(tx, g)?;
        let base = u64::from(g.index) * u64::from(self.sb.inodes_per_group) + 1;
        let bits = u64::from(self.sb.inodes_per_group);
        let low = u64::from(self.sb.first_ino).saturating_sub(base);
        let from = skipped(tx, skip_hint(g.index)).clamp(low, bits.max(low));
        let mut pending = 0;
        let mut usable = |at: u64, to: u64| {
            let mut at = at;
            while let Some(bit) = first_clear(&map, at, to) {
                if !tx.is_pending_inode(Ino(base + bit)) {
                    return Some(bit);
                }
                pending += 1;
                at = bit + 1;
            }
            None
        };
        let Some(bit) = usable(from, bits).or_else(|| usable(low, from)) else { return Ok(None) };
        if pending > PENDING_MANY {
            set_skipped(tx, skip_hint(g.index), bit);
        }
        self.claim_inode(tx, g, bit)?;
        let change = Change { site: Site::Bitmap, stage: Stage::Init, owner: None };
        assign(tx.modify(g.inode_bitmap, WHAT, change)?, bit, 1, true)?;
        let counts = Counts { inodes: -1, dirs: i64::from(dir), ..Counts::default() };
        self.count(tx, g.index, counts)?;
        Ok(Some(Ino(base + bit)))
    }

    /// Gives an inode number back.
    pub(crate) fn free_inode_bit(&self, tx: &mut Tx<'_>, ino: Ino, dir: bool) -> Attempt<()> {
        let (index, bit) = self.inode_group(ino)?;
        let g = self.group(tx, index)?;
        let change = Change { site: Site::Bitmap, stage: Stage::Free, owner: None };
        let map = tx.modify(g.inode_bitmap, WHAT, change)?;
        if !assign(map, u64::from(bit), 1, false)? {
            let what = "an inode in use is marked free";
            return Err(FsError::corrupt(WHAT, g.inode_bitmap, what).into());
        }
        tx.free_inode(ino);
        let counts = Counts { inodes: 1, dirs: -i64::from(dir), ..Counts::default() };
        self.count(tx, index, counts)
    }

    /// The group for a new directory: the one with most free inodes and blocks among the first
    /// [`SPREAD_GROUPS`] after the parent's.
    fn dir_group(&self, tx: &mut Tx<'_>, parent: Ino, home: u32) -> Attempt<u32> {
        let room = |g: &Group| u64::from(g.free_inodes).min(u64::from(g.free_blocks));
        let own = self.group(tx, home)?;
        let roomy = u64::from(own.free_blocks) > self.sb.blocks_per_group / 4
            && u64::from(own.free_inodes) > u64::from(self.sb.inodes_per_group) / 4;
        if parent.0 != ROOT_INO && roomy {
            return Ok(home);
        }
        let mut best = (room(&own), home);
        for n in 1..self.sb.groups.min(SPREAD_GROUPS) {
            let g = self.group(tx, (home + n) % self.sb.groups)?;
            if room(&g) > best.0 {
                best = (room(&g), g.index);
            }
        }
        Ok(best.1)
    }
}
