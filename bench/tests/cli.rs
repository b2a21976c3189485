//! The `seawall` command as a program: exit status, where output goes, and real rows end to end.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn seawall(args: &[&str]) -> Output {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_seawall"));
    cmd.args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit status 1 and one line on stderr that has `word`.
fn refused(args: &[&str], word: &str) {
    let out = seawall(args);
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("seawall: ") && stderr.contains(word), "{args:?}: {stderr}");
    assert_eq!(text(&out.stdout), "", "{args:?}");
}

#[test]
fn mistakes_are_named_and_so_is_what_exists() {
    refused(&["--policy", "hurd-ful"], "hurd-full");
    refused(&["--workload", "tre"], "fsync-loop, tree");
    let run = |fs, policy, workload, device| {
        ["run", "--fs", fs, "--policy", policy, "--workload", workload, "--device", device]
    };
    refused(&run("fat", "default", "tree", "qemu-ssd"), "a mount needs a STORE");
    refused(&run("ext2", "default", "cmd:true", "qemu-ssd"), "a mount needs a STORE");
    refused(&run("ext2", "default", "trace:x", "qemu-ssd"), "not there yet");
    refused(&run("ext2", "default", "fsync-loop", "qemu-ss"), "qemu-ssd");
    refused(&["threads", "--csv", "no/such/folder.csv"], "no/such/folder.csv");
    refused(&["threads", "--csv", "x", "--html", "./x"], "cannot be one file");
    assert_eq!(seawall(&["threads", "--runs", "0"]).status.code(), Some(2));
    for verb in ["compare", "crash", "replay"] {
        refused(&[verb], "not there yet");
        refused(&[verb, "--whatever", "x"], "not there yet");
    }
    for usage in [&["--nonsense"][..], &["run"], &["list", "things"], &["nonsense"]] {
        assert_eq!(seawall(usage).status.code(), Some(2), "{usage:?}");
    }
    for help in ["--help", "--version"] {
        let out = seawall(&[help]);
        assert!(out.status.success() && !out.stdout.is_empty() && out.stderr.is_empty());
    }
}

#[test]
fn lists_name_every_preset_and_its_durability() {
    let out = text(&seawall(&["list", "policies"]).stdout);
    for name in seawall_diskfs::policy::PRESETS {
        assert!(out.contains(name), "{out}");
    }
    assert!(out.contains("not durable"));
    assert!(text(&seawall(&["list", "devices"]).stdout).contains("qemu-ssd"));
    assert!(text(&seawall(&["list", "workloads"]).stdout).contains("fsync-loop"));
}

/// Runs the loop in real time and returns the report's rows.
fn real(dir: &Path, device: &str, policies: &str, more: &[&str]) -> Vec<serde_json::Value> {
    let mut args = vec!["run", "--fs", "ext2", "--workload", "fsync-loop", "--json", "-"];
    let dir = dir.to_str().unwrap();
    args.extend(["--dir", dir, "--device", device, "--policy", policies]);
    args.extend(more);
    let out = seawall(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // Tables are for people and go to stderr here.
    assert!(text(&out.stderr).contains("REAL TIME"));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(text(&out.stdout).trim_start().starts_with("{\n  \"provenance\""), "provenance first");
    let place = &report["provenance"]["place"];
    assert!(place["filesystem"].is_string() && place["flush_p50_ns"].as_u64().unwrap() > 0);
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn a_real_row_counts_what_the_policy_promises() {
    let dir = tempfile::tempdir().unwrap();
    let rows = real(dir.path(), "mem:64M", "hurd-vanilla,hurd-full", &["--runs", "2"]);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let done = row["completed"].as_u64().unwrap();
        assert!(done > 0 && row["runs"] == 2, "{row}");
        assert_eq!(row["durability"]["fsync"], "not durable");
        let work = &row["phases"]["work"];
        let inode = work["sites"].as_array().unwrap().iter().find(|s| s[0] == "inode");
        let sent = inode.map_or(0, |s| s[1]["syncs_sent"].as_u64().unwrap());
        let wanted = if row["policy"] == "hurd-full" { done } else { 0 };
        assert_eq!((sent, work["store"]["syncs"].as_u64().unwrap()), (wanted, wanted));
    }
    // Nothing of the run is left.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_store_with_data_is_not_formatted() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    let mut bytes = vec![0u8; 64 << 20];
    bytes[5000] = 1;
    std::fs::write(&disk, &bytes).unwrap();
    let device = format!("file:{}", disk.display());
    let out = seawall(&[
        "run",
        "--fs",
        "ext2",
        "--policy",
        "default",
        "--workload",
        "fsync-loop",
        "--device",
        &device,
        "--dir",
        dir.path().to_str().unwrap(),
    ]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("holds data"), "{}", text(&out.stderr));
    assert!(std::fs::read(&disk).unwrap() == bytes, "the store was changed");
    // An empty one is, and the image is judged.
    bytes[5000] = 0;
    std::fs::write(&disk, &bytes).unwrap();
    for _ in 0..2 {
        let rows = real(dir.path(), &device, "default", &[]);
        assert_eq!(rows[0]["e2fsck"], "clean");
        assert_eq!(rows[0]["durability"]["fsync"], "durable");
    }
}
