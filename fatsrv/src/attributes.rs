//! What is said of a volume and of a node beyond what every filesystem has: label and marks, and
//! the DOS attributes.
//!
//! The attributes of a node are the extended attribute `user.DOSATTRIB`, as text (`0x20`), the form
//! in which Wine and old versions of Samba keep them on other filesystems. It is always there and
//! is not listed, so that a copy to another filesystem does not carry it along unasked.

use crate::Fat;
use crate::entry::{
    ATTR_ARCHIVE, ATTR_HIDDEN, ATTR_LONG, ATTR_READ_ONLY, ATTR_SYSTEM, ATTR_VOLUME,
};
use crate::label::label_shown;
use crate::lfn::{Scanner, Seen};
use crate::volume::ROOT;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use seawall_diskfs::{Attempt, Ino, Refused, Stage, Tx};

/// The extended attribute that holds the attributes.
pub(crate) const DOSATTRIB: &[u8] = b"user.DOSATTRIB";
/// Attributes that a caller may set.
const SETTABLE: u8 = ATTR_READ_ONLY | ATTR_HIDDEN | ATTR_SYSTEM | ATTR_ARCHIVE;

/// `0x20`, `32` or `0X20`.
fn number(text: &[u8]) -> Option<u8> {
    let text = core::str::from_utf8(text).ok()?.trim_end_matches('\0').trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Fat {
    pub(crate) fn dos_attributes(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Vec<u8>> {
        let node = self.node(tx, ino)?;
        Ok(format!("{:#x}", node.raw.attr & !ATTR_VOLUME).into_bytes())
    }

    pub(crate) fn set_dos_attributes(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        value: Option<&[u8]>,
    ) -> Attempt<()> {
        let mut node = self.node(tx, ino)?;
        let new = match value {
            Some(text) => number(text).ok_or(Refused::Invalid)?,
            // What a new file has.
            None => node.raw.attr & !SETTABLE | if node.raw.is_dir() { 0 } else { ATTR_ARCHIVE },
        };
        let keep = node.raw.attr & !SETTABLE;
        if new & !SETTABLE != keep || new & ATTR_LONG == ATTR_LONG {
            return Err(Refused::NotPermitted.into());
        }
        if ino == ROOT {
            return if new == keep { Ok(()) } else { Err(Refused::NotPermitted.into()) };
        }
        node.raw.attr = new;
        tx.touch(ino);
        self.put_node(tx, &node, Stage::Any)
    }

    /// The label: the root directory's, which is the one that counts.
    pub fn label(&self, tx: &mut Tx<'_>) -> Attempt<Option<String>> {
        let root = self.dir(ROOT)?;
        let (mut label, mut scanner) = (None, Scanner::new());
        self.each_slot(tx, &root, &mut |at, bytes| match scanner.push(at, bytes) {
            Seen::Label(raw) => {
                label = label_shown(&raw.name, &self.opts.rules.codepage);
                Ok(false)
            }
            Seen::End => Ok(false),
            _ => Ok(true),
        })?;
        Ok(label)
    }

    /// Type, label and marks, for people.
    pub(crate) fn describe_volume(&self, tx: &mut Tx<'_>) -> Attempt<String> {
        let mut text = String::from(self.boot.fat_type.name());
        if let Some(label) = self.label(tx)? {
            text.push_str(&format!(" {label}"));
        }
        if self.marks.dirty {
            text.push_str(" (dirty: it was not taken out of use; check it)");
        }
        if self.marks.hard_error {
            text.push_str(" (hard errors: its medium failed once)");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn attributes_are_read_as_others_write_them() {
        for (text, want) in [("0x20", Some(0x20)), ("0X3", Some(3)), ("33\0", Some(33))] {
            assert_eq!(number(text.as_bytes()), want, "{text}");
        }
        for text in ["", "0x", "0x123", "-1", "x20"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }
}
