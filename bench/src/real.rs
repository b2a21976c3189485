//! Real rows: a `store` and an `ext2srv` process, driven over their sockets; and `mounted`.
//!
//! The processes are this program again, with a hidden verb that calls the same functions as the
//! binaries of those names. They end with the row, or with this program: each watches its standard
//! input, which ends when this program does, however that happens.

mod hidden;
pub(crate) mod mounted;
mod server;
mod target;

pub(crate) use hidden::hidden;

use crate::image::{Verdict, check_image};
use crate::job::{Job, Mode, Progress, REAL_LIMIT, Row, syncfs_is_durable, volume};
use crate::outcome::Outcome;
use crate::target::Nanos;
use crate::workload::{Run, Workload};
use anyhow::{Context, Result, bail};
use seawall_blockdev::{BlockDev, CacheClass, DevError, PageBuf, ReadRun, Tag};
use seawall_diskfs::Policy;
use seawall_ext2::MkfsOptions;
use seawall_store::{AnyStore, OpenOptions};
use server::Server;
use std::path::{Path, PathBuf};
use std::time::Instant;
use target::RpcTarget;

/// Bytes at the start of a store that must be empty, or a volume of ours, before it is formatted.
const LOOKED_AT: usize = 64 << 10;

/// One run, with what its store took to stop.
struct Done {
    outcome: Outcome,
    store_stop: Nanos,
    cache: CacheClass,
    verdict: Verdict,
}

/// A row of `job.runs` runs; the one in the middle is shown.
pub(crate) fn row(
    job: &Job,
    workload: &Workload,
    policy: &Policy,
    store: Option<&str>,
    progress: &dyn Progress,
) -> Result<Row> {
    let mkfs = volume(workload, job.seed);
    let mut done = Vec::new();
    for _ in 0..job.runs.max(1) {
        done.push(once(job, workload, policy, store, &mkfs, progress)?);
    }
    done.sort_by(|a, b| a.outcome.rate().total_cmp(&b.outcome.rate()));
    let rates = done.iter().map(|d| d.outcome.rate()).collect();
    let bad = done.iter().find(|d| matches!(d.verdict, Verdict::Bad(_)));
    let verdict = bad.map(|d| d.verdict.clone());
    let middle = done.len() / 2;
    let shown = done.into_iter().nth(middle).context("a row without a run")?;
    Ok(Row {
        workload: workload.name(),
        unit: workload.unit(),
        policy: policy.name.clone(),
        mode: Mode::Real(store.map(str::to_string)),
        store: store.map_or_else(|| format!("file:IMAGE, {} MiB", mkfs.size >> 20), str::to_string),
        cache: shown.cache.name(),
        fsync_durable: policy.fsync_is_durable() && shown.cache.can_promise(),
        syncfs_durable: syncfs_is_durable(policy) && shown.cache.can_promise(),
        warmth: workload.warmth(),
        costs: None,
        store_stop: Some(shown.store_stop),
        outcome: shown.outcome,
        rates,
        verdict: verdict.unwrap_or(shown.verdict),
    })
}

fn once(
    job: &Job,
    workload: &Workload,
    policy: &Policy,
    store: Option<&str>,
    mkfs: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<Done> {
    let folder = tempfile::Builder::new().prefix("row-").tempdir_in(&job.dir)?;
    let image = folder.path().join("image");
    let name = match store {
        Some(name) => name.to_string(),
        None => {
            let file = std::fs::File::create(&image)?;
            file.set_len(mkfs.size).context("making the image")?;
            format!("file:{}", image.display())
        }
    };
    let (socket, mut server) = serve_store(&name, folder.path())?;
    let unix = format!("unix:{}", socket.display());
    let cache = format(&unix, &name, mkfs, store.is_some())?;
    let fs_socket = folder.path().join("fs");
    let ext2 = Server::start(
        "__ext2srv",
        &["serve", &unix, "--socket", text(&fs_socket)?, "--policy", &policy.name],
    )?;
    let mut target = RpcTarget::connect(&fs_socket, &socket, ext2)?;
    let before = std::cell::Cell::new(0);
    let tick = |n: u64| {
        before.set(before.get() + n);
        progress.units(n);
    };
    let run = Run { seed: job.seed, limit: Some(REAL_LIMIT), tick: &tick };
    let outcome = workload.run(&mut target, &run)?;
    // What the time was too short for is done as far as the bar is concerned.
    progress.units(workload.planned().saturating_sub(before.get()));
    drop(target);
    let from = Instant::now();
    if let Some(server) = &mut server {
        server.stop()?;
    }
    let store_stop = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let verdict = match file_of(&name) {
        Some(path) => check_image(path)?,
        None => Verdict::None("the store is no file"),
    };
    Ok(Done { outcome, store_stop, cache, verdict })
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: not UTF-8", path.display()))
}

/// Starts a server, unless the store is one already. Returns its socket.
fn serve_store(name: &str, folder: &Path) -> Result<(PathBuf, Option<Server>)> {
    if let Some(socket) = name.strip_prefix("unix:") {
        return Ok((socket.into(), None));
    }
    let socket = folder.join("store");
    let server = Server::start("__store", &["serve", name, "--socket", text(&socket)?])?;
    Ok((socket, Some(server)))
}

fn file_of(store: &str) -> Option<&Path> {
    let path = store.strip_prefix("file:").unwrap_or(store);
    Some(Path::new(path)).filter(|p| p.is_file())
}

/// Makes the volume and says what the store's cache is. A store that somebody named must be empty,
/// or hold a volume that this made before.
fn format(unix: &str, name: &str, mkfs: &MkfsOptions, named: bool) -> Result<CacheClass> {
    let client_name = "seawall mkfs".into();
    let options = OpenOptions { client_name, exclusive: true, ..OpenOptions::default() };
    let mut dev = seawall_store::open(unix, &options)?;
    if named {
        may_format(&mut dev, name, mkfs)?;
    }
    seawall_ext2::mkfs(&mut dev, mkfs).with_context(|| format!("{name}: mkfs"))?;
    match dev.sync(Tag(0)) {
        Ok(_) | Err(DevError::Unsupported) => {}
        Err(e) => return Err(e).with_context(|| format!("{name}: sync after mkfs")),
    }
    let cache = dev.caps().cache;
    dev.close()?;
    Ok(cache)
}

fn may_format(dev: &mut AnyStore, name: &str, mkfs: &MkfsOptions) -> Result<()> {
    let caps = dev.caps();
    if caps.size < mkfs.size {
        bail!("{name}: {} bytes, and the workload needs {}", caps.size, mkfs.size);
    }
    let mut head = PageBuf::zeroed(LOOKED_AT);
    dev.read(&mut [ReadRun { start: 0, buf: &mut head }], Tag(0))
        .with_context(|| format!("{name}: reading its start"))?;
    let label = head.get(1024 + 0x78..1024 + 0x88);
    if head.iter().all(|b| *b == 0) || label == Some(&mkfs.label) {
        return Ok(());
    }
    bail!(
        "{name}: holds data, and `run` formats its device; zero its first {} KiB if that is meant",
        LOOKED_AT >> 10
    );
}
