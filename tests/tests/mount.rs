//! The FUSE mount, on the real kernel: what programs do on it, what e2fsck and the kernel's own
//! ext2 find afterwards, and every way in which it ends.
//!
//! Needs root and /dev/fuse.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use rustix::fs::{FallocateFlags, RenameFlags, SeekFrom, Timespec, Timestamps};
use rustix::process::Signal;
use seawall_tests::{
    Compare, LoopMount, Mount, Mtime, Proc, Scratch, assert_clean, assert_same_tree, bin, pattern,
    run, sample_tree, tool, tree_snapshot,
};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

fn image(bs: &str, size: u64) -> Scratch {
    Mount::place(size, &["-b", bs, "-I", "256"])
}

fn mounted(bs: &str, options: &[&str]) -> Mount {
    Mount::on(image(bs, 256 << 20), options)
}

fn ext2srv() -> Command {
    Command::new(bin("ext2srv"))
}

#[test]
fn copies_are_equal_here_and_in_the_kernels_ext2() {
    for bs in ["1024", "4096"] {
        let source = Scratch::new();
        sample_tree(source.path());
        let m = mounted(bs, &[]);
        run(tool("cp").args(["-a", "--"]).arg(source.join(".")).arg(m.dir())).ok();
        let how = Compare { mtime: Mtime::Exact, symlink_mtime: Mtime::Exact, owner: true };
        let left = tree_snapshot(source.path());
        assert_same_tree(&left, &tree_snapshot(&m.dir()), how);
        assert!(fs::metadata(m.at("holes")).unwrap().blocks() < 100);
        assert_same_tree(&left, &m.finish(), how);
    }
}

#[test]
fn git_and_tar() {
    let m = mounted("4096", &[]);
    let home = Scratch::new();
    let git = |dir: &Path, args: &[&str]| {
        let mut c = tool("git");
        c.env("HOME", home.path()).env("GIT_CONFIG_NOSYSTEM", "1").current_dir(dir);
        run(c.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args)).ok()
    };
    let origin = home.dir("origin");
    git(&origin, &["init", "-q"]);
    for i in 0..200 {
        let dir = origin.join(format!("d{}", i % 7));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{i}")), pattern(i * 50, i as u64)).unwrap();
    }
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-q", "-m", "all"]);
    git(&m.dir(), &["clone", "-q", "--no-hardlinks", origin.to_str().unwrap(), "clone"]);
    git(&m.at("clone"), &["fsck", "--full", "--strict"]);
    assert_eq!(git(&m.at("clone"), &["status", "--porcelain"]).stdout, "");

    let tar = home.join("tree.tar");
    sample_tree(&home.dir("tree"));
    run(tool("tar").arg("-C").arg(home.join("tree")).arg("-cf").arg(&tar).arg(".")).ok();
    let there = m.at("untarred");
    fs::create_dir(&there).unwrap();
    run(tool("tar").arg("-C").arg(&there).arg("-xpf").arg(&tar)).ok();
    run(tool("tar").arg("-C").arg(&there).arg("-df").arg(&tar)).ok();
    run(tool("rm").arg("-r").arg(m.at("clone"))).ok();
    m.finish();
}

#[test]
fn files_live_until_their_last_user() {
    let m = mounted("1024", &[]);
    let free = || rustix::fs::statvfs(m.dir()).unwrap().f_bfree;
    let before = free();
    let mut how = File::options();
    how.read(true).write(true).create(true).truncate(true);
    let f = how.open(m.at("f")).unwrap();
    f.write_all_at(&pattern(3 << 20, 1), 0).unwrap();
    fs::remove_file(m.at("f")).unwrap();
    assert!(fs::read_dir(m.dir()).unwrap().all(|e| e.unwrap().file_name() == "lost+found"));
    f.write_all_at(b"still", 3 << 20).unwrap();
    let mut back = [0u8; 5];
    f.read_exact_at(&mut back, 3 << 20).unwrap();
    assert_eq!((&back, f.metadata().unwrap().nlink()), (b"still", 0));
    drop(f);

    // A directory that is somebody's current one, and is gone.
    fs::create_dir(m.at("d")).unwrap();
    let d = File::open(m.at("d")).unwrap();
    fs::remove_dir(m.at("d")).unwrap();
    assert_eq!(d.metadata().unwrap().nlink(), 0);
    let made = rustix::fs::mkdirat(&d, "x", rustix::fs::Mode::RWXU);
    assert_eq!(made, Err(rustix::io::Errno::NOENT));
    // Its number is not given out again while it is known.
    fs::create_dir(m.at("e")).unwrap();
    assert_ne!(d.metadata().unwrap().ino(), fs::metadata(m.at("e")).unwrap().ino());
    drop(d);
    fs::remove_dir(m.at("e")).unwrap();

    // Replaced by a rename while open.
    fs::write(m.at("new"), b"new").unwrap();
    fs::write(m.at("old"), b"old").unwrap();
    let old = File::open(m.at("old")).unwrap();
    fs::rename(m.at("new"), m.at("old")).unwrap();
    let mut text = String::new();
    (&old).read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), fs::read_to_string(m.at("old")).unwrap()), ("old", "new".into()));
    drop(old);
    fs::remove_file(m.at("old")).unwrap();
    m.ctl(&["sync"]).ok();
    assert_eq!(free(), before);
    m.finish();
}

#[test]
fn mapped_pages_arrive() {
    let mut m = mounted("4096", &[]);
    let script = "import mmap,sys\n\
        f=open(sys.argv[1],'w+b'); f.truncate(3000000)\n\
        p=mmap.mmap(f.fileno(),0)\n\
        for i in range(0,3000000,4099): p[i:i+4]=b'wall'\n\
        p.flush()\n\
        for i in range(7,3000000,65537): p[i:i+1]=b'!'\n\
        p.close()\n";
    run(tool("python3").arg("-c").arg(script).arg(m.at("f"))).ok();
    let seen = fs::read(m.at("f")).unwrap();
    assert_eq!(&seen[4099..4103], b"wall");
    m.umount();
    m.start(&[]);
    assert!(fs::read(m.at("f")).unwrap() == seen);
    m.finish();
}

#[test]
fn synchronous_writes_are_synced_one_by_one() {
    let m = mounted("4096", &[]);
    let count = |m: &Mount, site: &str| (m.stat(site, "hits"), m.stat(site, "syncs_sent"));
    let mut o = File::options();
    o.create(true).truncate(true).write(true);
    for (name, flags, site) in [("s", 0o4_010_000, "fsync_meta"), ("d", 0o10_000, "fsync_data")] {
        let f = o.clone().custom_flags(flags).open(m.at(name)).unwrap();
        let before = count(&m, site);
        (0..5).for_each(|i| f.write_all_at(&[7; 4096], i * 4096).unwrap());
        let after = count(&m, site);
        // Each write is synced before it is answered; the fsync that the kernel sends after it
        // finds everything durable.
        assert_eq!(after.0 - before.0, 10, "{name}");
        assert!(after.1 - before.1 >= 5, "{name}");
        assert!(m.stat(site, "syncs_skipped") >= 5, "{name}");
    }
    let f = o.open(m.at("plain")).unwrap();
    let hits = |m: &Mount| count(m, "fsync_meta").0 + count(m, "fsync_data").0;
    let before = hits(&m);
    (0..5).for_each(|i| f.write_all_at(&[7; 4096], i * 4096).unwrap());
    assert_eq!(hits(&m), before);
    f.sync_all().unwrap();
    assert_eq!(hits(&m), before + 1);
    drop(f);
    // fsync of the root is the syncfs of a mount.
    fs::write(m.at("other"), b"x").unwrap();
    let before = m.stat("syncfs", "hits");
    File::open(m.dir()).unwrap().sync_all().unwrap();
    assert_eq!(m.stat("syncfs", "hits"), before + 1);
    m.finish();
}

#[test]
fn close_runs_the_close_site_once_per_change() {
    let policy = "base = \"default\"\nname = \"closing\"\n\
        close = { data = \"wait\", inode = \"wait\" }\n";
    let place = image("4096", 64 << 20);
    fs::write(place.join("closing.toml"), policy).unwrap();
    let file = place.join("closing.toml");
    let m = Mount::on(place, &["--policy", file.to_str().unwrap()]);
    let mut f = File::create(m.at("f")).unwrap();
    let mark = pattern(8192, 7);
    f.write_all(&mark).unwrap();
    // Looked for in the image: to start a program, even `ctl stats`, closes a copy of the handle.
    let written = || fs::read(m.image()).unwrap().chunks(4096).any(|b| b == &mark[..4096]);
    assert!(!written());
    drop(f.try_clone().unwrap());
    assert!(written(), "a duplicate's close is a close");
    let first = m.stat("data", "writes");
    drop(f);
    assert_eq!(m.stat("data", "writes"), first, "nothing was written since");
    m.finish();

    // Without FLUSH such a policy is refused, at the start and later.
    let m = mounted("4096", &["-o", "noclose"]);
    fs::write(m.at("f"), b"x").unwrap();
    let said = m.ctl(&["policy", "strict"]).exits(1).stderr;
    assert!(said.contains("strict") && said.contains("close"), "{said}");
    m.ctl(&["policy", "linux-ext2"]).ok();
    m.finish();
    let place = image("4096", 8 << 20);
    let mut cmd = ext2srv();
    cmd.arg("mount").arg(place.join("image")).arg(place.join("mnt"));
    let said = run(cmd.args(["-o", "noclose", "--policy", "strict"])).exits(1).stderr;
    assert!(said.contains("close"), "{said}");
}

#[test]
fn names_flags_and_what_the_format_cannot() {
    let m = mounted("1024", &[]);
    let long = "n".repeat(256);
    let too_long = |e: std::io::Result<()>| assert_eq!(e.unwrap_err().raw_os_error(), Some(36));
    let at = |name: &str| m.at(name);
    fs::write(at("f"), b"x").unwrap();
    too_long(fs::metadata(at(&long)).map(drop));
    too_long(File::create(at(&long)).map(drop));
    too_long(fs::create_dir(at(&long)));
    too_long(fs::remove_file(at(&long)));
    too_long(fs::remove_dir(at(&long)));
    too_long(fs::rename(at("f"), at(&long)));
    too_long(fs::rename(at(&long), at("g")));
    too_long(fs::hard_link(at("f"), at(&long)));
    too_long(std::os::unix::fs::symlink("x", at(&long)));
    fs::write(at(&long[1..]), b"255").unwrap();

    let cwd = rustix::fs::CWD;
    let rename = |flags| rustix::fs::renameat_with(cwd, at("f"), cwd, at(&long[1..]), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    assert_eq!(rename(RenameFlags::EXCHANGE), Ok(()));
    assert_eq!(fs::read(at("f")).unwrap(), b"255");
    assert_eq!(rename(RenameFlags::EXCHANGE), Ok(()));
    assert_eq!(fs::read(at("f")).unwrap(), b"x");
    let f = File::options().write(true).open(at("f")).unwrap();
    let fallocate = |how, from, len| rustix::fs::fallocate(&f, how, from, len);
    let (keep, punch) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE);
    assert_eq!(fallocate(FallocateFlags::empty(), 0, 8192), Ok(()));
    assert_eq!(fs::metadata(at("f")).unwrap().len(), 8192);
    assert_eq!(fallocate(keep | punch, 0, 4096), Ok(()));
    assert_eq!(fs::read(at("f")).unwrap(), [0; 8192]);
    assert!(fs::metadata(at("f")).unwrap().blocks() < 12);
    for (how, from) in [(keep, 8192), (FallocateFlags::COLLAPSE_RANGE, 0)] {
        assert_eq!(fallocate(how, from, 4096), Err(rustix::io::Errno::OPNOTSUPP));
    }
    let value = rustix::fs::setxattr(at("f"), "user.x", b"1", rustix::fs::XattrFlags::empty());
    assert_eq!(value, Ok(()));
    assert_eq!(rustix::fs::listxattr(at("f"), &mut [0u8; 64]), Ok(7));

    let times = |secs: i64, nanos: i64| {
        let t = Timespec { tv_sec: secs, tv_nsec: nanos };
        let both = Timestamps { last_access: t, last_modification: t };
        rustix::fs::utimensat(cwd, at("f"), &both, rustix::fs::AtFlags::empty()).unwrap();
        let m = fs::metadata(at("f")).unwrap();
        assert_eq!((m.mtime(), m.mtime_nsec()), (secs, nanos));
    };
    times(1_000_000_000, 999_999_999);
    times(-2, 800_000_000);
    times(-1_000_000_000, 0);
    times(4_000_000_000, 5);

    run(tool("mknod").arg(at("null")).args(["c", "1", "3"])).ok();
    fs::write(at("null"), b"gone").unwrap();
    run(tool("mkfifo").arg(at("fifo"))).ok();
    assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo());
    drop(std::os::unix::net::UnixListener::bind(at("sock")).unwrap());
    fs::remove_file(at("sock")).unwrap();

    // Set-group-id directories pass on their group.
    fs::create_dir(at("team")).unwrap();
    std::os::unix::fs::chown(at("team"), None, Some(77)).unwrap();
    fs::set_permissions(at("team"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(at("team/sub")).unwrap();
    let sub = fs::metadata(at("team/sub")).unwrap();
    assert_eq!((sub.gid(), sub.mode() & 0o7000), (77, 0o2000));
    drop(f);
    m.finish();
}

#[test]
fn holes_are_found_and_appends_append() {
    let m = mounted("4096", &[]);
    let f = File::create(m.at("f")).unwrap();
    f.write_all_at(&[1; 4096], 0).unwrap();
    f.write_all_at(&[1; 4096], 1 << 20).unwrap();
    f.set_len(2 << 20).unwrap();
    let seek = |how| rustix::fs::seek(&f, how);
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(4096));
    assert_eq!(seek(SeekFrom::Data(4096)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 4096)), Err(rustix::io::Errno::NXIO));
    let mut o = File::options();
    o.append(true).create(true);
    let (mut a, mut b) = (o.open(m.at("log")).unwrap(), o.open(m.at("log")).unwrap());
    for _ in 0..100 {
        a.write_all(b"aaaa").unwrap();
        b.write_all(b"bb").unwrap();
    }
    assert_eq!(fs::read(m.at("log")).unwrap(), b"aaaabb".repeat(100));
    drop((f, a, b));
    m.finish();
}

#[test]
fn eight_writers_at_once() {
    let m = mounted("4096", &[]);
    std::thread::scope(|s| {
        for i in 0..8u64 {
            let dir = m.at(&format!("w{i}"));
            s.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for j in 0..40u64 {
                    let bytes = pattern(50_000, i * 100 + j);
                    let f = File::create(dir.join(format!("{j}"))).unwrap();
                    f.write_all_at(&bytes, 0).unwrap();
                    if j % 4 == 0 {
                        f.sync_all().unwrap();
                    }
                    assert!(fs::read(dir.join(format!("{j}"))).unwrap() == bytes);
                    if j % 3 == 0 {
                        fs::remove_file(dir.join(format!("{j}"))).unwrap();
                    }
                }
            });
        }
    });
    m.finish();
}

#[test]
fn a_full_volume_and_room_again() {
    let m = Mount::on(image("1024", 8 << 20), &[]);
    for _ in 0..3 {
        let mut f = File::create(m.at("big")).unwrap();
        let full = loop {
            if let Err(e) = f.write_all(&[5; 65_536]) {
                break e;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        drop(f);
        fs::remove_file(m.at("big")).unwrap();
        fs::write(m.at("small"), pattern(2 << 20, 4)).unwrap();
        fs::remove_file(m.at("small")).unwrap();
    }
    m.finish();
}

#[test]
fn changes_by_rpc_clients_are_seen() {
    let m = mounted("4096", &[]);
    fs::write(m.at("f"), b"old").unwrap();
    assert_eq!(fs::read(m.at("f")).unwrap(), b"old");
    assert!(!m.at("g").exists());
    let seawall = |args: &[&str]| run(Command::new(bin("seawall")).arg("fs").args(args)).ok();
    let there = |path: &str| format!("{}:{path}", m.place.join("socket").display());
    fs::write(m.place.join("new"), b"newer").unwrap();
    let new = m.place.join("new");
    seawall(&["put", new.to_str().unwrap(), &there("/g")]);
    assert_eq!(fs::read(m.at("g")).unwrap(), b"newer");
    seawall(&["rm", &there("/f")]);
    assert!(!m.at("f").exists());
    seawall(&["mkdir", &there("/d")]);
    let names: Vec<_> = fs::read_dir(m.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().any(|n| n == "d"), "{names:?}");
    m.finish();
}

#[test]
fn every_end_writes_back() {
    let tree = |m: &Mount| fs::write(m.at("f"), pattern(1 << 20, 9)).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut m = mounted("1024", &[]);
        tree(&m);
        m.server.as_ref().unwrap().signal(signal);
        assert_eq!(m.wait(), 0);
        assert!(!m.at("f").exists(), "unmounted");
        assert_clean(&m.image());
    }
    // Shutdown returns when the image is durable and the mount gone.
    let mut m = mounted("1024", &[]);
    tree(&m);
    m.ctl(&["shutdown"]).ok();
    assert_clean(&m.image());
    assert!(!m.at("f").exists());
    assert_eq!(m.wait(), 0);

    // Busy: umount says so and the server goes on; a signal detaches.
    let mut m = mounted("1024", &[]);
    tree(&m);
    let open = File::options().append(true).open(m.at("f")).unwrap();
    let said = run(tool("umount").arg(m.dir()));
    assert!(!said.status.success() && said.stderr.contains("busy"), "{said}");
    (&open).write_all(b"more").unwrap();
    m.server.as_ref().unwrap().terminate();
    assert_eq!(m.wait(), 0);
    assert!((&open).write_all(b"late").is_err());
    drop(open);
    assert_clean(&m.image());
    let back = LoopMount::ro(&m.image());
    assert_eq!(fs::metadata(back.path().join("f")).unwrap().len(), (1 << 20) + 4);
    back.unmount();

    // Detached by hand: the server ends with its last user.
    let mut m = mounted("1024", &[]);
    tree(&m);
    let open = File::options().append(true).open(m.at("f")).unwrap();
    run(tool("umount").arg("-l").arg(m.dir())).ok();
    (&open).write_all(b"more").unwrap();
    drop(open);
    assert_eq!(m.wait(), 0);
    assert_clean(&m.image());
}

#[test]
fn read_only_at_run_time() {
    let m = mounted("4096", &[]);
    fs::write(m.at("f"), b"x").unwrap();
    m.ctl(&["remount-ro"]).ok();
    assert_eq!(fs::write(m.at("g"), b"x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(m.at("f")).unwrap(), b"x");
    m.finish();
    let place = image("4096", 8 << 20);
    let before = fs::read(place.join("image")).unwrap();
    let mut m = Mount::on(place, &["-o", "ro"]);
    assert_eq!(fs::write(m.at("g"), b"x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    m.umount();
    assert!(fs::read(m.image()).unwrap() == before, "not a byte changed");
}

#[test]
fn a_killed_server_leaves_a_mount_that_the_next_one_names() {
    let mut m = mounted("4096", &[]);
    fs::write(m.at("f"), b"x").unwrap();
    m.ctl(&["sync"]).ok();
    m.server.take().unwrap().kill();
    assert_eq!(rustix::fs::statvfs(m.dir()).err(), Some(rustix::io::Errno::NOTCONN));
    let mut cmd = ext2srv();
    let said = run(cmd.arg("mount").arg(m.image()).arg(m.dir())).exits(1).stderr;
    assert!(said.contains("umount") && said.contains("mnt"), "{said}");
    let said = m.ctl(&["sync"]).exits(1).stderr;
    assert!(said.contains("gone"), "{said}");
    run(tool("umount").arg(m.dir())).ok();
}

#[test]
fn a_failed_start_leaves_nothing() {
    let place = image("4096", 8 << 20);
    let mount = |args: &[&str]| {
        let mut cmd = ext2srv();
        run(cmd.arg("mount").arg(place.join("image")).arg(place.join("mnt")).args(args))
    };
    let clear = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(place.path().to_str().unwrap()), "{mounts}");
    };
    let said = mount(&["-o", "nosuid,bogus=1"]).exits(2).stderr;
    assert!(said.contains("bogus") && said.contains("nosuid"), "{said}");
    clear();
    mount(&["--socket", "/nonexistent/socket"]).exits(1);
    clear();
    mount(&["--daemon", "--socket", "/nonexistent/socket"]).exits(1);
    clear();
    let said = mount(&["--daemon", "-o", "bogus"]).exits(2).stderr;
    assert!(said.contains("bogus"), "{said}");
    let mut cmd = ext2srv();
    cmd.arg("mount").arg(place.join("image")).arg(place.join("nowhere"));
    let said = run(&mut cmd).exits(1).stderr;
    assert!(said.contains("nowhere"), "{said}");
    assert_clean(&place.join("image"));
}

#[test]
fn daemons_answer_when_they_return() {
    let place = image("4096", 64 << 20);
    let mut cmd = ext2srv();
    cmd.current_dir(place.path()).args(["mount", "image", "mnt", "--daemon"]);
    let said = run(&mut cmd).ok().stderr;
    assert!(said.contains("syncfs(2)") && said.contains("mnt"), "{said}");
    let mut m = Mount { place, server: None, program: "ext2srv" };
    fs::write(m.at("f"), b"x").unwrap();
    m.ctl(&["stats"]).ok();
    m.ctl(&["shutdown"]).ok();
    assert_clean(&m.image());
    // Served and mounted at once.
    let socket = m.place.join("socket");
    let mut cmd = ext2srv();
    cmd.arg("serve").arg(m.image()).arg("--socket").arg(&socket).arg("--mount").arg(m.dir());
    m.server = Some(Proc::serve(&mut cmd, &socket));
    assert_eq!(fs::read(m.at("f")).unwrap(), b"x");
    m.finish();
}

#[test]
fn the_kernels_writeback_cache_is_handed_over() {
    let m = mounted("4096", &["-o", "kernel_writeback"]);
    let f = File::options().append(true).create(true).open(m.at("log")).unwrap();
    for i in 0..1000u32 {
        (&f).write_all(&i.to_le_bytes()).unwrap();
    }
    let copy = File::create(m.at("f")).unwrap();
    copy.write_all_at(&pattern(2 << 20, 5), 100).unwrap();
    // While both are open: a sync is not Ok before the kernel's pages are here.
    m.ctl(&["sync"]).ok();
    assert!(m.stat("data", "bytes") >= 2 << 20);
    drop((f, copy));
    let ours = m.finish();
    assert_eq!(ours[Path::new("log")].size, 4000);
}

/// Pages that a program changed through a mapping, and under `kernel_writeback` what it wrote, are
/// in the kernel when a sync begins. The kernel's own syncfs does not wait for them on FUSE.
#[test]
fn a_sync_of_the_root_waits_for_the_kernels_pages() {
    let script = "import mmap,os,sys\n\
        root=sys.argv[1]\n\
        w=os.open(root+'/written',os.O_CREAT|os.O_RDWR); os.write(w,b'W'*400000)\n\
        f=os.open(root+'/mapped',os.O_CREAT|os.O_RDWR); os.write(f,bytes(400000)); os.fsync(f)\n\
        p=mmap.mmap(f,0); p[:]=b'M'*400000\n\
        d=os.open(root,os.O_RDONLY); os.fsync(d)\n\
        print('synced',flush=True); sys.stdin.read()\n";
    for options in [&[][..], &["-o", "kernel_writeback"]] {
        for _ in 0..4 {
            let mut m = Mount::on(image("4096", 16 << 20), options);
            let mut cmd = tool("python3");
            cmd.args(["-c", script]).arg(m.dir()).stdin(std::process::Stdio::piped());
            let mut child = cmd.stdout(std::process::Stdio::piped()).spawn().unwrap();
            let mut line = [0; 7];
            child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
            m.server.take().unwrap().kill();
            child.kill().unwrap();
            child.wait().unwrap();
            run(tool("umount").arg("-l").arg(m.dir())).ok();
            let image = m.image();
            let seen = LoopMount::ro(&image);
            for (name, byte) in [("written", b'W'), ("mapped", b'M')] {
                let data = fs::read(seen.path().join(name)).unwrap();
                let good = data.iter().filter(|b| **b == byte).count();
                assert_eq!(good, 400_000, "{name} with {options:?}");
            }
            seen.unmount();
        }
    }
}

/// fsync of the root is that of a directory, whatever the policy asks of syncfs.
#[test]
fn the_roots_names_are_durable_after_its_fsync() {
    let m = mounted("4096", &["--policy", "linux-ext2"]);
    fs::write(m.at("f"), b"x").unwrap();
    let sent = m.stat("fsync_meta", "syncs_sent");
    File::open(m.dir()).unwrap().sync_all().unwrap();
    assert_eq!(m.stat("fsync_meta", "syncs_sent"), sent + 1);
    m.finish();
}

/// A second place of the same mount does not hold up the end, and what went through it is there.
#[test]
fn a_mount_that_is_bound_elsewhere_ends() {
    let mut m = mounted("4096", &[]);
    let other = m.place.dir("other");
    run(tool("mount").arg("--bind").arg(m.dir()).arg(&other)).ok();
    fs::write(other.join("f"), b"through the other place").unwrap();
    m.ctl(&["shutdown"]).ok();
    assert_eq!(m.wait(), 0);
    assert!(fs::write(other.join("g"), b"late").is_err());
    run(tool("umount").arg("-l").arg(&other)).ok();
    assert_clean(&m.image());
    let seen = LoopMount::ro(&m.image());
    assert_eq!(fs::read(seen.path().join("f")).unwrap(), b"through the other place");
    seen.unmount();
}

/// Pages that find no room are told to the one who syncs everything. The kernel may tell it once
/// more by itself, of the same pages; then it is over.
#[test]
fn a_sync_of_the_root_tells_of_pages_that_could_not_be_written() {
    let mut m = Mount::on(image("4096", 8 << 20), &["-o", "kernel_writeback"]);
    let root = File::open(m.dir()).unwrap();
    let f = File::create(m.at("f")).unwrap();
    f.write_all_at(&pattern(16 << 20, 1), 0).unwrap();
    assert!(root.sync_all().is_err(), "8 MiB hold no 16 MiB");
    assert!((0..2).any(|_| root.sync_all().is_ok()));
    drop((f, root));
    fs::remove_file(m.at("f")).unwrap();
    m.umount();
}

/// A detached mount still answers through what is open in it, and its sync covers the pages.
#[test]
fn a_sync_through_a_detached_mount_is_one() {
    let mut m = Mount::on(image("4096", 16 << 20), &["-o", "kernel_writeback"]);
    let root = File::open(m.dir()).unwrap();
    let f = File::create(m.at("f")).unwrap();
    let data = pattern(400_000, 1);
    f.write_all_at(&data, 0).unwrap();
    run(tool("umount").arg("-l").arg(m.dir())).ok();
    root.sync_all().unwrap();
    m.server.take().unwrap().kill();
    drop((f, root));
    let seen = LoopMount::ro(&m.image());
    assert!(fs::read(seen.path().join("f")).unwrap() == data);
    seen.unmount();
}
