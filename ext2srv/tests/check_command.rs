//! `ext2srv check` as a command: exit status, text, JSON, and a store that it leaves as it was.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{Run, Scratch, debugfs_write, run};
use std::process::Command;

fn ext2srv(args: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_ext2srv")).args(args))
}

#[test]
fn a_check_says_what_is_wrong_and_changes_nothing() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let name = image.display().to_string();
    ext2srv(&["mkfs", &name, "--size", "8M"]).ok();
    let clean = ext2srv(&["check", &name]).ok();
    assert_eq!(clean.stdout, format!("{name}: ext2, clean\n"));
    assert_eq!(clean.stderr, "");
    let json = ext2srv(&["check", &name, "--json"]).ok().stdout;
    let want = "{\"clean\":true,\"note\":0,\"repairable\":0,\"damage\":0,\"left_out\":0,\
                \"findings\":[]}\n";
    assert_eq!(json, want);

    debugfs_write(&image, "set_inode_field <2> links_count 9");
    debugfs_write(&image, "set_super_value state 0");
    let before = std::fs::read(&image).unwrap();
    let seen = ext2srv(&["check", &name]).exits(1);
    let lines: Vec<&str> = seen.stdout.lines().collect();
    let want = [
        "note: the volume was not cleanly unmounted",
        "repairable: inode 2: the link count is wrong (found 9, should be 3)",
        &format!("{name}: ext2, 1 repairable, 1 note"),
    ];
    assert_eq!(lines, want);
    let told = format!("ext2srv: {name}: not consistent: 1 repairable, 1 note");
    assert!(seen.stderr.starts_with(&told) && seen.stderr.lines().count() == 1, "{seen}");
    let json = ext2srv(&["check", &name, "--json"]).exits(1).stdout;
    let item = "{\"severity\":\"repairable\",\"kind\":\"link_count\",\"inode\":2,\"block\":null,\
                \"group\":null,\
                \"text\":\"inode 2: the link count is wrong (found 9, should be 3)\"}";
    assert!(json.contains(item) && json.contains("\"clean\":false"), "{json}");
    let few = ext2srv(&["check", &name, "--max-findings", "0"]).exits(1);
    assert!(few.stdout.starts_with("2 more findings are not listed\n"), "{few}");
    assert!(std::fs::read(&image).unwrap() == before, "a check writes nothing");
}

#[test]
fn what_cannot_be_checked_is_one_line() {
    let dir = Scratch::new();
    let missing = dir.join("missing").display().to_string();
    let seen = ext2srv(&["check", &missing]).exits(1);
    assert!(seen.stderr.lines().count() == 1 && seen.stderr.contains(&missing), "{seen}");
    let image = dir.join("image");
    let name = image.display().to_string();
    ext2srv(&["mkfs", &name, "--size", "8M"]).ok();
    let seen = ext2srv(&["check", &name, "--memory", "1K"]).exits(1);
    assert!(seen.stderr.contains("in 1024 bytes of memory"), "{seen}");
    ext2srv(&["check", &name, "--fix"]).exits(2);
    ext2srv(&["check"]).exits(2);
    std::fs::write(&image, [0u8; 4096]).unwrap();
    let seen = ext2srv(&["check", &name]).exits(1);
    assert!(seen.stdout.contains("no ext2 magic number"), "{seen}");
}
