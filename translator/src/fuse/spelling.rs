//! Names in several spellings, on formats that fold them.
//!
//! The kernel knows a name by one spelling. A name that went by another one would stay in its
//! cache, and nothing can take it out before the caller that removed it goes on. So it keeps no
//! name of such a volume, present or absent: each use is asked again.
//!
//! A rename that changes nothing but the spelling (`abc` to `Abc`) never gets here when both lead
//! to one node: the kernel sees a file renamed to itself and returns. So to a caller that is in
//! rename(2), which `/proc/PID/syscall` and its memory say, the new spelling of the old name is
//! absent. A server that may not look there (not root, and Yama forbids it) is as Linux's vfat: the
//! rename succeeds and does nothing.

use super::FOREVER;
use super::ops::Fuse;
use rustix::fs::RenameFlags;
use seawall_diskfs::{Attempt, Ctx, Fault, Format, Fs, FsError, Ino, Refused, Ticket};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use std::vec::Vec;
use std::{format, vec};

/// rename, renameat and renameat2, with where the paths and flags are among the arguments.
#[cfg(target_arch = "x86_64")]
const RENAMES: &[(u64, Places)] =
    &[(82, (0, 1, None)), (264, (1, 3, None)), (316, (1, 3, Some(4)))];
#[cfg(not(target_arch = "x86_64"))]
const RENAMES: &[(u64, Places)] = &[(38, (1, 3, None)), (276, (1, 3, Some(4)))];

/// Arguments of the old path, the new path and the flags.
type Places = (usize, usize, Option<usize>);

/// Longest path that rename(2) takes.
const PATH_MAX: usize = 4096;
/// Bytes read at once; memory may end behind the path, but not inside a page.
const PAGE: u64 = 4096;

/// The last parts of the two paths of the rename(2) that a thread is in, as far as that can be
/// seen; an exchange changes no spelling.
fn renaming(pid: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let (_, (old, new, flags)) = *RENAMES.iter().find(|(n, _)| *n == number)?;
    let args: Vec<u64> =
        words.map_while(|w| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok()).collect();
    let flags = flags.and_then(|at| args.get(at).copied()).unwrap_or(0);
    if flags & u64::from(RenameFlags::EXCHANGE.bits()) != 0 {
        return None;
    }
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    Some((last_part(&memory, *args.get(old)?)?, last_part(&memory, *args.get(new)?)?))
}

/// The last part of the path at this address.
fn last_part(memory: &File, mut at: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    while path.len() < PATH_MAX {
        let mut part = vec![0; usize::try_from(PAGE - at % PAGE).ok()?];
        memory.read_exact_at(&mut part, at).ok()?;
        at = at.checked_add(part.len() as u64)?;
        let end = part.iter().position(|b| *b == 0);
        path.extend_from_slice(part.get(..end.unwrap_or(part.len()))?);
        if end.is_some() {
            break;
        }
    }
    path.rsplit(|b| *b == b'/').find(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

impl<F: Format> Fuse<F> {
    /// True when the thread asks for `name`, which leads to `ino`, to rename to it what is the same
    /// node by another spelling.
    pub(super) fn changes_spelling(
        &self,
        fs: &mut Fs<F>,
        (ctx, pid): (&Ctx, u32),
        (dir, name, ino): (Ino, &[u8], Ino),
        t: &mut Ticket,
    ) -> Attempt<bool> {
        if !self.folds || fs.spelling(ctx, dir, name, t)?.is_none_or(|kept| kept == name) {
            return Ok(false);
        }
        let Some((old, new)) = renaming(pid) else { return Ok(false) };
        if new != name || old == new {
            return Ok(false);
        }
        match fs.lookup(ctx, dir, &old, t) {
            Ok(found) => Ok(found.value.ino == ino),
            Err(Fault::Err(FsError::Refused(Refused::NotFound))) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// How long the kernel may know a name.
    pub(super) fn names_last(&self) -> Duration {
        if self.folds { Duration::ZERO } else { FOREVER }
    }
}
