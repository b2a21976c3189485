//! Step `nostd`: the engines and server cores link without the standard library.
//!
//! `tests/nostd` is a static library with its own panic handler and allocator. It links only if
//! nothing that it loads pulls std in, on any target, so no bare-metal toolchain is needed. A crate
//! that is not named there is not loaded and proves nothing; hence a crate that has code but no
//! line there fails the step.

use crate::host::{capture, cargo, check, root};
use crate::json;
use crate::steps::Ctx;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;

/// The gate's manifest.
pub(crate) const MANIFEST: &str = "tests/nostd/Cargo.toml";

const GATE: &str = "tests/nostd/src/lib.rs";
const LOCK: &str = "tests/nostd/Cargo.lock";

/// Folder and library name of everything that has to pass.
const CORES: &[(&str, &str)] = &[
    ("blockdev", "seawall_blockdev"),
    ("ipc", "seawall_ipc"),
    ("diskfs", "seawall_diskfs"),
    ("ext2srv", "seawall_ext2"),
    ("fatsrv", "seawall_fat"),
    ("store", "seawall_store"),
    ("translator", "seawall_translator"),
];

pub(crate) fn run(_: &mut Ctx) -> Result<()> {
    every_core_is_named()?;
    locks_agree()?;
    let text = capture(&mut cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"]))?;
    let gate_metadata = ["metadata", "--format-version=1", "--locked", "--manifest-path", MANIFEST];
    capture(&mut cargo(&gate_metadata))
        .with_context(|| format!("if {LOCK} is out of date, run `cargo xtask nostd --relock`"))?;
    let target = format!("{}/nostd", json::parse(&text)?.text("target_directory"));
    let gate = ["--manifest-path", MANIFEST, "--locked", "--target-dir", &target];
    check(cargo(&["build"]).args(gate))?;
    check(cargo(&["clippy"]).args(gate).args(["--", "-D", "warnings"]))
}

/// Renews the gate's lockfile with the versions of the workspace's.
pub(crate) fn relock() -> Result<()> {
    fs::copy(root().join("Cargo.lock"), root().join(LOCK)).context(LOCK)?;
    capture(&mut cargo(&["metadata", "--format-version=1", "--manifest-path", MANIFEST]))?;
    locks_agree()
}

fn every_core_is_named() -> Result<()> {
    let gate = fs::read_to_string(root().join(GATE)).context(GATE)?;
    let named = |krate: &str| {
        let lines = gate.lines().map(str::trim).filter(|l| !l.starts_with("//"));
        lines
            .into_iter()
            .any(|l| l.contains(&format!("{krate}::")) || l.contains(&format!("{krate} as")))
    };
    let mut unnamed = Vec::new();
    for (folder, krate) in CORES {
        let Ok(lib) = fs::read_to_string(root().join(folder).join("src/lib.rs")) else { continue };
        if named(krate) {
            println!("    {krate}: checked");
        } else if lib.contains("//! Not written yet.") {
            println!("    {krate}: has no code yet");
        } else {
            unnamed.push(format!("`use {krate} as _;`"));
        }
    }
    if !unnamed.is_empty() {
        bail!("{GATE} does not load what it is there to check; add {}", unnamed.join(" "));
    }
    Ok(())
}

/// The gate has to check the versions that are shipped.
fn locks_agree() -> Result<()> {
    let read = |path: &str| fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    let (ours, gate) = (read("Cargo.lock")?, read(LOCK)?);
    let ours = locked(&ours);
    let differ: Vec<String> = locked(&gate)
        .difference(&ours)
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    if !differ.is_empty() {
        bail!(
            "{LOCK} differs from Cargo.lock in {}: run `cargo xtask nostd --relock`",
            differ.join(", ")
        );
    }
    Ok(())
}

fn locked(lock: &str) -> BTreeSet<(&str, &str)> {
    let mut found = BTreeSet::new();
    for block in lock.split("[[package]]").filter(|b| b.contains("\nsource = ")) {
        let field = |key: &str| {
            block.lines().find(|l| l.starts_with(key)).and_then(|l| l.split('"').nth(1))
        };
        if let (Some(name), Some(version)) = (field("name = "), field("version = ")) {
            found.insert((name, version));
        }
    }
    found
}
