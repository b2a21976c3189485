//! A model of a FAT tree: nodes by number, names as the rules of the engine's names say. What an
//! alias is comes from `Rules::encode`, which has tests of its own; where it stands, who owns it
//! and what it collides with is the model's.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_diskfs::{Ino, Refused, Timestamp};
use seawall_fat::entry::RawEntry;
use seawall_fat::lfn::Found;
use seawall_fat::name::{Rules, Wanted};
use std::collections::BTreeMap;

/// A small generator: a run is its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Name {
    pub found: Found,
    pub node: usize,
}

#[derive(Clone, Debug)]
pub enum Node {
    File(Vec<u8>),
    Dir(Vec<Name>),
}

/// The tree. Node 0 is the root.
pub struct Model {
    pub rules: Rules,
    pub nodes: BTreeMap<usize, Node>,
    pub mtimes: BTreeMap<usize, Timestamp>,
    /// Files without the write bits.
    pub locked: BTreeMap<usize, bool>,
    /// Numbers seen since the mount.
    pub inos: BTreeMap<usize, Ino>,
    next: usize,
}

/// Parts of a path.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Model {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            nodes: BTreeMap::from([(0, Node::Dir(Vec::new()))]),
            mtimes: BTreeMap::new(),
            locked: BTreeMap::new(),
            inos: BTreeMap::new(),
            next: 1,
        }
    }

    pub fn names(&self, dir: usize) -> &[Name] {
        match &self.nodes[&dir] {
            Node::Dir(n) => n,
            Node::File(_) => &[],
        }
    }

    fn names_mut(&mut self, dir: usize) -> &mut Vec<Name> {
        match self.nodes.get_mut(&dir) {
            Some(Node::Dir(n)) => n,
            _ => panic!("no directory"),
        }
    }

    /// Place of a name in a directory.
    pub fn find_in(&self, dir: usize, name: &str) -> Result<Option<usize>, Refused> {
        let wanted = match self.rules.parse(name.as_bytes()) {
            Ok(w) => w,
            Err(Refused::NotFound | Refused::Invalid) => return Ok(None),
            Err(e) => return Err(e),
        };
        Ok(self.names(dir).iter().position(|n| self.rules.matches(&wanted, &n.found)))
    }

    /// The node of a path.
    pub fn find(&self, path: &str) -> Result<usize, Refused> {
        let mut at = 0;
        for part in path.split('/').filter(|p| !p.is_empty()) {
            if !matches!(self.nodes[&at], Node::Dir(_)) {
                return Err(Refused::NotDir);
            }
            let place = self.find_in(at, part)?.ok_or(Refused::NotFound)?;
            at = self.names(at)[place].node;
        }
        Ok(at)
    }

    /// The directory that a path's last name is in.
    pub fn parent(&self, path: &str) -> Result<usize, Refused> {
        let dir = self.find(split(path).0)?;
        match self.nodes[&dir] {
            Node::Dir(_) => Ok(dir),
            Node::File(_) => Err(Refused::NotDir),
        }
    }

    pub fn is_dir(&self, node: usize) -> bool {
        matches!(self.nodes[&node], Node::Dir(_))
    }

    /// What the new entry of a name is. `skip`: a place that does not count.
    fn encode(&self, dir: usize, wanted: &Wanted, skip: Option<usize>) -> Result<Found, Refused> {
        let found = |short: [u8; 11], nt, long| {
            let raw = RawEntry { name: short, nt, ..RawEntry::default() };
            Found { first: 0, slot: 0, raw, long }
        };
        let made = self.rules.encode(wanted, &mut |short| {
            let key = self.rules.keys(&found(*short, 0, None)).short;
            let taken =
                |(i, n): (usize, &Name)| Some(i) != skip && self.rules.has_key(&n.found, &key);
            Ok(self.names(dir).iter().enumerate().any(taken))
        });
        match made {
            Ok(m) => Ok(found(m.short, m.nt, m.long)),
            Err(seawall_diskfs::Fault::Err(seawall_diskfs::FsError::Refused(e))) => Err(e),
            Err(e) => panic!("{e:?}"),
        }
    }

    /// Whether a name can be made in a directory where it is not.
    pub fn may_make(&self, dir: usize, name: &str) -> Result<(), Refused> {
        let wanted = self.rules.parse_new(name.as_bytes())?;
        self.encode(dir, &wanted, None).map(|_| ())
    }

    pub fn add(&mut self, path: &str, node: Node) -> usize {
        let dir = self.parent(path).unwrap();
        let wanted = self.rules.parse_new(split(path).1.as_bytes()).unwrap();
        let found = self.encode(dir, &wanted, None).unwrap();
        let n = self.next;
        self.next += 1;
        self.nodes.insert(n, node);
        self.names_mut(dir).push(Name { found, node: n });
        n
    }

    /// Takes a name away. The node stays.
    pub fn cut(&mut self, path: &str) -> usize {
        let dir = self.parent(path).unwrap();
        let place = self.find_in(dir, split(path).1).unwrap().unwrap();
        self.names_mut(dir).remove(place).node
    }

    /// Forgets a node.
    pub fn forget(&mut self, node: usize) {
        self.nodes.remove(&node);
        self.mtimes.remove(&node);
        self.locked.remove(&node);
        self.inos.remove(&node);
    }

    /// A node without its name, its parent and place: `rename` as the engine does it.
    pub fn rename(&mut self, old: &str, new: &str) {
        let (a, b) = (self.parent(old).unwrap(), self.parent(new).unwrap());
        let from = self.find_in(a, split(old).1).unwrap().unwrap();
        let node = self.names(a)[from].node;
        let target = self.find_in(b, split(new).1).unwrap();
        match target {
            Some(t) if a != b || t != from => {
                let gone = self.names(b)[t].node;
                self.forget(gone);
                // The name that was there keeps its spelling and its alias.
                self.names_mut(b)[t].node = node;
                self.names_mut(a).remove(from);
            }
            _ => {
                let wanted = self.rules.parse_new(split(new).1.as_bytes()).unwrap();
                let skip = (a == b).then_some(from);
                let found = self.encode(b, &wanted, skip).unwrap();
                self.names_mut(a).remove(from);
                self.names_mut(b).push(Name { found, node });
            }
        }
    }

    /// True if `node` is `dir` or above it.
    pub fn is_above(&self, node: usize, dir: usize) -> bool {
        node == dir
            || self.names(node).iter().any(|n| self.is_dir(n.node) && self.is_above(n.node, dir))
    }

    /// The spelling of a name as it is listed.
    pub fn shown(&self, found: &Found) -> String {
        String::from_utf8(self.rules.shown(found)).unwrap()
    }

    /// Every path below the root, as listed, with its node.
    pub fn paths(&self) -> Vec<(String, usize)> {
        let mut out = Vec::new();
        let mut todo = vec![(String::new(), 0)];
        while let Some((path, dir)) = todo.pop() {
            for n in self.names(dir) {
                let p = format!("{path}/{}", self.shown(&n.found));
                if self.is_dir(n.node) {
                    todo.push((p.clone(), n.node));
                }
                out.push((p, n.node));
            }
        }
        out
    }

    pub fn data(&mut self, node: usize) -> &mut Vec<u8> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(d)) => d,
            _ => panic!("no file"),
        }
    }
}
