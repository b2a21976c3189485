//! A reader of FAT images that shares no code with the engine: what is reached from the root, by
//! which clusters, and what is wrong with it.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

fn le(b: &[u8], at: usize, n: usize) -> usize {
    (0..n).fold(0, |v, i| v | (b[at + i] as usize) << (8 * i))
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Geo {
    pub bits: usize,
    pub sector: usize,
    pub cluster: usize,
    pub fat: usize,
    pub fat_bytes: usize,
    pub fats: usize,
    /// Fixed root: first byte and bytes; FAT32: 0 and its cluster.
    pub root: (usize, usize),
    pub data: usize,
    pub end: usize,
}

impl Geo {
    pub fn new(b: &[u8]) -> Self {
        let (sector, per) = (le(b, 11, 2), le(b, 13, 1));
        let (reserved, fats, slots) = (le(b, 14, 2), le(b, 16, 1), le(b, 17, 2));
        let wide = le(b, 22, 2) == 0;
        let fat_bytes = if wide { le(b, 36, 4) } else { le(b, 22, 2) } * sector;
        let total = if le(b, 19, 2) == 0 { le(b, 32, 4) } else { le(b, 19, 2) };
        let fat = reserved * sector;
        let root = fat + fats * fat_bytes;
        let data = root + (slots * 32).div_ceil(sector) * sector;
        let cluster = sector * per;
        let clusters = (total * sector - data) / cluster;
        let bits = if wide { 32 } else { [16, 12][usize::from(clusters < 4085)] };
        let root = if wide { (0, le(b, 44, 4)) } else { (root, slots * 32) };
        Self { bits, sector, cluster, fat, fat_bytes, fats, root, data, end: clusters + 2 }
    }

    /// Entry of a cluster in the first FAT.
    pub fn entry(&self, b: &[u8], c: usize) -> usize {
        match self.bits {
            12 => le(b, self.fat + c * 3 / 2, 2) >> (4 * (c % 2)) & 0xfff,
            16 => le(b, self.fat + c * 2, 2),
            _ => le(b, self.fat + c * 4, 4) & 0xfff_ffff,
        }
    }

    fn mask(&self) -> usize {
        if self.bits == 32 { 0xfff_ffff } else { (1 << self.bits) - 1 }
    }
}

/// A name that is reached.
#[derive(Clone, Debug)]
pub struct Entry {
    pub path: String,
    pub dir: bool,
    pub start: usize,
    pub size: usize,
    pub chain: Vec<usize>,
    /// What the chain holds, up to the size.
    pub data: Vec<u8>,
    /// Cluster that a directory's `..` names.
    pub up: usize,
    /// Cluster of the directory that it is in.
    pub parent: usize,
}

/// What is in an image.
#[derive(Debug, Default)]
pub struct Seen {
    pub entries: Vec<Entry>,
    pub problems: Vec<String>,
}

impl Seen {
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.path == path)
    }
}

struct Walk<'a> {
    b: &'a [u8],
    geo: Geo,
    seen: Seen,
    /// Start of the chain that a cluster is in; 0 for none.
    owners: Vec<usize>,
    /// The first path of a chain's start.
    paths: BTreeMap<usize, String>,
}

impl Walk<'_> {
    fn say(&mut self, what: String) {
        self.seen.problems.push(what);
    }

    /// Walks a chain and claims its clusters.
    fn chain(&mut self, path: &str, start: usize) -> Vec<usize> {
        let (mut at, mut out) = (start, Vec::new());
        if start == 0 {
            return out;
        }
        loop {
            if at < 2 || at >= self.geo.end {
                self.say(format!("{path}: cluster {at} is none"));
                return out;
            }
            match self.geo.entry(self.b, at) {
                0 => {
                    self.say(format!("{path}: reaches free cluster {at}"));
                    return out;
                }
                next => {
                    let other = self.owners[at];
                    if other != 0 {
                        let by = self.paths[&other].clone();
                        let kind = if other == start { "twice" } else { "crossed" };
                        self.say(format!("{path}: {kind}, with {by} at cluster {at}"));
                        if kind == "crossed" {
                            return out;
                        }
                    }
                    self.owners[at] = start;
                    self.paths.entry(start).or_insert_with(|| path.to_string());
                    out.push(at);
                    if next >= self.geo.mask() - 7 {
                        return out;
                    }
                    if out.len() > self.geo.end {
                        self.say(format!("{path}: a loop"));
                        return out;
                    }
                    at = next;
                }
            }
        }
    }

    fn bytes(&self, chain: &[usize]) -> Vec<u8> {
        let n = self.geo.cluster;
        let mut out = Vec::with_capacity(chain.len() * n);
        for c in chain {
            out.extend_from_slice(
                &self.b[self.geo.data + (c - 2) * n..self.geo.data + (c - 1) * n],
            );
        }
        out
    }

    fn dir(&mut self, path: &str, own: usize, bytes: &[u8]) {
        let mut long: Vec<(u8, Vec<u16>, u8)> = Vec::new();
        let mut sub = Vec::new();
        for slot in bytes.chunks_exact(32) {
            if slot[0] == 0 {
                break;
            }
            if slot[0] == 0xe5 {
                long.clear();
                continue;
            }
            if slot[11] == 0x0f {
                if slot[0] & 0x40 != 0 {
                    long.clear();
                }
                let units = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
                let units = units.iter().map(|at| le(slot, *at, 2) as u16).collect();
                long.push((slot[0] & 0x3f, units, slot[13]));
                continue;
            }
            let parts = std::mem::take(&mut long);
            if slot[11] & 8 != 0 || slot[0] == b'.' {
                continue;
            }
            let path = format!("{path}/{}", name(slot, &parts));
            let mut e = Entry {
                path: path.clone(),
                dir: slot[11] & 0x10 != 0,
                start: le(slot, 26, 2)
                    | if self.geo.bits == 32 { le(slot, 20, 2) << 16 } else { 0 },
                size: le(slot, 28, 4),
                chain: Vec::new(),
                data: Vec::new(),
                up: 0,
                parent: own,
            };
            e.chain = self.chain(&path, e.start);
            e.data = self.bytes(&e.chain);
            if e.dir {
                let dots = e.data.get(..64).is_some_and(|d| {
                    d.starts_with(b".          \x10") && d[32..].starts_with(b"..         \x10")
                });
                if !dots {
                    self.say(format!("{path}: a directory without dots"));
                } else {
                    let wide = if self.geo.bits == 32 { le(&e.data, 52, 2) << 16 } else { 0 };
                    e.up = le(&e.data, 58, 2) | wide;
                    if e.up != own {
                        self.say(format!("{path}: has parent {}, not {own}", e.up));
                    }
                    // The engine does not go where `..` disagrees.
                    if e.up == own {
                        sub.push(e.clone());
                    }
                }
            } else {
                e.data.truncate(e.size);
            }
            self.seen.entries.push(e);
        }
        for e in sub {
            if path.matches('/').count() < 8 {
                self.dir(&e.path, e.start, &e.data);
            }
        }
    }
}

/// The long name if it is whole, else the short one.
fn name(slot: &[u8], parts: &[(u8, Vec<u16>, u8)]) -> String {
    let sum = slot[..11].iter().fold(0u8, |s, b| s.rotate_right(1).wrapping_add(*b));
    let whole = !parts.is_empty()
        && parts.iter().enumerate().all(|(i, p)| usize::from(p.0) == parts.len() - i && p.2 == sum);
    if whole {
        let units: Vec<u16> = parts.iter().rev().flat_map(|p| p.1.clone()).collect();
        let end = units.iter().position(|u| *u == 0).unwrap_or(units.len());
        return String::from_utf16_lossy(&units[..end]);
    }
    let text = |b: &[u8]| String::from_utf8_lossy(b).trim_end().to_string();
    let (base, ext) = (text(&slot[..8]), text(&slot[8..11]));
    if ext.is_empty() { base } else { format!("{base}.{ext}") }
}

/// Reads an image.
pub fn look(b: &[u8]) -> Seen {
    let geo = Geo::new(b);
    let (root, wide) = (geo.root, geo.bits == 32);
    let owners = vec![0; geo.end];
    let mut w = Walk { b, geo, seen: Seen::default(), owners, paths: BTreeMap::new() };
    let bytes = if wide {
        let chain = w.chain("/", root.1);
        w.bytes(&chain)
    } else {
        b[root.0..root.0 + root.1].to_vec()
    };
    w.dir("", 0, &bytes);
    let mut seen = w.seen;
    for e in seen.entries.iter().filter(|e| !e.dir && e.data.len() < e.size) {
        // A name that is about to go shows the size that it had.
        let named = seen.entries.iter().filter(|o| o.start == e.start).count();
        let kind = if named > 1 { "twice" } else { "short" };
        let what = format!("{}: {kind}, {} of {} bytes", e.path, e.data.len(), e.size);
        seen.problems.push(what);
    }
    seen
}
