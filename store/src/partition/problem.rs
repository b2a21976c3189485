//! What is wrong with single partitions of a table that can be read.

use super::{Disk, Partition, Scheme, Table};
use alloc::vec::Vec;
use thiserror::Error;

/// Why a partition cannot be opened; reads on after "partition N".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// It leaves the device.
    #[error("ends at byte {end}, outside the device of {size} bytes")]
    OutOfDevice {
        /// One past its last byte.
        end: u64,
        /// Size of the device, bytes.
        size: u64,
    },
    /// Its last block is before its first.
    #[error("ends before it starts")]
    Backwards,
    /// It shares bytes with another one.
    #[error("overlaps partition {0}")]
    Overlap(u32),
    /// It shares bytes with the table.
    #[error("overlaps the partition table")]
    OnTable,
    /// A logical partition outside of the extended one.
    #[error("is a logical partition outside of extended partition {0}")]
    OutsideExtended(u32),
    /// It starts inside a block of the device.
    #[error("starts at byte {start}, which is no multiple of the device's block of {block} bytes")]
    Misaligned {
        /// First byte.
        start: u64,
        /// Logical block of the device, bytes.
        block: u32,
    },
    /// Not one whole block.
    #[error("is smaller than the device's block of {0} bytes")]
    Small(u32),
}

/// Looks at every partition of the table.
pub(super) fn find(table: &mut Table, disk: &Disk<'_>) {
    let block = disk.logical();
    for p in &mut table.partitions {
        let end = p.run.end().unwrap_or(u64::MAX);
        let found = if end > disk.size() {
            Some(Problem::OutOfDevice { end, size: disk.size() })
        } else if !p.run.start.is_multiple_of(u64::from(block)) {
            Some(Problem::Misaligned { start: p.run.start, block })
        } else if disk.whole_blocks(p.run.len) == 0 {
            Some(Problem::Small(block))
        } else {
            None
        };
        p.problem = p.problem.or(found);
    }
    overlaps(table);
    inside_extended(table);
}

/// Marks primary partitions that share a byte with an extended one.
fn inside_extended(table: &mut Table) {
    let is_container = |p: &&mut Partition| p.kind.is_extended();
    let (containers, others): (Vec<_>, Vec<_>) =
        table.partitions.iter_mut().filter(|p| p.number <= 4).partition(is_container);
    for p in others {
        let with = containers.iter().find(|c| c.run.overlaps(&p.run));
        p.problem = p.problem.or(with.map(|c| Problem::Overlap(c.number)));
    }
}

/// Marks both of two partitions that share a byte, and those that share one with the table.
///
/// In order of their starts, whatever shares a byte with anything before it also shares one with
/// the one that reached farthest, so one pass finds all of them.
fn overlaps(table: &mut Table) {
    let holds_data = |p: &Partition| !(table.scheme == Scheme::Mbr && p.kind.is_extended());
    let mut spans: Vec<(u64, u64, Option<usize>)> = Vec::new();
    for (index, p) in table.partitions.iter().enumerate().filter(|(_, p)| holds_data(p)) {
        spans.push((p.run.start, p.run.end().unwrap_or(u64::MAX), Some(index)));
    }
    for run in &table.reserved {
        spans.push((run.start, run.end().unwrap_or(u64::MAX), None));
    }
    spans.retain(|(start, end, _)| end > start);
    spans.sort_unstable();
    let mut farthest: Option<(u64, Option<usize>)> = None;
    for (start, end, who) in spans {
        if let Some((reached, other)) = farthest
            && start < reached
        {
            clash(&mut table.partitions, who, other);
            clash(&mut table.partitions, other, who);
        }
        if farthest.is_none_or(|(reached, _)| end > reached) {
            farthest = Some((end, who));
        }
    }
}

fn clash(partitions: &mut [Partition], of: Option<usize>, with: Option<usize>) {
    let other = with.and_then(|i| partitions.get(i)).map(|p| p.number);
    if let Some(p) = of.and_then(|i| partitions.get_mut(i)) {
        p.problem.get_or_insert(other.map_or(Problem::OnTable, Problem::Overlap));
    }
}
