//! Volumes as they are found: boot sectors, FATs and marks that others wrote.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "common/image.rs"]
mod image;
#[path = "common/volume.rs"]
mod volume;

use image::{Image, dir, entry, file, long, pattern, short};
use seawall_diskfs::{FsError, Refused};
use seawall_fat::boot::FatType;
use seawall_fat::name::Rules;
use seawall_fat::{Marks, OpenOptions};
use std::path::PathBuf;
use volume::{Mem, engine_on, fsck_fat, in_memory};

/// A file of the test's own.
fn scratch(bytes: &[u8]) -> (seawall_tests::Scratch, PathBuf) {
    let scratch = seawall_tests::Scratch::new();
    let path = scratch.path().join("volume.img");
    std::fs::write(&path, bytes).unwrap();
    (scratch, path)
}

#[track_caller]
fn assert_clean(bytes: &[u8]) {
    let (_scratch, path) = scratch(bytes);
    volume::assert_clean(&path);
}

/// The disk after everything was written and the marks cleared.
fn unmounted(mut v: Mem) -> Vec<u8> {
    v.settle().unwrap();
    v.host.dev.into_inner().data
}

fn names(v: &mut Mem, path: &str) -> Vec<String> {
    let mut names: Vec<String> = v.list(path).unwrap().into_iter().map(|(n, ..)| n).collect();
    names.sort();
    names
}

/// `Hello World.txt` with 13 bytes, and one more file.
fn hello(image: &mut Image) -> Vec<u8> {
    let start = image.put(b"hello, world\n");
    long("Hello World.txt", "HELLOW~1.TXT", start, 13)
}

fn describe(v: &mut Mem) -> String {
    let ctx = v.ctx.clone();
    v.run(|fs, t| fs.describe(&ctx, t)).unwrap().unwrap()
}

#[test]
fn jump_bytes_oem_names_and_hidden_sectors_do_not_matter() {
    for (bits, clusters) in [(12, 2000), (16, 5000)] {
        for (jump, oem, hidden) in [
            ([0xE9, 0, 0], *b"\0\0\0\0\0\0\0\0", 0),
            ([0xEB, 0xFE, 0x90], *b"ODD OEM!", 0),
            ([0xEB, 0x3C, 0x90], *b"MSDOS5.0", 63),
        ] {
            let mut image = Image { jump, oem, hidden, ..Image::new(bits, clusters) };
            let slots = hello(&mut image);
            image.root(&[&slots]);
            let mut v = in_memory(image.bytes(), "default");
            assert_eq!(names(&mut v, "/"), ["Hello World.txt"]);
            assert_eq!(v.read("/hello world.TXT", 0, 100).unwrap(), b"hello, world\n");
            v.create("/NEW.TXT").unwrap();
            assert_clean(&unmounted(v));
        }
    }
}

#[test]
fn sectors_up_to_4096_bytes() {
    for (bits, clusters, sector) in [(12, 1500, 1024), (16, 4500, 2048), (32, 66_000, 4096)] {
        let mut image = Image::new(bits, clusters).sectors(sector);
        let deep = pattern(sector, 3 * sector as usize + 17);
        let start = image.put(&deep);
        image.put_dir_at(1000, 0, &file("DEEP.BIN", start, deep.len() as u32));
        let slots = hello(&mut image);
        image.root(&[&slots, &dir("SUB", 1000)]);
        let mut v = in_memory(image.bytes(), "default");
        assert_eq!(v.read("/sub/deep.bin", 0, 100_000).unwrap(), deep);
        v.create("/SUB/more.txt").unwrap();
        v.write("/SUB/more.txt", 0, &deep).unwrap();
        assert_clean(&unmounted(v));
    }
}

#[test]
fn the_type_is_that_of_the_cluster_count() {
    let cases =
        [(12, 4084, FatType::Fat12), (16, 4085, FatType::Fat16), (32, 1000, FatType::Fat32)];
    for (bits, clusters, want) in cases {
        let mut image = Image::new(bits, clusters);
        // Low and high numbers: a wrong width of entries breaks the content.
        let content = pattern(7, 5 * 512);
        image.put_at(&[3, 900, 7, 901, 8], &content);
        image.root(&[&file("CHAIN.BIN", 3, 5 * 512)]);
        let mut bytes = image.bytes();
        // The name in the sector lies.
        let at = if bits == 32 { 82 } else { 54 };
        bytes[at..at + 8].copy_from_slice(if bits == 12 { b"FAT16   " } else { b"FAT12   " });
        let mut v = in_memory(bytes, "default");
        assert_eq!(v.host.fs.format().boot().fat_type, want);
        assert!(describe(&mut v).starts_with(want.name()));
        assert_eq!(v.read("/CHAIN.BIN", 0, 9999).unwrap(), content);
    }
}

#[test]
fn fsinfo_is_not_believed_and_put_right() {
    for (fsinfo, backup) in
        [(Some((0, 3)), 6), (Some((255, 0xFFFF_FFF0)), 6), (Some((0x0FFF_FFFF, 2)), 6), (None, 0)]
    {
        let mut image = Image { fsinfo, backup, ..Image::new(32, 66_000) };
        let slots = hello(&mut image);
        image.root(&[&slots]);
        let mut v = in_memory(image.bytes(), "default");
        assert_eq!(v.statfs().0, 65_998);
        let content = pattern(3, 1 << 20);
        v.create("/big.bin").unwrap();
        v.write("/big.bin", 0, &content).unwrap();
        assert_eq!(v.read("/big.bin", 0, 2 << 20).unwrap(), content);
        assert_eq!(v.statfs().0, 65_998 - 2048);
        let (_scratch, path) = scratch(&unmounted(v));
        let (_, said) = fsck_fat(&path);
        assert!(!said.contains("summary"), "{said}");
    }
}

#[test]
fn the_label_is_the_roots() {
    let label = |name: &[u8; 11]| entry(*name, 0x08, 0, 0).to_bytes().to_vec();
    let mut gone = label(b"ROOTLABEL  ");
    gone[0] = 0xE5;
    for (slot, want) in [
        (label(b"ROOTLABEL  "), "FAT16 ROOTLABEL"),
        (gone, "FAT16"),
        (Vec::new(), "FAT16"),
        (label(b"\x05T\x90        "), "FAT16 \u{d5}T\u{c9}"),
    ] {
        let mut image = Image { label: *b"BOOTLABEL  ", ..Image::new(16, 5000) };
        let slots = hello(&mut image);
        image.root(&[&slot, &slots]);
        let codepage = seawall_fat::codepage::CodePage::by_name("850").unwrap();
        let rules = Rules { codepage, ..Rules::default() };
        let data = image.bytes();
        let fs = engine_on(&data, OpenOptions { rules, ..OpenOptions::default() }).unwrap();
        let dev = seawall_blockdev::Numbered::new(seawall_diskfs::testing::MemDev::new(data));
        let host = seawall_diskfs::testing::mount(fs, dev, "default").unwrap();
        let mut v = Mem { host, ctx: seawall_diskfs::Ctx::default(), restarts: 0 };
        assert_eq!(describe(&mut v), want);
        assert_eq!(names(&mut v, "/"), ["Hello World.txt"], "a label is no file");
    }
}

#[test]
fn one_fat_or_a_second_one_that_is_out_of_date() {
    let mut image = Image { fats: 1, ..Image::new(16, 5000) };
    let b = pattern(6, 5000);
    let start = image.put(&b);
    image.root(&[&file("B.BIN", start, 5000)]);
    let mut v = in_memory(image.bytes(), "default");
    v.create("/C.TXT").unwrap();
    v.write("/C.TXT", 0, b"new").unwrap();
    assert_eq!(v.read("/B.BIN", 0, 9999).unwrap(), b);
    assert_clean(&unmounted(v));

    let mut image = Image::new(16, 5000);
    let start = image.put(&b);
    image.root(&[&file("B.BIN", start, 5000)]);
    image.second = image.fat.keys().filter(|c| **c >= 2).map(|c| (*c, 0)).collect();
    let mut v = in_memory(image.bytes(), "default");
    assert_eq!(v.read("/B.BIN", 0, 9999).unwrap(), b);
    v.create("/C.TXT").unwrap();
    v.write("/C.TXT", 0, &pattern(9, 700)).unwrap();
    v.write("/B.BIN", 5000, &pattern(8, 200)).unwrap();
    let bytes = unmounted(v);
    // Free ones, and the last one of B.BIN, which leads on now.
    let touched = (2..5002).filter(|c| !image.fat.contains_key(c) || *c == start + 9);
    for c in touched {
        let at = |copy| {
            let at = image.entry_at(copy, c);
            [bytes[at], bytes[at + 1]]
        };
        assert_eq!(at(0), at(1), "cluster {c}");
    }
    let mut v = in_memory(bytes, "default");
    assert_eq!(v.read("/B.BIN", 0, 5000).unwrap(), b);
}

#[test]
fn a_root_elsewhere_upper_bits_and_every_end_mark() {
    let mut image = Image { root_cluster: 7, ..Image::new(32, 70_000) };
    image.fat.remove(&2);
    let content: Vec<Vec<u8>> = (1..5).map(|n| pattern(n, 1500)).collect();
    image.put_at(&[20, 21, 22], &content[0]);
    image.fat.insert(22, 0x0FFF_FFF8);
    image.put_at(&[30, 31, 32], &content[1]);
    image.fat.insert(32, 0x0FFF_FFFB);
    image.put_at(&[40, 41, 42], &content[2]);
    image.fat.insert(40, 0xA000_0000 | 41);
    image.fat.insert(42, 0xFFFF_FFFF);
    image.put_at(&[69_000, 66_001, 65_537], &content[3]);
    let starts = [20, 30, 40, 69_000];
    let slots: Vec<Vec<u8>> = ["F8.BIN", "FB.BIN", "TOP.BIN", "HIGH.BIN"]
        .iter()
        .zip(starts)
        .map(|(n, c)| file(n, c, 1500))
        .collect();
    image.root(&[&slots.concat()]);
    let mut v = in_memory(image.bytes(), "default");
    for (name, want) in ["/F8.BIN", "/FB.BIN", "/TOP.BIN", "/HIGH.BIN"].iter().zip(&content) {
        assert_eq!(v.read(name, 0, 9999).unwrap(), *want, "{name}");
    }
    for name in ["/TOP.BIN", "/F8.BIN"] {
        v.write(name, 1500, b"!").unwrap();
    }
    v.mkdir("/deeper").unwrap();
    let bytes = unmounted(v);
    let at = image.entry_at(0, 40);
    assert_eq!(bytes[at + 3] >> 4, 0xA, "the upper bits stay");
    assert_clean(&bytes);

    let mut image = Image::new(12, 2000);
    image.put_at(&[20, 21, 22], &content[0]);
    image.fat.insert(22, 0xFF8);
    image.put_at(&[30, 31, 33], &content[1]);
    image.fat.insert(33, 0xFFB);
    image.root(&[&file("F8.BIN", 20, 1500), &file("FB.BIN", 30, 1500)]);
    let mut v = in_memory(image.bytes(), "default");
    assert_eq!(v.read("/F8.BIN", 0, 9999).unwrap(), content[0]);
    assert_eq!(v.read("/FB.BIN", 0, 9999).unwrap(), content[1]);
}

/// The last cluster, and a FAT with fewer entries than the sectors have room for.
#[test]
fn a_volume_is_filled_to_its_last_cluster_and_not_beyond() {
    let mut last = Image::new(12, 2000);
    last.put_at(&[2000, 2001], &pattern(1, 700));
    last.root(&[&file("LAST.BIN", 2000, 700)]);
    let mut short_fat = Image { fat_sectors: 20, ..Image::new(16, 5122) };
    short_fat.put_at(&[5118, 5119], &pattern(1, 700));
    short_fat.root(&[&file("LAST.BIN", 5118, 700)]);
    for (image, clusters) in [(last, 2000u64), (short_fat, 5118)] {
        let mut v = in_memory(image.bytes(), "default");
        let ctx = v.ctx.clone();
        assert_eq!(v.run(|fs, t| fs.statfs(&ctx, t)).unwrap().blocks, clusters);
        assert_eq!(v.statfs().0, clusters - 2);
        v.create("/FILL").unwrap();
        let mut written = 0;
        let e = loop {
            match v.write("/FILL", written * 512, &[0x5A; 512]) {
                Ok(()) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(e, FsError::from(Refused::NoSpace));
        assert_eq!(written, clusters - 2);
        assert_eq!(v.read("/LAST.BIN", 0, 9999).unwrap(), pattern(1, 700));
        let bytes = unmounted(v);
        let data = image.data_sector() as usize * 512;
        let end = data + clusters as usize * 512;
        assert!(bytes[end..].iter().all(|b| *b == 0), "nothing behind the last cluster");
        let root = data - image.root_slots as usize * 32;
        assert_eq!(bytes[root..root + 11], short("LAST.BIN"));
    }
}

/// Names that cross blocks and clusters, in a directory whose clusters have several blocks: what is
/// behind the end of the directory is not free by itself.
#[test]
fn a_directory_grows_by_names_that_cross_blocks() {
    for spc in [1, 2, 8] {
        let mut v = in_memory(Image { spc, ..Image::new(16, 5000) }.bytes(), "default");
        v.mkdir("/d").unwrap();
        let name = |n: u32| format!("file-{n:06}.txt");
        for n in 0..400 {
            v.create(&format!("/d/{}", name(n))).unwrap();
            if n % 7 == 3 {
                v.unlink(&format!("/d/{}", name(n - 2))).unwrap();
            }
            if n % 50 == 49 {
                // Without the index, and with a new one.
                v.host.fs.drop_clean();
            }
        }
        let left: Vec<String> = (0..400).filter(|n| n % 7 != 1 || *n > 397).map(name).collect();
        assert_eq!(names(&mut v, "/d"), left, "clusters of {spc} sectors");
        for n in &left {
            v.stat(&format!("/d/{n}")).unwrap();
        }
        assert_clean(&unmounted(v));
    }
}

#[test]
fn marks_of_a_volume_in_use_are_read_kept_and_cleared() {
    let clean = Marks::default();
    let dirty = Marks { dirty: true, ..clean };
    let hard = Marks { hard_error: true, ..clean };
    for (bits, fat1, state, want) in [
        (12, 0xFFF, 0, clean),
        (16, 0xFFFF, 0, clean),
        (32, 0x0FFF_FFFF, 0, clean),
        (12, 0xFFF, 1, dirty),
        (16, 0xFFFF, 1, dirty),
        (32, 0x0FFF_FFFF, 1, dirty),
        (16, 0x7FFF, 0, dirty),
        (32, 0x07FF_FFFF, 0, dirty),
        (16, 0xBFFF, 0, hard),
        (32, 0x0FFF_FFFF, 2, hard),
        (12, 0x7FF, 0, clean),
    ] {
        let clusters = match bits {
            12 => 2000,
            16 => 5000,
            _ => 66_000,
        };
        let mut image = Image { state, ..Image::new(bits, clusters) };
        image.fat.insert(1, fat1);
        let slots = hello(&mut image);
        image.root(&[&slots]);
        let before = image.bytes();
        let mut v = in_memory(before.clone(), "default");
        assert_eq!(v.host.fs.format().marks(), want, "{bits} {fat1:x} {state}");
        let said = describe(&mut v);
        assert_eq!(said.contains("dirty"), want.dirty, "{said}");
        assert_eq!(said.contains("hard error"), want.hard_error, "{said}");
        v.create("/NEW").unwrap();
        v.sync().unwrap();
        let marks_now = |bytes: &[u8]| engine_on(bytes, OpenOptions::default()).unwrap().marks();
        let stable = v.host.dev.get_ref().stable.clone();
        assert!(marks_now(&stable).dirty, "in use");
        assert_eq!(marks_now(&unmounted(v)), want);
    }
}

#[test]
fn a_read_only_mount_changes_no_byte() {
    let mut image = Image::new(16, 5000);
    let slots = hello(&mut image);
    image.root(&[&slots]);
    let before = image.bytes();
    let opts = OpenOptions { read_only: true, ..OpenOptions::default() };
    let fs = engine_on(&before, opts).unwrap();
    let dev = seawall_diskfs::testing::MemDev::new(before.clone());
    let host =
        seawall_diskfs::testing::mount(fs, seawall_blockdev::Numbered::new(dev), "strict").unwrap();
    let mut v = Mem { host, ctx: seawall_diskfs::Ctx::default(), restarts: 0 };
    v.read("/Hello World.txt", 0, 99).unwrap();
    names(&mut v, "/");
    assert_eq!(v.create("/x").unwrap_err(), FsError::from(Refused::ReadOnly));
    v.settle().unwrap();
    assert_eq!(v.host.dev.into_inner().data, before);
}
