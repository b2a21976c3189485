//! fsync against the flusher on ext2: the same race as at a FAT close, which the thread says exists
//! elsewhere.

use super::cells::{Work, copy_of, parallel};
use super::session::{SESSIONS, Session};
use super::studies::Study;
use super::tables::number;
use crate::host::consts::SECOND;
use crate::host::{MetaStore, World};
use crate::sim::{EPOCH_SECS, volume};
use anyhow::{Context, Result};
use seawall_diskfs::policy::{Exclusion, preset};
use seawall_diskfs::{PlanReq, Timestamp};
use seawall_ext2::MkfsOptions;

const VOLUME: u64 = 2 << 30;
const BYTES: u64 = 1 << 30;

/// Seconds that fsync took, write requests, their mean in KiB.
fn run(s: Session, exclusion: Exclusion, seed: u64) -> Result<(f64, u64, f64)> {
    let mut store = MetaStore::new(VOLUME);
    let time = Timestamp { secs: EPOCH_SECS, nanos: 0 };
    let mut options = MkfsOptions::new(VOLUME, [7; 16], time);
    options.block_size = 4096;
    seawall_ext2::mkfs(&mut store, &options).context("mkfs")?;
    let format = volume(&mut store)?;
    let mut policy = preset("linux-ext2").context("no policy linux-ext2")?;
    policy.exclusion = exclusion;
    let setup = copy_of(s, "fat-stock", "256M", Work::Large, seed)?.setup;
    let mut world = World::new(format, store, policy, &setup)?;
    let (_, file) = world.create(b"file")?;
    let mut at = 0;
    while at < BYTES {
        world.write(file, at, 1 << 20)?;
        at += 1 << 20;
        world.run_to(at * SECOND / (s.fill << 20))?;
    }
    let begun = world.now();
    world.run_plan(PlanReq::Fsync { handle: file, datasync: false })?;
    let took = (world.now() - begun) as f64 / 1e9;
    let sent = world.queue().sent;
    Ok((took, sent.requests, sent.average_kib()))
}

/// Both rules on all drives.
///
/// # Errors
/// A run that failed.
pub(crate) fn study(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Study> {
    let rules = [Exclusion::None, Exclusion::PerInode];
    let jobs: Vec<_> = SESSIONS.iter().flat_map(|s| rules.map(|e| (*s, e))).collect();
    let gave = parallel(&jobs, tick, |(s, e)| run(*s, *e, seed))?;
    let mut out = Study {
        name: "race",
        title: "fsync of 1 GiB on ext2 while the flusher is in the file (256M)".into(),
        notes: vec![
            "linux-ext2 with `exclusion` none and per_inode; the engine of ext2srv. Linux's \
             fsync takes no I_SYNC for the data, so none is what it does."
                .into(),
        ],
        header: ["drive, exclusion", "fsync s", "requests", "mean KiB"].map(String::from).into(),
        ..Study::default()
    };
    for (s, pair) in SESSIONS.iter().zip(gave.chunks(2)) {
        for (rule, (took, requests, mean)) in ["none", "per_inode"].iter().zip(pair) {
            out.rows.push(vec![
                format!("{} {rule}", s.drive),
                number(*took),
                requests.to_string(),
                number(*mean),
            ]);
        }
        if let [none, own] = pair {
            out.says.push(format!(
                "{}: fsync beside the flusher takes {:.2} times as long as with one writer an \
                 inode, in {:.1} times as many requests",
                s.drive,
                none.0 / own.0,
                none.1 as f64 / own.1 as f64
            ));
        }
    }
    Ok(out)
}
