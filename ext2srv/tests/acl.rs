//! POSIX access lists: the engine decides, inherits and keeps mode and list in step as the kernel's
//! own ext2 does on the same volume.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{Plain, plain};
use rustix::fs::XattrFlags;
use seawall_diskfs::{Cred, Ctx, NewNode, SetAttr};
use seawall_tests::{LoopMount, Scratch, assert_clean, mke2fs, run, tool};
use std::fmt::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NOBODY: u32 = u32::MAX;

/// `u::rwx,u:1000:r--,..` in the form of the kernel's attribute.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&perm.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

fn lists() -> Vec<Vec<u8>> {
    let (u, g, o) = (1, 4, 0x20);
    vec![
        acl(&[(u, 7, NOBODY), (2, 4, 1001), (g, 5, NOBODY), (0x10, 7, NOBODY), (o, 0, NOBODY)]),
        acl(&[(u, 6, NOBODY), (2, 7, 1001), (g, 0, NOBODY), (0x10, 2, NOBODY), (o, 4, NOBODY)]),
        acl(&[
            (u, 0, NOBODY),
            (2, 0, 1001),
            (g, 6, NOBODY),
            (8, 1, 300),
            (8, 4, 301),
            (0x10, 5, NOBODY),
            (o, 7, NOBODY),
        ]),
        acl(&[(u, 7, NOBODY), (g, 0, NOBODY), (8, 7, 300), (0x10, 0, NOBODY), (o, 7, NOBODY)]),
        acl(&[(u, 6, NOBODY), (g, 4, NOBODY), (o, 0, NOBODY)]),
        acl(&[(u, 7, NOBODY), (g, 7, NOBODY), (0x10, 1, NOBODY), (o, 2, NOBODY)]),
    ]
}

fn creds() -> Vec<Cred> {
    let cred = |uid, gid, groups: &[u32]| Cred { uid, gid, groups: groups.to_vec() };
    vec![
        cred(1000, 70_000, &[]),
        cred(1001, 5, &[]),
        cred(1002, 70_000, &[]),
        cred(1002, 5, &[300]),
        cred(1002, 5, &[300, 301]),
        cred(1002, 300, &[70_000]),
        cred(1003, 6, &[]),
    ]
}

fn image(dir: &Scratch, inode_size: &str) -> PathBuf {
    let path = dir.join("image");
    mke2fs(&path, 8 << 20, &["-b", "1024", "-I", inode_size]);
    path
}

fn kernel_set(at: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(at, name, value, XattrFlags::empty()).unwrap();
}

fn kernel_get(at: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    match rustix::fs::getxattr(at, name, &mut value) {
        Ok(n) => Some(value[..n].to_vec()),
        Err(rustix::io::Errno::NODATA) => None,
        Err(e) => panic!("{}: {name}: {e}", at.display()),
    }
}

fn engine_get(v: &mut Plain, at: &str, name: &str) -> Option<Vec<u8>> {
    match v.attr(at, name) {
        Ok(value) => Some(value),
        Err(e) if e.errno() == 61 => None,
        Err(e) => panic!("{at}: {name}: {e}"),
    }
}

/// Mode, access list, default list.
type Rights = (u32, Option<Vec<u8>>, Option<Vec<u8>>);

fn kernel_rights(at: &Path) -> Rights {
    let mode = std::fs::metadata(at).unwrap().mode() & 0o7777;
    (mode, kernel_get(at, ACCESS), kernel_get(at, DEFAULT))
}

fn engine_rights(v: &mut Plain, at: &str) -> Rights {
    let mode = v.stat(at).unwrap().mode;
    (mode, engine_get(v, at, ACCESS), engine_get(v, at, DEFAULT))
}

#[test]
fn the_same_answers_as_the_kernel() {
    let dir = Scratch::new();
    let path = image(&dir, "256");
    let mut v = plain(&path, "default");
    let files: Vec<String> = (0..lists().len()).map(|i| format!("/f{i}")).collect();
    for (at, list) in files.iter().zip(lists()) {
        v.create(at).unwrap();
        v.set_attr(at, ACCESS, &list).unwrap();
    }
    let mut mine = String::new();
    for cred in creds() {
        for at in &files {
            let (ino, ctx) =
                (v.stat(at).unwrap().ino, Ctx { cred: Some(cred.clone()), ..v.ctx.clone() });
            for want in [4, 2, 1] {
                let may = v.run(|fs, t| fs.access(&ctx, ino, want, t)).is_ok();
                write!(mine, "{}", u8::from(may)).unwrap();
            }
        }
        mine.push('\n');
    }
    v.unmount();
    assert_clean(&path);
    let mount = LoopMount::with(&path, "loop,acl");
    let mut theirs = String::new();
    for cred in creds() {
        let groups: Vec<String> = cred.groups.iter().map(u32::to_string).collect();
        let script = "for f in 0 1 2 3 4 5; do for t in r w x; do \
                      if [ -$t $1/f$f ]; then printf 1; else printf 0; fi; done; done";
        let mut setpriv = tool("setpriv");
        setpriv.args(["--reuid", &cred.uid.to_string(), "--regid", &cred.gid.to_string()]);
        if groups.is_empty() {
            setpriv.arg("--clear-groups");
        } else {
            setpriv.args(["--groups", &groups.join(",")]);
        }
        let seen = run(setpriv.args(["sh", "-c", script, "sh"]).arg(mount.path())).ok();
        theirs.push_str(&seen.stdout);
        theirs.push('\n');
    }
    mount.unmount();
    assert_eq!(mine, theirs);
    assert!(mine.contains('1') && mine.contains('0'));
}

#[test]
fn mode_and_list_stay_in_step() {
    for inode_size in ["128", "256"] {
        let dir = Scratch::new();
        let path = image(&dir, inode_size);
        let modes = [0o640, 0o777, 0o2710, 0o000, 0o604];
        let mut v = plain(&path, "default");
        v.create("/theirs").unwrap();
        v.unmount();
        let mount = LoopMount::with(&path, "loop,acl");
        let file = mount.path().join("theirs");
        let mut expected = Vec::new();
        for list in lists() {
            kernel_set(&file, ACCESS, &list);
            expected.push(kernel_rights(&file));
            for mode in modes {
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
                expected.push(kernel_rights(&file));
            }
        }
        mount.unmount();
        let mut v = plain(&path, "default");
        v.create("/mine").unwrap();
        let mut got = Vec::new();
        for list in lists() {
            v.set_attr("/mine", ACCESS, &list).unwrap();
            got.push(engine_rights(&mut v, "/mine"));
            for mode in modes {
                v.set("/mine", SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
                got.push(engine_rights(&mut v, "/mine"));
            }
        }
        assert_eq!(got, expected, "inodes of {inode_size}");
        v.remove_attr("/mine", ACCESS).unwrap();
        assert_eq!(engine_get(&mut v, "/mine", ACCESS), None);
        v.unmount();
        assert_clean(&path);
    }
}

#[test]
fn new_nodes_inherit_as_the_kernel_has_it() {
    for inode_size in ["128", "256"] {
        let dir = Scratch::new();
        let path = image(&dir, inode_size);
        let mount = LoopMount::with(&path, "loop,acl");
        for (i, list) in lists().iter().enumerate() {
            let at = mount.path().join(format!("d{i}"));
            std::fs::create_dir(&at).unwrap();
            kernel_set(&at, DEFAULT, list);
        }
        let modes = [0o666, 0o640, 0o700, 0o4755, 0o111];
        let mut expected = Vec::new();
        for i in 0..lists().len() {
            for mode in modes {
                let at = mount.path().join(format!("d{i}/k{mode}"));
                let kernel = rustix::fs::Mode::from_raw_mode(mode);
                // Another test may start a program at any time.
                let close = rustix::fs::OFlags::CLOEXEC;
                let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY | close;
                drop(rustix::fs::open(&at, flags, kernel).unwrap());
                expected.push(kernel_rights(&at));
                let at = mount.path().join(format!("d{i}/kd{mode}"));
                rustix::fs::mkdir(&at, kernel).unwrap();
                expected.push(kernel_rights(&at));
            }
        }
        mount.unmount();
        let mut v = plain(&path, "default");
        let mut got = Vec::new();
        for i in 0..lists().len() {
            for mode in modes {
                let at = format!("/d{i}/e{mode}");
                v.make(&at, NewNode::File, mode).unwrap();
                got.push(engine_rights(&mut v, &at));
                let at = format!("/d{i}/ed{mode}");
                v.make(&at, NewNode::Dir, mode).unwrap();
                got.push(engine_rights(&mut v, &at));
            }
        }
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            // mkdir(2) takes no set-id bits.
            let mode = |r: &Rights| r.0 & 0o777;
            assert_eq!(
                (mode(got), &got.1, &got.2),
                (mode(expected), &expected.1, &expected.2),
                "{i}"
            );
        }
        v.symlink("/d0/s", b"t").unwrap();
        v.make("/d0/p", NewNode::Special(seawall_diskfs::Kind::Fifo, (0, 0)), 0o666).unwrap();
        v.unmount();
        assert_clean(&path);
    }
}

#[test]
fn the_umask_counts_where_no_list_does() {
    let dir = Scratch::new();
    let path = image(&dir, "256");
    let mut v = plain(&path, "default");
    v.ctx.umask = 0o027;
    v.mkdir("/d").unwrap();
    assert_eq!(v.stat("/d").unwrap().mode, 0o750);
    v.set_attr("/d", DEFAULT, &lists()[4]).unwrap();
    v.make("/d/f", NewNode::File, 0o666).unwrap();
    assert_eq!(engine_rights(&mut v, "/d/f"), (0o640, None, None));
    v.unmount();
}

#[test]
fn what_is_refused() {
    let dir = Scratch::new();
    let path = image(&dir, "256");
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.mkdir("/d").unwrap();
    v.symlink("/s", b"t").unwrap();
    let list = lists().swap_remove(0);
    let errno = |r: common::Res<()>| r.unwrap_err().errno();
    assert_eq!(errno(v.set_attr("/f", DEFAULT, &list)), 13);
    assert_eq!(errno(v.set_attr("/s", ACCESS, &list)), 95);
    assert_eq!(errno(v.set_attr("/f", ACCESS, &list[..10])), 22);
    let root = v.ctx.clone();
    v.ctx.cred = Some(Cred { uid: 1001, gid: 1, groups: vec![] });
    assert_eq!(errno(v.set_attr("/f", ACCESS, &list)), 1);
    v.ctx = root;
    // An empty list takes it away.
    v.set_attr("/f", ACCESS, &list).unwrap();
    v.set_attr("/f", ACCESS, &acl(&[])).unwrap();
    assert_eq!(v.attrs("/f").unwrap(), [""; 0]);
    v.set_attr("/f", ACCESS, &list).unwrap();
    v.set_attr("/f", ACCESS, b"").unwrap();
    assert_eq!(v.attrs("/f").unwrap(), [""; 0]);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn a_search_right_by_list_counts_on_the_way() {
    let dir = Scratch::new();
    let path = image(&dir, "128");
    let mut v = plain(&path, "default");
    v.make("/d", NewNode::Dir, 0o700).unwrap();
    v.create("/d/f").unwrap();
    v.set_attr("/d", ACCESS, &lists()[0]).unwrap();
    let ctx = v.ctx.clone();
    v.ctx.cred = Some(Cred { uid: 1001, gid: 1, groups: vec![] });
    assert_eq!(v.stat("/d/f").unwrap_err().errno(), 13, "r-- is no right to search");
    v.ctx.cred = Some(Cred { uid: 1002, gid: 70_000, groups: vec![] });
    v.stat("/d/f").unwrap();
    assert_eq!(v.unlink("/d/f").unwrap_err().errno(), 13);
    v.ctx = ctx;
    v.unmount();
    assert_clean(&path);
}
