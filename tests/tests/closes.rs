//! The close policies of Linux's FAT thread on a real mount over a store with a cheap stick's
//! timing: how large the store's requests are, counted there, while the flusher is busy. Counts
//! only; the times are the device model's and belong into reports.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use seawall_diskfs::Site;
use seawall_ipc::storeproto::{Stats, sizes};
use seawall_tests::{Proc, Scratch, bin, pattern, run, tool};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A FAT volume in a `store serve`, mounted with a policy of the thread and a busy flusher.
struct Stick {
    place: Scratch,
    server: Option<Proc>,
    store: Proc,
}

impl Stick {
    fn new(profile: &str, policy: &str, flusher: &str) -> Self {
        let place = Scratch::new();
        place.dir("mnt");
        let store = place.join("store");
        let name = format!("sim:{profile}:mem:160M");
        let mut serve = Command::new(bin("store"));
        let serving = Proc::serve(serve.arg("serve").arg("--socket").arg(&store).arg(name), &store);
        let mut s = Self { place, server: None, store: serving };
        let mkfs = ["mkfs", "--sectors-per-cluster", "64"];
        run(Command::new(bin("fatsrv")).args(mkfs).arg(s.name())).ok();
        let text = format!("base = \"{policy}\"\n[flusher]\n{flusher}\n");
        fs::write(s.place.join("policy.toml"), text).unwrap();
        let socket = s.place.join("socket");
        let mut mount = Command::new(bin("fatsrv"));
        mount.arg("mount").arg(s.name()).arg(s.dir()).arg("--socket").arg(&socket);
        mount.arg("--policy").arg(s.place.join("policy.toml"));
        s.server = Some(Proc::serve(&mut mount, &socket));
        s
    }

    fn name(&self) -> String {
        format!("unix:{}", self.place.join("store").display())
    }

    fn dir(&self) -> PathBuf {
        self.place.join("mnt")
    }

    fn umount(&mut self) {
        run(tool("umount").arg(self.dir())).ok();
        let status = self.server.take().unwrap().wait(Duration::from_secs(120));
        assert!(status.success(), "{status}");
    }

    /// A counter of `ctl DIR stats`.
    fn counter(&self, name: &str) -> u64 {
        let text = run(Command::new(bin("fatsrv")).arg("ctl").arg(self.dir()).arg("stats")).ok();
        let line = text.stdout.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {}", text.stdout)).trim().parse().unwrap()
    }

    /// Writes of file data that arrived at the store: (requests, bytes, bytes in requests of 768
    /// KiB and more).
    fn data_writes(&self) -> (u64, u64, u64) {
        let text = run(Command::new(bin("store")).args(["stats", "--json"]).arg(self.name())).ok();
        let all: Stats = serde_json::from_str(&text.stdout).unwrap();
        let data = &all.tags.iter().find(|t| t.tag == Site::Data.tag().0).unwrap().counters;
        (data.writes, data.write_bytes, sizes::large(&data.write_sizes).1)
    }
}

impl Drop for Stick {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
        let _already_unmounted = run(tool("umount").arg("-l").arg(self.dir()));
        self.store.kill();
    }
}

/// Copies 32 MiB. Returns the data's requests and bytes, as they arrived in the end.
fn copied(policy: &str) -> (u64, u64, u64) {
    let mut s = Stick::new("pny32", policy, "background = 4194304\ninterval_ms = 1000");
    let body = pattern(32 * MIB as usize, 7);
    fs::write(s.place.join("src"), &body).unwrap();
    run(tool("cp").arg(s.place.join("src")).arg(s.dir().join("big"))).ok();
    assert!(s.counter("written for the threshold, bytes") > 0, "{policy}: the flusher was busy");
    let dirty = s.counter("dirty data bytes");
    match policy {
        "fat-wait1" => assert_eq!(dirty, 0, "it waits for its data"),
        "fat-wait0" => assert!(dirty > 16 * MIB, "it leaves the file to the flusher: {dirty}"),
        _ => {}
    }
    s.umount();
    s.data_writes()
}

#[test]
fn one_writer_an_inode_makes_large_requests_and_two_do_not() {
    let mut one_writer = 0;
    for policy in ["fat-wait1", "fat-wait0", "fat-submit"] {
        let (requests, bytes, large) = copied(policy);
        assert_eq!(bytes, 32 * MIB, "{policy}");
        assert!(large * 10 >= bytes * 9, "{policy}: {large} of {bytes} in large requests");
        one_writer = one_writer.max(requests);
    }
    let (requests, bytes, large) = copied("fat-stock");
    println!("two walkers: {requests} requests, {} KiB each (250 fitted)", bytes / 1024 / requests);
    assert_eq!(bytes, 32 * MIB);
    assert!(requests > one_writer * 3 / 2, "{requests} with two walkers, {one_writer} with one");
    assert!(large * 10 < bytes * 9, "{large} of {bytes}");
}

#[test]
fn small_writes_become_large_requests() {
    let mut s = Stick::new("pny32", "default", "background = 4194304");
    let small = format!("of={}", s.dir().join("small").display());
    run(tool("dd").args(["if=/dev/zero", "bs=4k", "count=4096", "status=none"]).arg(small)).ok();
    s.umount();
    let (requests, bytes, large) = s.data_writes();
    assert_eq!(bytes, 16 * MIB);
    assert!(large * 10 >= bytes * 9, "{requests} requests, {large} of {bytes} in large ones");
}

#[test]
fn many_writers_are_throttled_and_not_refused() {
    let limit = 4 * MIB;
    let flusher = "background = 1048576\nlimit = 4194304\ninterval_ms = 200";
    let mut s = Stick::new("pny32", "fat-wait1", flusher);
    let body = pattern(6 * MIB as usize, 3);
    std::thread::scope(|scope| {
        let copies: Vec<_> = (0..8)
            .map(|i| {
                let (to, body) = (s.dir().join(format!("f{i}")), &body);
                scope.spawn(move || fs::write(to, body).unwrap())
            })
            .collect();
        while copies.iter().any(|c| !c.is_finished()) {
            let dirty = s.counter("dirty data bytes");
            assert!(dirty <= limit, "{dirty} dirty");
            assert!(s.counter("data cache bytes") <= limit + 32 * MIB);
        }
    });
    assert!(s.counter("writers throttled") > 0);
    for i in 0..8 {
        assert_eq!(fs::read(s.dir().join(format!("f{i}"))).unwrap(), body);
    }
    s.umount();
}

#[test]
fn others_go_on_while_closes_wait() {
    let mut s = Stick::new("pny32", "fat-wait1", "background = 1073741824\nlimit = 1073741824");
    let body = pattern(4 * MIB as usize, 3);
    fs::write(s.dir().join("here"), b"x").unwrap();
    std::thread::scope(|scope| {
        let copies: Vec<_> = (0..8)
            .map(|i| {
                let (to, body) = (s.dir().join(format!("f{i}")), &body);
                scope.spawn(move || fs::write(to, body).unwrap())
            })
            .collect();
        let mut between = 0;
        while copies.iter().filter(|c| !c.is_finished()).count() > 1 {
            assert_eq!(fs::read(s.dir().join("here")).unwrap(), b"x");
            fs::metadata(s.dir().join(format!("none{between}"))).unwrap_err();
            between += 1;
        }
        // With the mount's threads in closes, there would be one for each of them at most.
        assert!(between > 20, "{between} looks while eight closes waited");
    });
    s.umount();
}
