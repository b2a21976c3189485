//! Workloads: what is run, once for the simulator and for real servers.
//!
//! A run has three phases, and each has its own counters: setup (not timed), the timed calls, and
//! what follows the last call (syncfs where the workload has one, then unmount). A cost that a
//! policy moves from a call to the end is therefore still in the row.

use crate::outcome::{Op, Outcome};
use crate::source::Tree;
use crate::target::{Nanos, Target};
use anyhow::{Result, bail};
use std::sync::Arc;

mod fsync_loop;
mod tree;

/// Rounds of `fsync-loop`.
pub const ROUNDS: u64 = 1000;

/// What to run.
#[derive(Clone, Debug)]
pub enum Workload {
    /// `rounds` times create, write 4 KiB, fsync, close; then unmount.
    FsyncLoop {
        /// How often.
        rounds: u64,
    },
    /// Copies a tree of real source files in, then syncfs and unmount.
    Tree(Arc<Tree>),
}

/// Names that `--workload` takes, with one line each.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("fsync-loop", "1000 x create, write 4 KiB, fsync, close; one directory; then unmount"),
    ("tree", "copy at least 2,000 real source files in (no fsync), then syncfs and unmount"),
];

impl Workload {
    /// A workload by name; `tree` is read only when it is wanted.
    ///
    /// # Errors
    /// An unknown name, naming what is accepted; `tree`'s.
    pub fn find(name: &str, tree: impl FnOnce() -> Result<Arc<Tree>>) -> Result<Self> {
        match name {
            "fsync-loop" => Ok(Self::FsyncLoop { rounds: ROUNDS }),
            "tree" => Ok(Self::Tree(tree()?)),
            _ => {
                let known: Vec<&str> = WORKLOADS.iter().map(|(n, _)| *n).collect();
                bail!("no workload {name}; there are {}", known.join(", "))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FsyncLoop { .. } => "fsync-loop",
            Self::Tree(_) => "tree",
        }
    }

    /// What it counts.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::FsyncLoop { .. } => "rounds",
            Self::Tree(_) => "files",
        }
    }

    /// What the caches hold when the clock starts.
    pub fn warmth(&self) -> &'static str {
        match self {
            Self::FsyncLoop { .. } => "warm",
            Self::Tree(_) => "cold",
        }
    }

    /// Units in a whole run.
    pub fn planned(&self) -> u64 {
        match self {
            Self::FsyncLoop { rounds } => *rounds,
            Self::Tree(tree) => tree.files().count() as u64,
        }
    }

    /// A volume that has room for it: (bytes, inodes).
    pub fn volume(&self) -> (u64, u32) {
        match self {
            Self::FsyncLoop { rounds } => {
                let inodes = u32::try_from(rounds.saturating_add(256)).unwrap_or(u32::MAX);
                (
                    rounds.saturating_mul(4096).saturating_add(48 << 20).next_multiple_of(16 << 20),
                    inodes,
                )
            }
            Self::Tree(tree) => {
                let nodes = tree.entries.len() as u64;
                // Each node may waste most of a block; a fifth more for tables and pointers.
                let bytes = tree.bytes().saturating_add(nodes.saturating_mul(8192));
                let bytes = bytes.saturating_add(bytes / 5).saturating_add(48 << 20);
                let inodes = nodes.saturating_add(nodes / 4).saturating_add(256);
                (bytes.next_multiple_of(16 << 20), u32::try_from(inodes).unwrap_or(u32::MAX))
            }
        }
    }

    /// Runs all three phases.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run<T: Target>(&self, t: &mut T, run: &Run<'_>) -> Result<Outcome> {
        let mut meter = Meter::new(run, self.planned());
        match self {
            Self::FsyncLoop { rounds } => fsync_loop::run(t, *rounds, &mut meter)?,
            Self::Tree(tree) => tree::run(t, tree, &mut meter)?,
        }
        Ok(meter.out)
    }
}

/// How a workload is run.
pub struct Run<'a> {
    /// Makes file contents.
    pub seed: u64,
    /// Timed calls stop after this long, ns.
    pub limit: Option<Nanos>,
    /// Called with the units done since the last call.
    pub tick: &'a dyn Fn(u64),
}

/// Times calls and splits counters by phase.
struct Meter<'a> {
    run: &'a Run<'a>,
    out: Outcome,
    started: Nanos,
    mark: crate::outcome::Counted,
}

impl<'a> Meter<'a> {
    fn new(run: &'a Run<'a>, planned: u64) -> Self {
        let out = Outcome { planned, ..Outcome::default() };
        Self { run, out, started: 0, mark: Default::default() }
    }

    /// Setup is over: the clock starts.
    fn begin<T: Target>(&mut self, t: &mut T) -> Result<()> {
        let now = t.counted()?;
        self.out.phases.setup = now.since(&self.mark);
        self.mark = now;
        self.started = t.now();
        Ok(())
    }

    /// Whether setup may go on: a limited run gives each part of it a sixth of its limit.
    fn may_warm<T: Target>(&self, t: &T, since: Nanos) -> bool {
        let spent = t.now().saturating_sub(since);
        self.run.limit.is_none_or(|limit| spent < limit / 6)
    }

    /// One call, timed.
    fn time<T: Target, R>(
        &mut self,
        t: &mut T,
        op: Op,
        call: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let from = t.now();
        let value = call(t)?;
        self.out.latencies.note(op, t.now().saturating_sub(from));
        Ok(value)
    }

    /// A unit is done. False: the time is up.
    fn unit<T: Target>(&mut self, t: &T, bytes: u64) -> bool {
        self.out.done = self.out.done.saturating_add(1);
        self.out.bytes = self.out.bytes.saturating_add(bytes);
        (self.run.tick)(1);
        let spent = t.now().saturating_sub(self.started);
        self.run.limit.is_none_or(|limit| spent < limit)
    }

    /// The timed calls are over: ends the mount, with a syncfs before it if wanted.
    fn end<T: Target>(&mut self, t: &mut T, syncfs: bool) -> Result<()> {
        self.out.work = t.now().saturating_sub(self.started);
        let now = t.counted()?;
        self.out.phases.work = now.since(&self.mark);
        self.mark = now;
        let from = t.now();
        if syncfs {
            t.syncfs()?;
        }
        t.unmount()?;
        self.out.end = t.now().saturating_sub(from);
        self.out.phases.end = t.counted()?.since(&self.mark);
        Ok(())
    }
}
