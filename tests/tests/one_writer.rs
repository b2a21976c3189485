//! One writer of a served store: a second filesystem server, mkfs and a raw write are refused while
//! a volume is mounted from it, what writes nothing goes on, and the volume comes out clean.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_tests::{Proc, Run, Scratch, assert_clean, bin, mke2fs, pattern, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const END: Duration = Duration::from_secs(60);

fn serve(program: &str, args: &[&str], socket: &Path) -> Proc {
    let mut cmd = Command::new(bin(program));
    cmd.arg("serve").args(args).arg("--socket").arg(socket);
    Proc::serve(&mut cmd, socket)
}

/// A store server over an image of 16 MiB; its name as a client writes it.
fn served_image(scratch: &Scratch) -> (Proc, String, PathBuf) {
    let (image, socket) = (scratch.join("image"), scratch.join("store.sock"));
    mke2fs(&image, 16 << 20, &[]);
    let store = serve("store", &[image.to_str().unwrap()], &socket);
    (store, format!("unix:{}", socket.display()), image)
}

fn tool(program: &str, args: &[&str]) -> Run {
    run(Command::new(bin(program)).args(args))
}

/// One line that names the holder.
fn refused(program: &str, args: &[&str], holder: &str) {
    let said = tool(program, args).exits(1).stderr;
    assert_eq!(said.lines().count(), 1, "{program} {args:?}: {said}");
    assert!(said.contains(holder) && said.contains("EBUSY"), "{program} {args:?}: {said}");
}

#[test]
fn nobody_writes_under_a_mounted_volume() {
    let scratch = Scratch::new();
    let (store, unix, image) = served_image(&scratch);
    let socket = scratch.join("fs.sock");
    let mut server = serve("ext2srv", &[&unix], &socket);
    let holder = format!("ext2srv[{}]", server.pid());
    let file = scratch.join("file");
    fs::write(&file, pattern(1 << 20, 1)).unwrap();
    let root = format!("{}:/", socket.display());
    tool("seawall", &["fs", "put", file.to_str().unwrap(), &root]).ok();

    let second = scratch.join("second.sock");
    refused("ext2srv", &["serve", &unix, "--socket", second.to_str().unwrap()], &holder);
    refused("ext2srv", &["mkfs", &unix], &holder);
    refused("store", &["write", &unix, "0"], &holder);
    refused("store", &["bench", &unix, "--op", "write", "--time", "20ms"], &holder);
    assert!(tool("store", &["info", &unix]).ok().stdout.contains("in use by another writer"));
    tool("store", &["stats", &unix]).ok();
    tool("store", &["sync", &unix]).ok();

    // It ends, and the volume is whole; the next one dies, and leaves no lock behind.
    tool("ext2srv", &["ctl", socket.to_str().unwrap(), "shutdown"]).ok();
    assert!(server.wait(END).success(), "{}", server.stderr());
    assert_clean(&image);
    serve("ext2srv", &[&unix], &second).kill();
    tool("ext2srv", &["mkfs", &unix]).ok();
    stop(store, &image);
}

/// A volume that is only read shares the store with other readers and with one writer.
#[test]
fn readers_do_not_hold_the_store() {
    let scratch = Scratch::new();
    let (store, unix, image) = served_image(&scratch);
    let sockets = ["a.sock", "b.sock"].map(|name| scratch.join(name));
    let mut readers = sockets.each_ref().map(|s| serve("ext2srv", &[&unix, "-o", "ro"], s));
    tool("ext2srv", &["mkfs", &unix]).ok();
    tool("ext2srv", &["mkfs", &unix]).ok();
    for (reader, socket) in readers.iter_mut().zip(&sockets) {
        tool("ext2srv", &["ctl", socket.to_str().unwrap(), "shutdown"]).ok();
        assert!(reader.wait(END).success(), "{}", reader.stderr());
    }
    stop(store, &image);
}

fn stop(mut store: Proc, image: &Path) {
    store.terminate();
    assert!(store.wait(END).success(), "{}", store.stderr());
    assert_clean(image);
}
