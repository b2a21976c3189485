//! Workloads that other programs do.

use super::Did;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages of the Hurd thread's reinstallation.
const PACKAGES: [&str; 4] = ["coreutils", "grep", "sed", "bash"];

/// Where a workload works.
pub(super) struct Place<'a> {
    /// Root of the mount.
    pub(super) dir: &'a Path,
    /// A folder beside it, for what must not be on the mount.
    pub(super) folder: &'a Path,
    /// Makes file contents.
    pub(super) seed: u64,
    /// Told how much is done of how much.
    pub(super) tick: &'a dyn Fn(u64, u64),
}

/// Runs a program to its end and returns what it printed.
pub(super) fn run(mut cmd: Command, what: &str) -> Result<String> {
    let out = cmd.stdin(Stdio::null()).output().with_context(|| format!("starting {what}"))?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        bail!("{what} ended with {}: {}", out.status, last.join("; "));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

pub(super) fn untar(place: &Place<'_>, file: &Path) -> Result<Did> {
    let mut cmd = Command::new("tar");
    cmd.arg("-xf").arg(file).arg("-C").arg(place.dir);
    run(cmd, "tar")?;
    let notes = vec![format!("tar -xf {}", file_name(file))];
    Ok(Did { notes, ..Did::default() })
}

pub(super) fn git_clone(place: &Place<'_>, from: &str) -> Result<Did> {
    let mut cmd = Command::new("git");
    // A path would be copied by links; this way objects are packed and written as from a server.
    cmd.args(["clone", "--quiet", "--no-local", from]).arg(place.dir.join("clone"));
    run(cmd, "git clone")?;
    let notes = vec!["git clone --no-local, with git's own fsync settings".into()];
    Ok(Did { notes, ..Did::default() })
}

/// Unpacks into an empty root; maintainer scripts would need a whole system there.
pub(super) fn dpkg(place: &Place<'_>, folder: Option<&Path>) -> Result<Did> {
    let debs = packages(folder.context("dpkg: no packages")?)?;
    let admin = place.dir.join("var/lib/dpkg");
    for dir in ["info", "updates", "triggers"] {
        fs::create_dir_all(admin.join(dir)).with_context(|| admin.display().to_string())?;
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").with_context(|| admin.display().to_string())?;
    }
    let mut cmd = Command::new("dpkg");
    cmd.arg(format!("--root={}", place.dir.display()));
    cmd.args(["--no-force-unsafe-io", "--force-depends", "--unpack"]).args(&debs);
    run(cmd, "dpkg")?;
    let names: Vec<String> = debs.iter().map(|p| file_name(p)).collect();
    let options = "dpkg --no-force-unsafe-io --force-depends --unpack, an empty root, no scripts";
    let notes = vec![
        format!("{options}: {}", names.join(" ")),
        "the thread reinstalled the same four with apt, which also configures and runs scripts"
            .into(),
    ];
    Ok(Did { notes, ..Did::default() })
}

pub(super) fn shell(place: &Place<'_>, line: &str) -> Result<Did> {
    let mut cmd = Command::new("sh");
    cmd.args(["-c", line]).current_dir(place.dir);
    run(cmd, &format!("sh -c '{line}'"))?;
    Ok(Did::default())
}

/// Fetches the packages with apt-get.
pub(super) fn download(folder: &Path) -> Result<PathBuf> {
    let to = folder.join("packages");
    fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
    let mut cmd = Command::new("apt-get");
    cmd.arg("download").args(PACKAGES).current_dir(&to);
    run(cmd, "apt-get download (dpkg:FOLDER takes packages that are there)")?;
    Ok(to)
}

/// The newest file of each package.
fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("dpkg: {}", folder.display());
    let mut all: Vec<PathBuf> = Vec::new();
    for item in fs::read_dir(folder).with_context(what)? {
        all.push(item.with_context(what)?.path());
    }
    all.sort();
    PACKAGES
        .iter()
        .map(|name| {
            let of = |p: &&PathBuf| {
                let file = file_name(p);
                file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
            };
            let missing = || format!("{}: no {name}_*.deb", what());
            all.iter().rfind(of).cloned().with_context(missing)
        })
        .collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
