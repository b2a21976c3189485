//! The report for a terminal.

use super::Report;
use super::cells::{Values, Work};
use super::compare::{Compared, FAT_METRICS};
use super::ledger::{self, Place, place};
use super::session::SESSIONS;
use crate::host::EDGES;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// A table whose first `left` columns are text.
pub(super) fn new_table(header: &[&str], left: usize) -> Table {
    let mut t = Table::new();
    t.load_style(presets::ASCII_MARKDOWN).set_header(header.to_vec());
    for (i, column) in t.column_iter_mut().enumerate() {
        if i >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    t
}

/// A number with as many digits as it deserves.
pub(super) fn number(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

fn pair(theirs: Option<f64>, ours: Option<f64>) -> String {
    let text = |v: Option<f64>| v.map_or("-".into(), number);
    format!("{} / {}", text(theirs), text(ours))
}

/// The whole report.
///
/// # Errors
/// A row of the source without a place.
pub(super) fn text(r: &Report) -> Result<String> {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}\n", how(r));
    let _ = writeln!(out, "FAT: thread / ours\n{}\n", fat(r));
    let _ = writeln!(out, "FAT, 1000 files of 1 MiB, MB/s: thread / ours\n{}\n", small(r));
    let _ = writeln!(out, "Requests by size, ours, first seed\n{}\n", sizes(&r.values));
    let _ = writeln!(out, "f2fs (model allocator) and the Hurd's loop\n{}\n", others(r));
    let _ = writeln!(
        out,
        "Predictions: takes the inode, submits all, does not wait (fat-submit); nobody measured \
         it.\nTwo brackets: the waited-for directory entry queues behind the data, or passes it.\n\
         {}\n",
        predictions(&r.values)
    );
    let _ = writeln!(out, "Predictions: min_seq_blocks swept\n{}\n", sweep(&r.values));
    for (title, held_out) in [("FITTED values", false), ("HELD-OUT and waived values", true)] {
        let of = |c: &&Compared| (c.place != Place::Fitted) == held_out;
        let list: Vec<&Compared> = r.compared.iter().filter(of).collect();
        let _ = writeln!(out, "{title}\n{}\n", values(&list));
    }
    for s in &r.studies {
        let _ = writeln!(out, "Nobody measured: {}\n{}", s.title, study(s));
        for note in &s.notes {
            let _ = writeln!(out, "  {note}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "Relations\n{}\n", relations(r));
    let _ = writeln!(out, "Ledger of the source's rows\n{}", ledger_table()?);
    let _ = writeln!(out, "{}", waivers(r));
    out.push_str("Conclusions, made from the numbers above\n");
    let says = |s: &super::studies::Study| {
        let name = s.name;
        s.says.iter().map(|t| format!("{name}: {t}")).collect::<Vec<_>>()
    };
    let says = r.studies.iter().flat_map(says);
    for c in super::words::conclusions(r).into_iter().chain(says) {
        let _ = writeln!(out, "  {c}");
    }
    out.push('\n');
    let _ = writeln!(out, "{}", summary(r));
    Ok(out)
}

/// What the numbers are.
pub(super) fn how(r: &Report) -> String {
    let seeds: Vec<String> = r.seeds.iter().map(ToString::to_string).collect();
    format!(
        "VIRTUAL TIME. Seeds {}. MB/s is 10^6 B/s; KiB and MiB are binary. A mean over seeds \
         stands beside the mean of the thread's repetitions.\nFAT: the engine of fatsrv on a \
         simulated host and drive; Hurd: the engine of ext2srv; f2fs: a model allocator of this \
         program.\nThe drives and the host were fitted to these same tables, except the rows \
         called held out: agreement of a fitted value is a regression bound, not a test.",
        seeds.join(", ")
    )
}

/// Theirs, wherever one session has the value.
pub(super) fn theirs(r: &Report, at: (&str, &str, &str), work: Work, metric: &str) -> Option<f64> {
    let found = r.compared.iter().find(|c| {
        let k = &c.key;
        (k.device.as_str(), k.policy.as_str(), k.threshold.as_str()) == at
            && k.work == work
            && k.metric == metric
            && !c.is_range
    });
    found.map(|c| c.theirs)
}

fn fat(r: &Report) -> Table {
    let header = [
        "drive, threshold, variant",
        "MB/s",
        "requests",
        "mean KiB",
        "cp returns s",
        "dirty MiB",
        "in flight MiB",
        "umount s",
        "total s",
    ];
    let mut t = new_table(&header, 1);
    for s in SESSIONS {
        for column in ["5%", "256M"] {
            for policy in ["stock", "wait1", "wait0"] {
                let at = (s.drive, policy, column);
                let cell = |metric| {
                    let ours = r.values.fat(s.drive, policy, column, Work::Large, metric);
                    pair(theirs(r, at, Work::Large, metric), ours)
                };
                let mut row = vec![format!("{} {column} {policy}", s.drive)];
                row.extend(FAT_METRICS.map(cell));
                t.add_row(row);
            }
        }
    }
    t
}

fn small(r: &Report) -> Table {
    let mut t = new_table(&["drive", "stock", "wait1", "wait0", "submit (predicted)"], 1);
    for s in SESSIONS {
        let cell = |policy: &str| {
            let ours = r.values.fat(s.drive, policy, "5%", Work::Small, "throughput");
            pair(theirs(r, (s.drive, policy, "5%"), Work::Small, "throughput"), ours)
        };
        let mut row = vec![s.drive.to_string()];
        row.extend(["stock", "wait1", "wait0", "submit"].map(cell));
        t.add_row(row);
    }
    t
}

/// Names of the classes of request sizes.
pub(super) fn size_names() -> Vec<String> {
    let name = |e: u64| match e % 1024 {
        0 => format!("<={}", e / 1024),
        _ => format!("<{}", e.div_ceil(1024)),
    };
    let last = EDGES.last().map_or(0, |e| e.div_ceil(1024));
    EDGES.iter().map(|e| name(*e)).chain([format!(">={last}")]).collect()
}

fn sizes(values: &Values) -> Table {
    let names = size_names();
    let mut header = vec!["drive, threshold, variant (KiB)"];
    header.extend(names.iter().map(String::as_str));
    let mut t = new_table(&header, 1);
    for ((drive, policy, column), sizes) in &values.sizes {
        if column == "256M" && !policy.contains("elevator") {
            let mut row = vec![format!("{drive} {column} {policy}")];
            row.extend(sizes.iter().map(ToString::to_string));
            t.add_row(row);
        }
    }
    t
}

fn others(r: &Report) -> Table {
    let mut t = new_table(&["value", "thread", "ours", "error"], 1);
    for c in r.compared.iter().filter(|c| matches!(c.key.work, Work::Osync | Work::Loop)) {
        t.add_row(vec![
            c.name(),
            format!("{} {}", number(c.theirs), c.unit),
            c.ours.map_or("-".into(), number),
            c.error().map_or("-".into(), |e| format!("{:+.1} %", e * 100.0)),
        ]);
    }
    t
}

fn predictions(values: &Values) -> Table {
    let header = [
        "drive, threshold",
        "MB/s",
        "cp returns s",
        "in flight MiB",
        "umount s",
        "total s",
        "requests",
        "small files MB/s",
    ];
    let mut t = new_table(&header, 1);
    for s in SESSIONS {
        for column in ["5%", "256M"] {
            let bracket = |metric| {
                let of = |policy| values.fat(s.drive, policy, column, Work::Large, metric);
                match (of("submit"), of("submit, elevator")) {
                    (Some(a), Some(b)) if number(a) == number(b) => number(a),
                    (Some(a), Some(b)) => format!("{} - {}", number(a), number(b)),
                    _ => "-".into(),
                }
            };
            let mut row = vec![format!("{} {column}", s.drive)];
            let metrics =
                ["throughput", "cp_returns", "in_flight_at_close", "umount", "total", "requests"];
            row.extend(metrics.map(bracket));
            let small = values.fat(s.drive, "submit", "5%", Work::Small, "throughput");
            row.push(if column == "5%" { small.map_or("-".into(), number) } else { "".into() });
            t.add_row(row);
        }
    }
    t
}

fn sweep(values: &Values) -> Table {
    let header =
        ["min_seq_blocks (4 KiB each; a write has 256)", "MiB/s", "requests a minute", "4 KiB %"];
    let mut t = new_table(&header, 1);
    for blocks in [64, 128, 255, 256, 257, 384, 512] {
        let of = |metric| {
            let (device, policy) = ("ufs".into(), "serialize-by-size".into());
            let threshold = format!("min_seq_blocks={blocks}");
            let key = super::cells::Key { device, policy, threshold, work: Work::Osync, metric };
            values.mean(&key).map_or("-".into(), number)
        };
        t.add_row(vec![blocks.to_string(), of("throughput"), of("requests"), of("share_4KiB")]);
    }
    t
}

fn values(list: &[&Compared]) -> Table {
    let header = [
        "value",
        "unit",
        "n",
        "thread",
        "range",
        "ours",
        "spread",
        "error",
        "tolerance",
        "verdict",
    ];
    let mut t = new_table(&header, 2);
    for c in list {
        let range = if c.range.0 < c.range.1 {
            format!("{}-{}", number(c.range.0), number(c.range.1))
        } else {
            String::new()
        };
        let spread = match c.ours {
            Some(_) if c.spread.0 < c.spread.1 => {
                format!("{}-{}", number(c.spread.0), number(c.spread.1))
            }
            _ => String::new(),
        };
        t.add_row(vec![
            c.name(),
            c.unit.clone(),
            c.repetitions.to_string(),
            if c.is_range { "range".into() } else { number(c.theirs) },
            range,
            c.ours.map_or("-".into(), number),
            spread,
            c.error().map_or("-".into(), |e| format!("{:+.1} %", e * 100.0)),
            c.tolerance.text(&c.unit),
            c.verdict().into(),
        ]);
    }
    t
}

fn study(s: &super::studies::Study) -> Table {
    let header: Vec<&str> = s.header.iter().map(String::as_str).collect();
    let mut t = new_table(&header, 1);
    for row in &s.rows {
        t.add_row(row.clone());
    }
    t
}

fn relations(r: &Report) -> Table {
    let mut t = new_table(&["n", "relation", "found", ""], 4);
    t.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    for x in &r.relations {
        let verdict = if x.holds { "holds" } else { "FAILS" };
        t.add_row(vec![x.number.to_string(), x.claim.into(), x.found.clone(), verdict.into()]);
    }
    t
}

fn ledger_table() -> Result<Table> {
    let mut t = new_table(&["place", "rows"], 1);
    for (name, n) in ledger::counts()? {
        t.add_row(vec![name.to_string(), n.to_string()]);
    }
    Ok(t)
}

/// Reasons of waivers, each once, with what it covers.
pub(super) fn waived(r: &Report) -> Vec<(&'static str, Vec<String>)> {
    let mut out: Vec<(&'static str, Vec<String>)> = Vec::new();
    let compared = r.compared.iter().map(|c| (c.place, c.name()));
    let rows = ledger::rows().unwrap_or_default().iter();
    let rest = rows.filter_map(|row| Some((place(row)?, format!("{} {}", row.device, row.metric))));
    for (p, name) in compared.chain(rest) {
        let Place::Waived(why) = p else { continue };
        match out.iter_mut().find(|(w, _)| *w == why) {
            Some((_, list)) if !list.contains(&name) && name.matches(' ').count() > 1 => {
                list.push(name);
            }
            Some(_) => {}
            None => out.push((why, vec![name])),
        }
    }
    out
}

fn waivers(r: &Report) -> String {
    let mut out = String::from("Waived by name:\n");
    for (why, list) in waived(r) {
        let _ = writeln!(out, "  {}: {why}", list.join("; "));
    }
    out
}

/// Root of the mean square of the relative errors, and how many are inside.
fn fit(list: &[&Compared]) -> (f64, usize) {
    let errors: Vec<f64> = list.iter().filter_map(|c| c.error()).collect();
    let square: f64 = errors.iter().map(|e| e * e).sum();
    let inside = list.iter().filter(|c| c.is_inside()).count();
    ((square / errors.len().max(1) as f64).sqrt(), inside)
}

/// Counts for the last lines.
pub(super) fn summary(r: &Report) -> String {
    let mut out = String::new();
    for (name, which) in [("fitted", Place::Fitted), ("held out", Place::HeldOut)] {
        let list: Vec<&Compared> = r.compared.iter().filter(|c| c.place == which).collect();
        let (_, inside) = fit(&list);
        let _ = writeln!(out, "{name}: {inside} of {} values inside their tolerance", list.len());
    }
    for metric in ["throughput", "cp_returns", "total", "requests", "request_avg"] {
        let list: Vec<&Compared> = r
            .compared
            .iter()
            .filter(|c| c.place == Place::Fitted && c.key.metric == metric)
            .collect();
        let (rms, _) = fit(&list);
        let _ = writeln!(out, "  rms error, {metric}: {:.1} % of {}", rms * 100.0, list.len());
    }
    let holds = r.relations.iter().filter(|x| x.holds).count();
    let _ = writeln!(out, "relations: {holds} of {} hold", r.relations.len());
    if r.seeds.len() > 1
        && let Some((most, key)) = r.seed_effect()
    {
        let name = key.text();
        let verdict = if most <= 0.02 { "" } else { " (MORE than 2 %)" };
        let _ = writeln!(
            out,
            "another seed moves nothing by more than {:.2} %: {name}{verdict}",
            most * 100.0
        );
    }
    for c in r.compared.iter().filter(|c| c.fails()) {
        let ours = c.ours.map_or("-".into(), number);
        let _ = writeln!(out, "FAIL {}: thread {}, ours {ours}", c.name(), number(c.theirs));
    }
    for x in r.relations.iter().filter(|x| !x.holds) {
        let _ = writeln!(out, "FAILS relation {}: {}: {}", x.number, x.claim, x.found);
    }
    out.push_str(if r.passes() { "PASS\n" } else { "FAIL\n" });
    out
}
