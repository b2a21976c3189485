//! What nobody measured, in virtual time: predictions, each with its assumptions.

use super::cells::{VARIANTS, Work, copy_of, parallel, variant};
use super::copy::{self, Copy};
use super::f2fs::{self, Fio};
use super::pull;
use super::race;
use super::session::SESSIONS;
use super::tables::number;
use anyhow::Result;
use std::borrow::Cow;

/// A table, and what may be drawn from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Study {
    /// Short name, for CSV.
    pub(crate) name: &'static str,
    /// One line.
    pub(crate) title: String,
    /// What is assumed.
    pub(crate) notes: Vec<String>,
    /// Columns; the first is text.
    pub(crate) header: Vec<String>,
    /// Rows.
    pub(crate) rows: Vec<Vec<String>>,
    /// Curves, each with its name and drive.
    pub(crate) curves: Vec<Curve>,
    /// What it says, made from the numbers.
    pub(crate) says: Vec<String>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// Which plot it belongs to.
    pub(crate) plot: String,
    /// Its name.
    pub(crate) name: String,
    /// Points.
    pub(crate) points: Vec<(f64, f64)>,
}

fn strings<const N: usize>(list: [&str; N]) -> Vec<String> {
    list.map(String::from).to_vec()
}

/// Runs that [`all`] tells of.
pub(crate) const UNITS: u64 = 16 + 16 + 8 + 8 + map::UNITS;

/// All studies.
///
/// # Errors
/// A run that failed, named.
pub(crate) fn all(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Vec<Study>> {
    Ok(vec![
        pull::study(seed, tick)?,
        no_sleep(seed, tick)?,
        turn(seed, tick)?,
        race::study(seed, tick)?,
        map::study(seed, tick)?,
    ])
}

/// 1000 small files with no sleep at close.
fn no_sleep(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Study> {
    let jobs: Vec<_> = SESSIONS.iter().flat_map(|s| VARIANTS.map(|p| (*s, p))).collect();
    let rates = parallel(&jobs, tick, |(s, p)| {
        let c = copy_of(*s, p, "5%", Work::Small, seed)?;
        Ok(copy::run(&Copy { linger: Some(0), ..c })?.rate())
    })?;
    let mut out = Study {
        name: "no_sleep",
        title: "1000 files of 1 MiB with the 100 ms sleep of each close at 0, MB/s".into(),
        notes: strings(["The sleep hides every difference below 100 ms a file."]),
        header: strings(["drive", "stock", "wait1", "wait0", "submit", "best / worst"]),
        ..Study::default()
    };
    for (s, rates) in SESSIONS.iter().zip(rates.chunks(VARIANTS.len())) {
        let best = rates.iter().copied().fold(0.0, f64::max);
        let worst = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let mut row = vec![s.drive.to_string()];
        row.extend(rates.iter().map(|r| number(*r)));
        row.push(format!("{:.2}", best / worst));
        out.rows.push(row);
        let wins: Vec<&str> = VARIANTS
            .iter()
            .zip(rates)
            .filter(|(_, r)| **r >= best * 0.99)
            .map(|(p, _)| variant(p, false))
            .collect();
        out.says.push(format!(
            "{}: without the sleep {} files a second at best ({}), {} at worst",
            s.drive,
            number(best * 1e6 / f64::from(1 << 20)),
            wins.join(", "),
            number(worst * 1e6 / f64::from(1 << 20)),
        ));
    }
    Ok(out)
}

/// Eight writers of 512 KiB to 2 MiB against the filesystem's turn.
fn turn(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Study> {
    let base = Fio { write: 512 << 10, spread: 4, runtime: 10_000_000_000, ..Fio::THREAD };
    let mut jobs = Vec::new();
    for crypto in [true, false] {
        for (name, min_seq_blocks) in [("no turn", u64::MAX), ("2 MiB", 512), ("512 KiB", 128)] {
            jobs.push((name, crypto, Fio { crypto, min_seq_blocks, ..base }));
        }
    }
    let patch = Fio { serialize_crypto: true, min_seq_blocks: u64::MAX, ..base };
    jobs.push(("inline-crypto inodes", true, patch));
    jobs.push(("inline-crypto inodes", false, Fio { crypto: false, ..patch }));
    let gave = parallel(&jobs, tick, |(_, _, fio)| Ok(f2fs::run(fio, seed)))?;
    let mut out = Study {
        name: "turn",
        title: "8 writers of 512 KiB to 2 MiB (O_SYNC) against the filesystem's turn, UFS, model \
                allocator"
            .into(),
        notes: strings([
            "Sizes are 512 KiB times 1 to 4, drawn. Who takes the turn: inodes with at least so \
             much dirty. A page costs its writer 2 us (declared): with turns that adds up in one \
             line, without it runs on eight processors.",
        ]),
        header: strings([
            "encryption, who takes the turn",
            "MiB/s",
            "p99 of a write ms",
            "mean KiB",
        ]),
        ..Study::default()
    };
    let mut best: Vec<(bool, &str, f64, f64)> = Vec::new();
    for ((name, crypto, _), g) in jobs.iter().zip(&gave) {
        let rate = g.bytes as f64 / f64::from(1 << 20) / g.seconds;
        let mean = g.sent as f64 / 1024.0 / g.requests[0].max(1) as f64;
        let on = if *crypto { "encrypted" } else { "plain" };
        out.rows.push(vec![format!("{on}, {name}"), number(rate), number(g.p99), number(mean)]);
        best.push((*crypto, name, rate, g.p99));
    }
    for crypto in [true, false] {
        let of = |name: &str| best.iter().find(|b| b.0 == crypto && b.1 == name).copied();
        if let (Some(none), Some(low), Some(high)) = (of("no turn"), of("512 KiB"), of("2 MiB")) {
            let on = if crypto { "with encryption" } else { "without encryption" };
            out.says.push(format!(
                "{on}, lowering the threshold from 2 MiB to 512 KiB changes throughput by \
                 {:+.0} % and p99 by {:+.0} % (no turn at all: {} MiB/s, p99 {} ms)",
                (low.2 / high.2 - 1.0) * 100.0,
                (low.3 / high.3 - 1.0) * 100.0,
                number(none.2),
                number(none.3),
            ));
        }
    }
    Ok(out)
}

mod map {
    //! The map of drives.

    use super::super::session::Session;
    use super::{
        Cow, Result, SESSIONS, Study, VARIANTS, Work, copy, copy_of, number, parallel, strings,
        variant,
    };
    use crate::host::consts::MS;
    use seawall_store::sim::{PNY32, Profile};

    const COMMANDS_US: [u64; 4] = [50, 500, 5_000, 37_000];
    const SLOTS: [u32; 2] = [2, 32];
    const FLUSHES_MS: [u64; 2] = [1, 20];
    /// Large and small of every variant, and small of `removable` for each flush cost.
    pub(crate) const UNITS: u64 = 4 * 2 * (4 * 2 + 2);

    #[derive(Clone, Copy)]
    struct Point {
        command_us: u64,
        slots: u32,
        flush_ms: u64,
        policy: &'static str,
        work: Work,
    }

    fn points() -> Vec<Point> {
        let mut out = Vec::new();
        for command_us in COMMANDS_US {
            for slots in SLOTS {
                for policy in VARIANTS {
                    for work in [Work::Large, Work::Small] {
                        out.push(Point { command_us, slots, flush_ms: 1, policy, work });
                    }
                }
                for flush_ms in FLUSHES_MS {
                    let (policy, work) = ("removable", Work::Small);
                    out.push(Point { command_us, slots, flush_ms, policy, work });
                }
            }
        }
        out
    }

    /// Seconds: of the large file until unmount is over, of a small file between two.
    fn time(p: &Point, seed: u64) -> Result<f64> {
        let host = SESSIONS.first().copied().unwrap_or(Session::PLAIN);
        let mut c = copy_of(host, p.policy, "256M", p.work, seed)?;
        c.setup.drive = Profile {
            name: Cow::Borrowed("map"),
            rate: 60_000_000,
            write_command: p.command_us * 1000,
            flush_command: p.flush_ms * MS,
            slots: p.slots,
            ..PNY32
        };
        if p.work == Work::Small {
            (c.files, c.linger) = (100, Some(0));
            return Ok(copy::run(&c)?.cp as f64 / 1e9 / 100.0);
        }
        c.bytes = 1 << 30;
        Ok(copy::run(&c)?.total as f64 / 1e9)
    }

    /// What a variant costs beside the winner, where it costs most.
    struct Regret {
        policy: &'static str,
        work: Work,
        more: f64,
        at: String,
    }

    /// One row, and the regrets in it.
    fn row(all: &[(Point, f64)], command_us: u64, slots: u32) -> (Vec<String>, Vec<Regret>) {
        let of = |policy: &str, work, flush_ms| {
            let at = all.iter().find(|(p, _)| {
                (p.command_us, p.slots, p.flush_ms) == (command_us, slots, flush_ms)
                    && (p.policy, p.work) == (policy, work)
            });
            at.map_or(f64::NAN, |(_, t)| *t)
        };
        let name = format!("{} ms, {slots} slots", command_us as f64 / 1000.0);
        let (mut row, mut regrets) = (vec![name.clone()], Vec::new());
        for (work, unit) in [(Work::Large, 1.0), (Work::Small, 1000.0)] {
            let list = VARIANTS.map(|p| of(p, work, 1));
            let best = list.iter().copied().fold(f64::INFINITY, f64::min);
            row.push(number(best * unit));
            for (policy, t) in VARIANTS.iter().zip(list) {
                let more = t / best - 1.0;
                row.push(format!("{:+.0} %", more * 100.0));
                regrets.push(Regret { policy, work, more, at: name.clone() });
            }
            if work == Work::Small {
                for flush in FLUSHES_MS {
                    let t = of("removable", work, flush);
                    row.push(format!("{:+.0} %", (t / best - 1.0) * 100.0));
                }
            }
        }
        (row, regrets)
    }

    fn says(regrets: &[Regret]) -> Vec<String> {
        let most = |policy: &str, work| {
            let mine = regrets.iter().filter(|r| r.policy == policy && r.work == work);
            mine.max_by(|a, b| a.more.total_cmp(&b.more))
        };
        let one = |policy: &&'static str| {
            let (large, small) = most(policy, Work::Large).zip(most(policy, Work::Small))?;
            Some(format!(
                "{}: at worst {:.0} % slower than the winner with a large file, copy and unmount \
                 together ({}), and {:.0} % with small files and no sleep ({})",
                variant(policy, false),
                large.more * 100.0,
                large.at,
                small.more * 100.0,
                small.at
            ))
        };
        let mut out: Vec<String> = VARIANTS.iter().filter_map(one).collect();
        let worst = |p| most(p, Work::Large).map_or(f64::NAN, |r| r.more);
        let small = most("fat-wait1", Work::Small).map_or(f64::NAN, |r| r.more);
        out.push(format!(
            "so no slowdown for other drives? With large files none on this map: wait1 is within \
             {:.0} % of the best everywhere, stock is up to {:.0} % off. With small files waiting \
             does cost, up to {:.0} %, which the 100 ms sleep hides today",
            worst("fat-wait1") * 100.0,
            worst("fat-stock") * 100.0,
            small * 100.0
        ));
        out
    }

    pub(super) fn study(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Study> {
        let points = points();
        let times = parallel(&points, tick, |p| time(p, seed))?;
        let all: Vec<(Point, f64)> = points.into_iter().zip(times).collect();
        let mut out = Study {
            name: "map",
            title: "The map of drives: which variant wins, and what each costs beside the winner"
                .into(),
            notes: strings([
                "Drives of 60 MB/s that differ in command cost, slots and flush cost. Large: 1 \
                 GiB at 256M, copy and unmount together, so that a cost moved counts. Small: a \
                 file of 1 MiB with no sleep. The four variants send no flush at close, so its \
                 cost does not touch them; `removable` sends one, with flushes of 1 and 20 ms. \
                 What a variant has made safe by then is another matter: see the pulled stick.",
            ]),
            header: strings([
                "command, slots",
                "large: best s",
                "stock",
                "wait1",
                "wait0",
                "submit",
                "small: best ms",
                "stock",
                "wait1",
                "wait0",
                "submit",
                "removable 1 ms",
                "removable 20 ms",
            ]),
            ..Study::default()
        };
        let mut regrets = Vec::new();
        for command_us in COMMANDS_US {
            for slots in SLOTS {
                let (line, mut more) = row(&all, command_us, slots);
                out.rows.push(line);
                regrets.append(&mut more);
            }
        }
        out.says = says(&regrets);
        Ok(out)
    }
}
