//! Each term of the model, with values computed by hand.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::sim::{
    CacheModel, EVO870, PNY32, PNY250_UAS, PROFILES, QEMU_SSD, SEGMENT, SlowAfter, Stall, UFS,
    WDBLUE,
};
use alloc::vec::Vec;

const MIB: u64 = 1 << 20;
const MS: Nanos = 1_000_000;

#[test]
fn a_thousand_rounds_take_what_the_thread_measured() {
    let round = |model: &mut Model, mut now: Nanos, flush: bool| {
        for start in [0, 1 << 20] {
            now = model.submit(now, SimRequest::write(start, 4096)).acked;
        }
        if flush {
            now = model.submit(now, SimRequest::flush()).acked;
        }
        now + 250_000
    };
    for (flush, expected) in [(false, 750_000_000), (true, 1_250_000_000)] {
        let mut model = Model::new(QEMU_SSD);
        let end = (0..1000).fold(0, |now, _| round(&mut model, now, flush));
        assert_eq!(end, expected);
    }
}

#[test]
fn a_command_and_its_bytes() {
    let mut model = Model::new(PNY32);
    // 37 ms, and 1,048,576 bytes at 59 MB/s: 17.772474 ms.
    let first = model.submit(0, SimRequest::write(0, MIB));
    assert_eq!(first, Completion { acked: 54_772_474, media: 54_772_474 });
    // The medium is serial: the second starts when the first is over, a read as well.
    let second = model.submit(MS, SimRequest::write(0, 0));
    assert_eq!(second.acked, 91_772_474);
    assert_eq!(model.submit(MS, SimRequest::read(0, 0)).acked, 92_772_474);
    assert_eq!(model.submit(MS, SimRequest::flush()).acked, 93_772_474);
    assert_eq!(model.idle_at(), 93_772_474);
}

#[test]
fn the_closed_form() {
    // T = t_first + sum(len) / bw + n t_cmd, for one writer that keeps the device busy.
    let (first, n) = (5_000 * MS, 3_072);
    let mut model = Model::new(PNY32);
    let end = (0..n).fold(0, |_, i| model.submit(first, SimRequest::write(i * MIB, MIB)).media);
    assert_eq!(end, first + n * 17_772_474 + n * 37 * MS);
    // 3 GiB in requests of 1 MiB: 168.3 s, the cheap stick with waiting: 19.1 MB/s.
    assert_eq!((end - first) / MS, 168_261);
    let mut model = Model::new(UFS);
    let end = (0..1_000).fold(0, |_, i| model.submit(0, SimRequest::write(i * MIB, MIB)).media);
    // 559,538 ns of data and 3,950 of command each: 1,774.6 MiB/s.
    assert_eq!(end, 1_000 * (559_538 + 3_950));
}

#[test]
fn going_elsewhere_costs_a_switch() {
    let mut model = Model::new(Profile { cache: None, ..WDBLUE });
    // 0.55 ms and 4,096 bytes at 101.5 MB/s, 40,354 ns.
    assert_eq!(model.submit(0, SimRequest::write(0, 4096)).acked, 590_354);
    let near = model.submit(0, SimRequest::write(4096 + (4 << 20), 4096)).acked;
    assert_eq!(near, 2 * 590_354);
    let far = model.submit(0, SimRequest::write(100 * MIB, 4096)).acked;
    assert_eq!(far, 3 * 590_354 + 12 * MS);
    let back = model.submit(0, SimRequest::read(0, 4096)).acked;
    assert_eq!(back, 4 * 590_354 + 24 * MS);
    // A flush goes nowhere.
    assert_eq!(model.submit(0, SimRequest::flush()).acked, back + 10 * MS);
}

#[test]
fn a_pause_of_50_ms_costs_the_way_back() {
    let mut model = Model::new(EVO870);
    let (write, cost) = (SimRequest::write(0, 0), 5_000);
    let first = model.submit(0, write).media;
    assert_eq!(first, cost);
    let second = model.submit(first + 50 * MS - 1, write).media;
    assert_eq!(second, first + 50 * MS - 1 + cost);
    let third = model.submit(second + 50 * MS, write).media;
    assert_eq!(third, second + 50 * MS + cost + 5_500_000);
}

#[test]
fn a_cache_acknowledges_early_until_it_is_full() {
    let cache = Some(CacheModel { bytes: 1_000_000, fill_rate: 100_000_000 });
    let p = Profile { rate: 10_000_000, write_command: 0, cache, ..QEMU_SSD };
    let mut model = Model::new(p);
    let write = |start| SimRequest::write(start, 1_000_000);
    let first = model.submit(0, write(0));
    assert_eq!(first, Completion { acked: 10 * MS, media: 100 * MS });
    // max(10 + 10, 200 - 100): all but the size of the cache is on the medium at 100 ms.
    let second = model.submit(first.acked, write(1_000_000));
    assert_eq!(second, Completion { acked: 100 * MS, media: 200 * MS });
    let third = model.submit(second.acked, write(2_000_000));
    assert_eq!(third, Completion { acked: 200 * MS, media: 300 * MS });
    // A flush empties it, a read waits for its turn.
    assert_eq!(model.submit(third.acked, SimRequest::flush()).acked, 300 * MS + 500_000);
    // The disk of the thread: 16 MiB at 101.5 MB/s are 165.29 ms ahead.
    let mut model = Model::new(WDBLUE);
    let done = model.submit(0, SimRequest::write(0, 3 * MIB));
    assert_eq!(done, Completion { acked: 10_485_760, media: 550_000 + 30_992_394 });
}

#[test]
fn the_rate_falls_when_the_fast_room_is_full_and_idling_brings_it_back() {
    let slow = Some(SlowAfter { bytes: 10_000_000, rate: 10_000_000, recover: 20_000_000 });
    let p = Profile { rate: 100_000_000, write_command: 0, slow, ..QEMU_SSD };
    let mut model = Model::new(p);
    let write = |start| SimRequest::write(start, 8_000_000);
    assert_eq!(model.submit(0, write(0)).media, 80 * MS);
    // 2 MB fast, 6 MB slow.
    assert_eq!(model.submit(0, write(8_000_000)).media, 80 * MS + 20 * MS + 600 * MS);
    assert_eq!(model.submit(0, write(16_000_000)).media, 700 * MS + 800 * MS);
    // 200 ms of nothing give 4 MB back.
    assert_eq!(model.submit(1_700 * MS, write(24_000_000)).media, 1_700 * MS + 40 * MS + 400 * MS);
    // The thread's stick: 4 GiB at the full rate, then 200 MB/s.
    let mut model = Model::new(PNY250_UAS);
    let mut copy = |from: Nanos| {
        (0..4096).fold(0, |_, i| model.submit(from, SimRequest::write(i * MIB, MIB)).media) - from
    };
    let rate = |time: Nanos| (4096 * MIB) / (time / 1_000);
    let first = copy(0);
    assert_eq!(rate(first), 364);
    let second = copy(first);
    assert_eq!(rate(second), 196);
    // 20 s of nothing give 2 GB back: the runs at 251 and 255 MB/s.
    assert_eq!(rate(copy(first + second + 20_000 * MS)), 250);
}

#[test]
fn stalls_are_drawn_from_the_seed() {
    let p = |per_million, seed| {
        let stall = Some(Stall { per_million, time: 250 * MS, seed });
        Profile { stall, ..QEMU_SSD }
    };
    let costs = |p: Profile| {
        let mut model = Model::new(p);
        let cost = |now: Nanos, model: &mut Model| {
            let end = model.submit(now, SimRequest::write(0, 4096)).media;
            (end, end - now)
        };
        let mut now = 0;
        let mut list = Vec::new();
        for _ in 0..10_000 {
            let (end, took) = cost(now, &mut model);
            list.push(took);
            now = end;
        }
        list
    };
    assert!(costs(p(1_000_000, 1)).iter().all(|c| *c == 250_250_000));
    assert!(costs(p(0, 1)).iter().all(|c| *c == 250_000));
    let list = costs(p(10_000, 1));
    assert_eq!(list, costs(p(10_000, 1)));
    assert_ne!(list, costs(p(10_000, 2)));
    let stalled = list.iter().filter(|c| **c > 250_000).count();
    assert!((70..130).contains(&stalled), "1 % of 10,000: {stalled}");
    // Reads and flushes do not stall, and do not shift the sequence.
    let mut model = Model::new(p(1_000_000, 1));
    assert_eq!(model.submit(0, SimRequest::read(0, 4096)).media, 250_000);
    assert_eq!(model.submit(0, SimRequest::flush()).media, 750_000);
}

#[test]
fn requests_split_at_the_size_and_at_the_segments() {
    assert_eq!(PNY32.request_max(SEGMENT), MIB);
    // 168 segments of 18 KiB: 3,024 KiB, less than 4 MiB.
    assert_eq!(WDBLUE.request_max(SEGMENT), 3_096_576);
    assert_eq!(WDBLUE.request_max(1 << 20), 4 * MIB);
    let parts: Vec<u64> = WDBLUE.split(8 * MIB, SEGMENT).collect();
    assert_eq!(parts, [3_096_576, 3_096_576, 2_195_456]);
    assert_eq!(PNY32.split(MIB, SEGMENT).collect::<Vec<_>>(), [MIB]);
    assert_eq!(PNY32.split(0, SEGMENT).count(), 0);
    let free = Profile { max_request: 0, max_segments: 0, ..PNY32 };
    assert_eq!(free.split(1 << 40, SEGMENT).collect::<Vec<_>>(), [1 << 40]);
}

#[test]
fn the_depth_doubles_every_100_ms_after_the_first_write() {
    let depths = [(0, 8), (99, 8), (100, 16), (199, 16), (200, 32), (300, 64), (400, 96)];
    for (ms, depth) in depths {
        assert_eq!(EVO870.depth(ms * MS), depth, "{ms} ms");
    }
    assert_eq!(EVO870.depth(Nanos::MAX), 96);
    assert_eq!((PNY32.depth(0), PNY32.depth(1_000 * MS)), (2, 2));
    let mut model = Model::new(EVO870);
    model.submit(0, SimRequest::read(0, 4096));
    assert_eq!(model.depth(1_000 * MS), 8);
    model.submit(1_000 * MS, SimRequest::write(0, 4096));
    assert_eq!((model.depth(1_000 * MS), model.depth(1_150 * MS)), (8, 16));
}

#[test]
fn names_are_told_apart_and_found() {
    for p in PROFILES {
        assert_eq!(Profile::find(&p.name).unwrap(), p);
        assert!(p.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        assert!(p.slots > 0 && p.request_max(SEGMENT) >= 4096);
    }
    assert_eq!(Profile::find("pny33"), None);
}
