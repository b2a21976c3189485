//! What an operation changes in an entry, and what it leaves as it was; names and times as they
//! are shown.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "common/image.rs"]
mod image;
#[path = "common/volume.rs"]
mod volume;

use image::{Image, entry, file, long, short};
use seawall_blockdev::Numbered;
use seawall_diskfs::testing::{MemDev, mount};
use seawall_diskfs::{Ctx, FsError, Kind, Refused, SetAttr, SetTime, Timestamp};
use seawall_fat::entry::RawEntry;
use seawall_fat::time::Zone;
use seawall_fat::{OpenOptions, ROOT};
use volume::{Mem, TIME, engine_on, in_memory};

fn with(data: Vec<u8>, opts: OpenOptions) -> Mem {
    let fs = engine_on(&data, opts).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(data)), "default").unwrap();
    Mem { host, ctx: Ctx { now: TIME, ..Ctx::default() }, restarts: 0 }
}

/// Entries of the fixed root as they stand on the disk after an unmount.
fn root_entries(image: &Image, mut v: Mem) -> Vec<RawEntry> {
    v.settle().unwrap();
    let bytes = v.host.dev.into_inner().data;
    let start = (image.reserved + image.fats * image.fat_sectors) as usize * 512;
    let slots = bytes[start..].chunks(32).take_while(|s| s[0] != 0);
    slots.map(|s| RawEntry::from_bytes(s.try_into().unwrap())).collect()
}

fn at(secs: i64) -> SetTime {
    SetTime::At(Timestamp { secs, nanos: 0 })
}

#[test]
fn bits_that_belong_to_nobody_stay() {
    let mut image = Image::new(16, 5000);
    let mut raw = entry(short("EXTRA.TXT"), 0x20, 0, 0);
    raw.nt = 0xFC;
    raw.start = 0xABCD_0000;
    image.root(&[&raw.to_bytes()]);
    let mut v = in_memory(image.bytes(), "default");
    assert_eq!(v.list("/").unwrap()[0].0, "extra.txt");
    v.set("/EXTRA.txt", SetAttr { mtime: at(1_600_000_000), ..SetAttr::default() }).unwrap();
    v.write("/extra.txt", 0, b"now it has a cluster").unwrap();
    let after = root_entries(&image, v);
    assert_eq!((after[0].nt, after[0].start >> 16), (0xFC, 0xABCD));
    assert_eq!((after[0].start & 0xFFFF, after[0].size), (2, 20));
}

#[test]
fn times_are_local_with_a_fixed_offset() {
    let mut image = Image::new(16, 5000);
    let stamped = |name, date, time| {
        let raw = RawEntry { mod_date: date, mod_time: time, ..entry(short(name), 0x20, 0, 0) };
        raw.to_bytes().to_vec()
    };
    // 2021-01-15 12:00, 2021-07-15 12:00, 2021-01-01 00:30.
    let date = |m: u16, d: u16| (41 << 9) | (m << 5) | d;
    image.root(&[
        &stamped("WINTER.TXT", date(1, 15), 12 << 11),
        &stamped("SUMMER.TXT", date(7, 15), 12 << 11),
        &stamped("NEWYEAR.TXT", date(1, 1), 30 << 5),
    ]);
    let stored = [1_610_712_000, 1_626_350_400, 1_609_461_000];
    for minutes in [0, 60, -300] {
        let zone = Zone::offset(minutes).unwrap();
        let opts = OpenOptions { zone, ..OpenOptions::default() };
        let mut v = with(image.bytes(), opts);
        for (name, utc) in ["/WINTER.TXT", "/SUMMER.TXT", "/NEWYEAR.TXT"].iter().zip(stored) {
            let shown = v.stat(name).unwrap().mtime;
            assert_eq!(shown.secs, utc - i64::from(minutes) * 60, "{name} at {minutes}");
        }
    }
    let zone = Zone::offset(60).unwrap();
    let mut v = with(image.bytes(), OpenOptions { zone, ..OpenOptions::default() });
    v.set("/WINTER.TXT", SetAttr { mtime: at(1_626_346_800), ..SetAttr::default() }).unwrap();
    let after = root_entries(&image, v);
    assert_eq!((after[0].mod_date, after[0].mod_time), (date(7, 15), 12 << 11));
}

#[test]
fn a_read_leaves_times_as_they_are() {
    let mut image = Image::new(16, 5000);
    let start = image.put(b"content");
    image.root(&[&file("A.TXT", start, 7)]);
    let before = image.bytes();
    let mut v = in_memory(before.clone(), "default");
    let a = v.stat("/A.TXT").unwrap();
    v.read("/a.txt", 0, 99).unwrap();
    v.list("/").unwrap();
    assert_eq!(v.stat("/A.TXT").unwrap(), a);
    v.settle().unwrap();
    assert_eq!(v.host.dev.into_inner().data, before);
}

#[test]
fn names_are_found_in_every_spelling_and_by_their_alias() {
    let mut image = Image::new(16, 5000);
    image.root(&[&long("A long file name.text", "ALONGF~1.TEX", 0, 0)]);
    let mut v = in_memory(image.bytes(), "default");
    let ino = v.stat("/A long file name.text").unwrap().ino;
    for name in ["/a LONG file NAME.text", "/alongf~1.tex", "/A long file name.text..."] {
        assert_eq!(v.stat(name).unwrap().ino, ino, "{name}");
        assert_eq!(v.create(name).unwrap_err(), FsError::from(Refused::Exists));
    }
    for (old, new) in [("abc", "Abc"), ("Abc", "ABC"), ("ABC", "abc")] {
        if v.stat(&format!("/{old}")).is_err() {
            v.create("/abc").unwrap();
        }
        let ino = v.stat("/abc").unwrap().ino;
        v.rename(&format!("/{old}"), &format!("/{new}")).unwrap();
        let listed = v.list("/").unwrap();
        assert!(listed.iter().any(|(n, i, _)| n == new && *i == ino), "{listed:?}");
        assert_eq!(listed.len(), 2);
    }
    for (name, e) in [
        ("/a:b", Refused::Invalid),
        ("/tab\tx", Refused::Invalid),
        ("/space ", Refused::Invalid),
        ("/nul.txt", Refused::Invalid),
        ("/...", Refused::NotFound),
        (&format!("/{}", "n".repeat(256)), Refused::NameTooLong),
    ] {
        assert_eq!(v.create(name).unwrap_err(), FsError::from(e), "{name}");
    }
    let longest = format!("/{}", "\u{20ac}".repeat(255));
    v.create(&longest).unwrap();
    assert_eq!(v.stat(&longest).unwrap().kind, Kind::File);
}

/// The root of FAT16 has a fixed number of slots; a plain name takes one, and four in a row that
/// are free again take a long one.
#[test]
fn a_fixed_root_is_full_and_has_room_again() {
    let mut image = Image { root_slots: 16, ..Image::new(12, 1000) };
    image.root(&[]);
    let mut v = in_memory(image.bytes(), "default");
    for n in 0..16 {
        v.create(&format!("/F{n}")).unwrap();
    }
    let full = FsError::from(Refused::NoSpace);
    assert_eq!(v.create("/F16").unwrap_err(), full);
    let name = "/a name of thirty-five characters..x";
    assert_eq!(v.create(name).unwrap_err(), full);
    for n in [3, 4, 5] {
        v.unlink(&format!("/F{n}")).unwrap();
    }
    assert_eq!(v.create(name).unwrap_err(), full, "three in a row are too few");
    v.unlink("/F6").unwrap();
    v.create(name).unwrap();
    v.unlink("/F9").unwrap();
    v.mkdir("/dir").unwrap_err();
    v.mkdir("/DIR").unwrap();
    assert_eq!(v.list("/").unwrap().len(), 13);
}

#[test]
fn the_parent_of_a_directory_in_the_root_is_cluster_0() {
    for (bits, clusters) in [(16, 5000), (32, 66_000)] {
        let mut image = Image::new(bits, clusters);
        image.root(&[]);
        let mut v = in_memory(image.bytes(), "default");
        v.mkdir("/OTHER").unwrap();
        v.mkdir("/moved up").unwrap();
        v.mkdir("/OTHER/went down").unwrap();
        v.rename("/moved up", "/OTHER/x").unwrap();
        v.rename("/OTHER/x", "/moved up").unwrap();
        v.mkdir("/down").unwrap();
        let down = v.stat("/down").unwrap();
        v.rename("/down", "/OTHER/down").unwrap();
        assert_eq!(v.stat("/OTHER/down").unwrap().ino, down.ino, "its number stays");
        assert_eq!(v.stat("/OTHER").unwrap().nlink, 4);
        assert_eq!(v.stat("/OTHER/down/..").unwrap().ino, v.stat("/OTHER").unwrap().ino);
        assert_eq!(v.stat("/moved up/..").unwrap().ino, ROOT);
        let other = v.stat("/OTHER").unwrap().ino.0 as u32;
        let dirs: Vec<u32> = ["/OTHER", "/moved up", "/OTHER/went down", "/OTHER/down"]
            .iter()
            .map(|p| v.stat(p).unwrap().ino.0 as u32)
            .collect();
        v.settle().unwrap();
        let bytes = v.host.dev.into_inner().data;
        let parent = |cluster: u32| {
            let at = (image.data_sector() + (cluster - 2) * image.spc) as usize * 512 + 32;
            let raw = RawEntry::from_bytes(bytes[at..at + 32].try_into().unwrap());
            assert_eq!(raw.name, *b"..         ");
            raw.first_cluster(bits == 32)
        };
        let parents: Vec<u32> = dirs.into_iter().map(parent).collect();
        assert_eq!(parents, [0, 0, other, other]);
    }
}

#[test]
fn dos_attributes_are_read_and_set() {
    let mut image = Image::new(16, 5000);
    image.root(&[&file("A.TXT", 0, 0)]);
    let mut v = in_memory(image.bytes(), "default");
    let ino = v.stat("/A.TXT").unwrap().ino;
    let ctx = v.ctx.clone();
    let get = |v: &mut Mem| v.run(|fs, t| fs.getxattr(&ctx, ino, b"user.DOSATTRIB", t)).unwrap();
    let set = |v: &mut Mem, text: &[u8]| {
        let how = seawall_diskfs::XattrHow::Any;
        v.run(|fs, t| fs.setxattr(&ctx, ino, (b"user.DOSATTRIB", text), how, t))
    };
    assert_eq!(get(&mut v), b"0x20");
    set(&mut v, b"0x7").unwrap();
    assert_eq!(get(&mut v), b"0x7");
    assert_eq!(v.stat("/A.TXT").unwrap().mode, 0o555, "read-only");
    assert_eq!(set(&mut v, b"0x10").unwrap_err(), FsError::from(Refused::NotPermitted));
    assert_eq!(set(&mut v, b"often").unwrap_err(), FsError::from(Refused::Invalid));
    v.set("/A.TXT", SetAttr { mode: Some(0o755), ..SetAttr::default() }).unwrap();
    assert_eq!(get(&mut v), b"0x26", "writable again, and changed since its backup");
}
