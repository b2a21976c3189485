//! Name spaces (`EXT4_XATTR_INDEX_*`): on disk a number and the rest of the name.

use super::entry::NAME_MAX;
use alloc::vec::Vec;

pub(super) const ACL_ACCESS: u8 = 2;
pub(super) const ACL_DEFAULT: u8 = 3;
pub(super) const HURD: u8 = 10;
/// The Hurd's translator, in [`HURD`].
pub(super) const TRANSLATOR: &[u8] = b"translator";

/// Prefixes of whole name spaces.
const PREFIXES: &[(u8, &[u8])] =
    &[(1, b"user."), (4, b"trusted."), (6, b"security."), (HURD, b"gnu.")];
/// Name spaces with one name.
const WHOLE: &[(u8, &[u8])] =
    &[(ACL_ACCESS, b"system.posix_acl_access"), (ACL_DEFAULT, b"system.posix_acl_default")];

/// A name as it stands on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name<'n> {
    pub(super) index: u8,
    pub(super) rest: &'n [u8],
}

impl<'n> Name<'n> {
    /// `None` for a name that the format has no place for.
    pub(super) fn parse(name: &'n [u8]) -> Option<Self> {
        if let Some((index, _)) = WHOLE.iter().find(|(_, whole)| *whole == name) {
            return Some(Self { index: *index, rest: &[] });
        }
        let of = |(index, prefix): &(u8, &[u8])| Some((*index, name.strip_prefix(*prefix)?));
        let (index, rest) = PREFIXES.iter().find_map(of)?;
        (!rest.is_empty() && rest.len() <= NAME_MAX).then_some(Self { index, rest })
    }

    pub(super) fn is_acl(&self) -> bool {
        matches!(self.index, ACL_ACCESS | ACL_DEFAULT)
    }
}

/// The name that callers know; `None` for what is kept and not shown.
pub(super) fn full(index: u8, rest: &[u8]) -> Option<Vec<u8>> {
    if let Some((_, whole)) = WHOLE.iter().find(|(i, _)| *i == index) {
        return rest.is_empty().then(|| whole.to_vec());
    }
    let (_, prefix) = PREFIXES.iter().find(|(i, _)| *i == index)?;
    Some([*prefix, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_there_and_back() {
        for name in ["user.a", "trusted.b.c", "security.selinux", "gnu.translator"] {
            let n = Name::parse(name.as_bytes()).unwrap();
            assert_eq!(full(n.index, n.rest).unwrap(), name.as_bytes());
        }
        let acl = Name::parse(b"system.posix_acl_access").unwrap();
        assert!(acl.is_acl());
        assert_eq!(full(acl.index, acl.rest).unwrap(), b"system.posix_acl_access");
        for name in ["user.", "user", "", "system.data", "system.posix_acl_accessory", "usera"] {
            assert_eq!(Name::parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(full(7, b"data"), None);
    }
}
