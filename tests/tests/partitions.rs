//! `part:` beside what others make of the same disk: tables by sfdisk and sgdisk, filesystems by
//! the kernel.
//!
//! Needs root and loop devices. The kernel's part is done by offset, so that it needs no support
//! for partition tables.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{
    Compare, LoopMount, Proc, Scratch, assert_same_tree, bin, run, sample_tree, tool, tree_snapshot,
};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// A sparse file of `size` bytes.
fn sparse(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

/// Makes a table with sfdisk.
#[track_caller]
fn sfdisk(disk: &Path, script: &str) {
    let mut cmd = tool("sfdisk");
    cmd.args(["-q", "--no-reread", "--wipe", "never"]).arg(disk);
    let mut child = cmd.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Number, start, size, type and name of each partition.
type Row = (u64, u64, u64, String, String);

/// What sfdisk says is there.
fn theirs(disk: &Path) -> Vec<Row> {
    let text = run(tool("sfdisk").arg("-J").arg(disk)).ok().stdout;
    let table = &serde_json::from_str::<Value>(&text).unwrap()["partitiontable"];
    let sector = table["sectorsize"].as_u64().unwrap();
    let is_mbr = table["label"] == "dos";
    let row = |p: &Value| {
        let node = p["node"].as_str().unwrap();
        let digits = node.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let kind = p["type"].as_str().unwrap();
        let kind = if is_mbr { format!("0x{kind:0>2}") } else { kind.to_owned() };
        let bytes = |key: &str| p[key].as_u64().unwrap() * sector;
        let name = p["name"].as_str().unwrap_or_default().to_owned();
        (node[digits..].parse().unwrap(), bytes("start"), bytes("size"), kind, name)
    };
    table["partitions"].as_array().unwrap().iter().map(row).collect()
}

fn info(store: &str) -> Value {
    let text = run(Command::new(bin("store")).args(["info", "--json", store])).ok().stdout;
    serde_json::from_str(&text).unwrap()
}

/// What `store info` says is there.
fn ours(disk: &Path) -> Vec<Row> {
    let info = info(disk.to_str().unwrap());
    let row = |p: &Value| {
        let text = |key: &str| p[key].as_str().unwrap().to_owned();
        let number = |key: &str| p[key].as_u64().unwrap();
        (number("number"), number("start"), number("size"), text("type"), text("name"))
    };
    info["partition_table"]["partitions"].as_array().unwrap().iter().map(row).collect()
}

/// The same rows, and every partition that holds data opens with its size.
#[track_caller]
fn assert_seen(disk: &Path, count: usize) {
    let rows = ours(disk);
    assert_eq!(rows, theirs(disk));
    assert_eq!(rows.len(), count);
    for (number, _, size, kind, _) in rows {
        if !["0x05", "0x0f"].contains(&kind.as_str()) {
            let part = info(&format!("part:{number}:{}", disk.display()));
            assert_eq!(part["size"].as_u64().unwrap(), size, "partition {number}");
        }
    }
}

const LOGICAL: &str = "label: dos\nsize=8M,type=c\nsize=4M,type=83\nsize=30M,type=f\n\
    size=8M,type=82\nsize=4M,type=6\nsize=4M,type=83\nsize=4M,type=7\nsize=1M,type=ef\n";
const GUIDS: &str = "label: gpt\nsize=8M,type=U,name=\"EFI and so on\"\nsize=4M\n\
    7: start=65536,size=4M,type=S,name=\"far\"\nsize=3M,name=\"\u{e9}\u{1d11e}\"\n";

#[test]
fn tables_of_sfdisk_and_sgdisk_are_seen_as_sfdisk_sees_them() {
    let place = Scratch::new();
    let disk = place.join("disk");
    for (script, count) in [
        ("label: dos\nsize=8M,type=c,bootable\n4: start=40960,size=3M,type=83\n", 2),
        (LOGICAL, 8),
        (GUIDS, 4),
    ] {
        sparse(&disk, 64 * MIB);
        sfdisk(&disk, script);
        assert_seen(&disk, count);
    }
    sparse(&disk, 64 * MIB);
    let parts =
        ["-n", "1:0:+4M", "-n", "3:0:+5M", "-c", "3:three", "-t", "1:EF00", "-n", "128:0:0"];
    run(tool("sgdisk").args(["-o"]).args(parts).arg(&disk)).ok();
    assert_seen(&disk, 3);
    // Hybrid: entry 1 of the MBR is partition 3 of the GPT, and the GPT counts.
    run(tool("sgdisk").args(["-h", "3"]).arg(&disk)).ok();
    let rows = ours(&disk);
    assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), [1, 3, 128]);
}

/// An image as a block device with blocks of 4096.
struct Loop4K(String);

impl Loop4K {
    fn new(image: &Path) -> Self {
        let made = run(tool("losetup").args(["-b", "4096", "-f", "--show"]).arg(image)).ok();
        Self(made.stdout.trim().to_owned())
    }
}

impl Drop for Loop4K {
    fn drop(&mut self) {
        run(tool("losetup").args(["-d", &self.0]));
    }
}

#[test]
fn tables_of_disks_with_blocks_of_4096() {
    let place = Scratch::new();
    let disk = place.join("disk");
    sparse(&disk, 64 * MIB);
    let device = Loop4K::new(&disk);
    sfdisk(Path::new(&device.0), "label: gpt\nsize=8M,name=\"first\"\n5: size=4M\n");
    assert_seen(Path::new(&device.0), 2);
    // The image of that disk, which nothing but the place of the header gives away.
    let image = info(disk.to_str().unwrap());
    assert_eq!(image["logical"], 512);
    assert_eq!(image["partition_table"]["unit"], 4096);
    assert_eq!(ours(&disk), theirs(Path::new(&device.0)));
    sfdisk(Path::new(&device.0), "label: dos\nsize=8M,type=c\nsize=20M,type=5\nsize=8M\n");
    assert_seen(Path::new(&device.0), 3);
}

#[test]
fn a_damaged_header_is_said_and_its_backup_used() {
    let place = Scratch::new();
    let disk = place.join("disk");
    sparse(&disk, 64 * MIB);
    sfdisk(&disk, GUIDS);
    let before = ours(&disk);
    let mut bytes = fs::read(&disk).unwrap();
    bytes[512 + 60] ^= 1;
    fs::write(&disk, &bytes).unwrap();
    assert_eq!(ours(&disk), before);
    let name = format!("part:2:{}", disk.display());
    let seen = run(Command::new(bin("store")).args(["info", &name])).ok();
    assert!(seen.stderr.contains("the primary GPT header at byte 512 has a wrong checksum"));
    let seen = run(Command::new(bin("store")).arg("info").arg(&disk)).ok();
    assert!(seen.stdout.contains("warning: the primary GPT header"), "{seen}");
    let end = bytes.len() - 512 + 60;
    bytes[end] ^= 1;
    fs::write(&disk, &bytes).unwrap();
    let seen = run(Command::new(bin("store")).args(["info", &name])).exits(1);
    assert!(seen.stderr.contains("the GPT is damaged: its primary header at byte 512"), "{seen}");
}

fn ext2srv() -> Command {
    Command::new(bin("ext2srv"))
}

fn options(row: &Row) -> String {
    format!("loop,offset={},sizelimit={}", row.1, row.2)
}

#[track_caller]
fn assert_clean(disk: &Path, row: &Row) {
    let volume = format!("{}?offset={}", disk.display(), row.1);
    run(tool("e2fsck").args(["-fn", &volume])).ok();
}

#[test]
fn a_filesystem_in_a_partition_is_one_for_the_kernel_and_the_other_way_round() {
    let place = Scratch::new();
    let (disk, mnt, socket) = (place.join("disk"), place.dir("mnt"), place.join("socket"));
    sparse(&disk, 128 * MIB);
    sfdisk(&disk, "label: dos\ndisk1: size=40M\ndisk2: size=80M,type=5\ndisk5: size=36M\n");
    let rows = ours(&disk);
    let part = |n: u32| format!("part:{n}:{}", disk.display());
    // Made through part:, used by the kernel.
    run(ext2srv().args(["mkfs", &part(1), "--block-size", "1K"])).ok();
    assert_clean(&disk, &rows[0]);
    let kernel = LoopMount::with(&disk, &options(&rows[0]));
    sample_tree(kernel.path());
    let expected = tree_snapshot(kernel.path());
    kernel.unmount();
    // Mounted through part:, filled, used by the kernel.
    let before = fs::read(&disk).unwrap();
    run(ext2srv().args(["mkfs", &part(5)])).ok();
    let mut server = ext2srv();
    server.arg("mount").arg(part(5)).arg(&mnt).arg("--socket").arg(&socket);
    let mut server = Proc::serve(&mut server, &socket);
    sample_tree(&mnt);
    // The disk has one writer, whichever partition it is in.
    let seen = run(ext2srv().args(["mkfs", &part(1)])).exits(1);
    assert!(seen.stderr.contains("one writer for all of its partitions"), "{seen}");
    let mounted = tree_snapshot(&mnt);
    run(ext2srv().args(["ctl"]).arg(&mnt).arg("shutdown")).ok();
    assert!(server.wait(LIMIT).success());
    assert_clean(&disk, &rows[2]);
    let kernel = LoopMount::with(&disk, &options(&rows[2]));
    assert_same_tree(&tree_snapshot(kernel.path()), &mounted, Compare::default());
    kernel.unmount();
    // Nothing outside of partition 5 was written, but by the kernel's own mount nothing at all.
    let after = fs::read(&disk).unwrap();
    let (start, end) = (rows[2].1 as usize, (rows[2].1 + rows[2].2) as usize);
    assert!(before[..start] == after[..start] && before[end..] == after[end..]);
    // Served as a store, mounted over the socket, beside nobody.
    let (store, fs) = (place.join("store"), place.join("fs"));
    let mut serve = Command::new(bin("store"));
    serve.args(["serve", &part(1), "--socket"]).arg(&store);
    let mut serve = Proc::serve(&mut serve, &store);
    let mut server = ext2srv();
    server.arg("mount").arg(format!("unix:{}", store.display())).arg(&mnt);
    let mut server = Proc::serve(server.arg("--socket").arg(&fs), &fs);
    assert_same_tree(&tree_snapshot(&mnt), &expected, Compare::default());
    run(ext2srv().args(["ctl"]).arg(&mnt).arg("shutdown")).ok();
    assert!(server.wait(LIMIT).success());
    serve.terminate();
    assert!(serve.wait(LIMIT).success());
    assert_clean(&disk, &rows[0]);
    // The whole disk served, the partition taken by its client.
    let whole = place.join("whole");
    let mut serve = Command::new(bin("store"));
    serve.arg("serve").arg(&disk).arg("--socket").arg(&whole);
    let mut serve = Proc::serve(&mut serve, &whole);
    run(ext2srv().args(["check", &format!("part:5:unix:{}", whole.display())])).ok();
    serve.terminate();
    assert!(serve.wait(LIMIT).success());
}
