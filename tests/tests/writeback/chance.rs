//! Random interleavings of plans.

use super::rig::{Rig, Stop, Taken, at, ext2, fat, policy};
use seawall_blockdev::DevError;
use seawall_diskfs::policy::{Action, Exclusion, Flusher};
use seawall_diskfs::{Format, Handle, Ino, IoRun, PlanId, PlanReq, Site, Source, driver};

/// xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Blocks of each file of the random test.
const BLOCKS: u64 = 96;

/// A file and its content, a byte a block.
type Seen = (usize, [u8; BLOCKS as usize]);

/// What was seen when a plan began, and was not written over since, survives a power loss.
fn is_stable<F: Format>(r: &mut Rig<F>, h: Handle, seen: &[u8], now: &[u8]) {
    r.fs().drop_clean();
    let len = seen.len() * 4096;
    let plan = driver::run(&mut r.host, &at(0), |fs, t| fs.read(&at(0), h, 0, len, t)).unwrap();
    for s in &plan.segments {
        let Source::Disk(start) = s.source else { continue };
        for at in (0..s.len).step_by(4096) {
            let block = (s.at + at) / 4096;
            if seen[block] == now[block] {
                let stable = r.host.dev.get_ref().stable[start as usize + at];
                assert_eq!(stable, seen[block], "block {block}");
            }
        }
    }
    r.fs().read_done(&plan);
}

/// Two steps that touch the same bytes.
fn hits(o: &Taken, t: &Taken) -> bool {
    let end = |r: &IoRun| r.start + r.data.len() as u64;
    let meets = |a: &IoRun| t.runs.iter().any(|b| a.start < end(b) && b.start < end(a));
    o.id != t.id && o.runs.iter().any(meets)
}

/// Everybody gets to an end, in any order.
fn end_all<F: Format>(r: &mut Rig<F>, mut plans: Vec<PlanId>, dice: &mut Dice) {
    let mut rounds = 0;
    while !plans.is_empty() {
        rounds += 1;
        assert!(rounds < 10_000, "plans wait for each other");
        r.complete_those(|_| true);
        let i = dice.roll(plans.len() as u64) as usize;
        if r.pull_all(plans[i]).2 == Stop::Done {
            let _told = r.fs().finish(plans.swap_remove(i));
        }
    }
}

/// Plans of all kinds, stepped, completed and failed in random order, while writers go on: no two
/// steps under way touch the same bytes, an fsync that says Ok has its data on the disk, and in the
/// end all of it is there.
fn interleave<F: Format>(mut r: Rig<F>, seed: u64) {
    let mut dice = Dice(seed | 1);
    let durable = r.fs().policy().action(Site::Syncfs, true) == Action::Barrier;
    let names = ["a", "b", "c"];
    let files: Vec<(Ino, Handle)> = names.iter().map(|n| r.create(n)).collect();
    let mut model = [[0u8; BLOCKS as usize]; 3];
    for (_, h) in &files {
        r.fill(*h, 0, BLOCKS * 4096, 0, 0);
    }
    let mut plans: Vec<(PlanId, Option<Seen>)> = Vec::new();
    for turn in 0..2500u64 {
        match dice.roll(12) {
            0..=2 => {
                let (f, first) = (dice.roll(3) as usize, dice.roll(BLOCKS));
                let (n, byte) = (1 + dice.roll((BLOCKS - first).min(24)), dice.roll(250) as u8 + 1);
                let n = n.min(BLOCKS - first);
                r.fill(files[f].1, first * 4096, n * 4096, turn as i64 / 8, byte);
                model[f][first as usize..(first + n) as usize].fill(byte);
            }
            3 if plans.len() < 6 => {
                let f = dice.roll(3) as usize;
                let handle = files[f].1;
                let (req, sees) = match dice.roll(5) {
                    0 => (PlanReq::Close(handle), false),
                    1 => (PlanReq::Fsync { handle, datasync: false }, true),
                    2 => (PlanReq::Background, false),
                    3 => (PlanReq::Expired { now: at(turn as i64 / 8).now }, false),
                    _ => (PlanReq::Whole(Site::Syncfs), durable),
                };
                let sees = sees.then_some((f, model[f]));
                plans.push((r.begin(req), sees));
            }
            4..=8 if !plans.is_empty() => {
                let i = dice.roll(plans.len() as u64) as usize;
                match r.pull(plans[i].0) {
                    Ok(t) => {
                        assert!(!r.taken.iter().any(|o| hits(o, &t)), "two writers of a block")
                    }
                    Err(Stop::Done) => {
                        let (plan, sees) = plans.swap_remove(i);
                        if let (Ok(_), Some((f, seen))) = (r.fs().finish(plan), sees) {
                            is_stable(&mut r, files[f].1, &seen, &model[f]);
                        }
                    }
                    Err(_) => {}
                }
            }
            _ if !r.taken.is_empty() => {
                let i = dice.roll(r.taken.len() as u64) as usize;
                let t = r.taken[i].clone();
                if dice.roll(40) == 0 && !t.sync {
                    r.taken.swap_remove(i);
                    r.fs().complete(t.id, Err(DevError::Io));
                } else {
                    r.complete(&t);
                }
            }
            _ => {}
        }
    }
    end_all(&mut r, plans.into_iter().map(|(p, _)| p).collect(), &mut dice);
    has_all(r, &files, &model);
}

/// After a last sync everything is on the disk.
fn has_all<F: Format>(mut r: Rig<F>, files: &[(Ino, Handle)], model: &[[u8; BLOCKS as usize]]) {
    r.complete_those(|_| true);
    for _ in 0..2 {
        let sync = r.begin(PlanReq::Whole(Site::Syncfs));
        let _first_may_inherit = r.finish(sync);
    }
    assert_eq!(r.dirty(), 0);
    r.host.fs.drop_clean();
    for (f, (_, h)) in files.iter().enumerate() {
        let got = driver::read(&mut r.host, &at(0), *h, 0, (BLOCKS * 4096) as usize).unwrap();
        let bytes: Vec<u8> = got.chunks(4096).map(|b| b[0]).collect();
        assert_eq!(bytes, model[f], "file {f}");
        assert!(got.chunks(4096).all(|b| b.iter().all(|x| *x == b[0])));
    }
}

fn interleave_under(exclusion: Exclusion, name: &str, seed: u64) {
    let mut p = policy(name);
    p.exclusion = exclusion;
    p.flusher = Flusher { background: 64 << 10, chunk: 64 << 10, ..p.flusher };
    interleave(ext2(p.clone()), seed);
    interleave(fat(p), seed);
}

#[test]
fn random_plans_side_by_side() {
    for seed in 1..=4 {
        for name in ["fat-stock", "fat-submit", "fat-wait1", "default"] {
            interleave_under(Exclusion::None, name, seed * 7919);
        }
    }
}

#[test]
fn random_plans_one_an_inode() {
    for seed in 1..=4 {
        for name in ["fat-wait0", "fat-submit", "fat-wait1", "default"] {
            interleave_under(Exclusion::PerInode, name, seed * 104_729);
        }
    }
}

#[test]
fn random_plans_with_a_turn_for_all() {
    for seed in 1..=4 {
        for name in ["fat-wait0", "fat-wait1", "default"] {
            interleave_under(Exclusion::Global { min_bytes: 64 << 10 }, name, seed * 15_485_863);
        }
    }
}
