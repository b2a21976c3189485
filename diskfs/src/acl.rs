//! POSIX access lists, in the form of the kernel's attributes `system.posix_acl_access` and
//! `system.posix_acl_default`: a version (2), then entries of a tag, permissions and an id.
//!
//! A list is checked when it is parsed: the entries stand in the order of their tags, owner, group
//! and others are there once each, and a mask is there when somebody is named.

use crate::bytes::{u16_at, u32_at};
use crate::{Attr, Cred, FsError};
use alloc::vec::Vec;

/// Attribute with who may access a node.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Attribute of a directory with what nodes made in it get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A checked access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// Reads an attribute's value. `Ok(None)` for a list without entries and for no bytes at all,
    /// which mean "take it away"; `Err` for one that is none.
    pub fn parse(b: &[u8]) -> Result<Option<Self>, NoAcl> {
        let entries = if b.is_empty() { Vec::new() } else { Self::fields(b).map_err(|_| NoAcl)? };
        if entries.is_empty() {
            return Ok(None);
        }
        let acl = Self { entries };
        if acl.is_valid() { Ok(Some(acl)) } else { Err(NoAcl) }
    }

    fn fields(b: &[u8]) -> Result<Vec<Entry>, FsError> {
        const WRONG: FsError = FsError::Bug("no access list");
        if u32_at(b, 0)? != VERSION || b.len() % 8 != 4 {
            return Err(WRONG);
        }
        let mut entries = Vec::new();
        for at in (4..b.len()).step_by(8) {
            let (tag, perm) = (u16_at(b, at)?, u16_at(b, at.saturating_add(2))?);
            if perm > 7 {
                return Err(WRONG);
            }
            entries.push(Entry { tag, perm, id: u32_at(b, at.saturating_add(4))? });
        }
        Ok(entries)
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|e| e.tag == tag).count();
        let tags = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
        let named = count(USER).saturating_add(count(GROUP)) > 0;
        self.entries.is_sorted_by_key(|e| e.tag)
            && self.entries.iter().all(|e| tags.contains(&e.tag))
            && [USER_OBJ, GROUP_OBJ, OTHER].iter().all(|t| count(*t) == 1)
            && count(MASK) == usize::from(named || count(MASK) > 0)
    }

    /// The attribute's value.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for e in &self.entries {
            out.extend_from_slice(&e.tag.to_le_bytes());
            out.extend_from_slice(&e.perm.to_le_bytes());
            out.extend_from_slice(&e.id.to_le_bytes());
        }
        out
    }

    fn perm(&self, tag: u16) -> Option<u32> {
        self.entries.iter().find(|e| e.tag == tag).map(|e| u32::from(e.perm))
    }

    /// Whether somebody who is not user 0 may do `want`.
    pub(crate) fn allows(&self, cred: &Cred, attr: &Attr, want: u32) -> bool {
        let in_group = |gid: u32| cred.gid == gid || cred.groups.contains(&gid);
        let has = |perm: u32| perm & want == want;
        if cred.uid == attr.uid {
            return self.perm(USER_OBJ).is_some_and(has);
        }
        let mask = self.perm(MASK).unwrap_or(7);
        let user = self.entries.iter().find(|e| e.tag == USER && e.id == cred.uid);
        if let Some(e) = user {
            return has(u32::from(e.perm) & mask);
        }
        let mut a_member = false;
        for e in &self.entries {
            let member = match e.tag {
                GROUP_OBJ => in_group(attr.gid),
                GROUP => in_group(e.id),
                _ => false,
            };
            if member && has(u32::from(e.perm)) {
                return has(mask);
            }
            a_member |= member;
        }
        !a_member && self.perm(OTHER).is_some_and(has)
    }

    /// The permission bits that the list stands for, and whether they say all of it: then it need
    /// not be kept.
    pub(crate) fn mode(&self) -> (u32, bool) {
        let of = |tag| self.perm(tag).unwrap_or(0);
        let group = self.perm(MASK).unwrap_or_else(|| of(GROUP_OBJ));
        let mode = of(USER_OBJ) << 6 | group << 3 | of(OTHER);
        (mode, self.entries.len() == 3)
    }

    /// The list after a chmod: owner, mask (or group) and others take the mode's bits.
    pub(crate) fn set_mode(&mut self, mode: u32) {
        let group = if self.perm(MASK).is_some() { MASK } else { GROUP_OBJ };
        for e in &mut self.entries {
            let bits = match e.tag {
                USER_OBJ => mode >> 6,
                OTHER => mode,
                t if t == group => mode >> 3,
                _ => continue,
            };
            e.perm = (bits & 7) as u16;
        }
    }

    /// What a node made with `mode` under this default list gets: its own list and mode. Neither
    /// grants what the other does not.
    pub(crate) fn inherit(&self, mode: u32) -> (Self, u32) {
        let mut acl = self.clone();
        let (have, _) = acl.mode();
        acl.set_mode(have & mode);
        (acl, mode & !0o777 | have & mode)
    }
}

/// Bytes that are no access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAcl;

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = u32::MAX;

    fn acl(list: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = list.iter().map(|(tag, perm, id)| Entry { tag: *tag, perm: *perm, id: *id });
        Acl { entries: entries.collect() }.bytes()
    }

    fn sample() -> Acl {
        let list = [
            (USER_OBJ, 7, NOBODY),
            (USER, 6, 1000),
            (USER, 0, 1001),
            (GROUP_OBJ, 4, NOBODY),
            (GROUP, 7, 50),
            (MASK, 6, NOBODY),
            (OTHER, 1, NOBODY),
        ];
        Acl::parse(&acl(&list)).unwrap().unwrap()
    }

    fn node() -> Attr {
        Attr {
            ino: crate::Ino(12),
            generation: 0,
            kind: crate::Kind::File,
            mode: 0o761,
            nlink: 1,
            uid: 7,
            gid: 8,
            size: 0,
            blocks: 0,
            blksize: 0,
            rdev: (0, 0),
            atime: Default::default(),
            mtime: Default::default(),
            ctime: Default::default(),
            btime: None,
            flags: 0,
        }
    }

    #[test]
    fn who_may_what() {
        let may = |uid, gid, groups: &[u32], want| {
            sample().allows(&Cred { uid, gid, groups: groups.to_vec() }, &node(), want)
        };
        assert!(may(7, 0, &[], 7), "the owner, whom no mask holds back");
        assert!(may(1000, 0, &[], 6) && !may(1000, 0, &[], 1));
        assert!(!may(1001, 8, &[50], 4), "a named user has no group's rights");
        assert!(may(9, 8, &[], 4) && !may(9, 8, &[], 2));
        assert!(may(9, 8, &[50], 6), "any of the groups may grant it");
        assert!(!may(9, 50, &[], 1), "the mask");
        assert!(may(9, 9, &[], 1) && !may(9, 9, &[], 4));
        assert!(!may(9, 8, &[], 1), "a member is not one of the others");
    }

    #[test]
    fn mode_and_list_are_in_step() {
        let mut a = sample();
        assert_eq!(a.mode(), (0o761, false));
        a.set_mode(0o4640);
        assert_eq!(a.mode(), (0o640, false));
        assert_eq!(a.perm(GROUP_OBJ), Some(4), "the mask took it");
        let (got, mode) = sample().inherit(0o2750);
        assert_eq!((got.mode().0, mode), (0o740, 0o2740));
        let small = [(USER_OBJ, 6, NOBODY), (GROUP_OBJ, 4, NOBODY), (OTHER, 0, NOBODY)];
        assert_eq!(Acl::parse(&acl(&small)).unwrap().unwrap().mode(), (0o640, true));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let full = [(USER_OBJ, 7, NOBODY), (GROUP_OBJ, 7, NOBODY), (OTHER, 7, NOBODY)];
        assert_eq!(Acl::parse(&acl(&[])), Ok(None));
        assert!(Acl::parse(&acl(&full)).is_ok());
        assert!(Acl::parse(&acl(&full[..2])).is_err());
        assert!(Acl::parse(&acl(&[full[1], full[0], full[2]])).is_err());
        let named = [full[0], (USER, 7, 1), full[1], full[2]];
        assert!(Acl::parse(&acl(&named)).is_err(), "no mask");
        let odd = [full[0], full[1], (OTHER, 8, NOBODY)];
        assert!(Acl::parse(&acl(&odd)).is_err());
        for len in 0..28 {
            assert!(len == 0 || len == 4 || Acl::parse(&acl(&full)[..len]).is_err());
        }
    }
}
