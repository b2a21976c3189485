//! Every kind of finding, each made by one change of a clean image, and what e2fsck says to it.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/damage.rs"]
mod damage;

use damage::{Image, checked, judged, sample};
use seawall_blockdev::Numbered;
use seawall_diskfs::FsError;
use seawall_diskfs::check::Severity;
use seawall_diskfs::testing::MemDev;
use seawall_ext2::check::{CheckOptions, Kind, check};
use seawall_tests::Scratch;
use std::collections::BTreeSet;

const SB: usize = 1024;
const MODE: usize = 0;
const SIZE: usize = 4;
const DTIME: usize = 0x14;
const LINKS: usize = 0x1A;
const BLOCKS: usize = 0x1C;
const FLAGS: usize = 0x20;
const PTR: usize = 0x28;
const ACL: usize = 0x68;

type Change = fn(&mut Image);

/// A field of the inode of a path.
fn set16(i: &mut Image, path: &str, off: usize, v: u16) {
    i.put16(i.inode(i.path(path)) + off, v);
}

fn set32(i: &mut Image, path: &str, off: usize, v: u32) {
    i.put32(i.inode(i.path(path)) + off, v);
}

fn get32(i: &Image, path: &str, off: usize) -> u32 {
    i.u32(i.inode(i.path(path)) + off)
}

/// Byte of a path's attribute block.
fn attrs(i: &Image, path: &str) -> usize {
    get32(i, path, ACL) as usize * i.bs
}

/// Byte of the record of a path's last name.
fn record(i: &Image, path: &str) -> usize {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    i.record(i.path(dir), name)
}

fn or(i: &mut Image, at: usize, bits: u32) {
    i.put32(at, i.u32(at) | bits);
}

const SUPER: &[(Kind, Change)] = &[
    (Kind::NotUnmounted, |i| i.put16(SB + 0x3A, 0)),
    (Kind::ErrorMark, |i| i.put16(SB + 0x3A, 3)),
    (Kind::OrphanHead, |i| i.put32(SB + 0xE8, 12)),
    (Kind::SuperCount, |i| i.put32(SB + 0x0C, 7)),
    (Kind::SuperHint, |i| i.put32(SB + 0x5C, i.u32(SB + 0x5C) & !0x10)),
    (Kind::BackupDiffers, |i| i.data[2049 * 1024 + 0x6A] ^= 1),
    (Kind::UninitFlag, |i| i.put16(i.descs + 32 + 0x12, 1)),
    (Kind::Superblock, |i| i.put32(SB + 0x20, 9)),
    (Kind::DeviceShort, |i| i.data.truncate(3 << 20)),
    (Kind::UnknownFeature, |i| or(i, SB + 0x5C, 0x4000)),
    (Kind::JournalWithout, |i| or(i, SB + 0x60, 4)),
    (Kind::UninitUse, |i| i.put16(i.descs + 0x12, 1)),
    (Kind::OrphanFile, |i| or(i, SB + 0x5C, 0x1000)),
    (Kind::GroupPlace, |i| i.put32(i.descs + 32, 5)),
    (Kind::GroupOverlap, |i| i.put32(i.descs + 4, i.u32(i.descs))),
    (Kind::NotChecked, |i| or(i, SB + 0x64, 0x100)),
];

const INODES: &[(Kind, Change)] = &[
    (Kind::ResizeInode, |i| i.put32(i.inode(7) + PTR, 700)),
    (Kind::BadBlocksInode, |i| i.put16(i.inode(1) + LINKS, 1)),
    (Kind::ReservedInode, |i| i.put16(i.inode(9) + MODE, 0o100_644)),
    (Kind::RootMissing, |i| i.put16(i.inode(2) + MODE, 0o100_755)),
    (Kind::Mode, |i| set16(i, "file0", MODE, 0o644)),
    (Kind::OrphanLink, |i| set32(i, "file0", DTIME, 5)),
    (Kind::ZeroDtime, |i| i.put16(i.inode(200) + MODE, 0o100_644)),
    (Kind::SetDtime, |i| set32(i, "file0", DTIME, 1_700_000_000)),
    (Kind::FieldNotZero, |i| set32(i, "file0", 0x70, 9)),
    (Kind::FlagWithout, |i| set32(i, "file0", FLAGS, 0x2000)),
    (Kind::SpecialFlags, |i| set32(i, "fifo", FLAGS, 0x10)),
    (Kind::SpecialSize, |i| set32(i, "fifo", SIZE, 3)),
    (Kind::Special, |i| set32(i, "dev", FLAGS, 0x1000)),
    (Kind::Symlink, |i| set32(i, "short", SIZE, 4)),
    (Kind::Size, |i| set32(i, "file0", SIZE, 100)),
    (Kind::SectorCount, |i| set32(i, "file0", BLOCKS, 3)),
    (Kind::LargeFile, |i| {
        i.put32(SB + 0x64, i.u32(SB + 0x64) & !2);
        set32(i, "file0", 0x6C, 1);
    }),
    (Kind::PointerRange, |i| set32(i, "file0", PTR, 99_999)),
    (Kind::PointerMetadata, |i| set32(i, "file0", PTR, 2)),
    (Kind::PointerShared, |i| set32(i, "file0", PTR, get32(i, "file1", PTR))),
    (Kind::TooBig, |i| set32(i, "long", PTR + 4, 3000)),
    (Kind::DirEmpty, |i| {
        set32(i, "d/e/f", PTR, 0);
        set32(i, "d/e/f", BLOCKS, 0);
    }),
    (Kind::DirHole, |i| set32(i, "many", PTR + 4, 0)),
    (Kind::AttrPlace, |i| set32(i, "file0", ACL, 99_999)),
    (Kind::AttrBlock, |i| i.put32(attrs(i, "d"), 1)),
    (Kind::AttrHash, |i| i.put(attrs(i, "d") + 1023, &[0x7E])),
    (Kind::AttrCount, |i| i.put32(attrs(i, "d") + 4, 2)),
];

const NAMES: &[(Kind, Change)] = &[
    (Kind::TypeUnset, |i| i.put(record(i, "file0") + 7, &[0])),
    (Kind::TypeWrong, |i| i.put(record(i, "file0") + 7, &[2])),
    (Kind::DotLong, |i| {
        let at = i.block(i.path("d/e/f"), 0);
        i.put16(at + 4, 1012);
        i.put(at + 1012, &[2, 0, 0, 0, 12, 0, 2, 2, b'.', b'.', 0, 0]);
        i.put32(at + 1012, i.path("d/e"));
    }),
    (Kind::DirRecord, |i| i.put16(record(i, "file0") + 4, 7)),
    (Kind::DotMissing, |i| i.put(i.block(i.path("d"), 0) + 8, b"x")),
    (Kind::DotWrong, |i| i.put32(i.block(i.path("d"), 0), 2)),
    (Kind::DotdotMissing, |i| i.put(i.block(i.path("d"), 0) + 20, b"x")),
    (Kind::DotTerminator, |i| i.put(i.block(i.path("d"), 0) + 9, b"x")),
    (Kind::DotdotWrong, |i| i.put32(i.block(i.path("d/e"), 0) + 12, 2)),
    (Kind::NameBad, |i| i.put(record(i, "file0") + 8, b"/")),
    (Kind::NameDots, |i| i.put(record(i, "d") + 8, b".")),
    (Kind::NameRange, |i| i.put32(record(i, "file0"), 70_000)),
    (Kind::NameUnused, |i| i.put32(record(i, "file0"), 200)),
    (Kind::NameRoot, |i| i.put32(record(i, "d/again"), 2)),
    (Kind::NameSelf, |i| i.put32(record(i, "d/again"), i.path("d"))),
    (Kind::NameSecond, |i| i.put32(record(i, "file0"), i.path("d/e"))),
    (Kind::NameTwice, |i| i.put(record(i, "file0") + 8, b"file1")),
    (Kind::Unreachable, |i| i.put32(record(i, "d"), 0)),
    (Kind::DirLoop, |i| {
        // The only name of e is in f, whose only name is in e.
        let (e, f) = (i.path("d/e"), i.block(i.path("d/e/f"), 0));
        i.put32(record(i, "d/e"), 0);
        i.put16(f + 12 + 4, 12);
        i.put32(f + 24, e);
        i.put(f + 28, &[0xE8, 3, 1, 2, b'x']);
    }),
    (Kind::Nameless, |i| i.put32(record(i, "file0"), 0)),
    (Kind::LinkCount, |i| set16(i, "file1", LINKS, 5)),
];

/// Byte of the root of the index of `many`.
fn index(i: &Image) -> usize {
    i.block(i.path("many"), 0)
}

const INDEX: &[(Kind, Change)] = &[
    (Kind::IndexRoot, |i| i.put(index(i) + 28, &[9])),
    (Kind::IndexNode, |i| i.put16(index(i) + 32, 5)),
    (Kind::IndexBlock, |i| i.put32(index(i) + 36, 99)),
    (Kind::IndexOrder, |i| {
        i.put32(index(i) + 40, 0xF000_0000);
        i.put32(index(i) + 48, 0x1000_0000);
    }),
    (Kind::IndexHash, |i| i.put32(index(i) + 40, 0x10)),
    (Kind::IndexLeaf, |i| i.put32(index(i) + 44, i.u32(index(i) + 36))),
];

const MAPS: &[(Kind, Change)] = &[
    (Kind::BlockLost, |i| i.data[i.bitmaps[2] + 200] |= 0x10),
    (Kind::BlockUnmarked, |i| {
        let block = get32(i, "file0", PTR) - 1;
        let map = i.bitmaps[block as usize / 2048 * 2];
        i.data[map + block as usize % 2048 / 8] &= !(1 << (block % 8));
    }),
    (Kind::InodeLost, |i| i.data[i.bitmaps[3] + 10] |= 4),
    (Kind::InodeUnmarked, |i| {
        let n = i.path("file0") - 1;
        i.data[i.bitmaps[1] + n as usize / 8] &= !(1 << (n % 8));
    }),
    (Kind::BlockPadding, |i| i.put(i.bitmaps[2] + 1000, &[0])),
    (Kind::InodePadding, |i| i.put(i.bitmaps[1] + 1000, &[0])),
    (Kind::FreeBlocks, |i| i.put16(i.descs + 12, 1)),
    (Kind::FreeInodes, |i| i.put16(i.descs + 14, 1)),
    (Kind::UsedDirs, |i| i.put16(i.descs + 16, 1)),
];

/// On a volume with 256-byte inodes.
const LARGE: &[(Kind, Change)] = &[
    (Kind::ExtraSize, |i| set16(i, "file0", 0x80, 7)),
    (Kind::TimeRange, |i| {
        set32(i, "file0", 0x10, 0x8000_0000);
        set32(i, "file0", 0x88, 3);
    }),
    (Kind::AttrInode, |i| {
        let at = i.inode(i.path("file0")) + 128 + 32;
        i.put16(at + 4 + 2, 90);
    }),
];

/// On a volume with a journal.
const JOURNAL: &[(Kind, Change)] = &[
    (Kind::NeedsRecovery, |i| or(i, SB + 0x60, 4)),
    (Kind::JournalInode, |i| i.put16(i.inode(8) + MODE, 0o40_755)),
];

/// On a volume with extents.
const EXTENTS: &[(Kind, Change)] = &[(Kind::ExtentTree, |i| set16(i, "file0", PTR, 1))];

/// On a volume whose descriptors have checksums.
const UNINIT: &[(Kind, Change)] = &[(Kind::GroupChecksum, |i| i.put16(i.descs + 0x1E, 5))];

/// Changes one image in each way; e2fsck must agree, and the kind must be among those found.
fn each(base: &Image, changes: &[(Kind, Change)], seen: &mut BTreeSet<Kind>) -> String {
    let mut wrong = String::new();
    let dir = Scratch::new();
    let file = dir.join("image");
    let (code, output) = judged(&file, &base.data);
    assert_eq!(code, Some(0), "{output}");
    assert!(base.check().is_clean(), "{:?}", base.check().findings());
    for (kind, change) in changes {
        let mut image = base.clone();
        change(&mut image);
        let report = image.check();
        let found: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
        if !image.kinds().contains(kind) {
            wrong += &format!("{kind:?} is not among {found:#?}\n");
        }
        let (code, output) = judged(&file, &image.data);
        // What e2fsck -n passes over and we do not.
        let stricter = matches!(kind, Kind::DeviceShort | Kind::GroupChecksum);
        if (code == Some(0)) != (report.is_clean() || stricter) {
            wrong += &format!(
                "{kind:?}: {found:#?}
{output}"
            );
        }
        if kind.severity() == Severity::Note && !report.is_clean() {
            wrong += &format!(
                "{kind:?} is not alone: {found:#?}
"
            );
        }
        seen.insert(*kind);
    }
    wrong
}

#[test]
fn every_kind_of_finding() {
    let mut seen = BTreeSet::new();
    let mut wrong = String::new();
    let small = ["-b", "1024", "-I", "128", "-g", "2048", "-N", "256"];
    let base = sample(&small, 4096);
    for changes in [SUPER, INODES, NAMES, INDEX, MAPS] {
        wrong += &each(&base, changes, &mut seen);
    }
    let large = sample(&["-b", "1024", "-I", "256", "-N", "256"], 4096);
    wrong += &each(&large, LARGE, &mut seen);
    let journal = sample(&["-b", "1024", "-N", "256", "-O", "has_journal"], 8192);
    wrong += &each(&journal, JOURNAL, &mut seen);
    let extents = sample(&["-b", "1024", "-N", "256", "-O", "extents"], 4096);
    wrong += &each(&extents, EXTENTS, &mut seen);
    let uninit = sample(&["-b", "1024", "-N", "256", "-O", "uninit_bg"], 4096);
    wrong += &each(&uninit, UNINIT, &mut seen);
    assert!(wrong.is_empty(), "{wrong}");
    seen.insert(unreadable(&base));
    let missing: Vec<_> = Kind::ALL.iter().filter(|k| !seen.contains(k)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A block that the device cannot read is a finding, and the check goes on.
fn unreadable(base: &Image) -> Kind {
    let mut told = 0;
    for nth in 0..40 {
        let mut dev = MemDev::new(base.data.clone());
        dev.faults.read = Some(nth);
        let mut dev = Numbered::new(dev);
        let report = check(&mut dev, &CheckOptions::default(), &mut |_| {}).unwrap();
        // A run that fails is read again block by block, and the fault strikes once.
        told += report.findings().iter().filter(|f| f.kind == Kind::Unreadable).count();
        assert!(report.is_clean() || !report.findings().is_empty());
    }
    assert!(told > 20, "{told}");
    Kind::Unreadable
}

#[test]
fn a_check_reads_only() {
    let base = sample(&["-b", "1024", "-I", "128", "-N", "256"], 4096);
    let mut dev = MemDev::new(base.data.clone());
    dev.record = true;
    let mut dev = Numbered::new(dev);
    let mut steps = 0;
    check(&mut dev, &CheckOptions::default(), &mut |_| steps += 1).unwrap();
    assert!(steps > 3, "{steps}");
    let dev = dev.into_inner();
    assert!(dev.log.iter().all(|l| matches!(l, seawall_diskfs::testing::Logged::Read(_))));
    assert!(dev.log.len() > 10 && dev.data == base.data);
}

#[test]
fn bounds_hold() {
    let base = sample(&["-b", "1024", "-I", "128", "-N", "256"], 4096);
    let mut image = base.clone();
    let map = image.bitmaps[0];
    (0..1024).for_each(|at| image.data[map + at] = 0);
    (12..200).for_each(|ino| image.put16(image.inode(ino) + BLOCKS, 77));
    let options = CheckOptions { keep: 3, ..CheckOptions::default() };
    let mut dev = Numbered::new(MemDev::new(image.data));
    let report = check(&mut dev, &options, &mut |_| {}).unwrap();
    assert!(report.count(Severity::Repairable) > 40, "{report:?}");
    assert!(report.findings().len() <= 9 && report.left_out() > 30);
    let options = CheckOptions { memory: 10_000, ..CheckOptions::default() };
    let mut dev = Numbered::new(MemDev::new(base.data));
    let e = check(&mut dev, &options, &mut |_| {}).unwrap_err();
    assert!(e.to_string().contains("10000 bytes of memory"), "{e}");
}

/// Trees that lead to themselves and to each other: each block is followed once, so that the check
/// ends. A walk that follows every pointer would make 256 to the power of three steps for each
/// inode.
#[test]
fn trees_that_meet_end() {
    let base = sample(&["-b", "1024", "-I", "128", "-N", "256"], 4096);
    let mut image = base.clone();
    let loops = 3000;
    for i in 0..256 {
        image.put32(loops * 1024 + i * 4, loops as u32);
    }
    for ino in 30..256 {
        let at = image.inode(ino);
        image.put16(at + MODE, if ino % 2 == 0 { 0o100_644 } else { 0o40_755 });
        image.put16(at + LINKS, 1);
        (0..15).for_each(|n| image.put32(at + PTR + n * 4, loops as u32));
    }
    let report = image.check();
    assert!(report.count(Severity::Damage) > 200);
    // The same with extents, where one entry names many blocks.
    let mut image = sample(&["-b", "1024", "-N", "2048", "-O", "extents"], 40_960);
    for ino in 200..2000 {
        let at = image.inode(ino);
        image.put16(at + MODE, if ino % 2 == 0 { 0o100_644 } else { 0o40_755 });
        image.put16(at + LINKS, 1);
        image.put32(at + FLAGS, 0x8_0000);
        image.put(at + PTR, &[0x0A, 0xF3, 4, 0, 4, 0, 0, 0]);
        for n in 0..4usize {
            let entry = at + PTR + 12 + n * 12;
            image.put32(entry, n as u32 * 32_768);
            image.put32(entry + 4, 32_768);
            image.put32(entry + 8, 4000);
        }
    }
    assert!(image.check().count(Severity::Damage) > 1000);
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let base = sample(&["-b", "1024", "-I", "128", "-N", "256"], 4096);
    for (bit, name) in [(0x8000, "inline_data"), (0x20_0000, "0x200000")] {
        let mut image = base.clone();
        or(&mut image, SB + 0x60, bit);
        let e = checked(image.data).unwrap_err();
        assert!(matches!(e, FsError::Unsupported(_)) && e.to_string().contains(name), "{e}");
    }
}
