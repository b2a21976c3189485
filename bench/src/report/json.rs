//! The JSON form: `{"provenance": .., "rows": [..]}`. Virtual rows repeat to the byte for a seed
//! and a commit; everything that does not is in `provenance` or in real rows.

use crate::job::{Mode, Row};
use crate::provenance::Provenance;
use serde_json::{Map, Value, json as value};

/// The whole report.
pub fn json(provenance: &Provenance, rows: &[Row]) -> Value {
    let list: Vec<Value> = rows.iter().map(|r| row(r, super::table::baseline(rows, r))).collect();
    value!({ "provenance": provenance, "rows": list })
}

fn row(r: &Row, base: Option<f64>) -> Value {
    let o = &r.outcome;
    let calls: Map<String, Value> =
        o.latencies.iter().map(|(op, p)| (op.name().to_string(), value!(p))).collect();
    let (requests, bytes) = o.writes();
    let (low, high) = r.spread();
    let (mode, device) = match &r.mode {
        Mode::Virtual(device) => ("virtual", device.as_str()),
        Mode::Real(_) => ("real", "host"),
    };
    value!({
        "workload": r.workload,
        "policy": r.policy,
        "durability": {
            "fsync": label(r.fsync_durable),
            "syncfs": label(r.syncfs_durable),
        },
        "time": mode,
        "device": device,
        "store": r.store,
        "cache_class": r.cache,
        "caches": r.warmth,
        "host_costs_ns": r.costs.map(|c| value!({ "node": c.node })),
        "runs": r.rates.len(),
        "spread": { "low": low, "high": high },
        "unit": r.unit,
        "planned": o.planned,
        "completed": o.done,
        "stopped_early": r.stopped_early(),
        "content_bytes": o.bytes,
        "work_ns": o.work,
        "end_ns": o.end,
        "total_ns": o.total(),
        "store_stop_ns": r.store_stop,
        "per_second": o.rate(),
        "mb_per_second": o.megabytes(),
        "ratio_to_baseline": base.map(|b| o.rate() / b),
        "write_requests": requests,
        "mean_write_bytes": if requests == 0 { 0.0 } else { bytes as f64 / requests as f64 },
        "calls": calls,
        "phases": o.phases,
        "e2fsck": r.verdict,
    })
}

/// The label that no speed goes without.
pub(crate) fn label(durable: bool) -> &'static str {
    if durable { "durable" } else { "not durable" }
}
