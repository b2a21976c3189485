#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::sim::{PNY32, WDBLUE};

#[test]
fn a_file_changes_its_base_and_nothing_else() {
    let text = "base = \"wdblue\"\nname = \"old disk\"\nrate = \"33.55 MB/s\"\n\
                write_command = \"0.05ms\"\nswitch = \"20us\"\nnear = \"1M\"\nslots = 7\n\
                without = [\"cache\"]\nstall = { chance = \"0.5%\", time = \"1s\", seed = 9 }\n\
                slow = { bytes = \"1G\", rate = \"10MB/s\" }\n";
    let p = parse_profile(text, "x").unwrap();
    let about = Cow::Borrowed("from a file, over wdblue");
    let stall = Some(Stall { per_million: 5_000, time: 1_000_000_000, seed: 9 });
    let slow = Some(SlowAfter { bytes: 1 << 30, rate: 10_000_000, recover: 0 });
    let (rate, write_command, switch) = (33_550_000, 50_000, 20_000);
    let base = Profile { name: "old disk".into(), about, near: 1 << 20, slots: 7, ..WDBLUE };
    assert_eq!(p, Profile { rate, write_command, switch, cache: None, stall, slow, ..base });
    let same = parse_profile("base = \"pny32\"", "mine").unwrap();
    assert_eq!(same.name, "mine");
    assert_eq!(Profile { name: PNY32.name, about: PNY32.about, ..same }, PNY32);
}

#[test]
fn a_mistake_is_one_line_with_line_and_key() {
    for (text, expected) in [
        ("base = \"pny33\"", "line 1: base: no device profile pny33; there are qemu-ssd, pny32"),
        ("\nslots = 0", "line 2: slots: a device has at least 1 slot"),
        ("slots = -1", "line 1: slots: invalid value"),
        ("slots = 2\nspeed = 3", "line 2: speed: unknown field `speed`, expected one of"),
        ("rate = \"59M\"", "line 1: rate: \"59M\" is not a rate"),
        ("rate = \"0 MB/s\"", "line 1: rate: \"0 MB/s\" moves nothing"),
        ("rate = 59", "line 1: rate: invalid type: integer `59`, expected a string"),
        ("idle_wake = \"5\"", "line 1: idle_wake: \"5\" is not a time"),
        ("near = \"1.5M\"", "line 1: near: \"1.5M\" is not a size"),
        ("max_request = \"100\"", "line 1: max_request: \"100\" is not 0 or 4K to 4G"),
        ("stall = { chance = \"101%\", time = \"1s\" }", "line 1: stall: \"101%\" is not a ch"),
        ("cache = { bytes = \"1M\" }", "line 1: cache: missing field `fill_rate`"),
        ("without = [\"slots\"]", "line 1: without: unknown variant `slots`"),
        ("name = \"\"", "line 1: name: expected some printable text"),
        ("slots = 2\n=", "line 2: "),
    ] {
        let error = parse_profile(text, "x").unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = load_profile("/nowhere/x.toml").unwrap_err().to_string();
    assert!(error.starts_with("device profile /nowhere/x.toml: No such file"), "{error}");
}

#[test]
fn numbers_are_exact() {
    assert_eq!(parse_nanos("37ms"), Ok(37_000_000));
    assert_eq!(parse_nanos("3.95us"), Ok(3_950));
    assert_eq!(parse_nanos("0.1ns"), Ok(0));
    assert_eq!(parse_rate("1.874 GB/s"), Ok(1_874_000_000));
    assert_eq!(parse_rate("none"), Ok(0));
    for wrong in ["", "ms", "-1ms", "1e3ms", "1.ms", ".5ms", "99999999999999s"] {
        assert!(parse_nanos(wrong).is_err(), "{wrong}");
    }
}
