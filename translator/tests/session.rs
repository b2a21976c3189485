//! The session core on one thread: no socket, no runtime; warm and with every block cold.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{Numbered, PageBuf};
use seawall_diskfs::driver::{Blocking, Host};
use seawall_diskfs::testing::{AllMiss, MemDev, mount};
use seawall_diskfs::{Attr, Kind, OpenFlags, SetAttr, Slice, Timestamp, XattrHow};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use seawall_ipc::{Request, Status, decode_body, encode_body};
use seawall_translator::protocol::{
    Allocate, Attach, Control, ControlReply, Create, FEATURES, Hello, Link, Mkdir, NodeReply, Open,
    ReaddirReply, Walk, WalkReply, Xattr, XattrReply, flags, op,
};
use seawall_translator::session::{Answer, Input, Limits, Outcome, Server, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;

const NOW: Timestamp = Timestamp { secs: 1_800_000_000, nanos: 7 };

type Disk = Blocking<Ext2, Numbered<MemDev>>;

fn disk(preset: &str) -> Disk {
    let size = 8 << 20;
    let mut dev = Numbered::new(MemDev::new(vec![0; size]));
    mkfs(&mut dev, &MkfsOptions::new(size as u64, [1; 16], NOW)).unwrap();
    let superblock = *dev.get_ref().data[1024..].first_chunk().unwrap();
    let volume = Ext2::open(&superblock, size as u64, OpenOptions::default()).unwrap();
    mount(volume, dev, preset).unwrap()
}

/// A session and its host.
struct Peer<H> {
    host: H,
    session: Session,
}

impl<H: Host> Peer<H> {
    fn new(host: H, uid: u32) -> Self {
        let cred = seawall_diskfs::Cred { uid, gid: uid, groups: Vec::new() };
        let limits = Limits { fids: 8, ..Limits::default() };
        let server = Server { owner: 1000, limits, ..Server::default() };
        let mut peer = Self { host, session: Session::new(1, server, cred) };
        let hello = Hello { version: 1, offered: 0, required: 0, client: "test".into() };
        assert_eq!(peer.ask(op::HELLO, 0, &hello).reply.status, 0);
        assert_eq!(peer.ask(op::ATTACH, 0, &Attach::default()).reply.status, 0);
        peer
    }

    fn send(&mut self, request: Request, input: Input) -> Answer {
        match self.session.handle(&mut self.host, NOW, &request, input) {
            Outcome::Answer(answer) => answer,
            Outcome::Shutdown => panic!("shutdown"),
        }
    }

    fn ask<T: Serialize>(&mut self, op: u16, fid: u32, body: &T) -> Answer {
        let request = Request { op, aux: fid, cookie: 9, ..Request::default() };
        self.send(request, Input::Body(encode_body(body).unwrap()))
    }

    fn tell(&mut self, op: u16, fid: u32) -> Answer {
        self.send(Request { op, aux: fid, ..Request::default() }, Input::None)
    }

    fn create(&mut self, fid: u32, name: &[u8], flags: OpenFlags) -> Answer {
        let name = name.to_vec();
        self.ask(op::CREATE, 0, &Create { new_fid: fid, name, mode: 0o644, flags, policy: None })
    }

    fn walk(&mut self, fid: u32, names: &[&[u8]], open: Option<OpenFlags>) -> Answer {
        let names = names.iter().map(|n| n.to_vec()).collect();
        self.ask(op::WALK, 0, &Walk { new_fid: fid, names, open, getattr: true })
    }

    fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Answer {
        let request = Request { op: op::WRITE, aux: fid, offset, ..Request::default() };
        self.send(request, Input::Payload(Slice::new(PageBuf::from_slice(data))))
    }

    fn read(&mut self, fid: u32, offset: u64, length: u64) -> Answer {
        let request = Request { op: op::READ, aux: fid, offset, length, ..Request::default() };
        self.send(request, Input::None)
    }
}

const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    exclusive: false,
    sync: false,
    dsync: false,
};

fn status(answer: &Answer) -> Status {
    Status(answer.reply.status)
}

fn body<T: DeserializeOwned>(answer: &Answer) -> T {
    assert_eq!(status(answer), Status::OK);
    decode_body(&answer.body).unwrap()
}

/// A file's life; the same on a warm host and on one that starts every attempt cold.
fn life<H: Host>(host: H) {
    let mut p = Peer::new(host, 0);
    assert_eq!(
        status(&p.ask(op::MKDIR, 0, &Mkdir { new_fid: None, name: b"d".into(), mode: 0o755 })),
        Status::OK
    );
    assert_eq!(status(&p.create(1, b"f", RW)), Status::OK);
    let data: Vec<u8> = (0..30_000_u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(p.write(1, 10, &data).reply.value, 30_000);
    assert_eq!(p.write(1, 1 << 20, b"end").reply.value, 3);
    assert_eq!(p.read(1, 10, 50_000).payload.get(..30_000), Some(&*data));
    assert_eq!(p.read(1, (1 << 20) + 3, 10).reply.value, 0);
    let seek = |p: &mut Peer<H>, offset, flags| {
        p.send(Request { op: op::SEEK, aux: 1, offset, flags, ..Request::default() }, Input::None)
    };
    let hole = seek(&mut p, 0, flags::HOLE).reply.value;
    assert!((30_010..40_000).contains(&hole), "{hole}");
    assert_eq!(seek(&mut p, hole, 0).reply.value, 1 << 20);
    assert_eq!(status(&seek(&mut p, 2 << 20, 0)), Status::ENXIO);
    let set = SetAttr { size: Some(20_000), ..SetAttr::default() };
    assert_eq!(body::<Attr>(&p.ask(op::SETATTR, 1, &set)).size, 20_000);
    assert!(p.tell(op::FSYNC, 1).reply.value > 0);
    assert_eq!(status(&p.ask(op::LINK, 0, &Link { fid: 1, name: b"g".into() })), Status::OK);
    let listing =
        Request { op: op::READDIR, length: 4096, flags: flags::ATTRS, ..Request::default() };
    let list: ReaddirReply = body(&p.send(listing, Input::None));
    let names: Vec<&[u8]> = list.entries.iter().map(|(e, _)| &*e.name).collect();
    assert_eq!(names, [b".".as_slice(), b"..", b"lost+found", b"d", b"f", b"g"]);
    assert!(list.entries.iter().all(|(_, a)| a.is_some()));
    for name in [b"f".to_vec(), b"g".to_vec()] {
        assert_eq!(status(&p.ask(op::UNLINK, 0, &name)), Status::OK);
    }
    // Without a name it lives on as long as it is open.
    assert_eq!(p.read(1, 10, 4).payload.len(), 4);
    assert_eq!(status(&p.tell(op::CLOSE, 1)), Status::OK);
    assert_eq!(status(&p.tell(op::CLOSE, 1)), Status::EBADF);
}

#[test]
fn the_life_of_a_file() {
    life(disk("default"));
    life(disk("hurd-full"));
}

#[test]
fn the_life_of_a_file_with_every_block_cold() {
    life(AllMiss(disk("default")));
}

#[test]
fn a_freed_inode_is_stale_not_another_file() {
    let mut p = Peer::new(disk("default"), 0);
    let first: NodeReply = body(&p.create(1, b"one", RW));
    assert_eq!(status(&p.walk(2, &[b"one"], None)), Status::OK);
    p.tell(op::CLOSE, 1);
    assert_eq!(status(&p.ask(op::UNLINK, 0, &b"one".to_vec())), Status::OK);
    assert_eq!(status(&p.tell(op::GETATTR, 2)), Status::ESTALE);
    p.tell(op::SYNCFS, 0);
    let second: NodeReply = body(&p.create(3, b"two", RW));
    assert_eq!(first.attr.ino, second.attr.ino, "the number is given out again");
    for op in [op::GETATTR, op::READLINK, op::READDIR] {
        assert_eq!(status(&p.tell(op, 2)), Status::ESTALE);
    }
    assert_eq!(status(&p.ask(op::OPEN, 2, &Open { flags: RW, policy: None })), Status::ESTALE);
}

#[test]
fn a_walk_says_how_far_it_came() {
    let mut p = Peer::new(disk("default"), 0);
    let dir = Mkdir { new_fid: Some(1), name: b"d".into(), mode: 0o755 };
    assert_eq!(status(&p.ask(op::MKDIR, 0, &dir)), Status::OK);
    let a = p.walk(2, &[b"d", b"..", b"d", b"no", b"x"], None);
    assert_eq!(status(&a), Status::ENOENT);
    let came: WalkReply = decode_body(&a.body).unwrap();
    assert_eq!(came.nodes.iter().map(|n| n.kind).collect::<Vec<_>>(), [Kind::Dir; 3]);
    assert_eq!(status(&p.tell(op::GETATTR, 2)), Status::EBADF, "nothing was bound");
    assert_eq!(status(&p.walk(1, &[b"d"], None)), Status::EINVAL, "bound already");
    assert_eq!(status(&p.walk(2, &[b"d".as_slice(); 17], None)), Status::EINVAL);
}

#[test]
fn limits_and_rights() {
    let mut p = Peer::new(disk("default"), 0);
    for fid in 1..8 {
        assert_eq!(status(&p.walk(fid, &[], None)), Status::OK);
    }
    assert_eq!(status(&p.walk(8, &[], None)), Status::EMFILE);
    p.tell(op::CLUNK, 7);
    assert_eq!(status(&p.walk(8, &[], None)), Status::OK);
    assert_eq!(status(&p.tell(200, 0)), Status::EOPNOTSUPP, "an unknown operation");
    assert_eq!(status(&p.tell(op::XATTR, 0)), Status::EINVAL, "no body");
    let bad = Request { op: op::OPEN, aux: 1, ..Request::default() };
    assert_eq!(status(&p.send(bad, Input::Body(vec![9; 5]))), Status::EINVAL);

    // Another user: no Control, no other's credentials, no write to the root.
    let mut p = Peer::new(p.host, 2000);
    assert_eq!(status(&p.ask(op::CONTROL, 0, &Control::Stats)), Status::EPERM);
    let attach = Attach { cred: Some(seawall_diskfs::Cred::default()) };
    assert_eq!(status(&p.ask(op::ATTACH, 5, &attach)), Status::EPERM);
    assert_eq!(status(&p.create(1, b"f", RW)), Status::EACCES);
    // The server's own user.
    let mut p = Peer::new(p.host, 1000);
    assert!(matches!(body(&p.ask(op::CONTROL, 0, &Control::Stats)), ControlReply::Stats(_)));
    assert_eq!(status(&p.ask(op::CONTROL, 0, &Control::Freeze)), Status::EOPNOTSUPP);
}

#[test]
fn hello_comes_first_and_names_what_is_missing() {
    let server = Server::default();
    let mut host = disk("default");
    let mut session = Session::new(1, server, seawall_diskfs::Cred::default());
    let mut send = |request: Request, input| match session.handle(&mut host, NOW, &request, input) {
        Outcome::Answer(answer) => answer,
        Outcome::Shutdown => panic!("shutdown"),
    };
    let attach = Request { op: op::ATTACH, ..Request::default() };
    assert_eq!(status(&send(attach, Input::None)), Status::EPROTO);
    let shutdown = Input::Body(encode_body(&Control::Shutdown).unwrap());
    let control = Request { op: op::CONTROL, ..Request::default() };
    assert_eq!(status(&send(control, shutdown)), Status::EPROTO);
    for (version, required) in [(1, 1 << 40), (2, 0)] {
        let hello = Hello { version, offered: !0, required, client: String::new() };
        let input = Input::Body(encode_body(&hello).unwrap());
        let a = send(Request { op: op::HELLO, ..Request::default() }, input);
        assert_eq!((status(&a), a.reply.value), (Status::EPROTO, FEATURES));
    }
}

#[test]
fn a_failed_writeback_is_told_once_per_handle() {
    let mut p = Peer::new(disk("default"), 0);
    for fid in [1, 2] {
        assert_eq!(status(&p.create(fid, b"f", RW)), Status::OK);
    }
    assert_eq!(p.write(1, 0, b"data").reply.value, 4);
    p.host.dev.get_mut().faults.write = Some(0);
    assert_eq!(status(&p.tell(op::SYNCFS, 0)), Status::EIO);
    for fid in [1, 2] {
        assert_eq!(status(&p.tell(op::FSYNC, fid)), Status::EIO, "fid {fid}");
        assert_eq!(status(&p.tell(op::FSYNC, fid)), Status::OK, "fid {fid}");
        assert_eq!(status(&p.tell(op::CLOSE, fid)), Status::OK, "fid {fid}");
    }
}

#[test]
fn a_session_that_ends_leaves_nothing_open() {
    let mut p = Peer::new(disk("default"), 0);
    assert_eq!(status(&p.create(1, b"f", RW)), Status::OK);
    assert_eq!(p.write(1, 0, &[7; 9000]).reply.value, 9000);
    assert_eq!(status(&p.ask(op::UNLINK, 0, &b"f".to_vec())), Status::OK);
    let free =
        |p: &mut Peer<Disk>| body::<seawall_diskfs::StatFs>(&p.tell(op::STATFS, 0)).files_free;
    let before = free(&mut p);
    p.session.end(&mut p.host, NOW);
    assert_eq!(p.host.fs.open_handles(), 0);
    let mut p = Peer::new(p.host, 0);
    assert_eq!(free(&mut p), before + 1, "the file without a name was freed");
}

#[test]
fn a_policy_is_switched_between_operations() {
    let mut p = Peer::new(disk("hurd-vanilla"), 0);
    assert_eq!(status(&p.create(1, b"f", RW)), Status::OK);
    assert_eq!(p.write(1, 0, b"data").reply.value, 4);
    let ControlReply::Policy(info) = body(&p.ask(op::CONTROL, 0, &Control::PolicyGet)) else {
        panic!()
    };
    assert!(info.not_durable.is_some());
    let set = Control::PolicySet("default".into());
    let ControlReply::Policy(info) = body(&p.ask(op::CONTROL, 0, &set)) else { panic!() };
    assert_eq!((info.name.as_str(), info.not_durable), ("default", None));
    // What was written under the old policy is durable under the new one.
    assert!(p.host.fs.seqs().durable >= p.host.fs.seqs().acked);
    assert!(p.host.dev.get_ref().stable.windows(4).any(|w| w == b"data"));
    let a = p.ask(op::CONTROL, 0, &Control::PolicySet("none".into()));
    assert_eq!(status(&a), Status::EINVAL);
    let ControlReply::Failed(words) = decode_body(&a.body).unwrap() else { panic!() };
    assert!(words.contains("none") && words.contains("strict"), "{words}");
}

#[test]
fn attributes_and_flags() {
    let mut p = Peer::new(AllMiss(disk("default")), 0);
    p.create(1, b"f", RW);
    let name = b"user.x".to_vec();
    let set = |how| Xattr::Set { name: name.clone(), value: vec![7; 500], how };
    let get = Xattr::Get { name: name.clone() };
    assert_eq!(status(&p.ask(op::XATTR, 1, &get)), Status::ENODATA);
    assert_eq!(status(&p.ask(op::XATTR, 1, &set(XattrHow::Replace))), Status::ENODATA);
    assert_eq!(body::<XattrReply>(&p.ask(op::XATTR, 1, &set(XattrHow::Create))), XattrReply::Done);
    assert_eq!(status(&p.ask(op::XATTR, 1, &set(XattrHow::Create))), Status::EEXIST);
    let value: XattrReply = body(&p.ask(op::XATTR, 1, &get));
    assert_eq!(value, XattrReply::Value(vec![7; 500]));
    let names: XattrReply = body(&p.ask(op::XATTR, 1, &Xattr::List));
    assert_eq!(names, XattrReply::Names(vec![name.clone()]));
    // What changed is told to a mount of the same engine.
    assert!(!p.session.take_changes().is_empty());
    assert_eq!(body::<u32>(&p.ask(op::FLAGS, 1, &None::<u32>)), 0);
    assert_eq!(body::<u32>(&p.ask(op::FLAGS, 1, &Some(0x10u32))), 0x10);
    assert_eq!(status(&p.ask(op::XATTR, 1, &Xattr::Remove { name: name.clone() })), Status::EPERM);
    assert_eq!(status(&p.write(1, 0, b"x")), Status::EPERM, "immutable, also for a handle in use");
    assert_eq!(body::<u32>(&p.ask(op::FLAGS, 1, &Some(0u32))), 0);
    let gone: XattrReply = body(&p.ask(op::XATTR, 1, &Xattr::Remove { name }));
    assert_eq!(gone, XattrReply::Done);
    assert_eq!(status(&p.ask(op::XATTR, 99, &Xattr::List)), Status::EBADF);
}

/// Space ahead of writes and holes; the same warm and cold.
fn space<H: Host>(host: H) {
    let mut p = Peer::new(host, 0);
    assert_eq!(status(&p.create(1, b"f", RW)), Status::OK);
    p.write(1, 0, &[7; 8192]);
    let all = |p: &mut Peer<H>, what: Allocate, offset, length| {
        let input = Input::Body(encode_body(&what).unwrap());
        let request = Request { op: op::ALLOCATE, aux: 1, offset, length, ..Request::default() };
        status(&p.send(request, input))
    };
    let shape = |p: &mut Peer<H>| {
        let attr: Attr = body(&p.tell(op::GETATTR, 1));
        (attr.size, attr.blocks)
    };
    assert_eq!(all(&mut p, Allocate::Punch, 0, 4096), Status::OK);
    assert_eq!(shape(&mut p), (8192, 8));
    assert_eq!(all(&mut p, Allocate::ReserveKeepSize, 0, 4096), Status::OK);
    assert_eq!(shape(&mut p), (8192, 16));
    assert_eq!(all(&mut p, Allocate::ReserveKeepSize, 0, 8193), Status::EOPNOTSUPP);
    assert_eq!(all(&mut p, Allocate::Reserve, 8192, 10_000), Status::OK);
    assert_eq!(shape(&mut p), (18_192, 38));
    assert_eq!(all(&mut p, Allocate::Zero, 5000, 20_000), Status::OK);
    assert_eq!(shape(&mut p).0, 25_000);
    let seen = p.read(1, 0, 30_000).payload.to_vec();
    assert!(seen.len() == 25_000 && seen[4096..5000] == [7; 904]);
    assert!(seen[..4096].iter().chain(&seen[5000..]).all(|b| *b == 0));
    assert_eq!(all(&mut p, Allocate::Reserve, 0, 0), Status::EINVAL);
    assert_eq!(all(&mut p, Allocate::Reserve, u64::MAX, 2), Status::EFBIG);
    assert_eq!(all(&mut p, Allocate::Reserve, 0, 1 << 60), Status::EFBIG);
    assert_eq!(all(&mut p, Allocate::Reserve, 0, 9 << 20), Status::ENOSPC);
    assert_eq!(status(&p.ask(op::ALLOCATE, 1, &9u32)), Status::EINVAL);
    let changes = p.session.take_changes();
    assert!(changes.iter().any(|c| matches!(c, seawall_translator::session::Change::Data(_))));
    // Only a handle open for writing will do.
    assert_eq!(status(&p.tell(op::CLUNK, 1)), Status::OK);
    p.walk(1, &[b"f"], None);
    assert_eq!(all(&mut p, Allocate::Punch, 0, 10), Status::EBADF);
    assert_eq!(status(&p.tell(op::CLUNK, 1)), Status::OK);
    p.walk(1, &[b"f"], Some(OpenFlags { read: true, ..OpenFlags::default() }));
    assert_eq!(all(&mut p, Allocate::Punch, 0, 10), Status::EBADF);
}

#[test]
fn space_is_given_and_taken() {
    space(disk("default"));
    space(AllMiss(disk("default")));
}

#[test]
fn a_shutdown_after_the_unmount_is_no_error() {
    let limits = Limits::default();
    let server = Server { owner: 1000, limits, ..Server::default() };
    let ask = |uid: u32, op: u16, body: Vec<u8>| {
        let cred = seawall_diskfs::Cred { uid, gid: uid, groups: Vec::new() };
        let mut session = Session::new(1, server.clone(), cred);
        let hello = Hello { version: 1, offered: 0, required: 0, client: "test".into() };
        let request = Request { op: op::HELLO, ..Request::default() };
        let input = Input::Body(encode_body(&hello).unwrap());
        let greeted = session.handle_unmounted(&request, &input);
        assert!(matches!(greeted, Outcome::Answer(a) if status(&a).is_ok()));
        let request = Request { op, ..Request::default() };
        session.handle_unmounted(&request, &Input::Body(body))
    };
    let shutdown = encode_body(&Control::Shutdown).unwrap();
    assert!(matches!(ask(1000, op::CONTROL, shutdown.clone()), Outcome::Shutdown));
    for (uid, op, body) in [
        (1001, op::CONTROL, shutdown),
        (1000, op::CONTROL, encode_body(&Control::Sync).unwrap()),
        (1000, op::ATTACH, encode_body(&Attach::default()).unwrap()),
    ] {
        let Outcome::Answer(a) = ask(uid, op, body) else { panic!("{uid} stops it") };
        assert_eq!(status(&a), Status::ESHUTDOWN);
    }
}
