//! The list of inodes without links that are still in use: `s_last_orphan` names the newest one,
//! and each one's `i_dtime` the next, 0 at the end. Linux's ext3 and e2fsck keep it so.
//!
//! The crash cases. An inode comes onto the list in the transaction that takes its last name. Head
//! and link lie in blocks that may reach the disk apart: an inode that the head names too early
//! still has a name and nothing past its size; one that is linked but not reached yet, or not any
//! more, is in use without links. A checker mends both without asking. What it would not mend is a
//! list that leads to a freed inode, so the list lets go of an inode (`Unlink`) before it is freed
//! (`Free`), and a freed inode's deletion time is above every inode number.
//!
//! Taking an inode out of the middle needs the one before it. A hint remembers that; it is checked
//! against the disk, and without it the list is walked.

use crate::Ext2;
use crate::inode::ROOT_INO;
use crate::superblock::S_LAST_ORPHAN;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u32_at};
use seawall_diskfs::{Attempt, Change, FsError, Ino, Site, Stage, Tx};

/// Longest list that is believed: no user of a volume holds more inodes at once.
const LIST_MAX: usize = 65_536;

/// Key of the hint that says which inode's link leads to this one; 0 is the superblock.
fn before_hint(ino: u32) -> u64 {
    u64::from(ino) << 8 | 4
}

fn number(ino: Ino) -> u32 {
    u32::try_from(ino.0).unwrap_or(0)
}

impl Ext2 {
    fn last_orphan(&self, tx: &mut Tx<'_>) -> Attempt<u32> {
        self.read_super(tx, |s| u32_at(s, S_LAST_ORPHAN))
    }

    /// See [`seawall_diskfs::Format::orphan_add`].
    pub(crate) fn list_orphan(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<bool> {
        let head = self.last_orphan(tx)?;
        if head != 0 && !self.may_be_listed(head) || head == number(ino) {
            // A damaged list takes no more.
            return Ok(false);
        }
        self.modify_super(tx, |s| put(s, S_LAST_ORPHAN, &number(ino).to_le_bytes()))?;
        tx.set_hint(before_hint(number(ino)), 0);
        tx.set_hint(before_hint(head), ino.0);
        self.update_inode(tx, ino, Stage::Free, |i| i.dtime = head)?;
        Ok(true)
    }

    fn may_be_listed(&self, ino: u32) -> bool {
        ino <= self.sb.inodes && ino >= self.sb.first_ino && u64::from(ino) != ROOT_INO
    }

    /// See [`seawall_diskfs::Format::orphan_remove`].
    pub(crate) fn unlist_orphan(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<()> {
        let next = self.inode(tx, ino)?.dtime;
        let before = if self.last_orphan(tx)? == number(ino) {
            0
        } else {
            match self.orphan_before(tx, ino)? {
                Some(i) => i,
                // A damaged list does not lead here: nothing to let go of.
                None => return self.update_inode(tx, ino, Stage::Free, |i| i.dtime = 0),
            }
        };
        if before == 0 {
            let change = Change { site: Site::Hypermetadata, stage: Stage::Unlink, owner: None };
            self.modify_super_at(tx, change, |s| put(s, S_LAST_ORPHAN, &next.to_le_bytes()))?;
        } else {
            let at = Ino(u64::from(before));
            self.update_inode(tx, at, Stage::Unlink, |i| i.dtime = next)?;
        }
        tx.set_hint(before_hint(next), u64::from(before));
        self.update_inode(tx, ino, Stage::Free, |i| i.dtime = 0)
    }

    /// The inode on the list whose link leads to `ino`.
    fn orphan_before(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Option<u32>> {
        let hint = tx.hint(before_hint(number(ino))).unwrap_or(0);
        if hint != 0
            && let Ok(i) = self.inode(tx, Ino(hint))
            && i.links == 0
            && i.dtime == number(ino)
        {
            return Ok(u32::try_from(hint).ok());
        }
        let list = match self.orphans(tx) {
            Err(seawall_diskfs::Fault::Err(FsError::Corrupt(_))) => return Ok(None),
            other => other?,
        };
        let at = list.iter().position(|o| *o == ino);
        Ok(at.and_then(|n| n.checked_sub(1)).and_then(|n| list.get(n)).map(|o| number(*o)))
    }

    /// See [`seawall_diskfs::Format::orphan_list`].
    pub(crate) fn orphans(&self, tx: &mut Tx<'_>) -> Attempt<Vec<Ino>> {
        let mut list = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = self.last_orphan(tx)?;
        while at != 0 {
            let wrong = |what| FsError::corrupt("orphan list", 0, format!("inode {at} {what}"));
            if !self.may_be_listed(at) {
                return Err(wrong("is none for files").into());
            }
            if list.len() >= LIST_MAX {
                return Err(wrong("is beyond the longest list").into());
            }
            if !seen.insert(at) {
                return Err(wrong("is on it twice").into());
            }
            let ino = Ino(u64::from(at));
            let inode = self.listed_inode(tx, ino)?.ok_or_else(|| wrong("is not in use"))?;
            list.push(ino);
            at = inode.dtime;
        }
        Ok(list)
    }
}
