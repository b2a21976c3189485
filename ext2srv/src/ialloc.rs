//! Inode allocation. Files go to their directory's group; directories are spread when they are made
//! in the root, and stay near their parent below it.

use crate::Ext2;
use crate::balloc::{PENDING_MANY, set_skipped, skipped};
use crate::bitmap::{assign, first_clear};
use crate::group::{Counts, Group};
use crate::inode::{FL_TOPDIR, ROOT_INO};
use crate::superblock::{S_FREE_BLOCKS, S_FREE_INODES};
use alloc::vec::Vec;
use seawall_diskfs::bytes::u32_at;
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

    /// The group for a new directory, by Orlov's rule as Linux has it (`find_group_orlov`): one
    /// made in the root, or in a directory with the flag `topdir`, goes where the fewest are among
    /// groups with more than the mean free; any other one stays with its parent or near, unless
    /// that group has many more directories, or much less free, than the mean.
    fn dir_group(&self, tx: &mut Tx<'_>, parent: Ino, home: u32) -> Attempt<u32> {
        let (groups, per_group) = (u64::from(self.sb.groups), u64::from(self.sb.inodes_per_group));
        let (blocks, inodes) = self.read_super(tx, |s| {
            Ok((u64::from(u32_at(s, S_FREE_BLOCKS)?), u64::from(u32_at(s, S_FREE_INODES)?)))
        })?;
        let (blocks, inodes) = (blocks / groups, inodes / groups);
        let top = parent.0 == ROOT_INO || self.inode(tx, parent)?.flags & FL_TOPDIR != 0;
        let near = (0..self.sb.groups.min(SPREAD_GROUPS)).map(|n| (home + n) % self.sb.groups);
        let mut looked = Vec::new();
        for index in near {
            let g = self.group(tx, index)?;
            if g.free_inodes > 0 {
                looked.push(g);
            }
        }
        let has = |g: &&Group, i: u64, b: u64| {
            u64::from(g.free_inodes) >= i && u64::from(g.free_blocks) >= b
        };
        let found = if top {
            looked.iter().filter(|g| has(g, inodes, blocks)).min_by_key(|g| g.used_dirs)
        } else {
            let dirs: u64 = looked.iter().map(|g| u64::from(g.used_dirs)).sum();
            let most = dirs / (looked.len() as u64).max(1) + per_group / 16;
            let least_inodes = inodes.saturating_sub(per_group / 4);
            let least_blocks = blocks.saturating_sub(self.sb.blocks_per_group / 4);
            looked
                .iter()
                .filter(|g| u64::from(g.used_dirs) < most.max(1))
                .find(|g| has(g, least_inodes.max(1), least_blocks.max(1)))
        };
        let found = found.or_else(|| looked.iter().find(|g| has(g, inodes, 0)));
        Ok(found.map_or(home, |g| g.index))
    }
}
