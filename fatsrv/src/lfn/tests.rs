use super::*;
use crate::entry::{ATTR_ARCHIVE, ATTR_DIRECTORY, ATTR_VOLUME};
use alloc::string::String;
use alloc::{format, vec};

fn units(name: &str) -> Vec<u16> {
    name.encode_utf16().collect()
}

fn short(name: &[u8; 11]) -> [u8; SLOT] {
    RawEntry { name: *name, attr: ATTR_ARCHIVE, ..RawEntry::default() }.to_bytes()
}

fn long(name: &str, alias: &[u8; 11]) -> Vec<[u8; SLOT]> {
    long_slots(&units(name), alias)
}

fn scan(slots: &[[u8; SLOT]]) -> Vec<Seen> {
    let mut scanner = Scanner::new();
    slots.iter().zip(0..).map(|(slot, i)| scanner.push(i, slot)).collect()
}

/// Names of the entries: the long one, or the bytes of the short one; `first` must agree.
fn names(slots: &[[u8; SLOT]]) -> Vec<String> {
    let entry = |seen| match seen {
        Seen::Entry(Found { first, slot, long: Some(long), .. }) => {
            assert_eq!(slot - first, long.len().div_ceil(UNITS_PER_SLOT) as u32);
            Some(String::from_utf16(&long).unwrap())
        }
        Seen::Entry(Found { first, slot, raw, long: None }) => {
            assert_eq!(first, slot);
            Some(String::from_utf8_lossy(&raw.name).into_owned())
        }
        _ => None,
    };
    scan(slots).into_iter().filter_map(entry).collect()
}

#[test]
fn the_checksum_is_that_of_the_format() {
    assert_eq!(checksum(b"           "), 0xf7);
    assert_eq!(checksum(b"FILENAMETXT"), slow_sum(b"FILENAMETXT"));
}

fn slow_sum(short: &[u8; 11]) -> u8 {
    let step = |sum: u32, &b: &u8| (((sum & 1) << 7) + (sum >> 1) + u32::from(b)) & 0xff;
    short.iter().fold(0, step) as u8
}

#[test]
fn a_slot_is_laid_out_as_the_format_says() {
    let slots = long("Hello World.txt", b"HELLOW~1TXT");
    let sum = checksum(b"HELLOW~1TXT");
    let mut last = vec![0x42, b'x', 0, b't', 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, sum];
    last.extend([[0xff; 12].as_slice(), &[0, 0], &[0xff; 4]].concat());
    assert_eq!(slots[0].as_slice(), last);
    let first = b"\x01H\0e\0l\0l\0o\0\x0f\0";
    assert_eq!(&slots[1][..13], first);
    assert_eq!(&slots[1][13..], [&[sum], b" \0W\0o\0r\0l\0d\0\0\0.\0t\0".as_slice()].concat());
}

#[test]
fn names_of_every_length_come_back() {
    for len in 1..=UNITS_MAX {
        let name: Vec<u16> = (0..len as u16).map(|i| 0x4e00 + i).collect();
        let mut slots = long_slots(&name, b"NAME    TXT");
        assert_eq!(slots.len(), len.div_ceil(13));
        slots.push(short(b"NAME    TXT"));
        let last = scan(&slots).pop();
        let Some(Seen::Entry(found)) = last else { panic!("{len}: {last:?}") };
        assert_eq!((found.first, found.slot as usize), (0, slots.len() - 1));
        assert_eq!(found.long, Some(name));
    }
    assert_eq!(long_slots(&[0x61; 300], &[b'A'; 11]).len(), SLOTS_MAX);
    assert!(long_slots(&[], &[b'A'; 11]).is_empty());
}

#[test]
fn names_at_the_edges_of_slots() {
    for name in [
        "123456789012\u{1f600}.txt",
        "exactly13.txt",
        "twenty-six-units-name..txt",
        &("x".repeat(251) + ".txt"),
        &("\u{20ac}".repeat(250) + ".txt"),
        "\u{c4}\u{d6}\u{dc} \u{e4}\u{f6}\u{fc}.txt",
    ] {
        let mut slots = long(name, b"NAME~1  TXT");
        let full = units(name).len().is_multiple_of(13);
        // The last unit of the last part: used, or padding after the terminator.
        let tail = u16::from_le_bytes([slots[0][30], slots[0][31]]);
        assert_eq!(tail == 0xffff || tail == 0, !full, "{name}");
        slots.push(short(b"NAME~1  TXT"));
        assert_eq!(names(&slots), [name]);
    }
}

#[test]
fn slots_that_belong_to_nobody() {
    let two = long("A name of more than thirteen.txt", b"ANAMEO~1TXT");
    assert_eq!(two.len(), 3);
    let mut slots = Vec::new();
    let mut add = |parts: &[[u8; SLOT]], name: &[u8; 11]| {
        slots.extend_from_slice(parts);
        slots.push(short(name));
    };
    add(&long("Wrong checksum.txt", b"OTHER   TXT"), b"BADSUM  TXT");
    add(&two[1..], b"ANAMEO~1TXT");
    add(&two[..2], b"ANAMEO~1TXT");
    add(&[two[0], two[2]], b"ANAMEO~1TXT");
    let mut gone = short(b"GONE    TXT");
    gone[0] = entry::FREE;
    let mut parts = long("Separated.txt", b"SEPARA~1TXT");
    parts.push(gone);
    add(&parts, b"SEPARA~1TXT");
    add(&long("Good name.txt", b"GOODNA~1TXT"), b"GOODNA~1TXT");
    add(&long("Belongs to nobody.txt", b"NOBODY~1TXT"), b"PLAIN   TXT");
    slots.extend(long("Last in directory.txt", b"LASTIN~1TXT"));
    let want = [
        "BADSUM  TXT",
        "ANAMEO~1TXT",
        "ANAMEO~1TXT",
        "ANAMEO~1TXT",
        "SEPARA~1TXT",
        "Good name.txt",
        "PLAIN   TXT",
    ];
    assert_eq!(names(&slots), want);
}

#[test]
fn damage_inside_a_long_name_costs_only_that_name() {
    let name = "A name in three slots, or so.txt";
    let good = long(name, b"ANAMEI~1TXT");
    let with = |slots: &[[u8; SLOT]]| names(&[slots, &[short(b"ANAMEI~1TXT")]].concat());
    assert_eq!(with(&good), [name]);
    // Out of order, doubled, of two checksums, past the count, number 0.
    assert_eq!(with(&[good[0], good[2], good[1]]), ["ANAMEI~1TXT"]);
    assert_eq!(with(&[good[0], good[1], good[1], good[2]]), ["ANAMEI~1TXT"]);
    let mut other = good[1];
    other[OFF_SUM] ^= 1;
    assert_eq!(with(&[good[0], other, good[2]]), ["ANAMEI~1TXT"]);
    for number in [0x40, 0x40 | 21, 0x7f, 0x01, 0x02] {
        let mut first = good[0];
        first[0] = number;
        assert_eq!(with(&[first, good[1], good[2]]), ["ANAMEI~1TXT"], "{number:02x}");
    }
    // A deleted part, and the end of the directory, end the name too.
    let mut gone = good[1];
    gone[0] = entry::FREE;
    assert_eq!(with(&[good[0], gone, good[2]]), ["ANAMEI~1TXT"]);
    assert_eq!(with(&[good[0], [0; SLOT], good[2]]), ["ANAMEI~1TXT"]);
    // Whole again after a false start.
    assert_eq!(with(&[good[0], good[0], good[1], good[2]]), [name]);
    assert_eq!(with(&[good[1], good[0], good[1], good[2]]), [name]);
    // A label between.
    let mut label = short(b"LABEL      ");
    label[entry::OFF_ATTR] = ATTR_VOLUME;
    assert_eq!(with(&[good[0], good[1], good[2], label]), ["ANAMEI~1TXT"]);
}

#[test]
fn names_that_cannot_be_looked_up_are_not_believed() {
    let entry = |name: &[u16]| {
        let mut slots = long_slots(name, b"ALIAS   TXT");
        slots.push(short(b"ALIAS   TXT"));
        names(&slots)
    };
    assert_eq!(entry(&units("..")), ["ALIAS   TXT"]);
    assert_eq!(entry(&units("....")), ["ALIAS   TXT"]);
    assert_eq!(entry(&[0x61, 0, 0x62]), ["a"]);
    assert_eq!(entry(&units("a/b")), ["a\u{fffd}b"]);
    assert_eq!(entry(&[0]), ["ALIAS   TXT"]);
    // Twenty slots without a terminator hold 260 units.
    let mut slots: Vec<_> = long(&"x".repeat(255), b"ALIAS   TXT");
    for off in OFF_UNITS {
        slots[0][off..off + 2].copy_from_slice(b"y\0");
    }
    slots.push(short(b"ALIAS   TXT"));
    assert_eq!(names(&slots), ["ALIAS   TXT"]);
}

#[test]
fn every_kind_of_slot_is_told_apart() {
    let of = |name: &[u8; 11], attr| RawEntry { name: *name, attr, ..RawEntry::default() };
    let one = |raw: RawEntry| scan(&[raw.to_bytes()]).remove(0);
    let label = of(b"LABEL      ", ATTR_VOLUME);
    assert_eq!(one(label), Seen::Label(label));
    let archived = of(b"LABEL      ", ATTR_VOLUME | ATTR_ARCHIVE);
    assert_eq!(one(archived), Seen::Label(archived));
    assert_eq!(one(of(b"BOTH       ", ATTR_VOLUME | ATTR_DIRECTORY)), Seen::Ignored);
    assert_eq!(one(of(b"NEARLYLONG ", entry::ATTR_LONG | 0x40)), Seen::Ignored);
    assert_eq!(one(of(b"           ", ATTR_ARCHIVE)), Seen::Ignored);
    assert_eq!(one(of(b"\xe5GONE      ", ATTR_ARCHIVE)), Seen::Free);
    assert_eq!(one(of(b"\xe5GONE      ", entry::ATTR_LONG)), Seen::Free);
    assert_eq!(scan(&[[0; SLOT]]), [Seen::End]);
    assert_eq!(scan(&long("a", b"A          ")), [Seen::Part]);
    assert!(matches!(one(of(b"\x05\xe5\xe5     TXT", 0)), Seen::Entry(_)));
    assert!(matches!(one(of(&entry::DOT, ATTR_DIRECTORY)), Seen::Entry(_)));
}

#[test]
fn no_slots_whatever_are_taken_for_more_than_they_are() {
    // Random slots of few values, so that sets which nearly fit are common.
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let alias = *b"ALIAS   TXT";
    let mut whole = 0;
    for _ in 0..20_000 {
        let mut scanner = Scanner::new();
        let mut before: Vec<Seen> = Vec::new();
        for i in 0..random(12) as u32 {
            let mut slot: [u8; SLOT] = core::array::from_fn(|_| random(256) as u8);
            if random(4) > 0 {
                slot[entry::OFF_ATTR] = if random(3) > 0 { entry::ATTR_LONG } else { 0x20 };
                slot[0] = [1, 2, 3, 0x41, 0x42, 0x43][random(6) as usize];
                slot[OFF_SUM] = checksum(&alias);
                if slot[entry::OFF_ATTR] == 0x20 {
                    slot[..11].copy_from_slice(&alias);
                }
            }
            let seen = scanner.push(i, &slot);
            if let Seen::Entry(found) = &seen {
                assert_eq!(found.slot, i);
                assert!(found.first <= i);
                let parts = before.iter().rev().take((i - found.first) as usize);
                assert!(parts.clone().all(|s| *s == Seen::Part), "{}", format!("{before:?}"));
                if let Some(long) = &found.long {
                    whole += 1;
                    assert!((1..=UNITS_MAX).contains(&long.len()) && !long.contains(&0));
                    assert_eq!(checksum(&found.raw.name), checksum(&alias));
                } else {
                    assert_eq!(found.first, i);
                }
            }
            before.push(seen);
        }
    }
    assert!(whole > 1000, "{whole}");
}
