//! MBR: four entries of the first sector, and the chain of logical partitions.
//!
//! An entry of type 05, 0F or 85 is an extended partition. Its first sector has a table of the same
//! shape: data partitions, counted from that sector, and one link to the next such sector, counted
//! from the start of the extended partition. Only the numbers in it say where the chain goes, so a
//! link that leaves the extended partition, comes back, or is the 257th ends the walk, and with it
//! the trust in all logical partitions: one that was read wrong is somebody else's data.

use super::{Disk, PartKind, Partition, Problem, Scheme, Table};
use alloc::string::String;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Run};
use thiserror::Error;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Longest chain of extended boot records: Linux has at most 256 partitions on a disk.
const CHAIN_MAX: usize = 256;
/// Type of an entry that guards a GPT.
const PROTECTIVE: u8 = 0xEE;

/// One entry, 16 bytes. Cylinders, heads and sectors are ignored, as everywhere.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Entry {
    boot: u8,
    chs_first: [u8; 3],
    kind: u8,
    chs_last: [u8; 3],
    start: U32,
    len: U32,
}

/// A boot record, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    code: [u8; 446],
    entries: [Entry; 4],
    signature: [u8; 2],
}

const _: () = assert!(size_of::<Record>() == 512 && size_of::<Entry>() == 16);

/// What is wrong with the chain of logical partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChainError {
    /// A link to a record that was read before.
    #[error("the chain of logical partitions comes back to byte {0}")]
    Loop(u64),
    /// More records than a disk can have partitions.
    #[error("the chain of logical partitions has more than 256 links")]
    Long,
    /// A link that leaves the extended partition or the device.
    #[error("the chain of logical partitions leaves extended partition {extended} to byte {to}")]
    Outside {
        /// Number of the extended partition.
        extended: u32,
        /// Where the link goes, bytes.
        to: u64,
    },
    /// No boot record where the chain goes.
    #[error("the chain of logical partitions has no boot record (55 AA) at byte {0}")]
    Signature(u64),
    /// The device failed.
    #[error("reading the chain of logical partitions at byte {at}: {cause}")]
    Read {
        /// Offset, bytes.
        at: u64,
        /// Why.
        cause: DevError,
    },
}

impl Entry {
    fn is_used(&self) -> bool {
        self.len.get() != 0
    }

    fn is_extended(&self) -> bool {
        PartKind::Mbr(self.kind).is_extended()
    }

    /// Bytes; `from` is what its start is counted from.
    fn run(&self, from: u64, unit: u32) -> Run {
        let bytes = |n: U32| u64::from(n.get()).saturating_mul(u64::from(unit));
        Run::new(from.saturating_add(bytes(self.start)), bytes(self.len))
    }

    fn partition(&self, number: u32, run: Run) -> Partition {
        let kind = PartKind::Mbr(self.kind);
        Partition { number, run, kind, name: String::new(), problem: None }
    }
}

/// The entries of the first sector, or why it has none.
pub(super) fn entries(sector: &[u8]) -> Result<[Entry; 4], &'static str> {
    let Ok((record, _)) = Record::read_from_prefix(sector) else {
        return Err("the device has no whole sector");
    };
    if record.signature != [0x55, 0xAA] {
        return Err("the first sector does not end in 55 AA");
    }
    if record.entries.iter().any(|e| e.boot & 0x7F != 0) {
        return Err("the first sector is a boot sector without a table");
    }
    if is_volume(sector) && !record.entries.iter().any(Entry::is_used) {
        return Err("the first sector is that of a volume without partitions");
    }
    Ok(record.entries)
}

/// True for the boot sector of a FAT, NTFS or exFAT volume.
fn is_volume(sector: &[u8]) -> bool {
    let jump = matches!(sector.first(), Some(0xEB | 0xE9));
    let bytes = match sector.get(11..13) {
        Some(&[low, high]) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    let exfat = sector.get(3..11) == Some(b"EXFAT   ");
    jump && (exfat || matches!(bytes, 512 | 1024 | 2048 | 4096))
}

/// True when the table belongs to a GPT, also beside other entries (hybrid).
pub(super) fn is_gpt(entries: &[Entry; 4]) -> bool {
    entries.iter().any(|e| e.kind == PROTECTIVE)
}

/// Reads what hangs on the four entries.
pub(super) fn read(disk: &mut Disk<'_>, entries: &[Entry; 4], unit: u32) -> Table {
    let mut table = Table {
        scheme: Scheme::Mbr,
        unit,
        partitions: Vec::new(),
        reserved: Vec::from([Run::new(0, u64::from(unit))]),
        backup: None,
        chain: None,
    };
    let mut next = 5u32;
    for (number, entry) in (1u32..).zip(entries).filter(|(_, e)| e.is_used()) {
        let run = entry.run(0, unit);
        table.partitions.push(entry.partition(number, run));
        if entry.is_extended() && table.chain.is_none() {
            let extended = Extended { number, run };
            table.chain = walk(disk, &mut table, &extended, &mut next).err();
        }
    }
    table.partitions.sort_by_key(|p| p.number);
    table
}

struct Extended {
    number: u32,
    run: Run,
}

impl Extended {
    /// True when all of `run` is inside.
    fn holds(&self, run: Run) -> bool {
        let end = self.run.end().unwrap_or(u64::MAX);
        run.start >= self.run.start && run.end().is_some_and(|last| last <= end)
    }
}

/// Follows the chain of one extended partition. `table.reserved` has the records that were read,
/// of all chains.
fn walk(
    disk: &mut Disk<'_>,
    table: &mut Table,
    extended: &Extended,
    next: &mut u32,
) -> Result<(), ChainError> {
    let unit = table.unit;
    let mut here = Run::new(extended.run.start, u64::from(unit));
    let mut reach = extended.run.len;
    loop {
        let at = here.start;
        if !extended.holds(here) {
            return Err(ChainError::Outside { extended: extended.number, to: at });
        }
        if table.reserved.iter().any(|r| r.start == at) {
            return Err(ChainError::Loop(at));
        }
        if table.reserved.len() > CHAIN_MAX {
            return Err(ChainError::Long);
        }
        table.reserved.push(here);
        let sector = disk.bytes(at, 512).map_err(|cause| match cause {
            DevError::OutOfRange => ChainError::Outside { extended: extended.number, to: at },
            cause => ChainError::Read { at, cause },
        })?;
        let record = Record::read_from_prefix(&sector).map(|(record, _)| record);
        let Some(record) = record.ok().filter(|r| r.signature == [0x55, 0xAA]) else {
            return Err(ChainError::Signature(at));
        };
        for (slot, entry) in record.entries.iter().enumerate() {
            if !entry.is_used() || entry.is_extended() {
                continue;
            }
            let run = entry.run(at, unit);
            let inside = extended.holds(run);
            // The third and fourth sometimes hold garbage: they count where they make sense.
            if slot >= 2 && !(inside && entry.run(0, unit).end().is_some_and(|e| e <= reach)) {
                continue;
            }
            let mut found = entry.partition(*next, run);
            found.problem = (!inside).then_some(Problem::OutsideExtended(extended.number));
            table.partitions.push(found);
            *next = next.saturating_add(1);
        }
        let Some(link) = record.entries.iter().find(|e| e.is_used() && e.is_extended()) else {
            return Ok(());
        };
        let to = link.run(extended.run.start, unit);
        (here, reach) = (Run::new(to.start, u64::from(unit)), to.len);
    }
}
