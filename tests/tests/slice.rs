//! One slice through the whole stack: an image made by `mke2fs`, a `store` process, an `ext2srv`
//! process, a real tree copied in and out, judged by `e2fsck` and by the kernel's own ext2.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use rustix::process::Signal;
use seawall_tests::{
    Compare, LoopMount, Mtime, Proc, Run, Scratch, assert_clean, assert_same_tree, bin,
    debugfs_write, e2fsck, mke2fs, pattern, run, sample_tree, tree_snapshot,
};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const END: Duration = Duration::from_secs(60);
/// Symlinks keep their times, too; owners as the tests run as user 0.
const ALL: Compare = Compare { mtime: Mtime::Exact, symlink_mtime: Mtime::Exact, owner: true };

/// Both servers over an image.
struct Stack {
    store: Proc,
    server: Proc,
    socket: PathBuf,
    image: PathBuf,
}

impl Stack {
    /// `fault` is a `fault:SPEC:` prefix of the store, or empty.
    fn start(scratch: &Scratch, image: &Path, fault: &str, more: &[&str]) -> Self {
        let (store_socket, socket) = (scratch.join("store.sock"), scratch.join("fs.sock"));
        let name = format!("{fault}file:{}", image.display());
        let mut cmd = Command::new(bin("store"));
        cmd.args(["serve", &name, "--socket"]).arg(&store_socket);
        let store = Proc::serve(&mut cmd, &store_socket);
        let mut cmd = Command::new(bin("ext2srv"));
        let name = format!("unix:{}", store_socket.display());
        cmd.args(["serve", &name, "--socket"]).arg(&socket).args(more);
        let server = Proc::serve(&mut cmd, &socket);
        Self { store, server, socket, image: image.to_path_buf() }
    }

    fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.socket.display())
    }

    fn ctl(&self, args: &[&str]) -> Run {
        run(Command::new(bin("ext2srv")).arg("ctl").arg(&self.socket).args(args))
    }

    /// Ends the server over its socket, then the store; both must be content. Returns what the
    /// server said: only now is all of it here.
    fn stop(mut self) -> String {
        self.ctl(&["shutdown"]).ok();
        assert!(self.server.wait(END).success(), "{}", self.server.stderr());
        assert!(!self.socket.exists(), "the socket's file was left behind");
        self.store.terminate();
        assert!(self.store.wait(END).success(), "{}", self.store.stderr());
        assert_clean(&self.image);
        self.server.stderr()
    }
}

fn fs<S: AsRef<OsStr>>(args: &[S]) -> Run {
    run(Command::new(bin("seawall")).arg("fs").args(args))
}

/// Bytes of the sparse file: more than 31 bits hold.
const SPARSE: u64 = (2 << 30) + 1;

/// 5,000 files besides those of the sample: small ones in folders of 40, some with names of 200
/// bytes, a path of 60 folders, links, and a file of 2 GiB that is nearly all hole.
fn big_tree(root: &Path) {
    sample_tree(root);
    let deep: PathBuf = (0..60).map(|i| format!("deep-{i}")).collect();
    fs::create_dir_all(root.join(&deep)).unwrap();
    for i in 0..5000_usize {
        let dir = root.join(format!("many/{:03}", i / 40));
        fs::create_dir_all(&dir).unwrap();
        let long = if i % 5 == 0 { "n".repeat(200) } else { String::new() };
        let file = dir.join(format!("file-{i}{long}.rs"));
        fs::write(&file, pattern((i * 37) % 9000, i as u64)).unwrap();
        match i % 100 {
            7 => fs::hard_link(&file, dir.join("again")).unwrap(),
            8 => std::os::unix::fs::symlink(file.file_name().unwrap(), dir.join("to")).unwrap(),
            9 => fs::rename(&file, root.join(&deep).join(format!("{i}"))).unwrap(),
            _ => {}
        }
    }
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    for (i, at) in [0, 65_536, 1 << 30, SPARSE - 3000].into_iter().enumerate() {
        sparse.write_all_at(&pattern(3000, i as u64), at).unwrap();
    }
    run(Command::new("mkfifo").arg(root.join("pipe"))).ok();
    run(Command::new("mknod").arg(root.join("device")).args(["c", "3", "7"])).ok();
    fs::set_permissions(root, std::os::unix::fs::PermissionsExt::from_mode(0o751)).unwrap();
}

/// Holes stayed holes.
fn assert_sparse(tree: &seawall_tests::Tree) {
    for (name, most) in [("holes", 1 << 20), ("sparse", 1 << 20)] {
        let used = tree[Path::new(name)].blocks * 512;
        assert!(used < most, "{name} takes {used} bytes");
    }
    assert_eq!(tree[Path::new("sparse")].size, SPARSE);
}

fn in_and_out(block_size: &str) {
    let scratch = Scratch::new();
    let (tree, image, back) = (scratch.dir("tree"), scratch.join("image"), scratch.join("back"));
    big_tree(&tree);
    mke2fs(&image, 256 << 20, &["-b", block_size, "-I", "256"]);
    let stack = Stack::start(&scratch, &image, "", &[]);
    let put = fs(&["put", tree.to_str().unwrap(), &stack.at("/")]).ok();
    assert!(put.stdout.contains(" files, "), "{put}");
    fs(&["get", &stack.at("/tree"), back.to_str().unwrap()]).ok();
    let before = tree_snapshot(&tree);
    assert!(before.len() > 5000);
    let after = tree_snapshot(&back);
    assert_same_tree(&before, &after, ALL);
    assert_sparse(&after);
    let stats = stack.ctl(&["stats"]).ok();
    assert!(stats.stdout.contains("name_op"), "{stats}");
    let said = stack.stop();
    for word in ["fs.sock", "store.sock", "flushable", "policy default", "durable"] {
        assert!(said.contains(word), "{said}");
    }
    // The kernel's own ext2 sees the same, and leaves something in turn.
    let mount = LoopMount::rw(&image);
    let kernel = tree_snapshot(&mount.path().join("tree"));
    assert_same_tree(&before, &kernel, ALL);
    assert_sparse(&kernel);
    fs::remove_dir_all(mount.path().join("tree/many")).unwrap();
    let theirs = mount.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    big_tree(&theirs);
    let theirs = tree_snapshot(mount.path());
    mount.unmount();
    let stack = Stack::start(&scratch, &image, "", &["-o", "ro"]);
    let ours = scratch.join("ours");
    fs(&["get", &stack.at("/"), ours.to_str().unwrap()]).ok();
    let ours = tree_snapshot(&ours);
    assert_same_tree(&theirs, &ours, ALL);
    assert_eq!(ours[Path::new("theirs/sparse")].size, SPARSE);
    assert!(ours[Path::new("theirs/sparse")].blocks * 512 < 1 << 20);
    stack.stop();
}

#[test]
fn tree_in_and_out_at_1_kib() {
    in_and_out("1024");
}

#[test]
fn tree_in_and_out_at_2_kib() {
    in_and_out("2048");
}

#[test]
fn tree_in_and_out_at_4_kib() {
    in_and_out("4096");
}

#[test]
fn every_verb() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    run(Command::new(bin("ext2srv")).arg("mkfs").arg(&image).args(["--size", "32M"])).ok();
    assert_clean(&image);
    let stack = Stack::start(&scratch, &image, "", &["--policy", "strict"]);
    let at = |path: &str| stack.at(path);
    let local = scratch.join("local");
    fs::write(&local, b"some text\n").unwrap();
    fs(&["mkdir", "-p", &at("/a/b/c"), &at("/z")]).ok();
    fs(&["put", local.to_str().unwrap(), &at("/a/b/text")]).ok();
    assert_eq!(fs(&["cat", &at("/a/b/text")]).ok().stdout, "some text\n");
    fs(&["ln", &at("/a/b/text"), &at("/a/hard")]).ok();
    fs(&["ln", "-s", "b/text", &at("/a/soft")]).ok();
    assert_eq!(fs(&["cat", &at("/a/soft")]).ok().stdout, "some text\n");
    fs(&["ln", "-s", "/a/b", &at("/dir")]).ok();
    assert_eq!(fs(&["cat", &at("/dir/text")]).ok().stdout, "some text\n");
    assert_eq!(fs(&["ls", &at("/a")]).ok().stdout, "b\nhard\nsoft\n");
    let long = fs(&["ls", "-l", &at("/a")]).ok().stdout;
    assert!(long.contains("soft -> b/text") && long.contains("drwxr-xr-x"), "{long}");
    let all = fs(&["ls", "-R", &at("/")]).ok().stdout;
    assert!(all.contains("/a/b:\nc\ntext\n"), "{all}");
    let stat = fs(&["stat", "--json", &at("/a/hard")]).ok().stdout;
    assert!(stat.contains("\"links\": 2") && stat.contains("\"size\": 10"), "{stat}");
    fs(&["cp", "-r", &at("/a"), &at("/copy")]).ok();
    let copied = fs(&["stat", &at("/copy/hard")]).ok().stdout;
    assert!(copied.contains("2 links"), "{copied}");
    let e = fs(&["cp", "-r", &at("/a"), &at("/a/b")]);
    assert!(e.code() == 1 && e.stderr.contains("into itself"), "{e}");
    fs(&["mv", &at("/a/hard"), &at("/z")]).ok();
    assert_eq!(fs(&["cat", &at("/z/hard")]).ok().stdout, "some text\n");
    let e = fs(&["rm", &at("/a")]);
    assert!(e.code() == 1 && e.stderr.contains("-r"), "{e}");
    fs(&["rm", "-r", &at("/a"), &at("/copy")]).ok();
    let e = fs(&["cat", &at("/a/b/text")]);
    assert!(e.code() == 1 && e.stderr.contains("/a/b/text"), "{e}");
    assert!(fs(&["df", &at("/")]).ok().stdout.contains("MiB"));
    assert_eq!(fs(&["ls", "nonsense"]).code(), 2);
    let e = fs(&["ls", &format!("{}:/", scratch.join("none").display())]);
    assert!(e.code() == 1 && e.stderr.contains("is it running"), "{e}");
    stack.stop();
}

#[test]
fn control_and_its_mistakes() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &["--policy", "hurd-vanilla"]);
    let stats = stack.ctl(&["stats"]).ok();
    assert!(stats.stdout.contains("not durable"), "{stats}");
    let e = stack.ctl(&["policy", "hurd"]);
    assert!(e.code() == 1 && e.stderr.contains("hurd-full"), "{e}");
    let local = scratch.join("local");
    fs::write(&local, pattern(100_000, 1)).unwrap();
    fs(&["put", local.to_str().unwrap(), &stack.at("/")]).ok();
    let policy = stack.ctl(&["policy", "default"]).ok();
    assert!(policy.stdout.starts_with("policy default, durable"), "{policy}");
    for spelled in ["after_barrier", "as_called", "per_inode"] {
        assert!(policy.stdout.contains(spelled), "{policy}");
    }
    stack.ctl(&["sync"]).ok();
    let json = stack.ctl(&["stats", "--json"]).ok();
    assert!(json.stdout.contains("\"syncs_sent\": 1"), "{json}");
    stack.ctl(&["remount-ro"]).ok();
    let e = fs(&["put", local.to_str().unwrap(), &stack.at("/second")]);
    assert!(e.code() == 1 && e.stderr.contains("EROFS"), "{e}");
    let e = stack.ctl(&["freeze"]);
    assert!(e.code() == 1 && e.stderr.contains("EOPNOTSUPP"), "{e}");
    // A second server is refused the socket; the store refuses a second writer.
    let socket = stack.socket.display().to_string();
    let e = run(Command::new(bin("ext2srv")).args(["serve", "mem:1M", "--socket", &socket]));
    assert_eq!(e.code(), 1, "{e}");
    let said = stack.stop();
    assert!(said.contains("not durable"), "{said}");
}

#[test]
fn put_over_what_is_no_folder_changes_nothing() {
    let scratch = Scratch::new();
    let (image, tree, file) = (scratch.join("image"), scratch.dir("tree"), scratch.join("h"));
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &[]);
    fs::write(&file, "text").unwrap();
    fs(&["put", file.to_str().unwrap(), &stack.at("/")]).ok();
    let before = fs(&["stat", &stack.at("/h")]).ok().stdout;
    let said = format!("seawall fs: {}: not a directory (ENOTDIR)", stack.at("/h"));
    fs::create_dir(tree.join("h")).unwrap();
    for below in [false, true] {
        if below {
            fs::write(tree.join("h/below"), "text").unwrap();
        }
        let e = fs(&["put", &format!("{}/.", tree.display()), &stack.at("/")]);
        assert_eq!(e.code(), 1, "{e}");
        assert_eq!(e.stderr.lines().next(), Some(said.as_str()), "{e}");
        assert!(e.stdout.starts_with("0 files, 0 folders"), "{e}");
        assert!(!e.stderr.contains("below"), "{e}");
        assert_eq!(fs(&["stat", &stack.at("/h")]).ok().stdout, before);
    }
    stack.stop();
}

#[test]
fn the_same_failure_of_many_files_is_counted() {
    let scratch = Scratch::new();
    let (image, tree) = (scratch.join("image"), scratch.dir("tree"));
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &["-o", "ro"]);
    for n in 0..50 {
        fs::write(tree.join(format!("{n}")), "text").unwrap();
    }
    let e = fs(&["put", &format!("{}/.", tree.display()), &stack.at("/")]);
    assert!(e.code() == 1 && e.stdout.starts_with("0 files"), "{e}");
    assert!(e.stderr.contains("47 more: read-only (EROFS)"), "{e}");
    assert_eq!(e.stderr.lines().count(), 5, "{e}");
    stack.stop();
}

#[test]
fn a_server_without_a_readable_root_can_be_controlled() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 16 << 20, &[]);
    debugfs_write(&image, "sif <2> mode 0");
    let mut stack = Stack::start(&scratch, &image, "", &[]);
    for args in [["stats"], ["policy"], ["sync"]] {
        stack.ctl(&args).ok();
    }
    let e = fs(&["ls", &stack.at("/")]);
    let said = format!("seawall fs: {}:", stack.socket.display());
    assert!(e.code() == 1 && e.stderr.starts_with(&said), "{e}");
    stack.ctl(&["shutdown"]).ok();
    assert!(stack.server.wait(END).success(), "{}", stack.server.stderr());
}

#[test]
fn nobody_reads_and_nobody_panics() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &[]);
    let file = scratch.join("file");
    fs::write(&file, pattern(1 << 20, 1)).unwrap();
    fs(&["put", file.to_str().unwrap(), &stack.at("/")]).ok();
    let (store, socket) = (scratch.join("store.sock"), stack.socket.display().to_string());
    let (store, root) = (format!("unix:{}", store.display()), stack.at("/"));
    let (name, big) = (image.to_str().unwrap(), stack.at("/file"));
    for (program, args) in [
        ("store", vec!["stats", &store]),
        ("store", vec!["info", &store]),
        ("store", vec!["read", name, "0", "1M"]),
        ("ext2srv", vec!["ctl", &socket, "stats"]),
        ("ext2srv", vec!["ctl", &socket, "policy"]),
        ("seawall", vec!["list", "policies"]),
        ("seawall", vec!["fs", "ls", "-l", &root]),
        ("seawall", vec!["fs", "cat", &big]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut cmd = Command::new(bin(program));
        let ended = cmd.args(&args).stdout(writer).stderr(std::process::Stdio::piped());
        let ended = ended.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{program} {args:?}: {said}");
    }
    stack.stop();
}

#[test]
fn paths_that_must_be_folders_and_several_arguments() {
    let scratch = Scratch::new();
    let (image, file) = (scratch.join("image"), scratch.join("h"));
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &[]);
    fs::write(&file, "text").unwrap();
    let (local, at) = (file.to_str().unwrap(), |path: &str| stack.at(path));
    fs(&["put", local, &at("/")]).ok();
    let said = |args: &[&str], what: &str, why: &str| {
        let e = fs(args);
        assert_eq!((e.code(), &*e.stderr), (1, &*format!("seawall fs: {what}: {why}\n")), "{e}");
        e.stdout
    };
    let (none, not) = ("no such file or directory (ENOENT)", "not a directory (ENOTDIR)");
    said(&["put", local, &at("/none/")], &at("/none/"), none);
    said(&["mv", &at("/h"), &at("/none/")], &at("/none/"), none);
    said(&["mv", &at("/none"), &at("/h")], &at("/none"), none);
    said(&["stat", &at("/h/")], &at("/h/"), not);
    said(&["stat", &at("/h/.")], &at("/h/."), not);
    said(&["df", &at("/none")], &at("/none"), none);
    for verb in ["cat", "ls", "stat"] {
        let good = fs(&[verb, &at("/h")]).ok().stdout;
        assert_eq!(said(&[verb, &at("/none"), &at("/h")], &at("/none"), none), good);
    }
    said(&["rm", &at("/none"), &at("/h")], &at("/none"), none);
    said(&["stat", &at("/h")], &at("/h"), none);
    stack.stop();
}

#[test]
fn garbage_ends_one_connection_only() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 16 << 20, &[]);
    let stack = Stack::start(&scratch, &image, "", &[]);
    let mut streams = vec![pattern(64, 5), pattern(100_000, 6), b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    // Right magic: a body that is none, a length beyond the limit, a fid that is none.
    for (op, inline) in [(64_u16, 8_u32), (70, 0xffff_fff0), (67, 300_000), (250, 1 << 30)] {
        let mut record = vec![0_u8; 64];
        record[..4].copy_from_slice(b"SWFS");
        record[4..6].copy_from_slice(&op.to_le_bytes());
        record[8] = 1;
        record[32..36].copy_from_slice(&inline.to_le_bytes());
        record.extend([0xff; 64]);
        streams.push(record);
    }
    for bytes in &streams {
        let mut socket = UnixStream::connect(&stack.socket).unwrap();
        // The server may close before it has read everything.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.len() < 4096, "{} bytes in answer to garbage", answer.len());
    }
    fs(&["ls", &stack.at("/")]).ok();
    assert!(stack.server.running());
    let memory = fs::read_to_string(format!("/proc/{}/status", stack.server.pid())).unwrap();
    let peak = memory.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(kib < 128 << 10, "{kib} KiB at most");
    stack.stop();
}

#[test]
fn a_store_that_dies_is_told_to_the_client() {
    // In the first write after the dirty mark, and deeper in the writeback that the end of the copy
    // asks for.
    for write in [2, 5, 9] {
        store_dies(write);
    }
}

fn store_dies(write: u32) {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 64 << 20, &["-b", "4096"]);
    let older = scratch.dir("older");
    sample_tree(&older);
    let stack = Stack::start(&scratch, &image, "", &[]);
    fs(&["put", older.to_str().unwrap(), &stack.at("/")]).ok();
    stack.stop();
    let mut stack = Stack::start(&scratch, &image, &format!("fault:die={write}:"), &[]);
    let tree = scratch.dir("tree");
    for i in 0..300_u64 {
        fs::write(tree.join(format!("{i}")), pattern(10_000, i)).unwrap();
    }
    let put = fs(&["put", "--syncfs", tree.to_str().unwrap(), &stack.at("/")]);
    assert_eq!(put.code(), 1, "{put}");
    assert!(put.stderr.contains("EIO"), "{put}");
    // The server still answers, from memory or with an error; nothing hangs.
    assert!(stack.server.running());
    let stats = stack.ctl(&["stats"]).ok();
    assert!(stats.stdout.contains("not durable: the store server is gone"), "{stats}");
    let again = fs(&["put", "--syncfs", tree.to_str().unwrap(), &stack.at("/again")]);
    assert_eq!(again.code(), 1, "{again}");
    let log = stack.server.stderr();
    let warnings = log.matches("an operation failed").count();
    assert!(warnings <= 10, "{warnings} for one dead store:\n{log}");
    let down = stack.ctl(&["shutdown"]);
    assert!(down.code() == 1 && !down.stderr.is_empty(), "{down}");
    assert_eq!(stack.server.wait(END).code(), Some(1), "{}", stack.server.stderr());
    assert!(stack.server.stderr().contains("unmount"), "{}", stack.server.stderr());
    assert_eq!(stack.store.wait(END).code(), Some(86));
    // What was being made may be there in part and without a name, which e2fsck connects or clears
    // (not in preen mode); nothing has two owners, and what was there before is as it was.
    let (_, text) = e2fsck(&image);
    for harm in ["ultiply-claimed", "Illegal block"] {
        assert!(!text.contains(harm), "{text}");
    }
    let repair = run(seawall_tests::tool("e2fsck").arg("-fy").arg(&image));
    assert_eq!(repair.code() & !3, 0, "{repair}");
    assert_clean(&image);
    let mount = LoopMount::ro(&image);
    assert_same_tree(&tree_snapshot(&older), &tree_snapshot(&mount.path().join("older")), ALL);
    mount.unmount();
}

#[test]
fn a_signal_unmounts() {
    let scratch = Scratch::new();
    let image = scratch.join("image");
    mke2fs(&image, 16 << 20, &[]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut stack = Stack::start(&scratch, &image, "", &[]);
        fs(&["mkdir", "-p", &stack.at("/made")]).ok();
        stack.server.signal(signal);
        assert!(stack.server.wait(END).success(), "{}", stack.server.stderr());
        stack.store.terminate();
        assert!(stack.store.wait(END).success());
        assert_clean(&image);
    }
    let mount = LoopMount::ro(&image);
    assert!(mount.path().join("made").is_dir());
    mount.unmount();
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let scratch = Scratch::new();
    let (image, socket) = (scratch.join("image"), scratch.join("fs.sock"));
    let serve = |store: &str, more: &[&str]| {
        let mut cmd = Command::new(bin("ext2srv"));
        run(cmd.args(["serve", store, "--socket"]).arg(&socket).args(more))
    };
    let ends = |seen: Run, code: i32, word: &str| {
        assert_eq!(seen.code(), code, "{seen}");
        assert_eq!(seen.stderr.trim_end().lines().count(), 1, "{seen}");
        assert!(seen.stderr.contains(word), "{word}: {seen}");
    };
    let said = |seen: Run, word: &str| ends(seen, 1, word);
    mke2fs(&image, 16 << 20, &[]);
    let name = image.to_str().unwrap();
    said(serve("mem:16M", &[]), "superblock");
    ends(serve("fault:unflushable:mem:16M", &["--policy", "strikt"]), 2, "strikt");
    ends(serve(name, &["-o", "snyc"]), 2, "snyc");
    ends(serve(name, &["-o", "ro,rw"]), 2, "contradict");
    ends(serve("mem:16Q", &[]), 2, "mem:16Q");
    said(serve(&format!("fault:unflushable:{name}"), &["--policy", "strict"]), "cannot flush");
    fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
    said(serve(name, &[]), name);
    fs::write(&image, pattern(1 << 20, 3)).unwrap();
    said(serve(name, &[]), name);
    let usage = serve(name, &["--polcy", "x"]);
    assert_eq!(usage.code(), 2, "{usage}");
}
