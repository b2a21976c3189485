//! Names in several spellings, on formats that fold them.
//!
//! The kernel keeps what a name leads to for ever; that is right for the one spelling that the
//! volume keeps, since every change of it comes through here or is announced. Another spelling, and
//! a name that is absent, is asked for again each time. Whoever removes or moves a name by another
//! spelling makes the kernel forget the one that it has.
//!
//! A rename that changes nothing but the spelling (`abc` to `Abc`) never gets here when both lead
//! to one node: the kernel sees a file renamed to itself and returns. So while a caller is in
//! rename(2), which its `/proc/PID/syscall` says, another spelling leads to a second number for the
//! same node. A server that may not look there (not root, and Yama forbids it) is as Linux's vfat:
//! the rename succeeds and does nothing.

use super::FOREVER;
use super::ops::Fuse;
use crate::session::Change;
use fuser::{INodeNo, Request};
use seawall_diskfs::{Attempt, Attr, Ctx, Format, Fs, Ino, Ticket};
use std::format;
use std::time::Duration;
use std::vec::Vec;

/// Added to a node's number: the same node, for a rename.
pub(super) const SECOND: u64 = 1 << 62;

/// rename, renameat and renameat2 of x86-64, and the last two elsewhere.
#[cfg(target_arch = "x86_64")]
const RENAMES: &[u64] = &[82, 264, 316];
#[cfg(not(target_arch = "x86_64"))]
const RENAMES: &[u64] = &[38, 276];

/// A name that was asked for.
pub(super) struct Spelled {
    pub(super) attr: Attr,
    /// The volume keeps it in another spelling.
    pub(super) other: bool,
}

/// True when the thread is inside rename(2), as far as that can be seen.
fn renames(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = text.split_whitespace().next().and_then(|n| n.parse().ok());
    number.is_some_and(|n| RENAMES.contains(&n))
}

impl<F: Format> Fuse<F> {
    /// The spelling that the volume keeps, when it is another one.
    pub(super) fn other_spelling(
        &self,
        fs: &mut Fs<F>,
        ctx: &Ctx,
        (dir, name): (Ino, &[u8]),
        t: &mut Ticket,
    ) -> Attempt<Option<Vec<u8>>> {
        if !self.folds {
            return Ok(None);
        }
        Ok(fs.spelling(ctx, dir, name, t)?.filter(|kept| kept != name))
    }

    /// How long, and by which number, the kernel may know what a name leads to.
    pub(super) fn known_as(&self, req: &Request, found: &Spelled) -> (Duration, INodeNo) {
        let node = self.numbers.node(found.attr.ino);
        if !found.other {
            return (FOREVER, node);
        }
        let second = renames(req.pid());
        (Duration::ZERO, INodeNo(if second { node.0 | SECOND } else { node.0 }))
    }

    /// How long the kernel may know that a name is absent.
    pub(super) fn absent_for(&self) -> Duration {
        if self.folds { Duration::ZERO } else { FOREVER }
    }

    /// Makes the kernel forget names. Not before the request is answered: until then it holds the
    /// directory.
    pub(super) fn forget_names(&self, names: impl IntoIterator<Item = (Ino, Option<Vec<u8>>)>) {
        let changes =
            names.into_iter().filter_map(|(dir, name)| Some(Change::Name { dir, name: name? }));
        self.engine.announce(&changes.collect::<Vec<_>>());
    }
}
