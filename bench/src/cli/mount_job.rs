//! `run` on real mounts.

use super::RunArgs;
use super::main_job::print_to;
use super::progress::Bar;
use crate::place::{Place, default_dir};
use crate::provenance::Provenance;
use crate::real::mounted::{Kind, MountJob, ROW_UNITS, Work, json, rows, tables};
use anyhow::{Context, Result, bail};
use seawall_diskfs::policy::{PRESETS, preset};
use seawall_store::sim::Profile;
use std::path::Path;

pub(super) fn run(args: &RunArgs, workloads: &[String], verbose: u8) -> Result<()> {
    let kind = match args.fs.as_str() {
        "ext2" => Kind::Ext2,
        "fat" => Kind::Fat,
        other => bail!("--fs {other}: accepted are ext2 and fat"),
    };
    if Profile::find(&args.device).is_some() || args.device.ends_with(".toml") {
        let device = &args.device;
        bail!("--device {device}: a mount needs a STORE, such as sim:{device}:mem:4G");
    }
    if let Some(name) = args.policy.iter().find(|name| preset(name).is_none()) {
        bail!("no policy {name}; there are {}", PRESETS.join(", "));
    }
    let works: Vec<Work> = workloads.iter().map(|w| Work::find(w)).collect::<Result<_>>()?;
    let base = args.dir.clone().unwrap_or_else(default_dir);
    std::fs::create_dir_all(&base).with_context(|| format!("--dir {}", base.display()))?;
    let folder = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&base)
        .with_context(|| format!("--dir {}", base.display()))?;
    let works: Vec<Work> =
        works.into_iter().map(|w| w.prepare(folder.path())).collect::<Result<_>>()?;
    let mut provenance = Provenance::collect(args.seed);
    let mut head = provenance.describe();
    let place = Place::measure(folder.path())?;
    head += &format!("\nmounts in {}", place.describe());
    provenance.place = Some(place);
    let job = MountJob {
        kind,
        policies: args.policy.clone(),
        works,
        store: args.device.clone(),
        seed: args.seed,
        runs: args.runs,
        dir: folder.path().to_path_buf(),
    };
    let to_stdout = args.json.as_deref() != Some(Path::new("-"));
    print_to(to_stdout, &head)?;
    let count = job.works.len().saturating_mul(job.policies.len()) as u64;
    let units = count.saturating_mul(u64::from(job.runs.max(1))).saturating_mul(ROW_UNITS);
    let bar = Bar::new(units, verbose > 0);
    let made = rows(&job, &bar);
    bar.done();
    let made = made?;
    print_to(to_stdout, &format!("\n{}", tables(&made)))?;
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", json(&provenance, &made));
        if to_stdout {
            std::fs::write(path, text).with_context(|| format!("--json {}", path.display()))?;
        } else {
            seawall_store::cli::print(&text)?;
        }
    }
    folder.close().context("removing the folder of the run")?;
    Ok(())
}
