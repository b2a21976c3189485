//! The bytes of every message of the store protocol, as committed fixtures.
//!
//! A difference means that peers of the same version no longer understand each other. Do not edit a
//! fixture: add a version to `storeproto::Version` and fixtures of its own. A missing fixture is
//! written by running the test with `SEAWALL_WRITE_GOLDEN=1`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_ipc::storeproto::{
    CacheWire, Counters, DIALECT, Hello, HelloReply, InUse, Info, Lost, OpenRange, SessionStats,
    Stats, TagStats, Version, op, rights,
};
use seawall_ipc::{Gather, Reply, Request, Status, decode_body, encode_body, flags};
use std::fmt::Write;
use std::path::Path;

fn counters() -> Counters {
    Counters {
        reads: 1,
        read_bytes: 4096,
        writes: 3,
        write_bytes: 12800,
        zeroes: 1,
        zero_bytes: 512,
        syncs: 4,
        flushes: 1,
        riders: 1,
        skipped: 2,
        errors: 5,
        read_sizes: vec![(12, 1)],
        write_sizes: vec![(9, 1), (12, 2)],
    }
}

fn hello() -> Hello {
    Hello { version: 1, offered: 0x11, required: 0x10, client: "ext2srv".into() }
}

fn hello_reply() -> HelloReply {
    HelloReply {
        version: 1,
        features: 0x10,
        boot_id: core::array::from_fn(|i| i as u8),
        session_id: 7,
        generation: 2,
        in_flight_max: 128,
        payload_max: 1 << 20,
    }
}

fn info() -> Info {
    Info {
        name: "file:disk".into(),
        size: 64 << 20,
        logical: 512,
        physical: 4096,
        atomic_write: 4096,
        max_io: 1 << 20,
        cache: CacheWire::FLUSHABLE,
        fua: true,
        order: false,
        acked_survives_server_death: true,
        read_only: false,
        acked: 9,
        durable: 8,
        faulted: false,
    }
}

fn stats() -> Stats {
    Stats {
        total: counters(),
        flush_errors: 1,
        tags: vec![TagStats { tag: 5, counters: Counters::default() }],
        sessions: vec![SessionStats {
            session_id: 7,
            client: "c".into(),
            in_flight: 2,
            counters: Counters::default(),
        }],
    }
}

fn open_range() -> OpenRange {
    OpenRange { offset: 1 << 20, length: 4096, rights: rights::READ | rights::SYNC, generation: 0 }
}

fn in_use() -> InUse {
    InUse { session_id: 7, client: "ext2srv".into(), exclusive: true, more: 0 }
}

fn lost() -> Lost {
    Lost { after: 7, through: 9, bytes: 4608, runs: vec![(0, 512), (8192, 4096)], more: false }
}

/// Name and bytes of every message of version 1.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let mut out: Vec<(&'static str, Vec<u8>)> = Vec::new();
    let full = Request {
        cookie: 0x0102_0304_0506_0708,
        offset: 0x1000,
        length: 8,
        tag: 0xaabb,
        trace: 0x77,
        ..Request::default()
    };
    let mut request = |name, request: Request, inline: &[u8]| {
        let mut gather = Gather::new(DIALECT);
        gather.message_with_body(&request, inline);
        out.push((name, gather.to_vec()));
    };
    let plain = |op| Request { op, cookie: 1, ..Request::default() };
    request("hello", plain(op::HELLO), &encode_body(&hello()).unwrap());
    request("info", plain(op::INFO), &[]);
    request("read", Request { op: op::READ, ..full }, &[]);
    let fua = flags::FUA | flags::PRE_BARRIER;
    request("write", Request { op: op::WRITE, flags: fua, ..full }, b"payload!");
    request("write-zeroes", Request { op: op::WRITE_ZEROES, flags: flags::NO_HOLE, ..full }, &[]);
    request("discard", Request { op: op::DISCARD, flags: flags::FAST, ..full }, &[]);
    let sync = Request { aux: 3, ..plain(op::SYNC) };
    request("sync", Request { flags: flags::DRAIN, ..sync }, &[]);
    request("stats", plain(op::STATS), &[]);
    request("bye", plain(op::BYE), &[]);
    request("open-range", plain(op::OPEN_RANGE), &encode_body(&open_range()).unwrap());
    request("cancel", Request { offset: 0x0102_0304, ..plain(op::CANCEL) }, &[]);
    request("clear-fault", Request { flags: flags::ACCEPT_LOSS, ..plain(op::CLEAR_FAULT) }, &[]);

    let mut reply = |name, op, status: Status, value, inline: &[u8]| {
        let status = status.0;
        let header = Reply { op, cookie: 1, status, value, ..Reply::default() };
        let mut gather = Gather::new(DIALECT);
        gather.message_with_body(&header, inline);
        out.push((name, gather.to_vec()));
    };
    reply("hello-reply", op::HELLO, Status::OK, 0, &encode_body(&hello_reply()).unwrap());
    reply("hello-refused", op::HELLO, Status::EPROTO, 0x10, &[]);
    reply("info-reply", op::INFO, Status::OK, 0, &encode_body(&info()).unwrap());
    reply("read-reply", op::READ, Status::OK, 8, b"payload!");
    reply("read-failed", op::READ, Status::EIO, 0, &[]);
    reply("write-reply", op::WRITE, Status::OK, 9, &[]);
    reply("write-zeroes-reply", op::WRITE_ZEROES, Status::OK, 10, &[]);
    reply("discard-reply", op::DISCARD, Status::OK, 11, &[]);
    reply("sync-reply", op::SYNC, Status::OK, 11, &[]);
    reply("sync-unsupported", op::SYNC, Status::EOPNOTSUPP, 0, &[]);
    reply("stats-reply", op::STATS, Status::OK, 0, &encode_body(&stats()).unwrap());
    reply("bye-reply", op::BYE, Status::OK, 0, &[]);
    reply("cancel-reply", op::CANCEL, Status::OK, 1, &[]);
    reply("clear-fault-reply", op::CLEAR_FAULT, Status::OK, 4608, &encode_body(&lost()).unwrap());
    let minted = Reply { op: op::OPEN_RANGE, cookie: 1, value: 8, ..Reply::default() };
    let minted = Reply { flags: 1 << flags::FD_SHIFT, ..minted };
    let mut gather = Gather::new(DIALECT);
    gather.message(&minted);
    out.push(("open-range-reply", gather.to_vec()));

    let busy = Reply { op: op::HELLO, cookie: 1, status: Status::EBUSY.0, ..Reply::default() };
    let mut gather = Gather::new(DIALECT);
    gather.message_with_body(&busy, &encode_body(&in_use()).unwrap());
    out.push(("hello-in-use", gather.to_vec()));
    out
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let words: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(text, "{}", words.join(" ")).unwrap();
    }
    text
}

#[test]
fn every_message_of_version_1_has_its_committed_bytes() {
    assert_eq!(Version::CURRENT, Version::V1, "a new version needs fixtures of its own");
    let mut text = String::from("# store protocol, version 1\n");
    for (name, bytes) in messages() {
        write!(text, "\n[{name}] {} bytes\n{}", bytes.len(), hex(&bytes)).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/store-v1.txt");
    if std::env::var_os("SEAWALL_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, committed, "the bytes of a published message changed");
}

#[test]
fn bodies_decode_to_what_was_encoded() {
    assert_eq!(decode_body::<Hello>(&encode_body(&hello()).unwrap()).unwrap(), hello());
    let reply = hello_reply();
    assert_eq!(decode_body::<HelloReply>(&encode_body(&reply).unwrap()).unwrap(), reply);
    assert_eq!(decode_body::<Info>(&encode_body(&info()).unwrap()).unwrap(), info());
    assert_eq!(decode_body::<OpenRange>(&encode_body(&open_range()).unwrap()), Ok(open_range()));
    assert_eq!(decode_body::<InUse>(&encode_body(&in_use()).unwrap()), Ok(in_use()));
    assert_eq!(decode_body::<Lost>(&encode_body(&lost()).unwrap()), Ok(lost()));
    assert_eq!(decode_body::<Stats>(&encode_body(&stats()).unwrap()).unwrap(), stats());
}
