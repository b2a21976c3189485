//! Extended attributes: in the inode behind its fields (`i_extra_isize`), and in one block that
//! `i_file_acl` names. What fits goes into the inode, as the kernel does it.
//!
//! A block can serve up to 1024 inodes with the same attributes and counts them (`h_refcount`). A
//! block that others use is never changed: an inode that wants something else gets another one. A
//! hint by hash remembers where a block with given attributes stands; its content is compared
//! before it is shared.
//!
//! The crash cases. A new block and its bitmap bit are durable (`Init`), and a shared block's count
//! is raised (`Prepare`), before an inode points to it (`Link`): otherwise an inode would own
//! garbage, or a block would be freed under its last owner. The old block loses its owner after
//! that (`Free`). An attribute that moves between inode and block, and an access list with the mode
//! that it belongs to, change in one write of the inode, so that no crash finds neither or half.

mod acl;
mod change;
mod entry;
mod hurd;
mod names;
mod translator;

use crate::Ext2;
use crate::features::INCOMPAT_EA_INODE;
use crate::inode::Inode;
use alloc::format;
use alloc::vec::Vec;
use entry::Entry;
use names::{HURD, Name};
use seawall_diskfs::bytes::{put, slice, u32_at};
use seawall_diskfs::{Attempt, Change, Extent, FsError, Ino, Site, Stage, Tx};

const WHAT: &str = "attribute block";
const MAGIC: u32 = 0xEA02_0000;
const H_REFCOUNT: usize = 4;
const H_BLOCKS: usize = 8;
const H_HASH: usize = 12;
/// Bytes of a block before its table.
const HEADER: usize = 32;
/// Bytes of the magic number before the table in an inode.
const BODY_HEADER: usize = 4;
/// More owners than this no writer makes (`EXT2_XATTR_REFCOUNT_MAX`).
const REFCOUNT_MAX: u32 = 1024;

/// Key of the hint that says which block holds attributes of this hash.
fn share_hint(hash: u32) -> u64 {
    u64::from(hash) << 8 | u64::from(b'X')
}

impl Ext2 {
    /// See [`seawall_diskfs::Format::xattr_get`].
    pub(crate) fn attribute(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        name: &[u8],
    ) -> Attempt<Option<Vec<u8>>> {
        let Some(name) = Name::parse(name) else { return Ok(None) };
        let inode = self.inode(tx, ino)?;
        if let Some(field) = self.hurd_field(&name)
            && let Some(value) = self.hurd_value(tx, ino, &inode, field)?
        {
            return Ok(Some(value));
        }
        let found = |list: Vec<Entry>| list.into_iter().find(|e| e.is(name.index, name.rest));
        let mut entry = found(self.body_entries(tx, ino, &inode)?);
        if entry.is_none() && inode.file_acl != 0 {
            entry = found(self.block_entries(tx, inode.file_acl)?.0);
        }
        let Some(entry) = entry else { return Ok(None) };
        if !name.is_acl() {
            return Ok(Some(entry.value));
        }
        let wrong = |what| {
            let place = inode.file_acl;
            FsError::corrupt("access list", place, format!("inode {}: {what}", ino.0))
        };
        Ok(Some(acl::from_disk(&entry.value).map_err(wrong)?))
    }

    /// See [`seawall_diskfs::Format::xattr_list`].
    pub(crate) fn attributes(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<Vec<u8>>> {
        let inode = self.inode(tx, ino)?;
        let mut list = self.body_entries(tx, ino, &inode)?;
        if inode.file_acl != 0 {
            list.extend(self.block_entries(tx, inode.file_acl)?.0);
        }
        let mut out: Vec<Vec<u8>> =
            list.iter().filter_map(|e| names::full(e.index, &e.name)).collect();
        for name in self.hurd_names(tx, ino, &inode)? {
            let name = names::full(HURD, name).filter(|name| !out.contains(name));
            out.extend(name);
        }
        Ok(out)
    }

    /// Bytes for attributes behind an inode's fields, from where on; 0 when it has no such place.
    fn body_room(&self, inode: &Inode) -> (usize, usize) {
        let size = usize::from(self.sb.inode_size);
        let start = 128 + usize::from(inode.extra_isize);
        if inode.extra_isize == 0 || start + 2 * BODY_HEADER > size {
            return (size, 0);
        }
        (start, size - start)
    }

    /// Attributes in the inode.
    fn body_entries(&self, tx: &mut Tx<'_>, ino: Ino, inode: &Inode) -> Attempt<Vec<Entry>> {
        let (start, room) = self.body_room(inode);
        if room == 0 {
            return Ok(Vec::new());
        }
        let (block, off) = self.inode_place(tx, ino)?;
        let b = tx.read(block, "inode")?;
        let body = slice(&b, off + start, room)?;
        if u32_at(body, 0)? != MAGIC {
            return Ok(Vec::new());
        }
        let ea_inode = self.incompat(INCOMPAT_EA_INODE);
        entry::parse(body, BODY_HEADER, BODY_HEADER, ea_inode).map_err(|what| {
            FsError::corrupt("inode", block, format!("inode {}: {what}", ino.0)).into()
        })
    }

    /// Attributes in a block, and how many inodes own it.
    fn block_entries(&self, tx: &mut Tx<'_>, block: u64) -> Attempt<(Vec<Entry>, u32)> {
        self.check_pointer(block, block)?;
        let b = tx.read(block, WHAT)?;
        let count = check_header(&b, block)?;
        self.check_xattr_sum(&b, block, WHAT)?;
        let ea_inode = self.incompat(INCOMPAT_EA_INODE);
        let list =
            entry::parse(&b, HEADER, 0, ea_inode).map_err(|w| FsError::corrupt(WHAT, block, w))?;
        Ok((list, count))
    }

    /// Takes one owner off an attribute block and frees it with the last.
    pub(crate) fn drop_acl(&self, tx: &mut Tx<'_>, ino: Ino, block: u64) -> Attempt<()> {
        self.check_pointer(block, block)?;
        let b = tx.read(block, WHAT)?;
        let count = check_header(&b, block)?;
        if count == 1 {
            let hint = share_hint(u32_at(&b, H_HASH)?);
            if tx.hint(hint) == Some(block) {
                tx.set_hint(hint, 0);
            }
            return self.free_run(tx, Extent { start: block, len: 1 });
        }
        let change = Change { site: Site::Inode, stage: Stage::Free, owner: Some(ino) };
        let b = tx.modify(block, WHAT, change)?;
        Ok(put(b, H_REFCOUNT, &(count - 1).to_le_bytes())?)
    }
}

/// The number of owners in a block's header.
fn check_header(b: &[u8], block: u64) -> Result<u32, FsError> {
    let count = u32_at(b, H_REFCOUNT)?;
    if u32_at(b, 0)? != MAGIC || count == 0 || count > REFCOUNT_MAX {
        return Err(FsError::corrupt(WHAT, block, "no attribute block"));
    }
    if u32_at(b, H_BLOCKS)? != 1 {
        return Err(FsError::corrupt(WHAT, block, "attributes in more than one block"));
    }
    Ok(count)
}
