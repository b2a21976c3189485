//! The store in this process: device models in virtual time, faults, names.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{
    BlockDev, CacheClass, DevError, PageBuf, ReadRun, Run, Seq, Tag, WriteFlags, WriteRun,
};
use seawall_store::backend::{Clock, FaultBackend, MemBackend};
use seawall_store::{AnyStore, LocalStore, OpenOptions, SimClock, open};
use std::sync::Arc;

fn open_virtual(name: &str) -> AnyStore {
    let clock = SimClock::Virtual(None);
    open(name, &OpenOptions { clock, ..OpenOptions::default() }).unwrap()
}

fn write(s: &mut impl BlockDev, runs: &[(u64, usize)], tag: u32) -> Result<Seq, DevError> {
    let bufs: Vec<PageBuf> = runs.iter().map(|(_, len)| PageBuf::zeroed(*len)).collect();
    let runs: Vec<WriteRun<'_>> = runs
        .iter()
        .zip(&bufs)
        .map(|((start, _), buf)| WriteRun { start: *start, buf, tag: Tag(tag) })
        .collect();
    s.write(&runs, WriteFlags::default())
}

#[test]
fn the_hurd_loop_in_virtual_time() {
    for (sync, expected) in [(false, 750_000_000), (true, 1_250_000_000)] {
        let mut store = open_virtual("sim:qemu-ssd:mem:64M");
        for i in 0..1000u64 {
            write(&mut store, &[(i * 4096, 4096)], 1).unwrap();
            write(&mut store, &[(32 << 20, 1024)], 2).unwrap();
            if sync {
                store.sync(Tag(2)).unwrap();
            }
            store.local().unwrap().clock().advance(250_000);
        }
        assert_eq!(store.local().unwrap().now(), expected);
        let stats = store.stats().unwrap();
        let tag = |n: u32| stats.tags.iter().find(|t| t.tag == n).unwrap().counters.clone();
        assert_eq!((tag(1).writes, tag(1).syncs, tag(2).writes), (1000, 0, 1000));
        assert_eq!(tag(2).flushes, if sync { 1000 } else { 0 });
        assert_eq!(tag(2).write_sizes, vec![(10, 1000)]);
    }
}

#[test]
fn adjacent_runs_are_one_request_to_the_device_and_long_ones_several() {
    let mut store = open_virtual("sim:qemu-ssd:mem:64M");
    write(&mut store, &[(0, 4096), (4096, 4096), (8192, 512), (1 << 20, 4096)], 1).unwrap();
    assert_eq!(store.local().unwrap().now(), 2 * 250_000);
    write(&mut store, &[(0, 3 << 20)], 1).unwrap();
    assert_eq!(store.local().unwrap().now(), 5 * 250_000);
    assert_eq!(store.stats().unwrap().total.writes, 5);
    // A sync of what is durable already costs the device nothing.
    store.sync(Tag(0)).unwrap();
    let now = store.local().unwrap().now();
    store.sync(Tag(0)).unwrap();
    assert_eq!((now, store.local().unwrap().now()), (5 * 250_000 + 500_000, now));
    let total = store.stats().unwrap().total;
    assert_eq!((total.syncs, total.flushes, total.skipped), (2, 1, 1));
}

#[test]
fn clocks_can_be_shared() {
    let clock = Clock::virtual_time();
    let options =
        OpenOptions { clock: SimClock::Virtual(Some(clock.clone())), ..OpenOptions::default() };
    let mut store = open("sim:qemu-ssd:mem:1M", &options).unwrap();
    write(&mut store, &[(0, 512)], 0).unwrap();
    assert_eq!(clock.now(), 250_000);
}

#[test]
fn caps_of_a_chain_are_the_worst_of_its_parts() {
    let caps = open_virtual("sim:qemu-ssd:fault:unflushable:mem:1M").caps();
    assert_eq!((caps.cache, caps.fua), (CacheClass::Unflushable, false));
    let mut store = open_virtual("fault:unknown:sim:qemu-ssd:mem:1M");
    write(&mut store, &[(0, 512)], 0).unwrap();
    assert_eq!(store.sync(Tag(0)), Err(DevError::Unsupported));
    let mut zero = open_virtual("zero:1M");
    let mut buf = PageBuf::from_slice(&[1; 4096]);
    zero.read(&mut [ReadRun { start: 8192, buf: &mut buf }], Tag(0)).unwrap();
    assert!(buf.iter().all(|b| *b == 0));
    assert_eq!(write(&mut zero, &[(0, 512)], 0), Err(DevError::ReadOnly));
}

#[test]
fn faults_can_be_lifted_and_nothing_is_forgotten() {
    let inner = Box::new(MemBackend::new(1 << 20).unwrap());
    let fault = Arc::new(FaultBackend::new("write=2,flush=all".parse().unwrap(), inner));
    let mut store = LocalStore::new(fault.clone());
    let first = write(&mut store, &[(0, 4096)], 0).unwrap();
    assert_eq!(write(&mut store, &[(4096, 4096)], 0), Err(DevError::Io));
    assert_eq!(store.sync(Tag(0)), Err(DevError::Io));
    assert_eq!(store.seqs().acked, first);
    fault.set_spec(Default::default());
    assert_eq!(store.sync(Tag(0)), Err(DevError::Io));
    assert_eq!(store.lost().iter().collect::<Vec<_>>(), vec![Run::new(0, 4096)]);
    let again = write(&mut store, &[(0, 4096)], 0).unwrap();
    assert_eq!(store.sync(Tag(0)), Ok(again));
    assert_eq!(store.stats().flush_errors, 1);
}

#[test]
fn a_file_is_created_at_the_size_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk").display().to_string();
    let options = OpenOptions { create_size: Some(3 << 20), ..OpenOptions::default() };
    let mut store = open(&path, &options).unwrap();
    assert_eq!(store.caps().size, 3 << 20);
    write(&mut store, &[(0, 512), (1024, 512)], 0).unwrap();
    store.sync(Tag(0)).unwrap();
    store.discard(Run::new(0, 4096), Tag(0)).unwrap();
    assert!(open(&path, &OpenOptions::default()).is_err());
    drop(store);
    open(&path, &OpenOptions::default()).unwrap();
    assert!(open(&format!("{path}-2"), &OpenOptions::default()).is_err());
}

#[test]
fn a_short_write_reaches_half_of_the_device_and_is_an_error() {
    let mut store = open_virtual("fault:write=2/short,read=2/short:mem:1M");
    let read = |store: &mut AnyStore, buf: &mut PageBuf| {
        store.read(&mut [ReadRun { start: 0, buf }], Tag(0))
    };
    let ones = PageBuf::from_slice(&[1; 4096]);
    let twos = PageBuf::from_slice(&[2; 4096]);
    let run = |buf| WriteRun { start: 0, buf, tag: Tag(0) };
    store.write(&[run(&ones)], WriteFlags::default()).unwrap();
    let acked = store.seqs().acked;
    assert_eq!(store.write(&[run(&twos)], WriteFlags::default()), Err(DevError::Io));
    assert_eq!(store.seqs().acked, acked);
    let mut back = PageBuf::zeroed(4096);
    read(&mut store, &mut back).unwrap();
    assert_eq!((back[..2048] == twos[..2048], back[2048..] == ones[2048..]), (true, true));
    assert_eq!(read(&mut store, &mut back), Err(DevError::Io));
    read(&mut store, &mut back).unwrap();
}

#[test]
fn delays_pass_on_the_clock_of_the_store() {
    let mut store = open_virtual("fault:write=all/5ms,flush=all/1s,read=2+/200us:mem:1M");
    for _ in 0..3 {
        write(&mut store, &[(0, 4096)], 0).unwrap();
    }
    assert_eq!(store.local().unwrap().now(), 15_000_000);
    store.sync(Tag(0)).unwrap();
    assert_eq!(store.local().unwrap().now(), 1_015_000_000);
    let mut buf = PageBuf::zeroed(4096);
    for _ in 0..2 {
        store.read(&mut [ReadRun { start: 0, buf: &mut buf }], Tag(0)).unwrap();
    }
    assert_eq!(store.local().unwrap().now(), 1_015_200_000);
}

#[test]
fn a_seed_gives_the_same_errors_every_time() {
    let run = || {
        let mut store = open_virtual("fault:write%25~7,flush%50~7/enospc:mem:1M");
        let mut failed = Vec::new();
        for i in 0..200u64 {
            failed.push(write(&mut store, &[(i * 4096, 4096)], 0).err());
        }
        let sync = store.sync(Tag(0)).err();
        (failed, sync)
    };
    let (failed, sync) = run();
    assert_eq!(run(), (failed.clone(), sync));
    assert!((20..80).contains(&failed.iter().flatten().count()));
    assert!(failed.iter().flatten().all(|e| *e == DevError::Io));
}

#[test]
fn a_direct_file_takes_any_buffer() {
    // Beside the build's own files: temporary folders may lie where there is no direct I/O.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("disk").display().to_string();
    let options = OpenOptions { create_size: Some(8 << 20), ..OpenOptions::default() };
    let mut store = open(&format!("file:{path}?direct"), &options).unwrap();
    let block = store.caps().logical as usize;
    let data: Vec<u8> = (0..64 * block + 1).map(|i| (i / block + i) as u8).collect();
    // One byte past wherever the vector starts: at least one of the two is not aligned.
    for (from, start) in [(0, 0u64), (1, 1 << 20)] {
        let bufs: Vec<&[u8]> = data[from..from + 64 * block].chunks(16 * block).collect();
        let mut at = start;
        let runs: Vec<WriteRun<'_>> = bufs
            .iter()
            .map(|buf| {
                let run = WriteRun { start: at, buf, tag: Tag(0) };
                at += buf.len() as u64;
                run
            })
            .collect();
        store.write(&runs, WriteFlags { fua: from == 1, ..WriteFlags::default() }).unwrap();
        let mut back = vec![0u8; 64 * block + 1];
        let buf = &mut back[1..];
        store.read(&mut [ReadRun { start, buf }], Tag(0)).unwrap();
        assert!(back[1..] == data[from..from + 64 * block]);
    }
    store.write_zeroes(Run::new(1 << 20, 64 * block as u64), Tag(0)).unwrap();
    store.sync(Tag(0)).unwrap();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[..64 * block] == data[..64 * block]);
    assert!(bytes[1 << 20..(1 << 20) + 64 * block].iter().all(|b| *b == 0));
    let ro = open(&format!("{path}?ro&direct"), &OpenOptions::default()).unwrap();
    assert!(ro.caps().read_only);
}
