//! POSIX access lists in two forms: on disk (`ext4_acl_header`, version 1) an entry has an id only
//! where it names somebody; in the kernel's attribute (version 2) every entry has one.

use alloc::vec::Vec;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{slice, u16_at, u32_at};

const DISK_VERSION: u32 = 1;
const KERNEL_VERSION: u32 = 2;
/// Tags of entries that name a user or group.
const NAMED: [u16; 2] = [0x02, 0x08];
const NOBODY: u32 = u32::MAX;

/// The kernel's form of a list on disk.
pub(super) fn from_disk(b: &[u8]) -> Result<Vec<u8>, &'static str> {
    from_fields(b).unwrap_or(Err("an entry runs out of the list"))
}

fn from_fields(b: &[u8]) -> Result<Result<Vec<u8>, &'static str>, FsError> {
    if u32_at(b, 0)? != DISK_VERSION {
        return Ok(Err("a version that is not known"));
    }
    let mut out = KERNEL_VERSION.to_le_bytes().to_vec();
    let mut at = 4;
    while at < b.len() {
        let tag = u16_at(b, at)?;
        out.extend_from_slice(slice(b, at, 4)?);
        at += 4;
        if NAMED.contains(&tag) {
            out.extend_from_slice(slice(b, at, 4)?);
            at += 4;
        } else {
            out.extend_from_slice(&NOBODY.to_le_bytes());
        }
    }
    Ok(Ok(out))
}

/// The form on disk of a list in the kernel's form, which was checked.
pub(super) fn to_disk(b: &[u8]) -> Result<Vec<u8>, FsError> {
    let mut out = DISK_VERSION.to_le_bytes().to_vec();
    for at in (4..b.len()).step_by(8) {
        let named = NAMED.contains(&u16_at(b, at)?);
        out.extend_from_slice(slice(b, at, if named { 8 } else { 4 })?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let entry = |tag: u16, perm: u16, id: u32| -> Vec<u8> {
            [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let kernel = [
            2u32.to_le_bytes().to_vec(),
            entry(1, 7, NOBODY),
            entry(2, 6, 1000),
            entry(4, 5, NOBODY),
            entry(8, 4, 70_000),
            entry(0x10, 7, NOBODY),
            entry(0x20, 0, NOBODY),
        ]
        .concat();
        let disk = to_disk(&kernel).unwrap();
        assert_eq!(disk.len(), 4 + 4 * 4 + 2 * 8);
        assert_eq!(from_disk(&disk).unwrap(), kernel);
        for len in 0..disk.len() {
            // A cut at an entry's end is a shorter list; anywhere else it is refused.
            let _ = from_disk(&disk[..len]);
        }
        assert!(from_disk(&disk[..10]).is_err());
        assert!(from_disk(&kernel).is_err());
    }
}
