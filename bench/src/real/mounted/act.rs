//! Workloads that this program does itself, with the calls of an application.

use super::program::Place;
use super::{Did, nanos};
use crate::outcome::Op;
use crate::seed::Seed;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Instant;

/// Bytes of one write call of a copy.
pub(super) const CHUNK: usize = 1 << 20;

/// One file, as `cp` makes it.
pub(super) fn copy_large(place: &Place<'_>, bytes: u64) -> Result<Did> {
    let mut did = Did { bytes, ..Did::default() };
    write_file(place, "large", bytes, &content(place.seed), &mut did, &|done| {
        (place.tick)(done, bytes);
    })?;
    Ok(did)
}

/// Many files of 1 MiB.
pub(super) fn copy_small(place: &Place<'_>, files: u64) -> Result<Did> {
    let mut did = Did { bytes: files.saturating_mul(CHUNK as u64), ..Did::default() };
    let content = content(place.seed);
    for n in 0..files {
        let name = format!("file-{n:04}");
        write_file(place, &name, CHUNK as u64, &content, &mut did, &|_| {})?;
        (place.tick)(n.saturating_add(1), files);
    }
    Ok(did)
}

/// The Hurd thread's loop.
pub(super) fn fsync_loop(place: &Place<'_>, rounds: u64) -> Result<Did> {
    let mut did = Did { bytes: rounds.saturating_mul(4096), ..Did::default() };
    let content = content(place.seed);
    let page = content.get(..4096).unwrap_or_default();
    for n in 0..rounds {
        let path = place.dir.join(format!("file-{n:05}"));
        let what = || path.display().to_string();
        let from = Instant::now();
        let mut file = File::create_new(&path).with_context(what)?;
        did.calls.note(Op::Create, nanos(from));
        let from = Instant::now();
        file.write_all(page).with_context(what)?;
        did.calls.note(Op::Write, nanos(from));
        let from = Instant::now();
        file.sync_all().with_context(what)?;
        did.calls.note(Op::Fsync, nanos(from));
        let from = Instant::now();
        drop(file);
        did.calls.note(Op::Close, nanos(from));
        (place.tick)(n.saturating_add(1), rounds);
    }
    Ok(did)
}

/// Eight writers of 1 MiB with `O_SYNC`, each to its own file, over and over, until the time is up.
pub(super) fn osync(place: &Place<'_>, seconds: u64, bytes: u64) -> Result<Did> {
    let content = content(place.seed);
    let until = std::time::Duration::from_secs(seconds);
    let started = Instant::now();
    let writer = |n: u32| -> Result<Vec<u64>> {
        let path = place.dir.join(format!("wb_osync.{n}"));
        let what = || path.display().to_string();
        let sync = i32::try_from(rustix::fs::OFlags::SYNC.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, sync);
        let file = options.write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(what)?;
        let mut took = Vec::new();
        let (mut at, mut first) = (0u64, true);
        while first || started.elapsed() < until {
            first = false;
            let from = Instant::now();
            std::os::unix::fs::FileExt::write_all_at(&file, &content, at).with_context(what)?;
            took.push(nanos(from));
            at = at.saturating_add(CHUNK as u64);
            if at >= bytes {
                at = 0;
            }
        }
        Ok(took)
    };
    let writer = &writer;
    let lists: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || writer(n))).collect();
        let ended = |t: std::thread::ScopedJoinHandle<'_, Result<Vec<u64>>>| t.join();
        threads
            .into_iter()
            .map(|t| ended(t).unwrap_or_else(|_| Err(anyhow::anyhow!("a writer panicked"))))
            .collect()
    });
    let mut did = Did::default();
    for list in lists {
        for took in list? {
            did.calls.note(Op::Write, took);
            did.bytes = did.bytes.saturating_add(CHUNK as u64);
        }
    }
    Ok(did)
}

/// Bytes that no compression shortens.
fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; CHUNK];
    Seed::new(seed).fill(&mut bytes);
    bytes
}

fn write_file(
    place: &Place<'_>,
    name: &str,
    bytes: u64,
    content: &[u8],
    did: &mut Did,
    tick: &dyn Fn(u64),
) -> Result<()> {
    let path = place.dir.join(name);
    let what = || path.display().to_string();
    let from = Instant::now();
    let mut file = File::create_new(&path).with_context(what)?;
    did.calls.note(Op::Create, nanos(from));
    let mut done = 0u64;
    while done < bytes {
        let len = usize::try_from(bytes.saturating_sub(done)).unwrap_or(CHUNK).min(CHUNK);
        let from = Instant::now();
        file.write_all(content.get(..len).unwrap_or_default()).with_context(what)?;
        did.calls.note(Op::Write, nanos(from));
        done = done.saturating_add(len as u64);
        tick(done);
    }
    let from = Instant::now();
    // On a mount this is FLUSH, which may write everything back. Its error cannot be had without
    // unsafe code; what is lost shows in the check of the volume.
    drop(file);
    did.calls.note(Op::Close, nanos(from));
    Ok(())
}
