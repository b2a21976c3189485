//! The order on disk: every image that a power loss can leave, for small workloads, held against
//! what `default` and `strict` promise.
//!
//! A device with a volatile cache keeps any part of what was written since its last flush. For each
//! span between two flushes images are built from what was flushed before and a part of the span:
//! all parts while there are at most 64 of them, else seeded ones, of whole writes and of single
//! sectors. A reader that shares nothing with the engine looks at each, and the engine mounts some.
//!
//! Promised: no cluster is reached from two names (but for the two names of a rename under way), no
//! entry leads to a free cluster, what fsync acknowledged is there. Not promised, as FAT has no
//! journal: see `docs/fat.md`.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/reader.rs"]
mod reader;
#[path = "common/tree.rs"]
mod tree;

use common::{Vol, engine_on, in_memory, mkfs_fat};
use reader::{Geo, Seen, look};
use seawall_blockdev::{Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_fat::{Fat, OpenOptions};
use seawall_tests::{Scratch, pattern};
use tree::Rng;

/// Writes between two flushes.
type Span = Vec<(u64, Vec<u8>)>;

/// A [`MemDev`] that keeps every span.
#[derive(Debug)]
struct Recorder {
    inner: MemDev,
    spans: Vec<Span>,
}

impl RawDev for Recorder {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.inner.read(start, buf)
    }

    fn write(&mut self, start: u64, buf: &[u8], flags: WriteFlags) -> Result<(), DevError> {
        self.inner.write(start, buf, flags)
    }

    fn flush(&mut self) -> Result<(), DevError> {
        if !self.inner.unflushed.is_empty() {
            self.spans.push(self.inner.unflushed.clone());
        }
        self.inner.flush()
    }

    fn discard(&mut self, run: Run) -> Result<(), DevError> {
        self.inner.discard(run)
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        self.inner.write_zeroes(run)
    }
}

type Rec = Vol<Blocking<Fat, Numbered<Recorder>>>;

/// One of these files holds this, or more after it.
#[derive(Clone, Debug)]
struct Must {
    any: Vec<(String, Vec<u8>)>,
    /// Spans flushed when it became so, and when it stopped being so.
    from: usize,
    to: usize,
    /// The size too.
    exact: bool,
}

impl Must {
    fn is_now(&self, path: &str) -> bool {
        self.to == usize::MAX && self.any.iter().any(|(p, _)| p == path)
    }
}

struct Trial {
    name: String,
    base: Vec<u8>,
    v: Rec,
    musts: Vec<Must>,
    /// Names that files were moved away from: until they are gone they show the size that the file
    /// had, whatever became of its chain under the new name.
    moved: Vec<String>,
}

fn one(path: &str, data: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    vec![(path.to_string(), data)]
}

impl Trial {
    fn new(name: String, base: &[u8], preset: &str) -> Self {
        let fs = engine_on(base, OpenOptions::default()).unwrap();
        let dev = Recorder { inner: MemDev::new(base.to_vec()), spans: Vec::new() };
        let host = mount(fs, Numbered::new(dev), preset).unwrap();
        let ctx = in_memory(base.to_vec(), preset).ctx;
        let v = Vol { host, ctx, restarts: 0 };
        Self { name, base: base.to_vec(), v, musts: Vec::new(), moved: Vec::new() }
    }

    fn spans(&mut self) -> usize {
        self.v.host.dev.get_mut().spans.len()
    }

    /// From now on.
    fn must(&mut self, any: Vec<(String, Vec<u8>)>, exact: bool) {
        let from = self.spans();
        self.musts.push(Must { any, from, to: usize::MAX, exact });
    }

    /// Something with this name is about to change.
    fn ends(&mut self, path: &str) {
        let to = self.spans();
        for m in self.musts.iter_mut().filter(|m| m.is_now(path)) {
            m.to = to;
        }
    }

    /// A file is about to grow: what it had to hold stays its beginning.
    fn grows(&mut self, path: &str) {
        let now: Vec<Must> = self.musts.iter().filter(|m| m.is_now(path)).cloned().collect();
        self.ends(path);
        for m in now {
            self.must(m.any, false);
        }
    }

    fn fsync(&mut self, path: &str) {
        let ino = self.v.stat(path).unwrap().ino;
        self.v.fsync(ino).unwrap();
    }

    /// Looks at every image. `twice`: a rename may be under way.
    fn judge(mut self, twice: bool, images: &mut usize) {
        let _ = self.v.sync();
        let dev = self.v.host.dev.get_mut();
        dev.flush().unwrap();
        let spans = std::mem::take(&mut dev.spans);
        let mut before = self.base.clone();
        let mut b = before.clone();
        let mut r = Rng::new(7);
        for (i, span) in spans.iter().enumerate() {
            for torn in [false, true] {
                let units = units(span, torn);
                for mut mask in masks(units.len(), &mut r) {
                    self.join_12(&units, &mut mask);
                    for (n, (at, bytes)) in units.iter().enumerate() {
                        if mask[n] {
                            b[*at..*at + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                    *images += 1;
                    let what = || {
                        let lost = units.iter().zip(&mask).filter(|(_, m)| !**m);
                        let lost: Vec<usize> = lost.map(|((at, _), _)| *at).collect();
                        let all: Vec<usize> = units.iter().map(|(at, _)| *at).collect();
                        format!(
                            "{} span {i} of {}, lost {lost:?} of {all:?}",
                            self.name,
                            spans.len()
                        )
                    };
                    self.check(&b, i, twice, &what);
                    if r.below(40) == 0 {
                        self.check_mount(b.clone(), i, &what);
                    }
                    for (at, bytes) in &units {
                        let range = *at..*at + bytes.len();
                        b[range.clone()].copy_from_slice(&before[range]);
                    }
                }
            }
            for (at, bytes) in span {
                for image in [&mut before, &mut b] {
                    image[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        self.check(&before, spans.len(), false, &|| format!("{} at the end", self.name));
        self.check_mount(before, spans.len(), &|| format!("{} at the end", self.name));
    }

    /// An entry of 12 bits may lie in two sectors, which no order makes one write: a copy of such a
    /// FAT arrives as a whole here.
    fn join_12(&self, units: &[(usize, Vec<u8>)], mask: &mut [bool]) {
        let geo = Geo::new(&self.base);
        let copy = |at: usize| (at >= geo.fat).then(|| (at - geo.fat) / geo.fat_bytes);
        for n in (1..units.len()).filter(|_| geo.bits == 12) {
            let of = |n: usize| copy(units[n].0).filter(|c| *c < geo.fats);
            if of(n).is_some() && of(n) == of(n - 1) {
                mask[n] = mask[n - 1];
            }
        }
    }

    fn check(&self, b: &[u8], span: usize, twice: bool, what: &dyn Fn() -> String) {
        let seen = look(b);
        for p in &seen.problems {
            let renaming = p.contains(": twice,") || p.contains(": has parent ");
            let moved = self.moved.iter().any(|m| p.starts_with(&format!("{m}: short,")));
            assert!(twice && (renaming || moved), "{}: {p}", what());
        }
        for m in self.musts.iter().filter(|m| m.from <= span && span < m.to) {
            let held = m.any.iter().any(|(p, d)| holds(&seen, p, d, m.exact));
            let names: Vec<&str> = m.any.iter().map(|(p, _)| &**p).collect();
            let there: Vec<&str> = seen.entries.iter().map(|e| &*e.path).collect();
            assert!(held, "{}: {names:?} lost; there are {there:?}", what());
        }
    }

    /// The engine finds and reads what must be there, and takes writes.
    fn check_mount(&self, b: Vec<u8>, span: usize, what: &dyn Fn() -> String) {
        let mut v = in_memory(b, "default");
        for m in self.musts.iter().filter(|m| m.from <= span && span < m.to) {
            let held = m.any.iter().any(|(p, d)| v.read(p, 0, d.len()).is_ok_and(|got| got == *d));
            let all: Vec<_> =
                m.any.iter().map(|(p, d)| (p, v.read(p, 0, d.len()).map(|d| d.len()))).collect();
            assert!(held, "{}: cannot read {all:?}", what());
        }
        v.create("/after the loss").unwrap();
        v.write("/after the loss", 0, &[7; 9000]).unwrap();
        v.unmount();
    }
}

fn holds(seen: &Seen, path: &str, data: &[u8], exact: bool) -> bool {
    seen.get(path).is_some_and(|e| {
        e.data.starts_with(data) && (!exact || e.data.len() == data.len() && e.size == data.len())
    })
}

/// Whole writes, or the sectors of all.
fn units(span: &Span, torn: bool) -> Vec<(usize, Vec<u8>)> {
    let piece = if torn { 512 } else { usize::MAX };
    let parts = |(at, b): &(u64, Vec<u8>)| {
        let at = *at as usize;
        b.chunks(piece.min(b.len()))
            .enumerate()
            .map(|(i, c)| (at + i * piece.min(b.len()), c.to_vec()))
            .collect::<Vec<_>>()
    };
    span.iter().flat_map(parts).collect()
}

/// Which units arrive.
fn masks(n: usize, r: &mut Rng) -> Vec<Vec<bool>> {
    if n <= 6 {
        return (0..1usize << n).map(|m| (0..n).map(|i| m >> i & 1 == 1).collect()).collect();
    }
    let each = (0..n).take(40).map(|lost| (0..n).map(|i| i != lost).collect());
    let only = (0..n).take(40).map(|kept| (0..n).map(|i| i == kept).collect());
    let mut all: Vec<Vec<bool>> = each.chain(only).collect();
    all.extend((0..24).map(|_| (0..n).map(|_| r.below(2) == 0).collect::<Vec<_>>()));
    all
}

const SIZE_A: usize = 5000;

/// An image with some files, all of it durable. The next free clusters are on both sides of a
/// sector's edge in the FAT.
fn base(size: u64, args: &[&str]) -> Vec<u8> {
    let dir = Scratch::new();
    let path = dir.join("image");
    mkfs_fat(&path, size, args);
    let mut v = in_memory(std::fs::read(path).unwrap(), "default");
    for d in ["/dir", "/other", "/empty", "/dir/sub"] {
        v.mkdir(d).unwrap();
    }
    for (p, n) in [("/dir/a", SIZE_A), ("/dir/b", 3000), ("/dir/sub/inner", 700), ("/keep", 2000)] {
        v.create(p).unwrap();
        v.write(p, 0, &pattern(n, n as u64)).unwrap();
    }
    v.create("/filler").unwrap();
    let ctx = v.ctx.clone();
    let cluster = {
        let s = v.run(|fs, t| fs.statfs(&ctx, t)).unwrap();
        u64::from(s.block_size)
    };
    let used = (5000u64.div_ceil(cluster) + 3000u64.div_ceil(cluster) + 8).min(100);
    if cluster == 512 {
        let edge = if args[1] == "12" { 341 } else { 256 } - 6 - used;
        v.write("/filler", 0, &pattern((edge * cluster) as usize, 1)).unwrap();
    }
    v.settle().unwrap();
    std::mem::take(&mut v.host.dev.get_mut().data)
}

fn content(n: usize) -> Vec<u8> {
    pattern(n, n as u64)
}

type Work = fn(&mut Trial);

/// Name, whether a rename is under way, and what is done.
const WORKS: [(&str, bool, Work); 17] = [
    ("create", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)), true);
        t.v.create("/dir/a new and rather long name").unwrap();
        t.fsync("/dir/a new and rather long name");
        t.must(one("/dir/a new and rather long name", Vec::new()), true);
    }),
    ("create and write", false, |t| {
        t.v.create("/dir/new name of a file").unwrap();
        t.v.write("/dir/new name of a file", 0, &content(9000)).unwrap();
        t.fsync("/dir/new name of a file");
        t.must(one("/dir/new name of a file", content(9000)), true);
    }),
    ("mkdir", false, |t| {
        t.v.mkdir("/dir/new directory").unwrap();
        t.v.create("/dir/new directory/file").unwrap();
        t.v.write("/dir/new directory/file", 0, &content(600)).unwrap();
        t.fsync("/dir/new directory/file");
        t.must(one("/dir/new directory/file", content(600)), true);
    }),
    ("append", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)), false);
        t.v.write("/dir/a", SIZE_A as u64, &[1; 6000]).unwrap();
        t.fsync("/dir/a");
        let mut all = content(SIZE_A);
        all.extend([1; 6000]);
        t.must(one("/dir/a", all), true);
    }),
    ("append twice", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)), false);
        t.v.write("/dir/a", SIZE_A as u64, &[1; 2000]).unwrap();
        t.v.create("/other/between").unwrap();
        t.v.write("/other/between", 0, &[3; 2000]).unwrap();
        t.v.write("/dir/a", SIZE_A as u64 + 2000, &[2; 5000]).unwrap();
        t.fsync("/dir/a");
        let mut all = content(SIZE_A);
        all.extend([1; 2000]);
        all.extend([2; 5000]);
        t.must(one("/dir/a", all), true);
    }),
    ("unlink", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)), true);
        t.v.unlink("/dir/b").unwrap();
    }),
    ("truncate", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)[..1200].to_vec()), false);
        t.v.truncate("/dir/a", 1200).unwrap();
        t.fsync("/dir/a");
        t.must(one("/dir/a", content(SIZE_A)[..1200].to_vec()), true);
    }),
    ("truncate to nothing", false, |t| {
        t.must(one("/dir/a", Vec::new()), false);
        t.v.truncate("/dir/a", 0).unwrap();
        t.fsync("/dir/a");
        t.must(one("/dir/a", Vec::new()), true);
    }),
    ("truncate and write", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)[..600].to_vec()), false);
        t.v.truncate("/dir/a", 600).unwrap();
        t.v.create("/other/next").unwrap();
        t.v.write("/other/next", 0, &content(8000)).unwrap();
        t.fsync("/other/next");
        t.must(one("/other/next", content(8000)), true);
        t.v.write("/dir/a", 600, &[5; 4000]).unwrap();
        t.fsync("/dir/a");
    }),
    ("unlink and reuse", false, |t| {
        t.v.unlink("/dir/b").unwrap();
        for (i, p) in ["/dir/b", "/other/x", "/other/y"].into_iter().enumerate() {
            t.v.create(p).unwrap();
            t.v.write(p, 0, &pattern(4000, i as u64)).unwrap();
            t.fsync(p);
            t.must(one(p, pattern(4000, i as u64)), true);
        }
    }),
    ("rename", true, |t| {
        let both = [one("/dir/b", content(3000)), one("/dir/renamed to this", content(3000))];
        t.must(both.concat(), true);
        t.v.rename("/dir/b", "/dir/renamed to this").unwrap();
        t.fsync("/dir/renamed to this");
        t.must(one("/dir/renamed to this", content(3000)), true);
    }),
    ("rename across", true, |t| {
        let both = [one("/dir/b", content(3000)), one("/other/B", content(3000))];
        t.must(both.concat(), true);
        t.v.rename("/dir/b", "/other/B").unwrap();
        t.fsync("/other/B");
        t.must(one("/other/B", content(3000)), true);
    }),
    ("rename over", true, |t| {
        t.must([one("/dir/a", content(SIZE_A)), one("/dir/a", content(3000))].concat(), true);
        t.must([one("/dir/b", content(3000)), one("/dir/a", content(3000))].concat(), true);
        t.v.rename("/dir/b", "/dir/a").unwrap();
        t.fsync("/dir/a");
        t.must(one("/dir/a", content(3000)), true);
    }),
    ("rename a directory across", true, |t| {
        let both =
            [one("/dir/sub/inner", content(700)), one("/other/moved sub/inner", content(700))];
        t.must(both.concat(), true);
        t.v.rename("/dir/sub", "/other/moved sub").unwrap();
        t.v.sync().unwrap();
        t.must(one("/other/moved sub/inner", content(700)), true);
    }),
    ("rmdir", false, |t| {
        t.must(one("/dir/a", content(SIZE_A)), true);
        t.v.rmdir("/empty").unwrap();
        t.v.create("/other/in its place").unwrap();
        t.v.write("/other/in its place", 0, &content(9000)).unwrap();
        t.fsync("/other/in its place");
        t.must(one("/other/in its place", content(9000)), true);
    }),
    ("grow a directory", false, |t| {
        for i in 0..60 {
            let p = format!("/dir/{i} of many names");
            t.v.create(&p).unwrap();
            if i % 13 == 5 {
                t.fsync(&p);
                t.must(one(&p, Vec::new()), true);
            }
        }
    }),
    ("fsync of a directory", false, |t| {
        t.v.create("/dir/named and synced").unwrap();
        t.fsync("/dir");
        t.must(one("/dir/named and synced", Vec::new()), true);
    }),
];

const SHAPES: [(u64, &[&str]); 4] = [
    (500 << 10, &["-F", "12", "-s", "1", "-r", "64"]),
    (600 << 10, &["-F", "12", "-s", "8"]),
    (2600 << 10, &["-F", "16", "-s", "1"]),
    (600 << 10, &["-F", "32", "-s", "1"]),
];

fn all_works(preset: &str) {
    let mut images = 0;
    for (size, args) in SHAPES {
        let base = base(size, args);
        for (name, twice, work) in WORKS {
            let name = format!("{preset} FAT{} {name}:", args[1]);
            let mut t = Trial::new(name, &base, preset);
            t.must(one("/keep", content(2000)), true);
            work(&mut t);
            t.judge(twice, &mut images);
        }
    }
    println!("{preset}: {images} images");
}

/// Short sequences of operations on a few files, some of which are synced on the way.
fn random_sequence(t: &mut Trial, seed: u64) {
    let mut r = Rng::new(seed);
    let mut files: Vec<(String, Vec<u8>)> = [("/dir/a", SIZE_A), ("/dir/b", 3000)]
        .into_iter()
        .map(|(p, n)| (p.to_string(), content(n)))
        .collect();
    for (p, d) in files.clone() {
        t.must(one(&p, d), true);
    }
    for n in 0..8 {
        let new = format!("/{}/file {n} of {seed}", ["dir", "other", "dir/sub"][r.below(3)]);
        let i = r.below(files.len());
        let (path, data) = files[i].clone();
        match r.below(7) {
            0 | 1 => {
                let data = pattern(r.below(7000), n);
                t.v.create(&new).unwrap();
                t.v.write(&new, 0, &data).unwrap();
                files.push((new, data));
            }
            2 => {
                t.grows(&path);
                t.v.write(&path, files[i].1.len() as u64, &[n as u8; 3000]).unwrap();
                files[i].1.extend([n as u8; 3000]);
            }
            3 => {
                t.ends(&path);
                let size = r.below(data.len().max(1));
                t.v.truncate(&path, size as u64).unwrap();
                files[i].1.truncate(size);
            }
            4 if files.len() > 1 => {
                t.ends(&path);
                t.v.unlink(&path).unwrap();
                files.remove(i);
            }
            5 => {
                t.ends(&path);
                t.v.rename(&path, &new).unwrap();
                t.moved.push(path);
                files[i].0 = new;
            }
            _ if files.len() > 1 => {
                let j = (i + 1) % files.len();
                let over = files[j].0.clone();
                t.ends(&path);
                t.ends(&over);
                t.v.rename(&path, &over).unwrap();
                t.moved.push(path);
                files[j].1 = data;
                files.remove(i);
            }
            _ => {}
        }
        if r.below(3) == 0 {
            let (path, data) = files[r.below(files.len())].clone();
            t.ends(&path);
            t.fsync(&path);
            t.must(one(&path, data), true);
        }
    }
}

#[test]
fn random_sequences_keep_the_promises() {
    let mut images = 0;
    for (n, (size, args)) in SHAPES.into_iter().enumerate() {
        let base = base(size, args);
        for seed in 0..10 {
            let preset = ["default", "strict"][seed % 2];
            let name = format!("{preset} FAT{} sequence {seed}:", args[1]);
            let mut t = Trial::new(name, &base, preset);
            t.must(one("/keep", content(2000)), true);
            random_sequence(&mut t, (100 * n + seed) as u64 + 1);
            t.judge(true, &mut images);
        }
    }
    println!("sequences: {images} images");
}

#[test]
fn a_name_is_durable_with_those_before_it() {
    // A new directory comes before its name, which moves the block of the name to a later epoch. In
    // that names fill it; the next one stands in a block that is in none yet, behind an end that
    // must have moved.
    let base = base(SHAPES[0].0, SHAPES[0].1);
    for n in 1..16 {
        let mut t = Trial::new(format!("{n} names:"), &base, "default");
        t.v.mkdir("/NEW").unwrap();
        for i in 0..n {
            t.v.create(&format!("/X{i}")).unwrap();
        }
        t.v.create("/LAST").unwrap();
        t.fsync("/LAST");
        t.must(one("/LAST", Vec::new()), true);
        t.judge(false, &mut 0);
    }
}

#[test]
fn default_keeps_its_promises() {
    all_works("default");
}

#[test]
fn strict_keeps_its_promises() {
    all_works("strict");
}
