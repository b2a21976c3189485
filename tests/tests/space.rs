//! Space over the socket of a real server: reserved, punched, zeroed. debugfs and e2fsck look at
//! the blocks, the kernel's ext2 at the bytes.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_diskfs::OpenFlags;
use seawall_ipc::Status;
use seawall_tests::{LoopMount, Proc, Scratch, assert_clean, bin, debugfs, mke2fs, pattern};
use seawall_translator::client::{Client, ROOT};
use seawall_translator::protocol::{Allocate, feature};
use std::process::Command;
use std::time::Duration;

const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    exclusive: true,
    sync: false,
    dsync: false,
};

#[test]
fn reserved_punched_and_zeroed_over_the_socket() {
    let dir = Scratch::new();
    let (image, socket) = (dir.join("image"), dir.join("socket"));
    mke2fs(&image, 8 << 20, &["-b", "1024", "-m", "0"]);
    let mut cmd = Command::new(bin("ext2srv"));
    cmd.arg("serve").arg(&image).arg("--socket").arg(&socket);
    let mut server = Proc::serve(&mut cmd, &socket);
    let mut client = Client::connect(&socket, "space").unwrap();
    assert_ne!(client.hello().features & feature::ALLOCATE, 0);

    let (fid, _) = client.create(ROOT, b"f", 0o644, RW).unwrap();
    let mut model = pattern(100_000, 1);
    client.write(fid, 0, &model).unwrap();
    client.allocate(fid, (3000, 50_000), Allocate::Punch).unwrap();
    model[3000..53_000].fill(0);
    assert_eq!(client.seek(fid, 0, true).unwrap(), Some(3072));
    client.allocate(fid, (20_480, 10_240), Allocate::ReserveKeepSize).unwrap();
    assert_eq!(client.seek(fid, 3072, false).unwrap(), Some(20_480));
    client.allocate(fid, (90_000, 60_000), Allocate::Zero).unwrap();
    model[90_000..].fill(0);
    model.resize(150_000, 0);
    // More than there is: an error, and what is there stays.
    let e = client.allocate(fid, (0, 9 << 20), Allocate::Reserve).unwrap_err();
    assert!(e.is(Status::ENOSPC), "{e}");
    let grown = client.getattr(fid).unwrap().size;
    assert!(grown >= 150_000);
    client.allocate(fid, (150_000, grown), Allocate::Punch).unwrap();
    model.resize(usize::try_from(grown).unwrap(), 0);
    let (full, _) = client.create(ROOT, b"g", 0o644, RW).unwrap();
    client.allocate(full, (0, 1 << 20), Allocate::Reserve).unwrap();
    client.fsync(full, false).unwrap();
    client.fsync(fid, false).unwrap();
    let e = client.allocate(fid, (0, grown + 1), Allocate::ReserveKeepSize).unwrap_err();
    assert!(e.is(Status::EOPNOTSUPP), "{e}");
    client.close(fid).unwrap();
    client.close(full).unwrap();
    drop(client);
    server.terminate();
    assert!(server.wait(Duration::from_secs(60)).success());

    assert_clean(&image);
    // 1024 blocks of data, 4 of pointers to them and one of pointers to those.
    let blocks = debugfs(&image, "stat /g");
    assert!(blocks.contains("TOTAL: 1029"), "{blocks}");
    let theirs = LoopMount::ro(&image);
    assert!(std::fs::read(theirs.path().join("f")).unwrap() == model);
    assert!(std::fs::read(theirs.path().join("g")).unwrap() == vec![0; 1 << 20]);
    theirs.unmount();
}
