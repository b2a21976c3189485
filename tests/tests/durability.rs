//! What a policy promises, held against a disk with a volatile cache.
//!
//! The device keeps what the last flush left (`stable`) apart from what reads see. A promise is
//! checked on `stable`, or on `stable` plus a random part of the unflushed writes: that is what a
//! power loss may leave. e2fsck is the judge of the structure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use seawall_blockdev::{BlockDev, CacheClass, DevError, Numbered};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::testing::{Logged, MemDev, mount};
use seawall_diskfs::{
    Ctx, Event, FsError, Handle, Ino, OpenFlags, PlanReq, Refused, Site, SiteStats, Slice,
    Timestamp,
};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use seawall_tests::{Scratch, e2fsck, run, tool};

type Rig = Blocking<Ext2, Numbered<MemDev>>;

const NOW: Timestamp = Timestamp { secs: 1_700_000_000, nanos: 0 };

fn ctx() -> Ctx {
    Ctx { now: NOW, ..Ctx::default() }
}

fn volume(size: u64) -> MemDev {
    let mut dev = Numbered::new(MemDev::new(vec![0; size as usize]));
    mkfs(&mut dev, &MkfsOptions { block_size: 4096, ..MkfsOptions::new(size, [7; 16], NOW) })
        .unwrap();
    dev.sync(Default::default()).unwrap();
    dev.into_inner()
}

fn open(image: &[u8], force: bool) -> Ext2 {
    let sb: [u8; 1024] = image[1024..2048].try_into().unwrap();
    Ext2::open(&sb, image.len() as u64, OpenOptions { force, ..OpenOptions::default() }).unwrap()
}

fn rig(preset: &str) -> Rig {
    rig_on(volume(16 << 20), preset)
}

fn rig_on(mut dev: MemDev, preset: &str) -> Rig {
    dev.record = true;
    let fs = open(&dev.data, false);
    mount(fs, Numbered::new(dev), preset).unwrap()
}

const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    exclusive: false,
    sync: false,
    dsync: false,
};

fn create_with(r: &mut Rig, name: &str, flags: OpenFlags) -> (Ino, Handle) {
    let root = r.fs.geometry().root;
    let (a, h) = driver::run(r, &ctx(), |fs, t| {
        fs.create_open(&ctx(), root, name.as_bytes(), 0o644, flags, t)
    })
    .unwrap();
    (a.ino, h)
}

fn create(r: &mut Rig, name: &str) -> Handle {
    create_with(r, name, RW).1
}

fn put(r: &mut Rig, h: Handle, at: u64, bytes: &[u8]) -> Result<usize, FsError> {
    let data = Slice::new(seawall_blockdev::PageBuf::from_slice(bytes));
    driver::run(r, &ctx(), |fs, t| fs.write(&ctx(), h, at, &data, t)).map(|(n, _)| n)
}

fn fsync(r: &mut Rig, h: Handle) -> Result<(), FsError> {
    driver::run_plan(r, PlanReq::Fsync { handle: h, datasync: false })
}

fn close(r: &mut Rig, h: Handle) -> Result<(), FsError> {
    let verdict = driver::run_plan(r, PlanReq::Close(h));
    driver::run(r, &ctx(), |fs, _| {
        fs.clunk(h);
        fs.statfs(&ctx(), &mut seawall_diskfs::Ticket::new())
    })
    .unwrap();
    verdict
}

fn fsync_loop(r: &mut Rig, n: usize) {
    for i in 0..n {
        let h = create(r, &format!("f{i}"));
        put(r, h, 0, &[i as u8; 4096]).unwrap();
        fsync(r, h).unwrap();
        close(r, h).unwrap();
    }
}

fn flushes(r: &Rig) -> usize {
    r.dev.get_ref().log.iter().filter(|l| **l == Logged::Flush).count()
}

fn site(r: &Rig, s: Site) -> SiteStats {
    r.fs.stats().site(s)
}

fn sent(r: &Rig) -> Vec<(&'static str, u64)> {
    let stats = r.fs.stats();
    Site::ALL
        .iter()
        .map(|s| (s.name(), stats.site(*s).syncs_sent))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// The file's bytes on an image as a fresh mount sees it; `None` when the name is not there.
fn read_back(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let fs = open(image, true);
    let mut r = mount(fs, Numbered::new(MemDev::new(image.to_vec())), "default").unwrap();
    let root = r.fs.geometry().root;
    let attr = driver::run(&mut r, &ctx(), |fs, t| fs.lookup(&ctx(), root, name.as_bytes(), t));
    let ino = match attr {
        Ok(a) => a.ino,
        Err(FsError::Refused(Refused::NotFound)) => return None,
        Err(e) => panic!("{name}: {e}"),
    };
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let h = driver::run(&mut r, &ctx(), |fs, t| fs.open(&ctx(), ino, flags, t)).unwrap();
    Some(driver::read(&mut r, &ctx(), h, 0, 1 << 20).unwrap().to_vec())
}

fn check_clean(image: &[u8]) {
    let s = Scratch::new();
    let path = s.join("img");
    std::fs::write(&path, image).unwrap();
    let (code, out) = e2fsck(&path);
    assert_eq!(code, 0, "{out}");
}

/// Repairs (every question answered yes), which must succeed, and returns the repaired image. Preen
/// alone does not suffice: a new file whose name was not yet durable is put into lost+found.
fn repair(image: &[u8]) -> Vec<u8> {
    let s = Scratch::new();
    let path = s.join("img");
    std::fs::write(&path, image).unwrap();
    let r = run(tool("e2fsck").args(["-y", "-f"]).arg(&path));
    assert!(r.code() <= 1, "repair failed ({}): {}{}", r.code(), r.stdout, r.stderr);
    std::fs::read(&path).unwrap()
}

#[test]
fn hurd_vanilla_sends_no_sync() {
    let mut r = rig("hurd-vanilla");
    fsync_loop(&mut r, 50);
    driver::unmount(&mut r, &ctx()).unwrap();
    assert_eq!(sent(&r), []);
    assert_eq!(flushes(&r), 0);
    check_clean(&r.dev.get_ref().data);
}

#[test]
fn hurd_full_syncs_once_per_fsync_at_inode() {
    let mut r = rig("hurd-full");
    fsync_loop(&mut r, 50);
    driver::unmount(&mut r, &ctx()).unwrap();
    // hypermetadata: clearing and setting the clean mark. unmount: everything written back; the
    // second one (the pager's shutdown) finds nothing that is not durable.
    assert_eq!(sent(&r), [("hypermetadata", 2), ("inode", 50), ("unmount", 1)]);
    assert_eq!(site(&r, Site::Unmount).syncs_skipped, 1);
    assert_eq!(flushes(&r), 53);
    check_clean(&r.dev.get_ref().stable);
}

#[test]
fn hurd_sync_waits_for_every_operation_as_its_sites_say() {
    let mut r = rig("hurd-sync");
    // A create changes the inode, counts, bitmap and directory: one Sync for them.
    let h = create(&mut r, "f");
    let count = |r: &Rig| (flushes(r), sent(r));
    assert_eq!(count(&r), (2, vec![("hypermetadata", 2)]), "the clean mark, and the create");
    assert!(!r.fs.is_dirty());
    assert_eq!(read_back(&r.dev.get_ref().stable, "f"), Some(vec![]), "returned and durable");
    // A write of direct blocks: one Sync. One that needs an indirect block: its pointer's first.
    put(&mut r, h, 0, &[1; 4096]).unwrap();
    assert_eq!(flushes(&r), 3);
    put(&mut r, h, 12 * 4096, &[2; 4096]).unwrap();
    assert_eq!(count(&r), (5, vec![("hypermetadata", 4), ("indirect", 1)]));
    // A write in place changes the inode's times only.
    put(&mut r, h, 0, &[3; 4096]).unwrap();
    assert_eq!(count(&r), (6, vec![("hypermetadata", 4), ("inode", 1), ("indirect", 1)]));
    assert_eq!(read_back(&r.dev.get_ref().stable, "f").unwrap()[..4096], [3; 4096]);
    fsync(&mut r, h).unwrap();
    assert_eq!(flushes(&r), 6, "nothing left to do");
    close(&mut r, h).unwrap();
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().stable);
}

#[test]
fn lax_flushes_for_the_whole_only() {
    let mut r = rig("lax");
    fsync_loop(&mut r, 20);
    assert_eq!(flushes(&r), 0);
    assert_eq!(read_back(&r.dev.get_ref().stable, "f19"), None, "Ok was not durable");
    driver::run_plan(&mut r, PlanReq::Whole(Site::Periodic)).unwrap();
    assert!(read_back(&r.dev.get_ref().data, "f19") == Some(vec![19; 4096]), "but written");
    assert_eq!(flushes(&r), 0);
    driver::run_plan(&mut r, PlanReq::Whole(Site::Syncfs)).unwrap();
    assert_eq!(sent(&r), [("syncfs", 1)]);
    assert_eq!(read_back(&repair(&r.dev.get_ref().stable), "f19"), Some(vec![19; 4096]));
    driver::unmount(&mut r, &ctx()).unwrap();
    assert_eq!(sent(&r), [("syncfs", 1), ("unmount", 1)], "only the clean mark was left");
    check_clean(&r.dev.get_ref().stable);

    let mut dev = volume(16 << 20);
    dev.cache = CacheClass::Unflushable;
    let mut r = rig_on(dev, "lax");
    fsync_loop(&mut r, 2);
    driver::run_plan(&mut r, PlanReq::Whole(Site::Syncfs)).unwrap();
    assert_eq!(r.fs.take_events().len(), 1, "said once");
}

#[test]
fn default_makes_every_acknowledged_file_survive_with_its_name() {
    let mut r = rig("default");
    for i in 0..20u8 {
        let name = format!("f{i}");
        let h = create(&mut r, &name);
        put(&mut r, h, 0, &[i; 5000]).unwrap();
        fsync(&mut r, h).unwrap();
        close(&mut r, h).unwrap();
        if i % 5 != 4 {
            continue;
        }
        let image = repair(&r.dev.get_ref().stable);
        for j in 0..=i {
            assert_eq!(read_back(&image, &format!("f{j}")), Some(vec![j; 5000]), "after f{i}");
        }
    }
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().stable);
}

#[test]
fn the_gap_of_the_clean_inode() {
    for (preset, survives) in [("hurd-full", false), ("default", true), ("linux-ext2", true)] {
        let mut r = rig(preset);
        let h = create(&mut r, "f");
        fsync(&mut r, h).unwrap();
        put(&mut r, h, 0, &[9; 4096]).unwrap();
        // The flusher writes everything and flushes nothing behind it.
        driver::run_plan(&mut r, PlanReq::Whole(Site::Periodic)).unwrap();
        let before = flushes(&r);
        fsync(&mut r, h).unwrap();
        assert_eq!(flushes(&r) > before, survives, "{preset}");
        let kept = read_back(&repair(&r.dev.get_ref().stable), "f") == Some(vec![9; 4096]);
        assert_eq!(kept, survives, "{preset}");
        fsync(&mut r, h).unwrap();
        assert_eq!(flushes(&r), before + usize::from(survives), "{preset}: nothing left to do");
    }
}

#[test]
fn a_failed_flush_is_a_warning_or_an_error_once_per_handle() {
    let mut r = rig("hurd-full");
    let h = create(&mut r, "f");
    put(&mut r, h, 0, &[1; 4096]).unwrap();
    r.dev.get_mut().faults.flush = Some(0);
    fsync(&mut r, h).expect("the Hurd's fsync returns 0");
    put(&mut r, h, 0, &[2; 4096]).unwrap();
    fsync(&mut r, h).expect("and again");
    let events = r.fs.take_events();
    assert_eq!(events.len(), 1, "{events:?}");
    let Event::Warning { site: Site::Inode, what } = &events[0] else { panic!("{events:?}") };
    assert!(what.contains("flush failed"), "{what}");

    let mut r = rig("default");
    let (ino, a) = create_with(&mut r, "f", RW);
    let b = driver::run(&mut r, &ctx(), |fs, t| fs.open(&ctx(), ino, RW, t)).unwrap();
    put(&mut r, a, 0, &[1; 4096]).unwrap();
    r.dev.get_mut().faults.flush = Some(0);
    assert_eq!(fsync(&mut r, a), Err(FsError::Io(DevError::Io)));
    assert_eq!(fsync(&mut r, b), Err(FsError::Io(DevError::Io)), "each handle hears it");
    // `Numbered` never trusts its device again; the volume keeps failing rather than lie.
    assert!(fsync(&mut r, a).is_err());
    assert_ne!(read_back(&r.dev.get_ref().stable, "f"), Some(vec![1; 4096]));
}

/// Where errors are only warned of, the unmount still says why it could not finish.
#[test]
fn an_unmount_that_cannot_write_names_the_error() {
    let mut r = rig("hurd-full");
    let h = create(&mut r, "f");
    put(&mut r, h, 0, &[1; 4096]).unwrap();
    r.dev.get_mut().faults.dead_after_writes = Some(0);
    fsync(&mut r, h).expect("a warning");
    let e = driver::unmount(&mut r, &ctx()).unwrap_err();
    assert_eq!(e, FsError::Io(DevError::Gone));
    r.dev.get_mut().faults.dead_after_writes = None;
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().data);
}

#[test]
fn wild_group_descriptors_are_refused_at_mount() {
    for (field, what) in [(0, "block bitmap"), (4, "inode bitmap"), (8, "inode table")] {
        for value in [0u32, 1, 65_537, u32::MAX] {
            let mut dev = volume(4 << 20);
            dev.data[4096 + field..4096 + field + 4].copy_from_slice(&value.to_le_bytes());
            let mut r = rig_on(dev, "default");
            let e = driver::check_mount(&mut r, &ctx()).unwrap_err();
            assert!(format!("{e}").contains(what), "{e}");
        }
    }
}

#[test]
fn a_store_that_cannot_flush() {
    let unflushable = || {
        let mut dev = volume(16 << 20);
        dev.cache = CacheClass::Unflushable;
        dev
    };
    let mut r = rig_on(unflushable(), "hurd-full");
    fsync_loop(&mut r, 5);
    driver::unmount(&mut r, &ctx()).unwrap();
    assert_eq!((sent(&r), flushes(&r)), (vec![], 0), "no Sync is sent to it");

    let mut r = rig_on(unflushable(), "default");
    let h = create(&mut r, "f");
    put(&mut r, h, 0, &[1; 4096]).unwrap();
    for _ in 0..2 {
        assert_eq!(fsync(&mut r, h).map_err(|e| e.errno()), Err(95), "Ok would be a lie");
    }
    assert_eq!(flushes(&r), 0);

    let mut r = rig_on(unflushable(), "linux-ext2");
    let h = create(&mut r, "f");
    fsync(&mut r, h).unwrap();
    fsync(&mut r, h).unwrap();
    assert_eq!(r.fs.take_events().len(), 1);

    let dev = unflushable();
    let fs = open(&dev.data, false);
    let e = mount(fs, Numbered::new(dev), "strict").unwrap_err();
    assert!(format!("{e}").contains("cannot flush"), "{e}");
}

#[test]
fn a_store_that_dies_mid_write_leaves_nothing_half_done_in_the_cache() {
    for n in 0..12 {
        let mut r = rig("default");
        let h = create(&mut r, "old");
        put(&mut r, h, 0, &[1; 9000]).unwrap();
        fsync(&mut r, h).unwrap();
        put(&mut r, h, 4000, &[2; 9000]).unwrap();
        let g = create(&mut r, "new");
        put(&mut r, g, 0, &[3; 9000]).unwrap();
        r.dev.get_mut().faults.dead_after_writes = Some(n);
        let died = fsync(&mut r, g);
        if r.dev.get_ref().faults.dead_after_writes != Some(0) {
            died.unwrap();
            continue;
        }
        if let Err(e) = died {
            assert_eq!(e, FsError::Io(DevError::Gone), "after {n} writes");
        }
        // It comes back: everything is still in memory.
        r.dev.get_mut().faults.dead_after_writes = None;
        fsync(&mut r, g).unwrap();
        driver::unmount(&mut r, &ctx()).unwrap();
        let image = r.dev.get_ref().stable.clone();
        check_clean(&image);
        assert_eq!(read_back(&image, "new"), Some(vec![3; 9000]));
        let mut old = vec![1; 4000];
        old.extend([2; 9000]);
        assert_eq!(read_back(&image, "old"), Some(old));
    }
}

#[test]
fn an_error_at_any_write_is_heard_and_nothing_is_lost() {
    for preset in ["default", "linux-ext2", "strict"] {
        for n in 0..40 {
            let mut r = rig(preset);
            r.dev.get_mut().faults.write = Some(n);
            let script = |r: &mut Rig| -> Result<(), FsError> {
                let root = r.fs.geometry().root;
                for name in ["a", "b"] {
                    let (_, h) = driver::run(r, &ctx(), |fs, t| {
                        fs.create_open(&ctx(), root, name.as_bytes(), 0o644, RW, t)
                    })?;
                    put(r, h, 0, &[7; 70_000])?;
                    fsync(r, h)?;
                }
                Ok(())
            };
            let first = script(&mut r);
            let struck = r.dev.get_ref().faults.write.is_none();
            assert_eq!(first.is_err(), struck, "{preset}, write {n}: {first:?}");
            if !struck {
                break;
            }
            script(&mut r).unwrap_or_else(|e| panic!("{preset}, write {n}: retry: {e}"));
            driver::unmount(&mut r, &ctx()).unwrap_or_else(|e| panic!("{preset}, write {n}: {e}"));
            // Linux's umount does not flush: its image is what the device would hold in the end.
            let dev = r.dev.get_ref();
            let image = if preset == "linux-ext2" { &dev.data } else { &dev.stable };
            check_clean(image);
            for name in ["a", "b"] {
                assert_eq!(read_back(image, name), Some(vec![7; 70_000]), "{preset}, write {n}");
            }
        }
    }
}

/// Runs `op` with the n-th device read failing, for every n that it reaches: it happened, or it did
/// not and the tree is as before; e2fsck agrees each time.
fn every_read_fails_once(what: &str, op: &dyn Fn(&mut Rig) -> Result<(), FsError>) {
    for n in 0..200 {
        let mut r = rig("default");
        for name in ["a", "b"] {
            let h = create(&mut r, name);
            put(&mut r, h, 0, &vec![5; 300_000]).unwrap();
            close(&mut r, h).unwrap();
        }
        driver::run_plan(&mut r, PlanReq::Whole(Site::Syncfs)).unwrap();
        r.fs.drop_clean();
        r.dev.get_mut().faults.read = Some(n);
        let result = op(&mut r);
        let struck = r.dev.get_mut().faults.read.take().is_none();
        // A bad block in read-ahead is asked for again by itself, so a strike may go unnoticed.
        assert!(result.is_ok() || struck, "{what}, read {n}: {result:?}");
        if let Err(e) = &result {
            assert_eq!(*e, FsError::Io(DevError::Io), "{what}, read {n}");
            driver::unmount(&mut r, &ctx()).unwrap();
            check_clean(&r.dev.get_ref().stable);
            for name in ["a", "b"] {
                let got = read_back(&r.dev.get_ref().stable, name);
                assert_eq!(got, Some(vec![5; 300_000]), "{what}, read {n}: {name} changed");
            }
        } else {
            driver::unmount(&mut r, &ctx()).unwrap();
            check_clean(&r.dev.get_ref().stable);
        }
        if !struck {
            assert!(n > 0, "{what} reads nothing");
            return;
        }
    }
    panic!("{what} reads without end");
}

#[test]
fn a_read_error_anywhere_in_an_operation_leaves_nothing_half_done() {
    let c = ctx();
    every_read_fails_once("create", &|r| {
        let root = r.fs.geometry().root;
        let node = seawall_diskfs::NewNode::Dir;
        driver::run(r, &c, |fs, t| fs.create(&c, root, b"new", node, 0o755, t)).map(|_| ())
    });
    every_read_fails_once("rename", &|r| {
        let root = r.fs.geometry().root;
        driver::run(r, &c, |fs, t| fs.rename(&c, (root, b"a"), (root, b"b"), Default::default(), t))
    });
    every_read_fails_once("truncate", &|r| {
        let root = r.fs.geometry().root;
        let a = driver::run(r, &c, |fs, t| fs.lookup(&c, root, b"a", t))?;
        let cut = seawall_diskfs::SetAttr { size: Some(1234), ..Default::default() };
        driver::run(r, &c, |fs, t| fs.set_attr(&c, a.ino, &cut, t)).map(|_| ())
    });
}

#[test]
fn a_full_volume_refuses_and_stays_whole() {
    let mut r = rig_on(volume(2 << 20), "default");
    let mut names = Vec::new();
    let full = loop {
        let name = format!("f{}", names.len());
        let h = create(&mut r, &name);
        names.push(name);
        let mut at = 0u64;
        let stop = loop {
            match put(&mut r, h, at, &[1; 65_536]) {
                Ok(n) => at += n as u64,
                Err(e) => break Some(e),
            }
            if at >= 500_000 {
                break None;
            }
        };
        close(&mut r, h).unwrap();
        if let Some(e) = stop {
            break e;
        }
    };
    assert_eq!(full, FsError::Refused(Refused::NoSpace));
    let c = ctx();
    let root = r.fs.geometry().root;
    let node = seawall_diskfs::NewNode::Dir;
    // A rename needs no space; what was freed by an unlink can be used again at once.
    driver::run(&mut r, &c, |fs, t| {
        fs.rename(&c, (root, b"f0"), (root, b"g"), Default::default(), t)
    })
    .unwrap();
    driver::run(&mut r, &c, |fs, t| fs.unlink(&c, root, b"g", t)).unwrap();
    driver::run(&mut r, &c, |fs, t| fs.create(&c, root, b"dir", node, 0o755, t)).unwrap();
    let h = create(&mut r, "again");
    put(&mut r, h, 0, &[2; 400_000]).unwrap();
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().stable);
    assert_eq!(read_back(&r.dev.get_ref().stable, "again"), Some(vec![2; 400_000]));
}

#[test]
fn a_thousand_creates_share_a_few_epochs() {
    let mut r = rig("default");
    for i in 0..1000 {
        let h = create(&mut r, &format!("file-with-a-name-{i}"));
        close(&mut r, h).unwrap();
    }
    driver::run_plan(&mut r, PlanReq::Whole(Site::Syncfs)).unwrap();
    let s = r.fs.stats();
    // Mark, creates (two), and two for each of the blocks by which the directory grew.
    assert!(s.epochs_written <= 30, "{} epochs", s.epochs_written);
}

/// Files with data in many directories, some removed again: new things go to the oldest open epoch,
/// so the whole tree is a handful of epochs and not one for each file.
#[test]
fn a_tree_shares_a_few_epochs() {
    let mut r = rig("default");
    let c = ctx();
    let root = r.fs.geometry().root;
    for d in 0..40 {
        let dir = format!("dir{d}");
        let node = seawall_diskfs::NewNode::Dir;
        let dir =
            driver::run(&mut r, &c, |fs, t| fs.create(&c, root, dir.as_bytes(), node, 0o755, t))
                .unwrap();
        for f in 0..20 {
            let name = format!("file{f}");
            let (_, h) = driver::run(&mut r, &c, |fs, t| {
                fs.create_open(&c, dir.ino, name.as_bytes(), 0o644, RW, t)
            })
            .unwrap();
            put(&mut r, h, 0, &[f as u8; 9000]).unwrap();
            close(&mut r, h).unwrap();
            if f % 5 == 0 {
                driver::run(&mut r, &c, |fs, t| fs.unlink(&c, dir.ino, name.as_bytes(), t))
                    .unwrap();
            }
        }
    }
    driver::run_plan(&mut r, PlanReq::Whole(Site::Syncfs)).unwrap();
    let s = r.fs.stats();
    assert!(s.epochs_written <= 12, "{} epochs", s.epochs_written);
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().stable);
}

#[test]
fn o_sync_writes_flush_once_per_new_indirect_block() {
    let mut r = rig_on(volume(64 << 20), "hurd-full");
    let h = create(&mut r, "plain");
    for i in 0..16 {
        put(&mut r, h, i << 20, &vec![1; 1 << 20]).unwrap();
    }
    fsync(&mut r, h).unwrap();
    assert_eq!(site(&r, Site::Indirect).syncs_sent, 0);
    let (_, h) = create_with(&mut r, "sync", OpenFlags { sync: true, ..RW });
    for i in 0..16 {
        put(&mut r, h, i << 20, &vec![1; 1 << 20]).unwrap();
    }
    let s = site(&r, Site::Indirect);
    // 4096 blocks: 12 direct, 1024 under the first indirect block, the rest under 3 blocks below a
    // double indirect one.
    assert_eq!(s.syncs_sent + s.syncs_merged, 5, "{s:?}");
    assert_eq!(site(&r, Site::FsyncMeta).syncs_sent, 0, "the Hurd flushes at the inode");
    assert_eq!(site(&r, Site::Inode).syncs_sent, 1 + 16);
}

#[test]
fn the_boundary_stands_between_the_epochs_of_two_passes() {
    let mut r = rig("default");
    let root = r.fs.geometry().root;
    let c = ctx();
    create(&mut r, "a");
    driver::run_plan(&mut r, PlanReq::Whole(Site::Periodic)).unwrap();
    driver::run(&mut r, &c, |fs, t| {
        fs.rename(&c, (root, b"a"), (root, b"b"), Default::default(), t)
    })
    .unwrap();
    r.dev.get_mut().log.clear();
    driver::run_plan(&mut r, PlanReq::Whole(Site::Periodic)).unwrap();
    let log = &r.dev.get_ref().log;
    let write = log.iter().position(|l| matches!(l, Logged::Write(_))).unwrap();
    assert!(
        log[..write].contains(&Logged::Flush),
        "the last pass left an epoch unflushed: {log:?}"
    );
}

/// A small generator whose stream never changes.
struct Rng(u64);

impl Rng {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// One image that a power loss now may leave: what is stable, and each unflushed 4 KiB or not.
fn crash(r: &Rig, rng: &mut Rng) -> Vec<u8> {
    let dev = r.dev.get_ref();
    let mut image = dev.stable.clone();
    let keep = rng.next(5);
    for (start, bytes) in &dev.unflushed {
        for (i, unit) in bytes.chunks(4096).enumerate() {
            if rng.next(4) < keep {
                let at = *start as usize + i * 4096;
                image[at..at + unit.len()].copy_from_slice(unit);
            }
        }
    }
    image
}

/// Names, unlinks, renames, truncations and rewrites at random; some files are synced. At any
/// moment a power loss leaves what a checker repairs without harm, and every synced file with its
/// name.
fn crash_run(preset: &str, seed: u64, steps: u64) {
    let mut r = rig_on(volume(4 << 20), preset);
    let mut rng = Rng(seed);
    let root = r.fs.geometry().root;
    let mut acked: std::collections::BTreeMap<String, Vec<u8>> = Default::default();
    for step in 0..steps {
        let name = format!("n{}", rng.next(12));
        let c = ctx();
        match rng.next(8) {
            0..=3 => {
                acked.remove(&name);
                let h = create(&mut r, &name);
                let bytes = vec![step as u8 + 1; 1 + rng.next(60_000) as usize];
                let cut = seawall_diskfs::SetAttr { size: Some(0), ..Default::default() };
                let (ino, _) = r.fs.handle_info(h).unwrap();
                driver::run(&mut r, &c, |fs, t| fs.set_attr(&c, ino, &cut, t)).unwrap();
                put(&mut r, h, 0, &bytes).unwrap();
                if rng.next(2) == 0 {
                    fsync(&mut r, h).unwrap();
                    acked.insert(name, bytes);
                }
                close(&mut r, h).unwrap();
            }
            4 => {
                acked.remove(&name);
                let _ = driver::run(&mut r, &c, |fs, t| fs.unlink(&c, root, name.as_bytes(), t));
            }
            5 => {
                // The old name may stay and the new one may not be there yet: neither is promised.
                let to = format!("n{}", rng.next(12));
                acked.remove(&name);
                acked.remove(&to);
                let (a, b) = ((root, name.as_bytes()), (root, to.as_bytes()));
                let _ = driver::run(&mut r, &c, |fs, t| fs.rename(&c, a, b, Default::default(), t));
            }
            6 => {
                let dir = format!("d{}", rng.next(4));
                let node = seawall_diskfs::NewNode::Dir;
                let made = driver::run(&mut r, &c, |fs, t| {
                    fs.create(&c, root, dir.as_bytes(), node, 0o755, t)
                });
                if made.is_err() {
                    driver::run(&mut r, &c, |fs, t| fs.rmdir(&c, root, dir.as_bytes(), t)).unwrap();
                }
            }
            _ => driver::run_plan(&mut r, PlanReq::Whole(Site::Periodic)).unwrap(),
        }
        if step % 3 == 0 {
            let image = repair(&crash(&r, &mut rng));
            for (name, bytes) in &acked {
                let got = read_back(&image, name);
                assert!(
                    got.as_ref() == Some(bytes),
                    "{preset}, seed {seed}, step {step}: {name} acknowledged with {} bytes of {}, \
                     found {:?}",
                    bytes.len(),
                    bytes[0],
                    got.map(|g| (g.len(), g.first().copied()))
                );
            }
        }
    }
    driver::unmount(&mut r, &ctx()).unwrap();
    check_clean(&r.dev.get_ref().stable);
}

#[test]
fn a_power_loss_at_any_moment_keeps_what_was_acknowledged() {
    for seed in 1..=6 {
        crash_run("default", seed * 7919, 60);
    }
    crash_run("strict", 4711, 40);
}

#[test]
fn a_policy_that_orders_nothing_is_seen_to_lose() {
    let lost = (1..=8).any(|seed| {
        std::panic::catch_unwind(|| crash_run("hurd-vanilla", seed * 7919, 60)).is_err()
    });
    assert!(lost, "the crash test would not notice a missing barrier");
}
