//! `mkfs STORE`.

use super::{Mkfs, Usage, Volume, print};
use crate::server::now;
use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use seawall_blockdev::{BlockDev, DevError, Tag};
use seawall_diskfs::Timestamp;
use seawall_store::cli::{partitions_of, say};
use seawall_store::{OpenOptions, open};
use std::format;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;

/// What to make. Where something is `None` the format decides.
#[derive(Clone, Debug)]
pub struct MkfsArgs {
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes of a block.
    pub block_size: Option<u64>,
    /// Bytes of an inode.
    pub inode_size: Option<u16>,
    /// Number of inodes.
    pub inodes: Option<u32>,
    /// Volume name.
    pub label: Option<String>,
    /// Volume identity. Of a format with serial numbers only the first 4 bytes count, the most
    /// significant first.
    pub uuid: [u8; 16],
    /// Features asked for by name.
    pub features: Vec<String>,
    /// With a journal.
    pub journal: bool,
    /// Creation time.
    pub time: Timestamp,
    /// Width of a FAT's entries: 12, 16 or 32.
    pub fat: Option<u8>,
    /// Bytes of a sector.
    pub sector_size: Option<u64>,
    /// Sectors of a cluster.
    pub sectors_per_cluster: Option<u32>,
    /// Number of FATs.
    pub fats: Option<u32>,
    /// Sectors before the first FAT.
    pub reserved_sectors: Option<u32>,
    /// Entries of the root directory.
    pub root_entries: Option<u32>,
    /// Sectors before the volume on its medium.
    pub hidden_sectors: Option<u32>,
    /// Media byte.
    pub media: Option<u8>,
}

/// A volume identity as it was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    bytes: [u8; 16],
    serial: bool,
}

/// A UUID, or a serial number as `1234-ABCD`.
pub(super) fn identity(text: &str) -> Result<Identity, String> {
    let serial = text.split_once('-').filter(|(a, b)| a.len() == 4 && b.len() == 4);
    if let Some((high, low)) = serial {
        let number = u32::from_str_radix(&format!("{high}{low}"), 16);
        let number = number.map_err(|e| format!("not a serial number: {e}"))?;
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(number.to_be_bytes()) {
            *to = from;
        }
        return Ok(Identity { bytes, serial: true });
    }
    let uuid: uuid::Uuid = text.parse().map_err(|e: uuid::Error| e.to_string())?;
    Ok(Identity { bytes: *uuid.as_bytes(), serial: false })
}

/// A type of FAT.
pub(super) fn fat(text: &str) -> Result<u8, String> {
    text.parse().ok().filter(|n| [12, 16, 32].contains(n)).ok_or_else(|| "12, 16 or 32".into())
}

/// A media byte.
pub(super) fn media(text: &str) -> Result<u8, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let byte = u8::from_str_radix(digits, 16).ok().filter(|b| *b == 0xF0 || *b >= 0xF8);
    byte.ok_or_else(|| "f0, or f8 to ff".into())
}

/// Options that every format takes.
const COMMON: [&str; 6] = ["store", "size", "label", "uuid", "verbose", "help"];

fn takes<V: Volume>(id: &str) -> bool {
    COMMON.contains(&id) || V::MKFS_OPTIONS.contains(&id)
}

/// An option of another format: parsed for all servers, so that one structure holds them, and
/// always wrong.
pub(super) fn refuse_others<V: Volume>(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(given) = matches.subcommand_matches("mkfs") else { return Ok(()) };
    let all = Mkfs::augment_args(Command::new("mkfs"));
    let ids = all.get_arguments().map(|arg| arg.get_id().as_str());
    for id in ids.filter(|id| !takes::<V>(id)) {
        if given.value_source(id) == Some(ValueSource::CommandLine) {
            let what = format!("--{} is no option of {}\n", id.replace('_', "-"), V::FORMAT);
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, what));
        }
    }
    Ok(())
}

/// The command without the options that are another format's.
pub(super) fn only_of<V: Volume>(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let other = !takes::<V>(arg.get_id().as_str());
        arg.hide(other)
    });
    if !V::SERIAL {
        return command;
    }
    let help = "Volume identity: a serial number as 1234-ABCD, or a UUID whose first 4 bytes are \
                one; a random one by default";
    command.mut_arg("uuid", |arg| arg.help(help))
}

/// Bytes that every store's size is a multiple of.
const SECTOR: u64 = 512;

/// The path of a `file:` store or a bare one, if nothing is there.
fn missing_file(store: &str) -> Option<PathBuf> {
    let path = store.strip_prefix("file:").unwrap_or(store);
    let is_path = store.starts_with("file:") || !store.contains(':');
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let missing = is_path && !path.is_empty() && !Path::new(path).exists();
    missing.then(|| PathBuf::from(path))
}

/// A file that this run creates; removed again unless the run succeeds.
struct Created(Option<PathBuf>);

impl Drop for Created {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What was wrong is being said already.
            let _ = std::fs::remove_file(path);
        }
    }
}

pub(super) fn run<V: Volume>(args: Mkfs) -> Result<()> {
    let store = args.store;
    if let Some(size) = args.size.filter(|s| s % SECTOR != 0 || *s == 0) {
        bail!("{store}: --size {size}: a size is a multiple of {SECTOR} bytes");
    }
    if args.uuid.is_some_and(|id| id.serial && !V::SERIAL) {
        return Err(Usage("--uuid: a serial number, but this format takes a UUID".into()).into());
    }
    let missing = missing_file(&store);
    // A link that leads nowhere was there before this run.
    let mut created = Created(missing.clone().filter(|p| p.symlink_metadata().is_err()));
    let create_size = if missing.is_some() {
        if args.size.is_none() {
            bail!("{store}: no such file; give --size to create it");
        }
        args.size
    } else {
        None
    };
    let client_name = format!("{} mkfs[{}]", V::PROGRAM, std::process::id());
    let exclusive = true;
    let options = OpenOptions { create_size, exclusive, client_name, ..OpenOptions::default() };
    let mut device = open(&store, &options)?;
    let caps = device.caps();
    if caps.read_only {
        bail!("{store}: the store is read-only");
    }
    let partitions = partitions_of(&mut device);
    let args = MkfsArgs {
        size: args.size.unwrap_or(caps.size),
        block_size: args.block_size,
        inode_size: args.inode_size,
        inodes: args.inodes,
        label: args.label,
        uuid: args.uuid.map_or_else(|| *uuid::Uuid::new_v4().as_bytes(), |id| id.bytes),
        features: args.features,
        journal: args.journal,
        time: now(),
        fat: args.fat,
        sector_size: args.sector_size,
        sectors_per_cluster: args.sectors_per_cluster,
        fats: args.fats,
        reserved_sectors: args.reserved_sectors,
        root_entries: args.root_entries,
        hidden_sectors: args.hidden_sectors,
        media: args.media,
    };
    let line = V::mkfs(&mut device, &args).with_context(|| store.clone())?;
    match device.sync(Tag(0)) {
        Ok(_) => {}
        Err(DevError::Unsupported) => {
            let cache = caps.cache.name();
            say(&format!("{}: {store}: not durable: its cache is {cache}", V::PROGRAM));
        }
        Err(e) => return Err(e).with_context(|| format!("{store}: sync")),
    }
    device.close()?;
    created.0 = None;
    if partitions > 0 {
        let what = format!("a table of {partitions} partitions was there; the volume is over it");
        say(&format!("{}: warning: {store}: {what}", V::PROGRAM));
    }
    if let Some(what) = V::mkfs_warning(&args) {
        say(&format!("{}: warning: {store}: {what}", V::PROGRAM));
    }
    print(&format!("{store}: {line}"))
}
