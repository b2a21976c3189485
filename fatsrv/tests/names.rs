//! Names against dosfstools and mtools: what is made here they list and accept, and what mtools
//! makes is read here.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use seawall_fat::codepage::CodePage;
use seawall_fat::entry::{ATTR_ARCHIVE, RawEntry, SLOT};
use seawall_fat::label::{label_from, label_shown};
use seawall_fat::lfn::{Found, Scanner, Seen};
use seawall_fat::name::{Rules, Shortname};
use seawall_fat::time::Zone;
use seawall_tests::{Scratch, run, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Names of every kind that both sides can have.
const NAMES: &[&str] = &[
    "ABC",
    "ABC.TXT",
    "abc.dat",
    "Mixed.Case",
    "12345678.123",
    "123456789.1234",
    "A long file name.text",
    "A long file name, another.text",
    "name.with.dots.tar.gz",
    ".hidden",
    "a+b,c;d=[e].txt",
    "exactly13.txt",
    "twenty-six-units-name..txt",
    "\u{c4}\u{d6}\u{dc}.TXT",
    "\u{e4}\u{f6}\u{fc} \u{df}.txt",
    "prices in \u{20ac}.txt",
    "\u{4e2d}\u{6587}.txt",
    "it's ~1 {x} #$%&@!^()_-`",
];

fn mtool(name: &str, image: &Path) -> Command {
    let mut cmd = tool(name);
    cmd.env("LC_ALL", "C.UTF-8").env("MTOOLSRC", "/dev/null").arg("-i").arg(image);
    cmd
}

/// An image by mkfs.fat and where its root directory lies in it: FAT12 or FAT16.
fn image(folder: &Scratch, args: &[&str]) -> (std::path::PathBuf, std::ops::Range<usize>) {
    let path = folder.join("fat.img");
    std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
    run(tool("mkfs.fat").args(["-F", "12", "-r", "1024"]).args(args).arg(&path)).ok();
    let boot = std::fs::read(&path).unwrap();
    let word = |at: usize| usize::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    let start = (word(14) + usize::from(boot[16]) * word(22)) * word(11);
    (path, start..start + word(17) * SLOT)
}

fn scan(root: &[u8]) -> (Vec<Found>, Vec<RawEntry>) {
    let (mut found, mut labels, mut scanner) = (Vec::new(), Vec::new(), Scanner::new());
    for (i, slot) in (0..).zip(root.chunks_exact(SLOT)) {
        match scanner.push(i, slot.try_into().unwrap()) {
            Seen::Entry(entry) => found.push(entry),
            Seen::Label(label) => labels.push(label),
            Seen::End => break,
            Seen::Free | Seen::Part | Seen::Ignored => {}
        }
    }
    (found, labels)
}

fn cp850(shortname: Shortname) -> Rules {
    Rules { codepage: CodePage::by_number(850).unwrap(), shortname, numtail: true }
}

/// The slots of empty files with these names.
fn directory(rules: &Rules, names: &[&str]) -> Vec<u8> {
    let (date, time, tenths) =
        Zone::UTC.to_dos(seawall_diskfs::Timestamp { secs: 1_600_000_001, nanos: 0 });
    let mut taken = BTreeSet::new();
    let mut slots = Vec::new();
    for name in names {
        let wanted = rules.parse_new(name.as_bytes()).unwrap();
        let e = rules.encode(&wanted, &mut |s| Ok(taken.contains(s))).unwrap();
        assert!(taken.insert(e.short), "{name}: alias {:?} twice", e.short);
        slots.extend(e.long_slots());
        let raw = RawEntry {
            name: e.short,
            attr: ATTR_ARCHIVE,
            nt: e.nt,
            crt_tenths: tenths,
            crt_time: time,
            crt_date: date,
            acc_date: date,
            start: 0,
            mod_time: time,
            mod_date: date,
            size: 0,
        };
        slots.push(raw.to_bytes());
    }
    slots.concat()
}

fn listed(image: &Path) -> BTreeSet<String> {
    let out = run(mtool("mdir", image).args(["-b", "-a", "::"])).ok().stdout;
    out.lines().map(|l| l.trim_start_matches("::/").to_owned()).collect()
}

#[test]
fn mtools_lists_what_is_made_here_and_fsck_accepts_it() {
    let many: Vec<String> = (0..60).map(|i| format!("One of many long names {i}.txt")).collect();
    let names: Vec<&str> = NAMES.iter().copied().chain(many.iter().map(String::as_str)).collect();
    for shortname in [Shortname::Mixed, Shortname::WinNt] {
        let folder = Scratch::new();
        let (path, root) = image(&folder, &[]);
        let mut bytes = std::fs::read(&path).unwrap();
        let slots = directory(&cp850(shortname), &names);
        bytes[root][..slots.len()].copy_from_slice(&slots);
        std::fs::write(&path, bytes).unwrap();
        let want: BTreeSet<String> = names.iter().map(|&n| n.to_owned()).collect();
        assert_eq!(listed(&path), want, "{shortname:?}");
        let fsck = run(tool("fsck.fat").args(["-n", "-v"]).arg(&path));
        assert_eq!(fsck.code(), 0, "{fsck}");
        let stamp = run(mtool("mdir", &path).arg("::ABC.TXT")).ok().stdout;
        assert!(stamp.contains("2020-09-13  12:26"), "{stamp}");
    }
}

#[test]
fn what_mtools_makes_is_read_here() {
    let folder = Scratch::new();
    let (path, root) = image(&folder, &["-n", "LABEL ONE"]);
    let files = folder.dir("files");
    for name in NAMES {
        std::fs::write(files.join(name), name).unwrap();
        run(mtool("mcopy", &path).arg(files.join(name)).arg("::")).ok();
    }
    let bytes = std::fs::read(&path).unwrap();
    let (found, labels) = scan(&bytes[root]);
    let rules = cp850(Shortname::Mixed);
    let shown = |f: &Found| String::from_utf8(rules.shown(f)).unwrap();
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), NAMES);
    for (f, name) in found.iter().zip(NAMES) {
        assert_eq!(f.raw.size as usize, name.len());
        for spelling in [name.to_string(), name.to_lowercase(), shown(f)] {
            let wanted = rules.parse(spelling.as_bytes()).unwrap();
            let hits: Vec<_> = found.iter().filter(|f| rules.matches(&wanted, f)).collect();
            assert_eq!(hits, [f], "{spelling}");
        }
        let alias = rules.parse(&rules.alias(f)).unwrap();
        assert!(rules.matches(&alias, f), "{name}");
    }
    assert_eq!(labels.len(), 1);
    assert_eq!(label_shown(&labels[0].name, &rules.codepage).as_deref(), Some("LABEL ONE"));
    assert_eq!(label_from("Label One", &rules.codepage), Ok(labels[0].name));
}
