//! What the commands say and leave behind when something is in the way.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{Proc, Run, Scratch, assert_clean, bin, mke2fs, pattern, run};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const END: Duration = Duration::from_secs(60);

fn ext2srv() -> Command {
    Command::new(bin("ext2srv"))
}

fn fs(args: &[&str]) -> Run {
    run(Command::new(bin("seawall")).arg("fs").args(args))
}

/// A server of an image of its own.
struct Server {
    place: Scratch,
    socket: PathBuf,
    server: Proc,
}

impl Server {
    fn start(size: u64, more: &[&str]) -> Self {
        let place = Scratch::new();
        let (image, socket) = (place.join("image"), place.join("fs.sock"));
        mke2fs(&image, size, &[]);
        let mut cmd = ext2srv();
        cmd.arg("serve").arg(&image).arg("--socket").arg(&socket).args(more);
        let server = Proc::serve(&mut cmd, &socket);
        Self { place, socket, server }
    }

    fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.socket.display())
    }

    fn stop(mut self) {
        run(ext2srv().arg("ctl").arg(&self.socket).arg("shutdown")).ok();
        assert!(self.server.wait(END).success(), "{}", self.server.stderr());
        assert_clean(&self.place.join("image"));
    }
}

#[test]
fn a_put_that_fails_leaves_nothing_that_looks_whole() {
    let s = Server::start(4 << 20, &[]);
    let (big, small) = (s.place.join("big"), s.place.join("small"));
    let bytes = pattern(8 << 20, 1);
    fs::write(&big, &bytes).unwrap();
    fs::write(&small, "text").unwrap();
    let full = |path: &str, to: &str| {
        let e = fs(&["put", path, &s.at(to)]);
        let said = format!("seawall fs: {}: no space left on device (ENOSPC)\n", s.at(to));
        assert_eq!((e.code(), &*e.stderr), (1, &*said), "{e}");
    };
    let big = big.to_str().unwrap();
    full(big, "/new");
    let e = fs(&["stat", &s.at("/new")]);
    assert!(e.stderr.contains("ENOENT"), "{e}");
    // What was there before is cut where the writes ended.
    fs(&["put", small.to_str().unwrap(), &s.at("/old")]).ok();
    full(big, "/old");
    let back = s.place.join("back");
    fs(&["get", &s.at("/old"), back.to_str().unwrap()]).ok();
    let back = fs::read(back).unwrap();
    assert!(back.len() > 1 << 20 && back.len() < 4 << 20, "{}", back.len());
    assert!(bytes.starts_with(&back), "a tail that was never written");
    // A file with a second name, in a tree: neither name is of full size.
    let tree = s.place.dir("tree");
    fs::rename(big, tree.join("a")).unwrap();
    fs::hard_link(tree.join("a"), tree.join("b")).unwrap();
    fs(&["rm", &s.at("/old")]).ok();
    fs(&["put", tree.to_str().unwrap(), &s.at("/")]).exits(1);
    assert!(fs(&["stat", &s.at("/tree/a")]).stderr.contains("ENOENT"));
    let list = fs(&["stat", &s.at("/tree/b")]);
    assert!(!list.stdout.contains("8388608"), "{list}");
    s.stop();
}

#[test]
fn a_store_that_cannot_be_written_is_the_reason() {
    let place = Scratch::new();
    let (image, socket) = (place.join("image"), place.join("fs.sock"));
    mke2fs(&image, 4 << 20, &[]);
    let store = format!("file:{}?ro", image.display());
    let mut cmd = ext2srv();
    cmd.args(["serve", &store, "--socket"]).arg(&socket);
    let mut server = Proc::serve(&mut cmd, &socket);
    server.terminate();
    assert!(server.wait(END).success());
    let said = server.stderr();
    assert!(said.contains(", read-only because of the read-only store"), "{said}");
    let e = run(cmd.args(["-o", "rw"])).exits(1);
    let said = "-o rw: it cannot be written because of the read-only store\n";
    assert_eq!(e.stderr, format!("ext2srv: {store}: {said}"));
    let e = run(cmd.args(["-o", "nosuid,suid"])).exits(2);
    assert_eq!(e.stderr, "ext2srv: -o nosuid,suid: these contradict each other\n");
}

#[test]
fn control_of_a_mount_speaks_of_the_mount() {
    let place = Scratch::new();
    let (image, dir) = (place.join("image"), place.dir("mnt"));
    mke2fs(&image, 4 << 20, &[]);
    run(ext2srv().arg("mount").arg(&image).arg(&dir).args(["--daemon", "-o", "defaults"])).ok();
    let ctl = |verb: &str| run(ext2srv().arg("ctl").arg(&dir).arg(verb));
    let first = fs::File::create(dir.join("first")).unwrap();
    let said = |what: &str| {
        assert_eq!(
            ctl("remount-ro").exits(1).stderr,
            format!("ext2srv: {}: {what}\n", dir.display())
        );
    };
    said("1 file is open for writing");
    let more = (first.try_clone().unwrap(), fs::File::create(dir.join("second")).unwrap());
    said("2 files are open for writing");
    said_of_freeze(&dir);
    drop((first, more));
    ctl("shutdown").ok();
    assert_clean(&image);
}

fn said_of_freeze(dir: &Path) {
    let e = run(ext2srv().arg("ctl").arg(dir).arg("freeze")).exits(1);
    assert!(e.stderr.starts_with(&format!("ext2srv: {}: ", dir.display())), "{e}");
}

#[test]
fn two_shutdowns_at_once() {
    let mut s = Server::start(4 << 20, &[]);
    let ask = || {
        let mut cmd = ext2srv();
        cmd.arg("ctl").arg(&s.socket).arg("shutdown").stderr(Stdio::piped());
        cmd.spawn().unwrap()
    };
    let both = [ask(), ask()].map(|c| c.wait_with_output().unwrap());
    assert!(both.iter().any(|e| e.status.success()), "{both:?}");
    for e in both.iter().filter(|e| !e.status.success()) {
        // It came when nobody could answer any more: it says so, in one line.
        let said = String::from_utf8_lossy(&e.stderr);
        assert!(said.contains(s.socket.to_str().unwrap()) && said.lines().count() == 1, "{said}");
    }
    assert!(s.server.wait(END).success(), "{}", s.server.stderr());
}

#[test]
fn one_session_too_many_is_told_why() {
    let s = Server::start(4 << 20, &["--max-sessions", "1"]);
    // The connection that found the server may still be its one session.
    let mut seen = None;
    for _ in 0..100 {
        let held = UnixStream::connect(&s.socket).unwrap();
        let e = fs(&["ls", &s.at("/")]);
        drop(held);
        if e.code() != 0 {
            seen = Some(e);
            break;
        }
    }
    let e = seen.unwrap();
    assert_eq!(e.stderr.lines().count(), 1, "{e}");
    assert!(e.stderr.contains("at once") && e.stderr.contains("--max-sessions"), "{e}");
    drop(s);
}
