//! Seeded random operations against a model of the tree, with remounts, on one warm and one cold
//! host, over types, cluster sizes and sector sizes.
//!
//! `fsck.fat -n` judges after every mutation in one run of each shape, after every 25th in the long
//! runs, and at each of their unmounts; each time the volume is taken out of use first, so that
//! marks and FSINFO are judged too.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/tree.rs"]
mod tree;

use common::{Vol, assert_clean, cold, fsck_fat, mkfs_fat, plain};
use seawall_diskfs::driver::Host;
use seawall_diskfs::{FsError, Handle, Kind, Refused, SetAttr, SetTime, Space, Timestamp};
use seawall_fat::Fat;
use seawall_fat::name::Rules;
use seawall_tests::{Scratch, pattern};
use std::collections::BTreeSet;
use std::path::Path;
use tree::{Model, Node, Rng, split};

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Mkdir(String),
    Write(String, usize, usize),
    Append(String, usize),
    Truncate(String, usize),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    /// Space past the size, some of it used, the rest given back by the close.
    Reserve(String, usize, usize),
    Allocate(String, usize, usize),
    /// Loses its name while it is open.
    UnlinkOpen(String),
    /// One of those is written, read, and closed.
    Close,
    /// A whole crowd of names at once: directories grow, and get indexes.
    Crowd(String, usize),
    Mtime(String, i64),
    Lock(String, bool),
    Read(String, usize, usize),
}

impl Op {
    fn changes(&self) -> bool {
        !matches!(self, Op::Read(..))
    }
}

/// A file that is open and has no name.
struct Ghost {
    handle: Handle,
    data: Vec<u8>,
}

/// A name of one of many kinds.
fn new_name(r: &mut Rng) -> String {
    let n = r.below(30);
    match r.below(16) {
        0 | 1 => format!("F{n}.TXT"),
        2 => format!("f{n}.txt"),
        3 => format!("lower{n}"),
        4 => format!("Mixed Name {n}.html"),
        5 => format!("longname{n}.text"),
        6 => format!("LONGNA~{}.TEX", 1 + n % 9),
        7 => format!("mixedn~{}.htm", 1 + n % 4),
        8 => format!("Stra\u{df}e \u{e4}\u{d6} {n}"),
        9 => format!("\u{65e5}\u{672c}\u{8a9e}{n}.\u{6f22}"),
        10 => format!("\u{1f600}\u{10428}{n}"),
        11 => format!("{}{n}", "l\u{f6}ng ".repeat(1 + n)),
        12 => format!("dots.{n}.."),
        13 => format!("\u{3a3}{}.c", if n.is_multiple_of(2) { '\u{3c2}' } else { '\u{3c3}' }),
        14 => format!(".hidden{n}"),
        _ => ["a:b", "con", "end ", " start", "x?", "lpt1.txt", "+[];,=.a b"][n % 7].to_string(),
    }
}

/// The same name to the volume, in other letters.
fn respell(name: &str, r: &mut Rng) -> String {
    let other = |c: char| match c {
        'a'..='z' => c.to_ascii_uppercase(),
        'A'..='Z' => c.to_ascii_lowercase(),
        '\u{e4}' => '\u{c4}',
        '\u{d6}' => '\u{f6}',
        c => c,
    };
    name.chars().map(|c| if r.below(2) == 0 { other(c) } else { c }).collect()
}

/// A path in the tree, in one of its spellings, or one that is not there.
fn pick(m: &Model, r: &mut Rng) -> String {
    let all = m.paths();
    if r.below(3) == 0 || all.is_empty() {
        let mut dirs: Vec<&str> = vec![""];
        let shallow = |p: &str| p.matches('/').count() < 4;
        dirs.extend(all.iter().filter(|(p, n)| m.is_dir(*n) && shallow(p)).map(|(p, _)| &**p));
        return format!("{}/{}", dirs[r.below(dirs.len())], new_name(r));
    }
    let (path, _) = &all[r.below(all.len())];
    let (dir, name) = split(path);
    match r.below(6) {
        0 => format!("{dir}/{}", respell(name, r)),
        // By its alias, which is another name of the same entry.
        1 => {
            let d = m.find(dir).unwrap();
            let place = m.find_in(d, name).unwrap().unwrap();
            let alias = m.rules.alias(&m.names(d)[place].found);
            format!("{dir}/{}", String::from_utf8(alias).unwrap())
        }
        _ => path.clone(),
    }
}

fn next_op(m: &Model, r: &mut Rng, ghosts: usize, far: usize) -> Op {
    let path = pick(m, r);
    let far = if r.below(8) == 0 { far } else { far.min(20_000) };
    match r.below(32) {
        0..=6 => Op::Create(path),
        7 | 8 => Op::Mkdir(path),
        9..=12 => Op::Write(path, r.below(far), 1 + r.below(9000)),
        13 | 14 => Op::Append(path, 1 + r.below(5000)),
        15 | 16 => Op::Truncate(path, r.below(far)),
        17 | 18 => Op::Unlink(path),
        19 => Op::Rmdir(path),
        20..=23 => {
            let (dir, name) = split(&path);
            let respelled = format!("{dir}/{}", respell(name, r));
            let moved = format!("{}/{name}", split(&pick(m, r)).0);
            let other = pick(m, r);
            let all = [respelled, moved, other.clone(), other];
            let new = all[r.below(4)].clone();
            Op::Rename(path, new)
        }
        24 => Op::Reserve(path, 1 + r.below(30_000), r.below(30_000)),
        25 => Op::Allocate(path, r.below(far), 1 + r.below(9000)),
        26 if ghosts < 3 => Op::UnlinkOpen(path),
        27 if ghosts > 0 => Op::Close,
        28 => Op::Crowd(path, 10 + r.below(40)),
        29 => Op::Mtime(path, 1_500_000_000 + r.below(1 << 28) as i64),
        30 => Op::Lock(path, r.below(2) == 0),
        _ => Op::Read(path, r.below(far), 1 + r.below(20_000)),
    }
}

/// What the model says must happen, without changing it.
fn allowed(m: &Model, op: &Op) -> Result<(), Refused> {
    use Refused::{Exists, Invalid, IsDir, NotDir, NotEmpty};
    let file = |p: &str| match m.find(p) {
        Ok(n) if m.is_dir(n) => Err(IsDir),
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    };
    match op {
        Op::Create(p) | Op::Mkdir(p) | Op::Crowd(p, _) => {
            let dir = m.parent(p)?;
            match m.find_in(dir, split(p).1)? {
                Some(_) => Err(Exists),
                None => m.may_make(dir, split(p).1),
            }
        }
        Op::Write(p, ..)
        | Op::Append(p, ..)
        | Op::Reserve(p, ..)
        | Op::Allocate(p, ..)
        | Op::UnlinkOpen(p)
        | Op::Unlink(p)
        | Op::Truncate(p, _)
        | Op::Read(p, ..) => file(p),
        Op::Mtime(p, _) | Op::Lock(p, _) => m.find(p).map(|_| ()),
        Op::Rmdir(p) => match m.find(p)? {
            n if !m.is_dir(n) => Err(NotDir),
            n if !m.names(n).is_empty() => Err(NotEmpty),
            _ => Ok(()),
        },
        Op::Close => Ok(()),
        Op::Rename(old, new) => {
            let (a, b) = (m.parent(old)?, m.parent(new)?);
            let from = m.find_in(a, split(old).1)?.ok_or(Refused::NotFound)?;
            let src = m.names(a)[from].node;
            if m.is_dir(src) && a != b && m.is_above(src, b) {
                return Err(Invalid);
            }
            let Some(t) = m.find_in(b, split(new).1)? else {
                return m.may_make(b, split(new).1);
            };
            let target = m.names(b)[t].node;
            if target == src {
                let same = a == b && split(old).1 == split(new).1;
                return if same {
                    Ok(())
                } else {
                    m.rules.parse_new(split(new).1.as_bytes()).map(|_| ())
                };
            }
            match (m.is_dir(src), m.is_dir(target)) {
                (true, false) => Err(NotDir),
                (false, true) => Err(IsDir),
                (_, true) if !m.names(target).is_empty() => Err(NotEmpty),
                _ => Ok(()),
            }
        }
    }
}

fn overwrite(data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    data.resize(data.len().max(at + bytes.len()), 0);
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Names of a crowd. The directory is new and empty.
fn crowd(dir: &str, n: usize) -> impl Iterator<Item = String> {
    (0..n).map(move |i| format!("{dir}/{i}-{}", "c\u{f6}".repeat(i * 7 % 40)))
}

fn add_crowd(m: &mut Model, p: &str, n: usize) {
    m.add(p, Node::Dir(Vec::new()));
    for path in crowd(p, n) {
        m.add(&path, Node::File(Vec::new()));
    }
    for path in crowd(p, n).step_by(3) {
        let n = m.cut(&path);
        m.forget(n);
    }
}

fn apply_model(m: &mut Model, op: &Op, now: Timestamp) {
    let stamp = |m: &mut Model, n: usize| {
        m.mtimes.insert(n, Timestamp { secs: now.secs & !1, nanos: 0 });
    };
    match op {
        Op::Create(p) => {
            let n = m.add(p, Node::File(Vec::new()));
            stamp(m, n);
        }
        Op::Mkdir(p) => {
            m.add(p, Node::Dir(Vec::new()));
        }
        Op::Write(p, at, len) => {
            let n = m.find(p).unwrap();
            overwrite(m.data(n), *at, &pattern(*len, *at as u64));
            stamp(m, n);
        }
        Op::Append(p, len) => {
            let n = m.find(p).unwrap();
            let at = m.data(n).len();
            overwrite(m.data(n), at, &pattern(*len, at as u64));
            stamp(m, n);
        }
        Op::Truncate(p, size) => {
            let n = m.find(p).unwrap();
            m.data(n).resize(*size, 0);
            m.mtimes.remove(&n);
        }
        Op::Reserve(p, _, used) => {
            let n = m.find(p).unwrap();
            let at = m.data(n).len();
            overwrite(m.data(n), at, &pattern(*used, 3));
            m.mtimes.remove(&n);
        }
        Op::Allocate(p, at, len) => {
            let n = m.find(p).unwrap();
            let size = m.data(n).len().max(at + len);
            m.data(n).resize(size, 0);
            m.mtimes.remove(&n);
        }
        Op::Unlink(p) | Op::Rmdir(p) | Op::UnlinkOpen(p) => {
            let n = m.cut(p);
            m.forget(n);
        }
        Op::Rename(old, new) => {
            if m.find(old) != m.find(new) || old != new {
                m.rename(old, new);
            }
        }
        Op::Crowd(p, n) => add_crowd(m, p, *n),
        Op::Mtime(p, secs) => {
            let n = m.find(p).unwrap();
            if !m.is_dir(n) {
                m.mtimes.insert(n, Timestamp { secs: secs & !1, nanos: 0 });
            }
        }
        Op::Lock(p, on) => {
            let n = m.find(p).unwrap();
            if !m.is_dir(n) {
                m.locked.insert(n, *on);
            }
        }
        Op::Close | Op::Read(..) => {}
    }
}

fn space<H: Host<Format = Fat>>(
    v: &mut Vol<H>,
    h: Handle,
    range: (u64, u64),
    what: Space,
) -> Result<(), FsError> {
    let ctx = v.ctx.clone();
    v.run(|fs, t| fs.space(&ctx, h, range, what, t))
}

fn make_crowd<H: Host<Format = Fat>>(v: &mut Vol<H>, p: &str, n: usize) -> Result<(), FsError> {
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

fn close_ghost<H: Host<Format = Fat>>(v: &mut Vol<H>, mut g: Ghost, seed: u64) {
    let at = g.data.len() / 2;
    let bytes = pattern(3000, seed);
    match v.write_handle(g.handle, at as u64, &bytes) {
        Ok(()) => overwrite(&mut g.data, at, &bytes),
        Err(FsError::Refused(Refused::NoSpace)) => {}
        Err(e) => panic!("a write to a file without a name: {e:?}"),
    }
    let got = v.read_handle(g.handle, 0, g.data.len() + 9).unwrap();
    assert!(got == g.data, "content of a file without a name");
    v.clunk(g.handle);
}

fn with<H: Host<Format = Fat>>(
    v: &mut Vol<H>,
    path: &str,
    f: impl Fn(&mut Vol<H>, Handle) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let ino = v.stat(path)?.ino;
    let h = v.open(ino)?;
    let done = f(v, h);
    v.clunk(h);
    done
}

fn reserve<H: Host<Format = Fat>>(
    v: &mut Vol<H>,
    p: &str,
    len: usize,
    used: usize,
) -> Result<(), FsError> {
    let size = v.stat(p)?.size;
    with(v, p, |v, h| {
        let before = v.statfs().0;
        space(v, h, (size, len as u64), Space::AllocateKeepSize)?;
        let taken = before - v.statfs().0;
        v.write_handle(h, size, &pattern(used, 3))?;
        if used <= len {
            assert_eq!(v.statfs().0, before - taken, "the reserve is what is written to");
        }
        Ok(())
    })
}

fn apply<H: Host<Format = Fat>>(
    v: &mut Vol<H>,
    m: &mut Model,
    ghosts: &mut Vec<Ghost>,
    op: &Op,
) -> Result<(), FsError> {
    match op {
        Op::Create(p) => v.create(p).map(|_| ()),
        Op::Mkdir(p) => v.mkdir(p).map(|_| ()),
        Op::Write(p, at, len) => v.write(p, *at as u64, &pattern(*len, *at as u64)),
        Op::Append(p, len) => {
            let at = v.stat(p)?.size;
            v.write(p, at, &pattern(*len, at))
        }
        Op::Truncate(p, size) => {
            if v.stat(p)?.kind == Kind::Dir {
                return Err(Refused::IsDir.into());
            }
            v.truncate(p, *size as u64)
        }
        Op::Unlink(p) => v.unlink(p),
        Op::Rmdir(p) => v.rmdir(p),
        Op::Rename(old, new) => v.rename(old, new),
        Op::Reserve(p, len, used) => reserve(v, p, *len, *used),
        Op::Allocate(p, at, len) => {
            with(v, p, |v, h| space(v, h, (*at as u64, *len as u64), Space::Allocate))
        }
        Op::UnlinkOpen(p) => {
            let ino = v.stat(p)?.ino;
            let handle = v.open(ino)?;
            if let Err(e) = v.unlink(p) {
                v.clunk(handle);
                return Err(e);
            }
            let n = m.find(p).unwrap();
            ghosts.push(Ghost { handle, data: m.data(n).clone() });
            Ok(())
        }
        Op::Close => {
            let g = ghosts.remove(0);
            close_ghost(v, g, 5);
            Ok(())
        }
        Op::Crowd(p, n) => make_crowd(v, p, *n),
        Op::Mtime(p, secs) => {
            let mtime = SetTime::At(Timestamp { secs: *secs, nanos: 99 });
            v.set(p, SetAttr { mtime, ..SetAttr::default() }).map(|_| ())
        }
        Op::Lock(p, on) => {
            let mode = Some(if *on { 0o555 } else { 0o755 });
            v.set(p, SetAttr { mode, ..SetAttr::default() }).map(|_| ())
        }
        Op::Read(p, at, len) => {
            let got = v.read(p, *at as u64, *len)?;
            let n = m.find(p).unwrap();
            let want = m.data(n).get(*at..).unwrap_or_default();
            assert!(got == want[..want.len().min(*len)], "read of {p} at {at}");
            Ok(())
        }
    }
}

/// The whole tree must be what the model says.
fn compare<H: Host<Format = Fat>>(v: &mut Vol<H>, m: &mut Model) {
    let mut dirs = vec![(String::new(), 0)];
    while let Some((dir, node)) = dirs.pop() {
        let names = m.names(node).to_vec();
        let want: BTreeSet<String> = names.iter().map(|n| m.shown(&n.found)).collect();
        let listed = v.list(&format!("{dir}/")).unwrap();
        let got: BTreeSet<String> = listed.iter().map(|(n, ..)| n.clone()).collect();
        assert_eq!(got, want, "names in {dir}/");
        assert_eq!(listed.len(), want.len(), "a name twice in {dir}/");
        for (name, ino, kind) in listed {
            let path = format!("{dir}/{name}");
            let n = m.find(&path).unwrap();
            let attr = v.stat(&path).unwrap();
            assert_eq!((attr.ino, Some(attr.kind)), (ino, kind), "{path}");
            assert_eq!(*m.inos.entry(n).or_insert(ino), ino, "the number of {path} has changed");
            let children = |n: usize| m.names(n).iter().filter(|c| m.is_dir(c.node)).count();
            match m.nodes[&n].clone() {
                Node::Dir(_) => {
                    assert_eq!((attr.kind, attr.nlink), (Kind::Dir, 2 + children(n) as u32));
                    dirs.push((path, n));
                }
                Node::File(data) => {
                    assert_eq!((attr.size, attr.nlink), (data.len() as u64, 1), "{path}");
                    let got = v.read(&path, 0, data.len() + 9).unwrap();
                    assert!(got == data, "content of {path}");
                    if let Some(t) = m.mtimes.get(&n) {
                        assert_eq!(attr.mtime, *t, "mtime of {path}");
                    }
                    let locked = m.locked.get(&n).copied().unwrap_or(false);
                    assert_eq!(attr.mode & 0o777, if locked { 0o555 } else { 0o755 }, "{path}");
                }
            }
        }
    }
    let inos: BTreeSet<_> = m.inos.values().collect();
    assert_eq!(inos.len(), m.inos.len(), "two nodes of one number");
}

/// Steps before the one that found no room stay, as zeroes.
fn after_no_space<H: Host<Format = Fat>>(v: &mut Vol<H>, m: &mut Model, op: &Op) {
    let (Op::Write(p, ..) | Op::Append(p, ..) | Op::Truncate(p, _) | Op::Allocate(p, ..)) = op
    else {
        return;
    };
    let n = m.find(p).unwrap();
    let size = v.stat(p).unwrap().size as usize;
    assert!(size >= m.data(n).len(), "{op:?} without room made the file shorter");
    m.data(n).resize(size, 0);
    m.mtimes.remove(&n);
}

/// A full volume is full.
fn check_full<H: Host<Format = Fat>>(v: &mut Vol<H>, m: &Model, op: &Op, fixed_root: bool) {
    let ctx = v.ctx.clone();
    let s = v.run(|fs, t| fs.statfs(&ctx, t)).unwrap();
    let free = s.blocks_free * u64::from(s.block_size);
    let root = |p: &str| fixed_root && m.parent(p) == Ok(0);
    let (enough, need) = match op {
        Op::Create(p) | Op::Mkdir(p) | Op::Crowd(p, _) => (root(p), 60 * 700),
        Op::Rename(_, p) => (root(p), 1024),
        Op::Write(p, at, len) | Op::Allocate(p, at, len) => {
            let have = m.find(p).map_or(0, |n| v_len(m, n));
            (false, (at + len).saturating_sub(have) + len)
        }
        Op::Append(_, len) => (false, *len),
        Op::Reserve(_, a, b) => (false, a + b),
        Op::Truncate(_, size) => (false, *size),
        _ => (false, 0),
    };
    let slack = 3 * u64::from(s.block_size);
    assert!(enough || free <= need as u64 + slack, "{op:?}: no room, but {free} bytes are free");
}

fn v_len(m: &Model, n: usize) -> usize {
    match &m.nodes[&n] {
        Node::File(d) => d.len(),
        Node::Dir(_) => 0,
    }
}

struct Run {
    seed: u64,
    rounds: usize,
    ops: usize,
    check_each: usize,
    far: usize,
    fixed_root: bool,
}

impl Run {
    fn go<H: Host<Format = Fat>>(
        &self,
        image: &Path,
        open: impl Fn(&Path) -> Vol<H>,
    ) -> Vec<String> {
        let mut r = Rng::new(self.seed);
        let mut m = Model::new(Rules::default());
        let (mut results, mut mutations) = (Vec::new(), 0);
        for _ in 0..self.rounds {
            let mut v = open(image);
            let mut ghosts = Vec::new();
            m.inos.clear();
            compare(&mut v, &mut m);
            for _ in 0..self.ops {
                v.ctx.now.secs += 3;
                let op = next_op(&m, &mut r, ghosts.len(), self.far);
                results.push(self.step(&mut v, &mut m, &mut ghosts, &op));
                mutations += usize::from(op.changes());
                if mutations % self.check_each == 0 && op.changes() && ghosts.is_empty() {
                    v.settle().unwrap();
                    let (code, output) = fsck_fat(image);
                    assert!(code == 0, "seed {} after {op:?}: {output}", self.seed);
                }
            }
            compare(&mut v, &mut m);
            for g in ghosts {
                close_ghost(&mut v, g, 7);
            }
            v.unmount();
            assert_clean(image);
        }
        results
    }

    fn step<H: Host<Format = Fat>>(
        &self,
        v: &mut Vol<H>,
        m: &mut Model,
        ghosts: &mut Vec<Ghost>,
        op: &Op,
    ) -> String {
        let seed = self.seed;
        let want = allowed(m, op);
        let got = apply(v, m, ghosts, op);
        match (want, &got) {
            (Ok(()), Ok(())) => apply_model(m, op, v.ctx.now),
            (Ok(()), Err(FsError::Refused(Refused::NoSpace))) => {
                check_full(v, m, op, self.fixed_root);
                after_no_space(v, m, op);
            }
            (Err(want), Err(FsError::Refused(e))) if want == *e => {}
            (want, _) => panic!("seed {seed}: {op:?} gave {got:?}, the model says {want:?}"),
        }
        format!("{got:?}")
    }
}

/// Size of the image, arguments of `mkfs.fat`, bytes that files reach to.
type Shape = (u64, &'static [&'static str], usize);

const SHAPES: [Shape; 12] = [
    (1 << 20, &["-F", "12", "-s", "1", "-r", "112"], 100_000),
    (4 << 20, &["-F", "12", "-s", "8", "-f", "1"], 300_000),
    (16 << 20, &["-F", "12", "-s", "128"], 1 << 20),
    (2 << 20, &["-F", "12", "-S", "4096", "-s", "1"], 200_000),
    (4 << 20, &["-F", "16", "-s", "1"], 300_000),
    (20 << 20, &["-F", "16", "-s", "8", "-r", "128"], 1 << 20),
    (300 << 20, &["-F", "16", "-s", "128"], 1 << 20),
    (18 << 20, &["-F", "16", "-S", "4096", "-s", "1", "-f", "1"], 1 << 20),
    (2 << 20, &["-F", "32", "-s", "1"], 200_000),
    (4 << 20, &["-F", "32", "-s", "8", "-R", "17"], 300_000),
    (24 << 20, &["-F", "32", "-s", "128"], 1 << 20),
    (8 << 20, &["-F", "32", "-S", "4096", "-s", "2"], 300_000),
];

fn run_shape(shape: Shape, seed: u64, (rounds, ops, check_each): (usize, usize, usize)) {
    let (size, args, far) = shape;
    let dir = Scratch::new();
    let image = dir.join("image");
    mkfs_fat(&image, size, args);
    let preset = ["default", "hurd-full", "strict"][seed as usize % 3];
    let fixed_root = args[1] != "32";
    let run = Run { seed, rounds, ops, check_each, far, fixed_root };
    run.go(&image, |i| plain(i, preset));
}

#[test]
fn random_operations_agree_with_the_model() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        run_shape(shape, i as u64, (4, 250, 25));
    }
}

#[test]
fn every_mutation_leaves_a_clean_volume() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        run_shape(shape, 100 + i as u64, (1, 100, 1));
    }
}

#[test]
fn a_cold_host_gives_the_same_results() {
    for seed in [0usize, 3, 4, 8, 11] {
        let (size, args, far) = SHAPES[seed];
        let dir = Scratch::new();
        let (warm, chilly) = (dir.join("warm"), dir.join("cold"));
        mkfs_fat(&warm, size, args);
        mkfs_fat(&chilly, size, args);
        let fixed_root = args[1] != "32";
        let run =
            Run { seed: 200 + seed as u64, rounds: 2, ops: 120, check_each: 40, far, fixed_root };
        let a = run.go(&warm, |i| plain(i, "default"));
        let b = run.go(&chilly, |i| cold(i, "default"));
        assert_eq!(a, b);
        assert!(std::fs::read(&warm).unwrap() == std::fs::read(&chilly).unwrap());
    }
}
