//! Reserved inodes: bad blocks, reserved descriptor blocks, the journal, quota files.

use super::Check;
use super::blocks::Claim;
use super::finding::{Finding, Kind};
use super::geometry::Fields;
use super::inodes::BAD_INO;
use super::raw::Raw;
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
        let journal = self.geo.has_journal() && self.geo.journal_inum == ino;
        match ino {
            BAD_INO => self.bad_blocks(raw),
            RESIZE_INO => self.resize(raw),
            _ if journal => self.journal(ino, raw),
            _ if self.geo.quota() && self.geo.quota_inode(ino) => self.check_blocks(ino, raw),
            _ => {
                let file = raw.links() != 0 || raw.blocks(&self.geo) != 0 || raw.pointer(0) != 0;
                let in_use = if ino == JOURNAL_INO || self.geo.quota_inode(ino) {
                    file
                } else if ino == BOOT_INO {
                    raw.is_dir()
                } else {
                    raw.mode() != 0
                };
                if in_use {
                    self.add(Finding::new(Kind::ReservedInode).inode(ino));
                }
                self.check_blocks(ino, raw)
            }
        }
    }

    /// Blocks that the medium lost. They belong to no file; some may lie under the volume's own
    /// structures, and only an inode table can live with that.
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
                        if !self.in_inode_table(block)
                            && self.claim(BAD_INO, block)? == Claim::Outside
                        {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn in_inode_table(&self, block: u64) -> bool {
        if !self.geo.holds(block) || !self.own.get(self.bit(block)) {
            return false;
        }
        let len = self.geo.table_blocks();
        let inside = |start: u64| (start..start.saturating_add(len)).contains(&block);
        self.groups.iter().any(|d| d.sound && inside(d.inode_table))
    }

    /// The inode that keeps the blocks into which the descriptor table can grow: one tree of height
    /// 2 whose pointer blocks are those of the first group and whose data are their copies.
    fn resize(&mut self, raw: &Raw<'_>) -> Result<(), FsError> {
        let empty = (0..15).all(|n| raw.pointer(n) == 0);
        if !self.geo.resize_inode() {
            if !empty {
                let f = Finding::new(Kind::SuperHint).inode(RESIZE_INO);
                self.add(f.detail("reserved descriptor blocks without the feature resize_inode"));
            }
            if raw.mode() != 0 && !raw.is_file() {
                self.add(Finding::new(Kind::ReservedInode).inode(RESIZE_INO));
            }
            return Ok(());
        }
        let double = u64::from(raw.pointer(DOUBLE));
        let only = (0..15).all(|n| n == DOUBLE || raw.pointer(n) == 0);
        let mut sound = only && raw.links() != 0 && raw.is_file() && self.geo.holds(double);
        let mut blocks = 1;
        if sound {
            if self.claim(RESIZE_INO, double)? != Claim::First {
                return Ok(());
            }
            match self.resize_tree(double)? {
                Some(n) => blocks += n,
                None => sound = false,
            }
        }
        if !sound {
            self.add(Finding::new(Kind::ResizeInode).inode(RESIZE_INO));
            return Ok(());
        }
        let right = blocks * (self.geo.bs / 512);
        let stands = raw.blocks(&self.geo);
        if stands != right && !self.geo.hurd {
            let f = Finding::new(Kind::SectorCount).inode(RESIZE_INO);
            self.add(f.found(stands).right(right));
        }
        Ok(())
    }

    /// Pointers below the tree's root; `None` when one of them is not what it must be.
    fn resize_tree(&mut self, double: u64) -> Result<Option<u64>, FsError> {
        let Some(root) = self.read_block(double, |f| f.inode(RESIZE_INO))? else {
            return Ok(None);
        };
        let per = self.geo.bs / 4;
        let table = self.geo.desc_blocks();
        let mut count = 0;
        for i in 0..self.geo.reserved_gdt {
            let block = self.geo.first_block + 1 + table + i;
            let slot = (table + i) % per;
            if u64::from(Fields(&root).u32(slot as usize * 4)) != block {
                return Ok(None);
            }
            let Some(leaf) = self.read_block(block, |f| f.inode(RESIZE_INO))? else {
                return Ok(None);
            };
            count += 1;
            let copies = (1..self.geo.groups).filter(|g| self.geo.has_super(*g));
            for (at, group) in copies.take(per as usize).enumerate() {
                let right = block + u64::from(group) * self.geo.per_group;
                if u64::from(Fields(&leaf).u32(at * 4)) != right {
                    return Ok(None);
                }
                count += 1;
            }
        }
        Ok(Some(count))
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
