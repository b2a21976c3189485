//! An operation's ticket: what it fetched stays with it until it ends.
//!
//! An operation that misses a block fails with [`Fault::Need`](crate::Fault), the driver reads the
//! block and calls again. If another operation could push that block out in between, two operations
//! could starve each other for ever. So fetched blocks, or the error of reading them, are pinned in
//! the ticket; an operation needs at most as many attempts as it has blocks.

use crate::{Extent, FsError, IndexBuild, Ino};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, PageBuf};

/// Most filesystem blocks, in bytes, that one `Need` asks for beyond what is needed.
pub const READ_AHEAD_MAX: u64 = 128 * 1024;

/// State of one operation across its attempts. Make one per operation, hand it back with
/// `Fs::release`.
#[derive(Debug, Default)]
pub struct Ticket {
    pub(crate) pinned: BTreeMap<u64, Result<Arc<PageBuf>, DevError>>,
    pub(crate) pins: Vec<Extent>,
    pub(crate) resume: Option<Resume>,
    /// An index whose scan met a missing block.
    pub(crate) build: Option<IndexBuild>,
    /// Directories that this operation searches without an index.
    pub(crate) no_index: Vec<Ino>,
    pub(crate) window: u64,
    /// The data cache's generation when old content was first fetched.
    pub(crate) fill_stamp: u64,
    restarts: u32,
}

/// Where a long scan stopped, valid while nothing changed the directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    pub(crate) ino: Ino,
    pub(crate) change: u64,
    pub(crate) pos: u64,
}

impl Ticket {
    /// A fresh ticket.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often the operation was started again because something was missing.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Hands a fetched block, or the error of reading it, to the operation. `block` is a filesystem
    /// block number and the buffer holds exactly one block.
    pub fn supply(&mut self, block: u64, data: Result<PageBuf, DevError>) {
        self.pinned.insert(block, data.map(Arc::new));
    }

    /// Called by the driver for every [`Fault::Need`](crate::Fault) before it fetches.
    ///
    /// # Errors
    /// A request that names only blocks which the ticket already holds would go round for ever: it
    /// is a fault of the engine and ends the operation.
    pub fn admit(&mut self, need: &[Extent]) -> Result<(), FsError> {
        self.restarts = self.restarts.saturating_add(1);
        let fresh = need
            .iter()
            .flat_map(|e| e.start..e.start.saturating_add(e.len))
            .any(|b| !self.pinned.contains_key(&b));
        if fresh { Ok(()) } else { Err(FsError::Bug("an operation asked again for what it has")) }
    }

    /// Next read-ahead window in bytes: doubles from one block to [`READ_AHEAD_MAX`].
    pub(crate) fn grow_window(&mut self, block_size: u64) -> u64 {
        let now = self.window.max(block_size);
        self.window = now.saturating_mul(2).min(READ_AHEAD_MAX.max(block_size));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_what_is_held_is_a_bug() {
        let mut t = Ticket::new();
        let need = [Extent { start: 5, len: 2 }];
        assert!(t.admit(&need).is_ok());
        t.supply(5, Ok(PageBuf::zeroed(1024)));
        assert!(t.admit(&need).is_ok(), "block 6 is still missing");
        t.supply(6, Err(DevError::Io));
        assert!(matches!(t.admit(&need), Err(FsError::Bug(_))));
        assert_eq!(t.restarts(), 3);
    }

    #[test]
    fn the_window_doubles_to_its_limit() {
        let mut t = Ticket::new();
        let seen: Vec<u64> = (0..9).map(|_| t.grow_window(1024)).collect();
        assert_eq!(seen, [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 131072]);
    }
}
