//! The own mkfs, judged by fsck.fat, mtools, blkid and file.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/judge.rs"]
mod judge;

use judge::{FileDev, assert_clean, fsck, mtool, options};
use seawall_diskfs::FsError;
use seawall_fat::boot::{Boot, FatType, Root};
use seawall_fat::check::{CheckOptions, check};
use seawall_fat::{MkfsOptions, mkfs};
use seawall_tests::{Scratch, pattern, run, tool};
use std::path::Path;

use FatType::{Fat12, Fat16, Fat32};

fn make(path: &Path, opts: &MkfsOptions) -> Boot {
    mkfs(&mut FileDev::create(path, opts.size), opts).unwrap()
}

/// Bytes of the file that are on the disk under it.
fn stored(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn every_shape_passes_fsck() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for (fat, clusters) in [(Fat12, 900u64), (Fat16, 5000), (Fat32, 66_000)] {
        for sector in [512u32, 1024, 2048, 4096] {
            for per_cluster in [1u32, 8, 128] {
                for fats in [1, 2] {
                    let cluster = u64::from(sector * per_cluster);
                    let slack = 200 * u64::from(sector) + clusters * 8 + 64 * cluster;
                    let mut opts = options(clusters * cluster + slack);
                    opts.fat = Some(fat);
                    opts.sector = sector;
                    opts.sectors_per_cluster = Some(per_cluster);
                    opts.fats = fats;
                    opts.label = Some(*b"SEA WALL   ");
                    let what = format!("{fat:?}, {sector} x {per_cluster}, {fats} FATs");
                    let boot = make(&path, &opts);
                    assert_clean(&path, &what);
                    assert_eq!(boot.fat_type, fat, "{what}");
                    assert_eq!(
                        (boot.sector, boot.cluster, boot.fats),
                        (sector, cluster as u32, fats)
                    );
                    assert_eq!(boot.block_size, 4096.min(cluster as u32), "{what}");
                    assert_eq!(boot.serial, Some(0x1234_ABCD));
                    assert!(stored(&path) < 4 << 20, "{what}: {}", stored(&path));
                }
            }
        }
    }
}

#[test]
fn sizes_are_those_of_mkfs_fat() {
    let dir = Scratch::new();
    let (path, theirs) = (dir.join("image"), dir.join("theirs"));
    let kib = [
        160u64,
        360,
        720,
        1200,
        1440,
        2880,
        4096,
        5000,
        8192,
        10_000,
        16_000,
        20_000,
        33_000,
        65_536,
        131_072,
        261_000,
        300_000,
        524_288,
        600_000,
        1 << 20,
        5 << 20,
        9 << 20,
        17 << 20,
        33 << 20,
    ];
    for size in kib.map(|k| k << 10) {
        let boot = make(&path, &options(size));
        assert_clean(&path, &format!("{size} bytes"));
        std::fs::File::create(&theirs).unwrap().set_len(size).unwrap();
        run(tool("mkfs.fat").arg(&theirs)).ok();
        let mut first = [0; 512];
        first.copy_from_slice(&{
            use std::io::Read;
            let mut b = vec![0; 512];
            std::fs::File::open(&theirs).unwrap().read_exact(&mut b).unwrap();
            b
        });
        let their = Boot::parse(&first, size).unwrap();
        let same = |b: &Boot| (b.fat_type, b.cluster, b.fats, b.media, b.total_sectors);
        assert_eq!(same(&boot), same(&their), "{size} bytes");
        let more = i64::from(boot.clusters) - i64::from(their.clusters);
        assert!((-2..=2).contains(&more), "{size} bytes: {} and {}", boot.clusters, their.clusters);
    }
}

#[test]
fn floppies_have_their_usual_layout() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for (kib, media, clusters, fat_sectors, slots) in [
        (360u64, 0xFDu8, 354u32, 2u32, 112u32),
        (720, 0xF9, 713, 3, 112),
        (1200, 0xF9, 2371, 7, 224),
        (1440, 0xF0, 2847, 9, 224),
        (2880, 0xF0, 2863, 9, 224),
    ] {
        let boot = make(&path, &options(kib << 10));
        assert_eq!((boot.media, boot.clusters, boot.fat_sectors), (media, clusters, fat_sectors));
        assert_eq!(boot.reserved, 1);
        assert!(matches!(boot.root, Root::Fixed { slots: n, .. } if n == slots));
        assert!(mtool(&path, "minfo", &["::"]).contains(&format!("media byte: {media:x}")));
    }
}

#[test]
fn others_see_label_serial_and_type() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for (fat, size) in [(Fat12, 2u64 << 20), (Fat16, 20 << 20), (Fat32, 40 << 20)] {
        let mut opts = options(size);
        opts.fat = Some(fat);
        opts.label = Some(*b"SEAWALL-1  ");
        opts.hidden = 2048;
        make(&path, &opts);
        let seen = run(tool("blkid").args(["-p", "-o", "export"]).arg(&path)).ok().stdout;
        for line in
            ["LABEL=SEAWALL-1", "UUID=1234-ABCD", "TYPE=vfat", &format!("VERSION={}", fat.name())]
        {
            assert!(seen.contains(line), "{line} is not in {seen}");
        }
        let kind = run(tool("file").arg("-s").arg(&path)).ok().stdout;
        assert!(kind.contains(&format!("FAT ({} bit)", fat.bits())), "{kind}");
        assert!(kind.contains("hidden sectors 2048") && kind.contains("SEAWALL"), "{kind}");
        let info = mtool(&path, "minfo", &["::"]);
        assert!(info.contains("serial number: 1234ABCD"), "{info}");
        assert!(mtool(&path, "mlabel", &["-s", "::"]).contains("SEAWALL-1"));
        mtool(&path, "mmd", &["::/dir"]);
        mtool(&path, "mcopy", &["/etc/passwd", "::/dir/A long name.txt"]);
        assert_clean(&path, fat.name());
    }
}

#[test]
fn mtools_writes_every_sector_size() {
    let dir = Scratch::new();
    let (path, file) = (dir.join("image"), dir.join("file"));
    std::fs::write(&file, pattern(100_000, 7)).unwrap();
    let name = file.display().to_string();
    for (fat, clusters) in [(Fat12, 900u64), (Fat16, 5000), (Fat32, 66_000)] {
        for (sector, per_cluster, fats) in
            [(512u32, 1u32, 2), (1024, 4, 1), (2048, 2, 3), (4096, 16, 4)]
        {
            let mut opts =
                options(clusters * u64::from(sector * per_cluster) + 800 * u64::from(sector));
            (opts.fat, opts.sector, opts.fats) = (Some(fat), sector, fats);
            opts.sectors_per_cluster = Some(per_cluster);
            opts.label = Some(*b"OTHERS     ");
            make(&path, &opts);
            mtool(&path, "mmd", &["::/dir"]);
            mtool(&path, "mcopy", &[&name, "::/dir/A long name"]);
            let copy = dir.join("copy").display().to_string();
            mtool(&path, "mcopy", &["-n", "::/dir/A long name", &copy]);
            assert_eq!(std::fs::read(&copy).unwrap(), pattern(100_000, 7));
            std::fs::remove_file(&copy).unwrap();
            let (code, output) = fsck(&path);
            // It knows volumes with one or two FATs only.
            let knows = fats < 3 || output.contains("only 1 or 2 FATs are supported");
            assert!(knows && (code == 0) == (fats < 3), "{fat:?}, {sector}, {fats}: {output}");
            let report = check(&mut FileDev::open(&path), &CheckOptions::default(), &mut |_| {});
            assert!(report.unwrap().is_clean());
        }
    }
}

#[test]
fn volumes_up_to_two_tebibytes() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for (size, sector) in [(1u64 << 40, 512u32), (2 << 40, 512), (2 << 40, 4096), (3 << 40, 512)] {
        let mut opts = options(size);
        opts.sector = sector;
        let boot = make(&path, &opts);
        let bytes = boot.total_sectors * u64::from(sector);
        assert!(bytes <= size && bytes + (63 << 12) > size.min(2 << 40), "{boot:?}");
        assert_eq!((boot.fat_type, boot.cluster, boot.block_size), (Fat32, 32 << 10, 4096));
        assert!(stored(&path) < 1 << 20, "{}", stored(&path));
        let report = check(&mut FileDev::open(&path), &CheckOptions::default(), &mut |_| {});
        assert_eq!(report.unwrap().findings(), []);
    }
    // With clusters this large its FAT is small enough for fsck.fat in a test.
    let mut opts = options(2 << 40);
    (opts.sector, opts.sectors_per_cluster) = (4096, Some(128));
    make(&path, &opts);
    assert_clean(&path, "2 TiB");
}

#[test]
fn old_content_does_not_shine_through() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for fat in [Fat12, Fat16, Fat32] {
        std::fs::write(&path, vec![0xA5; 40 << 20]).unwrap();
        let mut opts = options(40 << 20);
        opts.fat = Some(fat);
        mkfs(&mut FileDev::open(&path), &opts).unwrap();
        assert_clean(&path, fat.name());
        assert!(run(tool("mdir").arg("-i").arg(&path).arg("::")).stdout.contains("No files"));
    }
}

#[test]
fn odd_wishes_are_kept() {
    let dir = Scratch::new();
    let path = dir.join("image");
    for fat in [Fat12, Fat16, Fat32] {
        for align in [false, true] {
            let mut opts = options(37_123 << 10);
            opts.fat = Some(fat);
            opts.reserved = Some(5);
            opts.root_entries = Some(48);
            opts.media = Some(0xFE);
            opts.align = align;
            let boot = make(&path, &opts);
            assert_clean(&path, &format!("{fat:?}, {align}"));
            assert_eq!(boot.media, 0xFE);
            assert_eq!(
                boot.backup,
                (fat == Fat32).then_some(if align { boot.reserved - 1 } else { 4 })
            );
            assert!(align || boot.reserved == 5);
            if let Root::Fixed { slots, .. } = boot.root {
                assert!(slots >= 48 && (align || slots == 48), "{slots}");
            }
        }
    }
    // A reserved area too small for a copy of the boot sector.
    let mut opts = options(40 << 20);
    (opts.fat, opts.reserved) = (Some(Fat32), Some(2));
    assert_eq!(make(&path, &opts).backup, None);
    assert_clean(&path, "no backup");
}

#[test]
fn a_label_may_begin_with_the_byte_of_deleted_entries() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let mut opts = options(2 << 20);
    opts.label = Some(*b"\xE5BC        ");
    let boot = make(&path, &opts);
    assert_eq!(boot.label, opts.label);
    let Root::Fixed { start, .. } = boot.root else { panic!("FAT12 has a fixed root") };
    assert_eq!(std::fs::read(&path).unwrap()[start as usize..][..3], *b"\x05BC");
}

#[test]
fn what_cannot_be_made_is_refused() {
    let dir = Scratch::new();
    let path = dir.join("image");
    let mut dev = FileDev::create(&path, 8 << 20);
    let with = |change: &dyn Fn(&mut MkfsOptions)| {
        let mut opts = options(8 << 20);
        change(&mut opts);
        opts
    };
    for (opts, word) in [
        (with(&|o| o.size = 16 << 20), "on a device of"),
        (with(&|o| o.sector = 256), "sectors of 256 bytes"),
        (with(&|o| o.sector = 8192), "sectors of 8192 bytes"),
        (with(&|o| o.sectors_per_cluster = Some(3)), "3 sectors per cluster"),
        (with(&|o| o.sectors_per_cluster = Some(256)), "256 sectors per cluster"),
        (with(&|o| o.fats = 0), "0 FATs"),
        (with(&|o| o.fats = 256), "256 FATs"),
        (with(&|o| o.media = Some(0xF1)), "media byte"),
        (with(&|o| o.reserved = Some(0)), "reserved sectors"),
        (with(&|o| (o.fat, o.reserved) = (Some(Fat32), Some(1))), "reserved sector on FAT32"),
        (with(&|o| o.root_entries = Some(5)), "entries of the root directory"),
        (with(&|o| o.size = 512), "0 clusters"),
        (with(&|o| (o.fat, o.sectors_per_cluster) = (Some(Fat16), Some(8))), "but there are 4087"),
        (with(&|o| (o.fat, o.sectors_per_cluster) = (Some(Fat12), Some(1))), "but there are 1 to"),
    ] {
        let e = mkfs(&mut dev, &opts).unwrap_err();
        assert!(matches!(e, FsError::Unsupported(_)), "{e}");
        assert!(e.to_string().contains(word), "{e} does not say {word}");
    }
    let mut opts = options(1 << 40);
    opts.fat = Some(Fat16);
    let e = mkfs(&mut FileDev::create(&path, 1 << 40), &opts).unwrap_err();
    assert!(e.to_string().contains("FAT16 of"), "{e}");
}
