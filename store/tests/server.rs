//! A server and its clients over real sockets, in one process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{
    BlockDev, CacheClass, DevError, PageBuf, ReadRun, Run, Seq, Tag, WriteFlags, WriteRun,
};
use seawall_ipc::conn::{Receiver, send};
use seawall_ipc::storeproto::{DIALECT, Hello, Version, feature, op, rights};
use seawall_ipc::{Event, Gather, Reply, Request, encode_body, flags};
use seawall_store::backend::{
    Backend, Clock, FaultBackend, FileBackend, FileOptions, MemBackend, SimBackend,
};
use seawall_store::server::{ServeOptions, Server};
use seawall_store::session::CoreLimits;
use seawall_store::sim::{Profile, QEMU_SSD};
use seawall_store::{Client, OpenOptions, StoreError};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct Setup {
    server: Server,
    socket: PathBuf,
    _dir: TempDir,
}

fn serve(backend: impl Backend + 'static) -> Setup {
    serve_with(backend, CoreLimits::default())
}

fn serve_with(backend: impl Backend + 'static, limits: CoreLimits) -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let options = ServeOptions { name: "test".into(), limits };
    let server = Server::start(Arc::new(backend), &socket, options).unwrap();
    Setup { server, socket, _dir: dir }
}

fn mem(size: u64) -> MemBackend {
    MemBackend::new(size).unwrap()
}

fn fault(spec: &str, size: u64) -> FaultBackend {
    FaultBackend::new(spec.parse().unwrap(), Box::new(mem(size)))
}

impl Setup {
    fn client(&self) -> Client {
        Client::connect(&self.socket, "test").unwrap()
    }
}

fn pattern(len: usize, seed: u8) -> PageBuf {
    let mut buf = PageBuf::zeroed(len);
    for (i, b) in buf.iter_mut().enumerate() {
        *b = (i / 512) as u8 ^ (i as u8).wrapping_mul(31) ^ seed;
    }
    buf
}

fn write(mut c: &Client, start: u64, buf: &[u8]) -> Result<Seq, DevError> {
    c.write(&[WriteRun { start, buf, tag: Tag(7) }], WriteFlags::default())
}

fn read(mut c: &Client, start: u64, len: usize) -> Result<PageBuf, DevError> {
    let mut buf = PageBuf::zeroed(len);
    c.read(&mut [ReadRun { start, buf: &mut buf }], Tag(3))?;
    Ok(buf)
}

#[test]
fn batches_of_every_size_come_back_equal() {
    let s = serve(mem(64 << 20));
    let client = s.client();
    let bufs: Vec<PageBuf> =
        [512, 4096, 100 * 512, 1 << 20, 5 << 20].iter().map(|n| pattern(*n, 9)).collect();
    let mut runs = Vec::new();
    let mut at = 0;
    for (i, buf) in bufs.iter().cycle().take(20).enumerate() {
        runs.push(WriteRun { start: at, buf, tag: Tag(i as u32) });
        // Some adjacent to the one before, some not.
        at += buf.len() as u64 + if i % 3 == 0 { 4096 } else { 0 };
    }
    (&mut &client).write(&runs, WriteFlags::default()).unwrap();
    let mut back: Vec<PageBuf> = runs.iter().map(|r| PageBuf::zeroed(r.buf.len())).collect();
    let mut reads: Vec<ReadRun<'_>> =
        runs.iter().zip(&mut back).map(|(w, b)| ReadRun { start: w.start, buf: b }).collect();
    (&mut &client).read(&mut reads, Tag(0)).unwrap();
    for (w, b) in runs.iter().zip(&back) {
        assert!(w.buf == &**b);
    }
    client.close().unwrap();
    s.server.stop().unwrap();
}

#[test]
fn more_requests_than_credit_and_many_threads_on_one_session() {
    let limits = CoreLimits { in_flight_max: 4, ..CoreLimits::default() };
    let s = serve_with(mem(64 << 20), limits);
    let client = s.client();
    std::thread::scope(|scope| {
        for t in 0..6u64 {
            let client = &client;
            scope.spawn(move || {
                let buf = pattern(4096, t as u8);
                let base = t << 22;
                for round in 0..20 {
                    let start = |i: u64| base + i * 8192;
                    let runs: Vec<WriteRun<'_>> = (0..40)
                        .map(|i| WriteRun { start: start(i), buf: &buf, tag: Tag(t as u32) })
                        .collect();
                    (&mut &*client).write(&runs, WriteFlags::default()).unwrap();
                    if round % 5 == 0 {
                        (&mut &*client).sync(Tag(t as u32)).unwrap();
                    }
                    let mut back = vec![PageBuf::zeroed(4096); 40];
                    let mut reads: Vec<ReadRun<'_>> = (0..40)
                        .zip(&mut back)
                        .map(|(i, b)| ReadRun { start: start(i), buf: b })
                        .collect();
                    (&mut &*client).read(&mut reads, Tag(0)).unwrap();
                    assert!(back.iter().all(|b| *b == buf));
                }
            });
        }
    });
    let stats = client.stats().unwrap();
    assert_eq!(stats.total.writes, 6 * 20 * 40);
    assert_eq!(stats.total.write_sizes, vec![(12, 6 * 20 * 40)]);
    assert_eq!(stats.tags.iter().find(|t| t.tag == 3).map(|t| t.counters.writes), Some(800));
    assert_eq!(stats.total.syncs, 24);
    let c = &stats.total;
    assert_eq!(c.flushes + c.riders + c.skipped, 24);
}

#[test]
fn sync_names_what_is_durable() {
    let s = serve(mem(1 << 20));
    let (a, b) = (s.client(), s.client());
    let first = write(&a, 0, &pattern(4096, 1)).unwrap();
    let second = write(&b, 4096, &pattern(4096, 2)).unwrap();
    assert!(second > first);
    assert!((&a).seqs().durable < first);
    // A sync of one session covers what another wrote.
    assert_eq!((&mut &a).sync(Tag(1)).unwrap(), second);
    assert_eq!((&mut &b).sync(Tag(1)).unwrap(), second);
    assert_eq!(b.stats().unwrap().total.skipped, 1);
    assert_eq!(read(&b, 0, 4096).unwrap(), pattern(4096, 1));
}

#[test]
fn zeroes_and_discards_have_sequences() {
    let s = serve(mem(1 << 20));
    let client = s.client();
    let first = write(&client, 0, &pattern(65536, 1)).unwrap();
    let zeroed = (&mut &client).write_zeroes(Run::new(4096, 8192), Tag(0)).unwrap();
    let gone = (&mut &client).discard(Run::new(32768, 4096), Tag(0)).unwrap();
    assert!(first < zeroed && zeroed < gone);
    let back = read(&client, 0, 65536).unwrap();
    assert!(back[4096..12288].iter().all(|b| *b == 0));
    assert_eq!(back[..4096], pattern(65536, 1)[..4096]);
}

#[test]
fn a_store_that_cannot_flush_says_so_every_time() {
    let s = serve(fault("unflushable", 1 << 20));
    let client = s.client();
    assert_eq!((&client).caps().cache, CacheClass::Unflushable);
    write(&client, 0, &pattern(4096, 1)).unwrap();
    for _ in 0..3 {
        assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Unsupported));
    }
    assert_eq!((&client).seqs().durable, Seq(0));
    assert_eq!(client.stats().unwrap().total.flushes, 0);
}

#[test]
fn a_failed_flush_fails_everybody_until_all_is_rewritten() {
    let s = serve(fault("flush=1", 1 << 20));
    let (a, b) = (s.client(), s.client());
    write(&a, 0, &pattern(4096, 1)).unwrap();
    write(&b, 8192, &pattern(4096, 2)).unwrap();
    let durable = (&a).seqs().durable;
    assert_eq!((&mut &a).sync(Tag(0)), Err(DevError::Io));
    // The device's next flush would succeed; the data of the first is gone all the same.
    assert_eq!((&mut &b).sync(Tag(0)), Err(DevError::Io));
    let fua = WriteFlags { fua: true, ..WriteFlags::default() };
    let run = WriteRun { start: 0, buf: &pattern(4096, 1), tag: Tag(0) };
    assert_eq!((&mut &a).write(&[run], fua), Err(DevError::Io));
    write(&a, 0, &pattern(4096, 3)).unwrap();
    assert_eq!((&mut &a).sync(Tag(0)), Err(DevError::Io));
    assert_eq!(a.current_info().unwrap().durable, durable.0);
    assert!(a.current_info().unwrap().faulted);
    let last = write(&a, 8192, &pattern(4096, 4)).unwrap();
    assert_eq!((&mut &b).sync(Tag(0)), Ok(last));
    s.server.stop().unwrap();
}

#[test]
fn an_unrepaired_failed_flush_is_the_servers_exit_status() {
    let s = serve(fault("flush=1", 1 << 20));
    let client = s.client();
    write(&client, 0, &pattern(4096, 1)).unwrap();
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Io));
    drop(client);
    assert!(matches!(s.server.stop(), Err(StoreError::Device { cause: DevError::Io, .. })));
}

#[test]
fn the_last_flush_covers_what_nobody_synced() {
    let s = serve(fault("flush=all", 1 << 20));
    let client = s.client();
    write(&client, 0, &pattern(4096, 1)).unwrap();
    drop(client);
    assert!(matches!(s.server.stop(), Err(StoreError::Device { cause: DevError::Io, .. })));
}

#[test]
fn errors_of_reads_and_writes_are_told_and_told_once() {
    let s = serve(fault("write=2,read@64K+4K", 1 << 20));
    let client = s.client();
    let buf = pattern(4096, 1);
    write(&client, 0, &buf).unwrap();
    assert_eq!(write(&client, 4096, &buf), Err(DevError::Io));
    write(&client, 4096, &buf).unwrap();
    // The failed write was reported to its caller and repeated: the sync need not fail for it.
    (&mut &client).sync(Tag(0)).unwrap();
    assert_eq!(read(&client, 65536, 4096), Err(DevError::Io));
    assert_eq!(read(&client, 0, 4096).unwrap(), buf);
    assert_eq!(read(&client, 0, 1 << 21), Err(DevError::OutOfRange));
    assert_eq!(write(&client, 100, &buf), Err(DevError::OutOfRange));
}

#[test]
fn a_backend_that_is_gone_ends_the_session() {
    let s = serve(fault("gone=2", 1 << 20));
    let client = s.client();
    let buf = pattern(4096, 1);
    write(&client, 0, &buf).unwrap();
    assert_eq!(write(&client, 0, &buf), Err(DevError::Gone));
    assert_eq!(read(&client, 0, 4096), Err(DevError::Gone));
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Gone));
}

/// A client that speaks the wire by hand.
struct Raw {
    socket: UnixStream,
    receiver: Receiver<Reply>,
}

impl Raw {
    fn open(s: &Setup) -> Self {
        Self::over(UnixStream::connect(&s.socket).unwrap())
    }

    fn over(socket: UnixStream) -> Self {
        let mut raw = Self { socket, receiver: Receiver::new(DIALECT) };
        let hello = Hello { version: 1, offered: 0, required: 0, client: "raw".into() };
        let mut gather = Gather::new(DIALECT);
        let request = Request { op: op::HELLO, cookie: 1, ..Request::default() };
        gather.message_with_body(&request, &encode_body(&hello).unwrap());
        raw.send(&gather);
        assert_eq!(raw.reply().status, 0);
        raw
    }

    fn send(&self, gather: &Gather<'_>) {
        send(&self.socket, gather).unwrap();
    }

    fn reply(&mut self) -> Reply {
        let Some(Event::Header(reply)) = self.receiver.event(&self.socket).unwrap() else {
            panic!("no reply");
        };
        if reply.inline_len > 0
            && let Some(Event::Payload { .. }) = self.receiver.event(&self.socket).unwrap()
        {
            self.receiver.skip_payload(&self.socket).unwrap();
        }
        reply
    }

    fn is_closed(&mut self) -> bool {
        // A server that closes with unread bytes resets the connection.
        !matches!(self.receiver.event(&self.socket), Ok(Some(_)))
    }
}

fn put_write(gather: &mut Gather<'_>, cookie: u64, offset: u64, buf: &[u8]) {
    let length = buf.len() as u64;
    let request = Request { op: op::WRITE, cookie, offset, length, ..Request::default() };
    gather.message_with_body(&request, buf);
}

fn put_sync(gather: &mut Gather<'_>, cookie: u64, aux: u32) {
    let flags = flags::DRAIN;
    gather.message(&Request { op: op::SYNC, cookie, flags, aux, ..Request::default() });
}

#[test]
fn writes_and_their_sync_in_one_send() {
    let s = serve(fault("write=5", 1 << 20));
    let mut raw = Raw::open(&s);
    let buf = [1u8; 512];
    let mut gather = Gather::new(DIALECT);
    for i in 0..3u64 {
        put_write(&mut gather, 10 + i, i * 512, &buf);
    }
    put_sync(&mut gather, 20, 0);
    raw.send(&gather);
    let replies: Vec<Reply> = (0..4).map(|_| raw.reply()).collect();
    let newest = replies.iter().filter(|r| r.op == op::WRITE).map(|r| r.value).max().unwrap();
    let sync = replies.iter().find(|r| r.op == op::SYNC).unwrap();
    assert_eq!((sync.status, sync.value, newest), (0, 4, 4));

    // The second write of these fails: so does the SYNC behind them, once.
    let mut gather = Gather::new(DIALECT);
    for i in 0..3u64 {
        put_write(&mut gather, 30 + i, i * 512, &buf);
    }
    put_sync(&mut gather, 40, 0);
    put_sync(&mut gather, 41, 0);
    raw.send(&gather);
    let replies: Vec<Reply> = (0..5).map(|_| raw.reply()).collect();
    let status = |cookie| replies.iter().find(|r| r.cookie == cookie).unwrap().status;
    assert_eq!([30, 31, 32, 40, 41].map(status), [0, 5, 0, 5, 0]);
}

#[test]
fn unknown_operations_are_answered_and_unknown_features_refused() {
    let s = serve(mem(1 << 20));
    let mut raw = Raw::open(&s);
    for op in [op::ATTACH, op::DETACH, 63, 200, 0x7fff] {
        let mut gather = Gather::new(DIALECT);
        let flags = 0x0fff;
        let request = Request { op, cookie: 5, flags, ..Request::default() };
        gather.message_with_body(&request, &[7u8; 9999]);
        raw.send(&gather);
        let reply = raw.reply();
        assert_eq!((reply.status, reply.cookie), (95, 5));
    }
    let socket = UnixStream::connect(&s.socket).unwrap();
    let mut raw = Raw { socket, receiver: Receiver::new(DIALECT) };
    for (version, required) in [(1, 1u64 << 63), (2, 0)] {
        let hello = Hello { version, offered: 0, required, client: String::new() };
        let mut gather = Gather::new(DIALECT);
        let request = Request { op: op::HELLO, cookie: 1, ..Request::default() };
        gather.message_with_body(&request, &encode_body(&hello).unwrap());
        gather.message(&Request { op: op::INFO, cookie: 2, ..Request::default() });
        raw.send(&gather);
        let (hello, info) = (raw.reply(), raw.reply());
        let known = feature::EXCLUSIVE | feature::READ_ONLY;
        assert_eq!((hello.status, hello.value, info.status), (71, known, 71));
    }
    assert_eq!(Version::CURRENT as u16, 1);
}

#[test]
fn garbage_closes_its_connection_and_no_other() {
    let s = serve(mem(1 << 20));
    let client = s.client();
    let mut good = Request { op: op::WRITE, cookie: 1, length: 512, ..Request::default() };
    good.inline_len = u32::MAX;
    let mut oversize = Vec::new();
    good.put(DIALECT.magic, &mut oversize);
    let mut fds = Vec::new();
    Request { op: op::INFO, flags: 1 << 12, ..Request::default() }.put(DIALECT.magic, &mut fds);
    let mut bit = Vec::new();
    Request { op: op::INFO, flags: 1 << 9, ..Request::default() }.put(DIALECT.magic, &mut bit);
    let mut inline = Vec::new();
    Request { op: op::READ, inline_len: 1, ..Request::default() }.put(DIALECT.magic, &mut inline);
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for bytes in [oversize, fds, bit, inline, http, vec![0; 4], vec![0xff; 100_000]] {
        let mut raw = Raw::open(&s);
        let _the_server_may_close_first = raw.socket.write_all(&bytes);
        assert!(raw.is_closed());
        // And before HELLO.
        let mut socket = UnixStream::connect(&s.socket).unwrap();
        let _the_server_may_close_first = socket.write_all(&bytes);
        assert!(matches!(socket.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    write(&client, 0, &pattern(4096, 1)).unwrap();
    (&mut &client).sync(Tag(0)).unwrap();
}

#[test]
fn a_client_that_dies_inside_a_request_leaves_nothing_behind() {
    let s = serve(mem(1 << 20));
    let other = s.client();
    let raw = Raw::open(&s);
    let mut gather = Gather::new(DIALECT);
    put_write(&mut gather, 1, 0, &pattern(65536, 1));
    let bytes = gather.to_vec();
    (&raw.socket).write_all(&bytes[..40_000]).unwrap();
    drop(raw);
    assert!(read(&other, 0, 65536).unwrap().iter().all(|b| *b == 0));
    write(&other, 0, &pattern(4096, 1)).unwrap();
    s.server.stop().unwrap();
}

#[test]
fn a_session_beyond_the_limit_is_refused_and_room_is_given_back() {
    let limits = CoreLimits { sessions_max: 2, ..CoreLimits::default() };
    let s = serve_with(mem(1 << 20), limits);
    let mut a = Raw::open(&s);
    let _b = s.client();
    assert!(matches!(Client::connect(&s.socket, "c"), Err(StoreError::Peer { .. })));
    let mut bye = Gather::new(DIALECT);
    bye.message(&Request { op: op::BYE, cookie: 9, ..Request::default() });
    a.send(&bye);
    assert_eq!(a.reply().cookie, 9);
    // The server forgets the session before it closes the connection.
    assert!(a.is_closed());
    write(&s.client(), 0, &pattern(4096, 1)).unwrap();
}

#[test]
fn the_socket_is_private_and_a_stale_one_is_replaced() {
    let s = serve(mem(1 << 20));
    let mode = std::fs::metadata(&s.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Server::start(Arc::new(mem(4096)), &s.socket, ServeOptions::default());
    assert!(matches!(again, Err(StoreError::SocketBusy { .. })));
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let server = Server::start(Arc::new(mem(4096)), &stale, ServeOptions::default()).unwrap();
    Client::connect(&stale, "c").unwrap();
    server.stop().unwrap();
    assert!(!stale.exists());
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let refused = Server::start(Arc::new(mem(4096)), &file, ServeOptions::default());
    assert!(matches!(refused, Err(StoreError::File { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
}

#[test]
fn a_file_holds_what_was_written_and_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let create = FileOptions { create_size: Some(8 << 20), ..FileOptions::default() };
    let s = serve(FileBackend::open(&path, create).unwrap());
    let second = FileBackend::open(&path, FileOptions::default());
    assert!(matches!(second, Err(StoreError::Busy { .. })));
    let reader = FileOptions { read_only: true, ..FileOptions::default() };
    let ro = serve(FileBackend::open(&path, reader).unwrap());
    let client = s.client();
    let buf = pattern(3 << 20, 5);
    write(&client, 4096, &buf).unwrap();
    (&mut &client).sync(Tag(0)).unwrap();
    let fua = WriteFlags { fua: true, ..WriteFlags::default() };
    let run = WriteRun { start: 4 << 20, buf: &buf[..8192], tag: Tag(0) };
    let seq = (&mut &client).write(&[run], fua).unwrap();
    assert_eq!(client.current_info().unwrap().durable, seq.0);
    assert_eq!(read(&ro.client(), 4096, 3 << 20).unwrap(), buf);
    assert_eq!(write(&ro.client(), 0, &buf), Err(DevError::ReadOnly));
    (&mut &client).write_zeroes(Run::new(4096, 1 << 20), Tag(0)).unwrap();
    assert!(read(&client, 4096, 1 << 20).unwrap().iter().all(|b| *b == 0));
    drop(client);
    s.server.stop().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[(4 << 20)..(4 << 20) + 8192], buf[..8192]);
    assert_eq!(bytes.len(), 8 << 20);
    FileBackend::open(&path, FileOptions::default()).unwrap();
}

/// Memory whose flush ends only when the test says so.
struct Gate {
    inner: MemBackend,
    started: std::sync::mpsc::Sender<()>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

#[async_trait::async_trait]
impl Backend for Gate {
    fn caps(&self) -> seawall_blockdev::Caps {
        self.inner.caps()
    }

    async fn submit(&self, batch: &mut [seawall_store::backend::Submission<'_>]) {
        self.inner.submit(batch).await;
    }

    async fn flush(&self) -> Result<(), DevError> {
        self.started.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        Ok(())
    }

    fn flush_is_instant(&self) -> bool {
        false
    }
}

#[test]
fn syncs_that_come_during_a_flush_share_the_next_and_requests_go_on() {
    let (started, flush_started) = std::sync::mpsc::channel();
    let (release, go_on) = std::sync::mpsc::channel();
    let s = serve(Gate { inner: mem(1 << 20), started, go_on: std::sync::Mutex::new(go_on) });
    let mut sessions: Vec<Raw> = (0..4).map(|_| Raw::open(&s)).collect();
    let buf = [1u8; 512];
    for (i, raw) in sessions.iter_mut().enumerate() {
        let mut gather = Gather::new(DIALECT);
        put_write(&mut gather, 1, i as u64 * 512, &buf);
        put_sync(&mut gather, 2, 0);
        gather.message(&Request { op: op::READ, cookie: 3, length: 512, ..Request::default() });
        raw.send(&gather);
        // Write and read are answered while the flush runs; the read came after the SYNC, so that
        // was dequeued.
        let cookies = [raw.reply().cookie, raw.reply().cookie];
        assert!(cookies.contains(&1) && cookies.contains(&3));
        if i == 0 {
            flush_started.recv().unwrap();
        }
    }
    release.send(()).unwrap();
    let first = sessions[0].reply();
    assert_eq!((first.cookie, first.status, first.value), (2, 0, 2));
    flush_started.recv().unwrap();
    release.send(()).unwrap();
    for raw in &mut sessions[1..] {
        let reply = raw.reply();
        assert_eq!((reply.cookie, reply.status, reply.value), (2, 0, 5));
    }
    let total = s.server.stats().total;
    assert_eq!((total.syncs, total.flushes, total.riders, total.skipped), (4, 2, 2, 0));
}

#[test]
fn a_client_that_reads_no_replies_stops_only_itself() {
    let s = serve(mem(4 << 20));
    let lazy = Raw::open(&s);
    lazy.socket.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    for cookie in 0..64 {
        let read = Request { op: op::READ, cookie, length: 1 << 20, ..Request::default() };
        read.put(DIALECT.magic, &mut bytes);
    }
    // Until the server takes no more: it waits for room to send and does not read on.
    let mut sent = 0;
    while let Ok(n) = (&lazy.socket).write(&bytes) {
        sent += n;
        assert!(sent < 64 << 20);
    }
    let other = s.client();
    write(&other, 0, &pattern(1 << 20, 1)).unwrap();
    (&mut &other).sync(Tag(0)).unwrap();
    drop(lazy);
    s.server.stop().unwrap();
}

#[test]
fn a_server_below_another_keeps_every_promise() {
    let lower = serve(fault("flush=3", 8 << 20));
    let name = |rest: &str| format!("{rest}unix:{}", lower.socket.display());
    let options = OpenOptions { client_name: "upper".into(), ..OpenOptions::default() };
    let open_lower = |rest: &str| seawall_store::open_backend(&name(rest), &options).unwrap();

    // A server that serves a server, and two sessions on it.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("upper");
    let backend = Arc::from(open_lower("fault:write=40:"));
    let upper = Server::start(backend, &socket, ServeOptions::default()).unwrap();
    let client = Client::connect(&socket, "c").unwrap();
    let bufs: Vec<PageBuf> = (0..32).map(|i| pattern(4096, i)).collect();
    let runs: Vec<WriteRun<'_>> = bufs
        .iter()
        .zip(0..)
        .map(|(buf, i)| WriteRun { start: i * 8192, buf, tag: Tag(1) })
        .collect();
    (&mut &client).write(&runs, WriteFlags::default()).unwrap();
    (&mut &client).sync(Tag(0)).unwrap();
    assert_eq!(read(&client, 31 * 8192, 4096).unwrap(), bufs[31]);
    assert_eq!(lower.server.stats().total.flushes, 1);
    (&mut &client).write_zeroes(Run::new(0, 4096), Tag(0)).unwrap();
    assert!(read(&client, 0, 4096).unwrap().iter().all(|b| *b == 0));
    // The 40th write fails above and never reaches the lower server.
    let failed = (0..8u64).filter(|i| write(&client, i * 4096, &bufs[0]).is_err()).count();
    assert_eq!((failed, lower.server.stats().total.writes), (1, 32 + 7));

    // The lower server's failed flush is sticky in both until all is written again.
    (&mut &client).sync(Tag(0)).unwrap();
    write(&client, 0, &bufs[1]).unwrap();
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Io));
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Io));
    assert!(client.current_info().unwrap().faulted);
    write(&client, 0, &bufs[1]).unwrap();
    (&mut &client).sync(Tag(0)).unwrap();
    drop(client);
    upper.stop().unwrap();

    // In this process: caps come from below, and a server that is gone is told as such.
    let mut chain = seawall_store::open(&name("sim:qemu-ssd:fault:read=9:"), &options).unwrap();
    let caps = chain.caps();
    assert_eq!((caps.size, caps.fua, caps.cache), (8 << 20, false, CacheClass::Flushable));
    lower.server.stop().unwrap();
    let run = WriteRun { start: 0, buf: &bufs[0], tag: Tag(0) };
    assert_eq!(chain.write(&[run], WriteFlags::default()), Err(DevError::Gone));
    assert_eq!(chain.sync(Tag(0)), Ok(chain.seqs().acked));
}

#[test]
fn a_minted_session_sees_its_range_and_does_what_it_may() {
    let s = serve(mem(1 << 20));
    let whole = s.client();
    write(&whole, 0, &pattern(1 << 20, 1)).unwrap();
    let mint = |c: &Client, start, len, rights| c.open_range(Run::new(start, len), rights);
    let rw = rights::READ | rights::WRITE | rights::SYNC;
    let socket = mint(&whole, 64 << 10, 128 << 10, rw).unwrap();
    let part = Client::over(socket, "part", "part").unwrap();
    assert_eq!(((&part).caps().size, (&part).caps().read_only), (128 << 10, false));
    // Offsets are its own; what it writes is where the whole store has it.
    assert_eq!(read(&part, 0, 4096).unwrap()[..], pattern(1 << 20, 1)[64 << 10..][..4096]);
    let seq = write(&part, 4096, &pattern(4096, 9)).unwrap();
    assert_eq!((&mut &part).sync(Tag(0)).unwrap(), seq);
    assert_eq!(read(&whole, 68 << 10, 4096).unwrap(), pattern(4096, 9));
    assert_eq!((&mut &part).discard(Run::new(0, 4096), Tag(0)), Err(DevError::Denied));
    assert_eq!(part.stats(), Err(DevError::Denied));
    assert_eq!(part.accept_loss(), Err(DevError::Denied));
    for (start, len) in [(0, (128 << 10) + 512), (128 << 10, 512), (u64::MAX - 511, 512), (1, 512)]
    {
        assert_eq!(mint(&part, start, len, rights::READ).err(), Some(DevError::OutOfRange));
    }
    // Beyond the window nothing exists, whatever the request says.
    let mut gather = Gather::new(DIALECT);
    for offset in [128 << 10, u64::MAX - 4095, u64::MAX - (64 << 10) + 1] {
        let length = 4096;
        gather.message(&Request { op: op::READ, cookie: 5, offset, length, ..Request::default() });
    }
    let socket = mint(&part, 0, 128 << 10, rights::READ).unwrap();
    let mut raw = Raw::over(socket);
    raw.send(&gather);
    assert_eq!([raw.reply().status, raw.reply().status, raw.reply().status], [22; 3]);

    // Rights only shrink.
    let ro = mint(&part, 4096, 8192, rights::READ).unwrap();
    let ro = Client::over(ro, "ro", "ro").unwrap();
    assert!((&ro).caps().read_only);
    assert_eq!(read(&ro, 0, 4096).unwrap(), pattern(4096, 9));
    assert_eq!(write(&ro, 0, &pattern(4096, 1)), Err(DevError::Denied));
    assert_eq!((&mut &ro).sync(Tag(0)), Err(DevError::Denied));
    let fua = WriteFlags { fua: true, ..WriteFlags::default() };
    let buf = pattern(4096, 1);
    let no_sync = mint(&whole, 0, 4096, rights::WRITE).unwrap();
    let no_sync = Client::over(no_sync, "w", "w").unwrap();
    let run = WriteRun { start: 0, buf: &buf, tag: Tag(0) };
    assert_eq!((&mut &no_sync).write(&[run], fua), Err(DevError::Denied));
    for more in [rights::WRITE, rights::ADMIN, 1 << 31] {
        assert_eq!(mint(&ro, 0, 4096, more).err(), Some(DevError::Denied));
    }
    // A capability outlives the one who gave it, and ends with the server.
    drop((whole, part));
    assert_eq!(read(&ro, 0, 4096).unwrap(), pattern(4096, 9));
    s.server.stop().unwrap();
    assert_eq!(read(&ro, 0, 4096).err(), Some(DevError::Gone));
}

#[test]
fn minted_sessions_count_and_are_given_back() {
    let limits = CoreLimits { sessions_max: 3, ..CoreLimits::default() };
    let s = serve_with(mem(1 << 20), limits);
    let client = s.client();
    for _ in 0..50 {
        let run = Run::new(0, 4096);
        let a = client.open_range(run, rights::READ).unwrap();
        let b = client.open_range(run, rights::READ).unwrap();
        assert_eq!(client.open_range(run, rights::READ).err(), Some(DevError::NoMemory));
        for socket in [a, b] {
            let mut raw = Raw::over(socket);
            let mut bye = Gather::new(DIALECT);
            bye.message(&Request { op: op::BYE, cookie: 9, ..Request::default() });
            raw.send(&bye);
            assert_eq!(raw.reply().cookie, 9);
            assert!(raw.is_closed());
        }
    }
    assert_eq!(client.stats().unwrap().sessions.len(), 1);
}

#[test]
fn an_accepted_loss_is_named_and_ends_the_fault() {
    let s = serve(fault("flush=1", 1 << 20));
    let client = s.client();
    assert_eq!(client.accept_loss().unwrap().bytes, 0);
    write(&client, 0, &pattern(4096, 1)).unwrap();
    let last = write(&client, 65536, &pattern(8192, 1)).unwrap();
    let durable = (&client).seqs().durable;
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Io));
    // Without the flag it is refused, with it told.
    let mut raw = Raw::open(&s);
    let mut gather = Gather::new(DIALECT);
    gather.message(&Request { op: op::CLEAR_FAULT, cookie: 3, ..Request::default() });
    raw.send(&gather);
    assert_eq!(raw.reply().status, 22);
    assert_eq!((&mut &client).sync(Tag(0)), Err(DevError::Io));
    let lost = client.accept_loss().unwrap();
    assert_eq!((lost.after, lost.through, lost.bytes), (durable.0, last.0, 12288));
    assert_eq!(lost.runs, [(0, 4096), (65536, 8192)]);
    assert!(!client.current_info().unwrap().faulted);
    assert_eq!((&mut &client).sync(Tag(0)), Ok(last));
    s.server.stop().unwrap();
}

fn put_cancel(gather: &mut Gather<'_>, cookie: u64, target: u64) {
    gather.message(&Request { op: op::CANCEL, cookie, offset: target, ..Request::default() });
}

#[test]
fn cancel_drops_what_is_queued_and_answers_after_its_target() {
    let (started, flush_started) = std::sync::mpsc::channel();
    let (release, go_on) = std::sync::mpsc::channel();
    let s = serve(Gate { inner: mem(1 << 20), started, go_on: std::sync::Mutex::new(go_on) });
    let mut raw = Raw::open(&s);
    let buf = [1u8; 512];
    // A write that waits in the same batch, and the SYNC behind it, which must not say Ok.
    let mut gather = Gather::new(DIALECT);
    put_write(&mut gather, 1, 0, &buf);
    put_write(&mut gather, 2, 512, &buf);
    put_sync(&mut gather, 3, 0);
    put_cancel(&mut gather, 4, 2);
    put_cancel(&mut gather, 5, 99);
    raw.send(&gather);
    let replies: Vec<Reply> = (0..5).map(|_| raw.reply()).collect();
    let place = |cookie| replies.iter().position(|r| r.cookie == cookie).unwrap();
    let of = |cookie| (replies[place(cookie)].status, replies[place(cookie)].value);
    assert_eq!((of(1).0, of(2).0, of(3).0), (0, 125, 125));
    assert_eq!((of(4), of(5)), ((0, 1), (0, 0)));
    assert!(place(2) < place(4));
    let mut gather = Gather::new(DIALECT);
    gather.message(&Request { op: op::READ, cookie: 9, length: 1024, ..Request::default() });
    raw.send(&gather);
    assert_eq!(raw.reply().value, 1024);

    // A SYNC that a flush was started for goes on; one that waits for the next does not.
    let mut gather = Gather::new(DIALECT);
    put_sync(&mut gather, 10, 1);
    raw.send(&gather);
    flush_started.recv().unwrap();
    let mut gather = Gather::new(DIALECT);
    put_sync(&mut gather, 11, 1);
    put_cancel(&mut gather, 12, 11);
    put_cancel(&mut gather, 13, 10);
    raw.send(&gather);
    let (a, b) = (raw.reply(), raw.reply());
    assert_eq!((a.cookie, a.status), (11, 125));
    assert_eq!((b.cookie, b.status, b.value), (12, 0, 1));
    release.send(()).unwrap();
    let (a, b) = (raw.reply(), raw.reply());
    assert_eq!((a.cookie, a.status), (10, 0));
    assert_eq!((b.cookie, b.status, b.value), (13, 0, 0));
    // Nothing is left in flight.
    assert_eq!(s.server.stats().sessions[0].in_flight, 0);
    assert_eq!(s.server.stats().total.flushes, 1);
}

/// A device that takes its time answers each request of a batch by itself: data, counters and syncs
/// are those of any other store, with several sessions on it.
#[test]
fn a_device_model_in_real_time_answers_request_by_request() {
    let profile = Profile { write_command: 1_000_000, slots: 2, ..QEMU_SSD };
    let s = serve(SimBackend::new(profile, Box::new(mem(8 << 20)), Clock::wall()));
    let from = std::time::Instant::now();
    std::thread::scope(|scope| {
        for n in 0..3u64 {
            let s = &s;
            scope.spawn(move || {
                let client = s.client();
                let at = |i: u8| (n * 64 + u64::from(i) * 2) * 4096;
                let bufs: Vec<PageBuf> = (0..10u8).map(|i| pattern(4096, i)).collect();
                let runs = (0..).zip(&bufs).map(|(i, buf)| WriteRun {
                    start: at(i),
                    buf: buf.as_ref(),
                    tag: Tag(9),
                });
                let runs: Vec<WriteRun<'_>> = runs.collect();
                (&mut &client).write(&runs, WriteFlags::default()).unwrap();
                for (i, buf) in (0..).zip(&bufs) {
                    assert_eq!(&read(&client, at(i), 4096).unwrap()[..], &buf[..]);
                }
                (&mut &client).sync(Tag(9)).unwrap();
            });
        }
    });
    // 30 writes of 1 ms and 30 reads of 0.25 ms on one serial medium.
    assert!(from.elapsed() >= std::time::Duration::from_micros(37_500));
    let total = s.server.stats().total;
    assert_eq!((total.writes, total.reads, total.syncs, total.errors), (30, 30, 3, 0));
    s.server.stop().unwrap();
}
