//! `store` as processes: its command line, its server's life and death.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{BlockDev, DevError, PageBuf, Tag, WriteFlags, WriteRun};
use seawall_ipc::conn::{Receiver, send};
use seawall_ipc::storeproto::{DIALECT, Hello, op};
use seawall_ipc::{Event, Gather, Reply, Request, encode_body, flags};
use seawall_store::Client;
use seawall_store::backend::DIE_STATUS;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

fn store() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_store"));
    command.env_remove("RUST_LOG");
    command
}

fn run(args: &[&str], input: &[u8]) -> Output {
    let mut command = store();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A command that fails early does not read all of its input.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn ok(args: &[&str], input: &[u8]) -> String {
    let out = run(args, input);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Exit status and the one line on stderr.
fn fails(args: &[&str]) -> (i32, String) {
    let out = run(args, &[0; 512]);
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code().unwrap(), line)
}

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(dir: &TempDir, name: &str) -> Self {
        Self::start_with(dir, name, &[])
    }

    fn start_with(dir: &TempDir, name: &str, more: &[&str]) -> Self {
        let socket = dir.path().join("socket");
        let mut command = store();
        command.args(["serve", name, "--socket"]).arg(&socket).args(more).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("serving {name} on {}\n", socket.display()));
        Self { child, socket }
    }

    fn unix(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket, "test").unwrap()
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }

    fn rss_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn image(dir: &TempDir, len: u64) -> String {
    let path = dir.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(len).unwrap();
    path.display().to_string()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 4096) as u8).collect()
}

fn write(mut client: &Client, start: u64, len: usize) -> Result<(), DevError> {
    let buf = PageBuf::from_slice(&pattern(len));
    let run = WriteRun { start, buf: &buf, tag: Tag(1) };
    client.write(&[run], WriteFlags::default()).map(|_| ())
}

#[test]
fn every_verb_through_a_server_and_on_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let disk = image(&dir, 16 << 20);
    let mut server = Server::start(&dir, &disk);
    let unix = server.unix();
    let data = pattern(9 << 20);
    let said = ok(&["write", &unix, "64K"], &data);
    assert!(said.starts_with("wrote 9 MiB (9437184 bytes) at 65536"), "{said}");
    assert!(ok(&["sync", &unix], &[]).starts_with("durable sequence "));
    let back = run(&["read", &unix, "64K", "9M"], &[]);
    assert!(back.stdout == data);
    // Any bytes, not only whole blocks; a write that ends inside a block keeps the rest of it.
    assert_eq!(run(&["read", &unix, "65540", "7"], &[]).stdout, data[4..11]);
    ok(&["write", &unix, "64K"], b"abc");
    assert_eq!(run(&["read", &unix, "64K", "5"], &[]).stdout, [b'a', b'b', b'c', data[3], data[4]]);

    let info = ok(&["info", &unix], &[]);
    assert!(info.contains("16 MiB (16777216 bytes)") && info.contains("flushable"), "{info}");
    let json = ok(&["info", &unix, "--json"], &[]);
    assert!(json.contains("\"size\": 16777216"), "{json}");
    let stats = ok(&["stats", &unix], &[]);
    assert!(stats.contains("syncs 1: flushes 1, merged 0, skipped 0"), "{stats}");
    assert!(ok(&["stats", &unix, "--json"], &[]).contains("\"write_sizes\""));

    let (code, line) = fails(&["sync", &disk]);
    assert_eq!(code, 1);
    assert_eq!(line.lines().count(), 1);
    assert!(line.contains(&disk) && line.contains("EBUSY"), "{line}");
    assert!(ok(&["info", &disk], &[]).contains("in use by another writer"));
    let second = dir.path().join("second").display().to_string();
    assert_eq!(fails(&["serve", &disk, "--socket", &second]).0, 1);
    let ro = format!("{disk}?ro");
    assert!(run(&["read", &ro, "64K", "4K"], &[]).stdout.starts_with(b"abc"));
    assert!(fails(&["write", &ro, "0"]).1.contains("read-only"));

    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    assert!(!server.socket.exists());
    assert!(ok(&["info", &disk], &[]).contains("read and write"));
    assert!(run(&["read", &disk, "64K", "3"], &[]).stdout == b"abc");
}

#[test]
fn wrong_words_get_one_line_or_a_usage() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing").display().to_string();
    for (name, part) in [
        (missing.as_str(), "missing: No such file or directory (os error 2)\n"),
        ("men:64M", "no kind of store men; accepted are PATH"),
        ("mem:64X", "\"64X\" is not a size"),
        ("mem:1", "size must be"),
        ("sim:floppy:mem:1M", "no device profile floppy; there are qemu-ssd"),
        ("fault:explode:mem:1M", "fault rule \"explode\""),
        ("mirror:[a,b]", "stores of kind mirror are not supported yet"),
        ("nbd://host/x", "stores of kind nbd are not supported yet"),
        ("x?rw", "no qualifier ?rw"),
        ("x?io_uring", "file with ?io_uring are not supported yet"),
        ("unix:", "expected unix:SOCKET"),
        (dir.path().to_str().unwrap(), ""),
    ] {
        let (code, line) = fails(&["info", name]);
        // A name that means nothing is bad usage; a place that is not there is a failure.
        let place = name.starts_with('/');
        assert_eq!((code, line.lines().count()), (if place { 1 } else { 2 }, 1), "{line}");
        assert!(line.contains(part), "{line}");
    }
    for usage in [&[][..], &["explode"], &["read", "mem:1M", "x", "y"], &["serve", "mem:1M"]] {
        assert_eq!(fails(usage).0, 2, "{usage:?}");
    }
    assert_eq!(fails(&["write", "mem:1M", "100"]).0, 1);
    assert_eq!(fails(&["read", "mem:1M", "1M", "1"]).0, 1);
    assert!(ok(&["--version"], &[]).starts_with("store "));
    assert!(ok(&["--help"], &[]).contains("fault:SPEC:STORE"));
}

#[test]
fn a_server_that_dies_inside_a_write_is_gone_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let disk = image(&dir, 4 << 20);
    let mut server = Server::start(&dir, &format!("fault:die=3:{disk}"));
    let (a, b) = (server.client(), server.client());
    write(&a, 0, 65536).unwrap();
    write(&b, 65536, 65536).unwrap();
    assert_eq!(write(&a, 1 << 20, 65536), Err(DevError::Gone));
    assert_eq!(server.child.wait().unwrap().code(), Some(DIE_STATUS));
    for client in [&a, &b] {
        assert_eq!(write(client, 0, 4096), Err(DevError::Gone));
        assert_eq!((&mut &*client).sync(Tag(0)), Err(DevError::Gone));
        assert_eq!(client.stats(), Err(DevError::Gone));
    }
    // Half of the write is there, as after a crash; what was acknowledged is whole.
    let bytes = std::fs::read(&disk).unwrap();
    assert_eq!(bytes[..65536], pattern(65536));
    assert_eq!(bytes[1 << 20..(1 << 20) + 32768], pattern(65536)[..32768]);
    assert!(bytes[(1 << 20) + 32768..(1 << 20) + 65536].iter().all(|b| *b == 0));
    // The socket it left behind does not stop the next one.
    assert!(server.socket.exists());
    let next = Server::start(&dir, &disk);
    write(&next.client(), 0, 4096).unwrap();
}

#[test]
fn the_command_says_that_the_server_died() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, "fault:die=2:mem:64M");
    let out = run(&["write", &server.unix(), "0"], &pattern(16 << 20));
    assert_eq!(out.status.code(), Some(1));
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(line.contains("the store server is gone"), "{line}");
}

#[test]
fn a_killed_server_fails_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir, "mem:64M");
    let client = server.client();
    std::thread::scope(|scope| {
        let (started, wait) = std::sync::mpsc::channel::<()>();
        let busy = scope.spawn({
            let client = &client;
            move || {
                let mut started = Some(started);
                loop {
                    if let Err(error) = write(client, 0, 1 << 20) {
                        return error;
                    }
                    drop(started.take());
                }
            }
        });
        assert!(wait.recv().is_err());
        assert_eq!(server.signal(rustix::process::Signal::KILL), None);
        assert_eq!(busy.join().unwrap(), DevError::Gone);
    });
}

#[test]
fn the_exit_status_is_that_of_the_last_flush() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start(&dir, "fault:flush=all:mem:1M");
        write(&server.client(), 0, 4096).unwrap();
        assert_eq!(server.signal(signal), Some(1));
        let mut server = Server::start(&dir, "fault:unflushable:mem:1M");
        write(&server.client(), 0, 4096).unwrap();
        assert!(fails(&["sync", &server.unix()]).1.contains("not supported"));
        assert_eq!(server.signal(signal), Some(0));
    }
}

#[test]
fn garbage_from_many_peers_leaves_no_growth() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, "mem:1M");
    let client = server.client();
    let round = |seed: u8| {
        for i in 0..50u8 {
            let mut socket = UnixStream::connect(&server.socket).unwrap();
            let bytes: Vec<u8> = (0..200_000u32).map(|b| (b as u8) ^ seed ^ i).collect();
            let _the_server_may_close_first = socket.write_all(&bytes);
            assert!(matches!(socket.read(&mut [0; 64]), Ok(0) | Err(_)));
        }
    };
    round(1);
    let before = server.rss_kib();
    (2..8).for_each(round);
    let after = server.rss_kib();
    assert!(after < before + 8192, "{before} KiB, then {after} KiB");
    write(&client, 0, 4096).unwrap();
}

#[test]
fn a_socket_path_that_is_too_long_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("x".repeat(120)).display().to_string();
    let (code, line) = fails(&["serve", "mem:1M", "--socket", &socket]);
    assert_eq!((code, line.lines().count()), (1, 1), "{line}");
    assert!(!Path::new(&socket).exists());
}

#[test]
fn bench_measures_every_operation_on_any_store() {
    let dir = tempfile::tempdir().unwrap();
    let disk = image(&dir, 4 << 20);
    let server = Server::start(&dir, &disk);
    for (op, depth) in [("read", "16"), ("write", "4"), ("mixed", "8"), ("sync", "3")] {
        let unix = server.unix();
        let args = ["bench", &unix, "--op", op, "--depth", depth, "--time", "50ms", "--json"];
        let report: serde_json::Value = serde_json::from_str(&ok(&args, &[])).unwrap();
        let number = |key: &str| report[key].as_f64().unwrap();
        assert_eq!((report["op"].as_str(), number("size")), (Some(op), 4096.0));
        assert!(number("ops") >= 1.0 && number("iops") > 0.0, "{report}");
        assert!(number("p50_us") <= number("p99_us") && number("p99_us") <= number("max_us") + 1.0);
        assert!(report["server_cpu_us_per_op"].is_number(), "{report}");
    }
    let stats: serde_json::Value =
        serde_json::from_str(&ok(&["stats", &server.unix(), "--json"], &[])).unwrap();
    let total = |key: &str| stats["total"][key].as_u64().unwrap();
    assert!(total("reads") > 0 && total("writes") > 0 && total("syncs") > 0, "{stats}");
    assert_eq!(total("syncs"), total("flushes") + total("riders") + total("skipped"));
    let text = ok(&["bench", "mem:1M", "--random", "--time", "20ms", "--size", "64K"], &[]);
    assert!(text.contains("IOPS") && text.contains("p99") && !text.contains("server"), "{text}");
    for (wrong, part) in [
        (vec!["bench", "mem:1M", "--size", "100"], "multiple of the store's block"),
        (vec!["bench", "mem:1M", "--size", "1M"], "more than the store's"),
        (vec!["bench", "mem:1M", "--op", "sync"], "use --depth 1"),
        (vec!["bench", "fault:read=all:mem:1M"], "input/output error"),
    ] {
        let (code, line) = fails(&wrong);
        assert_eq!((code, line.lines().count()), (1, 1), "{line}");
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(fails(&["bench", "mem:1M", "--time", "5"]).0, 2);
}

/// A session that speaks the wire by hand.
fn greeted(server: &Server) -> UnixStream {
    let socket = UnixStream::connect(&server.socket).unwrap();
    let hello = Hello { version: 1, offered: 0, required: 0, client: "raw".into() };
    let mut gather = Gather::new(DIALECT);
    let request = Request { op: op::HELLO, cookie: 1, ..Request::default() };
    gather.message_with_body(&request, &encode_body(&hello).unwrap());
    send(&socket, &gather).unwrap();
    let mut receiver = Receiver::<Reply>::new(DIALECT);
    assert!(matches!(receiver.event(&socket), Ok(Some(Event::Header(_)))));
    assert!(matches!(receiver.event(&socket), Ok(Some(Event::Body(_)))));
    socket
}

fn encoded(request: Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.put(DIALECT.magic, &mut bytes);
    bytes
}

/// Sends until the server takes no more and returns how much it took.
fn flood(mut socket: &UnixStream, bytes: &[u8], at_most: usize) -> usize {
    socket.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while let Ok(n) = socket.write(&bytes[sent % bytes.len()..]) {
        sent += n;
        assert!(sent < at_most, "the server takes requests without end");
    }
    sent
}

#[test]
fn clients_that_never_read_replies_cost_bounded_memory_and_stop_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, "mem:8M");
    let client = server.client();
    write(&client, 0, 8 << 20).unwrap();
    let before = server.rss_kib();
    let read = |length| Request { op: op::READ, cookie: 7, length, ..Request::default() };
    let stats = Request { op: op::STATS, cookie: 7, ..Request::default() };
    let sync = Request { op: op::SYNC, cookie: 7, flags: flags::DRAIN, ..Request::default() };
    let mut lazy = Vec::new();
    for request in [read(1 << 20), read(4096), stats, sync] {
        for _ in 0..4 {
            let socket = greeted(&server);
            flood(&socket, &encoded(request).repeat(64), 64 << 20);
            lazy.push(socket);
        }
    }
    // Slow ones: a header that never ends, a payload of which one byte comes.
    let write_all = Request { op: op::WRITE, length: 1 << 20, inline_len: 1 << 20, ..read(0) };
    for cut in [1, 63, 64] {
        let mut bytes = encoded(write_all);
        bytes.push(1);
        let mut socket = greeted(&server);
        socket.write_all(&bytes[..cut]).unwrap();
        lazy.push(socket);
    }
    // Everybody else goes on.
    for _ in 0..20 {
        write(&client, 0, 1 << 20).unwrap();
        (&mut &client).sync(Tag(0)).unwrap();
    }
    assert_eq!(client.stats().unwrap().sessions.len(), 1 + lazy.len());
    // A session may hold a receive buffer and a batch: under 5 MiB.
    let grown = server.rss_kib().saturating_sub(before);
    assert!(grown < 5 * 1024 * lazy.len() as u64, "{grown} KiB for {} sessions", lazy.len());
    drop(lazy);
    write(&client, 0, 4096).unwrap();
}

#[test]
fn limits_of_the_command_line_hold() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--max-sessions", "2", "--max-inflight", "3", "--readonly"];
    let server = Server::start_with(&dir, "mem:1M", &options);
    let client = server.client();
    assert_eq!(client.hello().in_flight_max, 3);
    assert_eq!(write(&client, 0, 4096), Err(DevError::ReadOnly));
    assert!(fails(&["write", &server.unix(), "0"]).1.contains("read-only"));
    let _second = greeted(&server);
    let (code, line) = fails(&["info", &server.unix()]);
    assert_eq!((code, line.lines().count()), (1, 1), "{line}");
    drop(client);
    for wrong in [["--max-sessions", "0"], ["--max-inflight", "9999"]] {
        let args = ["serve", "mem:1M", "--socket", "x", wrong[0], wrong[1]];
        assert_eq!(fails(&args).0, 2);
    }
}

#[test]
fn a_failed_flush_stays_until_its_loss_is_accepted() {
    let dir = TempDir::new().unwrap();
    let mut server = Server::start(&dir, "fault:flush=1:mem:1M");
    let name = server.unix();
    assert_eq!(ok(&["clear-fault", &name, "--accept-loss"], b""), "nothing was lost\n");
    ok(&["write", &name, "4096"], &[7; 8192]);
    for _ in 0..2 {
        let (code, line) = fails(&["sync", &name]);
        assert_eq!(code, 1, "{line}");
    }
    assert_eq!(fails(&["clear-fault", &name]).0, 2, "not without the flag");
    let said = ok(&["clear-fault", &name, "--accept-loss"], b"");
    assert!(said.starts_with("given up: 8 KiB of the writes after "), "{said}");
    assert!(said.ends_with("\n4096 8192\n"), "{said}");
    ok(&["sync", &name], b"");
    let (code, line) = fails(&["clear-fault", "mem:1M", "--accept-loss"]);
    assert!(code == 1 && line.contains("unix:SOCKET"), "{line}");
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
}
