//! Every directory: its records, and what each name leads to.

use super::Check;
use super::finding::{Finding, Kind};
use super::geometry::{DIR_INDEX, FILETYPE, Fields};
use super::htree::Leaf;
use super::inodes::ROOT_INO;
use super::nodes::Node;
use super::raw::{FL_EXTENTS, FL_INDEX, FL_REFUSED, Raw};
use super::tree::{Item, Walk};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use seawall_diskfs::{FsError, name_hash};

/// Bytes before a name.
const HEAD: usize = 8;
/// Bytes of the shortest record.
const SHORTEST: usize = 12;
/// Names whose memory is taken at once.
const NAMES: usize = 256;

/// Names of the same hash that are compared. Names of chance reach two or three.
const SAME_HASH: usize = 10_000;

/// A directory under way.
pub(super) struct Scan {
    pub(super) ino: u32,
    /// It has an index: hash version, and what is known of each of its blocks.
    pub(super) version: Option<u8>,
    pub(super) leaves: BTreeMap<u64, Leaf>,
    /// Hashes of names with the block where each stands.
    names: Vec<(u64, u64)>,
    all_names: bool,
    dotdot: u32,
}

/// One record.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) len: usize,
    pub(super) ino: u32,
    file_type: u8,
    pub(super) name: &'a [u8],
    /// The byte behind the name.
    after: u8,
}

/// The record at `off`, if its lengths are possible.
pub(super) fn record(b: &[u8], off: usize) -> Option<Record<'_>> {
    let f = Fields(b.get(off..)?);
    let len = match usize::from(f.u16(4)) {
        0 | 0xFFFF if b.len() == 65536 => 65536,
        n => n,
    };
    let name_len = usize::from(f.u8(6));
    let fits = len >= SHORTEST && len % 4 == 0 && off + len <= b.len() && name_len + HEAD <= len;
    if !fits {
        return None;
    }
    Some(Record {
        len,
        ino: f.u32(0),
        file_type: f.u8(7),
        name: b.get(off + HEAD..)?.get(..name_len)?,
        after: f.u8(HEAD + name_len),
    })
}

impl Check<'_> {
    pub(super) fn scan_dirs(&mut self) -> Result<(), FsError> {
        self.set_parent(ROOT_INO, ROOT_INO);
        self.again = self.geo.blocks.saturating_mul(8).saturating_add(1 << 20);
        let total = self.dirs.len();
        for at in 0..total {
            if at % 64 == 0 {
                self.tell("directories", at as u64, total as u64);
            }
            let Some(ino) = self.dirs.get(at).map(|d| d.ino) else { break };
            if let Some(bytes) = self.read_inode(ino)? {
                self.one_dir(at, ino, &Raw::new(&bytes))?;
            }
        }
        Ok(())
    }

    fn one_dir(&mut self, at: usize, ino: u32, raw: &Raw<'_>) -> Result<(), FsError> {
        if raw.flags() & FL_REFUSED != 0 || (raw.flags() & FL_EXTENTS != 0 && !self.geo.extents()) {
            return Ok(());
        }
        let indexed = raw.flags() & FL_INDEX != 0 && self.geo.compat & DIR_INDEX != 0;
        let mut scan = Scan {
            ino,
            version: indexed.then_some(0),
            leaves: BTreeMap::new(),
            names: Vec::new(),
            all_names: true,
            dotdot: 0,
        };
        let mut next = 0;
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        while let Some(item) = walk.next() {
            match item {
                Item::Wrong(_) => {}
                Item::Node { block, .. } => {
                    if self.first_visit(block)?
                        && let Some(buf) =
                            self.dev.read(block * self.geo.bs, self.geo.bs as usize)?
                    {
                        walk.enter(buf);
                    }
                }
                Item::Run { block, file, len, .. } => {
                    if file > next {
                        let f = Finding::new(Kind::DirHole).inode(ino).found(next);
                        self.add(f.detail("file block"));
                    }
                    next = file + len;
                    for i in 0..len {
                        let at = block.saturating_add(i);
                        self.again = self.again.saturating_sub(u64::from(i > 0));
                        if !self.geo.holds(at) || (i > 0 && self.again == 0) {
                            break;
                        }
                        self.dir_block(&mut scan, at, file + i)?;
                    }
                }
            }
        }
        if let Some(dir) = self.dirs.get_mut(at) {
            dir.dotdot = scan.dotdot;
        }
        self.check_index(&scan)?;
        self.check_twice(&mut scan)?;
        self.budget.give(scan.leaves.len() as u64, Leaf::COST);
        Ok(())
    }

    /// False for a block that another directory brought here already, or that is none of files.
    fn first_visit(&mut self, block: u64) -> Result<bool, FsError> {
        if !self.geo.holds(block) || self.own.get(self.bit(block)) {
            return Ok(false);
        }
        let bit = self.bit(block);
        Ok(!self.shared.get(bit) || !self.seen.set(bit, &mut self.budget)?)
    }

    fn dir_block(&mut self, scan: &mut Scan, block: u64, file: u64) -> Result<(), FsError> {
        if !self.first_visit(block)? {
            return Ok(());
        }
        let ino = scan.ino;
        let Some(b) = self.read_block(block, |f| f.inode(ino))? else { return Ok(()) };
        let mut leaf = Leaf::new(block, &b);
        if file == 0 && scan.version.is_some() {
            scan.version = Some(Fields(&b).u8(28));
        }
        let (mut off, mut count) = (0, 0);
        while off < b.len() {
            let Some(r) = record(&b, off) else {
                let f = Finding::new(Kind::DirRecord).inode(ino).block(block);
                self.add(f.detail("offset").found(off as u64));
                break;
            };
            let first = file == 0 && count < 2;
            if first {
                self.check_dots(scan, block, &r, count);
            }
            if self.check_name(scan, block, &r, first)? && scan.version.is_some() {
                leaf.see(self.hash_of(scan, r.name));
            }
            off += r.len;
            count += 1;
        }
        if file == 0 && count < 2 && off >= b.len() {
            self.add(Finding::new(Kind::DotdotMissing).inode(ino).block(block));
        }
        if scan.version.is_some() {
            self.budget.take(1, Leaf::COST)?;
            scan.leaves.insert(file, leaf);
        }
        Ok(())
    }

    /// The two records that a directory begins with.
    fn check_dots(&mut self, scan: &mut Scan, block: u64, r: &Record<'_>, count: u32) {
        let at = |kind| Finding::new(kind).inode(scan.ino).block(block);
        let (want, missing): (&[u8], _) =
            if count == 0 { (b".", Kind::DotMissing) } else { (b"..", Kind::DotdotMissing) };
        let mut found = [None, None, None];
        let [name, terminator, other] = &mut found;
        if r.ino == 0 || r.name != want {
            *name = Some(at(missing));
        } else if r.after != 0 {
            *terminator = Some(at(Kind::DotTerminator));
        }
        if count == 0 {
            if r.ino != scan.ino && name.is_none() {
                *other = Some(at(Kind::DotWrong).found(r.ino));
            } else if r.len > 2 * SHORTEST {
                *other = Some(at(Kind::DotLong));
            }
        } else if name.is_none() {
            scan.dotdot = r.ino;
        }
        found.into_iter().flatten().for_each(|f| self.add(f));
    }

    /// What a record leads to. False when nothing counts on it.
    fn check_name(
        &mut self,
        scan: &mut Scan,
        block: u64,
        r: &Record<'_>,
        first: bool,
    ) -> Result<bool, FsError> {
        let dir = scan.ino;
        let at = |kind| Finding::new(kind).inode(dir).block(block).name(r.name).found(r.ino);
        if r.ino == 0 {
            return Ok(false);
        }
        if (r.ino != ROOT_INO && r.ino < self.geo.first_ino) || r.ino > self.geo.inodes {
            self.add(at(Kind::NameRange));
            return Ok(false);
        }
        let node = self.nodes.get(r.ino);
        let wrong = if first {
            None
        } else if r.ino == dir {
            Some(Kind::NameSelf)
        } else if matches!(r.name, b"." | b"..") {
            Some(Kind::NameDots)
        } else if r.ino == ROOT_INO {
            Some(Kind::NameRoot)
        } else if r.name.is_empty() || r.name.iter().any(|c| matches!(c, 0 | b'/')) {
            Some(Kind::NameBad)
        } else {
            None
        };
        if let Some(kind) = wrong {
            self.add(at(kind));
        }
        let (group, index) = self.geo.inode_place(r.ino);
        let disowned = self.desc(group).disowns(index, self.geo.inodes_per_group);
        if disowned && self.disowned.insert(group) {
            self.add(at(Kind::UninitUse).group(group));
        }
        if !node.used {
            if !disowned && !self.blind.contains(&group) {
                self.add(at(Kind::NameUnused));
            }
            return Ok(true);
        }
        self.check_type(at, r, node);
        if !first && node.file_type == 2 && wrong.is_none() && !self.set_parent(r.ino, dir) {
            self.add(at(Kind::NameSecond));
        }
        if !first {
            self.remember(scan, r.name, block);
        }
        let node = self.nodes.at(r.ino, &mut self.budget)?;
        node.found = node.found.saturating_add(1);
        Ok(true)
    }

    fn check_type(&mut self, at: impl Fn(Kind) -> Finding, r: &Record<'_>, node: Node) {
        if self.geo.incompat & FILETYPE == 0 {
            if r.file_type != 0 {
                self.add(at(Kind::TypeWrong).detail("a type without the feature filetype"));
            }
        } else if r.file_type == 0 {
            self.add(at(Kind::TypeUnset));
        } else if r.file_type != node.file_type {
            self.add(at(Kind::TypeWrong).found(r.file_type).right(node.file_type));
        }
    }

    /// Keeps a name for [`Self::check_twice`].
    fn remember(&mut self, scan: &mut Scan, name: &[u8], block: u64) {
        if !scan.all_names {
            return;
        }
        if scan.names.len() == scan.names.capacity() {
            let more = scan.names.len().max(NAMES);
            if self.budget.take(more as u64, 16).is_err()
                || scan.names.try_reserve_exact(more).is_err()
            {
                scan.all_names = false;
                let what = "whether a name stands twice in this directory: too many names";
                self.add(Finding::new(Kind::NotChecked).inode(scan.ino).detail(what));
                return;
            }
        }
        scan.names.push((name_hash(name).into(), block));
    }

    /// Names that stand twice: those with the same hash are read again and compared.
    fn check_twice(&mut self, scan: &mut Scan) -> Result<(), FsError> {
        let taken = scan.names.capacity() as u64;
        scan.names.sort_unstable();
        for same in scan.names.chunk_by(|a, b| a.0 == b.0).filter(|c| c.len() > 1) {
            let Some((hash, _)) = same.first().copied() else { continue };
            let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
            let mut twice = None;
            for (_, block) in same.chunk_by(|a, b| a == b).filter_map(|c| c.first()) {
                let Some(b) = self.dev.read(block * self.geo.bs, self.geo.bs as usize)? else {
                    continue;
                };
                let mut off = 0;
                while let Some(r) = record(&b, off).filter(|_| off < b.len() && twice.is_none()) {
                    let same = r.ino != 0 && u64::from(name_hash(r.name)) == hash;
                    if same && names.len() < SAME_HASH && !names.insert(r.name.to_vec()) {
                        twice = Some(r.name.to_vec());
                    }
                    off += r.len;
                }
                if twice.is_some() {
                    break;
                }
            }
            if let Some(name) = twice {
                self.add(Finding::new(Kind::NameTwice).inode(scan.ino).name(&name));
            } else if names.len() == SAME_HASH {
                let f = Finding::new(Kind::NotChecked).inode(scan.ino);
                self.add(f.detail("whether a name stands twice: names made to look alike"));
            }
        }
        self.budget.give(taken, 16);
        Ok(())
    }
}
