//! Partition tables: MBR with its logical partitions, and GPT.
//!
//! What it guarantees: a run that [`Table::select`] gives lies inside the device, starts on one of
//! its blocks, is whole blocks long, and shares no byte with another partition or with the table.
//! A table is hostile input: everything in it is compared with the device before it is believed,
//! chains and arrays have bounds, and what is wrong is said of the table or of the one partition.
//!
//! The crash case behind it: a write that leaves its partition, because the table said so, destroys
//! a filesystem that nobody opened.
//!
//! Partitions have the numbers that Linux gives them (`block/partitions/msdos.c` and `efi.c` of the
//! kernel): the entries of the MBR are 1 to 4, logical ones follow from 5, the entries of a GPT are
//! counted from the first, unused ones too. A table with an entry of type 0xEE is a GPT's, whatever
//! else stands in it. Formats: UEFI specification 2.10, section 5.

mod crc32;
mod disk;
mod gpt;
mod kind;
mod mbr;
mod problem;

pub use disk::Disk;
pub use gpt::HeaderError;
pub use kind::PartKind;
pub use mbr::ChainError;
pub use problem::Problem;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use seawall_blockdev::{DevError, Run};
use thiserror::Error;

/// What kind of table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The four entries of the first sector and what hangs on them.
    Mbr,
    /// GUID partition table.
    Gpt,
}

impl Scheme {
    /// `MBR` or `GPT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mbr => "MBR",
            Self::Gpt => "GPT",
        }
    }
}

/// One partition, as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Where it is: bytes of the device, unchecked.
    pub run: Run,
    /// What the table says it holds.
    pub kind: PartKind,
    /// Its name in a GPT, control characters replaced; empty for MBR.
    pub name: String,
    /// Why it cannot be opened.
    pub problem: Option<Problem>,
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// MBR or GPT.
    pub scheme: Scheme,
    /// What the table counts in, bytes.
    pub unit: u32,
    /// By number, without unused entries.
    pub partitions: Vec<Partition>,
    /// Bytes that the table itself takes, where it says so.
    pub(crate) reserved: Vec<Run>,
    /// The backup of the GPT is in use: why, and where it is.
    pub backup: Option<BackupInUse>,
    /// The chain of logical partitions is damaged: none of them can be opened.
    pub chain: Option<ChainError>,
}

/// The primary header of a GPT is damaged and the backup is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the primary GPT header at byte {primary} {why}; the backup at byte {backup} is used")]
pub struct BackupInUse {
    /// Offset of the primary header, bytes.
    pub primary: u64,
    /// What is wrong with it.
    pub why: HeaderError,
    /// Offset of the backup header, bytes.
    pub backup: u64,
}

/// Why there is no table to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// Nothing that looks like one.
    #[error("no MBR or GPT ({0})")]
    Absent(&'static str),
    /// A GPT that nothing points to: the rest of an older table, or an MBR that was lost.
    #[error(
        "no MBR or GPT (byte {0} has a GPT header, but the first sector no MBR of type 0xEE, \
         without which it does not count)"
    )]
    Stray(u64),
    /// Both headers of a GPT are damaged.
    #[error(
        "the GPT is damaged: its primary header at byte {primary} {primary_why}, its backup at \
         byte {backup} {backup_why}"
    )]
    Gpt {
        /// Offset of the primary header, bytes.
        primary: u64,
        /// What is wrong with it.
        primary_why: HeaderError,
        /// Offset where the backup was looked for, bytes.
        backup: u64,
        /// What is wrong with it.
        backup_why: HeaderError,
    },
    /// The device's blocks are of no size that a table has a meaning for.
    #[error("no partition table has blocks of {0} bytes")]
    Block(u32),
    /// An MBR has no mark that says what it counts in.
    #[error(
        "an MBR on blocks of {0} bytes may count those or 512 bytes, and the server does not say \
         which; put part:N: below that server instead"
    )]
    Unit(u32),
    /// The device failed.
    #[error("reading the partition table at byte {at}: {cause}")]
    Read {
        /// Offset, bytes.
        at: u64,
        /// Why.
        cause: DevError,
    },
}

/// Why a partition cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartError {
    /// There is no table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table has no such partition.
    #[error("no partition {number}; the {scheme} has {there}", scheme = scheme.name())]
    Missing {
        /// What was asked for.
        number: u32,
        /// The table.
        scheme: Scheme,
        /// Its numbers, for people.
        there: String,
    },
    /// An extended partition holds a table, no data.
    #[error("partition {number} is an extended partition; open one of its logical partitions")]
    Extended {
        /// What was asked for.
        number: u32,
    },
    /// The partition is not where a partition may be.
    #[error("partition {number} {problem}")]
    Bad {
        /// What was asked for.
        number: u32,
        /// What is wrong.
        problem: Problem,
    },
    /// A logical partition of a damaged chain.
    #[error("partition {number} cannot be trusted: {chain}")]
    Chain {
        /// What was asked for.
        number: u32,
        /// What is wrong.
        chain: ChainError,
    },
}

impl Table {
    /// Reads the table of a device: at most a few sectors and, for a GPT, two arrays of 4 MiB.
    ///
    /// # Errors
    /// [`TableError`]: none there, damaged beyond its backup, or not readable.
    pub fn read(disk: &mut Disk<'_>) -> Result<Self, TableError> {
        let logical = disk.logical();
        if !logical.is_power_of_two() || !(512..=65_536).contains(&logical) {
            return Err(TableError::Block(logical));
        }
        let sector = disk.bytes(0, 512).map_err(|cause| TableError::Read { at: 0, cause })?;
        let mut table = match mbr::entries(&sector) {
            Ok(entries) if mbr::is_gpt(&entries) => gpt::read(disk)?,
            Ok(entries) => {
                let unit = disk.unit().ok_or(TableError::Unit(logical))?;
                mbr::read(disk, &entries, unit)
            }
            Err(why) => {
                let stray = gpt::stray(disk);
                return Err(stray.map_or(TableError::Absent(why), TableError::Stray));
            }
        };
        problem::find(&mut table, disk);
        Ok(table)
    }

    /// Where partition `number` is: whole blocks of the device.
    ///
    /// # Errors
    /// [`PartError`]: there is none, or it is not where a partition may be.
    pub fn select(&self, disk: &Disk<'_>, number: u32) -> Result<Run, PartError> {
        let found = self.partitions.iter().find(|p| p.number == number);
        let is_logical = self.scheme == Scheme::Mbr && number > 4;
        if let Some(chain) = self.chain.filter(|_| is_logical) {
            return Err(PartError::Chain { number, chain });
        }
        let Some(found) = found else {
            let (scheme, there) = (self.scheme, self.numbers());
            return Err(PartError::Missing { number, scheme, there });
        };
        if found.kind.is_extended() {
            return Err(PartError::Extended { number });
        }
        match found.problem {
            Some(problem) => Err(PartError::Bad { number, problem }),
            None => Ok(Run::new(found.run.start, disk.whole_blocks(found.run.len))),
        }
    }

    /// The numbers there are, for people.
    fn numbers(&self) -> String {
        const SHOWN: usize = 16;
        let shown: Vec<String> =
            self.partitions.iter().take(SHOWN).map(|p| p.number.to_string()).collect();
        match self.partitions.len().saturating_sub(SHOWN) {
            _ if shown.is_empty() => "none".into(),
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }
}
