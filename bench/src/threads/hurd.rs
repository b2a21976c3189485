//! The Hurd thread's loop, on the ext2 engine and the model of its SSD.

use crate::job::volume;
use crate::sim::{self, HostCosts};
use crate::workload::{Run, Workload};
use anyhow::{Context, Result};
use seawall_diskfs::policy::preset;

/// Rounds, as in the thread.
pub(crate) const ROUNDS: u64 = 1000;

/// What a loop gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gave {
    /// Virtual seconds of the timed part.
    pub(crate) seconds: f64,
    /// Flushes in it.
    pub(crate) flushes: u64,
}

/// Runs it.
///
/// # Errors
/// The engine's.
pub(crate) fn run(policy: &str, seed: u64) -> Result<Gave> {
    let workload = Workload::FsyncLoop { rounds: ROUNDS };
    let mkfs = volume(&workload, seed);
    let store = format!("sim:qemu-ssd:mem:{}", mkfs.size);
    let policy = preset(policy).with_context(|| format!("no policy {policy}"))?;
    let mut target = sim::mount(&store, &mkfs, policy, HostCosts::HURD_LOOP)?;
    let out = workload.run(&mut target, &Run { seed, limit: None, tick: &|_| () })?;
    Ok(Gave { seconds: out.work as f64 / 1e9, flushes: out.phases.work.syncs_sent() })
}
