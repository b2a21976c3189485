//! Tables and JSON of mounted rows.

use super::words::{baseline, words};
use super::{MountRow, Nanos};
use crate::outcome::Counted;
use crate::provenance::Provenance;
use crate::report::{label, new_table, syncs};
use seawall_store::sizes;
use serde_json::{Map, Value, json as value};
use std::fmt::Write;

/// All tables, a blank line between two.
pub(crate) fn tables(rows: &[MountRow]) -> String {
    let mut out = String::new();
    let mut left: Vec<&MountRow> = rows.iter().collect();
    while let Some(first) = left.first().copied() {
        let same = |r: &&MountRow| r.workload == first.workload;
        let (group, rest): (Vec<&MountRow>, Vec<&MountRow>) = left.into_iter().partition(same);
        left = rest;
        let runs = first.totals.len();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{}: REAL TIME, {} on a FUSE mount; store {} ({}), {runs} run{}",
            first.workload,
            first.kind.name(),
            first.store,
            first.cache.name(),
            if runs == 1 { "" } else { "s" }
        );
        let _ = writeln!(out, "{}\n{}", price(&group), why(&group));
        for line in words(&group) {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn price(group: &[&MountRow]) -> String {
    let runs = group.iter().any(|r| r.totals.len() > 1);
    let names =
        ["policy", "fsync Ok is", "syncfs Ok is", "work s", "dirty MiB", "unmount s", "total s"];
    let mut header: Vec<String> = names.iter().map(ToString::to_string).collect();
    if runs {
        header.push("spread s".into());
    }
    let names = ["MB/s", "writes", "mean KiB", ">=768K %", "load", "check"];
    header.extend(names.iter().map(ToString::to_string));
    let last = header.len().saturating_sub(1);
    let mut t = new_table(header, &[0, 1, 2, last]);
    for r in group {
        let (count, bytes, large) = written(r);
        let mut cells = vec![
            r.policy.clone(),
            label(r.fsync_durable).into(),
            label(r.syncfs_durable).into(),
            seconds(r.work),
            format!("{:.1}", r.dirty as f64 / f64::from(1 << 20)),
            seconds(r.end),
            seconds(r.total()),
        ];
        if runs {
            let (low, high) = (r.totals.iter().min(), r.totals.iter().max());
            let text = |n: Option<&Nanos>| seconds(n.copied().unwrap_or(0));
            cells.push(format!("{}-{}", text(low), text(high)));
        }
        let share = |part: u64, of: u64| {
            if of == 0 { "-".into() } else { format!("{:.1}", 100.0 * part as f64 / of as f64) }
        };
        cells.extend([
            megabytes(r).map_or("-".into(), |m| format!("{m:.1}")),
            count.to_string(),
            format!("{:.1}", bytes as f64 / 1024.0 / count.max(1) as f64),
            share(large, bytes),
            r.load.clone(),
            r.verdict.text(),
        ]);
        t.add_row(cells);
    }
    t.to_string()
}

fn why(group: &[&MountRow]) -> String {
    let calls: Vec<&str> = group
        .first()
        .map(|r| r.did.calls.iter().map(|(op, _)| op.name()).collect())
        .unwrap_or_default();
    let names = ["policy", "Syncs in work", "Syncs at end", "flushes", "x ms", "= s"];
    let mut header: Vec<String> = names.iter().map(ToString::to_string).collect();
    header.extend(calls.iter().map(|c| format!("{c} ms")));
    let mut t = new_table(header, &[0, 1, 2]);
    for r in group {
        let flushes = r.during.store.flushes;
        let mut cells = vec![
            r.policy.clone(),
            syncs(&r.during),
            syncs(&r.after),
            flushes.to_string(),
            format!("{:.3}", r.flush.nanos as f64 / 1e6),
            seconds(r.flush_time(flushes)),
        ];
        let ms = |nanos: u64| format!("{:.3}", nanos as f64 / 1e6);
        let times: Vec<(&str, String)> = r
            .did
            .calls
            .iter()
            .map(|(op, p)| (op.name(), format!("{}/{}", ms(p.p50_ns), ms(p.p99_ns))))
            .collect();
        for call in &calls {
            let found = times.iter().find(|(name, _)| name == call);
            cells.push(found.map_or("-".into(), |(_, text)| text.clone()));
        }
        t.add_row(cells);
    }
    t.to_string()
}

/// Requests written, their bytes, and the bytes in requests of 768 KiB and more.
fn written(r: &MountRow) -> (u64, u64, u64) {
    let of =
        |c: &Counted| (c.store.writes, c.store.write_bytes, sizes::large(&c.store.write_sizes).1);
    let (a, b) = (of(&r.during), of(&r.after));
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1), a.2.saturating_add(b.2))
}

/// File content by work and unmount together, MB/s.
fn megabytes(r: &MountRow) -> Option<f64> {
    (r.did.bytes > 0 && r.total() > 0).then(|| r.did.bytes as f64 * 1e3 / r.total() as f64)
}

pub(super) fn seconds(nanos: Nanos) -> String {
    format!("{:.3}", nanos as f64 / 1e9)
}

/// The whole report.
pub(crate) fn json(provenance: &Provenance, rows: &[MountRow]) -> Value {
    let list: Vec<Value> = rows.iter().map(|r| row(r, rows)).collect();
    value!({ "provenance": provenance, "rows": list })
}

fn row(r: &MountRow, rows: &[MountRow]) -> Value {
    let all: Vec<&MountRow> = rows.iter().filter(|o| o.workload == r.workload).collect();
    let calls: Map<String, Value> =
        r.did.calls.iter().map(|(op, p)| (op.name().to_string(), value!(p))).collect();
    let (count, bytes, large) = written(r);
    value!({
        "workload": r.workload,
        "filesystem": r.kind.name(),
        "policy": r.policy,
        "durability": {
            "fsync": label(r.fsync_durable),
            "syncfs": label(r.syncfs_durable),
        },
        "time": "real",
        "access": "mount",
        "store": r.store,
        "cache_class": r.cache.name(),
        "runs": r.totals.len(),
        "totals_ns": r.totals,
        "work_ns": r.work,
        "dirty_at_return_bytes": r.dirty,
        "unmount_ns": r.end,
        "total_ns": r.total(),
        "content_bytes": r.did.bytes,
        "mb_per_second": megabytes(r),
        "write_requests": count,
        "write_bytes": bytes,
        "bytes_in_requests_of_768_kib": large,
        "flush_ns": r.flush.nanos,
        "flush_cost_is": if r.flush.modelled { "modelled" } else { "measured" },
        "baseline": baseline(&all).map(|b| b.policy.clone()),
        "calls": calls,
        "phases": { "work": r.during, "end": r.after },
        "notes": r.did.notes,
        "load_average": r.load,
        "check": r.verdict,
    })
}
