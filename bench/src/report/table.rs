//! The tables: for each workload one that says what a policy costs, and one that says why.

use super::json::label;
use crate::job::{Mode, Row};
use crate::outcome::Counted;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// What the Hurd thread measured for `fsync-loop`, seconds per 1000 rounds.
const THREAD: &[(&str, f64)] = &[("hurd-vanilla", 0.75), ("hurd-full", 1.25)];

/// Rate that a row is compared with: `hurd-vanilla` of the same workload and time, else the first
/// policy.
pub(super) fn baseline(rows: &[Row], of: &Row) -> Option<f64> {
    let mut same = rows.iter().filter(|r| r.workload == of.workload && r.mode == of.mode);
    let first = same.clone().next();
    let base = same.find(|r| r.policy == "hurd-vanilla").or(first)?;
    Some(base.outcome.rate()).filter(|rate| *rate > 0.0)
}

/// All tables, a blank line between two.
pub fn tables(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut left: Vec<&Row> = rows.iter().collect();
    while let Some(first) = left.first().copied() {
        let same = |r: &&Row| r.workload == first.workload && r.mode == first.mode;
        let (group, rest): (Vec<&Row>, Vec<&Row>) = left.into_iter().partition(same);
        left = rest;
        let base = baseline(rows, first);
        let title = title(first);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{title}\n{}\n{}", price(&group, base), why(&group));
        for note in notes(&group) {
            let _ = writeln!(out, "  {note}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn title(r: &Row) -> String {
    let time = match &r.mode {
        Mode::Virtual(device) => format!("VIRTUAL TIME, device model {device}"),
        Mode::Real(_) => "REAL TIME, two server processes".to_string(),
    };
    format!(
        "{}: {time}; store {} ({}), {} caches, {} run{}",
        r.workload,
        r.store,
        r.cache,
        r.warmth,
        r.rates.len(),
        if r.rates.len() == 1 { "" } else { "s" }
    )
}

pub(crate) fn new_table(header: Vec<String>, left: &[usize]) -> Table {
    let mut t = Table::new();
    t.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for (i, column) in t.column_iter_mut().enumerate() {
        if !left.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    t
}

/// Policy, durability, speed, and the cost at the end.
fn price(group: &[&Row], base: Option<f64>) -> Table {
    let unit = group.first().map_or("units", |r| r.unit);
    let thread = group.iter().any(|r| thread_of(r).is_some());
    let runs = group.iter().any(|r| r.rates.len() > 1);
    let mut header: Vec<String> = ["policy", "fsync Ok is", "syncfs Ok is", unit, "work s"]
        .iter()
        .map(ToString::to_string)
        .collect();
    header.extend([format!("{unit}/s"), "MB/s".into(), "x vanilla".into()]);
    if thread {
        header.extend(["s/1000".into(), "thread".into()]);
    }
    if runs {
        header.push(format!("spread {unit}/s"));
    }
    let store = group.iter().any(|r| r.store_stop.is_some());
    header.extend(["end s".into(), "total s".into()]);
    if store {
        header.push("store s".into());
    }
    header.push("e2fsck -fn".into());
    let last = header.len().saturating_sub(1);
    let mut t = new_table(header, &[0, 1, 2, last]);
    for r in group {
        let o = &r.outcome;
        let done = if r.stopped_early() {
            format!("{} of {} in {:.1} s", o.done, o.planned, seconds(o.work))
        } else {
            o.done.to_string()
        };
        let ratio = base.map_or("-".into(), |b| format!("{:.3}", o.rate() / b));
        let mut cells = vec![
            r.policy.clone(),
            label(r.fsync_durable).into(),
            label(r.syncfs_durable).into(),
            done,
            format!("{:.3}", seconds(o.work)),
            format!("{:.0}", o.rate()),
            format!("{:.2}", o.megabytes()),
            ratio,
        ];
        if thread {
            let per_1000 = seconds(o.work) * 1000.0 / o.done.max(1) as f64;
            cells.push(format!("{per_1000:.3}"));
            cells.push(thread_of(r).map_or("-".into(), |s| format!("{s:.2}")));
        }
        if runs {
            let (low, high) = r.spread();
            cells.push(format!("{low:.0}-{high:.0}"));
        }
        cells.extend([format!("{:.3}", seconds(o.end)), format!("{:.3}", seconds(o.total()))]);
        if store {
            cells.push(r.store_stop.map_or("-".into(), |n| format!("{:.3}", seconds(n))));
        }
        cells.push(r.verdict.text());
        t.add_row(cells);
    }
    t
}

fn thread_of(r: &Row) -> Option<f64> {
    let looked_up = THREAD.iter().find(|(name, _)| *name == r.policy).map(|(_, s)| *s);
    looked_up.filter(|_| r.workload == "fsync-loop" && matches!(r.mode, Mode::Virtual(_)))
}

/// Requests, Syncs and times by call.
fn why(group: &[&Row]) -> Table {
    let calls: Vec<&str> = group
        .first()
        .map(|r| r.outcome.latencies.iter().map(|(op, _)| op.name()).collect())
        .unwrap_or_default();
    let mut header: Vec<String> =
        ["policy", "fsync Ok is", "writes", "mean KiB", "reads"].map(String::from).into();
    header.extend(["Syncs in work".into(), "Syncs at end".into()]);
    header.extend(calls.iter().map(|c| format!("{c} us")));
    let mut t = new_table(header, &[0, 1, 5, 6]);
    for r in group {
        let (requests, bytes) = r.outcome.writes();
        let mean = if requests == 0 { 0.0 } else { bytes as f64 / 1024.0 / requests as f64 };
        let (work, end) = (&r.outcome.phases.work, &r.outcome.phases.end);
        let mut cells = vec![
            r.policy.clone(),
            label(r.fsync_durable).into(),
            requests.to_string(),
            format!("{mean:.1}"),
            work.store.reads.saturating_add(end.store.reads).to_string(),
            syncs(work),
            syncs(end),
        ];
        let times: Vec<(&str, String)> = r
            .outcome
            .latencies
            .iter()
            .map(|(op, p)| (op.name(), format!("{}/{}", micros(p.p50_ns), micros(p.p99_ns))))
            .collect();
        for call in &calls {
            let found = times.iter().find(|(name, _)| name == call);
            cells.push(found.map_or("-".into(), |(_, text)| text.clone()));
        }
        t.add_row(cells);
    }
    t
}

/// `site sent/merged/skipped` of the sites that had a Sync to decide on.
pub(crate) fn syncs(c: &Counted) -> String {
    let list: Vec<String> = c
        .sites
        .iter()
        .filter(|(_, s)| s.syncs_sent + s.syncs_merged + s.syncs_skipped + s.syncs_failed > 0)
        .map(|(name, s)| {
            let failed = match s.syncs_failed {
                0 => String::new(),
                n => format!(" ({n} FAILED)"),
            };
            format!("{name} {}/{}/{}{failed}", s.syncs_sent, s.syncs_merged, s.syncs_skipped)
        })
        .collect();
    if list.is_empty() { "none".into() } else { list.join(", ") }
}

fn notes(group: &[&Row]) -> Vec<String> {
    let mut notes = vec![
        "Syncs: site sent/merged/skipped (sent to the store; joined another's; left out, all \
         durable). us: p50/p99."
            .to_string(),
    ];
    let Some(first) = group.first() else { return notes };
    let end = if first.workload == "tree" { "syncfs and unmount" } else { "unmount" };
    notes.push(format!(
        "end: {end} after the timed calls. writes, reads: requests of work and end together."
    ));
    if first.workload == "fsync-loop" {
        notes.push(
            "durable: the file's data and inode. Its name as well only with default and strict: \
             one more Sync per new file puts the inode before the name."
                .into(),
        );
    } else {
        notes.push(
            "default and strict put a Sync between two epochs; at periodic, when there were so \
             many that they were written during the copy."
                .into(),
        );
    }
    if let Some(costs) = first.costs {
        notes.push(format!(
            "Virtual time = device model + {:.2} ms per node made (declared; fitted to the \
             thread). The engine's processor time counts 0; the flusher runs in line.",
            costs.node as f64 / 1e6
        ));
        if first.workload == "fsync-loop" {
            notes.push(
                "thread: s/1000 that it measured. Its two numbers fix two costs of the model: \
                 agreement there is a fit, not a test. The other rows follow from counts."
                    .into(),
            );
        }
    } else {
        notes.push(
            "A real row stops after 3 s of timed calls. Each call is an RPC to ext2srv, which \
             talks to store over a second socket."
                .into(),
        );
        if first.rates.len() == 1 {
            notes.push(
                "One run a row, so no spread: rows with the same requests and Syncs differ by this \
                 machine's noise alone."
                    .into(),
            );
        }
        notes.push(
            "store s: stopping the store server after the unmount; its own last flush is in there. \
             Syncs at end: sent ones only, as the store saw them."
                .into(),
        );
    }
    notes
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn micros(nanos: u64) -> String {
    let us = nanos as f64 / 1e3;
    if us < 10.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}
