//! The price of the presets, counted in virtual time: how many Syncs each sends, where, and why.
//!
//! Counts are exact. A change in one is a change of what a policy does and has to be explained
//! here.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use seawall_bench::sim::{self, HostCosts, SimTarget};
use seawall_bench::{
    Job, Mode, Outcome, Progress, Provenance, Run, Tree, Verdict, Workload, check_image, dump,
    json, rows, volume,
};
use seawall_diskfs::policy::{PRESETS, preset};
use seawall_diskfs::{Site, SiteStats};
use std::path::Path;
use std::sync::Arc;

const ROUNDS: u64 = 1000;

fn mount(policy: &str, store: &str, workload: &Workload) -> SimTarget {
    let mkfs = volume(workload, 1);
    let store = store.replace("SIZE", &mkfs.size.to_string());
    sim::mount(&store, &mkfs, preset(policy).unwrap(), HostCosts::HURD_LOOP).unwrap()
}

fn fsync_loop_on(policy: &str, store: &str) -> Outcome {
    let workload = Workload::FsyncLoop { rounds: ROUNDS };
    let mut target = mount(policy, store, &workload);
    let out = workload.run(&mut target, &Run { seed: 1, limit: None, tick: &|_| () }).unwrap();
    assert_eq!((out.done, out.bytes), (ROUNDS, ROUNDS * 4096));
    let image = tempfile::NamedTempFile::new().unwrap();
    dump(target.store(), image.path()).unwrap();
    assert_eq!(check_image(image.path()).unwrap(), Verdict::Clean, "{policy}");
    out
}

fn fsync_loop(policy: &str) -> Outcome {
    fsync_loop_on(policy, "sim:qemu-ssd:mem:SIZE")
}

/// (site, sent, merged, skipped) of the sites that had a Sync to decide on.
fn syncs(c: &seawall_bench::Counted) -> Vec<(&'static str, u64, u64, u64)> {
    let decided = |s: &SiteStats| s.syncs_sent + s.syncs_merged + s.syncs_skipped > 0;
    c.sites
        .iter()
        .filter(|(_, s)| decided(s))
        .map(|(name, s)| (*name, s.syncs_sent, s.syncs_merged, s.syncs_skipped))
        .collect()
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn near(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 0.01, "{got} s is not within 1 % of {wanted} s");
}

#[test]
fn hurd_vanilla_sends_no_sync_and_takes_what_the_thread_measured() {
    let out = fsync_loop("hurd-vanilla");
    let p = &out.phases;
    for phase in [&p.setup, &p.work, &p.end] {
        assert_eq!(syncs(phase), []);
        assert_eq!((phase.store.syncs, phase.store.flushes), (0, 0));
    }
    // The file's block and its inode's block, nothing else, and no read: the loop runs warm.
    assert_eq!((p.work.store.writes, p.work.store.reads), (2 * ROUNDS, 0));
    near(seconds(out.work), 0.75);
}

#[test]
fn hurd_full_syncs_once_per_fsync_at_inode() {
    let out = fsync_loop("hurd-full");
    let p = &out.phases;
    // write_disknode with wait: the inode was dirty each time.
    assert_eq!(syncs(&p.work), [("inode", ROUNDS, 0, 0)]);
    assert_eq!(p.work.store.flushes, ROUNDS);
    // set_hypermetadata(wait) when the first change clears the clean mark, and sync_everything of
    // the warm-up's syncfs. Its removals and closes send nothing.
    assert_eq!(syncs(&p.setup), [("hypermetadata", 1, 0, 0), ("syncfs", 1, 0, 0)]);
    // Unmount: sync_everything sends one; setting the clean mark is set_hypermetadata(wait) again;
    // the Sync of the shutdown itself finds everything durable (the Hurd sends that one as well).
    assert_eq!(syncs(&p.end), [("hypermetadata", 1, 0, 0), ("unmount", 1, 0, 1)]);
    near(seconds(out.work), 1.25);
}

#[test]
fn hurd_shutdown_syncs_only_where_the_first_part_of_the_patch_does() {
    let out = fsync_loop("hurd-shutdown");
    let p = &out.phases;
    assert_eq!(syncs(&p.setup), [("syncfs", 1, 0, 0)]);
    assert_eq!(syncs(&p.work), []);
    // Before and after the clean mark, whose own write is no barrier here.
    assert_eq!(syncs(&p.end), [("unmount", 2, 0, 0)]);
    near(seconds(out.work), 0.75);
}

#[test]
fn linux_ext2_flushes_at_fsync_only() {
    let out = fsync_loop("linux-ext2");
    let p = &out.phases;
    assert_eq!(syncs(&p.work), [("fsync_meta", ROUNDS, 0, 0)]);
    // Linux's syncfs and umount send no flush.
    assert_eq!((syncs(&p.setup), syncs(&p.end)), (vec![], vec![]));
    near(seconds(out.work), 1.25);
}

#[test]
fn default_syncs_twice_per_fsync() {
    let out = fsync_loop("default");
    let p = &out.phases;
    // A new file's fsync covers two epochs: bitmaps and the inode first, then the name and the
    // pointer. One Sync stands between them (boundary = sync) and one ends the fsync, so that the
    // name is durable too and never before its inode.
    assert_eq!(syncs(&p.work), [("fsync_meta", 2 * ROUNDS, 0, 0)]);
    assert_eq!(p.work.store.flushes, 2 * ROUNDS);
    // Whole passes: before the clean mark nothing is left to cover but counts; after it, the mark.
    assert_eq!(syncs(&p.end), [("unmount", 1, 0, 1)]);
}

#[test]
fn strict_pays_at_every_call_and_fsync_finds_nothing_left() {
    let out = fsync_loop("strict");
    let p = &out.phases;
    // create and write each have two epochs of their own; fsync and close skip.
    assert_eq!(
        syncs(&p.work),
        [
            ("data", 2 * ROUNDS, 0, 0),
            ("close", 0, 0, ROUNDS),
            ("name_op", 2 * ROUNDS, 0, 0),
            ("fsync_meta", 0, 0, ROUNDS),
        ]
    );
}

#[test]
fn a_store_that_cannot_flush_gets_no_sync() {
    for policy in ["hurd-vanilla", "hurd-full"] {
        let out = fsync_loop_on(policy, "sim:qemu-ssd:fault:unflushable:mem:SIZE");
        let p = &out.phases;
        for phase in [&p.setup, &p.work, &p.end] {
            assert_eq!((phase.syncs_sent(), phase.store.syncs), (0, 0), "{policy}");
        }
        // And that costs nothing.
        near(seconds(out.work), 0.75);
    }
}

#[test]
fn a_moved_cost_is_in_the_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut tree = Tree::default();
    tree.add(&folder).unwrap();
    let workload = Workload::Tree(Arc::new(tree));
    for policy in PRESETS {
        let mut target = mount(policy, "sim:qemu-ssd:mem:SIZE", &workload);
        let out = workload.run(&mut target, &Run { seed: 1, limit: None, tick: &|_| () }).unwrap();
        assert_eq!(out.done, workload.planned());
        let written =
            out.phases.work.site(Site::Data).bytes + out.phases.end.site(Site::Data).bytes;
        assert!(
            written >= out.bytes,
            "{policy}: {written} of {} bytes reached the store",
            out.bytes
        );
        assert_eq!(out.total(), out.work + out.end);
    }
}

struct Quiet;

impl Progress for Quiet {
    fn row(&self, _name: &str) {}
    fn units(&self, _n: u64) {}
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let report = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let job = Job {
            policies: PRESETS.iter().map(|p| (*p).to_string()).collect(),
            workloads: vec![Workload::FsyncLoop { rounds: 50 }],
            modes: vec![Mode::Virtual("qemu-ssd".into())],
            seed,
            runs: 1,
            dir: dir.path().to_path_buf(),
        };
        let made = rows(&job, &Quiet).unwrap();
        assert_eq!(made.len(), PRESETS.len());
        let report = json(&Provenance::collect(seed), &made);
        for row in report["rows"].as_array().unwrap() {
            // No speed without its label.
            assert!(row["durability"]["fsync"].is_string() && row["per_second"].is_number());
        }
        report["rows"].to_string()
    };
    assert_eq!(report(7), report(7));
}
