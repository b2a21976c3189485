//! `seawall run` on real mounts: own workloads and a shell's line, on both filesystems, with the
//! counts that the policies promise. Needs root and /dev/fuse.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use seawall_tests::{Scratch, bin, run};
use serde_json::Value;
use std::process::Command;

fn seawall(place: &Scratch, args: &[&str]) -> seawall_tests::Run {
    let mut cmd = Command::new(bin("seawall"));
    run(cmd.arg("run").args(args).arg("--dir").arg(place.path()))
}

fn rows(fs: &str, policies: &str, work: &str, device: &str) -> Vec<Value> {
    let place = Scratch::new();
    let args = ["--fs", fs, "--policy", policies, "--mount", "--workload", work];
    let args = [&args[..], &["--device", device, "--json", "-"]].concat();
    let out = seawall(&place, &args).ok().stdout;
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let report: Value = serde_json::from_str(&out).unwrap();
    report["rows"].as_array().unwrap().clone()
}

fn number(row: &Value, at: &str) -> u64 {
    row.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at} in {row}"))
}

#[test]
fn a_barrier_policy_flushes_once_a_round_and_says_what_that_costs() {
    let rows = rows("ext2", "hurd-vanilla,hurd-full", "fsync-loop:10", "sim:qemu-ssd:mem:64M");
    let flushes = |r: &Value| r["phases"]["work"]["store"]["flushes"].as_u64().unwrap();
    let flushes: Vec<u64> = rows.iter().map(flushes).collect();
    assert_eq!(flushes[0], 0);
    assert!((10..=12).contains(&flushes[1]), "one a round and one of the mount: {flushes:?}");
    for row in &rows {
        // The model's number, not a measured one.
        assert_eq!(
            (number(row, "/flush_ns"), row["flush_cost_is"].as_str()),
            (500_000, Some("modelled"))
        );
        assert_eq!(number(row, "/content_bytes"), 40_960);
        assert!(row["calls"]["fsync"]["p50_ns"].is_u64());
    }
}

#[test]
fn copies_and_shell_lines_run_on_ext2_and_fat() {
    let work = "copy-large:3M,copy-1000:2,cmd:mkdir a, && echo b > a,/c";
    for fs in ["ext2", "fat"] {
        let policy = if fs == "fat" { "fat-wait1" } else { "default" };
        let rows = rows(fs, policy, work, "mem:64M");
        let names: Vec<&str> = rows.iter().map(|r| r["workload"].as_str().unwrap()).collect();
        let line = "cmd:mkdir a, && echo b > a,/c";
        assert_eq!(names, ["copy-large:3 MiB", "copy-1000:2", line], "{fs}");
        assert_eq!(rows[0]["flush_cost_is"], "measured");
        assert!(number(&rows[0], "/write_bytes") >= 3 << 20);
        assert!(number(&rows[1], "/write_bytes") >= 2 << 20);
    }
}

#[test]
fn an_image_is_checked_and_a_failed_program_takes_its_mount_away() {
    let place = Scratch::new();
    let image = place.join("image");
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let device = image.to_str().unwrap().to_string();
    let all = rows("ext2", "default", "copy-1000:1", &device);
    assert_eq!(all[0]["check"], "clean");
    // The volume that the first made may be made again, also as the other filesystem.
    assert_eq!(rows("fat", "fat-stock", "copy-1000:1", &device)[0]["check"], "clean");
    let other = Scratch::new();
    let args = ["--fs", "ext2", "--policy", "default", "--workload", "cmd:exit 3"];
    let out = seawall(&other, &[&args[..], &["--device", "mem:16M"]].concat());
    assert!(!out.status.success());
    assert!(out.stderr.contains("sh -c 'exit 3' ended with exit status: 3"), "{}", out.stderr);
    assert!(std::fs::read_dir(other.path()).unwrap().next().is_none());
}

#[test]
fn mistakes_are_one_line() {
    let place = Scratch::new();
    for (work, device, says) in [
        ("untar:/nowhere.tar", "mem:16M", "/nowhere.tar: No such file"),
        ("copy-large", "pny32", "a mount needs a STORE, such as sim:pny32:mem:4G"),
        ("tree,copy-large", "mem:16M", "no workload tree on a mount"),
        ("copy-large:1M", "sim:./nowhere.toml:mem:16M", "nowhere.toml: No such file"),
    ] {
        let args = ["--fs", "ext2", "--policy", "default", "--workload", work];
        let out = seawall(&place, &[&args[..], &["--device", device]].concat());
        assert!(!out.status.success());
        assert!(out.stderr.contains(says), "{work}: {}", out.stderr);
        assert_eq!(out.stderr.trim_end().lines().count(), 1, "{}", out.stderr);
    }
}
