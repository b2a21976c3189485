//! Policies and statistics as text.

use crate::protocol::{PolicyInfo, StatsReply};
use comfy_table::{CellAlignment, Table, presets};
use seawall_store::name::format_size;
use std::fmt::Write;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn durability(not_durable: Option<&String>) -> String {
    not_durable.map_or_else(|| "durable".to_string(), |why| format!("not durable: {why}"))
}

pub(super) fn policy(p: &PolicyInfo) -> String {
    let presets = p.presets.join(", ");
    let durable = durability(p.not_durable.as_ref());
    format!("policy {}, {durable}\n{}presets: {presets}\n", p.name, p.text)
}

pub(super) fn stats(s: &StatsReply) -> String {
    let durable = durability(s.not_durable.as_ref());
    let mode = if s.read_only { ", read-only" } else { "" };
    let mut out = format!("policy {}, cache {}, {durable}{mode}\n", s.policy, s.cache);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let head = ["site", "hits", "writes", "bytes", "syncs sent", "merged", "skipped", "failed"];
    table.set_header(head);
    for c in &s.sites {
        let numbers = [c.hits, c.writes, c.bytes, c.syncs_sent, c.syncs_merged];
        let numbers = numbers.into_iter().chain([c.syncs_skipped, c.syncs_failed]);
        let mut row: Vec<String> = [c.site.name().to_string()].into();
        row.extend(numbers.map(|n| n.to_string()));
        if let Some(bytes) = row.get_mut(3) {
            *bytes = format_size(c.bytes);
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Writing to a string cannot fail.
    let _ok = writeln!(out, "{table}");
    for c in &s.counters {
        let _ok = writeln!(out, "{}: {}", c.name, c.value);
    }
    out
}
