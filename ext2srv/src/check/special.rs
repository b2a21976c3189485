//! Reserved inodes: bad blocks, reserved descriptor blocks, the journal, quota files.

use super::Check;
use super::blocks::{Claim, Use};
use super::finding::{Finding, Kind};
use super::geometry::Fields;
use super::inodes::BAD_INO;
use super::raw::{FL_CASEFOLD, FL_EXTENTS, Raw};
use super::tree::{Item, Walk};
use seawall_diskfs::FsError;

const BOOT_INO: u32 = 5;
pub(super) const RESIZE_INO: u32 = 7;
const JOURNAL_INO: u32 = 8;
/// Slot of the pointer to a tree of height 2.
const DOUBLE: usize = 13;
/// First word of a journal's blocks, big-endian.
const JOURNAL_MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];
/// Fewest blocks of a journal.
const JOURNAL_MIN: u64 = 1024;

impl Check<'_> {
    /// An inode below the first one for files, other than the root.
    pub(super) fn reserved(&mut self, ino: u32, raw: &Raw<'_>) -> Result<(), FsError> {
        let mapped = raw.links() != 0 || matches!(ino, BAD_INO | JOURNAL_INO);
        let extents = raw.flags() & FL_EXTENTS != 0 && !self.geo.extents() && mapped;
        if extents || raw.flags() & FL_CASEFOLD != 0 {
            let f = Finding::new(Kind::FlagWithout).inode(ino);
            self.add(f.detail("extents or casefold"));
        }
        let journal = self.geo.has_journal() && self.geo.journal_inum == ino;
        match ino {
            BAD_INO => self.bad_blocks(raw),
            RESIZE_INO => self.resize(raw),
            _ if journal => self.journal(ino, raw),
            _ if self.geo.quota() && self.geo.quota_inode(ino) => self.check_blocks(ino, raw),
            JOURNAL_INO | 3 | 4 => {
                if raw.links() != 0 || raw.blocks(&self.geo) != 0 || raw.pointer(0) != 0 {
                    self.add(Finding::new(Kind::ReservedInode).inode(ino));
                }
                Ok(())
            }
            _ => {
                let in_use = if ino == BOOT_INO { raw.is_dir() } else { raw.mode() != 0 };
                if in_use {
                    self.add(Finding::new(Kind::ReservedInode).inode(ino));
                }
                self.check_blocks(ino, raw)
            }
        }
    }

    /// Blocks that the medium lost. They belong to no file, and of the volume's own structures only
    /// reserved descriptor blocks can live without them.
    fn bad_blocks(&mut self, raw: &Raw<'_>) -> Result<(), FsError> {
        let f = raw.fields();
        if [0, 2, 0x18, 0x1A].into_iter().any(|off| f.u16(off) != 0) || f.u32(0x68) != 0 {
            self.add(Finding::new(Kind::BadBlocksInode).inode(BAD_INO));
        }
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        while let Some(item) = walk.next() {
            match item {
                Item::Wrong(what) => {
                    self.add(Finding::new(Kind::ExtentTree).inode(BAD_INO).detail(what));
                }
                Item::Node { block, .. } => {
                    if self.claim(BAD_INO, block)? == Claim::First
                        && let Some(buf) = self.read_block(block, |f| f.inode(BAD_INO))?
                    {
                        walk.enter(buf);
                    }
                }
                Item::Run { block, len, .. } => {
                    for block in block..block.saturating_add(len) {
                        let reserved = self.geo.holds(block) && self.spare.get(self.bit(block));
                        if !reserved && self.claim(BAD_INO, block)? == Claim::Outside {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The inode that keeps the blocks into which the descriptor table can grow: one tree of height
    /// 2 whose pointer blocks are those of the first group and whose data are their copies.
    fn resize(&mut self, raw: &Raw<'_>) -> Result<(), FsError> {
        let empty = (0..15).all(|n| raw.pointer(n) == 0);
        if self.geo.resize_inode() {
            let double = u64::from(raw.pointer(DOUBLE));
            let only = (0..15).all(|n| n == DOUBLE || raw.pointer(n) == 0);
            let head = only && raw.links() != 0 && raw.is_file() && self.geo.holds(double);
            if !head || !self.resize_tree(double)? {
                self.add(Finding::new(Kind::ResizeInode).inode(RESIZE_INO));
                return Ok(());
            }
        } else if !empty {
            let f = Finding::new(Kind::SuperHint).inode(RESIZE_INO);
            self.add(f.detail("reserved descriptor blocks without the feature resize_inode"));
        }
        if raw.mode() != 0 && !raw.is_file() {
            self.add(Finding::new(Kind::ReservedInode).inode(RESIZE_INO));
        }
        let mut used = Use::default();
        if raw.is_file() {
            self.resize_blocks(raw, &mut used)?;
        }
        self.compare_blocks(RESIZE_INO, raw, &mut used)
    }

    /// Counts the blocks of the tree. Its root alone is claimed: the rest are the groups' own.
    fn resize_blocks(&mut self, raw: &Raw<'_>, used: &mut Use) -> Result<(), FsError> {
        let mut nodes = 0;
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        while let Some(item) = walk.next() {
            match item {
                Item::Wrong(_) => used.broken = true,
                Item::Run { file, len, .. } => {
                    used.blocks += len;
                    used.last = used.last.max(Some(file + len - 1));
                    used.last_data = used.last;
                }
                Item::Node { block, .. } => {
                    nodes += 1;
                    used.blocks += 1;
                    if block == u64::from(raw.pointer(DOUBLE)) && nodes == 1 {
                        used.broken |= self.claim(RESIZE_INO, block)? != Claim::First;
                    }
                    // A tree of height 2 has no more.
                    if nodes > self.geo.bs / 4 + 1 || !self.geo.holds(block) {
                        used.broken = true;
                        self.add(Finding::new(Kind::ResizeInode).inode(RESIZE_INO).block(block));
                        return Ok(());
                    }
                    if let Some(buf) = self.read_block(block, |f| f.inode(RESIZE_INO))? {
                        walk.enter(buf);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the pointers below the tree's root are what they must be.
    fn resize_tree(&mut self, double: u64) -> Result<bool, FsError> {
        let Some(root) = self.read_block(double, |f| f.inode(RESIZE_INO))? else {
            return Ok(false);
        };
        let per = self.geo.bs / 4;
        let table = self.geo.desc_blocks();
        for i in 0..self.geo.reserved_gdt {
            let block = self.geo.first_block + 1 + table + i;
            let slot = (table + i) % per;
            if u64::from(Fields(&root).u32(slot as usize * 4)) != block {
                return Ok(false);
            }
            let Some(leaf) = self.read_block(block, |f| f.inode(RESIZE_INO))? else {
                return Ok(false);
            };
            let copies = (1..self.geo.groups).filter(|g| self.geo.has_super(*g));
            for (at, group) in copies.take(per as usize).enumerate() {
                let right = block + u64::from(group) * self.geo.per_group;
                if u64::from(Fields(&leaf).u32(at * 4)) != right {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn journal(&mut self, ino: u32, raw: &Raw<'_>) -> Result<(), FsError> {
        let first = self.first_block_of(raw)?;
        let sound = raw.links() != 0
            && raw.is_file()
            && raw.size() / self.geo.bs >= JOURNAL_MIN
            && match first {
                Some(block) if self.geo.holds(block) => self
                    .read_block(block, |f| f.inode(ino))?
                    .is_some_and(|b| b.starts_with(&JOURNAL_MAGIC)),
                _ => false,
            };
        if !sound {
            self.add(Finding::new(Kind::JournalInode).inode(ino));
        }
        self.check_blocks(ino, raw)
    }

    /// The block of a file's first bytes.
    fn first_block_of(&mut self, raw: &Raw<'_>) -> Result<Option<u64>, FsError> {
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        loop {
            match walk.next() {
                Some(Item::Run { block, file: 0, .. }) => return Ok(Some(block)),
                // An extent tree is at most six high, and each node leads deeper.
                Some(Item::Node { block, file: 0 }) if raw.by_extents(&self.geo) => {
                    match self.read_block(block, |f| f)? {
                        Some(buf) => walk.enter(buf),
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
        }
    }
}
