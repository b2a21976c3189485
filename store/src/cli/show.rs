//! Texts of `info` and `stats`.

use super::parts::{self, TableText};
use crate::name::{AnyStore, format_size, profile_of};
use core::fmt::Write;
use seawall_blockdev::{BlockDev, CacheClass};
use seawall_ipc::storeproto::{Counters, Lost, Stats, sizes};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// What `info` prints; with `--json` these are the keys.
#[derive(Debug, serde::Serialize)]
pub(super) struct InfoText {
    store: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_model: Option<String>,
    size: u64,
    logical: u32,
    physical: u32,
    atomic_write: u32,
    max_io: u32,
    cache: &'static str,
    durable_sync: bool,
    fua: bool,
    order: bool,
    acked_survives_server_death: bool,
    read_only: bool,
    in_use_by_another_writer: bool,
    faulted: bool,
    acked: u64,
    durable: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_table: Option<TableText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_table_error: Option<String>,
}

pub(super) fn info_of(name: &str, store: &mut AnyStore, in_use: bool) -> InfoText {
    let (partition_table, partition_table_error) = match parts::table_of(store) {
        Some(Ok(table)) => (Some(table), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let caps = store.caps();
    let seqs = store.seqs();
    let served = store.served_name();
    let model = profile_of(served.as_deref().unwrap_or(name));
    InfoText {
        store: name.to_string(),
        served,
        device_model: model.map(|p| format!("{}: {}", p.name, p.about)),
        size: caps.size,
        logical: caps.logical,
        physical: caps.physical,
        atomic_write: caps.atomic_write,
        max_io: caps.max_io,
        cache: caps.cache.name(),
        durable_sync: CacheClass::can_promise(caps.cache),
        fua: caps.fua,
        order: caps.order,
        acked_survives_server_death: caps.acked_survives_server_death,
        read_only: device_is_read_only(store) && !in_use,
        in_use_by_another_writer: in_use,
        faulted: store.remote().is_some_and(|client| client.info().faulted),
        acked: seqs.acked.0,
        durable: seqs.durable.0,
        partition_table,
        partition_table_error,
    }
}

/// Of the store, not of the session that asks.
fn device_is_read_only(store: &AnyStore) -> bool {
    store.remote().map_or(store.caps().read_only, |client| client.info().read_only)
}

pub(super) fn info(i: &InfoText) -> String {
    let yes = |b: bool| if b { "yes" } else { "no" };
    let size = |n: u32| format_size(u64::from(n));
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.push(("store", i.store.clone()));
    if let Some(served) = &i.served {
        rows.push(("serves", served.clone()));
    }
    if let Some(model) = &i.device_model {
        rows.push(("device model", model.clone()));
    }
    rows.push(("size", format!("{} ({} bytes)", format_size(i.size), i.size)));
    rows.push(("block", format!("{} logical, {} physical", size(i.logical), size(i.physical))));
    rows.push(("atomic write", size(i.atomic_write)));
    rows.push(("largest request", size(i.max_io)));
    rows.push(("cache", i.cache.to_string()));
    let sync = match (i.faulted, i.durable_sync) {
        (true, _) => "fails: a flush failed and what it lost was not written again",
        (false, true) => "makes acknowledged writes durable",
        (false, false) => "not supported: nothing written here is promised to be durable",
    };
    rows.push(("sync", sync.to_string()));
    rows.push(("FUA, order", format!("{}, {}", yes(i.fua), yes(i.order))));
    rows.push(("survives server", yes(i.acked_survives_server_death).to_string()));
    let access = match (i.in_use_by_another_writer, i.read_only) {
        (true, _) => "in use by another writer",
        (false, true) => "read-only",
        (false, false) => "read and write",
    };
    rows.push(("access", access.to_string()));
    rows.push(("sequences", format!("{} acknowledged, {} durable", i.acked, i.durable)));
    if let Some(error) = &i.partition_table_error {
        rows.push(("partitions", error.clone()));
    }
    let mut out = rows.iter().fold(String::new(), |mut out, (key, value)| {
        let _a_string_takes_everything = writeln!(out, "{key:<16} {value}");
        out
    });
    if let Some(table) = &i.partition_table {
        parts::lines(&mut out, table);
    }
    out
}

pub(super) fn stats(s: &Stats) -> String {
    let mut out = String::new();
    line(&mut out, "total", &s.total);
    if s.flush_errors > 0 {
        let _a_string_takes_everything = writeln!(out, "failed flushes   {}", s.flush_errors);
    }
    for tag in &s.tags {
        line(&mut out, &format!("tag {}", tag.tag), &tag.counters);
    }
    for session in &s.sessions {
        let who = format!("session {} {}", session.session_id, session.client);
        line(&mut out, &who, &session.counters);
    }
    out
}

fn line(out: &mut String, who: &str, c: &Counters) {
    let _a_string_takes_everything = writeln!(
        out,
        "{who}\n  reads {} ({}), writes {} ({}), zeroed {} ({}), errors {}\n  \
         syncs {}: flushes {}, merged {}, skipped {}",
        c.reads,
        format_size(c.read_bytes),
        c.writes,
        format_size(c.write_bytes),
        c.zeroes,
        format_size(c.zero_bytes),
        c.errors,
        c.syncs,
        c.flushes,
        c.riders,
        c.skipped,
    );
    histogram(out, "read sizes", &c.read_sizes);
    histogram(out, "write sizes", &c.write_sizes);
}

fn histogram(out: &mut String, what: &str, sizes: &[(u8, u64)]) {
    if sizes.is_empty() {
        return;
    }
    let buckets: Vec<String> = sizes::edges(sizes)
        .into_iter()
        .map(|(edge, count)| format!("{}: {count}", format_size(edge)))
        .collect();
    let (large, bytes) = sizes::large(sizes);
    let from = format_size(sizes::LARGE);
    let (list, bytes) = (buckets.join(", "), format_size(bytes));
    let _a_string_takes_everything =
        writeln!(out, "  {what} {list}; of {from} and more: {large} ({bytes})");
}

/// What a cleared fault gave up: a line of counts, then offset and length of each run.
pub(super) fn lost(lost: &Lost) -> String {
    if lost.bytes == 0 {
        return "nothing was lost".into();
    }
    let (after, through) = (lost.after, lost.through);
    let bytes = format_size(lost.bytes);
    let mut text = format!("given up: {bytes} of the writes after {after} up to {through}\n");
    for (start, length) in &lost.runs {
        text += &format!("{start} {length}\n");
    }
    if lost.more {
        text += "and more\n";
    }
    text
}
