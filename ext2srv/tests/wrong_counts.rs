//! Group descriptors and bitmaps that contradict each other: room that is there is used, and no
//! block is given away twice.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/damage.rs"]
mod damage;
#[path = "common/volume.rs"]
mod volume;

use damage::Image;
use seawall_ext2::check::Kind;
use seawall_tests::{Scratch, mke2fs, pattern};
use volume::plain;

/// Eight groups. The first three have full bitmaps and count as free; the fifth has a free bitmap
/// and counts as full.
fn contradicting() -> Image {
    let dir = Scratch::new();
    let path = dir.join("image");
    mke2fs(&path, 4 << 20, &["-b", "1024", "-g", "512", "-N", "256", "-O", "^resize_inode"]);
    let mut image = Image::new(std::fs::read(&path).unwrap());
    assert_eq!(image.tables.len(), 8);
    for group in 0..3 {
        let map = image.bitmaps[group * 2];
        image.put(map, &[0xFF; 64]);
    }
    image.put16(image.descs + 4 * 32 + 12, 0);
    image
}

#[test]
fn room_elsewhere_is_used_and_nothing_is_shared() {
    let dir = Scratch::new();
    let path = dir.join("image");
    std::fs::write(&path, &contradicting().data).unwrap();
    let mut v = plain(&path, "default");
    let size = 150 * 1024;
    for n in 0..8u64 {
        let name = format!("/file{n}");
        v.create(&name).unwrap();
        v.write(&name, 0, &pattern(size, n)).unwrap();
    }
    // Until nothing is left, and again after something went.
    v.create("/rest").unwrap();
    let mut at = 0;
    while v.write("/rest", at, &[1; 4096]).is_ok() {
        at += 4096;
        assert!(at < 4 << 20);
    }
    v.unlink("/file3").unwrap();
    v.create("/again").unwrap();
    v.write("/again", 0, &pattern(size, 9)).unwrap();
    for n in (0..8u64).filter(|n| *n != 3) {
        assert_eq!(v.read(&format!("/file{n}"), 0, size).unwrap(), pattern(size, n));
    }
    v.unmount();
    let kinds = Image::new(std::fs::read(&path).unwrap()).kinds();
    let harmless = [Kind::BlockLost, Kind::FreeBlocks, Kind::SuperCount];
    assert!(kinds.iter().all(|k| harmless.contains(k)), "{kinds:?}");
    assert!(kinds.contains(&Kind::BlockLost), "the full bitmaps are still there: {kinds:?}");
}
