//! Seeded random operations against a model of the tree, with remounts, on one warm and one cold
//! host, over block sizes and features.
//!
//! e2fsck judges after every mutation in one run of each shape, after every 40th in the long runs,
//! and at each of their unmounts. A check of these images costs some milliseconds; after every
//! mutation of all runs they would be minutes.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{Vol, cold, plain};
use seawall_diskfs::driver::Host;
use seawall_diskfs::{FsError, Kind, Refused, RenameFlags, Space};
use seawall_ext2::Ext2;
use seawall_tests::{Scratch, assert_clean, e2fsck, mke2fs, pattern};
use std::collections::BTreeMap;
use std::path::Path;

/// A small generator: a run is its seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>),
    Dir,
    Symlink(String),
}

/// Paths to node numbers, and the nodes.
#[derive(Default)]
struct Model {
    names: BTreeMap<String, usize>,
    nodes: BTreeMap<usize, Node>,
    next: usize,
}

impl Model {
    fn add(&mut self, path: &str, node: Node) {
        self.names.insert(path.to_string(), self.next);
        self.nodes.insert(self.next, node);
        self.next += 1;
    }

    fn node(&self, path: &str) -> Option<&Node> {
        self.names.get(path).map(|n| &self.nodes[n])
    }

    fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.node(path), Some(Node::Dir))
    }

    fn children(&self, path: &str) -> usize {
        let prefix = format!("{path}/");
        self.names.keys().filter(|p| p.starts_with(&prefix)).count()
    }

    fn links(&self, node: usize) -> u32 {
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
enum Op {
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

fn next_op(m: &Model, r: &mut Rng) -> Op {
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
fn refusal(m: &Model, op: &Op) -> Option<Refused> {
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
fn crowd(dir: &str, n: usize) -> impl Iterator<Item = String> {
    (0..n).map(move |i| format!("{dir}/{i}-{}", "c".repeat(i * 7 % 60)))
}

fn apply_model(m: &mut Model, op: &Op) {
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

fn space<H: Host<Format = Ext2>>(
    v: &mut Vol<H>,
    path: &str,
    range: (u64, u64),
    what: Space,
) -> Result<(), FsError> {
    let ino = v.stat(path)?.ino;
    let h = v.open(ino)?;
    let ctx = v.ctx.clone();
    let done = v.run(|fs, t| fs.space(&ctx, h, range, what, t));
    v.clunk(h);
    done
}

fn make_crowd<H: Host<Format = Ext2>>(v: &mut Vol<H>, p: &str, n: usize) -> Result<(), FsError> {
    v.mkdir(p)?;
    let made: Result<(), FsError> = crowd(p, n).try_for_each(|path| v.create(&path).map(|_| ()));
    if made.is_err() {
        // The model knows all or nothing.
        for path in crowd(p, n) {
            let _ = v.unlink(&path);
        }
        v.rmdir(p).unwrap();
        return made;
    }
    crowd(p, n).step_by(3).try_for_each(|path| v.unlink(&path))
}

fn apply<H: Host<Format = Ext2>>(v: &mut Vol<H>, m: &Model, op: &Op) -> Result<(), FsError> {
    match op {
        Op::Create(p) => v.create(p).map(|_| ()),
        Op::Mkdir(p) => v.mkdir(p).map(|_| ()),
        Op::Symlink(p, t) => v.symlink(p, t.as_bytes()).map(|_| ()),
        Op::Write(p, at, len) => v.write(p, *at as u64, &pattern(*len, *at as u64)),
        Op::Truncate(p, size) => v.truncate(p, *size as u64),
        Op::Unlink(p) => v.unlink(p),
        Op::Rmdir(p) => v.rmdir(p),
        Op::Link(old, new) => v.link(old, new),
        Op::Rename(old, new) => v.rename(old, new),
        Op::Exchange(a, b) => {
            v.rename_with(a, b, RenameFlags { exchange: true, ..RenameFlags::default() })
        }
        Op::Punch(p, at, len) => space(v, p, (*at as u64, *len as u64), Space::Punch),
        Op::Allocate(p, at, len) => space(v, p, (*at as u64, *len as u64), Space::Allocate),
        Op::Crowd(p, n) => make_crowd(v, p, *n),
        Op::Read(p, at, len) => {
            let got = v.read(p, *at as u64, *len)?;
            if let Some(Node::File(data)) = m.node(p) {
                let want = data.get(*at..).unwrap_or_default();
                assert!(got == want[..want.len().min(*len)], "read of {p} at {at}");
            }
            Ok(())
        }
    }
}

/// The whole tree must be what the model says.
fn compare<H: Host<Format = Ext2>>(v: &mut Vol<H>, m: &Model) {
    let mut dirs = vec![String::new()];
    let mut seen = 0;
    while let Some(dir) = dirs.pop() {
        for (name, ino, kind) in v.list(&format!("{dir}/")).unwrap() {
            let path = format!("{dir}/{name}");
            if path == "/lost+found" {
                continue;
            }
            seen += 1;
            let attr = v.stat(&path).unwrap();
            // Without the feature `filetype` a record does not tell.
            assert_eq!((attr.ino, attr.kind), (ino, kind.unwrap_or(attr.kind)));
            match m.node(&path).unwrap_or_else(|| panic!("{path} should not be there")) {
                Node::Dir => {
                    assert_eq!(attr.kind, Kind::Dir);
                    dirs.push(path);
                }
                Node::Symlink(t) => assert_eq!(v.readlink(&path).unwrap(), t.as_bytes()),
                Node::File(data) => {
                    let links = m.links(m.names[&path]);
                    assert_eq!((attr.size, attr.nlink), (data.len() as u64, links), "{path}");
                    let got = v.read(&path, 0, data.len() + 9).unwrap();
                    assert!(got == *data, "content of {path}");
                }
            }
        }
    }
    assert_eq!(seen, m.names.len());
}

/// A synced volume must be clean but for its mark.
fn judge<H: Host<Format = Ext2>>(v: &mut Vol<H>, image: &Path, seed: u64, op: &Op) {
    v.sync().unwrap();
    let (code, output) = e2fsck(image);
    assert!(code == 0, "seed {seed} after {op:?}: {output}");
}

fn run<H: Host<Format = Ext2>>(
    image: &Path,
    seed: u64,
    (rounds, ops, check_each): (usize, usize, usize),
    open: impl Fn(&Path) -> Vol<H>,
) -> Vec<String> {
    let mut r = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut m = Model::default();
    let mut results = Vec::new();
    let mut mutations = 0;
    for _ in 0..rounds {
        let mut v = open(image);
        compare(&mut v, &m);
        for _ in 0..ops {
            let op = next_op(&m, &mut r);
            let got = apply(&mut v, &m, &op);
            results.push(format!("{got:?}"));
            match (refusal(&m, &op), &got) {
                (None, Ok(())) => {
                    apply_model(&mut m, &op);
                    mutations += usize::from(!matches!(op, Op::Read(..)));
                    if mutations % check_each == check_each - 1 && !matches!(op, Op::Read(..)) {
                        judge(&mut v, image, seed, &op);
                    }
                }
                // Steps before the one that found no room stay.
                (None, Err(FsError::Refused(Refused::NoSpace)))
                    if matches!(op, Op::Allocate(..)) =>
                {
                    let Op::Allocate(p, ..) = &op else { continue };
                    let (n, size) = (m.names[p], v.stat(p).unwrap().size as usize);
                    if let Some(Node::File(data)) = m.nodes.get_mut(&n) {
                        assert!(size >= data.len());
                        data.resize(size, 0);
                    }
                }
                // A full volume: the operation has not happened.
                (None, Err(FsError::Refused(Refused::NoSpace))) => {}
                (Some(want), Err(FsError::Refused(e))) if want == *e => {}
                (want, _) => panic!("seed {seed}: {op:?} gave {got:?}, the model says {want:?}"),
            }
        }
        compare(&mut v, &m);
        v.unmount();
        assert_clean(image);
    }
    results
}

const SHAPES: [(u64, &[&str]); 8] = [
    (3 << 20, &["-b", "1024", "-I", "128", "-N", "100"]),
    (12 << 20, &["-b", "1024", "-I", "256", "-g", "2048"]),
    (6 << 20, &["-b", "4096", "-I", "256"]),
    (16 << 20, &["-b", "2048", "-I", "128"]),
    (4 << 20, &["-b", "1024", "-I", "128", "-O", "^dir_index"]),
    (4 << 20, &["-b", "1024", "-O", "^filetype,^resize_inode", "-m", "0"]),
    (4 << 20, &["-r", "0", "-b", "1024", "-I", "128"]),
    (4 << 20, &["-b", "1024", "-I", "1024", "-O", "^sparse_super,^large_file,^resize_inode"]),
];

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..16 {
        let dir = Scratch::new();
        let image = dir.join("image");
        let (size, args) = SHAPES[seed % SHAPES.len()];
        mke2fs(&image, size, args);
        let preset = ["default", "hurd-full", "strict"][seed % 3];
        run(&image, seed as u64, (4, 300, 40), |i| plain(i, preset));
    }
}

#[test]
fn every_mutation_leaves_a_clean_volume() {
    for (i, (size, args)) in SHAPES.into_iter().chain(FEATURES).enumerate() {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, size, args);
        run(&image, 50 + i as u64, (1, 200, 1), |i| plain(i, "default"));
    }
}

/// Sets of features beyond the plain shapes.
const FEATURES: [(u64, &[&str]); 4] = [
    (6 << 20, &["-b", "1024", "-g", "256", "-O", "meta_bg,^resize_inode"]),
    (
        8 << 20,
        &["-b", "1024", "-g", "512", "-O", "uninit_bg", "-E", "lazy_itable_init=1", "-N", "512"],
    ),
    (6 << 20, &["-b", "4096", "-I", "256", "-O", "huge_file,dir_nlink,extra_isize,has_journal"]),
    (12 << 20, &["-b", "2048", "-g", "256", "-O", "meta_bg,^resize_inode,uninit_bg,sparse_super2"]),
];

#[test]
fn every_set_of_features_agrees_with_the_model() {
    for seed in 200..208 {
        let dir = Scratch::new();
        let image = dir.join("image");
        let (size, args) = FEATURES[seed % FEATURES.len()];
        mke2fs(&image, size, args);
        let preset = ["default", "hurd-full", "strict"][seed % 3];
        run(&image, seed as u64, (3, 400, 40), |i| plain(i, preset));
    }
    let dir = Scratch::new();
    let (warm, chilly) = (dir.join("warm"), dir.join("cold"));
    for seed in 300..302 {
        let (size, args) = FEATURES[2 * (seed % 2) + 1];
        mke2fs(&warm, size, args);
        mke2fs(&chilly, size, args);
        let a = run(&warm, seed as u64, (2, 250, 50), |i| plain(i, "default"));
        let b = run(&chilly, seed as u64, (2, 250, 50), |i| cold(i, "default"));
        assert_eq!(a, b);
    }
}

#[test]
fn a_cold_host_gives_the_same_results() {
    for seed in 100..104 {
        let dir = Scratch::new();
        let (size, args) = SHAPES[seed % SHAPES.len()];
        let (warm, chilly) = (dir.join("warm"), dir.join("cold"));
        mke2fs(&warm, size, args);
        mke2fs(&chilly, size, args);
        let a = run(&warm, seed as u64, (2, 250, 50), |i| plain(i, "default"));
        let b = run(&chilly, seed as u64, (2, 250, 50), |i| cold(i, "default"));
        assert_eq!(a, b);
    }
}
