//! What is known in memory of an inode and of an open handle: how far its changes are from durable,
//! who writes its data back, and which errors its handles have not heard of.
//!
//! An inode that is not in the table was dropped (or never seen); its state is unknown, and unknown
//! counts as not durable: [`Nodes::floor`] holds the highest sequence and epoch that a dropped
//! inode may have needed.

use crate::epoch::Epoch;
use crate::hash::HashMap;
use crate::{FsError, Handle, Ino, OpenFlags, Policy};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use seawall_blockdev::Seq;

/// Most inodes remembered that nothing holds.
const NODES_MAX: usize = 65_536;
/// Most open handles.
const HANDLES_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) handles: u32,
    /// Its changes, and its names, are in epochs up to this one.
    pub(crate) need: Epoch,
    /// The same without what only gave storage back: after this epoch nothing older reaches the
    /// storage that it has lost. Else a file that is emptied and filled again would open an epoch
    /// each time.
    pub(crate) reached: Epoch,
    /// Sequence of the last write of its data, or of its own metadata.
    pub(crate) seq: Seq,
    /// Something of the inode changed since its last fsync or a full pass (the Hurd's dirty flag).
    pub(crate) inode_dirty: bool,
    /// Dirty metadata blocks of its own, for policies without order.
    pub(crate) own: BTreeSet<u64>,
    /// Counts errors; each handle remembers how far it has heard.
    pub(crate) errors: u32,
    pub(crate) error: Option<FsError>,
    /// How many of them somebody has heard of. One that nobody heard of is told to who opens the
    /// file next: a close that did not wait may have caused it.
    pub(crate) heard: u32,
    /// The plan that writes its data.
    pub(crate) writer: Option<u64>,
    /// Plans that wait to be that.
    pub(crate) waiters: u32,
    /// No links left; freed when nothing holds it any more.
    pub(crate) orphan: bool,
    /// It is on the volume's list of inodes without links.
    pub(crate) listed: bool,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) ino: Ino,
    pub(crate) flags: OpenFlags,
    pub(crate) heard: u32,
    /// Written since the last run of the close site.
    pub(crate) dirty: bool,
    pub(crate) policy: Option<Arc<Policy>>,
    /// The host's own cache writes pages back through it, whole and later.
    pub(crate) deferred: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    map: HashMap<Ino, Node>,
    handles: BTreeMap<Handle, Open>,
    next_handle: u64,
    /// References that a host's cache has to inodes, by inode.
    holds: HashMap<Ino, u64>,
    /// Number of inodes at which to look again for some that can be dropped.
    look_at: usize,
    /// What a forgotten inode may need.
    pub(crate) floor: (Seq, Epoch),
}

impl Nodes {
    pub(crate) fn get(&self, ino: Ino) -> Option<&Node> {
        self.map.get(&ino)
    }

    /// It has open handles.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.map.get(&ino).is_some_and(|n| n.handles > 0)
    }

    /// Somebody can still reach the inode without a name.
    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.holds.contains_key(&ino) || self.is_open(ino)
    }

    pub(crate) fn known(&mut self, ino: Ino) -> Option<&mut Node> {
        self.map.get_mut(&ino)
    }

    /// The inode's state, made from the floor when it is unknown.
    pub(crate) fn entry(&mut self, ino: Ino) -> &mut Node {
        let (seq, need) = self.floor;
        self.map.entry(ino).or_insert_with(|| Node { seq, need, reached: need, ..Node::default() })
    }

    /// A new inode: nothing of an earlier owner of the number counts.
    pub(crate) fn fresh(&mut self, ino: Ino) {
        self.map.insert(ino, Node::default());
    }

    /// (sequence, epoch) that must be durable for the inode to be.
    pub(crate) fn needs(&self, ino: Ino) -> (Seq, Epoch) {
        self.map.get(&ino).map_or(self.floor, |n| (n.seq, n.need))
    }

    /// Epoch after which the storage that the inode loses now may be given back.
    pub(crate) fn reached(&self, ino: Ino) -> Epoch {
        self.map.get(&ino).map_or(self.floor.1, |n| n.reached)
    }

    pub(crate) fn forget(&mut self, ino: Ino) {
        self.map.remove(&ino);
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = (&Ino, &mut Node)> {
        self.map.iter_mut()
    }

    /// Drops inodes that nothing holds: those that are durable, and beyond the limit the others
    /// too, whose needs go to the floor. `has_data` tells which still have data in the cache.
    pub(crate) fn collect(&mut self, durable: (Seq, Epoch), has_data: impl Fn(Ino) -> bool) {
        if self.map.len() < NODES_MAX.max(self.look_at) {
            return;
        }
        let mut floor = self.floor;
        for pass in 0..2 {
            self.map.retain(|ino, n| {
                let held = n.handles > 0 || n.orphan || n.waiters > 0;
                let held = held || n.writer.is_some() || has_data(*ino);
                let safe = n.seq <= durable.0 && n.need <= durable.1 && n.own.is_empty();
                let keep = held || (pass == 0 && !safe);
                if !keep && !safe {
                    floor = (floor.0.max(n.seq), floor.1.max(n.need));
                }
                keep
            });
            if self.map.len() < NODES_MAX / 2 {
                break;
            }
        }
        self.floor = floor;
        // Those that are held stay whatever their number: a look at each costs, so it is rare.
        self.look_at = self.map.len().saturating_mul(2);
    }

    pub(crate) fn open(&mut self, ino: Ino, flags: OpenFlags) -> Option<Handle> {
        if self.handles.len() >= HANDLES_MAX {
            return None;
        }
        self.next_handle = self.next_handle.saturating_add(1);
        let h = Handle(self.next_handle);
        let n = self.entry(ino);
        n.handles = n.handles.saturating_add(1);
        let heard = n.heard;
        self.handles
            .insert(h, Open { ino, flags, heard, dirty: false, policy: None, deferred: false });
        Some(h)
    }

    pub(crate) fn handle(&self, h: Handle) -> Option<&Open> {
        self.handles.get(&h)
    }

    pub(crate) fn handle_mut(&mut self, h: Handle) -> Option<&mut Open> {
        self.handles.get_mut(&h)
    }

    pub(crate) fn close(&mut self, h: Handle) -> Option<Ino> {
        let open = self.handles.remove(&h)?;
        if let Some(n) = self.map.get_mut(&open.ino) {
            n.handles = n.handles.saturating_sub(1);
        }
        Some(open.ino)
    }

    pub(crate) fn hold(&mut self, ino: Ino) {
        let n = self.holds.entry(ino).or_insert(0);
        *n = n.saturating_add(1);
    }

    /// True when that was the last one.
    pub(crate) fn unhold(&mut self, ino: Ino, count: u64) -> bool {
        let Some(n) = self.holds.get_mut(&ino) else { return false };
        *n = n.saturating_sub(count);
        *n == 0 && self.holds.remove(&ino).is_some()
    }

    /// Drops all holds. Returns the orphans without handles among them, in order.
    pub(crate) fn unhold_all(&mut self) -> BTreeSet<Ino> {
        let held = core::mem::take(&mut self.holds);
        held.into_keys().filter(|ino| self.unreachable(*ino)).collect()
    }

    /// An orphan that nothing holds.
    pub(crate) fn unreachable(&self, ino: Ino) -> bool {
        self.map.get(&ino).is_some_and(|n| n.orphan) && !self.is_held(ino)
    }

    /// True when a handle is open for writing.
    pub(crate) fn any_writer(&self) -> bool {
        self.handles.values().any(|o| o.flags.write)
    }

    /// Files with a handle that is open for writing.
    pub(crate) fn writers(&self) -> usize {
        let files = self.handles.values().filter(|o| o.flags.write).map(|o| o.ino);
        files.collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn open_handles(&self) -> usize {
        self.handles.len()
    }

    /// Records an error that each open handle of the inode hears once.
    pub(crate) fn fail(&mut self, ino: Ino, e: &FsError) {
        let n = self.entry(ino);
        n.errors = n.errors.wrapping_add(1);
        n.error = Some(e.clone());
    }

    /// A caller hears of the inode's error without a handle of it.
    pub(crate) fn told(&mut self, ino: Ino) {
        if let Some(n) = self.map.get_mut(&ino) {
            n.heard = n.errors;
        }
    }

    /// The error that the handle has not heard yet, if any; it has heard it now.
    pub(crate) fn hear(&mut self, h: Handle) -> Option<FsError> {
        let o = self.handles.get_mut(&h)?;
        let n = self.map.get_mut(&o.ino)?;
        n.heard = n.errors;
        if o.heard == n.errors {
            return None;
        }
        o.heard = n.errors;
        n.error.clone()
    }
}
