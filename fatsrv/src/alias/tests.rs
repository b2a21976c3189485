use super::*;
use crate::codepage::CodePage;
use alloc::collections::BTreeSet;
use alloc::{format, vec};

fn with(rules: &Rules, name: &str, taken: &[&[u8; 11]]) -> Encoded {
    let wanted = rules.parse_new(name.as_bytes()).unwrap();
    rules.encode(&wanted, &mut |short| Ok(taken.contains(&short))).unwrap()
}

/// Alias, NT byte and whether there is a long name.
fn encoded(rules: &Rules, name: &str) -> ([u8; 11], u8, bool) {
    let e = with(rules, name, &[]);
    (e.short, e.nt, e.long.is_some())
}

fn rules(page: u16, shortname: Shortname) -> Rules {
    Rules { codepage: CodePage::by_number(page).unwrap(), shortname, numtail: true }
}

#[test]
fn names_that_fit_need_no_tail() {
    let mixed = Rules::default();
    for (name, short, long) in [
        ("ABC", b"ABC        ", false),
        ("ABC.TXT", b"ABC     TXT", false),
        ("12345678.123", b"12345678123", false),
        ("$%'-_@~`!(){}^#&", b"$%'-_@~1   ", true),
        ("$%'-_@~`.!()", b"$%'-_@~`!()", false),
        ("abc", b"ABC        ", true),
        ("Abc.txt", b"ABC     TXT", true),
        ("\u{e4}.txt", b"\x8e       TXT", true),
        ("\u{c4}.TXT", b"\x8e       TXT", true),
    ] {
        assert_eq!(encoded(&mixed, name), (*short, 0, long), "{name}");
    }
}

#[test]
fn the_nt_bits_say_what_one_case_can() {
    let nt = rules(437, Shortname::WinNt);
    for (name, short, bits, long) in [
        ("ABC.TXT", b"ABC     TXT", 0, false),
        ("abc.TXT", b"ABC     TXT", NT_LOWER_BASE, false),
        ("ABC.txt", b"ABC     TXT", NT_LOWER_EXT, false),
        ("abc.txt", b"ABC     TXT", NT_LOWER_BASE | NT_LOWER_EXT, false),
        ("abc", b"ABC        ", NT_LOWER_BASE, false),
        ("123.txt", b"123     TXT", NT_LOWER_EXT, false),
        ("Abc.txt", b"ABC     TXT", 0, true),
        ("abc.Txt", b"ABC     TXT", 0, true),
        ("abcdefghi", b"ABCDEF~1   ", 0, true),
    ] {
        assert_eq!(encoded(&nt, name), (*short, bits, long), "{name}");
    }
}

#[test]
fn other_names_get_a_tail() {
    let rules = Rules::default();
    for (name, short) in [
        ("A long file name.text", b"ALONGF~1TEX"),
        ("name.with.dots.txt", b"NAMEWI~1TXT"),
        ("a+b.txt", b"A_B~1   TXT"),
        ("x.y.", b"X       Y  "),
        (".bashrc", b"BASHRC~1   "),
        ("..a", b"A~1        "),
        (" lead", b"LEAD~1     "),
        ("a b", b"AB~1       "),
        ("123456789", b"123456~1   "),
        ("1234567.text", b"123456~1TEX"),
        ("\u{20ac}.txt", b"_~1     TXT"),
        ("\u{1f600}.txt", b"__~1    TXT"),
        ("a.b c", b"A~1     BC "),
        ("de\u{7f}l", b"DE_L~1     "),
        ("a..b", b"A~1     B  "),
    ] {
        assert_eq!(encoded(&rules, name).0, *short, "{name}");
        let whole = encoded(&rules, name).2;
        assert!(whole, "{name} has a long name");
    }
}

#[test]
fn e5_is_stored_as_05_and_kanji_are_not_cut() {
    let cp850 = rules(850, Shortname::Mixed);
    assert_eq!(encoded(&cp850, "\u{f5}a").0, *b"\x05A         ");
    let cp932 = rules(932, Shortname::Mixed);
    assert_eq!(encoded(&cp932, "\u{8703}A.TXT").0, *b"\x05\x87A     TXT");
    // The third kanji would lie on bytes 5 and 6, and the second across the hash.
    let name = "a\u{8703}\u{8703}\u{8703}\u{8703}.txt";
    assert_eq!(encoded(&cp932, name).0, *b"A\xe5\x87\xe5\x87~1 TXT");
    let wanted = cp932.parse_new(name.as_bytes()).unwrap();
    let hashed = cp932.encode(&wanted, &mut |s| Ok(s[1] == 0xe5)).unwrap();
    assert_eq!((hashed.short[0], hashed.short[5], hashed.short[7]), (b'A', b'~', b' '));
    assert_eq!(encoded(&cp932, "x.\u{8703}\u{8703}").0, *b"X~1     \xe5\x87 ");
}

#[test]
fn tails_count_up_and_then_come_from_a_hash() {
    let rules = Rules::default();
    let mut taken = BTreeSet::new();
    for i in 0..3000 {
        let name = format!("A long file name {i}.txt");
        let wanted = rules.parse_new(name.as_bytes()).unwrap();
        let mut asked = 0;
        let mut ask = |s: &[u8; 11]| {
            asked += 1;
            Ok(taken.contains(s))
        };
        let e = rules.encode(&wanted, &mut ask).unwrap();
        assert!(asked < 30, "{asked} questions for {name}");
        let again = rules.encode(&wanted, &mut |s| Ok(taken.contains(s))).unwrap();
        assert_eq!(e, again, "the same question has the same answer");
        if i < 9 {
            assert_eq!(e.short, format!("ALONGF~{}TXT", i + 1).as_bytes());
        } else {
            assert!(e.short.starts_with(b"AL") && e.short[6] == b'~', "{:?}", e.short);
        }
        assert!(taken.insert(e.short));
    }
}

#[test]
fn the_search_ends() {
    let rules = Rules::default();
    let wanted = rules.parse_new(b"A long file name.txt").unwrap();
    let mut asked = BTreeSet::new();
    let mut count = 0;
    let all = rules.encode(&wanted, &mut |s| {
        count += 1;
        asked.insert(*s);
        Ok(true)
    });
    assert_eq!(all, Err(Refused::NoSpace.into()));
    assert_eq!((count, asked.len()), (65_545, 65_545));
    let fault = rules.encode(&wanted, &mut |_| Err(Refused::Stale.into()));
    assert_eq!(fault, Err(Refused::Stale.into()));
}

#[test]
fn an_alias_that_another_entry_has_gets_a_tail() {
    let rules = Rules::default();
    let e = with(&rules, "Abc.txt", &[b"ABC     TXT"]);
    assert_eq!((e.short, e.long.is_some()), (*b"ABC~1   TXT", true));
    let e = with(&rules, "abc.text", &[b"ABC~1   TEX", b"ABC~2   TEX"]);
    assert_eq!(e.short, *b"ABC~3   TEX");
    // In capitals the alias would be the name, so the name has to be a long one.
    let e = with(&rules, "ABC.TXT", &[b"ABC     TXT"]);
    assert_eq!((e.short, e.long.is_some()), (*b"ABC~1   TXT", true));
    let bare = Rules { numtail: false, ..rules };
    assert_eq!(with(&bare, "long name.text", &[]).short, *b"LONGNAMETEX");
    assert_eq!(with(&bare, "long name.text", &[b"LONGNAMETEX"]).short, *b"LONGNA~1TEX");
}

#[test]
fn names_survive_the_disk() {
    let names = vec![
        "a",
        "A",
        "abc.txt",
        "ABC.TXT",
        "Mixed.Case",
        "\u{e4}\u{f6}",
        "\u{8703}.txt",
        "\u{1f600}",
        " lead",
        ".hidden",
        "x.tar.gz",
        "a+b",
        "12345678.123",
        "123456789.1234",
        "\u{445}\u{417}",
        "EXACTLY13.TXT",
        "\u{3c3}",
        "\u{131}",
        "I",
        "\u{df}",
        "\u{ff}",
    ];
    for page in CodePage::names().split(", ") {
        for shortname in [Shortname::Win95, Shortname::WinNt, Shortname::Mixed] {
            let codepage = CodePage::by_name(page).unwrap();
            let rules = Rules { codepage, shortname, numtail: true };
            for name in &names {
                let e = with(&rules, name, &[]);
                let raw = crate::entry::RawEntry { name: e.short, nt: e.nt, ..Default::default() };
                let mut slots = e.long_slots();
                slots.push(raw.to_bytes());
                assert_eq!(slots.len(), e.slots());
                let mut scanner = crate::lfn::Scanner::new();
                let seen = slots.iter().zip(0..).map(|(s, i)| scanner.push(i, s)).last();
                let Some(crate::lfn::Seen::Entry(found)) = seen else { panic!("{page} {name}") };
                assert_eq!(rules.shown(&found), name.as_bytes(), "{page} {shortname:?}");
                assert_eq!(found.first, 0);
                // The alias is another way to the same file.
                assert!(rules.matches(&rules.parse(&rules.alias(&found)).unwrap(), &found));
            }
        }
    }
}
