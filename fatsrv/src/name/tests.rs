use super::*;
use crate::entry::{ATTR_ARCHIVE, NT_LOWER_BASE, NT_LOWER_EXT, RawEntry};
use alloc::string::String;

fn rules(page: u16) -> Rules {
    Rules { codepage: CodePage::by_number(page).unwrap(), ..Rules::default() }
}

fn short(name: &[u8; 11], nt: u8) -> Found {
    let raw = RawEntry { name: *name, nt, attr: ATTR_ARCHIVE, ..RawEntry::default() };
    Found { first: 0, slot: 0, raw, long: None }
}

fn long(name: &str, alias: &[u8; 11]) -> Found {
    Found { long: Some(name.encode_utf16().collect()), ..short(alias, 0) }
}

fn shown(rules: &Rules, found: &Found) -> String {
    let name = rules.shown(found);
    let wanted = rules.parse(&name).unwrap();
    assert!(rules.matches(&wanted, found), "{name:?} is shown but not found");
    let keys = rules.keys(found);
    assert!(keys.long.as_ref() == Some(&wanted.folded) || keys.short == wanted.folded);
    let (long, short) = rules.hashes(found);
    assert_eq!(long, keys.long.as_deref().map(fold::hash));
    assert_eq!(short, fold::hash(&keys.short));
    assert!(long == Some(wanted.hash()) || short == wanted.hash());
    String::from_utf8(name).unwrap()
}

#[test]
fn short_names_are_shown_by_code_page() {
    let all = [
        short(b"\x05\xe5\xe5     TXT", 0),
        short(b"\x05\x87A     TXT", 0),
        short(b"A\x05B     TXT", 0),
        short(b"PLAIN   TXT", 0),
    ];
    let seen = |page| all.iter().map(|f| shown(&rules(page), f)).collect::<Vec<_>>();
    assert_eq!(
        seen(437),
        ["\u{3c3}\u{3c3}\u{3c3}.TXT", "\u{3c3}\u{e7}A.TXT", "A\u{5}B.TXT", "PLAIN.TXT"]
    );
    assert_eq!(
        seen(850),
        ["\u{d5}\u{d5}\u{d5}.TXT", "\u{d5}\u{e7}A.TXT", "A\u{5}B.TXT", "PLAIN.TXT"]
    );
    assert_eq!(
        seen(866),
        ["\u{445}\u{445}\u{445}.TXT", "\u{445}\u{417}A.TXT", "A\u{5}B.TXT", "PLAIN.TXT"]
    );
    assert_eq!(seen(932)[1], "\u{8703}A.TXT");
}

#[test]
fn nt_bits_lower_what_they_say() {
    let rules = rules(437);
    let both = NT_LOWER_BASE | NT_LOWER_EXT;
    for (name, nt, want) in [
        (b"UPPER   TXT", 0, "UPPER.TXT"),
        (b"BASE    TXT", NT_LOWER_BASE, "base.TXT"),
        (b"EXT     TXT", NT_LOWER_EXT, "EXT.txt"),
        (b"BOTH    TXT", both, "both.txt"),
        (b"EXTRA   TXT", 0xe4 | both, "extra.txt"),
        (b"\x8e\x99\x9a     TXT", both, "\u{e4}\u{f6}\u{fc}.txt"),
    ] {
        assert_eq!(shown(&rules, &short(name, nt)), want);
    }
    let found = short(b"BOTH    TXT", both);
    for name in ["Both.TXT", "BOTH.TXT", "both.txt", "both.txt."] {
        assert!(rules.matches(&rules.parse(name.as_bytes()).unwrap(), &found), "{name}");
    }
    assert!(!rules.matches(&rules.parse(b"both").unwrap(), &found));
}

#[test]
fn the_shortname_option_decides_what_is_shown() {
    let found = short(b"BASE    TXT", NT_LOWER_BASE);
    for (name, want) in
        [("lower", "base.txt"), ("win95", "BASE.TXT"), ("winnt", "base.TXT"), ("mixed", "base.TXT")]
    {
        let shortname = Shortname::by_name(name).unwrap();
        assert_eq!(shown(&Rules { shortname, ..Rules::default() }, &found), want);
    }
    assert_eq!(Shortname::by_name("Mixed"), None);
}

#[test]
fn odd_short_names_are_shown_and_found() {
    let rules = rules(437);
    for (name, want) in [
        (b"A B     T X", "A B.T X"),
        (b"A\0BC    TXT", "A.TXT"),
        (b"        TXT", ".TXT"),
        (b"NOEXT      ", "NOEXT"),
        (b"12345678123", "12345678.123"),
        (b"A/B     TXT", "A\u{fffd}B.TXT"),
        (b".       .  ", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"..         ", "\u{fffd}\u{fffd}"),
        (b"A.      .  ", "A..."),
        (b"a       txt", "a.txt"),
    ] {
        assert_eq!(shown(&rules, &short(name, 0)), want);
    }
}

#[test]
fn everything_shown_can_be_found() {
    let mut state = 7u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for page in CodePage::names().split(", ") {
        let codepage = CodePage::by_name(page).unwrap();
        for shortname in [Shortname::Lower, Shortname::Win95, Shortname::Mixed] {
            let rules = Rules { codepage, shortname, numtail: true };
            for _ in 0..500 {
                let bits = random();
                let mut name = [b' '; 11];
                for (i, b) in name.iter_mut().enumerate() {
                    if bits >> (i + 40) & 1 == 0 {
                        *b = random() as u8;
                    }
                }
                let found = short(&name, bits as u8);
                if crate::short::is_blank(&name) {
                    continue;
                }
                let text = rules.shown(&found);
                assert!(!text.contains(&b'/') && !text.contains(&0) && !text.is_empty());
                let wanted = rules.parse(&text).unwrap();
                assert!(rules.matches(&wanted, &found), "{page} {name:02x?} {text:02x?}");
            }
        }
    }
}

#[test]
fn a_long_name_is_found_by_either_name_in_any_case() {
    let rules = rules(437);
    let found = long("A long file name.text", b"ALONGF~1TEX");
    assert_eq!(shown(&rules, &found), "A long file name.text");
    assert_eq!(rules.alias(&found), b"ALONGF~1.TEX");
    for name in ["a LONG file NAME.text", "ALONGF~1.TEX", "alongf~1.tex", "A long file name.text.."]
    {
        assert!(rules.matches(&rules.parse(name.as_bytes()).unwrap(), &found), "{name}");
    }
    for name in ["A long file name", "ALONGF~1", "A long file name.text "] {
        assert!(!rules.matches(&rules.parse(name.as_bytes()).unwrap(), &found), "{name}");
    }
    let umlauts = long("\u{c4}\u{d6} \u{3a3}.txt", b"ABC~1   TXT");
    assert!(rules.matches(&rules.parse("\u{e4}\u{f6} \u{3c2}.TXT".as_bytes()).unwrap(), &umlauts));
    // What another system left on disk: dots and a space at the end, half of a pair.
    shown(&rules, &long("dots..", b"DOTS~1     "));
    shown(&rules, &long("space ", b"SPACE~1    "));
    let mut half = long("x", b"HALF~1     ");
    half.long = Some(alloc::vec![0x61, 0xd83d]);
    let name = rules.shown(&half);
    assert_eq!(name, [0x61, 0xed, 0xa0, 0xbd]);
    assert!(rules.matches(&rules.parse(&name).unwrap(), &half));
}

#[test]
fn lookups_refuse_nothing_but_length() {
    let parse = |name: &[u8]| Rules::default().parse(name);
    for name in ["...", ".", ""] {
        assert_eq!(parse(name.as_bytes()), Err(Refused::NotFound), "{name:?}");
    }
    for name in ["a:b", "space ", "con", "tab\tx", " lead", "dot."] {
        assert!(parse(name.as_bytes()).is_ok(), "{name:?}");
    }
    assert_eq!(parse(b"\xff"), Err(Refused::NotFound));
    assert_eq!(parse(&[b'n'; 256]), Err(Refused::NameTooLong));
    assert!(parse(&[b'n'; 255]).is_ok());
    assert!(parse(&[&[b'n'; 255][..], b"..."].concat()).is_ok());
    assert_eq!(parse(b"dots...").unwrap().units, parse(b"dots").unwrap().units);
}

#[test]
fn what_may_be_created() {
    let new = |name: &str| Rules::default().parse_new(name.as_bytes()).map(|_| ());
    for name in ["a:b", "a*b", "a?b", "a\"b", "a<b", "a>b", "a|b", "a\\b", "a/b", "tab\tx", "\0"] {
        assert_eq!(new(name), Err(Refused::Invalid), "{name:?}");
    }
    for name in ["space ", " ", "a .", "x. "] {
        assert_eq!(new(name), Err(Refused::Invalid), "{name:?}");
    }
    assert_eq!(new("..."), Err(Refused::NotFound));
    assert_eq!(new(&"n".repeat(255)), Ok(()));
    assert_eq!(new(&"n".repeat(256)), Err(Refused::NameTooLong));
    // 255 units in 765 bytes, and 128 pairs, one unit too many.
    assert_eq!(new(&"\u{20ac}".repeat(255)), Ok(()));
    assert_eq!(new(&"\u{1f600}".repeat(127)), Ok(()));
    assert_eq!(new(&"\u{1f600}".repeat(128)), Err(Refused::NameTooLong));
    for name in ["dot.", "dots...", " lead", ".hidden", "a+b,c;d=[e]", "\u{7f}", "a'b`c~"] {
        assert_eq!(new(name), Ok(()), "{name:?}");
    }
    let invalid = Rules::default().parse_new(b"\xed\xa0\xbd");
    assert_eq!(invalid, Err(Refused::Invalid));
}

#[test]
fn names_of_devices_may_not_be_created() {
    let new = |name: &str| Rules::default().parse_new(name.as_bytes()).map(|_| ());
    for name in [
        "CON",
        "con",
        "Nul.txt",
        "aux.tar.gz",
        "PRN .x",
        "com1",
        "LPT9.",
        "COM\u{b9}",
        "conin$",
        "CONOUT$",
    ] {
        assert_eq!(new(name), Err(Refused::Invalid), "{name:?}");
    }
    for name in ["CONS", "con1", "com0", "com10", "xcon", "lpt", " con", "a.con", "c\u{2070}n"] {
        assert_eq!(new(name), Ok(()), "{name:?}");
    }
    assert_eq!(new(&("nul".to_owned() + &" ".repeat(20) + ".txt")), Err(Refused::Invalid));
}

use alloc::borrow::ToOwned;
