//! Fuzzing by seeds: a finding is a number that repeats it.
//!
//! A test runs a fixed number of rounds, or as long as `SEAWALL_FUZZ_SECONDS` says;
//! `SEAWALL_FUZZ_SEED` sets the first seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A generator (splitmix64): the same numbers from a seed on every machine.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts at a seed. Neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Calls `round` with one generator after another, `rounds` times unless the environment says how
/// long.
///
/// # Panics
/// When a round does, with its seed.
pub fn fuzz(rounds: u64, round: impl Fn(&mut Rng)) {
    let setting = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = setting("SEAWALL_FUZZ_SEED").unwrap_or(1);
    let end = setting("SEAWALL_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut seed = first;
    while end.map_or(seed < first + rounds, |end| Instant::now() < end) {
        let run = catch_unwind(AssertUnwindSafe(|| round(&mut Rng::new(seed))));
        assert!(run.is_ok(), "SEAWALL_FUZZ_SEED={seed} repeats it");
        seed += 1;
    }
    println!("{} rounds from seed {first}", seed - first);
}
