//! Every kind of finding, made on purpose, and what fsck.fat says of it.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/damage.rs"]
mod damage;
#[path = "common/judge.rs"]
mod judge;

use FatType::{Fat12, Fat16, Fat32};
use damage::{BIG, Bytes, DIR, EMPTY, Image, LONG, SUB, judged, kinds, sample};
use judge::{FileDev, fsck, options};
use seawall_blockdev::Numbered;
use seawall_fat::boot::FatType;
use seawall_fat::check::{CheckOptions, Kind, check};
use seawall_fat::mkfs;
use seawall_tests::Scratch;

/// Damages a sample of each type; each must be found as `want`, and clean or not as fsck.fat has
/// it.
#[track_caller]
fn found(types: &[FatType], want: &[Kind], damage: &dyn Fn(&mut Image)) {
    let dir = Scratch::new();
    let path = dir.join("image");
    for fat in types {
        let mut image = sample(*fat).clone();
        damage(&mut image);
        let report = image.check().unwrap();
        let seen: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
        let kinds = kinds(&report);
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(kinds, want, "{fat:?}: {seen:#?}");
        let (code, output) = judged(&path, &image.data);
        assert!(code < 2, "{output}");
        assert_eq!(report.is_clean(), code == 0, "{fat:?}: {seen:#?}\n{output}");
    }
}

const ALL: [FatType; 3] = [Fat12, Fat16, Fat32];

#[test]
fn a_sound_volume_has_no_findings() {
    found(&ALL, &[], &|_| {});
}

#[test]
fn boot_sector() {
    found(&ALL, &[Kind::Boot], &|i| i.put16(11, 0));
    found(&ALL, &[Kind::DeviceShort], &|i| i.data.truncate(i.data.len() - (64 << 10)));
    found(&[Fat16], &[Kind::RootSlots], &|i| {
        let slots = i.u16(17);
        i.put16(17, slots - 1);
    });
    found(&[Fat16], &[Kind::ShortFat], &|i| {
        let total = i.u16(19);
        i.put16(19, total + 300);
        i.data.extend([0; 300 * 512]);
    });
    found(&[Fat32], &[Kind::BackupDiffers], &|i| i.data[100] ^= 1);
    found(&[Fat32], &[Kind::BackupAbsent], &|i| i.put16(50, 0));
    let small = |i: &mut Image| {
        let dir = Scratch::new();
        let mut opts = options(1 << 20);
        (opts.fat, opts.reserved) = (Some(Fat32), Some(2));
        let boot = mkfs(&mut FileDev::create(&dir.join("image"), opts.size), &opts).unwrap();
        *i = Image { data: std::fs::read(dir.join("image")).unwrap(), boot };
    };
    found(&[Fat32], &[Kind::BackupNoRoom, Kind::FewClusters], &small);
    found(&[Fat32], &[Kind::Unreadable, Kind::FewClusters], &|i| {
        small(i);
        i.put16(50, 0xFFFF);
    });
}

#[test]
fn fsinfo() {
    let at = |i: &Image, off: usize| i.sector(i.boot.fsinfo.unwrap()) + off;
    found(&[Fat32], &[Kind::FsinfoAbsent], &|i| i.put_boot(48, &[0, 0]));
    found(&[Fat32], &[Kind::Fsinfo], &|i| i.put32(at(i, 484), 0));
    found(&[Fat32], &[Kind::FreeUnknown], &|i| i.put32(at(i, 488), u32::MAX));
    found(&[Fat32], &[Kind::FreeCount], &|i| i.put32(at(i, 488), 7));
    found(&[Fat32], &[Kind::NextFree], &|i| i.put32(at(i, 492), 1));
}

#[test]
fn marks() {
    for (bit, kind) in [(1, Kind::NotUnmounted), (2, Kind::ErrorMark)] {
        found(&ALL, &[kind], &|i| i.put_boot(i.boot.state_at(), &[bit]));
        let low = if bit == 1 { 0 } else { 1 };
        found(&[Fat16], &[kind], &|i| i.set_entry(1, 0xFFFF & !(0x8000 >> low)));
        found(&[Fat32], &[kind], &|i| i.set_entry(1, 0x0FFF_FFFF & !(0x0800_0000 >> low)));
    }
}

#[test]
fn tables() {
    found(&ALL, &[Kind::MediaDiffers], &|i| i.put_boot(21, &[0xF9]));
    found(&ALL, &[Kind::MediaEntry], &|i| i.set_entry(0, 0));
    found(&ALL, &[Kind::MediaEntry, Kind::FatsDiffer], &|i| i.set_entry_in(0, 0, 0));
    found(&ALL, &[Kind::FatsDiffer], &|i| i.set_entry_in(1, 300, 5));
    found(&[Fat12, Fat16], &[Kind::EntryReserved, Kind::Lost], &|i| i.set_entry(i.free(), 1));
    found(&[Fat12, Fat16], &[Kind::Lost], &|i| i.set_entry(i.free(), 0xFFFF));
    found(&[Fat12, Fat16], &[Kind::Lost], &|i| {
        let n = i.free();
        i.set_entry(n, n - 1);
        i.set_entry(n - 1, n);
    });
    let last = |i: &Image| *i.chain(i.start(i.slot(BIG))).last().unwrap();
    found(&ALL, &[Kind::EntryRange], &|i| i.set_entry(last(i), i.boot.cluster_end() + 5));
    found(&ALL, &[Kind::EntryReserved], &|i| i.set_entry(last(i), 0x0FFF_FFF2));
}

#[test]
fn an_active_fat_is_the_only_one_that_counts() {
    // The reference takes the first one and compares, whatever the flags say.
    let mut image = sample(Fat32).clone();
    image.put_boot(40, &[0x81, 0]);
    image.set_entry_in(0, 300, 5);
    let report = image.check().unwrap();
    assert_eq!(kinds(&report), [Kind::FatStale]);
    assert!(report.is_clean());
}

#[test]
fn chains() {
    let chain = |i: &Image| i.chain(i.start(i.slot(BIG)));
    found(&[Fat12, Fat16], &[Kind::StartRange, Kind::Lost], &|i| i.set_start(i.slot(BIG), 0xFFF0));
    found(&ALL, &[Kind::StartRange, Kind::Lost], &|i| i.set_start(i.slot(BIG), 1));
    found(&ALL, &[Kind::ChainLoop], &|i| i.set_entry(chain(i)[4], chain(i)[1]));
    found(&ALL, &[Kind::ChainShared, Kind::ChainLong], &|i| {
        i.set_entry(chain(i)[4], i.start(i.slot(LONG)))
    });
    found(&[Fat12, Fat16], &[Kind::ChainFree, Kind::Lost], &|i| i.set_entry(chain(i)[1], 0));
    found(&[Fat12, Fat16], &[Kind::ChainBad, Kind::Lost], &|i| {
        i.set_entry(chain(i)[1], i.boot.fat_type.mask() - 8);
    });
    found(&ALL, &[Kind::ChainShort], &|i| i.put32(i.slot(BIG) + 28, 1_000_000));
    found(&ALL, &[Kind::ChainLong], &|i| i.put32(i.slot(BIG) + 28, 1));
    found(&ALL, &[Kind::EmptyStart], &|i| i.put32(i.slot(BIG) + 28, 0));
    found(&ALL, &[Kind::ChainShort], &|i| i.put32(i.slot(EMPTY) + 28, 1));
}

#[test]
fn directories() {
    let dir = |i: &Image| i.cluster(i.start(i.slot(DIR)));
    found(&ALL, &[Kind::DirSize], &|i| i.put32(i.slot(DIR) + 28, 512));
    found(&ALL, &[Kind::DirStart, Kind::Lost], &|i| i.set_start(i.slot(DIR), 0));
    found(&ALL, &[Kind::DirLoop, Kind::Lost], &|i| {
        i.set_start(i.slot_in(dir(i), SUB), i.start(i.slot(DIR)));
    });
    found(&ALL, &[Kind::Dot], &|i| i.set_start(dir(i), 40));
    found(&ALL, &[Kind::Dot, Kind::DirLoop], &|i| i.put(dir(i), b"X"));
    found(&ALL, &[Kind::Dot], &|i| i.put(dir(i), &[0xE5]));
    found(&ALL, &[Kind::DotDot], &|i| i.set_start(dir(i) + 32, 40));
    found(&ALL, &[Kind::AfterEnd], &|i| {
        let entry = i.data[i.slot(EMPTY)..][..32].to_vec();
        let at = i.free_slot() + 32;
        i.put(at, &entry);
        i.data[at] = b'Z';
    });
    found(&[Fat16], &[Kind::DirLarge], &|i| {
        let first = i.start(i.slot(DIR));
        let more: Vec<u32> = (2..i.boot.cluster_end()).filter(|n| i.entry(*n) == 0).collect();
        let mut last = first;
        for n in more.into_iter().take(4100) {
            i.set_entry(last, n);
            last = n;
        }
        i.set_entry(last, 0xFFFF);
    });
    // Lost in a ring: a directory in its own descendant.
    found(&ALL, &[Kind::DirLoop, Kind::Lost], &|i| {
        let sub = i.cluster(i.start(i.slot_in(dir(i), SUB)));
        let own = i.data[i.slot(DIR)..][..32].to_vec();
        i.put(sub + 64, &own);
        i.set_start(i.slot_in(dir(i), SUB), i.start(i.slot(DIR)));
    });
}

#[test]
fn a_chain_longer_than_a_file_is_not_read() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let mut opts = options(5 << 30);
    opts.fat = Some(Fat32);
    (opts.sector, opts.sectors_per_cluster, opts.label) = (4096, Some(128), None);
    let boot = mkfs(&mut FileDev::create(&path, opts.size), &opts).unwrap();
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let entries: Vec<u8> = (3..8200u32).chain([0x0FFF_FFFF]).flat_map(u32::to_le_bytes).collect();
    for copy in 0..2 {
        file.write_all_at(&entries, boot.fat_start(copy) + 8).unwrap();
    }
    let report = check(&mut FileDev::open(&path), &CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(kinds(&report).contains(&Kind::ChainHuge), "{:?}", report.findings());
    assert_eq!(fsck(&path).0, 1);
}

#[test]
fn names() {
    found(&ALL, &[Kind::NameBad], &|i| i.put(i.slot(EMPTY) + 2, b"*"));
    found(&ALL, &[Kind::NameBad], &|i| i.put(i.slot(EMPTY) + 12, &[0x20]));
    found(&ALL, &[Kind::NameTwice], &|i| i.put(i.slot(EMPTY), BIG));
    found(&ALL, &[Kind::NameSame], &|i| {
        // The last of the 11 letters of "Twin name B" is the sixth unit of the second group.
        let dir = i.cluster(i.start(i.slot(DIR)));
        let b = i.slot_in(dir, b"TWINNA~2   ") - 32;
        assert_eq!(i.data[b + 14 + 10], b'B');
        i.data[b + 14 + 10] = b'a';
    });
}

#[test]
fn long_names() {
    // Parts 3, 2 and 1 stand before the short slot.
    let part = |i: &Image, n: usize| i.slot(LONG) - 32 * n;
    found(&ALL, &[Kind::LongStart], &|i| i.put(part(i, 2), &[0x42]));
    found(&ALL, &[Kind::LongFragment], &|i| i.put(part(i, 3), &[0x03]));
    found(&ALL, &[Kind::LongFragment, Kind::LongSequence], &|i| i.put(part(i, 2), &[0x05]));
    found(&ALL, &[Kind::LongUnfinished], &|i| {
        i.put(part(i, 3), &[0xE5]);
        i.put(part(i, 2), &[0x43]);
        i.put(part(i, 1), &[0x02]);
    });
    found(&ALL, &[Kind::LongChecksum], &|i| {
        for n in 1..=3 {
            i.flip(part(i, n) + 13);
        }
    });
    found(&ALL, &[Kind::LongChecksum], &|i| i.flip(part(i, 2) + 13));
    found(&ALL, &[Kind::LongField], &|i| i.put(part(i, 1) + 12, &[1]));
    found(&ALL, &[Kind::LongField], &|i| i.put(part(i, 1) + 27, &[1]));
    found(&ALL, &[Kind::LongOrphan], &|i| i.put(i.slot(b"ANEMPT~1TXT"), &[0xE5]));
}

#[test]
fn labels() {
    let label = |i: &Image| i.slot(b"SAMPLE     ");
    let in_boot = |i: &Image| if i.boot.fat_type == Fat32 { 71 } else { 43 };
    found(&ALL, &[Kind::LabelSecond], &|i| {
        let slot = i.data[label(i)..][..32].to_vec();
        i.put(i.free_slot(), &slot);
    });
    found(&ALL, &[Kind::LabelPlace], &|i| {
        let slot = i.data[label(i)..][..32].to_vec();
        let dir = i.cluster(i.start(i.slot(DIR)));
        let at = (dir..).step_by(32).find(|at| i.data[*at] == 0).unwrap();
        i.put(at, &slot);
    });
    found(&ALL, &[Kind::LabelBad], &|i| i.put(label(i) + 1, b"*"));
    found(&ALL, &[Kind::LabelBootOnly], &|i| i.put(label(i), &[0xE5]));
    found(&ALL, &[Kind::LabelDiffers], &|i| i.put_boot(in_boot(i), b"OTHER      "));
    // No extended boot record.
    found(&ALL, &[Kind::LabelDiffers], &|i| i.put_boot(in_boot(i) - 5, &[0]));
    found(&ALL, &[Kind::LabelBad], &|i| {
        i.put_boot(in_boot(i) - 5, &[0]);
        i.put(label(i), &[0xE5]);
    });
}

#[test]
fn every_kind_is_in_a_test() {
    let text = include_str!("check_kinds.rs");
    for kind in Kind::ALL {
        assert!(text.contains(&format!("Kind::{kind:?}")), "{kind:?} is in no test");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let mut image = sample(Fat16).clone();
    let big = image.slot(BIG);
    image.put32(big + 28, 1);
    let dir = image.cluster(image.start(image.slot(DIR)));
    image.put(image.slot_in(dir, b"INNER   TXT") + 5, b"?");
    let start = image.start(big);
    let slot = (big - image.root()) / 32;
    let seen: Vec<String> =
        image.check().unwrap().findings().iter().map(ToString::to_string).collect();
    let want = [
        format!(
            "\"/BIG.BIN\", slot {slot}, cluster {start}: the chain is longer than the file \
             (found 5, should be 1)"
        ),
        "\"/DIR/INNER?.TXT\", slot 7: a short name that may not be: \"INNER?  TXT\"".into(),
    ];
    assert_eq!(seen, want);
}

#[test]
fn memory_is_bounded() {
    let image = sample(Fat16);
    let mut dev = Numbered::new(Bytes(image.data.clone()));
    let options = CheckOptions { memory: 4096, ..CheckOptions::default() };
    let e = check(&mut dev, &options, &mut |_| {}).unwrap_err();
    assert!(e.to_string().contains("in 4096 bytes of memory"), "{e}");
}
