#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::sim::{EVO870, PNY32, QEMU_SSD};
use alloc::vec::Vec;

const MS: Nanos = 1_000_000;

/// 10 ms a write, so many slots.
fn slots(slots: u32) -> Queue {
    Queue::new(Profile { write_command: 10 * MS, slots, ..QEMU_SSD })
}

fn times(q: &mut Queue, came: Nanos, count: u64) -> Vec<(Nanos, Nanos)> {
    let write = |i| SimRequest::write(i, 4096);
    (0..count).map(|i| q.admit(came, write(i))).map(|a| (a.at / MS, a.done.acked / MS)).collect()
}

#[test]
fn the_third_request_waits_for_one_of_two_slots() {
    let mut q = slots(2);
    assert_eq!(times(&mut q, 0, 4), [(0, 10), (0, 20), (10, 30), (20, 40)]);
    assert_eq!((q.in_flight(20 * MS), q.in_flight(30 * MS), q.in_flight(40 * MS)), (2, 1, 0));
    // Nothing is in flight any more: no waiting.
    assert_eq!(times(&mut q, 50 * MS, 1), [(50, 60)]);
}

#[test]
fn one_slot_is_one_after_the_other() {
    assert_eq!(times(&mut slots(1), 0, 3), [(0, 10), (10, 20), (20, 30)]);
}

#[test]
fn two_submitters_share_one_device_in_order() {
    let mut q = slots(2);
    let (a, b) = (times(&mut q, 0, 3), times(&mut q, 5 * MS, 2));
    assert_eq!(a, [(0, 10), (0, 20), (10, 30)]);
    // The other one came at 5 and is behind all of these.
    assert_eq!(b, [(20, 40), (30, 50)]);
    // An admission does not go back: who came earlier and asks later is later.
    assert_eq!(q.slot_at(0), 40 * MS);
}

#[test]
fn the_ramp_lets_more_in_before_an_answer() {
    let mut q = Queue::new(Profile { write_command: 1_000 * MS, slots: 64, ..QEMU_SSD });
    let at: Vec<Nanos> = times(&mut q, 0, 40).iter().map(|t| t.0).collect();
    assert!(at[..8].iter().all(|t| *t == 0));
    assert!(at[8..16].iter().all(|t| *t == 100));
    assert!(at[16..32].iter().all(|t| *t == 200));
    assert!(at[32..].iter().all(|t| *t == 300));
}

#[test]
fn the_depth_follows_the_drive() {
    let mut q = Queue::new(PNY32);
    let write = |i: u64| SimRequest::write(i << 20, 1 << 20);
    let third = (0..3).map(|i| q.admit(0, write(i))).last().unwrap();
    assert_eq!(third.at, 54_772_474);
    assert_eq!(q.in_flight(third.at), 2);
    let mut q = Queue::new(EVO870);
    // 8 at once, the 9th when the first is answered: 5 us and 1 MiB at 375 MB/s.
    let ninth = (0..9).map(|i| q.admit(0, write(i))).last().unwrap();
    assert_eq!(ninth.at, 5_000 + 2_796_202);
}
