//! Typed operations, drawn from a seed, and the model of a tree that says what each of them does.
#![allow(unreachable_pub, reason = "a module of a test binary")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_diskfs::Refused;
use seawall_tests::pattern;
use std::collections::BTreeMap;

/// A small generator: a run is its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

#[derive(Clone, Debug)]
pub enum Node {
    File(Vec<u8>),
    Dir,
    Symlink(String),
}

/// Paths to node numbers, and the nodes.
#[derive(Default)]
pub struct Model {
    pub names: BTreeMap<String, usize>,
    pub nodes: BTreeMap<usize, Node>,
    next: usize,
}

impl Model {
    pub fn add(&mut self, path: &str, node: Node) {
        self.names.insert(path.to_string(), self.next);
        self.nodes.insert(self.next, node);
        self.next += 1;
    }

    pub fn node(&self, path: &str) -> Option<&Node> {
        self.names.get(path).map(|n| &self.nodes[n])
    }

    fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.node(path), Some(Node::Dir))
    }

    fn children(&self, path: &str) -> usize {
        let prefix = format!("{path}/");
        self.names.keys().filter(|p| p.starts_with(&prefix)).count()
    }

    pub fn links(&self, node: usize) -> u32 {
        self.names.values().filter(|n| **n == node).count() as u32
    }

    fn drop_name(&mut self, path: &str) {
        let n = self.names.remove(path).unwrap();
        if self.links(n) == 0 {
            self.nodes.remove(&n);
        }
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Create(String),
    Mkdir(String),
    Symlink(String, String),
    Write(String, usize, usize),
    Truncate(String, usize),
    Unlink(String),
    Rmdir(String),
    Link(String, String),
    Rename(String, String),
    Exchange(String, String),
    Punch(String, usize, usize),
    Allocate(String, usize, usize),
    /// A whole crowd of names at once: directories get and lose indexes.
    Crowd(String, usize),
    Read(String, usize, usize),
}

fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |i| &path[..i])
}

/// A path in the tree, or one that is not there.
fn pick(m: &Model, r: &mut Rng) -> String {
    let dirs: Vec<&str> = [""]
        .into_iter()
        .chain(m.names.keys().map(String::as_str).filter(|p| m.is_dir(p)))
        .filter(|p| p.matches('/').count() < 4)
        .collect();
    if r.below(3) == 0 || m.names.is_empty() {
        let dir = dirs[r.below(dirs.len())];
        return format!("{dir}/{}{}", "n".repeat(r.below(30)), r.below(40));
    }
    m.names.keys().nth(r.below(m.names.len())).unwrap().clone()
}

pub fn next_op(m: &Model, r: &mut Rng) -> Op {
    let path = pick(m, r);
    let far = if r.below(8) == 0 { 1 << 19 } else { 40_000 };
    match r.below(20) {
        0..=3 => Op::Create(path),
        4 => Op::Mkdir(path),
        5 => Op::Symlink(path, "t".repeat(1 + r.below(120))),
        6..=10 => Op::Write(path, r.below(far), 1 + r.below(9000)),
        11 => Op::Truncate(path, r.below(far)),
        12..=13 => Op::Unlink(path),
        14 => Op::Rmdir(path),
        15 => Op::Link(path, pick(m, r)),
        16..=17 => Op::Rename(path, pick(m, r)),
        18 => match r.below(4) {
            0 => Op::Exchange(path, pick(m, r)),
            1 => Op::Punch(path, r.below(far), 1 + r.below(60_000)),
            2 => Op::Allocate(path, r.below(far), 1 + r.below(30_000)),
            _ => Op::Crowd(path, 10 + r.below(50)),
        },
        _ => Op::Read(path, r.below(far), 1 + r.below(20_000)),
    }
}

/// What the model says must happen, without changing it. `None`: it succeeds.
pub fn refusal(m: &Model, op: &Op) -> Option<Refused> {
    use Refused::{Exists, Invalid, IsDir, NotDir, NotEmpty, NotFound, NotPermitted};
    let file = |p: &str| match m.node(p) {
        None => Some(NotFound),
        Some(Node::Dir) => Some(IsDir),
        Some(_) => None,
    };
    match op {
        Op::Create(p) | Op::Mkdir(p) | Op::Symlink(p, _) | Op::Crowd(p, _) => {
            m.node(p).map(|_| Exists)
        }
        Op::Write(p, ..)
        | Op::Read(p, ..)
        | Op::Truncate(p, _)
        | Op::Punch(p, ..)
        | Op::Allocate(p, ..) => match (m.node(p), op) {
            (Some(Node::Symlink(_)), Op::Truncate(..)) => Some(Invalid),
            (Some(Node::Symlink(_)), _) => Some(Refused::Loop),
            // Reading a directory: the handle opens for reading.
            _ => file(p),
        },
        Op::Unlink(p) => file(p),
        Op::Rmdir(p) => match m.node(p) {
            None => Some(NotFound),
            Some(Node::Dir) if m.children(p) > 0 => Some(NotEmpty),
            Some(Node::Dir) => None,
            Some(_) => Some(NotDir),
        },
        Op::Link(old, new) => match (m.node(old), m.node(new)) {
            (None, _) => Some(NotFound),
            (Some(Node::Dir), _) => Some(NotPermitted),
            (_, Some(_)) => Some(Exists),
            _ => None,
        },
        Op::Exchange(a, b) => {
            let Some(x) = m.node(a) else { return Some(NotFound) };
            let far = parent(a) != parent(b);
            let below = |top: &str, p: &str| format!("{p}/").starts_with(&format!("{top}/"));
            if far && matches!(x, Node::Dir) && below(a, b) {
                return Some(Invalid);
            }
            let Some(y) = m.node(b) else { return Some(NotFound) };
            (far && matches!(y, Node::Dir) && below(b, a)).then_some(Invalid)
        }
        Op::Rename(old, new) => {
            let Some(a) = m.node(old) else { return Some(NotFound) };
            let dir = matches!(a, Node::Dir);
            if dir
                && parent(old) != parent(new)
                && format!("{new}/").starts_with(&format!("{old}/"))
            {
                return Some(Invalid);
            }
            match m.node(new) {
                _ if m.names.get(old) == m.names.get(new) => None,
                Some(Node::Dir) if !dir => Some(IsDir),
                Some(Node::Dir) if m.children(new) > 0 => Some(NotEmpty),
                Some(Node::Dir) | None => None,
                Some(_) if dir => Some(NotDir),
                Some(_) => None,
            }
        }
    }
}

/// Changes places with everything below.
fn exchange(m: &mut Model, a: &str, b: &str) {
    let part = |m: &mut Model, top: &str| -> Vec<(String, usize)> {
        let below = format!("{top}/");
        let paths: Vec<String> =
            m.names.keys().filter(|p| *p == top || p.starts_with(&below)).cloned().collect();
        paths
            .into_iter()
            .map(|p| (p[top.len()..].to_string(), m.names.remove(&p).unwrap()))
            .collect()
    };
    if m.names.get(a) == m.names.get(b) {
        return;
    }
    let (from_a, from_b) = (part(m, a), part(m, b));
    m.names.extend(from_a.into_iter().map(|(p, n)| (format!("{b}{p}"), n)));
    m.names.extend(from_b.into_iter().map(|(p, n)| (format!("{a}{p}"), n)));
}

/// Names of a crowd. The directory is new and empty.
pub fn crowd(dir: &str, n: usize) -> impl Iterator<Item = String> {
    (0..n).map(move |i| format!("{dir}/{i}-{}", "c".repeat(i * 7 % 60)))
}

pub fn apply_model(m: &mut Model, op: &Op) {
    match op {
        Op::Create(p) => m.add(p, Node::File(Vec::new())),
        Op::Mkdir(p) => m.add(p, Node::Dir),
        Op::Symlink(p, t) => m.add(p, Node::Symlink(t.clone())),
        Op::Write(p, at, len) => {
            let n = m.names[p];
            if let Some(Node::File(data)) = m.nodes.get_mut(&n) {
                data.resize(data.len().max(at + len), 0);
                data[*at..at + len].copy_from_slice(&pattern(*len, *at as u64));
            }
        }
        Op::Truncate(p, size) => {
            let n = m.names[p];
            if let Some(Node::File(data)) = m.nodes.get_mut(&n) {
                data.resize(*size, 0);
            }
        }
        Op::Unlink(p) | Op::Rmdir(p) => m.drop_name(p),
        Op::Link(old, new) => {
            let n = m.names[old];
            m.names.insert(new.clone(), n);
        }
        Op::Rename(old, new) => {
            if m.names.get(old) == m.names.get(new) {
                return;
            }
            if m.names.contains_key(new) {
                m.drop_name(new);
            }
            let prefix = format!("{old}/");
            let moved: Vec<String> =
                m.names.keys().filter(|p| *p == old || p.starts_with(&prefix)).cloned().collect();
            for p in moved {
                let n = m.names.remove(&p).unwrap();
                m.names.insert(format!("{new}{}", &p[old.len()..]), n);
            }
        }
        Op::Exchange(a, b) => exchange(m, a, b),
        Op::Punch(p, at, len) => {
            let n = m.names[p];
            if let Some(Node::File(data)) = m.nodes.get_mut(&n) {
                let end = data.len().min(at + len);
                data.get_mut(*at..end).unwrap_or_default().fill(0);
            }
        }
        Op::Allocate(p, at, len) => {
            let n = m.names[p];
            if let Some(Node::File(data)) = m.nodes.get_mut(&n) {
                data.resize(data.len().max(at + len), 0);
            }
        }
        Op::Crowd(p, n) => {
            m.add(p, Node::Dir);
            // Every third name is gone again.
            for (_, path) in crowd(p, *n).enumerate().filter(|(i, _)| i % 3 != 0) {
                m.add(&path, Node::File(Vec::new()));
            }
        }
        Op::Read(..) => {}
    }
}
