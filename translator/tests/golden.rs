//! The bytes of every message of the filesystem protocol, as committed fixtures.
//!
//! A difference means that peers of the same version no longer understand each other. Do not edit a
//! fixture: add a version to `protocol::Version` and fixtures of its own. A missing fixture is
//! written by running the test with `SEAWALL_WRITE_GOLDEN=1`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_diskfs::{
    Attr, Cred, DirEntry, Ino, Kind, OpenFlags, RenameFlags, SetAttr, SetTime, Site, StatFs,
    Timestamp, XattrHow,
};
use seawall_ipc::{Dialect, Gather, Inline, Reply, Request, decode_body, encode_body};
use seawall_translator::protocol::{
    Allocate, Attach, Control, ControlReply, Counter, Create, DIALECT, Hello, HelloReply, Link,
    Mkdir, Mknod, Node, NodeReply, Open, PolicyInfo, ReaddirReply, Rename, SiteCounters,
    StatsReply, Symlink, Version, Walk, WalkReply, Xattr, XattrReply, feature, flags, op,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{Debug, Write};
use std::path::Path;

struct Out(String);

impl Out {
    fn line(&mut self, name: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(self.0, "{name} {hex}").unwrap();
    }

    fn request(&mut self, name: &str, request: Request, inline: &[u8]) {
        let mut gather = Gather::new(DIALECT);
        gather.message_with_payload(&request, [inline]);
        self.line(name, &gather.to_vec());
    }

    fn reply(&mut self, name: &str, reply: Reply, inline: &[u8]) {
        let mut gather = Gather::new(DIALECT);
        gather.message_with_payload(&reply, [inline]);
        self.line(name, &gather.to_vec());
    }

    fn body<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str, value: &T) {
        let bytes = encode_body(value).unwrap();
        assert_eq!(&decode_body::<T>(&bytes).unwrap(), value, "{name}");
        self.line(name, &bytes);
    }
}

fn attr() -> Attr {
    let at = |secs| Timestamp { secs, nanos: 5 };
    Attr {
        ino: Ino(12),
        generation: 3,
        kind: Kind::CharDev,
        mode: 0o4755,
        nlink: 2,
        uid: 1000,
        gid: 100,
        size: 1 << 33,
        blocks: 24,
        blksize: 4096,
        rdev: (3, 7),
        atime: at(-1),
        mtime: at(2),
        ctime: at(3),
        btime: Some(at(4)),
        flags: 0,
    }
}

fn open_flags() -> OpenFlags {
    OpenFlags { read: true, append: true, dsync: true, ..OpenFlags::default() }
}

fn records(out: &mut Out) {
    let r = |op| Request { op, cookie: 0x0102, aux: 7, ..Request::default() };
    let data = Request { offset: 4096, length: 3, ..r(op::WRITE) };
    out.request("request Write", data, b"abc");
    out.request("request Read", Request { op: op::READ, ..data }, b"");
    out.request("request Seek", Request { offset: 9, flags: flags::HOLE, ..r(op::SEEK) }, b"");
    for op in [op::CLOSE, op::CLUNK, op::GETATTR, op::STATFS, op::READLINK, op::SYNCFS] {
        let request = Request { flags: flags::AFTER, ..r(op) };
        out.request(&format!("request {}", op::name(op)), request, b"");
    }
    let list = Request { offset: 5, length: 65536, flags: flags::ATTRS, ..r(op::READDIR) };
    out.request("request Readdir", list, b"");
    out.request("request Fsync", Request { flags: flags::DATASYNC, ..r(op::FSYNC) }, b"");
    out.request("request Cancel", Request { offset: 0x0101, ..r(op::CANCEL) }, b"");
    let name = encode_body(&b"name".to_vec()).unwrap();
    out.request("request Unlink", Request { flags: flags::DIR, ..r(op::UNLINK) }, &name);
    let reply = Reply { op: op::READ, cookie: 0x0102, value: 3, ..Reply::default() };
    out.reply("reply Read", reply, b"abc");
    out.reply("reply Fsync", Reply { op: op::FSYNC, value: 77, ..reply }, b"");
    out.reply("reply refused", Reply { op: op::OPEN, status: 13, value: 0, ..reply }, b"");
}

fn session_bodies(out: &mut Out) {
    let client = "fs".to_string();
    out.body("Hello", &Hello { version: 1, offered: 0x11, required: 0x10, client });
    out.body(
        "HelloReply",
        &HelloReply {
            version: 1,
            features: 0x10,
            boot_id: core::array::from_fn(|i| i as u8),
            session_id: 7,
            in_flight_max: 128,
            payload_max: 1 << 20,
            fids_max: 4096,
            walk_max: 16,
        },
    );
    let cred = Cred { uid: 1, gid: 2, groups: vec![3, 4] };
    out.body("Attach", &Attach { cred: Some(cred) });
}

fn bodies(out: &mut Out) {
    let name = b"name".to_vec();
    out.body("NodeReply", &NodeReply { attr: attr() });
    let names = vec![b"a".to_vec(), b"..".to_vec()];
    out.body("Walk", &Walk { new_fid: 9, names, open: Some(open_flags()), getattr: true });
    let nodes = vec![Node { ino: 12, generation: 3, kind: Kind::Symlink }];
    out.body("WalkReply", &WalkReply { nodes, attr: Some(attr()) });
    out.body("Open", &Open { flags: open_flags(), policy: Some("strict".into()) });
    let flags =
        OpenFlags { write: true, truncate: true, exclusive: true, sync: true, ..open_flags() };
    let create = Create { new_fid: 9, name: name.clone(), mode: 0o644, flags, policy: None };
    out.body("Create", &create);
    let entry = DirEntry { ino: Ino(12), kind: Some(Kind::Dir), next: 24, name: name.clone() };
    let entries = vec![(entry.clone(), Some(attr())), (entry, None)];
    out.body("ReaddirReply", &ReaddirReply { entries });
    out.body("Mkdir", &Mkdir { new_fid: Some(9), name: name.clone(), mode: 0o755 });
    let kind = Kind::BlockDev;
    out.body("Mknod", &Mknod { name: name.clone(), kind, mode: 0o600, rdev: (8, 1) });
    out.body("Symlink", &Symlink { name: name.clone(), target: b"to".to_vec() });
    out.body("Link", &Link { fid: 9, name: name.clone() });
    let flags = RenameFlags { no_replace: true, exchange: false };
    out.body("Rename", &Rename { name, to_fid: 10, to_name: b"new".to_vec(), flags });
    let (atime, mtime) = (SetTime::Now, SetTime::At(Timestamp { secs: 1, nanos: 2 }));
    let set = SetAttr { mode: Some(0o600), uid: None, gid: Some(5), size: Some(0), atime, mtime };
    out.body("SetAttr", &set);
    out.body("Attr", &attr());
    out.body(
        "StatFs",
        &StatFs {
            block_size: 1024,
            blocks: 100,
            blocks_free: 50,
            blocks_available: 45,
            files: 20,
            files_free: 9,
            name_max: 255,
        },
    );
}

fn control(out: &mut Out) {
    for what in [
        Control::Sync,
        Control::PolicyGet,
        Control::PolicySet("strict".into()),
        Control::Stats,
        Control::RemountRo,
        Control::Freeze,
        Control::Thaw,
        Control::Shutdown,
    ] {
        out.body(&format!("Control {what:?}").replace('"', ""), &what);
    }
    let policy = PolicyInfo {
        name: "lax".into(),
        not_durable: Some("why".into()),
        presets: vec!["a".into()],
        text: "t".into(),
    };
    let sites = vec![SiteCounters {
        site: Site::FsyncMeta,
        hits: 1,
        writes: 2,
        bytes: 3,
        syncs_sent: 4,
        syncs_merged: 5,
        syncs_skipped: 6,
        syncs_failed: 7,
    }];
    let stats = StatsReply {
        policy: "lax".into(),
        cache: "flushable".into(),
        not_durable: None,
        read_only: true,
        sites,
        counters: vec![Counter { name: "n".into(), value: 8 }],
    };
    out.body("ControlReply Done", &ControlReply::Done);
    out.body("ControlReply Policy", &ControlReply::Policy(policy));
    out.body("ControlReply Stats", &ControlReply::Stats(stats));
    out.body("ControlReply Failed", &ControlReply::Failed("why".into()));
}

#[test]
fn bytes_of_version_1() {
    assert_eq!(Version::CURRENT as u16, 1, "a new version has fixtures of its own");
    let mut out = Out(String::new());
    records(&mut out);
    session_bodies(&mut out);
    bodies(&mut out);
    control(&mut out);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fs-v1.txt");
    if std::env::var_os("SEAWALL_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, &out.0).unwrap();
    }
    let fixture = std::fs::read_to_string(&path).unwrap();
    for (have, want) in out.0.lines().zip(fixture.lines()) {
        assert_eq!(have, want);
    }
    assert_eq!(out.0.lines().count(), fixture.lines().count());
}

/// What a feature adds has fixtures of its own: those of the version stay as they are.
fn compare(out: &Out, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SEAWALL_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, &out.0).unwrap();
    }
    assert_eq!(out.0, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn bytes_of_the_features_xattr_and_flags() {
    assert_eq!((feature::XATTR, feature::FLAGS), (1, 4));
    let mut out = Out(String::new());
    let name = b"user.x".to_vec();
    let how = XattrHow::Replace;
    out.body("Xattr Get", &Xattr::Get { name: name.clone() });
    out.body("Xattr Set", &Xattr::Set { name: name.clone(), value: vec![0, 255], how });
    out.body("Xattr List", &Xattr::List);
    out.body("Xattr Remove", &Xattr::Remove { name: name.clone() });
    out.body("XattrReply Done", &XattrReply::Done);
    out.body("XattrReply Value", &XattrReply::Value(vec![7]));
    out.body("XattrReply Names", &XattrReply::Names(vec![name]));
    out.body("Flags get", &None::<u32>);
    out.body("Flags set", &Some(0x10u32));
    out.body("Flags reply", &0x10u32);
    compare(&out, "fs-v1-xattr-flags.txt");
}

#[test]
fn bytes_of_the_feature_allocate() {
    assert_eq!(feature::ALLOCATE, 2);
    let mut out = Out(String::new());
    let what = [Allocate::Reserve, Allocate::ReserveKeepSize, Allocate::Punch, Allocate::Zero];
    for what in what {
        out.body(&format!("Allocate {what:?}"), &what);
    }
    let request = Request { op: op::ALLOCATE, cookie: 0x0102, aux: 7, ..Request::default() };
    let request = Request { offset: 4096, length: 3, ..request };
    out.request("request Allocate", request, &encode_body(&Allocate::Punch).unwrap());
    out.reply("reply Allocate", Reply { op: op::ALLOCATE, ..Reply::default() }, b"");
    compare(&out, "fs-v1-allocate.txt");
}

#[test]
fn every_operation_has_its_inline_bytes() {
    let Dialect { request, reply, .. } = DIALECT;
    for n in 0..=u16::from(u8::MAX) {
        let known = (op::HELLO..=op::FLAGS).contains(&n);
        assert_eq!(request(n) == Inline::Skip, !known, "operation {n}");
    }
    assert_eq!((request(op::WRITE), reply(op::READ)), (Inline::Payload, Inline::Payload));
    assert_eq!((request(op::READ), reply(op::WRITE)), (Inline::None, Inline::None));
}
