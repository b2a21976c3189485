//! A store server, a new volume, a mounted server; and their end, whatever happens.

use super::super::server::{Server, run_hidden};
use super::super::target::{from_reply, from_tags};
use super::super::{file_of, serve_store, text};
use super::{Kind, MountJob};
use crate::image::{Verdict, check_image};
use crate::outcome::{Counted, store_since};
use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use seawall_blockdev::{
    BlockDev, CacheClass, DevError, PageBuf, ReadRun, Tag, WriteFlags, WriteRun,
};
use seawall_diskfs::Policy;
use seawall_store::{AnyStore, OpenOptions, Stats, profile_of};
use seawall_translator::client::Client;
use seawall_translator::protocol::{Control, ControlReply};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Bytes at the start of a store that must be empty, or a volume of ours, before it is formatted.
const LOOKED_AT: usize = 64 << 10;
/// Flushes measured where no device model says what one costs.
const FLUSHES: usize = 32;
/// Label of the volumes: the longest that FAT takes.
const LABEL: &str = "SEAWALL-RUN";

/// What a flush costs, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    /// ns.
    pub(crate) nanos: u64,
    /// By the device model; else measured, the median of a few.
    pub(crate) modelled: bool,
}

/// Everything that runs for a row.
pub(super) struct Stage {
    folder: tempfile::TempDir,
    store_name: String,
    server: Option<Server>,
    filesystem: Server,
    mounted: bool,
    client: seawall_store::Client,
    /// What the store had done before the mount: mkfs.
    before: Stats,
    last: (Counted, Stats),
    cache: CacheClass,
    flush: Flush,
}

impl Stage {
    /// Starts the store, makes the volume and mounts it.
    pub(super) fn set(job: &MountJob, policy: &Policy) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("mount-").tempdir_in(&job.dir)?;
        let (socket, server) = serve_store(&job.store, folder.path())?;
        let unix = format!("unix:{}", socket.display());
        let (cache, flush) = look(&unix, &job.store)?;
        let verb = match job.kind {
            Kind::Ext2 => "__ext2srv",
            Kind::Fat => "__fatsrv",
        };
        run_hidden(verb, &["mkfs", &unix, "--label", LABEL])?;
        let (name, access) = ("seawall statistics", seawall_store::Access::ReadOnly);
        let client = seawall_store::Client::connect_as(&socket, name, access)?;
        let before = client.stats().context("store statistics")?;
        let dir = folder.path().join("mnt");
        std::fs::create_dir(&dir).context("the mount's folder")?;
        let (at, fs) = (text(&dir)?.to_string(), folder.path().join("fs"));
        let words = ["mount", &unix, &at, "--socket", text(&fs)?, "--policy", &policy.name];
        let filesystem = Server::start(verb, &words)?;
        let last = (Counted::default(), before.clone());
        let store_name = job.store.clone();
        let mounted = true;
        Ok(Self {
            folder,
            store_name,
            server,
            filesystem,
            mounted,
            client,
            before,
            last,
            cache,
            flush,
        })
    }

    /// Root of the mount.
    pub(super) fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("mnt")
    }

    pub(super) fn cache(&self) -> CacheClass {
        self.cache
    }

    pub(super) fn flush(&self) -> Flush {
        self.flush
    }

    /// Counters since the mount, and dirty file data now, bytes.
    pub(super) fn counted(&mut self) -> Result<(Counted, u64)> {
        let mut client = Client::connect(&self.folder.path().join("fs"), "seawall")?;
        let reply = match client.control(&Control::Stats)? {
            ControlReply::Stats(reply) => reply,
            other => bail!("statistics: unexpected reply {other:?}"),
        };
        let dirty = reply.counters.iter().find(|c| c.name == "dirty data bytes");
        let store = self.client.stats().context("store statistics")?;
        let since = store_since(&store.total, &self.before.total);
        let counted = Counted { store: since, ..from_reply(&reply) };
        self.last = (counted.clone(), store);
        Ok((counted, dirty.map_or(0, |c| c.value)))
    }

    /// The same when there is no filesystem to ask any more: what the store saw since then.
    pub(super) fn counted_behind(&mut self) -> Result<Counted> {
        let store = self.client.stats().context("store statistics")?;
        let since = store_since(&store.total, &self.before.total);
        Ok(Counted { store: since, ..from_tags(&self.last.0, &self.last.1, &store) })
    }

    /// `umount`, and the end of the server, which writes back what is left.
    pub(super) fn unmount(&mut self) -> Result<()> {
        unmount(self.dir(), UnmountFlags::empty()).context("umount")?;
        self.mounted = false;
        self.filesystem.wait()
    }

    /// Stops the store and has the volume checked, if somebody else can see it.
    pub(super) fn finish(mut self, kind: Kind) -> Result<Verdict> {
        if let Some(server) = &mut self.server {
            server.stop()?;
        }
        match file_of(&self.store_name) {
            Some(path) if kind == Kind::Ext2 => check_image(path),
            Some(path) => check_fat(path),
            None => Ok(Verdict::None("the store is no file")),
        }
    }
}

impl Drop for Stage {
    /// On the way out of an error. What is mounted must not be there when the folder is removed.
    fn drop(&mut self) {
        if self.mounted {
            let dir = self.folder.path().join("mnt");
            if let Err(e) = unmount(&dir, UnmountFlags::DETACH) {
                seawall_store::cli::say(&format!("seawall: {}: umount: {e}", dir.display()));
            }
        }
    }
}

/// Refuses a store that holds something else, and finds what its flush costs.
fn look(unix: &str, name: &str) -> Result<(CacheClass, Flush)> {
    let client_name = "seawall look".into();
    let options = OpenOptions { client_name, exclusive: true, ..OpenOptions::default() };
    let mut dev = seawall_store::open(unix, &options)?;
    let mut head = PageBuf::zeroed(LOOKED_AT);
    dev.read(&mut [ReadRun { start: 0, buf: &mut head }], Tag(0))
        .with_context(|| format!("{name}: reading its start"))?;
    // Where the superblock of ext2 and the boot sectors of FAT32 and FAT12 have it.
    let label = |at: usize| head.get(at..at.saturating_add(LABEL.len()));
    let ours = [1024 + 0x78, 0x47, 0x2B].iter().any(|at| label(*at) == Some(LABEL.as_bytes()));
    if !ours && head.iter().any(|b| *b != 0) {
        bail!(
            "{name}: holds data, and `run` formats its device; zero its first {} KiB if that is \
             meant",
            LOOKED_AT >> 10
        );
    }
    let served = dev.served_name();
    let flush = match profile_of(served.as_deref().unwrap_or(name)) {
        Some(p) => Flush { nanos: p.flush_command, modelled: true },
        None => {
            Flush { nanos: measure(&mut dev).with_context(|| name.to_string())?, modelled: false }
        }
    };
    let cache = dev.caps().cache;
    dev.close()?;
    Ok((cache, flush))
}

/// Median of a few syncs, each after a write of one block, ns; 0 where there is no flush.
fn measure(dev: &mut AnyStore) -> Result<u64> {
    let mut took = Vec::new();
    let page = PageBuf::zeroed(4096);
    for _ in 0..FLUSHES {
        let run = WriteRun { start: 0, buf: &page, tag: Tag(0) };
        dev.write(&[run], WriteFlags::default()).context("write")?;
        let from = Instant::now();
        match dev.sync(Tag(0)) {
            Ok(_) => took.push(super::nanos(from)),
            Err(DevError::Unsupported) => return Ok(0),
            Err(e) => return Err(e).context("sync"),
        }
    }
    took.sort_unstable();
    Ok(took.get(took.len() / 2).copied().unwrap_or(0))
}

/// `fsck.fat -n`.
fn check_fat(image: &Path) -> Result<Verdict> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut cmd = Command::new("fsck.fat");
    cmd.arg("-n").arg(image).env("PATH", format!("{path}:/usr/sbin:/sbin"));
    match cmd.output() {
        Ok(out) if out.status.success() => Ok(Verdict::Clean),
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout);
            let line = text.lines().nth(1).unwrap_or("it says nothing").to_string();
            Ok(Verdict::Bad(format!("{}: {line}", out.status)))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Ok(Verdict::None("fsck.fat is not installed"))
        }
        Err(e) => Err(e).context("fsck.fat"),
    }
}
