//! The helpers do what they say: a judge that never objects would let everything pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{
    Compare, LoopMount, Mtime, Proc, Scratch, assert_clean, assert_same_tree, bin, debugfs,
    debugfs_write, dumpe2fs, e2fsck, mke2fs, run, sample_tree, tool, tree_diff, tree_snapshot,
};
use std::fs;
use std::process::Command;
use std::time::Duration;

const EXACT: Compare = Compare { mtime: Mtime::Exact, symlink_mtime: Mtime::Exact, owner: true };

#[test]
fn the_kernel_keeps_a_sample_tree_on_an_image_that_e2fsck_likes() {
    for (block, inode) in [("1024", "128"), ("4096", "256")] {
        let scratch = Scratch::new();
        let (image, source) = (scratch.join("image"), scratch.dir("source"));
        sample_tree(&source);
        mke2fs(&image, 32 << 20, &["-b", block, "-I", inode]);
        assert!(dumpe2fs(&image).contains(block));
        let mount = LoopMount::rw(&image);
        run(tool("cp").arg("-a").arg(source.join(".")).arg(mount.path())).ok();
        mount.unmount();
        assert_clean(&image);
        let mount = LoopMount::ro(&image);
        let (left, right) = (tree_snapshot(&source), tree_snapshot(mount.path()));
        assert_same_tree(&left, &right, Compare::default());
        assert!(left.len() > 20, "{}", left.len());
        assert!(left.values().any(|e| e.same_as.is_some()));
        let holes = &right[std::path::Path::new("holes")];
        assert!(holes.blocks < 100, "{} units of 512 for two short pieces", holes.blocks);
        mount.unmount();
    }
}

#[test]
fn e2fsck_and_debugfs_object_to_a_damaged_image() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 4 << 20, &[]);
    assert!(debugfs(&image, "stat /lost+found").contains("Type: directory"));
    debugfs_write(&image, "clri /lost+found");
    let (code, output) = e2fsck(&image);
    assert_eq!(code, 4, "{output}");
    let complaint = std::panic::catch_unwind(|| debugfs(&image, "stat /nothing"));
    assert!(complaint.is_err());
}

#[test]
fn a_difference_of_any_kind_is_seen() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.dir("a"), scratch.dir("b"));
    sample_tree(&a);
    run(tool("cp").arg("-a").arg(a.join(".")).arg(&b)).ok();
    let left = tree_snapshot(&a);
    assert_same_tree(&left, &tree_snapshot(&b), EXACT);
    let expect = |what: &str| {
        let lines = tree_diff(&left, &tree_snapshot(&b), EXACT);
        assert!(lines.iter().any(|l| l.contains(what)), "{what} not in {lines:?}");
    };
    fs::write(b.join("plain"), b"PLAIN").unwrap();
    expect("plain: content hash");
    fs::remove_file(b.join("exec")).unwrap();
    expect("exec: only on the left");
    fs::create_dir(b.join("new")).unwrap();
    expect("new: only on the right");
    fs::remove_file(b.join("links/second")).unwrap();
    fs::copy(b.join("links/first"), b.join("links/second")).unwrap();
    expect("links/second: links 3 on the left, 1 on the right");
    expect("links/second: same file as");
    run(tool("chmod").arg("600").arg(b.join("setuid"))).ok();
    expect("setuid: mode 4711 on the left, 0600 on the right");
    run(tool("touch").args(["-d", "@5"]).arg(b.join("sizes/1"))).ok();
    expect("sizes/1: mtime");
}

#[test]
fn a_process_is_collected_waited_for_and_killed() {
    let mut quick = Proc::spawn(tool("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
    assert_eq!(quick.wait(Duration::from_secs(60)).code(), Some(3));
    assert_eq!((quick.stdout().as_str(), quick.stderr().as_str()), ("out\n", "err\n"));
    let mut slow = Proc::spawn(tool("sleep").arg("1000"));
    assert!(slow.running());
    assert_eq!(slow.kill().code(), None);
    assert!(!slow.running());
    let mut asked = Proc::spawn(tool("sleep").arg("1000"));
    asked.terminate();
    assert!(!asked.wait(Duration::from_secs(60)).success());
}

#[test]
fn a_server_that_ends_before_it_accepts_fails_the_test_at_once() {
    let scratch = Scratch::new();
    let socket = scratch.join("socket");
    let start = || {
        let script = "echo no such device >&2; exit 1";
        Proc::serve(tool("sh").args(["-c", script]), &socket)
    };
    let failed = std::panic::catch_unwind(start).unwrap_err();
    let said = failed.downcast::<String>().unwrap();
    assert!(said.contains("no such device") && said.contains("exit status: 1"), "{said}");
}

#[test]
fn binaries_are_found_beside_the_tests_or_named_as_missing() {
    run(Command::new(bin("seawall")).arg("--version")).ok();
    let missing = std::panic::catch_unwind(|| bin("no-such-server")).unwrap_err();
    let said = missing.downcast::<String>().unwrap();
    assert!(said.contains("no-such-server is not built: run `cargo xtask test build`"), "{said}");
}

#[test]
fn a_server_is_ready_when_its_socket_accepts() {
    let scratch = Scratch::new();
    let socket = scratch.join("socket");
    let (name, at) = (scratch.join("unfinished"), socket.clone());
    let listener = std::thread::spawn(move || {
        let listener = std::os::unix::net::UnixListener::bind(&name).unwrap();
        fs::rename(&name, &at).unwrap();
        listener.accept().unwrap();
    });
    let server = Proc::serve(tool("sleep").arg("1000"), &socket);
    listener.join().unwrap();
    assert!(server.running());
}
