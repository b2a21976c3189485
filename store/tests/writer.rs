//! One exclusive writer of a served store: who is refused, who goes on, when the lock ends.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{BlockDev, DevError, PageBuf, ReadRun, Run, Tag, WriteFlags, WriteRun};
use seawall_ipc::storeproto::rights;
use seawall_store::backend::MemBackend;
use seawall_store::server::{ServeOptions, Server};
use seawall_store::{Access, Client, StoreError};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

struct Setup {
    server: Server,
    socket: PathBuf,
    _dir: TempDir,
}

fn serve() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let backend = Arc::new(MemBackend::new(1 << 20).unwrap());
    let server = Server::start(backend, &socket, ServeOptions::default()).unwrap();
    Setup { server, socket, _dir: dir }
}

impl Setup {
    fn open(&self, name: &str, access: Access) -> Result<Client, StoreError> {
        Client::connect_as(&self.socket, name, access)
    }

    /// The error of a session that must be refused because of others.
    fn refused(&self, access: Access) -> String {
        match self.open("late", access) {
            Err(error @ StoreError::Held { .. }) => error.to_string(),
            other => panic!("{access:?}: {other:?}"),
        }
    }
}

fn write(mut client: &Client, start: u64, byte: u8) -> Result<(), DevError> {
    let mut buf = PageBuf::zeroed(4096);
    buf.fill(byte);
    client.write(&[WriteRun { start, buf: &buf, tag: Tag(1) }], WriteFlags::default()).map(|_| ())
}

fn read(mut client: &Client, start: u64) -> u8 {
    let mut buf = PageBuf::zeroed(512);
    client.read(&mut [ReadRun { start, buf: &mut buf }], Tag(1)).unwrap();
    buf[0]
}

#[test]
fn a_second_writer_is_refused_and_readers_go_on() {
    let s = serve();
    let before = s.open("reader before", Access::ReadOnly).unwrap();
    let holder = s.open("holder[7]", Access::Exclusive).unwrap();
    assert!(!holder.is_held_by_another());
    for access in [Access::Exclusive, Access::Shared] {
        let said = s.refused(access);
        assert!(said.contains("holder[7] (session ") && said.contains("EBUSY"), "{said}");
        assert!(!said.contains("more") && !said.contains("reader"), "{said}");
    }
    write(&holder, 4096, 3).unwrap();
    let after = s.open("reader after", Access::ReadOnly).unwrap();
    assert!(after.is_held_by_another() && !after.info().read_only);
    for reader in [&before, &after] {
        assert_eq!(read(reader, 4096), 3);
        (&mut &*reader).sync(Tag(0)).unwrap();
        reader.accept_loss().unwrap();
        assert_eq!(write(reader, 4096, 4), Err(DevError::ReadOnly));
        // Nor can it give away what it gave up.
        let minted = reader.open_range(Run::new(0, 4096), rights::WRITE);
        assert_eq!(minted.err(), Some(DevError::Denied));
    }
    holder.close().unwrap();
    let next = s.open("next", Access::Exclusive).unwrap();
    write(&next, 4096, 5).unwrap();
    drop(next);
    s.open("shared", Access::Shared).unwrap();
    s.server.stop().unwrap();
}

#[test]
fn many_may_write_until_one_wants_it_alone() {
    let s = serve();
    let one = s.open("one", Access::Shared).unwrap();
    let two = s.open("two", Access::Shared).unwrap();
    let said = s.refused(Access::Exclusive);
    assert!(said.contains("one (session ") && said.contains(" and 1 more"), "{said}");
    write(&two, 0, 1).unwrap();
    drop(one);
    let said = s.refused(Access::Exclusive);
    assert!(said.contains("two (session ") && !said.contains("more"), "{said}");
    drop(two);
    // A session that is gone is in nobody's way, however soon the next one comes.
    for _ in 0..200 {
        drop(s.open("again", Access::Exclusive).unwrap());
    }
    s.server.stop().unwrap();
}

#[test]
fn a_minted_session_belongs_to_its_holder_and_each_part_has_its_own_writer() {
    let s = serve();
    let holder = s.open("holder", Access::Exclusive).unwrap();
    let half = 512 << 10;
    let mint = |start, rights| holder.open_range(Run::new(start, half), rights).unwrap();
    let over = |socket, name: &str, access| Client::over_as(socket, "minted", name, access);
    let left = over(mint(0, rights::ALL), "left", Access::Exclusive).unwrap();
    let right = over(mint(half, rights::ALL), "right", Access::Exclusive).unwrap();
    write(&left, 0, 1).unwrap();
    write(&right, 0, 2).unwrap();
    write(&holder, 4096, 3).unwrap();
    // A sibling over the same part is another writer; one that cannot write is not.
    let second = over(mint(0, rights::ALL), "second", Access::Shared);
    let Err(StoreError::Held { by, .. }) = second else { panic!("{second:?}") };
    assert!(by.starts_with("left (session "), "{by}");
    over(mint(0, rights::READ | rights::SYNC), "reader", Access::Shared).unwrap();
    let denied = over(mint(0, rights::READ), "reader", Access::Exclusive);
    assert!(matches!(denied, Err(StoreError::Peer { .. })), "{denied:?}");
    // They outlive the session they came from, and are in the way of the next as long.
    drop(holder);
    assert!(s.refused(Access::Exclusive).contains("left (session "));
    assert!(s.refused(Access::Shared).contains("left (session "));
    drop(left);
    assert!(s.refused(Access::Exclusive).contains("right (session "));
    drop(right);
    s.open("next", Access::Exclusive).unwrap();
    s.server.stop().unwrap();
}

fn store(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_store"));
    command.env_remove("RUST_LOG").args(args).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    store(args).output().unwrap()
}

fn ok(args: &[&str]) -> String {
    let out = run(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The one line of a command that must be refused because `holder` writes.
fn refused(args: &[&str], holder: &str) {
    let out = run(args);
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(1), 1), "{args:?}: {line}");
    assert!(line.contains(holder) && line.contains("EBUSY"), "{args:?}: {line}");
}

/// A server of another store as a process; its line says that it is ready.
fn upper(dir: &TempDir, unix: &str) -> (Child, String) {
    let socket = dir.path().join("upper").display().to_string();
    let mut child = store(&["serve", unix, "--socket", &socket]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving "), "{line}");
    let name = format!("store serve[{}]", child.id());
    (child, name)
}

#[test]
fn every_verb_beside_a_process_that_holds_the_store_until_it_is_killed() {
    let s = serve();
    let unix = format!("unix:{}", s.socket.display());
    let dir = tempfile::tempdir().unwrap();
    assert!(ok(&["info", &unix]).contains("read and write"));
    let (mut child, name) = upper(&dir, &unix);
    refused(&["write", &unix, "0"], &name);
    let second = dir.path().join("second").display().to_string();
    refused(&["serve", &unix, "--socket", &second], &name);
    for op in ["write", "sync", "mixed"] {
        refused(&["bench", &unix, "--op", op, "--depth", "2", "--time", "20ms"], &name);
    }
    assert!(ok(&["info", &unix]).contains("in use by another writer"));
    assert!(ok(&["stats", &unix]).contains(&name));
    assert_eq!(run(&["read", &unix, "0", "512"]).stdout, [0; 512]);
    assert!(ok(&["sync", &unix]).starts_with("durable sequence "));
    assert_eq!(ok(&["clear-fault", &unix, "--accept-loss"]), "nothing was lost\n");
    // The server over it lets its own sessions write, one after the other.
    let over = format!("unix:{}", dir.path().join("upper").display());
    ok(&["write", &over, "0"]);
    ok(&["write", &over, "0"]);
    child.kill().unwrap();
    child.wait().unwrap();
    ok(&["write", &unix, "0"]);
    ok(&["bench", &unix, "--op", "sync", "--depth", "3", "--time", "20ms"]);
    s.server.stop().unwrap();
}
