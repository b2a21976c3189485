//! `fatsrv mkfs` and `fatsrv check` as commands.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{Run, Scratch, run, tool};
use std::process::Command;

fn fatsrv(args: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_fatsrv")).args(args))
}

#[test]
fn mkfs_makes_what_it_says() {
    let dir = Scratch::new();
    let name = dir.join("image").display().to_string();
    let args = ["mkfs", &name, "--size", "64M", "--label", "Sea wall", "--uuid", "12ab-CD34"];
    let said = fatsrv(&args).ok().stdout;
    let want = format!("{name}: FAT16, 67108864 bytes (64 MiB), clusters of 2048, 12AB-CD34\n");
    assert_eq!(said, want);
    let seen = run(tool("blkid").args(["-p", "-o", "export", &name])).ok().stdout;
    for line in ["LABEL=SEA\\ WALL", "UUID=12AB-CD34", "VERSION=FAT16"] {
        assert!(seen.contains(line), "{seen}");
    }
    let odd = ["--fat", "32", "--sector-size", "1K", "--sectors-per-cluster", "2", "--fats", "1"];
    let more = ["--reserved-sectors", "40", "--hidden-sectors", "63", "--media", "f9"];
    let made = fatsrv(&[&["mkfs", &name], &odd[..], &more].concat()).ok();
    assert!(made.stdout.contains("FAT32") && made.stdout.contains("clusters of 2048"), "{made}");
    run(tool("fsck.fat").args(["-n", &name])).ok();
    assert_eq!(
        fatsrv(&["check", &name]).ok().stdout.lines().last().unwrap(),
        format!("{name}: FAT, clean (1 note)")
    );
    let many = fatsrv(&["mkfs", &name, "--fats", "3"]).ok();
    assert!(many.stderr.contains("warning") && many.stderr.contains("3 FATs"), "{many}");
}

#[test]
fn what_is_wrong_is_one_line() {
    let dir = Scratch::new();
    let name = dir.join("image").display().to_string();
    for (args, word) in [
        (&["--size", "8M", "--fat", "16", "--sectors-per-cluster", "64"][..], "clusters"),
        (&["--size", "8M", "--label", "a/b"], "label"),
        (&["--size", "8M", "--label", "twelve bytes"], "label"),
    ] {
        let seen = fatsrv(&[&["mkfs", &name], args].concat()).exits(1);
        assert!(seen.stderr.contains(word) && seen.stderr.lines().count() == 1, "{seen}");
        assert!(!std::path::Path::new(&name).exists());
    }
    for args in [
        &["--fat", "8"][..],
        &["--media", "f1"],
        &["--uuid", "12"],
        &["--journal"],
        &["--block-size", "4K"],
        &["--inode-size", "256"],
        &["--features", "none"],
    ] {
        fatsrv(&[&["mkfs", &name, "--size", "8M"], args].concat()).exits(2);
    }
    let help = fatsrv(&["mkfs", "--help"]).ok().stdout;
    assert!(help.contains("--sectors-per-cluster") && !help.contains("--inode-size"), "{help}");
}

#[test]
fn a_check_says_what_is_wrong_and_changes_nothing() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let name = image.display().to_string();
    fatsrv(&["mkfs", &name, "--size", "8M"]).ok();
    assert_eq!(fatsrv(&["check", &name]).ok().stdout, format!("{name}: FAT, clean\n"));
    let mut data = std::fs::read(&image).unwrap();
    // The mark of a volume in use.
    data[37] = 1;
    std::fs::write(&image, &data).unwrap();
    let seen = fatsrv(&["check", &name]).exits(1);
    let want = "repairable: the volume was not cleanly unmounted: in the boot sector\n";
    assert!(seen.stdout.starts_with(want), "{seen}");
    let json = fatsrv(&["check", &name, "--json"]).exits(1).stdout;
    assert!(json.contains("\"kind\":\"not_unmounted\"") && json.contains("\"clean\":false"));
    assert!(std::fs::read(&image).unwrap() == data, "a check writes nothing");
    std::fs::write(&image, [0u8; 4096]).unwrap();
    assert!(fatsrv(&["check", &name]).exits(1).stdout.contains("the sector is empty"));
}
