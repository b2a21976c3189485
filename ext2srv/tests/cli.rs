//! The command line of `ext2srv`: what `mkfs` says and leaves behind, and what a volume that cannot
//! be written says.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{
    Mount, Proc, Run, Scratch, assert_clean, debugfs, debugfs_write, mke2fs, run, tool,
};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn ext2srv() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ext2srv"))
}

fn mkfs(image: &Path, args: &[&str]) -> Run {
    run(ext2srv().arg("mkfs").arg(image).args(args))
}

#[test]
fn a_failed_mkfs_names_the_rule_and_leaves_no_file() {
    let dir = Scratch::new();
    let image = dir.join("image");
    for (args, rule) in [
        (&["--size", "1000001"][..], "a size is a multiple of 512 bytes"),
        (&["--size", "0"], "a size is a multiple of 512 bytes"),
        (
            &["--size", "8M", "--block-size", "0"],
            "block size 0; it must be a power of two from 1024",
        ),
        (&["--size", "8M", "--block-size", "512"], "block size 512; it must be a power of two"),
        (&["--size", "8M", "--block-size", "3000"], "block size 3000; it must be a power of two"),
        (&["--size", "8M", "--block-size", "128K"], "from 1024 to 65536"),
        (&["--size", "8M", "--inode-size", "100"], "inode size 100; it must be a power of two"),
        (&["--size", "8K"], "a volume of 8 blocks is too small"),
        (&["--size", "1M", "--journal"], "a journal in a volume of 1024 blocks"),
        (&["--size", "8M", "--features", "extent"], "feature extent; made are filetype"),
        (&["--size", "8M", "--inodes", "99999999"], "99999999 inodes; the volume's groups hold"),
    ] {
        let seen = mkfs(&image, args).exits(1);
        assert!(seen.stderr.contains(rule), "{args:?}: {seen}");
        assert_eq!(seen.stderr.lines().count(), 1, "{seen}");
        assert!(seen.stdout.is_empty() && !image.exists(), "{args:?}: {seen}");
    }
    // What was there before stays.
    std::fs::write(&image, vec![7; 1 << 20]).unwrap();
    mkfs(&image, &["--block-size", "3000"]).exits(1);
    assert!(std::fs::read(&image).unwrap() == vec![7; 1 << 20]);
}

#[test]
fn mkfs_says_what_it_made() {
    let dir = Scratch::new();
    let image = dir.join("image");
    let seen = mkfs(&image, &["--size", "8202K", "--label", "twelve"]).ok();
    assert!(seen.stdout.ends_with(": ext2, 8389632 bytes (8.0 MiB), blocks of 1024\n"), "{seen}");
    assert!(seen.stderr.is_empty(), "{seen}");
    assert_clean(&image);
    let seen = mkfs(&image, &["--block-size", "8K"]).ok();
    assert!(seen.stderr.contains("warning") && seen.stderr.contains("blocks of 8192"), "{seen}");
    let args =
        ["--features", "uninit_bg,^large_file,sparse_super2", "--journal", "--inodes", "999"];
    let seen = mkfs(&image, &args).ok();
    assert!(seen.stdout.ends_with(", a journal\n"), "{seen}");
    assert_clean(&image);
    let shown = debugfs(&image, "features");
    for f in ["uninit_bg", "sparse_super2", "has_journal"] {
        assert!(shown.contains(f), "{shown}");
    }
    assert!(!shown.contains("large_file"), "{shown}");
}

#[test]
fn a_volume_that_can_only_be_read_says_so() {
    let dir = Scratch::new();
    let (image, socket) = (dir.join("image"), dir.join("socket"));
    let serve = |options: &[&str]| {
        let mut cmd = ext2srv();
        cmd.arg("serve").arg(&image).arg("--socket").arg(&socket).args(options);
        cmd
    };
    mke2fs(&image, 16 << 20, &["-O", "extent,64bit,metadata_csum"]);
    let before = std::fs::read(&image).unwrap();
    let seen = run(&mut serve(&[])).exits(1);
    let want =
        "writing a volume with extent, 64bit, metadata_csum; a read-only mount (-o ro) works";
    assert!(seen.stderr.contains(want), "{seen}");
    let mut server = Proc::serve(&mut serve(&["-o", "ro"]), &socket);
    server.terminate();
    assert!(server.wait(Duration::from_secs(60)).success(), "{}", server.stderr());
    assert!(std::fs::read(&image).unwrap() == before, "a read-only server wrote");

    mke2fs(&image, 16 << 20, &["-O", "has_journal", "-J", "size=1", "-b", "1024"]);
    debugfs_write(&image, "feature needs_recovery");
    let before = std::fs::read(&image).unwrap();
    for options in [&[][..], &["-o", "ro"]] {
        let seen = run(&mut serve(options)).exits(1);
        assert!(seen.stderr.contains("needs_recovery"), "{seen}");
    }
    let mut server = Proc::serve(&mut serve(&["-o", "ro,norecovery"]), &socket);
    server.terminate();
    assert!(server.wait(Duration::from_secs(60)).success(), "{}", server.stderr());
    assert!(std::fs::read(&image).unwrap() == before, "a read-only server wrote");
}

#[test]
fn errors_are_answered_as_the_volume_or_the_option_says() {
    let (go_on, stop) = ("errors=continue", "errors=remount-ro");
    for (volume, option, said, read_only) in [
        ("continue", None, "default", false),
        ("remount-ro", None, "default,errors=remount-ro", true),
        ("panic", None, "default,errors=remount-ro (the volume says panic)", true),
        ("panic", Some(go_on), "default,errors=continue", false),
        ("continue", Some(stop), "default,errors=remount-ro", true),
    ] {
        let place = Mount::place(1 << 20, &["-b", "1024"]);
        let image = place.join("image");
        let file = place.join("file");
        std::fs::write(&file, b"x").unwrap();
        debugfs_write(&image, &format!("write {} bad", file.display()));
        debugfs_write(&image, "set_inode_field /bad mode 0");
        run(tool("tune2fs").args(["-e", volume]).arg(&image)).ok();
        let options = option.map_or(vec![], |o| vec!["-o", o]);
        let m = Mount::on(place, &options);
        let policy = m.ctl(&["policy"]).ok().stdout;
        let said = format!("policy {said}, durable");
        assert!(policy.starts_with(&said), "{volume} {option:?}: {policy}");
        std::fs::write(m.at("before"), b"x").unwrap();
        let met = std::fs::metadata(m.at("bad")).unwrap_err();
        assert_eq!(met.raw_os_error(), Some(117), "EUCLEAN");
        let after = std::fs::write(m.at("after"), b"x").map_err(|e| e.raw_os_error());
        assert_eq!(after, if read_only { Err(Some(30)) } else { Ok(()) }, "{volume} {option:?}");
        assert_eq!(std::fs::read(m.at("before")).unwrap(), b"x");
    }
}

/// A number of `ctl SOCKET stats --json`.
fn counter(socket: &Path, name: &str) -> u64 {
    let json = run(ext2srv().arg("ctl").arg(socket).args(["stats", "--json"])).ok().stdout;
    let at = json.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name}: {json}"));
    let value = json[at..].split("\"value\": ").nth(1).unwrap();
    value.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn the_cache_of_metadata_is_as_large_as_asked() {
    const MIB: u64 = 1 << 20;
    let dir = Scratch::new();
    let (image, socket) = (dir.join("image"), dir.join("socket"));
    mke2fs(&image, 16 << 20, &[]);
    let serve = |options: &[&str]| {
        let mut cmd = ext2srv();
        cmd.arg("serve").arg(&image).arg("--socket").arg(&socket).args(options);
        cmd
    };
    let budgets = |options: &[&str]| {
        let mut server = Proc::serve(&mut serve(options), &socket);
        let seen =
            (counter(&socket, "metadata cache budget"), counter(&socket, "directory index budget"));
        assert!(counter(&socket, "metadata cache bytes") <= seen.0);
        assert!(counter(&socket, "directory index bytes") <= seen.1);
        server.terminate();
        assert!(server.wait(Duration::from_secs(60)).success(), "{}", server.stderr());
        seen
    };
    assert_eq!(budgets(&["-o", "cache=64M"]), (64 * MIB, 16 * MIB));
    assert_eq!(budgets(&["-o", "ro,cache=1G"]), (1024 * MIB, 256 * MIB), "no limit but one's own");
    assert_eq!(budgets(&["-o", "cache=64M,cache=4M"]), (4 * MIB, MIB), "the floor");
    let (blocks, index) = budgets(&[]);
    assert!((32 * MIB..=512 * MIB).contains(&blocks) && index == blocks / 4, "{blocks}, {index}");

    for wrong in ["cache", "cache=5000", "cache=", "cache=much", "cache=-64M", "cache=99999999999T"]
    {
        let seen = run(&mut serve(&["-o", wrong])).exits(2);
        assert!(seen.stderr.contains(&format!("-o {wrong}: ")), "{seen}");
        assert_eq!(seen.stderr.lines().count(), 1, "{seen}");
    }
}
