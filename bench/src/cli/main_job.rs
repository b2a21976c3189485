//! The main job, and `run`, which is the same with other arguments.

use super::progress::Bar;
use super::{MainArgs, RunArgs};
use crate::job::{Job, Mode, rows};
use crate::place::{Place, default_dir};
use crate::provenance::Provenance;
use crate::real::mounted::is_mount_work;
use crate::report::{json, tables};
use crate::source::Tree;
use crate::workload::{WORKLOADS, Workload};
use anyhow::{Context, Result, bail};
use seawall_diskfs::policy::{PRESETS, preset};
use seawall_store::sim::Profile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Device model of the main job.
const DEVICE: &str = "qemu-ssd";
/// Policies of the main job: a row each in four tables, so that it stays under a minute.
const POLICIES: [&str; 6] =
    ["hurd-vanilla", "hurd-shutdown", "hurd-full", "linux-ext2", "default", "strict"];

pub(super) fn main_job(args: &MainArgs, verbose: u8) -> Result<()> {
    let all = |given: &[String], known: &mut dyn Iterator<Item = &str>| {
        if given.is_empty() { known.map(str::to_string).collect() } else { given.to_vec() }
    };
    let mut modes = Vec::new();
    if !args.only_real {
        modes.push(Mode::Virtual(DEVICE.into()));
    }
    if !args.only_virtual {
        modes.push(Mode::Real(None));
    }
    run_job(Wanted {
        policies: all(&args.policy, &mut POLICIES.into_iter()),
        workloads: all(&args.workload, &mut WORKLOADS.iter().map(|(name, _)| *name)),
        modes,
        seed: args.seed,
        runs: 1,
        dir: args.dir.clone(),
        json: args.json.clone(),
        verbose,
    })
}

pub(super) fn run(args: &RunArgs, verbose: u8) -> Result<()> {
    if args.html.is_some() {
        bail!("--html is not there yet; accepted is --json");
    }
    let workloads = split_workloads(&args.workload);
    if let Some(trace) = workloads.iter().find(|w| w.starts_with("trace:")) {
        bail!("--workload {trace}: traces are not there yet; see `seawall list workloads`");
    }
    if args.mount || args.fs == "fat" || workloads.iter().any(|w| is_mount_work(w)) {
        return super::mount_job::run(args, &workloads, verbose);
    }
    if args.fs != "ext2" {
        bail!("--fs {}: accepted are ext2 and fat", args.fs);
    }
    let mode = if Profile::find(&args.device).is_some() || args.device.ends_with(".toml") {
        Mode::Virtual(args.device.clone())
    } else if args.device.contains([':', '/', '.']) {
        Mode::Real(Some(args.device.clone()))
    } else {
        bail!(
            "--device {}: no such profile (there are {}, and files PATH.toml), and no STORE \
             (file:PATH, mem:SIZE, unix:SOCKET, ..)",
            args.device,
            Profile::names()
        );
    };
    run_job(Wanted {
        policies: args.policy.clone(),
        workloads,
        modes: vec![mode],
        seed: args.seed,
        runs: args.runs,
        dir: args.dir.clone(),
        json: args.json.clone(),
        verbose,
    })
}

/// `a,b` is two workloads, but a shell's line may have commas.
fn split_workloads(given: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for text in given {
        let mut rest = text.as_str();
        while let Some((first, more)) = rest.split_once(',').filter(|_| !rest.starts_with("cmd:")) {
            out.push(first.to_string());
            rest = more;
        }
        out.push(rest.to_string());
    }
    out
}

struct Wanted {
    policies: Vec<String>,
    workloads: Vec<String>,
    modes: Vec<Mode>,
    seed: u64,
    runs: u32,
    dir: Option<PathBuf>,
    json: Option<PathBuf>,
    verbose: u8,
}

fn run_job(wanted: Wanted) -> Result<()> {
    for name in &wanted.policies {
        if preset(name).is_none() {
            bail!("no policy {name}; there are {}", PRESETS.join(", "));
        }
    }
    let mut tree: Option<Arc<Tree>> = None;
    let mut workloads = Vec::new();
    for name in &wanted.workloads {
        workloads.push(Workload::find(name, || {
            let found = Arc::new(Tree::find()?);
            tree = Some(found.clone());
            Ok(found)
        })?);
    }
    let base = wanted.dir.unwrap_or_else(default_dir);
    std::fs::create_dir_all(&base).with_context(|| format!("--dir {}", base.display()))?;
    let folder = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&base)
        .with_context(|| format!("--dir {}", base.display()))?;
    let mut provenance = Provenance::collect(wanted.seed);
    let mut head = provenance.describe();
    if wanted.modes.iter().any(|m| matches!(m, Mode::Real(_))) {
        let place = Place::measure(folder.path())?;
        head += &format!("\nreal rows in {}", place.describe());
        provenance.place = Some(place);
    }
    if let Some(tree) = &tree {
        head += &format!("\ntree: {}", tree.describe());
        provenance.tree = Some(tree.describe());
        provenance.tree_fingerprint = Some(format!("{:016x}", tree.fingerprint()));
    }
    let job = Job {
        policies: wanted.policies,
        workloads,
        modes: wanted.modes,
        seed: wanted.seed,
        runs: wanted.runs,
        dir: folder.path().to_path_buf(),
    };
    let to_stdout = wanted.json.as_deref() != Some(Path::new("-"));
    print_to(to_stdout, &head)?;
    let bar = Bar::new(job.units(), wanted.verbose > 0);
    let made = rows(&job, &bar);
    bar.done();
    let made = made?;
    print_to(to_stdout, &format!("\n{}", tables(&made)))?;
    if let Some(path) = &wanted.json {
        let text = format!("{:#}\n", json(&provenance, &made));
        if to_stdout {
            std::fs::write(path, text).with_context(|| format!("--json {}", path.display()))?;
        } else {
            seawall_store::cli::print(&text)?;
        }
    }
    folder.close().context("removing the images")?;
    Ok(())
}

pub(super) fn print_to(stdout: bool, text: &str) -> Result<()> {
    if stdout {
        seawall_store::cli::print(text)?;
    } else {
        seawall_store::cli::say(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_shell_keeps_its_commas() {
        let split = split_workloads(&["copy-large:4M,cmd:echo a,b".into(), "dpkg".into()]);
        assert_eq!(split, ["copy-large:4M", "cmd:echo a,b", "dpkg"]);
    }
}
