//! GPT: a header in the second block of the device, an array of entries, and a copy of both at the
//! end.
//!
//! Nothing of a header is used before its checksum, its own position, its bounds and the checksum
//! of its array are right. A damaged primary is replaced by the backup, and that is said. What an
//! LBA is depends on the disk: the size that the device states comes first, then the other one of
//! 512 and 4096, since an image of a disk with blocks of 4096 has nothing else that says so.

use super::crc32::crc32;
use super::{BackupInUse, Disk, PartKind, Partition, Problem, Scheme, Table, TableError};
use alloc::string::String;
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Run};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SIGNATURE: [u8; 8] = *b"EFI PART";
/// Largest array of entries, bytes; Linux has the same limit.
const ARRAY_MAX: u64 = 4 << 20;
/// Largest entry, bytes. The specification has 128 x 2^n, of which nobody uses more than 128.
const ENTRY_MAX: u32 = 4096;

/// A header; the rest of its block is zero.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    signature: [u8; 8],
    revision: U32,
    header_size: U32,
    header_crc32: U32,
    reserved: U32,
    my_lba: U64,
    alternate_lba: U64,
    first_usable_lba: U64,
    last_usable_lba: U64,
    disk_guid: [u8; 16],
    entries_lba: U64,
    entry_count: U32,
    entry_size: U32,
    entries_crc32: U32,
}

/// The first 128 bytes of an entry.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    kind: [u8; 16],
    guid: [u8; 16],
    first_lba: U64,
    last_lba: U64,
    attributes: U64,
    name: [U16; 36],
}

const _: () = assert!(size_of::<Header>() == 92 && size_of::<Entry>() == 128);

/// What is wrong with a header; reads on after "the header at byte N".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Something else stands there.
    #[error("is not there (no signature EFI PART)")]
    Signature,
    /// The device ends before it.
    #[error("is outside the device")]
    Outside,
    /// Its size is not possible.
    #[error("says that it has {0} bytes")]
    Size(u32),
    /// Its checksum does not match.
    #[error("has a wrong checksum")]
    Checksum,
    /// It was made for another place.
    #[error("says that it is at block {0}")]
    Place(u64),
    /// The blocks for partitions are not inside the device.
    #[error("says that partitions use blocks {first} to {last}")]
    Usable {
        /// First block.
        first: u64,
        /// Last block.
        last: u64,
    },
    /// The array cannot be like that.
    #[error("says that it has {count} entries of {size} bytes at block {at}")]
    Array {
        /// Number of entries.
        count: u32,
        /// Size of each, bytes.
        size: u32,
        /// First block.
        at: u64,
    },
    /// The checksum of the array does not match.
    #[error("has entries with a wrong checksum")]
    ArrayChecksum,
    /// The device failed.
    #[error("cannot be read: {0}")]
    Read(DevError),
}

/// A header that is right, with its array.
struct Good {
    unit: u32,
    header: Header,
    array: Vec<u8>,
}

/// Sizes that an LBA may have, the likely one first.
fn units(disk: &Disk<'_>) -> Vec<u32> {
    let known = disk.unit().unwrap_or(disk.logical());
    let mut units = Vec::from([known]);
    units.extend([512, 4096].into_iter().filter(|unit| *unit != known));
    units
}

/// Offset of a GPT header that no MBR points to.
pub(super) fn stray(disk: &mut Disk<'_>) -> Option<u64> {
    let units = units(disk);
    let found = units.into_iter().find(|unit| check(disk, *unit, 1).is_ok())?;
    Some(u64::from(found))
}

/// Reads the table that a protective or hybrid MBR announced.
pub(super) fn read(disk: &mut Disk<'_>) -> Result<Table, TableError> {
    let mut bad: Vec<(u32, HeaderError)> = Vec::new();
    for unit in units(disk) {
        match check(disk, unit, 1) {
            Ok(good) => return Ok(table(&good, None)),
            Err(why) => bad.push((unit, why)),
        }
    }
    let mut failed = Vec::new();
    for (unit, why) in bad {
        let lba = backup_lba(disk, unit);
        let (primary, at) = (u64::from(unit), lba.saturating_mul(u64::from(unit)));
        match check(disk, unit, lba) {
            Ok(good) => return Ok(table(&good, Some(BackupInUse { primary, why, backup: at }))),
            Err(backup_why) => {
                let error = TableError::Gpt { primary, primary_why: why, backup: at, backup_why };
                let seen = why != HeaderError::Signature || backup_why != HeaderError::Signature;
                failed.push((seen, error));
            }
        }
    }
    // The size for which anything of a GPT was seen is the one to talk about.
    let told = failed.iter().find(|(seen, _)| *seen).or(failed.first());
    Err(told.map_or(TableError::Absent("no GPT header"), |(_, error)| *error))
}

/// The last block; or where the primary says the backup is, if its header is right and only its
/// array is not: an image that was copied to a larger disk.
fn backup_lba(disk: &mut Disk<'_>, unit: u32) -> u64 {
    let last = (disk.size() / u64::from(unit.max(1))).saturating_sub(1);
    match header(disk, unit, 1) {
        Ok(header) if header.alternate_lba.get() <= last => header.alternate_lba.get(),
        _ => last,
    }
}

/// Reads a header and checks everything that does not need its array.
fn header(disk: &mut Disk<'_>, unit: u32, lba: u64) -> Result<Header, HeaderError> {
    let error = |cause| match cause {
        DevError::OutOfRange => HeaderError::Outside,
        cause => HeaderError::Read(cause),
    };
    let at = lba.checked_mul(u64::from(unit)).ok_or(HeaderError::Outside)?;
    let block = disk.bytes(at, unit as usize).map_err(error)?;
    let Ok((header, _)) = Header::read_from_prefix(&block) else {
        return Err(HeaderError::Outside);
    };
    if header.signature != SIGNATURE {
        return Err(HeaderError::Signature);
    }
    let size = header.header_size.get();
    let more = block.get(size_of::<Header>()..size as usize);
    let Some(more) = more.filter(|_| size <= unit) else { return Err(HeaderError::Size(size)) };
    let zeroed = Header { header_crc32: U32::new(0), ..header };
    if crc32(&[zeroed.as_bytes(), more]) != header.header_crc32.get() {
        return Err(HeaderError::Checksum);
    }
    if header.my_lba.get() != lba {
        return Err(HeaderError::Place(header.my_lba.get()));
    }
    let blocks = disk.size() / u64::from(unit.max(1));
    let (first, last) = (header.first_usable_lba.get(), header.last_usable_lba.get());
    if first > last || last >= blocks {
        return Err(HeaderError::Usable { first, last });
    }
    Ok(header)
}

/// Reads a header and its array and checks both.
fn check(disk: &mut Disk<'_>, unit: u32, lba: u64) -> Result<Good, HeaderError> {
    let header = header(disk, unit, lba)?;
    let (count, size) = (header.entry_count.get(), header.entry_size.get());
    let at = header.entries_lba.get();
    let bytes = u64::from(count).saturating_mul(u64::from(size));
    let shape = HeaderError::Array { count, size, at };
    let sizes = (size_of::<Entry>() as u32)..=ENTRY_MAX;
    if !size.is_power_of_two() || !sizes.contains(&size) || bytes == 0 || bytes > ARRAY_MAX {
        return Err(shape);
    }
    let start = at.checked_mul(u64::from(unit)).ok_or(shape)?;
    let len = usize::try_from(bytes).map_err(|_| shape)?;
    let array = disk.bytes(start, len).map_err(|cause| match cause {
        DevError::OutOfRange => shape,
        cause => HeaderError::Read(cause),
    })?;
    if crc32(&[&array]) != header.entries_crc32.get() {
        return Err(HeaderError::ArrayChecksum);
    }
    Ok(Good { unit, header, array })
}

fn table(good: &Good, backup: Option<BackupInUse>) -> Table {
    let unit = u64::from(good.unit);
    let first = good.header.first_usable_lba.get().saturating_mul(unit);
    let end = good.header.last_usable_lba.get().saturating_add(1).saturating_mul(unit);
    let array = good.header.entries_lba.get().saturating_mul(unit);
    let size = good.header.entry_size.get().max(1) as usize;
    let entries = (1u32..).zip(good.array.chunks_exact(size));
    let partitions = entries.filter_map(|(n, bytes)| partition(n, bytes, unit)).collect();
    Table {
        scheme: Scheme::Gpt,
        unit: good.unit,
        partitions,
        reserved: Vec::from([
            Run::new(0, first),
            Run::new(array, good.array.len() as u64),
            Run::new(end, u64::MAX.saturating_sub(end)),
        ]),
        backup,
        chain: None,
    }
}

fn partition(number: u32, bytes: &[u8], unit: u64) -> Option<Partition> {
    let (entry, _) = Entry::read_from_prefix(bytes).ok()?;
    if entry.kind == [0; 16] {
        return None;
    }
    let (first, last) = (entry.first_lba.get(), entry.last_lba.get());
    let start = first.saturating_mul(unit);
    let end = last.saturating_add(1).saturating_mul(unit);
    let units = entry.name.iter().map(|unit| unit.get()).take_while(|unit| *unit != 0);
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let name: String = char::decode_utf16(units)
        .map(|c| shown(c.unwrap_or(char::REPLACEMENT_CHARACTER)))
        .collect();
    Some(Partition {
        number,
        run: Run::new(start, end.saturating_sub(start)),
        kind: PartKind::Gpt(entry.kind),
        name,
        problem: (last < first).then_some(Problem::Backwards),
    })
}
