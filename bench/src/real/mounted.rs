//! Real mounts: programs and loops on a FUSE mount of a server of ours.
//!
//! A row is one workload under one policy: a store server, a new volume on it, a mount, the work,
//! `umount` and the end of the server. What a policy moves from the work to the unmount is in the
//! same row, and so are the Syncs it sent, by site, and the device flushes they became. What a
//! flush costs is the device model's number, or measured on the store before the volume is made.

mod act;
mod fio;
mod program;
mod report;
mod stage;
mod words;
mod work;

pub(crate) use report::{json, tables};
pub(crate) use work::{MOUNT_WORKLOADS, Work, is_mount_work};

use crate::image::Verdict;
use crate::job::{Progress, syncfs_is_durable};
use crate::outcome::{Counted, Latencies};
use crate::target::Nanos;
use anyhow::{Context, Result};
use seawall_blockdev::CacheClass;
use seawall_diskfs::Policy;
use seawall_diskfs::policy::preset;
use stage::{Flush, Stage};
use std::path::PathBuf;

/// Progress units of a row.
pub(crate) const ROW_UNITS: u64 = 100;

/// Filesystem of the mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `ext2srv`.
    Ext2,
    /// `fatsrv`.
    Fat,
}

impl Kind {
    /// As `--fs` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Fat => "fat",
        }
    }
}

/// What to run.
pub(crate) struct MountJob {
    /// Filesystem.
    pub(crate) kind: Kind,
    /// Presets; the first, or `hurd-vanilla`, is what the others are compared with.
    pub(crate) policies: Vec<String>,
    /// Workloads.
    pub(crate) works: Vec<Work>,
    /// STORE, which is formatted for each row.
    pub(crate) store: String,
    /// Makes file contents.
    pub(crate) seed: u64,
    /// Runs of each row.
    pub(crate) runs: u32,
    /// Folder for sockets, mounts and what programs need.
    pub(crate) dir: PathBuf,
}

/// What a workload did.
#[derive(Debug, Default)]
pub(crate) struct Did {
    /// Bytes of file content it wrote; 0: not known.
    pub(crate) bytes: u64,
    /// Times by call.
    pub(crate) calls: Latencies,
    /// What a reader has to know: the program's command line, its own figures.
    pub(crate) notes: Vec<String>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct MountRow {
    pub(crate) kind: Kind,
    pub(crate) workload: String,
    pub(crate) policy: String,
    pub(crate) store: String,
    pub(crate) cache: CacheClass,
    pub(crate) fsync_durable: bool,
    pub(crate) syncfs_durable: bool,
    /// Cost of a flush.
    pub(crate) flush: Flush,
    /// Until the work returned, ns.
    pub(crate) work: Nanos,
    /// Dirty file data in the server then, bytes.
    pub(crate) dirty: u64,
    /// From `umount` to the end of the server, ns.
    pub(crate) end: Nanos,
    /// Counters of the work.
    pub(crate) during: Counted,
    /// Counters of unmounting.
    pub(crate) after: Counted,
    pub(crate) did: Did,
    /// Work and end of each run, ns, in their order.
    pub(crate) totals: Vec<Nanos>,
    /// One-minute load average of the machine when the row began.
    pub(crate) load: String,
    pub(crate) verdict: Verdict,
}

impl MountRow {
    /// Work and unmount, ns.
    pub(crate) fn total(&self) -> Nanos {
        self.work.saturating_add(self.end)
    }

    /// Time of the device flushes of work and end, by the cost of one, ns.
    pub(crate) fn flush_time(&self, flushes: u64) -> Nanos {
        self.flush.nanos.saturating_mul(flushes)
    }
}

/// Runs all rows.
///
/// # Errors
/// The first row that failed, named.
pub(crate) fn rows(job: &MountJob, progress: &dyn Progress) -> Result<Vec<MountRow>> {
    let mut rows = Vec::new();
    for work in &job.works {
        for name in &job.policies {
            let policy = preset(name).with_context(|| format!("no policy {name}"))?;
            let label = format!("{} {} {name} (mount)", work.name(), job.kind.name());
            progress.row(&label);
            rows.push(row(job, work, &policy, progress).with_context(|| label)?);
        }
    }
    Ok(rows)
}

fn row(job: &MountJob, work: &Work, policy: &Policy, progress: &dyn Progress) -> Result<MountRow> {
    let mut done = Vec::new();
    for _ in 0..job.runs.max(1) {
        done.push(once(job, work, policy, progress)?);
    }
    let totals: Vec<Nanos> = done.iter().map(MountRow::total).collect();
    done.sort_by_key(MountRow::total);
    let bad = done.iter().find(|d| matches!(d.verdict, Verdict::Bad(_)));
    let bad = bad.map(|d| d.verdict.clone());
    let middle = done.len() / 2;
    let mut shown = done.into_iter().nth(middle).context("a row without a run")?;
    shown.totals = totals;
    shown.verdict = bad.unwrap_or(shown.verdict);
    Ok(shown)
}

fn once(job: &MountJob, work: &Work, policy: &Policy, progress: &dyn Progress) -> Result<MountRow> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_string();
    let mut stage = Stage::set(job, policy)?;
    let told = std::cell::Cell::new(0u64);
    let tick = |done: u64, of: u64| {
        let percent = (done.saturating_mul(ROW_UNITS) / of.max(1)).min(ROW_UNITS);
        progress.units(percent.saturating_sub(told.get()));
        told.set(told.get().max(percent));
    };
    let dir = stage.dir();
    let place = program::Place { dir: &dir, folder: &job.dir, seed: job.seed, tick: &tick };
    let before = stage.counted()?.0;
    let from = std::time::Instant::now();
    let did = work.run(&place)?;
    let work_time = nanos(from);
    let (now, dirty) = stage.counted()?;
    let during = now.since(&before);
    let from = std::time::Instant::now();
    stage.unmount()?;
    let end = nanos(from);
    let after = stage.counted_behind()?.since(&now);
    tick(1, 1);
    let (cache, flush, verdict) = (stage.cache(), stage.flush(), stage.finish(job.kind)?);
    Ok(MountRow {
        kind: job.kind,
        workload: work.name(),
        policy: policy.name.clone(),
        store: job.store.clone(),
        cache,
        fsync_durable: policy.fsync_is_durable() && cache.can_promise(),
        syncfs_durable: syncfs_is_durable(policy) && cache.can_promise(),
        flush,
        work: work_time,
        dirty,
        end,
        during,
        after,
        did,
        totals: Vec::new(),
        load,
        verdict,
    })
}

fn nanos(from: std::time::Instant) -> Nanos {
    u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
