//! Workloads of real mounts by name.

use super::program::Place;
use super::{Did, act, fio, program};
use anyhow::{Context, Result, bail};
use seawall_store::name::{format_size, parse_size};
use std::path::PathBuf;

/// Names, with one line each.
pub(crate) const MOUNT_WORKLOADS: &[(&str, &str)] = &[
    ("copy-large[:SIZE]", "one file of SIZE (512M) in writes of 1 MiB, close, unmount"),
    ("copy-1000[:N]", "N (1000) files of 1 MiB, each closed, then unmount"),
    (
        "osync-8[:SECONDS[:SIZE]]",
        "the f2fs thread's fio line, 8 O_SYNC writers of 1 MiB (60, 2G each); without fio an own \
         loop of the same calls",
    ),
    ("fsync-loop[:N]", "N (1000) x create, write 4 KiB, fsync, close (with --mount)"),
    ("untar:FILE", "tar -xf FILE"),
    ("git-clone:FROM", "git clone of a URL or of a repository's path (as over a wire)"),
    (
        "dpkg[:FOLDER]",
        "dpkg --unpack of coreutils grep sed bash, unsafe-io off; the packages are in FOLDER or \
         downloaded by apt-get",
    ),
    ("cmd:LINE", "sh -c LINE in the mount's root"),
];

/// What is done on a mount.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    CopyLarge(u64),
    CopySmall(u64),
    Osync { seconds: u64, bytes: u64 },
    FsyncLoop(u64),
    Untar(PathBuf),
    GitClone(String),
    Dpkg(Option<PathBuf>),
    Shell(String),
}

/// True for a workload that there is on mounts only.
pub(crate) fn is_mount_work(name: &str) -> bool {
    let word = name.split(':').next().unwrap_or_default();
    let known = |(k, _): &(&str, &str)| k.split([':', '[']).next() == Some(word);
    word != "fsync-loop" && MOUNT_WORKLOADS.iter().any(known)
}

impl Work {
    /// A workload by name.
    ///
    /// # Errors
    /// An unknown name, a missing or wrong argument.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let (word, rest) = name.split_once(':').map_or((name, None), |(w, r)| (w, Some(r)));
        let rest = rest.filter(|r| !r.is_empty());
        let what = || format!("workload {name}");
        let count = |text: Option<&str>, or: u64| match text {
            None => Ok(or),
            Some(text) => text.parse().ok().filter(|n| *n > 0).with_context(what),
        };
        let size = |text: Option<&str>, or: u64| text.map_or(Ok(or), parse_size).with_context(what);
        let path = |text: Option<&str>| {
            let path = PathBuf::from(text.with_context(|| format!("{}: what?", what()))?);
            path.canonicalize().with_context(|| format!("{}: {}", what(), path.display()))
        };
        Ok(match word {
            "copy-large" => Self::CopyLarge(size(rest, 512 << 20)?),
            "copy-1000" => Self::CopySmall(count(rest, 1000)?),
            "osync-8" => {
                let (seconds, bytes) = match rest.and_then(|r| r.split_once(':')) {
                    Some((seconds, bytes)) => (Some(seconds), Some(bytes)),
                    None => (rest, None),
                };
                let seconds = count(seconds.map(|s| s.trim_end_matches('s')), 60)?;
                Self::Osync { seconds, bytes: size(bytes, 2 << 30)? }
            }
            "fsync-loop" => Self::FsyncLoop(count(rest, 1000)?),
            "untar" => Self::Untar(path(rest)?),
            "git-clone" => {
                Self::GitClone(match rest.with_context(|| format!("{name}: what?"))? {
                    url if url.contains("://") => url.to_string(),
                    local => path(Some(local))?.to_string_lossy().into_owned(),
                })
            }
            "dpkg" => Self::Dpkg(rest.map(|r| path(Some(r))).transpose()?),
            "cmd" => Self::Shell(rest.with_context(|| format!("{name}: what?"))?.to_string()),
            _ => {
                let known: Vec<&str> = MOUNT_WORKLOADS.iter().map(|(n, _)| *n).collect();
                bail!("no workload {name} on a mount; there are {}", known.join(", "))
            }
        })
    }

    /// Its name in reports: no paths of this machine, which say nothing elsewhere.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::CopyLarge(bytes) => format!("copy-large:{}", format_size(*bytes)),
            Self::CopySmall(files) => format!("copy-1000:{files}"),
            Self::Osync { seconds, bytes } => format!("osync-8:{seconds}s:{}", format_size(*bytes)),
            Self::FsyncLoop(rounds) => format!("fsync-loop:{rounds}"),
            Self::Untar(file) => format!("untar:{}", base(&file.to_string_lossy())),
            Self::GitClone(from) => format!("git-clone:{}", base(from)),
            Self::Dpkg(_) => "dpkg".into(),
            Self::Shell(line) => format!("cmd:{line}"),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// The first call or program that failed.
    pub(super) fn run(&self, place: &Place<'_>) -> Result<Did> {
        match self {
            Self::CopyLarge(bytes) => act::copy_large(place, *bytes),
            Self::CopySmall(files) => act::copy_small(place, *files),
            Self::Osync { seconds, bytes } => fio::osync(place, *seconds, *bytes),
            Self::FsyncLoop(rounds) => act::fsync_loop(place, *rounds),
            Self::Untar(file) => program::untar(place, file),
            Self::GitClone(from) => program::git_clone(place, from),
            Self::Dpkg(folder) => program::dpkg(place, folder.as_deref()),
            Self::Shell(line) => program::shell(place, line),
        }
    }

    /// What has to be there before a clock starts.
    ///
    /// # Errors
    /// A program that is not installed, packages that cannot be had.
    pub(crate) fn prepare(self, folder: &std::path::Path) -> Result<Self> {
        match self {
            Self::Dpkg(None) => Ok(Self::Dpkg(Some(program::download(folder)?))),
            other => Ok(other),
        }
    }
}

fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_mistakes() {
        let name = |text: &str| Work::find(text).map(|w| w.name()).map_err(|e| format!("{e:#}"));
        assert_eq!(name("copy-large").unwrap(), "copy-large:512 MiB");
        assert_eq!(name("copy-large:4M").unwrap(), "copy-large:4 MiB");
        assert_eq!(name("osync-8").unwrap(), "osync-8:60s:2 GiB");
        assert_eq!(name("osync-8:5s:64M").unwrap(), "osync-8:5s:64 MiB");
        assert_eq!(name("cmd:echo a, b:c").unwrap(), "cmd:echo a, b:c");
        assert_eq!(name("git-clone:https://host/a/b.git").unwrap(), "git-clone:b.git");
        for (wrong, says) in [
            ("copy-big", "there are copy-large"),
            ("copy-large:x", "\"x\" is not a size"),
            ("copy-1000:0", "workload copy-1000:0"),
            ("untar", "untar: what?"),
            ("untar:/nowhere/x.tar", "/nowhere/x.tar: No such file"),
            ("cmd:", "cmd:: what?"),
        ] {
            let error = name(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
        assert!(is_mount_work("untar:x") && is_mount_work("dpkg") && is_mount_work("cmd:ls"));
        assert!(!is_mount_work("tree") && !is_mount_work("fsync-loop"));
    }
}
