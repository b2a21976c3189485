#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::backend::{BackendOp, MemBackend};
use crate::block_on::block_on;
use crate::sim::{PNY32, QEMU_SSD};
use std::vec::Vec;

const MS: Nanos = 1_000_000;

#[test]
fn neighbours_are_one_request_up_to_the_largest() {
    let bytes = [0u8; 4096];
    let write = |start| Submission::new(BackendOp::Write { start, buf: &bytes, fua: false });
    let batch = [write(0), write(4096), write(8192), write(20480), write(24576)];
    let sizes = |max| requests(&batch, max).map(|(r, _)| (r.start, r.len)).collect::<Vec<_>>();
    assert_eq!(sizes(1 << 20), [(0, 12288), (20480, 8192)]);
    assert_eq!(sizes(8192), [(0, 8192), (8192, 4096), (20480, 8192)]);
    // Longer than the device takes: several.
    let halves: Vec<_> = sizes(2048);
    assert_eq!(halves[..3], [(0, 2048), (2048, 2048), (4096, 2048)]);
    assert_eq!(halves.len(), 10);
}

#[test]
fn a_request_is_over_with_its_last_piece() {
    let bytes = [0u8; 4096];
    let write = |start| Submission::new(BackendOp::Write { start, buf: &bytes, fua: false });
    let batch = [write(0), write(4096), write(20480)];
    let ended = |max| requests(&batch, max).map(|(_, ended)| ended).collect::<Vec<_>>();
    assert_eq!(ended(8192), [2, 3]);
    assert_eq!(ended(4096), [1, 2, 3]);
    assert_eq!(ended(2048), [0, 1, 1, 2, 2, 3]);
}

#[test]
fn each_of_a_batch_is_answered_when_the_model_says() {
    let clock = Clock::wall();
    let store = sim(Profile { write_command: 3 * MS, slots: 2, rate: 0, ..QEMU_SSD }, &clock);
    let bytes = [0u8; 4096];
    let write =
        |i: u64| Submission::new(BackendOp::Write { start: i << 20, buf: &bytes, fua: false });
    let mut batch: Vec<_> = (0..6).map(write).collect();
    let mut seen = Vec::new();
    let from = clock.now();
    block_on(store.submit_each(&mut batch, &mut |i, s| {
        assert_eq!(s.result, Ok(()));
        seen.push((i, clock.now() - from));
    }));
    let order: Vec<usize> = seen.iter().map(|s| s.0).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    // None too early; and the first long before the last can be over.
    for (n, at) in (1..).zip(seen.iter().map(|s| s.1)) {
        assert!(at >= n * 3 * MS, "answer {n} at {at} ns");
    }
}

fn sim(profile: Profile, clock: &Clock) -> SimBackend {
    SimBackend::new(profile, Box::new(MemBackend::new(64 << 20).unwrap()), clock.clone())
}

fn write(store: &SimBackend, start: u64, len: usize) -> Nanos {
    let buf = std::vec![0u8; len];
    let mut batch = [Submission::new(BackendOp::Write { start, buf: &buf, fua: false })];
    block_on(store.submit(&mut batch));
    batch[0].result.unwrap();
    store.clock.now()
}

#[test]
fn virtual_time_ends_when_the_model_says() {
    let clock = Clock::virtual_time();
    let store = sim(PNY32, &clock);
    assert_eq!(store.caps().max_io, 1 << 20);
    // 4 MiB in one piece are four requests of 54.772474 ms on two slots.
    assert_eq!(write(&store, 0, 4 << 20), 4 * 54_772_474);
    block_on(store.flush()).unwrap();
    assert_eq!(clock.now(), 4 * 54_772_474 + MS);
}

/// What it takes is at least what the model says, and the same device serves everybody: not a
/// test of how fast the machine is, since nothing has an upper bound.
#[test]
fn threads_in_real_time_share_one_device() {
    let clock = Clock::wall();
    let store = sim(Profile { write_command: 3 * MS, slots: 2, rate: 0, ..QEMU_SSD }, &clock);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|t| {
                let store = &store;
                let own = move || (0..5).map(|i| write(store, (t * 5 + i) << 20, 4096)).collect();
                scope.spawn::<_, Vec<Nanos>>(own)
            })
            .collect();
        let mut ends: Vec<Nanos> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        ends.sort_unstable();
        // The nth answer is not given before n requests of 3 ms are over.
        for (n, end) in (1..).zip(&ends) {
            assert!(*end >= n * 3 * MS, "answer {n} at {end} ns");
        }
        assert_eq!(ends.len(), 20);
    });
    let line = store.line();
    assert_eq!((line.given, line.serving), (20, 20));
    assert!(line.queue.model().idle_at() >= 20 * 3 * MS);
}
