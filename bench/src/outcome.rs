//! What a run gave: times, operations and counters, by phase.

use crate::target::Nanos;
use hdrhistogram::Histogram;
use seawall_diskfs::{FsStats, Site, SiteStats};
use seawall_store::Counters;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters since a mount, or of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Sites that were hit or wrote or synced something, by name, in report order.
    pub sites: Vec<(&'static str, SiteStats)>,
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that were started again because a block was missing.
    pub restarts: u64,
    /// Requests as the store saw them.
    pub store: Counters,
}

impl Counted {
    /// From a filesystem and a store.
    pub fn new(fs: &FsStats, store: Counters) -> Self {
        let sites = Site::ALL.iter().map(|s| (s.name(), fs.site(*s))).collect();
        Self { sites, commits: fs.commits, restarts: fs.restarts, store }
    }

    /// A site's counters.
    pub fn site(&self, site: Site) -> SiteStats {
        let found = self.sites.iter().find(|(name, _)| *name == site.name());
        found.map(|(_, s)| *s).unwrap_or_default()
    }

    /// Syncs sent at all sites.
    pub fn syncs_sent(&self) -> u64 {
        self.sites.iter().map(|(_, s)| s.syncs_sent).sum()
    }

    /// What happened since `before`, which is an earlier state of the same mount.
    pub fn since(&self, before: &Counted) -> Counted {
        let sites = self
            .sites
            .iter()
            .map(|(name, s)| {
                let old = before.sites.iter().find(|(n, _)| n == name).map(|(_, s)| *s);
                (*name, site_since(s, &old.unwrap_or_default()))
            })
            .filter(|(_, s)| *s != SiteStats::default())
            .collect();
        Counted {
            sites,
            commits: self.commits.saturating_sub(before.commits),
            restarts: self.restarts.saturating_sub(before.restarts),
            store: store_since(&self.store, &before.store),
        }
    }
}

fn site_since(now: &SiteStats, old: &SiteStats) -> SiteStats {
    SiteStats {
        hits: now.hits.saturating_sub(old.hits),
        writes: now.writes.saturating_sub(old.writes),
        bytes: now.bytes.saturating_sub(old.bytes),
        syncs_sent: now.syncs_sent.saturating_sub(old.syncs_sent),
        syncs_merged: now.syncs_merged.saturating_sub(old.syncs_merged),
        syncs_skipped: now.syncs_skipped.saturating_sub(old.syncs_skipped),
        syncs_failed: now.syncs_failed.saturating_sub(old.syncs_failed),
    }
}

/// What a store did since `old`.
pub(crate) fn store_since(now: &Counters, old: &Counters) -> Counters {
    Counters {
        reads: now.reads.saturating_sub(old.reads),
        read_bytes: now.read_bytes.saturating_sub(old.read_bytes),
        writes: now.writes.saturating_sub(old.writes),
        write_bytes: now.write_bytes.saturating_sub(old.write_bytes),
        zeroes: now.zeroes.saturating_sub(old.zeroes),
        zero_bytes: now.zero_bytes.saturating_sub(old.zero_bytes),
        syncs: now.syncs.saturating_sub(old.syncs),
        flushes: now.flushes.saturating_sub(old.flushes),
        riders: now.riders.saturating_sub(old.riders),
        skipped: now.skipped.saturating_sub(old.skipped),
        errors: now.errors.saturating_sub(old.errors),
        read_sizes: sizes_since(&now.read_sizes, &old.read_sizes),
        write_sizes: sizes_since(&now.write_sizes, &old.write_sizes),
    }
}

fn sizes_since(now: &[(u8, u64)], old: &[(u8, u64)]) -> Vec<(u8, u64)> {
    let before: BTreeMap<u8, u64> = old.iter().copied().collect();
    now.iter()
        .map(|(log, n)| (*log, n.saturating_sub(before.get(log).copied().unwrap_or(0))))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// A call of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    Create,
    Write,
    Fsync,
    Close,
    Mkdir,
    Symlink,
}

impl Op {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Fsync => "fsync",
            Self::Close => "close",
            Self::Mkdir => "mkdir",
            Self::Symlink => "symlink",
        }
    }
}

/// Longest time that a histogram keeps apart, ns: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Times by call.
#[derive(Debug, Default)]
pub struct Latencies(BTreeMap<Op, Histogram<u64>>);

impl Latencies {
    /// Notes one call's time, ns. Three digits are kept.
    pub fn note(&mut self, op: Op, nanos: Nanos) {
        let h = match self.0.entry(op) {
            std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::btree_map::Entry::Vacant(e) => {
                // The bounds are constants that the type accepts.
                let Ok(h) = Histogram::new_with_bounds(1, LONGEST, 3) else { return };
                e.insert(h)
            }
        };
        h.saturating_record(nanos);
    }

    /// Calls that were made.
    pub fn iter(&self) -> impl Iterator<Item = (Op, Percentiles)> {
        self.0.iter().map(|(op, h)| (*op, Percentiles::of(h)))
    }

    /// One call's numbers.
    pub fn get(&self, op: Op) -> Option<Percentiles> {
        self.0.get(&op).map(Percentiles::of)
    }
}

/// Numbers of one call, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Calls.
    pub count: u64,
    /// Half of them took at most this.
    pub p50_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Percentiles {
    fn of(h: &Histogram<u64>) -> Self {
        let at = |q| h.value_at_quantile(q);
        Self { count: h.len(), p50_ns: at(0.5), p99_ns: at(0.99), max_ns: h.max() }
    }
}

/// Counters by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// Mount and warm-up, not timed.
    pub setup: Counted,
    /// The timed calls.
    pub work: Counted,
    /// What follows the last call: syncfs where the workload has one, and unmount.
    pub end: Counted,
}

/// One run of a workload.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Units (rounds or files) that were asked for.
    pub planned: u64,
    /// Units done before the time was up.
    pub done: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// Time of the calls.
    pub work: Nanos,
    /// Time of what follows.
    pub end: Nanos,
    /// Times by call.
    pub latencies: Latencies,
    /// Counters by phase.
    pub phases: Phases,
}

impl Outcome {
    /// Units a second of the timed calls.
    pub fn rate(&self) -> f64 {
        per_second(self.done as f64, self.work)
    }

    /// Decimal megabytes a second of the timed calls.
    pub fn megabytes(&self) -> f64 {
        per_second(self.bytes as f64 / 1e6, self.work)
    }

    /// Work and end together: a cost that was moved is in here.
    pub fn total(&self) -> Nanos {
        self.work.saturating_add(self.end)
    }

    /// Requests and bytes of the timed calls and of what follows.
    pub fn writes(&self) -> (u64, u64) {
        let (w, e) = (&self.phases.work.store, &self.phases.end.store);
        (w.writes.saturating_add(e.writes), w.write_bytes.saturating_add(e.write_bytes))
    }
}

fn per_second(n: f64, nanos: Nanos) -> f64 {
    if nanos == 0 { 0.0 } else { n * 1e9 / nanos as f64 }
}
