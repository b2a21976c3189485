//! Which commit this is built from: a report names it, and the folder may have moved on when the
//! program runs.

use std::path::Path;
use std::process::{Command, Stdio};

/// Folders whose sources end up in the program.
const SOURCES: [&str; 8] =
    ["bench", "blockdev", "diskfs", "ext2srv", "fatsrv", "ipc", "store", "translator"];

fn git(args: &[&str]) -> Option<String> {
    let mut cmd = Command::new("git");
    let out = cmd.args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).trim().to_string();
    out.status.success().then_some(text)
}

fn commit() -> String {
    let Some(id) = git(&["rev-parse", "--short=12", "HEAD"]).filter(|id| !id.is_empty()) else {
        return "unknown".into();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => id,
        _ => format!("{id}-dirty"),
    }
}

fn main() {
    for folder in SOURCES {
        println!("cargo:rerun-if-changed=../{folder}/src");
    }
    // What a commit or a checkout changes.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]);
        if let Some(path) = path.filter(|p| Path::new(p).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rustc-env=SEAWALL_COMMIT={}", commit());
}
