//! The matrix: workloads by policies, in virtual and in real time.

use crate::image::{Verdict, check_image, dump};
use crate::outcome::Outcome;
use crate::real;
use crate::seed::Seed;
use crate::sim::{self, EPOCH_SECS, HostCosts};
use crate::target::Nanos;
use crate::workload::{Run, Workload};
use anyhow::{Context, Result};
use seawall_blockdev::BlockDev;
use seawall_diskfs::policy::{Action, OnError, preset};
use seawall_diskfs::{Policy, Site, Timestamp};
use seawall_ext2::MkfsOptions;
use std::path::PathBuf;

/// Timed calls of a real row stop after this long, ns.
pub(crate) const REAL_LIMIT: Nanos = 3_000_000_000;

/// Whose time a row is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Virtual time on this device profile.
    Virtual(String),
    /// Real time, through two server processes, on this STORE; `None`: an image in the job's
    /// folder.
    Real(Option<String>),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Presets, in the order of the tables. The first is what the others are compared with, unless
    /// `hurd-vanilla` is among them.
    pub policies: Vec<String>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Virtual, real or both.
    pub modes: Vec<Mode>,
    /// Everything that is drawn.
    pub seed: u64,
    /// Runs of each real row.
    pub runs: u32,
    /// Folder for images and sockets.
    pub dir: PathBuf,
}

/// One row: a workload under a policy.
#[derive(Debug)]
pub struct Row {
    /// Workload.
    pub workload: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Policy.
    pub policy: String,
    /// Whose time.
    pub mode: Mode,
    /// STORE.
    pub store: String,
    /// Its cache class.
    pub cache: &'static str,
    /// Ok from fsync means durable.
    pub fsync_durable: bool,
    /// Ok from syncfs means durable.
    pub syncfs_durable: bool,
    /// What the caches held when the clock started.
    pub warmth: &'static str,
    /// What the store server took to stop after the unmount, ns: its own last flush is in there.
    pub store_stop: Option<Nanos>,
    /// Declared host costs of a virtual row.
    pub costs: Option<HostCosts>,
    /// The run; with several, the one in the middle by rate.
    pub outcome: Outcome,
    /// Rate of each run.
    pub rates: Vec<f64>,
    /// What e2fsck says of the image.
    pub verdict: Verdict,
}

impl Row {
    /// True when the time was up before the workload was.
    pub fn stopped_early(&self) -> bool {
        self.outcome.done < self.outcome.planned
    }

    /// Lowest and highest rate of the runs.
    pub fn spread(&self) -> (f64, f64) {
        let low = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.rates.iter().copied().fold(0.0, f64::max);
        (low.min(high), high)
    }
}

/// True when Ok from syncfs means durable: a barrier, and a failed flush is not just a warning.
pub fn syncfs_is_durable(p: &Policy) -> bool {
    p.action(Site::Syncfs, true) >= Action::Fua && p.on_error != OnError::Warn
}

/// The volume that a workload gets: 4 KiB blocks and 256-byte inodes, as mke2fs makes them from
/// 512 MiB on.
pub fn volume(workload: &Workload, seed: u64) -> MkfsOptions {
    let (size, inodes) = workload.volume();
    let time = Timestamp { secs: EPOCH_SECS, nanos: 0 };
    let mut options = MkfsOptions::new(size, Seed::new(seed).uuid(), time);
    options.block_size = 4096;
    options.inodes = Some(inodes);
    options.label = *b"seawall-bench\0\0\0";
    options
}

/// Told of progress: the row that begins, and units done.
pub trait Progress {
    /// A row begins.
    fn row(&self, name: &str);
    /// So many units more are done or will not be.
    fn units(&self, n: u64);
}

impl Job {
    /// Units of all rows, for a progress bar.
    pub fn units(&self) -> u64 {
        let per_mode =
            |mode: &Mode| if matches!(mode, Mode::Real(_)) { self.runs.max(1) } else { 1 };
        let runs: u64 = self.modes.iter().map(|m| u64::from(per_mode(m))).sum();
        let planned: u64 = self.workloads.iter().map(Workload::planned).sum();
        planned.saturating_mul(runs).saturating_mul(self.policies.len() as u64)
    }
}

/// Runs all rows.
///
/// # Errors
/// The first row that failed, named.
pub fn rows(job: &Job, progress: &dyn Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for mode in &job.modes {
        for workload in &job.workloads {
            for name in &job.policies {
                let policy = preset(name).with_context(|| format!("no policy {name}"))?;
                let label = match mode {
                    Mode::Virtual(device) => format!("{} {name} ({device})", workload.name()),
                    Mode::Real(_) => format!("{} {name} (real)", workload.name()),
                };
                progress.row(&label);
                let made = match mode {
                    Mode::Virtual(device) => simulated(job, workload, policy, device, progress),
                    Mode::Real(store) => {
                        real::row(job, workload, &policy, store.as_deref(), progress)
                    }
                };
                rows.push(made.with_context(|| label)?);
            }
        }
    }
    Ok(rows)
}

fn simulated(
    job: &Job,
    workload: &Workload,
    policy: Policy,
    device: &str,
    progress: &dyn Progress,
) -> Result<Row> {
    let mkfs = volume(workload, job.seed);
    let store = format!("sim:{device}:mem:{}", mkfs.size);
    let costs = HostCosts::HURD_LOOP;
    let (fsync, syncfs) = (policy.fsync_is_durable(), syncfs_is_durable(&policy));
    let name = policy.name.clone();
    let mut target = sim::mount(&store, &mkfs, policy, costs)?;
    let tick = |n| progress.units(n);
    let outcome = workload.run(&mut target, &Run { seed: job.seed, limit: None, tick: &tick })?;
    let cache = target.store().caps().cache;
    let image = tempfile::NamedTempFile::new_in(&job.dir)
        .with_context(|| format!("--dir {}", job.dir.display()))?;
    dump(target.store(), image.path())?;
    let verdict = check_image(image.path())?;
    Ok(Row {
        workload: workload.name(),
        unit: workload.unit(),
        policy: name,
        mode: Mode::Virtual(device.into()),
        store,
        cache: cache.name(),
        fsync_durable: fsync && cache.can_promise(),
        syncfs_durable: syncfs && cache.can_promise(),
        warmth: workload.warmth(),
        costs: Some(costs),
        store_stop: None,
        rates: vec![outcome.rate()],
        outcome,
        verdict,
    })
}
