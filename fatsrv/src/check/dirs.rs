//! The tree: every directory's slots, every name's chain.
//!
//! Directories are read in the order in which they are found, each cluster once: one that another
//! chain owns already is not read again, so a directory inside itself ends.

use super::Check;
use super::finding::{Finding, Kind};
use super::long::Long;
use super::names::{self, Names};
use crate::boot::{FatType, Root};
use crate::entry::{self, ATTR_DIRECTORY, ATTR_VOLUME, DOT, DOT_DOT, RawEntry, SLOT};
use crate::lfn::{Found, Scanner, Seen};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;

/// Most slots of a directory, as the specification has it.
const SLOTS_MAX: u32 = 65_536;
/// Bytes of a path that a finding keeps.
const PATH_MAX: usize = 1024;
/// Bytes of a fixed root directory that are read at a time.
const PART: u64 = 64 << 10;

/// A directory that was found.
pub(super) struct Dir {
    /// Index of the directory that holds its name.
    parent: usize,
    /// First cluster; 0 for a fixed root.
    start: u32,
    /// Clusters that it owns.
    clusters: u64,
    name: Box<[u8]>,
}

/// A directory that is being read.
struct Reading {
    index: usize,
    slot: u32,
    scanner: Scanner,
    long: Long,
    names: Names,
    /// The end mark was seen, and whether that entries follow it was told.
    ended: bool,
    told: bool,
}

impl Check<'_> {
    /// The root directory, as names in it see it.
    fn root_cluster(&self) -> u32 {
        match self.boot.root {
            Root::Cluster(n) => n,
            Root::Fixed { .. } => 0,
        }
    }

    /// Reads every directory.
    pub(super) fn scan_tree(&mut self) -> Result<(), FsError> {
        let start = self.root_cluster();
        let mut clusters = 0;
        if start != 0 {
            let named = |_: &Self, kind| Finding::new(kind).path(b"/".as_slice().into());
            clusters = self.check_chain(start, None, &named)?;
        }
        self.dirs.push(Dir { parent: 0, start, clusters, name: Box::default() });
        let mut index = 0;
        while index < self.dirs.len() {
            if index.is_multiple_of(64) {
                self.tell("directories", index as u64, self.dirs.len() as u64);
            }
            self.read_dir(index)?;
            index += 1;
        }
        Ok(())
    }

    /// Path of a directory; of a long one the end.
    fn dir_path(&self, index: usize) -> Vec<u8> {
        let (mut names, mut len, mut at) = (Vec::new(), 0, index);
        while at != 0 && len < PATH_MAX {
            let Some(dir) = self.dirs.get(at) else { break };
            names.push(&dir.name);
            len += dir.name.len() + 1;
            at = dir.parent;
        }
        let mut path = if at == 0 { Vec::new() } else { b"...".to_vec() };
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    /// A finding about a name in a directory; about the directory with an empty name.
    fn named(&self, index: usize, slot: u32, name: &[u8], kind: Kind) -> Finding {
        let mut path = self.dir_path(index);
        if !name.is_empty() || path.is_empty() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Finding::new(kind).path(path.into()).slot(slot)
    }

    fn read_dir(&mut self, index: usize) -> Result<(), FsError> {
        let mut reading = Reading {
            index,
            slot: 0,
            scanner: Scanner::new(),
            long: Long::default(),
            names: Names::default(),
            ended: false,
            told: false,
        };
        match self.boot.root {
            Root::Fixed { start, slots } if index == 0 => {
                let (mut at, end) = (start, start + u64::from(slots) * SLOT as u64);
                while at < end {
                    let len = PART.min(end - at);
                    let part = self.dev.read(at, len as usize)?;
                    self.take_part(&mut reading, part, len, None)?;
                    at += len;
                }
            }
            _ => self.read_clusters(&mut reading)?,
        }
        let Reading { slot, mut long, names, .. } = reading;
        let mut kinds = Vec::new();
        long.orphan(&mut |kind| kinds.push((kind, slot)));
        if slot > SLOTS_MAX {
            kinds.push((Kind::DirLarge, slot));
        }
        names.finish(&mut self.budget, &mut |kind, slot| kinds.push((kind, slot)));
        for (kind, slot) in kinds {
            let f = self.named(index, slot, b"", kind);
            self.add(f);
        }
        Ok(())
    }

    fn read_clusters(&mut self, reading: &mut Reading) -> Result<(), FsError> {
        let Some(&Dir { start, clusters, .. }) = self.dirs.get(reading.index) else {
            return Err(FsError::Bug("a directory outside the checker's table"));
        };
        let (mut at, len) = (start, u64::from(self.boot.cluster));
        for _ in 0..clusters {
            let Some(byte) = self.boot.cluster_start(at) else { break };
            let part = self.dev.read(byte, len as usize)?;
            self.take_part(reading, part, len, Some(at))?;
            let super::table::Entry::Next(next) = self.table.get(at) else { break };
            at = next;
        }
        Ok(())
    }

    /// Takes the slots of `len` bytes of a directory.
    fn take_part(
        &mut self,
        reading: &mut Reading,
        part: Option<PageBuf>,
        len: u64,
        cluster: Option<u32>,
    ) -> Result<(), FsError> {
        let Some(part) = part else {
            let mut f = self.named(reading.index, reading.slot, b"", Kind::Unreadable);
            f.cluster = cluster;
            self.add(f);
            reading.slot += (len / SLOT as u64) as u32;
            (reading.scanner, reading.long) = (Scanner::new(), Long::default());
            return Ok(());
        };
        for slot in part.chunks_exact(SLOT) {
            if let Some(slot) = slot.first_chunk::<SLOT>() {
                self.take_slot(reading, slot)?;
            }
            reading.slot += 1;
        }
        Ok(())
    }

    fn take_slot(&mut self, r: &mut Reading, slot: &[u8; SLOT]) -> Result<(), FsError> {
        let (index, at) = (r.index, r.slot);
        if index != 0 && at < 2 && self.is_dots(index, at, slot) {
            return Ok(());
        }
        let mut kinds = Vec::new();
        let tell = &mut |kind| kinds.push(kind);
        let mut long = false;
        let free = entry::is_free(slot) || entry::is_end(slot);
        if free {
            r.long.orphan(tell);
        } else if entry::is_long(slot) {
            r.long.part(slot, tell);
        } else if let Some(name) = slot.first_chunk::<11>() {
            long = r.long.short(name, tell);
        }
        let seen = r.scanner.push(at, slot);
        if r.ended && !free && !r.told {
            r.told = true;
            kinds.push(Kind::AfterEnd);
        }
        r.ended |= entry::is_end(slot);
        for kind in kinds {
            let f = self.named(index, at, b"", kind);
            self.add(f);
        }
        if free || entry::is_long(slot) {
            return Ok(());
        }
        self.take_entry(r, &RawEntry::from_bytes(slot), (long, seen))
    }

    /// Looks at one of the first two slots of a directory. False when its content is something
    /// else, which is a name like any other.
    fn is_dots(&mut self, index: usize, at: u32, slot: &[u8; SLOT]) -> bool {
        let (start, above) = self.starts(index);
        let (kind, name, right) =
            if at == 0 { (Kind::Dot, DOT, start) } else { (Kind::DotDot, DOT_DOT, above) };
        let raw = RawEntry::from_bytes(slot);
        let found = raw.first_cluster(self.wide());
        let flags = raw.attr & ATTR_DIRECTORY != 0 && raw.nt & names::NT_NO_SHORT == 0;
        if raw.name == name && flags && found == right {
            return true;
        }
        let f = self.named(index, at, b"", kind);
        if raw.name != name {
            self.add(f);
            return entry::is_free(slot) || entry::is_end(slot);
        }
        self.add(f.found(found).right(right));
        true
    }

    fn wide(&self) -> bool {
        self.boot.fat_type == FatType::Fat32
    }

    /// First clusters of a directory and of the one above it, as its dot entries have them: 0 for
    /// the root.
    fn starts(&self, index: usize) -> (u32, u32) {
        let dir = self.dirs.get(index);
        let parent = dir.map_or(0, |d| d.parent);
        let above = if parent == 0 { 0 } else { self.dirs.get(parent).map_or(0, |d| d.start) };
        (dir.map_or(0, |d| d.start), above)
    }

    /// A name: that of a file, a directory or a label. `long`: a long name is before it.
    fn take_entry(
        &mut self,
        r: &mut Reading,
        raw: &RawEntry,
        (long, seen): (bool, Seen),
    ) -> Result<(), FsError> {
        let (index, slot) = (r.index, r.slot);
        let found = match seen {
            Seen::Entry(found) => Some(found),
            _ => None,
        };
        let name = self.shown(raw, found.as_ref());
        let named = |check: &Self, kind| check.named(index, slot, &name, kind);
        if raw.attr & ATTR_VOLUME != 0 {
            self.take_label(r, raw, &named);
        } else {
            if names::is_bad(raw, long) {
                let f = named(self, Kind::NameBad);
                let f = f.detail(format!("\"{}\"", raw.name.escape_ascii()));
                self.add(f);
            }
            r.names.add((&raw.name, slot), found.as_ref(), &self.rules, &mut self.budget)?;
        }
        let start = raw.first_cluster(self.wide());
        if raw.attr & ATTR_DIRECTORY == 0 {
            self.check_chain(start, Some(raw.size), &named)?;
            return Ok(());
        }
        if raw.size != 0 {
            let f = named(self, Kind::DirSize).found(raw.size).right(0u32);
            self.add(f);
        }
        if start == 0 {
            let f = named(self, Kind::DirStart);
            self.add(f);
            return Ok(());
        }
        let (own, above) = self.starts(index);
        let is_above = (index != 0 && above != 0 && start == above) || start == own;
        if is_above {
            let f = named(self, Kind::DirLoop).cluster(start);
            self.add(f);
            return Ok(());
        }
        let clusters = self.check_chain(start, None, &named)?;
        if clusters > 0 {
            self.budget.take(1, size_of::<Dir>() + name.len())?;
            self.dirs.push(Dir { parent: index, start, clusters, name: name.into() });
        }
        Ok(())
    }

    /// A name as a mount shows it, or the bytes of one that no mount shows.
    fn shown(&self, raw: &RawEntry, found: Option<&Found>) -> Vec<u8> {
        match found {
            Some(found) => self.rules.shown(found),
            None => raw.name.trim_ascii_end().to_vec(),
        }
    }

    fn take_label(&mut self, r: &Reading, raw: &RawEntry, named: &dyn Fn(&Self, Kind) -> Finding) {
        let kind = match (r.index, self.label) {
            (0, None) if !r.ended => {
                self.label = Some(raw.name);
                return;
            }
            (0, _) => Kind::LabelSecond,
            _ => Kind::LabelPlace,
        };
        let f = named(self, kind);
        self.add(f);
    }
}
