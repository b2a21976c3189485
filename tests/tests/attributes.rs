//! Attributes of nodes on the FUSE mount: extended attributes, access lists, inode flags, access
//! times and the reserve, with the kernel's own ext2 as the one who knows what is right.
//!
//! Needs root and /dev/fuse.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use seawall_tests::{LoopMount, Mount, Scratch, mke2fs, run, tool};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn mounted(args: &[&str], options: &str) -> Mount {
    Mount::on(Mount::place(16 << 20, args), &["-o", options])
}

fn get(at: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 64 << 10];
    let n = rustix::fs::lgetxattr(at, name, &mut value)?;
    value.truncate(n);
    Ok(value)
}

fn set(at: &Path, name: &str, value: &[u8]) -> Result<(), Errno> {
    rustix::fs::lsetxattr(at, name, value, XattrFlags::empty())
}

fn list(at: &Path) -> Vec<String> {
    let mut names = vec![0; 64 << 10];
    let n = rustix::fs::llistxattr(at, &mut names).unwrap();
    let names = names[..n].split(|b| *b == 0).filter(|n| !n.is_empty());
    let mut names: Vec<String> = names.map(|n| String::from_utf8(n.to_vec()).unwrap()).collect();
    names.sort();
    names
}

/// What a sequence of calls gives, line by line.
fn calls(dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let f = dir.join("f");
    fs::write(&f, b"x").unwrap();
    fs::create_dir(dir.join("d")).unwrap();
    std::os::unix::fs::symlink("f", dir.join("s")).unwrap();
    let big = vec![b'v'; 5000];
    for (at, name, value) in [
        ("f", "user.one", b"1".as_slice()),
        ("f", "user.empty", b""),
        ("f", "user.big", &big),
        ("f", "trusted.t", b"t"),
        ("f", "security.label", b"l"),
        ("f", "user.", b""),
        ("f", "nospace", b""),
        ("d", "user.d", b"d"),
        ("s", "user.s", b"s"),
        ("s", "trusted.s", b"s"),
        ("f", "user.one", b"changed"),
    ] {
        out.push(format!("set {at} {name}: {:?}", set(&dir.join(at), name, value)));
    }
    for (flags, name) in [
        (XattrFlags::CREATE, "user.one"),
        (XattrFlags::REPLACE, "user.none"),
        (XattrFlags::CREATE, "user.new"),
        (XattrFlags::REPLACE, "user.new"),
    ] {
        let done = rustix::fs::setxattr(&f, name, b"flagged", flags);
        out.push(format!("{flags:?} {name}: {done:?}"));
    }
    for name in ["user.one", "user.empty", "user.none", "trusted.t", "security.label"] {
        out.push(format!("get {name}: {:?}", get(&f, name)));
    }
    let mut small = [0u8; 2];
    out.push(format!("short: {:?}", rustix::fs::getxattr(&f, "user.one", &mut small)));
    out.push(format!("size: {:?}", rustix::fs::getxattr(&f, "user.one", &mut [0u8; 0])));
    out.push(format!("short list: {:?}", rustix::fs::listxattr(&f, &mut small)));
    for at in ["f", "d", "s"] {
        out.push(format!("list {at}: {:?}", list(&dir.join(at))));
    }
    for name in ["user.one", "user.one", "trusted.t"] {
        out.push(format!("remove {name}: {:?}", rustix::fs::removexattr(&f, name)));
    }
    out.push(format!("list: {:?}", list(&f)));
    out
}

#[test]
fn extended_attributes_as_on_the_kernels_ext2() {
    for args in [&["-b", "1024", "-I", "128"], &["-b", "4096", "-I", "256"]] {
        let image = Scratch::new();
        mke2fs(&image.join("image"), 16 << 20, args);
        let theirs = LoopMount::with(&image.join("image"), "loop,user_xattr,acl");
        let expected = calls(theirs.path());
        theirs.unmount();
        let mut m = mounted(args, "rw");
        assert_eq!(calls(&m.dir()), expected, "{args:?}");
        m.umount();
        let theirs = LoopMount::with(&m.image(), "loop,user_xattr,acl");
        assert_eq!(get(&theirs.path().join("f"), "user.new").unwrap(), b"flagged");
        theirs.unmount();
    }
}

const NOBODY: u32 = u32::MAX;

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&perm.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

fn as_user(uid: u32, gid: u32, script: &str, dir: &Path) -> String {
    let mut cmd = tool("setpriv");
    cmd.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
    let seen = run(cmd.args(["sh", "-c", script, "sh"]).arg(dir));
    format!("{}{}", seen.code(), seen.stdout.trim())
}

/// What several users get to see, and what becomes of modes and lists.
fn rights(dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let access = "system.posix_acl_access";
    let default = "system.posix_acl_default";
    let a = acl(&[
        (1, 7, NOBODY),
        (2, 6, 1001),
        (4, 0, NOBODY),
        (8, 4, 300),
        (0x10, 6, NOBODY),
        (0x20, 0, NOBODY),
    ]);
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("f"), b"secret").unwrap();
    set(&dir.join("f"), access, &a).unwrap();
    fs::create_dir(dir.join("d")).unwrap();
    set(&dir.join("d"), default, &a).unwrap();
    let stat = |name: &str| {
        let at = dir.join(name);
        let mode = fs::metadata(&at).unwrap().mode();
        format!("{name} {mode:o} {:?} {:?}", get(&at, access), get(&at, default))
    };
    out.push(stat("f"));
    out.push(stat("d"));
    let script = "cat $1/f; echo x 2>/dev/null >>$1/f; echo $?";
    for (uid, gid) in [(1001, 9), (1002, 300), (1002, 9)] {
        out.push(as_user(uid, gid, script, dir));
    }
    run(tool("sh").args(["-c", "umask 077; echo >$1/d/new; mkdir $1/d/sub", "sh"]).arg(dir)).ok();
    out.push(stat("d/new"));
    out.push(stat("d/sub"));
    fs::set_permissions(dir.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    out.push(stat("f"));
    out.push(as_user(1001, 9, script, dir));
    run(tool("sh").args(["-c", "umask 027; echo >$1/plain; mkdir $1/sub", "sh"]).arg(dir)).ok();
    out.push(stat("plain"));
    out.push(stat("sub"));
    out
}

#[test]
fn access_lists_as_on_the_kernels_ext2() {
    let args = ["-b", "1024", "-I", "256"];
    let image = Scratch::new();
    mke2fs(&image.join("image"), 16 << 20, &args);
    let theirs = LoopMount::with(&image.join("image"), "loop,acl");
    let expected = rights(theirs.path());
    theirs.unmount();
    let mut m = mounted(&args, "rw");
    assert_eq!(rights(&m.dir()), expected);
    m.umount();
    // Without: the mode says everything, and lists are kept.
    m.start(&["-o", "noacl"]);
    assert_eq!(set(&m.at("f"), "system.posix_acl_access", b""), Err(Errno::OPNOTSUPP));
    m.umount();
    let theirs = LoopMount::with(&m.image(), "loop,acl");
    assert!(get(&theirs.path().join("d"), "system.posix_acl_default").is_ok());
    theirs.unmount();
}

#[test]
fn lsattr_and_chattr() {
    let mut m = mounted(&[], "rw");
    fs::write(m.at("f"), b"content").unwrap();
    fs::create_dir(m.at("d")).unwrap();
    let chattr = |how: &str, name: &str| run(tool("chattr").arg(how).arg(m.at(name))).ok();
    chattr("+i", "f");
    chattr("+a", "d");
    let seen = run(tool("lsattr").arg(m.dir())).ok().stdout;
    let flags = |name: &str| {
        let line = seen.lines().find(|l| l.ends_with(name)).unwrap_or_else(|| panic!("{seen}"));
        line.split_whitespace().next().unwrap().replace('-', "")
    };
    assert_eq!((flags("/f"), flags("/d")), ("i".into(), "a".into()));
    let denied = |r: std::io::Result<()>| assert_eq!(r.unwrap_err().raw_os_error(), Some(1));
    denied(fs::write(m.at("f"), b"x"));
    denied(fs::remove_file(m.at("f")));
    denied(fs::rename(m.at("f"), m.at("g")));
    denied(fs::hard_link(m.at("f"), m.at("g")));
    denied(fs::set_permissions(m.at("f"), fs::Permissions::from_mode(0o600)));
    assert_eq!(set(&m.at("f"), "user.x", b""), Err(Errno::PERM));
    fs::write(m.at("d/new"), b"").unwrap();
    denied(fs::remove_file(m.at("d/new")));
    chattr("-i", "f");
    chattr("+a", "f");
    denied(fs::write(m.at("f"), b"x"));
    let mut log = File::options().append(true).open(m.at("f")).unwrap();
    std::io::Write::write_all(&mut log, b" and more").unwrap();
    drop(log);
    denied(File::options().append(true).open(m.at("f")).unwrap().set_len(0));
    assert_eq!(fs::read(m.at("f")).unwrap(), b"content and more");
    let e = as_user(1000, 1000, "chattr -a $1/f 2>/dev/null", &m.dir());
    assert_ne!(e, "0");
    chattr("-a", "f");
    chattr("-a", "d");
    fs::remove_file(m.at("f")).unwrap();
    m.umount();
}

#[test]
fn access_times_on_the_mount() {
    let mut m = mounted(&[], "rw");
    let old = "2001-01-01 00:00:00";
    fs::write(m.at("f"), b"content").unwrap();
    run(tool("touch").args(["-a", "-d", old]).arg(m.at("f"))).ok();
    let atime = |m: &Mount| fs::metadata(m.at("f")).unwrap().atime();
    assert_eq!(atime(&m), 978_307_200);
    fs::read(m.at("f")).unwrap();
    let read = atime(&m);
    assert!(read > 978_307_200, "relatime, and the pages were in the kernel");
    m.umount();
    // A thousand reads write nothing.
    m.start(&["-o", "noatime"]);
    run(tool("touch").args(["-a", "-d", old]).arg(m.at("f"))).ok();
    m.ctl(&["sync"]).ok();
    let written = |m: &Mount| {
        let text = m.ctl(&["stats", "--json"]).ok().stdout;
        text.matches("\"writes\": ").count();
        let n = text.split("acknowledged sequence").nth(1).unwrap();
        n.chars().filter(char::is_ascii_digit).take(12).collect::<String>()
    };
    let before = written(&m);
    for _ in 0..1000 {
        fs::read(m.at("f")).unwrap();
    }
    m.ctl(&["sync"]).ok();
    assert_eq!(written(&m), before);
    assert_eq!(atime(&m), 978_307_200);
    m.umount();
    let bytes = fs::read(m.image()).unwrap();
    m.start(&["-o", "ro,strictatime"]);
    fs::read(m.at("f")).unwrap();
    assert_eq!(atime(&m), 978_307_200);
    m.umount();
    assert!(bytes == fs::read(m.image()).unwrap(), "a read-only mount writes nothing");
}

#[test]
fn the_reserve_on_the_mount() {
    let mut m = mounted(&["-m", "10"], "resuid=1001");
    fs::set_permissions(m.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let fill = "dd if=/dev/zero of=$1/f bs=64k 2>/dev/null; \
                dd if=/dev/zero of=$1/f bs=1k oflag=append conv=notrunc 2>/dev/null";
    assert_ne!(as_user(1000, 1000, fill, &m.dir()), "0");
    let left = |m: &Mount| {
        let s = rustix::fs::statvfs(m.dir()).unwrap();
        (s.f_bfree > 100, s.f_bavail)
    };
    assert_eq!(left(&m), (true, 0));
    assert_ne!(as_user(1002, 0, "echo >$1/no; [ -s $1/no ]", &m.dir()), "0");
    assert_eq!(as_user(1001, 1001, "echo >$1/yes; [ -s $1/yes ]", &m.dir()), "0");
    fs::write(m.at("root"), b"x").unwrap();
    m.umount();
}

#[test]
fn without_checks_the_mounts_user_is_alone() {
    let mut m = mounted(&[], "noperm");
    fs::write(m.at("f"), b"x").unwrap();
    fs::set_permissions(m.at("f"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_ne!(as_user(1000, 1000, "cat $1/f 2>/dev/null", &m.dir()), "0x");
    m.umount();
}

#[test]
fn attributes_over_the_socket() {
    let mut m = mounted(&["-b", "1024", "-o", "hurd", "-O", "none,sparse_super"], "rw");
    fs::write(m.at("f"), b"x").unwrap();
    set(&m.at("f"), "gnu.translator", b"/hurd/firmlink\0/plain\0").unwrap();
    assert_eq!(m.fs(&["showtrans"], "/f").ok().stdout.trim(), "/hurd/firmlink /plain");
    run(tool("chattr").arg("+d").arg(m.at("f"))).ok();
    let shown = m.fs(&["stat"], "/f").ok().stdout;
    assert!(shown.contains("flags") && shown.contains("gnu.translator"), "{shown}");
    m.umount();
}
