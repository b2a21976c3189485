//! Access times.
//!
//! A read notes its time in the inode's block, which then goes out with whatever is written next: a
//! read waits for nothing, and no fsync has to cover it. A volume that is not written stays so.

use crate::flags::FL_NOATIME;
use crate::fs::Fs;
use crate::{Attempt, Attr, Ctx, Fault, Format, Ino, Kind, Ticket, Timestamp, Wait};

/// When a read is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Atime {
    /// Never (`noatime`).
    #[default]
    Never,
    /// When the last access is not later than the last change, or a day ago (`relatime`).
    Relative,
    /// Always (`strictatime`).
    Always,
}

const DAY: i64 = 24 * 3600;

/// How access times are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AtimeOpts {
    /// When.
    pub when: Atime,
    /// Not of directories (`nodiratime`).
    pub no_dirs: bool,
}

impl AtimeOpts {
    fn due(self, attr: &Attr, now: Timestamp) -> bool {
        if attr.flags & FL_NOATIME != 0 || (self.no_dirs && attr.kind == Kind::Dir) {
            return false;
        }
        match self.when {
            Atime::Never => false,
            Atime::Always => attr.atime != now,
            Atime::Relative => {
                attr.atime <= attr.mtime
                    || attr.atime <= attr.ctime
                    || now.secs.saturating_sub(attr.atime.secs) >= DAY
            }
        }
    }
}

impl<F: Format> Fs<F> {
    /// Notes that a file is about to be read, for a host that keeps content and does not ask for
    /// what it has. Returns whether the access time changed.
    pub fn note_access(&mut self, ctx: &Ctx, ino: Ino, ticket: &mut Ticket) -> Attempt<bool> {
        if self.opts.atime.when == Atime::Never {
            return Ok(false);
        }
        let attr = self.look(ctx, ticket, |f, tx| f.attr(tx, ino))?;
        if attr.kind != Kind::File {
            return Ok(false);
        }
        self.accessed(ctx, &attr, ticket)
    }

    /// Notes that a node was read, if that is due. Returns whether it was.
    pub(crate) fn accessed(
        &mut self,
        ctx: &Ctx,
        attr: &Attr,
        ticket: &mut Ticket,
    ) -> Attempt<bool> {
        let broken = self.read_only || self.write_error.is_some();
        if broken || !self.opts.atime.due(attr, ctx.now) {
            return Ok(false);
        }
        match self.writable() {
            Ok(()) => {}
            Err(Fault::Wait(Wait::DirtyMark)) => return Err(Fault::Wait(Wait::DirtyMark)),
            // A read waits for no room; it is noted the next time.
            Err(_) => return Ok(false),
        }
        let mut tx = self.meta.tx(ticket, ctx);
        match self.format.set_atime(&mut tx, attr.ino) {
            Ok(()) => {}
            Err(Fault::Need(need)) => return Err(Fault::Need(need)),
            Err(_) => return Ok(false),
        }
        let staged = tx.stage();
        // Nothing follows: the policy's waiting is for changes that somebody asked for.
        let _when_written = self.apply(staged);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_or_a_change() {
        let at = |secs| Timestamp { secs, nanos: 0 };
        let mut a = Attr {
            ino: crate::Ino(12),
            generation: 0,
            kind: Kind::Dir,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            blksize: 0,
            rdev: (0, 0),
            atime: at(100),
            mtime: at(50),
            ctime: at(60),
            btime: None,
            flags: 0,
        };
        let rel = AtimeOpts { when: Atime::Relative, no_dirs: false };
        assert!(!rel.due(&a, at(200)));
        assert!(rel.due(&a, at(100 + DAY)));
        a.ctime = at(100);
        assert!(rel.due(&a, at(200)));
        assert!(!AtimeOpts { no_dirs: true, ..rel }.due(&a, at(200)));
        assert!(!AtimeOpts::default().due(&a, at(200)));
        assert!(AtimeOpts { when: Atime::Always, no_dirs: false }.due(&a, at(200)));
        a.flags = FL_NOATIME;
        assert!(!rel.due(&a, at(200)));
    }
}
