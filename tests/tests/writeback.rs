//! Who writes what back, who waits for it, and what a close returns: each close action beside a
//! flusher that has the inode or not, on both formats; the flusher's passes; exclusion; errors of
//! writes that nobody waited for; and random interleavings of plans.
//!
//! Plans are stepped by hand here: a step is under way until the test completes it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "writeback/chance.rs"]
mod chance;
#[path = "writeback/rig.rs"]
mod rig;

use rig::{FILE, MIB, Part, Rig, Stop, Taken, at, ext2, fat, policy};
use seawall_blockdev::{DevError, PageBuf};
use seawall_diskfs::policy::{Action, ClosePolicy, Exclusion, Flusher, MergeBoundary, Policy};
use seawall_diskfs::{Format, FsError, Handle, PlanId, PlanReq, Site, Slice, Verdict, driver};
use seawall_fat::Fat;

/// A close while nobody else is in the file: what it hands out before it waits or ends.
fn closes_alone<F: Format>(has_tables: bool, rig: impl Fn(Policy) -> Rig<F>) {
    for (name, data_waits, inode_waits) in [
        ("fat-stock", false, false),
        ("fat-wait1", true, true),
        ("fat-wait0", false, false),
        ("fat-submit", false, true),
    ] {
        let mut r = rig(policy(name));
        let (_, h) = r.file();
        let close = r.begin(PlanReq::Close(h));
        let (data, meta, stop) = r.pull_all(close);
        assert_eq!(data, Part::of(FILE, data_waits), "{name}");
        if data_waits {
            assert_eq!(
                (meta.bytes, stop),
                (0, Stop::Pending),
                "{name}: data, then what leads to it"
            );
            r.complete_those(Taken::is_data);
            assert_eq!(r.dirty(), 0);
            let (data, meta, stop) = r.pull_all(close);
            assert_eq!((data.bytes, meta.waited, stop), (0, true, Stop::Pending), "{name}");
            assert!(meta.bytes > 0);
            r.complete_those(|_| true);
        } else {
            assert!(meta.bytes > 0, "{name}: started");
            assert_eq!(meta.waited, inode_waits, "{name}");
            if inode_waits {
                assert_eq!(stop, Stop::Pending);
                r.complete_those(|t| !t.is_data());
            }
        }
        let (data, tables, stop) = r.pull_all(close);
        assert_eq!((data, stop), (Part::default(), Stop::Done), "{name}");
        assert!(!tables.waited, "{name}: who waits for the inode waits for its entry");
        assert_eq!(tables.bytes > 0, has_tables && inode_waits, "{name}: the FAT is started");
        let in_flight = r.taken.len() as u32;
        let verdict = r.fs().finish(close).unwrap();
        assert_eq!(verdict, Verdict { linger_ms: 100, in_flight }, "{name}");
        r.complete_those(|_| true);
        assert_eq!(r.dirty(), 0, "{name}: what was submitted ends by itself");
        let again = r.begin(PlanReq::Close(h));
        assert_eq!(r.finish(again).unwrap(), Verdict::default(), "a clean handle does nothing");
    }
}

#[test]
fn closes_alone_ext2() {
    closes_alone(false, ext2);
}

#[test]
fn closes_alone_fat() {
    closes_alone(true, fat);
}

/// Whatever the other part of a close says: what it hands out is written when its Sync is sent.
fn a_close_that_syncs_covers_what_it_wrote<F: Format>(rig: impl Fn(Policy) -> Rig<F>) {
    use Action::{Barrier, Start, Submit, Wait};
    for (data, inode) in
        [(Submit, Barrier), (Start, Barrier), (Barrier, Start), (Barrier, Submit), (Barrier, Wait)]
    {
        let mut p = policy("fat-stock");
        p.close = ClosePolicy { data, inode, linger_ms: 0 };
        let mut r = rig(p);
        let (_, h) = r.file();
        let close = r.begin(PlanReq::Close(h));
        let mut syncs = 0;
        loop {
            match r.pull(close) {
                Ok(t) if t.sync => {
                    assert_eq!((r.taken.len(), r.dirty()), (1, 0), "{data:?}, {inode:?}");
                    r.complete(&t);
                    syncs += 1;
                }
                Ok(t) => assert!(t.waited, "{data:?}, {inode:?}"),
                Err(Stop::Pending) => r.complete_those(|_| true),
                Err(stop) => break assert_eq!(stop, Stop::Done),
            }
        }
        assert_eq!(syncs, 1, "{data:?}, {inode:?}");
        r.fs().finish(close).unwrap();
    }
}

#[test]
fn closes_that_sync() {
    a_close_that_syncs_covers_what_it_wrote(ext2);
    a_close_that_syncs_covers_what_it_wrote(fat);
}

/// A close while the flusher is in the middle of a chunk of the file.
fn closes_beside_the_flusher<F: Format>(rig: impl Fn(Policy) -> Rig<F>) {
    for name in ["fat-stock", "fat-wait1", "fat-wait0", "fat-submit"] {
        let mut r = rig(policy(name));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        let first = r.pull(flusher).unwrap();
        assert_eq!((first.bytes(), first.waited), (MIB, false));
        let close = r.begin(PlanReq::Close(h));
        let (data, meta, stop) = r.pull_all(close);
        match name {
            "fat-stock" => {
                assert_eq!(data, Part::of(FILE - MIB, false), "they race for the pages");
                assert!(meta.bytes > 0 && !meta.waited);
                assert_eq!(stop, Stop::Done, "and it waits for none");
            }
            "fat-wait0" => {
                assert_eq!((data.bytes, stop), (0, Stop::Done), "it leaves the inode alone");
                assert_eq!(r.fs().stats().writeback.skipped, 1);
                assert_eq!(r.dirty(), FILE);
            }
            _ => {
                assert_eq!((data.bytes, meta.bytes, stop), (0, 0, Stop::Busy), "it has to wait");
                let second = r.pull(flusher).unwrap();
                assert_eq!(second.bytes(), MIB, "until the chunk is over");
                assert_eq!(r.pull_all(close).2, Stop::Busy, "the last step is not submitted yet");
                assert_eq!(r.pull_all(flusher).2, Stop::Busy, "then it is the closer's turn");
                let (data, meta, stop) = r.pull_all(close);
                assert_eq!(data, Part::of(FILE - 2 * MIB, name == "fat-wait1"), "{name}");
                assert_eq!((meta.bytes > 0, stop), (name == "fat-submit", Stop::Pending), "{name}");
                assert_eq!(r.pull_all(flusher).2, Stop::Done, "nothing is left for it");
                if name == "fat-wait1" {
                    r.complete_those(|t| t.plan == close);
                    assert_eq!(r.pull_all(close).2, Stop::Busy, "the flusher's pages, too");
                }
            }
        }
        r.complete_those(|_| true);
        assert_eq!(r.finish(close).unwrap().linger_ms, 100, "{name}");
        r.finish(flusher).unwrap();
        assert!(r.dirty() <= 256 << 10, "{name}: the flusher did the rest");
    }
}

#[test]
fn closes_beside_the_flusher_ext2() {
    closes_beside_the_flusher(ext2);
}

#[test]
fn closes_beside_the_flusher_fat() {
    closes_beside_the_flusher(fat);
}

#[test]
fn a_barrier_at_close_leaves_the_file_durable() {
    let mut r = ext2(policy("removable"));
    let (_, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    assert_eq!(r.finish(close).unwrap(), Verdict::default(), "ours does not linger");
    assert_eq!(r.dirty(), 0);
    assert!(r.host.dev.get_ref().unflushed.is_empty());
}

#[test]
fn fsync_and_syncfs_own_the_inode_too() {
    for whole in [false, true] {
        let mut r = fat(policy("fat-wait1"));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        r.pull(flusher).unwrap();
        let req = match whole {
            true => PlanReq::Whole(Site::Syncfs),
            false => PlanReq::Fsync { handle: h, datasync: false },
        };
        let sync = r.begin(req);
        assert_eq!(r.pull_all(sync).2, Stop::Busy, "as at close");
        r.pull(flusher).unwrap();
        assert_eq!(r.pull_all(flusher).2, Stop::Busy);
        assert_eq!(r.pull_all(sync).0, Part::of(FILE - 2 * MIB, true));
        r.finish(sync).unwrap();
        r.finish(flusher).unwrap();
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn a_walker_races_only_without_exclusion() {
    for (name, raced) in [("fat-stock", true), ("fat-wait1", false)] {
        let mut r = fat(policy(name));
        let (_, h) = r.file();
        let flusher = r.begin(PlanReq::Background);
        r.pull(flusher).unwrap();
        assert!(!r.fs().is_raced(flusher));
        let close = r.begin(PlanReq::Close(h));
        assert_eq!((r.fs().is_raced(flusher), r.fs().is_raced(close)), (raced, raced), "{name}");
        if raced {
            assert_eq!(r.fs().step_limits(close).step, 31 * 4096);
            // Neck and neck: each takes what the other has left.
            let starts: Vec<u64> =
                [close, flusher, close, flusher].map(|p| r.pull(p).unwrap().runs[0].start).to_vec();
            let steps: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
            assert_eq!(steps, [MIB; 3]);
        }
        r.finish(flusher).unwrap();
        r.finish(close).unwrap();
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn the_flusher_tests_its_threshold_between_chunks_only() {
    let mut p = policy("default");
    p.flusher.background = 5 * MIB;
    let mut r = ext2(p);
    r.file();
    assert!(r.fs().wants_writeback());
    let flusher = r.begin(PlanReq::Background);
    let (data, _, stop) = r.pull_all(flusher);
    assert_eq!(
        (data, stop),
        (Part::of(2 * MIB, false), Stop::Done),
        "a chunk, though 1 MiB is enough"
    );
    assert!(!r.fs().wants_writeback(), "what a step has does not count");
    assert_eq!(r.dirty(), FILE);
    let none = r.begin(PlanReq::Background);
    assert_eq!(r.pull_all(none).2, Stop::Done);
    r.finish(none).unwrap();
    r.finish(flusher).unwrap();
    let w = r.fs().stats().writeback;
    assert_eq!((w.passes, w.background_bytes), (1, 2 * MIB));
}

#[test]
fn the_flusher_takes_inodes_in_turn() {
    let mut p = policy("default");
    p.flusher.background = 0;
    let mut r = fat(p);
    let (a, ha) = r.create("a");
    let (b, hb) = r.create("b");
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    for i in 0..4 {
        r.put(ha, i * MIB, MIB, 0);
        r.put(hb, i * MIB, MIB, 0);
    }
    let flusher = r.begin(PlanReq::Background);
    let mut order = Vec::new();
    for _ in 0..8 {
        let t = r.pull(flusher).unwrap();
        order.push((t.runs[0].data[0], r.fs().is_raced(flusher)));
        r.complete(&t);
    }
    let bytes: Vec<u8> = order.iter().map(|(byte, _)| *byte).collect();
    assert_eq!(bytes, [1, 2, 1, 2, 3, 4, 3, 4], "chunks of 2 MiB of {a:?} and {b:?}");
    r.finish(flusher).unwrap();
}

#[test]
fn a_pass_goes_on_where_the_last_one_stopped() {
    let mut p = policy("default");
    p.flusher.background = 2 * MIB;
    let mut r = fat(p);
    let (_, h) = r.create("a");
    (0..4).for_each(|i| r.put(h, i * MIB, MIB, 0));
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull_all(flusher).0.bytes, 2 * MIB);
    r.finish(flusher).unwrap();
    r.put(h, 0, MIB, 0);
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull(flusher).unwrap().runs[0].data[0], 3, "the start has to wait");
    r.finish(flusher).unwrap();
}

#[test]
fn age_makes_the_flusher_write_an_inode_completely() {
    for name in ["fat-wait1", "linux-ext2"] {
        let mut p = policy(name);
        p.flusher.background = 1 << 30;
        let mut r = fat(p);
        let (_, old) = r.create("old");
        let (_, young) = r.create("young");
        driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
        r.put(old, 0, 3 * MIB, 0);
        r.put(young, 0, MIB, 20);
        let tick = |r: &mut Rig<Fat>, secs| {
            let plan = r.begin(PlanReq::Expired { now: at(secs).now });
            let (data, meta, stop) = r.pull_all(plan);
            assert_eq!(stop, Stop::Done, "it waits for nothing");
            r.complete_those(|_| true);
            r.fs().finish(plan).unwrap();
            (data.bytes, meta.bytes > 0)
        };
        assert_eq!(tick(&mut r, 29), (0, false), "{name}");
        assert_eq!(tick(&mut r, 30), (3 * MIB, true), "{name}: {name} all of it");
        assert_eq!(tick(&mut r, 49), (0, false), "{name}");
        r.put(old, 0, MIB, 49);
        assert_eq!(tick(&mut r, 50).0, MIB, "{name}: the young one is old now");
        assert_eq!(tick(&mut r, 78).0, 0, "{name}: dirty again counts anew");
        assert_eq!(tick(&mut r, 79).0, MIB, "{name}");
        assert_eq!(r.fs().stats().writeback.expiry_bytes, 5 * MIB);
    }
}

#[test]
fn under_an_order_old_metadata_takes_the_data_along() {
    let mut p = policy("default");
    p.flusher.background = 1 << 30;
    let mut r = ext2(p);
    let (_, h) = r.create("f");
    r.put(h, 0, MIB, 40);
    let plan = r.begin(PlanReq::Expired { now: at(31).now });
    r.finish(plan).unwrap();
    assert!(!r.fs().is_dirty(), "what the metadata points to is there");
}

#[test]
fn a_pass_passes_over_what_another_plan_has() {
    let mut p = policy("fat-wait1");
    p.flusher.background = 0;
    let mut r = fat(p);
    let (_, a) = r.create("a");
    let (_, b) = r.create("b");
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    r.put(a, 0, 2 * MIB, 0);
    r.fill(b, 0, MIB, 0, 9);
    let close = r.begin(PlanReq::Close(a));
    r.pull(close).unwrap();
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(r.pull(flusher).unwrap().runs[0].data[0], 9, "the other inode first");
    assert_eq!(r.pull_all(flusher).2, Stop::Busy, "nothing else is left");
    assert_eq!(r.fs().stats().writeback.skipped, 1);
    r.finish(close).unwrap();
    assert_eq!(r.pull_all(flusher).2, Stop::Done);
    r.finish(flusher).unwrap();
}

#[test]
fn a_turn_of_the_filesystem_for_large_inodes_and_all_that_is_no_full_sync() {
    let mut p = policy("fat-wait1");
    p.exclusion = Exclusion::Global { min_bytes: 2 * MIB };
    p.flusher.background = 0;
    let mut r = fat(p);
    let files: Vec<Handle> = (0..4).map(|i| r.create(&format!("f{i}")).1).collect();
    driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
    for (h, len) in files.iter().zip([3 * MIB, 2 * MIB, MIB, MIB]) {
        r.put(*h, 0, len, 0);
    }
    let plans: Vec<PlanId> =
        files.iter().map(|h| r.begin(PlanReq::Fsync { handle: *h, datasync: true })).collect();
    r.pull(plans[0]).unwrap();
    assert_eq!(r.pull(plans[1]).err(), Some(Stop::Busy), "one large inode at a time");
    assert!(r.pull(plans[2]).is_ok(), "small ones go in parallel");
    let flusher = r.begin(PlanReq::Background);
    assert_eq!(
        r.pull(flusher).err(),
        Some(Stop::Busy),
        "the flusher takes turns, whatever the size"
    );
    r.pull(plans[0]).unwrap();
    r.pull(plans[0]).unwrap();
    assert_eq!(r.pull(plans[1]).err(), Some(Stop::Busy));
    assert_eq!(
        r.pull_all(plans[0]).2,
        Stop::Pending,
        "submitted: the turn is over, the wait is not"
    );
    assert_eq!(r.pull(flusher).err(), Some(Stop::Busy), "who waits goes first");
    assert!(r.pull(plans[1]).is_ok());
    for p in plans {
        r.finish(p).unwrap();
    }
    r.finish(flusher).unwrap();
    assert_eq!(r.dirty(), 0);
}

#[test]
fn requests_hold_what_the_merge_boundary_lets_them() {
    for (boundary, want) in [
        (MergeBoundary::None, vec![4]),
        (MergeBoundary::Inode, vec![3, 1]),
        (MergeBoundary::InodeOffset, vec![2, 1, 1]),
    ] {
        let mut p = policy("fat-wait1");
        p.merge_boundary = boundary;
        let mut r = fat(p);
        let (_, a) = r.create("a");
        let (_, b) = r.create("b");
        r.put(a, 0, 32 << 10, 0);
        driver::run_plan(&mut r.host, PlanReq::Whole(Site::Periodic)).unwrap();
        for block in [0, 1, 5] {
            r.put(a, block * 4096, 4096, 0);
        }
        r.put(b, 0, 4096, 0);
        let sync = r.begin(PlanReq::Whole(Site::Syncfs));
        let mut got = Vec::new();
        while let Ok(t) = r.pull(sync) {
            if t.is_data() {
                got.push(t.bytes() / 4096);
            }
        }
        assert_eq!(got, want, "{boundary:?}");
        r.finish(sync).unwrap();
    }
}

#[test]
fn an_error_that_nobody_waited_for_is_told_once_to_each_handle() {
    for name in ["fat-stock", "fat-wait0"] {
        let mut r = ext2(policy(name));
        let (ino, h) = r.file();
        let other = r.open(ino);
        let close = r.begin(PlanReq::Close(h));
        assert_eq!(r.pull_all(close).2, Stop::Done);
        r.fs().finish(close).unwrap();
        r.fail_all();
        assert_eq!(r.dirty(), FILE, "{name}: it stays dirty");
        assert_eq!(r.fs().failing(), Some(DevError::Io));
        for handle in [h, other] {
            let sync = PlanReq::Fsync { handle, datasync: false };
            let first = r.begin(sync);
            assert_eq!(r.finish(first).unwrap_err(), FsError::Io(DevError::Io), "{name}");
            let second = r.begin(sync);
            r.finish(second).unwrap();
        }
        assert_eq!(r.fs().failing(), None);
        assert_eq!(r.dirty(), 0);
    }
}

#[test]
fn an_error_is_heard_at_the_next_close_and_by_who_comes_next() {
    let mut r = fat(policy("fat-wait0"));
    let (ino, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    r.put(h, 0, 4096, 0);
    r.fail_all();
    let close = r.begin(PlanReq::Close(h));
    assert!(r.finish(close).is_err(), "the close inherits it");
    r.fill(h, 0, 4096, 0, 3);
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    r.fs().clunk(h);
    r.fail_all();
    let next = r.open(ino);
    let sync = r.begin(PlanReq::Fsync { handle: next, datasync: false });
    assert!(r.finish(sync).is_err(), "no handle was left to hear of it");
    let last = r.open(ino);
    let sync = r.begin(PlanReq::Fsync { handle: last, datasync: false });
    r.finish(sync).unwrap();
}

#[test]
fn an_fsync_waits_for_what_a_close_left_under_way() {
    let mut r = ext2(policy("fat-stock"));
    let (_, h) = r.file();
    let close = r.begin(PlanReq::Close(h));
    r.pull_all(close);
    r.fs().finish(close).unwrap();
    let sync = r.begin(PlanReq::Fsync { handle: h, datasync: false });
    // An overwrite hides the pages that are under way; they count all the same.
    r.fill(h, 0, FILE, 0, 99);
    assert_eq!(r.pull_all(sync).2, Stop::Busy);
    r.complete_those(|t| t.is_data());
    assert!(matches!(r.pull_all(sync).2, Stop::Pending | Stop::Busy));
    r.finish(sync).unwrap();
    assert_eq!(r.dirty(), FILE);
}

#[test]
fn a_writer_above_the_limit_waits_and_is_not_refused() {
    let mut p = policy("default");
    p.flusher = Flusher { background: 64 << 10, limit: 2 * MIB, ..p.flusher };
    let mut r = ext2(p);
    let (_, h) = r.create("f");
    for i in 0..16 {
        r.put(h, i * MIB, MIB, 0);
        assert!(r.dirty() <= 2 * MIB);
    }
    // One write that is larger than the limit.
    let data = Slice::new(PageBuf::zeroed(4 << 20));
    let wrote = driver::run(&mut r.host, &at(0), |fs, t| fs.write(&at(0), h, 0, &data, t)).unwrap();
    assert_eq!(wrote.0, 4 << 20);
    r.put(h, 0, MIB, 0);
    assert!(r.host.fs.memory().1 <= 40 * MIB);
}
