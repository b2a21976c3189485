//! Changes of attributes.

use super::entry::{self, Entry};
use super::names::Name;
use super::{
    BODY_HEADER, H_BLOCKS, H_HASH, H_REFCOUNT, HEADER, MAGIC, REFCOUNT_MAX, WHAT, acl, share_hint,
};
use crate::Ext2;
use crate::features::COMPAT_EXT_ATTR;
use crate::inode::Inode;
use crate::superblock::{
    GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE, S_FEATURE_COMPAT, S_FIRST_INO, S_INODE_SIZE,
    S_REV_LEVEL,
};
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;
use seawall_diskfs::bytes::{put, slice_mut, u32_at};
use seawall_diskfs::{Attempt, Change, FsError, Ino, Refused, Site, Stage, Tx};

/// When the inode's bytes change, in the order on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// The inode is in use: with the pointer, or in any order when none changes.
    Used,
    /// Nothing reaches it yet.
    New,
}

/// What an inode's attributes become.
struct Plan {
    body: Vec<Entry>,
    body_changed: bool,
    block: Vec<Entry>,
    block_changed: bool,
    /// A change that must not be half there after a crash: never in place.
    whole: bool,
}

impl Ext2 {
    /// See [`seawall_diskfs::Format::xattr_set`].
    pub(crate) fn set_attribute(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        self.change_attributes(tx, ino, &[(name, value)], When::Used)
    }

    /// See [`seawall_diskfs::Format::xattr_init`].
    pub(crate) fn first_attributes(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        list: &[(&[u8], Vec<u8>)],
    ) -> Attempt<()> {
        let list: Vec<(&[u8], Option<&[u8]>)> =
            list.iter().map(|(n, v)| (*n, Some(v.as_slice()))).collect();
        self.change_attributes(tx, ino, &list, When::New)
    }

    fn change_attributes(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        list: &[(&[u8], Option<&[u8]>)],
        when: When,
    ) -> Attempt<()> {
        let mut inode = self.inode(tx, ino)?;
        let old = inode.file_acl;
        let (block, owners) = if old == 0 { (Vec::new(), 0) } else { self.block_entries(tx, old)? };
        let body = self.body_entries(tx, ino, &inode)?;
        let mut plan =
            Plan { body, body_changed: false, block, block_changed: false, whole: false };
        for (name, value) in list {
            let name = Name::parse(name).ok_or_else(|| FsError::unsupported("attribute name"))?;
            if let Some(field) = self.hurd_field(&name) {
                self.set_hurd_value(tx, ino, &mut inode, field, *value)?;
                // Another system may have left one among the attributes.
                self.plan_one(&mut plan, &inode, name, None)?;
                continue;
            }
            let value = match value {
                Some(v) if name.is_acl() => Some(acl::to_disk(v)?),
                v => v.map(<[u8]>::to_vec),
            };
            self.plan_one(&mut plan, &inode, name, value)?;
        }
        self.put_attributes(tx, ino, inode, plan, (old, owners), when)
    }

    /// Takes one attribute out and puts its new value where it fits: the inode first.
    fn plan_one(
        &self,
        plan: &mut Plan,
        inode: &Inode,
        name: Name<'_>,
        value: Option<Vec<u8>>,
    ) -> Result<(), Refused> {
        let (_, room) = self.body_room(inode);
        let before = (plan.body.len(), plan.block.len());
        plan.body.retain(|e| !e.is(name.index, name.rest));
        plan.block.retain(|e| !e.is(name.index, name.rest));
        plan.body_changed |= plan.body.len() != before.0;
        plan.block_changed |= plan.block.len() != before.1;
        plan.whole |= name.is_acl();
        let Some(value) = value else { return Ok(()) };
        plan.body.push(Entry { index: name.index, name: name.rest.to_vec(), value });
        if BODY_HEADER + entry::table_len(&plan.body) <= room {
            plan.body_changed = true;
            return Ok(());
        }
        let Some(entry) = plan.body.pop() else { return Ok(()) };
        let at = plan.block.partition_point(|e| e.order(entry.index, &entry.name).is_lt());
        plan.block.insert(at, entry);
        plan.block_changed = true;
        if HEADER + entry::table_len(&plan.block) > self.sb.block_size as usize {
            return Err(Refused::NoSpace);
        }
        Ok(())
    }

    fn put_attributes(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        mut inode: Inode,
        plan: Plan,
        (old, owners): (u64, u32),
        when: When,
    ) -> Attempt<()> {
        let in_place = owners == 1 && !plan.body_changed && !plan.whole;
        let new = match () {
            () if !plan.block_changed => old,
            () if plan.block.is_empty() => 0,
            () => match self.shared(tx, ino, &plan.block, old)? {
                Some(block) => block,
                None => self.own_block(tx, ino, &plan.block, in_place.then_some(old))?,
            },
        };
        let count = |block: u64| if block == 0 { 0 } else { self.sectors() };
        inode.sectors = (inode.sectors + count(new)).saturating_sub(count(old));
        inode.file_acl = new;
        inode.ctime = tx.now();
        let stage = match when {
            When::New => Stage::Init,
            When::Used if new != old && new == 0 => Stage::Unlink,
            When::Used if new != old => Stage::Link,
            When::Used => Stage::Any,
        };
        tx.touch(ino);
        let (start, room) = self.body_room(&inode);
        let raw = self.raw_inode(tx, ino, stage)?;
        inode.encode(raw)?;
        if plan.body_changed {
            let body = slice_mut(raw, start, room)?;
            let magic = if plan.body.is_empty() { 0 } else { MAGIC };
            put(body, 0, &magic.to_le_bytes())?;
            entry::encode(&plan.body, body, BODY_HEADER, BODY_HEADER, false)?;
        }
        if plan.body_changed || new != 0 {
            self.note_attributes(tx)?;
        }
        if old != 0 && new != old { self.drop_acl(tx, ino, old) } else { Ok(()) }
    }

    /// A block that holds the same attributes and takes one more owner.
    fn shared(&self, tx: &mut Tx<'_>, ino: Ino, list: &[Entry], old: u64) -> Attempt<Option<u64>> {
        let hash = entry::table_hash(list);
        let block = tx.hint(share_hint(hash)).unwrap_or(0);
        if hash == 0 || block == 0 || block == old {
            return Ok(None);
        }
        let (have, owners) = self.block_entries(tx, block)?;
        if have != list || owners >= REFCOUNT_MAX {
            return Ok(None);
        }
        let change = Change { site: Site::Inode, stage: Stage::Prepare, owner: Some(ino) };
        let b = tx.modify(block, WHAT, change)?;
        put(b, H_REFCOUNT, &(owners + 1).to_le_bytes())?;
        Ok(Some(block))
    }

    /// A block of the inode's own with these attributes: the one that it has, or a new one.
    fn own_block(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        list: &[Entry],
        in_place: Option<u64>,
    ) -> Attempt<u64> {
        let change = |stage| Change { site: Site::Inode, stage, owner: Some(ino) };
        let hash = entry::table_hash(list);
        let (block, b): (u64, &mut PageBuf) = match in_place {
            Some(block) => {
                let old_hash = share_hint(u32_at(&tx.read(block, WHAT)?, H_HASH)?);
                if tx.hint(old_hash) == Some(block) {
                    tx.set_hint(old_hash, 0);
                }
                tx.set_hint(share_hint(hash), block);
                (block, tx.modify(block, WHAT, change(Stage::Any))?)
            }
            None => {
                let block = self.alloc_run(tx, self.home_goal(ino)?, 1)?.start;
                tx.set_hint(share_hint(hash), block);
                (block, tx.create_block(block, WHAT, change(Stage::Init))?)
            }
        };
        put(b, 0, &MAGIC.to_le_bytes())?;
        put(b, H_REFCOUNT, &1u32.to_le_bytes())?;
        put(b, H_BLOCKS, &1u32.to_le_bytes())?;
        put(b, H_HASH, &hash.to_le_bytes())?;
        entry::encode(list, b, HEADER, 0, true)?;
        Ok(block)
    }

    /// Notes in the superblock that attributes exist: without the feature a checker takes a block
    /// of them for damage, so it is durable before any pointer to one.
    fn note_attributes(&self, tx: &mut Tx<'_>) -> Attempt<()> {
        let have = self.read_super(tx, |s| u32_at(s, S_FEATURE_COMPAT))?;
        if have & COMPAT_EXT_ATTR != 0 {
            return Ok(());
        }
        let change = Change { site: Site::Hypermetadata, stage: Stage::Init, owner: None };
        self.modify_super_at(tx, change, |s| {
            if u32_at(s, S_REV_LEVEL)? == 0 {
                put(s, S_REV_LEVEL, &1u32.to_le_bytes())?;
                put(s, S_FIRST_INO, &GOOD_OLD_FIRST_INO.to_le_bytes())?;
                put(s, S_INODE_SIZE, &GOOD_OLD_INODE_SIZE.to_le_bytes())?;
            }
            put(s, S_FEATURE_COMPAT, &(have | COMPAT_EXT_ATTR).to_le_bytes())
        })
    }
}
