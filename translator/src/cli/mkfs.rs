//! `mkfs STORE`.

use super::{Mkfs, Volume, print};
use crate::server::now;
use anyhow::{Context, Result, bail};
use seawall_blockdev::{BlockDev, DevError, Tag};
use seawall_diskfs::Timestamp;
use seawall_store::cli::say;
use seawall_store::{OpenOptions, open};
use std::format;
use std::path::{Path, PathBuf};
use std::string::String;
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
    /// Volume identity.
    pub uuid: [u8; 16],
    /// Features asked for by name.
    pub features: Vec<String>,
    /// With a journal.
    pub journal: bool,
    /// Creation time.
    pub time: Timestamp,
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
    let args = MkfsArgs {
        size: args.size.unwrap_or(caps.size),
        block_size: args.block_size,
        inode_size: args.inode_size,
        inodes: args.inodes,
        label: args.label,
        uuid: *args.uuid.unwrap_or_else(uuid::Uuid::new_v4).as_bytes(),
        features: args.features,
        journal: args.journal,
        time: now(),
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
    if let Some(what) = V::mkfs_warning(&args) {
        say(&format!("{}: warning: {store}: {what}", V::PROGRAM));
    }
    print(&format!("{store}: {line}"))
}
