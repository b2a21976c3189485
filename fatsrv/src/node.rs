//! Numbers for nodes, which FAT does not have.
//!
//! A directory's number is that of its first cluster, which it keeps wherever it is moved. A file's
//! is the place of its entry on the volume; when it is moved it keeps the number, and what is
//! remembered says where it stands now. A file that lost its name while it is in use lives on as
//! the 32 bytes that its entry held.
//!
//! What is remembered changes with the transaction that moves the entry, or not at all: a rename
//! that meets a full volume half way leaves every number where it was.

use crate::Fat;
use crate::boot::{Root, SLOT};
use crate::dir::Dir;
use crate::entry::{self, RawEntry};
use crate::volume::ROOT;
use alloc::format;
use seawall_diskfs::bytes::{array_at, put};
use seawall_diskfs::{Attempt, Change, FsError, Ino, Refused, Site, Stage, Tx, Words};

/// Files' numbers: this and the place of the entry, in slots.
const FILES: u64 = 1 << 37;
/// Numbers of files whose place gives a number that is in use.
const EXTRA: u64 = 1 << 38;

/// Memo space: number to the place of its entry, for files that moved.
const SPACE_PLACE: u8 = 8;
/// Memo space: place to the number of the file there, when it is not the place's own.
const SPACE_NUMBER: u8 = 9;
/// Memo space: number to the entry of a node without a name.
const SPACE_NAMELESS: u8 = 10;
/// Memo space: directory to the place of its entry.
const SPACE_DIR: u8 = 11;
/// Memo space: the last number given out of [`EXTRA`].
const SPACE_LAST: u8 = 12;

/// Slots at a directory's start that may hold its dots.
const DOTS_WITHIN: u64 = 4;

const WHAT: &str = "directory entry";

/// Where a node's entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The root directory has none.
    Root,
    /// At this byte of the volume.
    Slot(u64),
    /// Nowhere: the node has no name any more.
    Nameless,
}

/// A node as its entry describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) ino: Ino,
    pub(crate) raw: RawEntry,
    pub(crate) place: Place,
}

fn words(raw: &RawEntry) -> Words {
    let bytes = raw.to_bytes();
    let mut out = [0; 4];
    for (w, c) in out.iter_mut().zip(bytes.chunks_exact(8)) {
        *w = c.try_into().map_or(0, u64::from_le_bytes);
    }
    out
}

fn from_words(w: Words) -> RawEntry {
    let mut bytes = [0; 32];
    for (c, w) in bytes.chunks_exact_mut(8).zip(w) {
        c.copy_from_slice(&w.to_le_bytes());
    }
    RawEntry::from_bytes(&bytes)
}

/// The cluster of a directory's number.
pub(crate) fn dir_cluster(ino: Ino) -> Option<u32> {
    if ino == ROOT { None } else { u32::try_from(ino.0).ok() }
}

impl Fat {
    /// Start cluster of an entry.
    pub(crate) fn start(&self, raw: &RawEntry) -> u32 {
        raw.first_cluster(self.wide())
    }

    /// The directory that begins at a cluster, as `..` and entries name it.
    pub(crate) fn dir_at(&self, start: u32) -> Ino {
        match self.boot.root {
            _ if start == 0 => ROOT,
            Root::Cluster(root) if start == root => ROOT,
            _ => Ino(u64::from(start)),
        }
    }

    /// A directory by number.
    pub(crate) fn dir(&self, ino: Ino) -> Attempt<Dir> {
        match (dir_cluster(ino), self.boot.root) {
            (Some(start), _) if self.boot.cluster_start(start).is_some() => {
                Ok(Dir { ino, start: Some(start) })
            }
            (Some(_), _) => Err(Refused::NotDir.into()),
            (None, _) if ino != ROOT => Err(Refused::NotDir.into()),
            (None, Root::Cluster(start)) => Ok(Dir { ino, start: Some(start) }),
            (None, Root::Fixed { .. }) => Ok(Dir { ino, start: None }),
        }
    }

    /// The slot at a byte of the volume.
    pub(crate) fn slot_at(&self, tx: &mut Tx<'_>, pos: u64) -> Attempt<[u8; 32]> {
        let bs = u64::from(self.boot.block_size);
        let block = tx.read(pos / bs, "directory block")?;
        Ok(array_at(&block, (pos % bs) as usize)?)
    }

    fn put_slot(&self, tx: &mut Tx<'_>, pos: u64, bytes: &[u8; 32], change: Change) -> Attempt<()> {
        let bs = u64::from(self.boot.block_size);
        let block = tx.modify(pos / bs, "directory block", change)?;
        Ok(put(block, (pos % bs) as usize, bytes)?)
    }

    /// Number of the node whose entry stands at a byte of the volume.
    pub(crate) fn number(&self, tx: &Tx<'_>, raw: &RawEntry, pos: u64) -> Ino {
        if raw.is_dir() {
            return self.dir_at(self.start(raw));
        }
        match tx.memo(SPACE_NUMBER, pos) {
            Some([n, ..]) => Ino(n),
            None => Ino(FILES + pos / SLOT),
        }
    }

    /// Gives a number to a file whose entry is made at `pos`.
    pub(crate) fn new_number(&self, tx: &mut Tx<'_>, pos: u64) -> Ino {
        let own = FILES + pos / SLOT;
        let taken = [SPACE_PLACE, SPACE_NAMELESS].iter().any(|s| tx.memo(*s, own).is_some());
        if !taken {
            tx.set_memo(SPACE_NUMBER, pos, None);
            return Ino(own);
        }
        let last = tx.memo(SPACE_LAST, 0).map_or(EXTRA, |[n, ..]| n);
        tx.set_memo(SPACE_LAST, 0, Some([last + 1, 0, 0, 0]));
        self.moved(tx, Ino(last + 1), None, pos);
        Ino(last + 1)
    }

    /// A file's entry, or a directory's, stands at `to` now.
    pub(crate) fn moved(&self, tx: &mut Tx<'_>, ino: Ino, from: Option<u64>, to: u64) {
        if ino.0 < FILES {
            tx.set_memo(SPACE_DIR, ino.0, Some([to, 0, 0, 0]));
            return;
        }
        if let Some(from) = from.filter(|f| *f != to) {
            tx.set_memo(SPACE_NUMBER, from, None);
        }
        let own = ino.0 == FILES + to / SLOT;
        tx.set_memo(SPACE_PLACE, ino.0, (!own).then_some([to, 0, 0, 0]));
        tx.set_memo(SPACE_NUMBER, to, (!own).then_some([ino.0, 0, 0, 0]));
    }

    /// A node lost its entry at `pos`: it lives on as what the entry held.
    pub(crate) fn lost_entry(&self, tx: &mut Tx<'_>, ino: Ino, raw: &RawEntry, pos: Option<u64>) {
        if ino.0 < FILES {
            tx.set_memo(SPACE_DIR, ino.0, None);
        } else {
            if let Some(pos) = pos {
                tx.set_memo(SPACE_NUMBER, pos, None);
            }
            tx.set_memo(SPACE_PLACE, ino.0, None);
        }
        tx.set_memo(SPACE_NAMELESS, ino.0, Some(words(raw)));
    }

    /// Forgets a node without a name.
    pub(crate) fn forget_node(&self, tx: &mut Tx<'_>, ino: Ino) {
        tx.set_memo(SPACE_NAMELESS, ino.0, None);
    }

    /// Learns where a directory's entry stands.
    pub(crate) fn learn_dir(&self, tx: &mut Tx<'_>, ino: Ino, pos: u64) {
        if ino != ROOT && tx.memo(SPACE_DIR, ino.0).is_none_or(|[p, ..]| p != pos) {
            tx.learn(SPACE_DIR, ino.0, [pos, 0, 0, 0]);
        }
    }

    /// The node with this number. `Stale` when there is none.
    pub(crate) fn node(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Node> {
        if ino == ROOT {
            let raw = RawEntry { attr: entry::ATTR_DIRECTORY, ..RawEntry::default() };
            return Ok(Node { ino, raw, place: Place::Root });
        }
        if let Some(w) = tx.memo(SPACE_NAMELESS, ino.0) {
            return Ok(Node { ino, raw: from_words(w), place: Place::Nameless });
        }
        if ino.0 < FILES {
            return self.dir_node(tx, ino);
        }
        let pos = match tx.memo(SPACE_PLACE, ino.0) {
            Some([pos, ..]) => pos,
            None if ino.0 < EXTRA => (ino.0 - FILES) * SLOT,
            None => return Err(Refused::Stale.into()),
        };
        if !self.may_hold_entries(pos) {
            return Err(Refused::Stale.into());
        }
        let slot = self.slot_at(tx, pos)?;
        let raw = RawEntry::from_bytes(&slot);
        let none = entry::is_free(&slot) || entry::is_end(&slot) || entry::is_long(&slot);
        if none || raw.is_dir() || raw.is_label() {
            return Err(Refused::Stale.into());
        }
        Ok(Node { ino, raw, place: Place::Slot(pos) })
    }

    /// A number from a client can be anything: only directories' places hold entries.
    fn may_hold_entries(&self, pos: u64) -> bool {
        let end = self.boot.blocks() * u64::from(self.boot.block_size);
        let first = match self.boot.root {
            Root::Fixed { start, .. } => start,
            Root::Cluster(_) => self.boot.data_start,
        };
        pos >= first && pos < end
    }

    fn dir_node(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Node> {
        let dir = self.dir(ino).map_err(|_| seawall_diskfs::Fault::from(Refused::Stale))?;
        if let Some([pos, ..]) = tx.memo(SPACE_DIR, ino.0) {
            let raw = RawEntry::from_bytes(&self.slot_at(tx, pos)?);
            if raw.is_dir() && self.dir_at(self.start(&raw)) == ino {
                return Ok(Node { ino, raw, place: Place::Slot(pos) });
            }
        }
        // The number came from elsewhere: the entry is in the directory that `..` names.
        let parent = self.parent_of(tx, &dir)?;
        let up = self.dir(parent)?;
        let mut found = None;
        self.each_entry(tx, &up, 0, &mut |f, pos| {
            let is = f.raw.is_dir() && !f.raw.is_dots() && self.dir_at(self.start(&f.raw)) == ino;
            if is {
                found = Some((f.raw, pos));
            }
            Ok(!is)
        })?;
        let Some((raw, pos)) = found else { return Err(Refused::Stale.into()) };
        self.learn_dir(tx, ino, pos);
        Ok(Node { ino, raw, place: Place::Slot(pos) })
    }

    /// Writes a node's entry. The root has none: nothing of it is kept.
    pub(crate) fn put_node(&self, tx: &mut Tx<'_>, node: &Node, stage: Stage) -> Attempt<()> {
        match node.place {
            Place::Root => Ok(()),
            Place::Nameless => {
                tx.set_memo(SPACE_NAMELESS, node.ino.0, Some(words(&node.raw)));
                Ok(())
            }
            Place::Slot(pos) => {
                let change = Change { site: Site::Inode, stage, owner: Some(node.ino) };
                self.put_slot(tx, pos, &node.raw.to_bytes(), change)
            }
        }
    }

    /// As [`Fat::put_node`], for an access date: no fsync has to cover it.
    pub(crate) fn put_node_quietly(&self, tx: &mut Tx<'_>, node: &Node) -> Attempt<()> {
        let Place::Slot(pos) = node.place else { return self.put_node(tx, node, Stage::Any) };
        let change = Change { site: Site::Inode, stage: Stage::Any, owner: None };
        self.put_slot(tx, pos, &node.raw.to_bytes(), change)
    }

    /// The directory that a directory's `..` names.
    pub(crate) fn parent_of(&self, tx: &mut Tx<'_>, dir: &Dir) -> Attempt<Ino> {
        let Some(start) = dir.start.filter(|_| dir.ino != ROOT) else { return Ok(ROOT) };
        let (_, raw) = self.dot_dot(tx, start)?;
        Ok(self.dir_at(self.start(&raw)))
    }

    /// The `..` of the directory that begins at a cluster, and its place on the volume. It is the
    /// second slot, but some writers give the dots long names: then it is among the first slots.
    fn dot_dot(&self, tx: &mut Tx<'_>, start: u32) -> Attempt<(u64, RawEntry)> {
        let first = self.boot.cluster_start(start).ok_or(FsError::Bug("a directory's cluster"))?;
        let slots = (u64::from(self.boot.cluster) / SLOT).min(DOTS_WITHIN);
        for n in [1].into_iter().chain(0..slots) {
            let pos = first + n * SLOT;
            let slot = self.slot_at(tx, pos)?;
            let raw = RawEntry::from_bytes(&slot);
            if raw.name == entry::DOT_DOT && raw.is_dir() {
                return Ok((pos, raw));
            }
        }
        let block = first / u64::from(self.boot.block_size);
        let what = format!("the directory at cluster {start} has no `..`");
        Err(FsError::corrupt(WHAT, block, what).into())
    }

    /// Makes a directory's `..` name another directory.
    pub(crate) fn set_parent(&self, tx: &mut Tx<'_>, ino: Ino, parent: Ino) -> Attempt<()> {
        let start = dir_cluster(ino).ok_or(FsError::Bug("a directory's cluster"))?;
        let (pos, mut raw) = self.dot_dot(tx, start)?;
        raw.set_first_cluster(dir_cluster(parent).unwrap_or(0), self.wide());
        let change = Change { site: Site::Dirent, stage: Stage::Unlink, owner: Some(ino) };
        self.put_slot(tx, pos, &raw.to_bytes(), change)
    }
}
