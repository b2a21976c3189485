//! The mount as the engine sees it: invalidation, handing over, the end.

use super::convert::Numbers;
use super::{GRACE, system};
use crate::server::{Engine, Front};
use crate::session::Change;
use fuser::Notifier;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use seawall_blockdev::DevError;
use seawall_diskfs::driver::Host;
use seawall_diskfs::{Format, FsError, Handle, OpenFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Whether the kernel has let go of the mount.
#[derive(Default)]
pub(super) struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    pub(super) fn set(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, limit: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, _) = self
            .changed
            .wait_timeout_while(ended, limit, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner);
        *ended
    }
}

pub(super) struct Mounted<F: Format> {
    pub(super) engine: Weak<Engine<F>>,
    pub(super) numbers: Numbers,
    pub(super) notifier: Notifier,
    /// Handles that the kernel has; it does not release them all when it lets go.
    pub(super) handles: Arc<Mutex<BTreeSet<Handle>>>,
    /// Pages that the kernel sent and that could not be written since the last flush. It tells the
    /// file's own fsync; whoever syncs everything must hear of them too.
    pub(super) refused: Arc<AtomicU64>,
    /// The kernel keeps what is written, and sends it later.
    pub(super) deferred: bool,
    pub(super) dir: PathBuf,
    pub(super) dev: Arc<AtomicU64>,
    pub(super) end: Arc<Ended>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

impl<F: Format> Mounted<F> {
    fn is_there(&self) -> bool {
        let dev = self.dev.load(Ordering::Acquire);
        dev == 0 || system::device_number(&self.dir).is_ok_and(|now| now == dev)
    }

    /// Takes the mount out of the name space.
    fn take_away(&self) {
        if !self.is_there() {
            tracing::warn!(dir = %self.dir.display(), "the mount is not in its place any more");
            return;
        }
        // Once it is away, nobody can ask the kernel for the pages any more, and where it is bound
        // elsewhere the unmount does not.
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "the kernel did not hand over all pages");
        }
        match system::unmount(&self.dir, UnmountFlags::empty()) {
            Ok(()) => {}
            Err(Errno::BUSY) => {
                tracing::warn!(dir = %self.dir.display(), "the mount is busy: it is detached");
                system::detach(&self.dir);
            }
            Err(error) => tracing::warn!(%error, dir = %self.dir.display(), "umount"),
        }
    }

    /// Waits until the kernel has had answers for all pages that it sends. Its syncfs(2) starts
    /// them and, on FUSE, does not wait: a sync after it would find some of them missing. To have a
    /// file's pages invalidated waits for each, and drops them, so it is done where there can be
    /// dirty ones only: in files that are open for writing and, where the kernel writes through,
    /// for reading besides, as a shared mapping that can be written needs (it keeps its file open).
    fn wait_for_pages(&self) -> std::io::Result<()> {
        let Some(engine) = self.engine.upgrade() else { return Ok(()) };
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = engine.while_mounted(|host| {
            host.with(|fs| {
                let of = |h: &Handle| fs.handle_info(*h).ok();
                let may_be_dirty = |how: &OpenFlags| how.write && (how.read || self.deferred);
                let written = handles.iter().filter_map(of).filter(|(_, how)| may_be_dirty(how));
                written.map(|(ino, _)| ino).collect::<BTreeSet<_>>()
            })
        });
        for ino in written.unwrap_or_default() {
            self.notifier.inval_inode(self.numbers.node(ino), 0, 0)?;
        }
        Ok(())
    }
}

impl<F: Format> Front for Mounted<F> {
    fn changed(&self, changes: &[Change]) {
        for change in changes {
            let done = match change {
                Change::Name { dir, name } => {
                    let node = self.numbers.node(*dir);
                    let entry = self.notifier.inval_entry(node, OsStr::from_bytes(name));
                    entry.and_then(|()| self.notifier.inval_inode(node, 0, 0))
                }
                Change::Attr(ino) => self.notifier.inval_inode(self.numbers.node(*ino), -1, 0),
                Change::Data(ino) => self.notifier.inval_inode(self.numbers.node(*ino), 0, 0),
            };
            if let Err(error) = done {
                tracing::debug!(%error, ?change, "nothing to invalidate");
            }
        }
    }

    fn flush(&self) -> Result<(), FsError> {
        if self.end.wait(Duration::ZERO) {
            return Ok(());
        }
        // A mount that was detached, moved or covered cannot be named; its pages can.
        let sent = if self.is_there() {
            system::sync_pages(&self.dir, self.dev.load(Ordering::Acquire))
        } else {
            Ok(())
        };
        // Also after an error: the answers that are still to come belong to this sync's report.
        let done = self.wait_for_pages().and(sent);
        let refused = self.refused.swap(0, Ordering::AcqRel);
        match done {
            Ok(()) if refused == 0 => return Ok(()),
            Ok(()) => tracing::warn!(refused, "pages of the kernel could not be written"),
            Err(error) => tracing::warn!(%error, "syncfs"),
        }
        Err(FsError::Io(DevError::Io))
    }

    fn stop(&self) {
        if !self.end.wait(Duration::ZERO) {
            self.take_away();
            if !self.end.wait(GRACE) {
                tracing::warn!(
                    "files are still open, or the mount is bound to another place or seen from \
                     another namespace; what uses it fails from now on"
                );
            }
        }
        if self.end.wait(Duration::ZERO)
            && let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the mount's thread panicked");
        }
        let handles =
            std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(engine) = self.engine.upgrade() {
            engine.while_mounted(|host| {
                host.with(|fs| handles.iter().for_each(|h| fs.clunk(*h)));
            });
        }
    }
}
