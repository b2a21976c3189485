//! The partitions in what `info` prints.

use crate::name::{AnyStore, format_size};
use crate::partition::{Disk, Partition, Table, TableError};
use core::fmt::Write;
use seawall_blockdev::{BlockDev, ReadRun, Tag};
use std::string::{String, ToString};
use std::vec::Vec;

/// A partition table; with `--json` these are the keys.
#[derive(Debug, serde::Serialize)]
pub(super) struct TableText {
    scheme: &'static str,
    /// What the table counts in, bytes.
    unit: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    partitions: Vec<PartText>,
}

/// One partition; sizes are bytes.
#[derive(Debug, serde::Serialize)]
struct PartText {
    number: u32,
    start: u64,
    size: u64,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    type_name: Option<&'static str>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The table of a store; `None` without one, or why it cannot be read.
pub(super) fn table_of(store: &mut AnyStore) -> Option<Result<TableText, String>> {
    let caps = store.caps();
    let unit = store.local().and_then(|local| local.backend().table_unit());
    let mut read = |start, buf: &mut [u8]| store.read(&mut [ReadRun { start, buf }], Tag(0));
    match Table::read(&mut Disk::new(&caps, unit, &mut read)) {
        Ok(table) => Some(Ok(table_text(&table))),
        Err(TableError::Absent(_) | TableError::Block(_)) => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

/// How many partitions a store's table names; 0 without one that can be read.
pub fn partitions_of(store: &mut AnyStore) -> usize {
    table_of(store).and_then(Result::ok).map_or(0, |table| table.partitions.len())
}

fn table_text(table: &Table) -> TableText {
    let backup = table.backup.map(|backup| backup.to_string());
    let chain = table.chain.map(|chain| chain.to_string());
    TableText {
        scheme: table.scheme.name(),
        unit: table.unit,
        warnings: backup.into_iter().chain(chain).collect(),
        partitions: table.partitions.iter().map(part_text).collect(),
    }
}

fn part_text(p: &Partition) -> PartText {
    PartText {
        number: p.number,
        start: p.run.start,
        size: p.run.len,
        r#type: p.kind.to_string(),
        type_name: p.kind.name(),
        name: p.name.clone(),
        problem: p.problem.map(|problem| problem.to_string()),
    }
}

/// A line for the table and one for each partition.
pub(super) fn lines(out: &mut String, table: &TableText) {
    let (scheme, unit) = (table.scheme, table.unit);
    let count = table.partitions.len();
    let _a_string_takes_everything = writeln!(
        out,
        "partitions       {scheme} in units of {unit} bytes, {count} in use; open as part:N:STORE"
    );
    for warning in &table.warnings {
        let _a_string_takes_everything = writeln!(out, "  warning: {warning}");
    }
    if count > 0 {
        let _a_string_takes_everything = writeln!(
            out,
            "  {:>3} {:>15} {:>15} {:>10}  TYPE, NAME",
            "N", "START", "BYTES", "SIZE"
        );
    }
    for p in &table.partitions {
        let (number, start, bytes, size) = (p.number, p.start, p.size, format_size(p.size));
        let kind = match p.type_name {
            Some(name) => std::format!("{} {name}", p.r#type),
            None => p.r#type.clone(),
        };
        let _a_string_takes_everything =
            write!(out, "  {number:>3} {start:>15} {bytes:>15} {size:>10}  {kind}");
        if !p.name.is_empty() {
            let _a_string_takes_everything = write!(out, ", \"{}\"", p.name);
        }
        if let Some(problem) = &p.problem {
            let _a_string_takes_everything = write!(out, "; unusable: {problem}");
        }
        out.push('\n');
    }
}
