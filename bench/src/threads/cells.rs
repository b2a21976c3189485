//! The runs: what is simulated, each independent of the others, and what each gives.

use super::compare::metric;
use super::copy::{self, Copied, Copy};
use super::f2fs::{self, Fio};
use super::hurd;
use super::session::{SESSIONS, SURVEY, Session};
use crate::host::Setup;
use crate::host::consts::MS;
use anyhow::{Context, Result};
use seawall_store::sim::Profile;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names a value: drive, variant, threshold, workload, metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) device: String,
    pub(crate) policy: String,
    pub(crate) threshold: String,
    pub(crate) work: Work,
    pub(crate) metric: &'static str,
}

impl Key {
    /// As one text.
    pub(crate) fn text(&self) -> String {
        let work = match self.work {
            Work::Large => "large file",
            Work::Small => "1000 x 1 MiB",
            Work::Osync => "8 x O_SYNC",
            Work::Loop => "fsync loop",
        };
        format!("{} {} {} {work} {}", self.device, self.threshold, self.policy, self.metric)
    }
}

/// Workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// One large file.
    Large,
    /// 1000 files of 1 MiB.
    Small,
    /// fio, 8 threads, O_SYNC.
    Osync,
    /// 1000 rounds of create, write, fsync, close.
    Loop,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell {
    /// A copy on FAT; the last: metadata that is waited for passes queued data.
    Fat(Session, &'static str, &'static str, Work, bool),
    /// The f2fs load with this policy.
    F2fs(&'static str, Fio),
    /// The Hurd's loop under this preset.
    Hurd(&'static str),
}

/// Values by name, one for each seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    map: BTreeMap<Key, Vec<f64>>,
    /// Requests by size of the large copies.
    pub(crate) sizes: BTreeMap<(String, String, String), [u64; 10]>,
}

/// The thread's name of a preset.
pub(crate) fn variant(preset: &str, elevator: bool) -> &str {
    match preset {
        "fat-submit" if elevator => "submit, elevator",
        "fat-submit" => "submit",
        p => p.trim_start_matches("fat-"),
    }
}

/// Presets of the thread's three variants, and the one that it proposes at its end.
pub(crate) const VARIANTS: [&str; 4] = ["fat-stock", "fat-wait1", "fat-wait0", "fat-submit"];

/// All cells of the tables. `short`: few and small ones, for tests.
pub(crate) fn all(short: bool) -> Vec<Cell> {
    let mut out = Vec::new();
    for s in SESSIONS {
        for column in ["5%", "256M"] {
            for preset in VARIANTS {
                out.push(Cell::Fat(s, preset, column, Work::Large, false));
            }
            out.push(Cell::Fat(s, "fat-submit", column, Work::Large, true));
        }
        for preset in VARIANTS {
            out.push(Cell::Fat(s, preset, "5%", Work::Small, false));
        }
        if s.usb {
            for preset in ["fat-stock", "fat-wait1"] {
                out.push(Cell::Fat(s, preset, "default", Work::Large, false));
                out.push(Cell::Fat(s, preset, "default", Work::Small, false));
            }
        }
    }
    for s in SURVEY {
        for preset in ["fat-stock", "fat-wait1"] {
            out.push(Cell::Fat(s, preset, "default", Work::Large, false));
            out.push(Cell::Fat(s, preset, "default", Work::Small, false));
        }
    }
    if short {
        out.retain(
            |c| matches!(c, Cell::Fat(s, _, "256M", Work::Large, false) if s.drive == "evo870"),
        );
    }
    for (name, fio) in f2fs::table(short) {
        out.push(Cell::F2fs(name, fio));
    }
    out.extend([Cell::Hurd("hurd-vanilla"), Cell::Hurd("hurd-full")]);
    out
}

/// The copy of a cell.
///
/// # Errors
/// An unknown drive.
pub(crate) fn copy_of(
    s: Session,
    preset: &'static str,
    column: &str,
    work: Work,
    seed: u64,
) -> Result<Copy> {
    let setup = Setup {
        drive: Profile::find(&s.drive.replace('_', "-"))
            .with_context(|| format!("no drive {}", s.drive))?,
        threshold: s.threshold(column),
        limit: u64::MAX / 4,
        period: Session::period_ms(column) * MS,
        seed,
        elevator: false,
    };
    let (files, bytes) = if work == Work::Small { (1000, 1 << 20) } else { (1, s.bytes) };
    Ok(Copy { policy: preset, setup, fill: s.fill, files, bytes, linger: None })
}

enum Gave {
    Fat(Box<Copied>),
    F2fs(f2fs::Gave),
    Hurd(hurd::Gave),
}

fn run(cell: Cell, seed: u64) -> Result<Gave> {
    match cell {
        Cell::Fat(s, preset, column, work, elevator) => {
            let mut c = copy_of(s, preset, column, work, seed)?;
            c.setup.elevator = elevator;
            let what = || format!("{} {preset} {column}", s.drive);
            Ok(Gave::Fat(Box::new(copy::run(&c).with_context(what)?)))
        }
        Cell::F2fs(_, fio) => Ok(Gave::F2fs(f2fs::run(&fio, seed))),
        Cell::Hurd(preset) => Ok(Gave::Hurd(hurd::run(preset, seed).context(preset)?)),
    }
}

/// Runs jobs on all processors; results in the order of the jobs.
///
/// # Errors
/// The first, by order.
pub(crate) fn parallel<J: Sync, T: Send>(
    jobs: &[J],
    tick: &(dyn Fn() + Sync),
    run: impl Fn(&J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((at, job)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(at).map(|j| (at, j))
                } {
                    let result = run(job);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                    tick();
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, r)| r).collect()
}

/// Runs every cell once for each seed.
///
/// # Errors
/// The first cell that failed, named.
pub(crate) fn values(cells: &[Cell], seeds: &[u64], tick: &(dyn Fn() + Sync)) -> Result<Values> {
    let jobs: Vec<(Cell, u64)> =
        cells.iter().flat_map(|c| seeds.iter().map(|s| (*c, *s))).collect();
    let gave = parallel(&jobs, tick, |(cell, seed)| run(*cell, *seed))?;
    let mut out = Values::default();
    for ((cell, seed), gave) in jobs.iter().zip(gave) {
        out.note(*cell, &gave, seeds.first() == Some(seed));
    }
    Ok(out)
}

impl Values {
    fn put(&mut self, key: Key, value: f64) {
        self.map.entry(key).or_default().push(value);
    }

    fn note(&mut self, cell: Cell, gave: &Gave, first: bool) {
        match (cell, gave) {
            (Cell::Fat(s, preset, column, work, elevator), Gave::Fat(c)) => {
                let name = variant(preset, elevator);
                let key = |metric| Key {
                    device: s.drive.into(),
                    policy: name.into(),
                    threshold: column.into(),
                    work,
                    metric,
                };
                for (metric, value) in c.metrics() {
                    self.put(key(metric), value);
                }
                if first && work == Work::Large {
                    let at = (s.drive.into(), name.into(), column.into());
                    self.sizes.insert(at, c.sent.sizes);
                }
            }
            (Cell::F2fs(name, fio), Gave::F2fs(g)) => {
                let threshold = format!("min_seq_blocks={}", fio.min_seq_blocks);
                for (metric, value) in g.metrics() {
                    let (device, policy) = ("ufs".into(), name.into());
                    let threshold = threshold.clone();
                    self.put(Key { device, policy, threshold, work: Work::Osync, metric }, value);
                }
            }
            (Cell::Hurd(preset), Gave::Hurd(g)) => {
                for (metric, value) in [("run_time", g.seconds), ("flushes", g.flushes as f64)] {
                    let (device, threshold) = ("qemu-ssd (cache none)".into(), "n/a".into());
                    let policy = preset.into();
                    self.put(Key { device, policy, threshold, work: Work::Loop, metric }, value);
                }
            }
            _ => {}
        }
    }

    /// One value for each seed.
    pub(crate) fn each(&self, key: &Key) -> Option<&[f64]> {
        self.map.get(key).map(Vec::as_slice)
    }

    /// The mean over seeds.
    pub(crate) fn mean(&self, key: &Key) -> Option<f64> {
        let v = self.each(key)?;
        Some(v.iter().sum::<f64>() / v.len().max(1) as f64)
    }

    /// The mean of a value of the FAT tables.
    pub(crate) fn fat(
        &self,
        device: &str,
        policy: &str,
        threshold: &str,
        work: Work,
        metric: &'static str,
    ) -> Option<f64> {
        let (device, policy) = (device.into(), policy.into());
        self.mean(&Key { device, policy, threshold: threshold.into(), work, metric })
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &[f64])> {
        self.map.iter().map(|(k, v)| (k, v.as_slice()))
    }

    /// The most that a value of the tables moves between seeds, and which it is: relative to its
    /// mean, a share in points. What is small beside the absolute part of its tolerance does not
    /// count, nor what is waived.
    pub(crate) fn seed_effect(&self, waived: &[&Key]) -> Option<(f64, &Key)> {
        let counts = |k: &Key| metric(k.metric).is_some() && !waived.contains(&k);
        let all = self.map.iter().filter(|(k, _)| counts(k)).map(|(k, v)| (moved(k, v), k));
        all.max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

fn moved(k: &Key, v: &[f64]) -> f64 {
    let mean = v.iter().sum::<f64>() / v.len().max(1) as f64;
    let most = v.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    let least = match k.metric {
        "dirty_at_close" => 40.0,
        "in_flight_at_close" => 360.0,
        "umount" => 5.0,
        "share_ge512KiB" | "share_4KiB" | "share_8KiB" => return most / 100.0,
        _ => 0.0,
    };
    if mean <= least { 0.0 } else { most / mean }
}
