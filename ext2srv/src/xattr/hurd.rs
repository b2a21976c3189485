//! Fields of the Hurd's inodes as attributes, on volumes whose creator is the Hurd: `gnu.author`,
//! `gnu.mode_high`, and the translator (see [`super::translator`]). Elsewhere the names are
//! attributes like others.
//!
//! `gnu.author` is there while the author (`h_i_author`) is not the owner, as glibc shows it on the
//! Hurd: four bytes, little-endian. `gnu.mode_high` is there while one of the upper mode bits
//! (`h_i_mode_high`) is set: two bytes.
//!
//! Each field changes in the write of its inode that also sets the time of the change; a crash
//! leaves the old value or the new one.

use super::names::{HURD, Name, TRANSLATOR};
use crate::Ext2;
use crate::inode::Inode;
use alloc::vec::Vec;
use seawall_diskfs::bytes::{put, u16_at, u32_at};
use seawall_diskfs::{Attempt, Ino, Refused, Stage, Tx};

/// `h_i_mode_high`.
const H_MODE_HIGH: usize = 0x76;
/// `h_i_author`.
const H_AUTHOR: usize = 0x7C;
/// An author that is the owner, whoever that is.
const OWNER: u32 = u32::MAX;

/// What an attribute of the name space `gnu` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Translator,
    Author,
    ModeHigh,
}

impl Field {
    const ALL: [(Self, &'static [u8]); 3] =
        [(Self::Translator, TRANSLATOR), (Self::Author, b"author"), (Self::ModeHigh, b"mode_high")];
}

impl Ext2 {
    /// The field that an attribute stands for on this volume.
    pub(super) fn hurd_field(&self, name: &Name<'_>) -> Option<Field> {
        let all = Field::ALL.iter().filter(|_| self.is_hurd() && name.index == HURD);
        all.copied().find(|(_, known)| *known == name.rest).map(|(field, _)| field)
    }

    /// Names, in [`HURD`], of the fields that an inode has.
    pub(super) fn hurd_names(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &Inode,
    ) -> Attempt<Vec<&'static [u8]>> {
        let mut names = Vec::new();
        if !self.is_hurd() {
            return Ok(names);
        }
        for (field, name) in Field::ALL {
            // A translator block that is damaged is named by who reads it.
            let there = match field {
                Field::Translator => self.translator_block(tx, ino)?.is_some(),
                _ => self.hurd_value(tx, ino, inode, field)?.is_some(),
            };
            if there {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The value of a field, if it is there.
    pub(super) fn hurd_value(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &Inode,
        field: Field,
    ) -> Attempt<Option<Vec<u8>>> {
        if field == Field::Translator {
            return self.translator(tx, ino);
        }
        let (block, off) = self.inode_place(tx, ino)?;
        let b = tx.read(block, "inode")?;
        if field == Field::ModeHigh {
            let bits = u16_at(&b, off + H_MODE_HIGH)?;
            return Ok((bits != 0).then(|| bits.to_le_bytes().into()));
        }
        let author = u32_at(&b, off + H_AUTHOR)?;
        Ok((author != OWNER && author != inode.uid).then(|| author.to_le_bytes().into()))
    }

    /// Sets a field or takes it away. The caller puts the inode afterwards.
    pub(super) fn set_hurd_value(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
        field: Field,
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        let value = match (field, value) {
            (Field::Translator, line) => return self.set_translator(tx, ino, inode, line),
            // Without a value the author is the owner again.
            (Field::Author, None | Some([])) => &inode.uid.to_le_bytes(),
            (Field::ModeHigh, None) => &[0; 2][..],
            (_, Some(value)) => value,
        };
        let (at, len) = match field {
            Field::ModeHigh => (H_MODE_HIGH, 2),
            _ => (H_AUTHOR, 4),
        };
        if value.len() != len {
            return Err(Refused::Invalid.into());
        }
        Ok(put(self.raw_inode(tx, ino, Stage::Any)?, at, value)?)
    }

    /// Notes the author of a new inode: its owner.
    pub(crate) fn sign(
        &self,
        raw: &mut [u8],
        inode: &Inode,
    ) -> Result<(), seawall_diskfs::FsError> {
        if self.is_hurd() { put(raw, H_AUTHOR, &inode.uid.to_le_bytes()) } else { Ok(()) }
    }
}
