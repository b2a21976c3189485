//! Random damage to every structure: the checker ends, and agrees with fsck.fat on what is clean.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/damage.rs"]
mod damage;
#[path = "common/judge.rs"]
mod judge;

use damage::{DIR, Image, Rng, SUB, judged, sample};
use seawall_fat::boot::FatType;
use seawall_tests::Scratch;

/// Fields of the boot sector where both sides are known to differ: bytes per sector and sectors per
/// cluster that nobody mounts, three FATs and more, the active FAT, the version, the root of a
/// FAT32 volume without one, and letters beyond ASCII in the label.
const DIFFER: [std::ops::Range<usize>; 6] = [11..14, 16..17, 40..48, 43..54, 71..82, 22..24];

/// The parts of an image that are damaged, as (first byte, bytes).
fn parts(image: &Image) -> Vec<(usize, usize)> {
    let dir = image.cluster(image.start(image.slot(DIR)));
    let sub = image.cluster(image.start(image.slot_in(dir, SUB)));
    let mut parts = vec![(11, 80), (image.root(), 12 * 32), (dir, 9 * 32), (sub, 3 * 32)];
    parts.extend((0..2).map(|copy| (image.boot.fat_start(copy) as usize, 40)));
    parts.extend(image.boot.fsinfo.map(|s| (image.sector(s) + 480, 32)));
    parts
}

fn damaged(image: &mut Image, rng: &mut Rng) -> bool {
    let parts = parts(image);
    let (start, len) = parts[rng.below(parts.len() as u64) as usize];
    for _ in 0..=rng.below(3) {
        let at = start + rng.below(len as u64) as usize;
        if start == 11 && DIFFER.iter().any(|r| r.contains(&at)) {
            return false;
        }
        let value = match rng.below(4) {
            0 => 0,
            1 => 0xFF,
            2 => image.data[at] ^ 1 << rng.below(8),
            _ => rng.below(256) as u8,
        };
        // A label's letter beyond ASCII.
        if value >= 0x80 && start == image.root() && at < start + 11 {
            return false;
        }
        image.data[at] = value;
    }
    if start == image.boot.fat_start(0) as usize && rng.below(3) > 0 {
        // The same in the other FAT, so that the entries themselves are looked at.
        let other = image.boot.fat_start(1) as usize;
        image.data.copy_within(start..start + len, other);
    }
    true
}

fn rounds(fat: FatType, count: u32, seed: u64) {
    let dir = Scratch::new();
    let path = dir.join("image");
    let mut rng = Rng(seed);
    let (mut clean, mut round) = (0, 0);
    while round < count {
        let mut image = sample(fat).clone();
        if !damaged(&mut image, &mut rng) {
            continue;
        }
        round += 1;
        let report = image.check().unwrap();
        let (code, output) = judged(&path, &image.data);
        let seen: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
        assert_eq!(report.is_clean(), code == 0, "{fat:?} {round}: {code}, {seen:#?}\n{output}");
        clean += u32::from(code == 0);
    }
    assert!(clean > 0 && clean < count, "{clean} of {count} are clean");
}

#[test]
fn fat12_damage() {
    rounds(FatType::Fat12, 250, 12);
}

#[test]
fn fat16_damage() {
    rounds(FatType::Fat16, 250, 16);
}

#[test]
fn fat32_damage() {
    rounds(FatType::Fat32, 80, 32);
}

#[test]
fn whole_sectors_of_noise_end() {
    let mut rng = Rng(5);
    for fat in [FatType::Fat12, FatType::Fat16] {
        for _ in 0..300 {
            let mut image = sample(fat).clone();
            let sectors = image.data.len() as u64 / 512;
            for _ in 0..=rng.below(6) {
                let to = rng.below(sectors.min(120)) as usize * 512;
                match rng.below(3) {
                    0 => (0..512).for_each(|i| image.data[to + i] = rng.below(256) as u8),
                    1 => image.data.copy_within(to..to + 512, rng.below(100) as usize * 512),
                    _ => image.data[to..to + 512].fill(rng.below(3) as u8),
                }
            }
            // Whatever it says, it ends, with findings about a volume or an error that names why.
            let _ = image.check();
        }
    }
}
