//! The stick is pulled some seconds after cp returned: what of the file is not there.

use super::cells::{VARIANTS, Work, copy_of, parallel, variant};
use super::copy::{self, Copy};
use super::session::SESSIONS;
use super::studies::{Curve, Study};
use super::tables::number;
use crate::host::consts::SECOND;
use crate::host::{MetaStore, World};
use anyhow::{Context, Result};
use seawall_diskfs::policy::preset;
use seawall_diskfs::{Ctx, Fs, MountOpts, OpenFlags, driver};
use seawall_fat::Fat;

/// Seconds after cp returned.
const TIMES: [u64; 9] = [0, 1, 2, 5, 10, 20, 30, 45, 60];
/// Bytes of one look at the file.
const WINDOW: u64 = 1 << 20;

/// What a reader of the pulled device finds: the file's size, and how much of it the chain reaches.
fn found(mut store: MetaStore, name: &[u8]) -> Result<(u64, u64)> {
    use seawall_blockdev::BlockDev;
    let fat = copy::open(&mut store)?;
    let policy = preset("lax").context("no policy lax")?;
    let opts = MountOpts { read_only: true, ..MountOpts::new(policy) };
    let fs = Fs::new(fat, store.caps(), store.seqs(), opts)?;
    let mut host = driver::Blocking { fs, dev: store };
    let ctx = Ctx::default();
    let root = host.fs.geometry().root;
    let looked = driver::run(&mut host, &ctx, |fs, t| fs.lookup(&ctx, root, name, t));
    // No name, or nothing that can be read: nothing is found.
    let Ok(attr) = looked else { return Ok((0, 0)) };
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let file = driver::run(&mut host, &ctx, |fs, t| fs.open(&ctx, attr.ino, flags, t))?;
    let mut reaches = |end: u64| {
        let from = end.saturating_sub(WINDOW);
        let plan = driver::run(&mut host, &ctx, |fs, t| {
            fs.read(&ctx, file, from, usize::try_from(end - from).unwrap_or(0), t)
        });
        match plan {
            Ok(plan) => {
                host.fs.read_done(&plan);
                true
            }
            Err(_) => false,
        }
    };
    let (mut low, mut high) = (0, attr.size);
    if high == 0 || reaches(high) {
        return Ok((attr.size, attr.size));
    }
    while high - low > WINDOW {
        let mid = low + (high - low) / 2;
        if reaches(mid) { low = mid } else { high = mid }
    }
    Ok((attr.size, low))
}

/// Bytes of the file that are lost at each of [`TIMES`].
pub(crate) fn lost(c: &Copy, times: &[u64]) -> Result<Vec<u64>> {
    let (_, base) = copy::volume()?;
    let mut world: World<Fat> = copy::mount(c)?;
    world.keep_log();
    copy::copy(&mut world, c)?;
    let cp = world.now();
    let last = times.iter().copied().max().unwrap_or(0);
    world.run_to(cp + last * SECOND)?;
    let mut out = Vec::new();
    for t in times {
        let (store, data) = world.pulled(cp + t * SECOND, base.clone());
        let (_, reached) = found(store, b"F0000000.BIN")?;
        out.push(c.bytes.saturating_sub(reached.min(data)));
    }
    Ok(out)
}

/// The curve of every drive and variant.
///
/// # Errors
/// A run that failed.
pub(crate) fn study(seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Study> {
    let jobs: Vec<_> = SESSIONS.iter().flat_map(|s| VARIANTS.map(|p| (*s, p))).collect();
    let lost =
        parallel(&jobs, tick, |(s, p)| lost(&copy_of(*s, p, "256M", Work::Large, seed)?, &TIMES))?;
    let mut out = Study {
        name: "pull",
        title: "Pulled t seconds after cp returned (256M): MiB of the file that a reader of the \
                stick does not find"
            .into(),
        notes: vec![
            "The medium holds what the device had finished by then. The engine opens it \
             read-only and looks the file up; what its entry, its chain or its data does not \
             reach is lost; what is only in the drive's own cache as well. No sync follows the \
             copy: the flusher alone goes on."
                .into(),
        ],
        ..Study::default()
    };
    out.header = vec!["drive, variant".into()];
    out.header.extend(TIMES.map(|t| format!("{t} s")));
    for ((s, p), lost) in jobs.iter().zip(&lost) {
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let mut row = vec![format!("{} {}", s.drive, variant(p, false))];
        row.extend(lost.iter().map(|b| number(mib(b))));
        out.rows.push(row);
        out.curves.push(Curve {
            plot: s.drive.into(),
            name: variant(p, false).into(),
            points: TIMES.iter().zip(lost).map(|(t, b)| (*t as f64, mib(b))).collect(),
        });
        let safe = TIMES.iter().zip(lost).find(|(_, b)| **b == 0).map(|(t, _)| *t);
        let at_once = lost.first().map_or(0.0, mib);
        let end = lost.last().map_or(0.0, mib);
        out.says.push(match safe {
            Some(0) => format!("{} {}: nothing is lost", s.drive, variant(p, false)),
            Some(t) => format!(
                "{} {}: {} MiB are lost when it is pulled at once, none after {t} s",
                s.drive,
                variant(p, false),
                number(at_once)
            ),
            None => format!(
                "{} {}: {} MiB are lost when it is pulled at once, {} MiB still after 60 s",
                s.drive,
                variant(p, false),
                number(at_once),
                number(end)
            ),
        });
    }
    Ok(out)
}
