//! Our checker against `e2fsck -fn`: each field of each structure is damaged, and both must agree
//! whether the volume is clean.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/damage.rs"]
mod damage;

use damage::{Image, Rng, checked, judged, sample};
use seawall_diskfs::check::Severity;
use seawall_ext2::check::{Finding, Kind};
use seawall_tests::Scratch;
use std::fmt::Write;

/// Images judged for each shape; `SEAWALL_DAMAGES` overrides it.
const DAMAGES: u64 = 70;

/// Fields: name, byte, width.
fn fields(image: &Image) -> Vec<(String, usize, usize)> {
    let mut out = Vec::new();
    let mut all = |what: &str, at: usize, len: usize, width: usize| {
        for off in (0..len).step_by(width) {
            out.push((format!("{what}+{off:#x}"), at + off, width));
        }
    };
    all("superblock", 1024, 0x70, 4);
    all("superblock", 1024 + 0xC8, 0x48, 4);
    all("superblock", 1024 + 0x150, 0x20, 2);
    for g in 0..image.tables.len() {
        all(&format!("descriptor {g}"), image.descs + g * 32, 12, 4);
        all(&format!("descriptor {g}"), image.descs + g * 32 + 12, 20, 2);
    }
    for (n, at) in image.bitmaps.iter().enumerate() {
        all(&format!("bitmap {n}"), *at, 16, 1);
        all(&format!("bitmap {n} end"), at + image.bs - 8, 8, 1);
    }
    let root_block = image.block(2, 0);
    all("root directory", root_block, 120, 2);
    let names =
        ["file0", "file1", "d", "d/e", "many", "short", "long", "fifo", "dev", "lost+found"];
    for ino in names.iter().map(|n| image.path(n)).chain([1, 2, 3, 7, 8, 11]) {
        let at = image.inode(ino);
        all(&format!("inode {ino}"), at, 128, 2);
        all(&format!("inode {ino}"), at + 4, 4, 4);
        all(&format!("inode {ino}"), at + 40, 60, 4);
        all(&format!("inode {ino}"), at + 128, image.inode_size - 128, 4);
    }
    for dir in ["d", "many"].map(|n| image.path(n)) {
        all(&format!("directory {dir}"), image.block(dir, 0), 80, 2);
        all(&format!("directory {dir}, 2nd block"), image.block(dir, 1).max(1), 40, 4);
    }
    let pointers = image.block(image.path("file0"), 12);
    all("pointers", pointers.max(1), 16, 4);
    let attrs = image.u32(image.inode(image.path("d")) + 0x68) as usize * image.bs;
    if attrs != 0 {
        all("attributes", attrs, 64, 4);
        all("values", attrs + image.bs - 32, 32, 4);
    }
    all("long link", image.block(image.path("long"), 0), 8, 4);
    out
}

fn damage(image: &mut Image, r: &mut Rng, at: usize, width: usize) {
    let blocks = (image.data.len() / image.bs) as u64;
    let old: u64 = (0..width).map(|i| u64::from(image.data[at + i]) << (8 * i)).sum();
    let new = match r.below(9) {
        0 => 0,
        1 => u64::MAX,
        2 => old ^ 1 << r.below(8 * width as u64),
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => r.below(blocks),
        6 => r.below(64),
        7 => r.below(u64::from(u32::MAX)),
        _ => 1,
    };
    image.put(at, &new.to_le_bytes()[..width]);
}

/// Why a difference is right, if it is known to be.
fn known(image: &Image, ours_clean: bool) -> Option<&'static str> {
    let Ok(report) = checked(image.data.clone()) else { return None };
    let faults = report.findings().iter().filter(|f| f.kind.severity() > Severity::Note);
    let faults: Vec<_> = faults.collect();
    let only = |f: &dyn Fn(&Finding) -> bool| !ours_clean && faults.iter().all(|x| f(x));
    if only(&|f| f.kind == Kind::NameTwice) {
        return Some("e2fsck compares names within one block");
    }
    if only(&|f| f.kind == Kind::DeviceShort) {
        return Some("e2fsck -n goes on without what is missing");
    }
    if only(&|f| f.kind == Kind::GroupChecksum) {
        return Some(
            "e2fsck -n asks about a wrong checksum and ends with 0, and no kernel mounts it",
        );
    }
    if only(&|f| f.kind == Kind::AttrPlace && f.place.inode.is_some_and(|i| i < 11)) {
        return Some("e2fsck tells of such a block when it comes to a name of the inode");
    }
    None
}

fn agree(shape: &str, args: &[&str], kib: u64, seed: u64) {
    let base = sample(args, kib);
    let dir = Scratch::new();
    let file = dir.join("image");
    let (code, output) = judged(&file, &base.data);
    assert_eq!(code, Some(0), "{output}");
    assert!(base.check().is_clean(), "{:?}", base.check().findings());
    let fields = fields(&base);
    let count = std::env::var("SEAWALL_DAMAGES").map_or(DAMAGES, |n| n.parse().unwrap());
    let (mut r, mut wrong) = (Rng(seed), String::new());
    let (mut clean, mut same) = (0, 0);
    for n in 0..count {
        // Every field in turn, from a place of the seed's.
        let pick = (seed * 7919 + n * 3571) as usize % fields.len();
        let (name, at, width) = &fields[pick];
        let mut image = base.clone();
        damage(&mut image, &mut r, *at, *width);
        let ours = checked(image.data.clone());
        let ours_clean = ours.as_ref().is_ok_and(|r| r.is_clean());
        let (code, output) = judged(&file, &image.data);
        let theirs_clean = code == Some(0);
        clean += u32::from(theirs_clean);
        if ours_clean == theirs_clean || known(&image, ours_clean).is_some() {
            same += 1;
            continue;
        }
        let value = &image.data[*at..at + width];
        let _ok = writeln!(
            wrong,
            "== {shape} {name} = {value:x?} (was {:x?}): e2fsck {code:?}",
            &base.data[*at..at + width]
        );
        match ours {
            Ok(r) => r.findings().iter().for_each(|f| _ = writeln!(wrong, "   {f}")),
            Err(e) => _ = writeln!(wrong, "   {e}"),
        }
        if ours_clean {
            let told = output.lines().filter(|l| !l.starts_with("Pass ") && !l.is_empty());
            told.take(6).for_each(|l| _ = writeln!(wrong, "   > {l}"));
        }
    }
    assert!(wrong.is_empty(), "{shape}: {same} of {count} agree, {clean} clean\n{wrong}");
}

#[test]
fn blocks_of_1_kib() {
    let args = ["-b", "1024", "-I", "128", "-g", "2048", "-N", "256", "-O", "ext_attr,dir_index"];
    agree("1 KiB", &args, 4096, 1);
}

#[test]
fn blocks_of_4_kib() {
    agree("4 KiB", &["-b", "4096", "-I", "256", "-N", "256", "-O", "dir_index"], 4096, 2);
}

#[test]
fn features_of_ext4() {
    let features = "extents,uninit_bg,flex_bg,huge_file,dir_nlink,extra_isize,dir_index";
    agree("ext4", &["-b", "1024", "-g", "2048", "-N", "256", "-O", features], 8192, 4);
}

#[test]
fn revision_0() {
    agree("revision 0", &["-b", "1024", "-r", "0", "-O", "none", "-N", "256"], 4096, 3);
}
