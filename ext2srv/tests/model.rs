//! Seeded random operations against a model of the tree, with remounts, on one warm and one cold
//! host, over block sizes and features.
//!
//! Tests made by `judged!` call e2fsck after every mutation, more than 10,000 times together. The
//! long runs differ in seed and preset: e2fsck after every 40th mutation and at each unmount.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;
#[path = "common/model.rs"]
mod model;

use common::{Vol, cold, plain};
use model::{Model, Node, Op, Rng, apply_model, crowd, next_op, refusal};
use seawall_diskfs::driver::Host;
use seawall_diskfs::{FsError, Kind, Refused, RenameFlags, Space};
use seawall_ext2::Ext2;
use seawall_tests::{Scratch, assert_clean, e2fsck, mke2fs, pattern};
use std::path::Path;

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

/// How long a run is. Each round begins and ends with a mount that is compared with the model.
#[derive(Clone, Copy)]
enum Length {
    /// Rounds, operations in each; e2fsck after every so many mutations.
    Operations(usize, usize, usize),
    /// Rounds, mutations in each; e2fsck after every one.
    Mutations(usize, usize),
}

/// What a run did.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    /// Operations, those that must be refused and were among them.
    operations: usize,
    /// Those that changed the volume.
    mutations: usize,
    /// Calls of e2fsck on the synced volume.
    checks: usize,
}

struct Run<'i> {
    image: &'i Path,
    seed: u64,
    rng: Rng,
    model: Model,
    results: Vec<String>,
    counts: Counts,
}

impl<'i> Run<'i> {
    fn new(image: &'i Path, seed: u64) -> Self {
        let rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (model, counts) = (Model::default(), Counts::default());
        Self { image, seed, rng, model, results: Vec::new(), counts }
    }

    fn rounds<H: Host<Format = Ext2>>(&mut self, length: Length, open: impl Fn(&Path) -> Vol<H>) {
        let (rounds, amount, check_each) = match length {
            Length::Operations(rounds, amount, each) => (rounds, amount, each),
            Length::Mutations(rounds, amount) => (rounds, amount, 1),
        };
        for _ in 0..rounds {
            let before = self.counts;
            let mut v = open(self.image);
            compare(&mut v, &self.model);
            while match length {
                Length::Operations(..) => self.counts.operations - before.operations < amount,
                Length::Mutations(..) => self.counts.mutations - before.mutations < amount,
            } {
                self.step(&mut v, check_each);
            }
            compare(&mut v, &self.model);
            v.unmount();
            assert_clean(self.image);
        }
    }

    /// One operation, which does what the model says.
    fn step<H: Host<Format = Ext2>>(&mut self, v: &mut Vol<H>, check_each: usize) {
        let op = next_op(&self.model, &mut self.rng);
        let got = apply(v, &self.model, &op);
        self.results.push(format!("{got:?}"));
        self.counts.operations += 1;
        let mutation = match (refusal(&self.model, &op), &got) {
            (None, Ok(())) => {
                apply_model(&mut self.model, &op);
                !matches!(op, Op::Read(..))
            }
            (None, Err(FsError::Refused(Refused::NoSpace))) => self.full(v, &op),
            (Some(want), Err(FsError::Refused(e))) if want == *e => false,
            (want, _) => {
                panic!("seed {}: {op:?} gave {got:?}, the model says {want:?}", self.seed)
            }
        };
        if mutation {
            self.counts.mutations += 1;
            if self.counts.mutations.is_multiple_of(check_each) {
                self.judge(v, &op);
            }
        }
    }

    /// An operation that found no room has not happened; true for those that go in steps, of which
    /// some may have.
    fn full<H: Host<Format = Ext2>>(&mut self, v: &mut Vol<H>, op: &Op) -> bool {
        let Op::Allocate(p, ..) = op else { return matches!(op, Op::Crowd(..)) };
        let (n, size) = (self.model.names[p], v.stat(p).unwrap().size as usize);
        if let Some(Node::File(data)) = self.model.nodes.get_mut(&n) {
            assert!(size >= data.len());
            data.resize(size, 0);
        }
        true
    }

    /// A synced volume must be clean but for its mark.
    fn judge<H: Host<Format = Ext2>>(&mut self, v: &mut Vol<H>, op: &Op) {
        v.sync().unwrap();
        let (code, output) = e2fsck(self.image);
        assert!(code == 0, "seed {} after {op:?}: {output}", self.seed);
        self.counts.checks += 1;
    }
}

fn run<H: Host<Format = Ext2>>(
    image: &Path,
    seed: u64,
    length: Length,
    open: impl Fn(&Path) -> Vol<H>,
) -> Vec<String> {
    let mut run = Run::new(image, seed);
    run.rounds(length, open);
    run.results
}

/// Rounds of a judged test, and the mutations in each.
const JUDGED: (usize, usize) = (3, 300);

/// A volume on which e2fsck judges every mutation.
fn judge_all(seed: u64, (size, args): (u64, &[&str]), preset: &str) {
    let dir = Scratch::in_memory();
    let image = dir.join("image");
    mke2fs(&image, size, args);
    let mut run = Run::new(&image, seed);
    run.rounds(Length::Mutations(JUDGED.0, JUDGED.1), |i| plain(i, preset));
    println!("{preset} {args:?}: {:?}", run.counts);
    assert_eq!(run.counts.mutations, JUDGED.0 * JUDGED.1);
    assert_eq!(run.counts.checks, run.counts.mutations);
}

/// One test for each volume, so that they run side by side. Their sum is checked here.
macro_rules! judged {
    ($($name:ident: $seed:literal, $shape:expr, $preset:literal;)*) => {
        const VOLUMES: usize = [$(stringify!($name)),*].len();
        const _: () = assert!(VOLUMES * JUDGED.0 * JUDGED.1 >= 10_000);

        $(
            #[test]
            fn $name() {
                judge_all($seed, $shape, $preset);
            }
        )*
    };
}

judged! {
    judged_with_100_inodes: 50, SHAPES[0], "default";
    judged_with_six_groups: 51, SHAPES[1], "strict";
    judged_with_4_kib_blocks: 52, SHAPES[2], "hurd-full";
    judged_with_2_kib_blocks: 53, SHAPES[3], "default";
    judged_without_an_index: 54, SHAPES[4], "strict";
    judged_without_filetype: 55, SHAPES[5], "hurd-full";
    judged_at_revision_0: 56, SHAPES[6], "default";
    judged_with_inodes_of_1_kib: 57, SHAPES[7], "strict";
    judged_with_meta_bg: 58, FEATURES[0], "hurd-full";
    judged_with_uninit_bg: 59, FEATURES[1], "default";
    judged_with_a_journal: 60, FEATURES[2], "strict";
    judged_with_meta_bg_and_uninit_bg: 61, FEATURES[3], "default";
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
        run(&image, seed as u64, Length::Operations(4, 300, 40), |i| plain(i, preset));
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
        run(&image, seed as u64, Length::Operations(3, 400, 40), |i| plain(i, preset));
    }
    let dir = Scratch::new();
    let (warm, chilly) = (dir.join("warm"), dir.join("cold"));
    for seed in 300..302 {
        let (size, args) = FEATURES[2 * (seed % 2) + 1];
        mke2fs(&warm, size, args);
        mke2fs(&chilly, size, args);
        let a = run(&warm, seed as u64, Length::Operations(2, 250, 50), |i| plain(i, "default"));
        let b = run(&chilly, seed as u64, Length::Operations(2, 250, 50), |i| cold(i, "default"));
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
        let a = run(&warm, seed as u64, Length::Operations(2, 250, 50), |i| plain(i, "default"));
        let b = run(&chilly, seed as u64, Length::Operations(2, 250, 50), |i| cold(i, "default"));
        assert_eq!(a, b);
    }
}
