//! Extended attributes: the kernel, e2fsck and debugfs see what the engine wrote, and the other way
//! round.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/attrs.rs"]
mod attrs;
#[path = "common/volume.rs"]
mod common;

use attrs::Attrs;
use common::{Cold, Plain, Res, cold, plain};
use seawall_diskfs::{Cred, Ctx, FsError, NewNode, Refused, XattrHow};
use seawall_tests::{
    LoopMount, Scratch, assert_clean, debugfs, debugfs_write, dumpe2fs, e2fsck, mke2fs,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

fn image(dir: &Scratch, args: &[&str]) -> PathBuf {
    let path = dir.join("image");
    mke2fs(&path, 8 * MIB, args);
    path
}

fn errno<T: std::fmt::Debug>(r: Res<T>) -> i32 {
    r.unwrap_err().errno()
}

/// Attributes of a local file as a map.
fn kernel_attrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let n = rustix::fs::llistxattr(path, &mut names).unwrap();
    let names = names[..n].split(|b| *b == 0).filter(|n| !n.is_empty());
    let get = |name: &str| {
        let mut value = vec![0; 64 << 10];
        let n = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
        value.truncate(n);
        value
    };
    names.map(|n| String::from_utf8(n.to_vec()).unwrap()).map(|n| (n.clone(), get(&n))).collect()
}

fn engine_attrs(v: &mut Plain, path: &str) -> BTreeMap<String, Vec<u8>> {
    let names = v.attrs(path).unwrap();
    names.into_iter().map(|n| (n.clone(), v.attr(path, &n).unwrap())).collect()
}

const SHAPES: [&[&str]; 4] = [
    &["-b", "1024", "-I", "128"],
    &["-b", "1024", "-I", "256"],
    &["-b", "4096", "-I", "256"],
    &["-b", "4096", "-I", "1024"],
];

#[test]
fn the_kernel_reads_what_the_engine_wrote() {
    for shape in SHAPES {
        let dir = Scratch::new();
        let path = image(&dir, shape);
        let mut v = plain(&path, "default");
        v.create("/f").unwrap();
        v.mkdir("/d").unwrap();
        v.symlink("/s", b"target").unwrap();
        let long = vec![7u8; 300];
        for (at, name, value) in [
            ("/f", "user.small", b"1".as_slice()),
            ("/f", "user.long", &long),
            ("/f", "user.empty", b""),
            ("/f", "trusted.t", b"root only"),
            ("/f", "security.selinux", b"system_u:object_r:x:s0\0"),
            ("/f", "gnu.translator", b"/hurd/null\0"),
            ("/d", "user.d", b"dir"),
            ("/s", "trusted.s", b"link"),
        ] {
            v.set_attr(at, name, value).unwrap();
        }
        v.set_attr("/f", "user.small", b"changed").unwrap();
        let mine: Vec<_> = ["/f", "/d", "/s"].map(|p| engine_attrs(&mut v, p)).into();
        assert_eq!(mine[0].len(), 6);
        v.unmount();
        assert_clean(&path);
        let mount = LoopMount::with(&path, "loop,user_xattr,acl");
        for (p, mine) in ["f", "d", "s"].iter().zip(&mine) {
            assert_eq!(&kernel_attrs(&mount.path().join(p)), mine, "{shape:?} {p}");
        }
        mount.unmount();
        let listed = debugfs(&path, "ea_list /f");
        assert!(listed.contains("user.long") && listed.contains("security.selinux"), "{listed}");
    }
}

#[test]
fn the_engine_reads_and_changes_what_the_kernel_wrote() {
    for shape in SHAPES {
        let dir = Scratch::new();
        let path = image(&dir, shape);
        let mount = LoopMount::with(&path, "loop,user_xattr,acl");
        let f = mount.path().join("f");
        std::fs::write(&f, b"x").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        for i in 0..8 {
            let value = vec![b'a' + i; 10 * usize::from(i)];
            rustix::fs::setxattr(&f, format!("user.n{i}"), &value, flags).unwrap();
        }
        rustix::fs::setxattr(&f, "trusted.z", b"t", flags).unwrap();
        let mut theirs = kernel_attrs(&f);
        mount.unmount();
        let mut v = plain(&path, "default");
        assert_eq!(engine_attrs(&mut v, "/f"), theirs, "{shape:?}");
        v.set_attr("/f", "user.n3", b"mine").unwrap();
        v.remove_attr("/f", "user.n7").unwrap();
        v.set_attr("/f", "security.new", &[1; 100]).unwrap();
        theirs.insert("user.n3".into(), b"mine".to_vec());
        theirs.remove("user.n7");
        theirs.insert("security.new".into(), vec![1; 100]);
        assert_eq!(engine_attrs(&mut v, "/f"), theirs);
        v.unmount();
        assert_clean(&path);
        let mount = LoopMount::with(&path, "loop,user_xattr,acl");
        let f = mount.path().join("f");
        assert_eq!(kernel_attrs(&f), theirs, "{shape:?}");
        // The kernel finds its way in the order of the table.
        rustix::fs::setxattr(&f, "user.n5", b"again", flags).unwrap();
        rustix::fs::removexattr(&f, "user.n1").unwrap();
        mount.unmount();
        assert_clean(&path);
        let mut v = plain(&path, "default");
        assert_eq!(v.attr("/f", "user.n5").unwrap(), b"again");
        assert_eq!(errno(v.attr("/f", "user.n1")), 61);
        v.unmount();
    }
}

#[test]
fn results_as_linux_gives_them() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "128"]);
    let mut v: Cold = cold(&path, "default");
    v.create("/f").unwrap();
    v.symlink("/s", b"t").unwrap();
    assert_eq!(errno(v.attr("/f", "user.a")), 61);
    assert_eq!(errno(v.remove_attr("/f", "user.a")), 61);
    assert_eq!(errno(v.set_attr_how("/f", "user.a", b"", XattrHow::Replace)), 61);
    v.set_attr_how("/f", "user.a", b"1", XattrHow::Create).unwrap();
    assert_eq!(errno(v.set_attr_how("/f", "user.a", b"2", XattrHow::Create)), 17);
    v.set_attr_how("/f", "user.a", b"3", XattrHow::Replace).unwrap();
    assert_eq!(v.attr("/f", "user.a").unwrap(), b"3");
    // Header 32, entry 20, end 4 and the entry of user.a with its value 24.
    assert_eq!(errno(v.set_attr("/f", "user.b", &[0; 1024 - 80 + 1])), 28);
    v.set_attr("/f", "user.b", &[0; 1024 - 80]).unwrap();
    assert_eq!(v.attr("/f", "user.b").unwrap().len(), 944);
    assert_eq!(errno(v.set_attr("/f", "user.c", b"")), 28);
    assert_eq!(errno(v.set_attr("/f", "user.big", &vec![0; (64 << 10) + 1])), 7);
    assert_eq!(errno(v.set_attr("/f", &format!("user.{}", "n".repeat(251)), b"")), 34);
    for name in ["user.", "nothing", "system.data", "lustre.x"] {
        let e = errno(v.set_attr("/f", name, b""));
        assert!(e == 22 || e == 95, "{name}: {e}");
    }
    assert_eq!(errno(v.set_attr("/s", "user.a", b"")), 1);
    assert_eq!(errno(v.attr("/s", "user.a")), 61);
    assert_eq!(v.attrs("/f").unwrap(), ["user.a", "user.b"]);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn who_may() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024"]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.make("/t", NewNode::Dir, 0o1777).unwrap();
    v.set_attr("/f", "trusted.t", b"").unwrap();
    v.set_attr("/f", "user.u", b"1").unwrap();
    let root = v.ctx.clone();
    let other = |uid| Ctx { cred: Some(Cred { uid, gid: 9, groups: vec![] }), ..root.clone() };
    v.ctx = other(5);
    assert_eq!(v.attr("/f", "user.u").unwrap(), b"1");
    assert_eq!(errno(v.set_attr("/f", "user.u", b"")), 13);
    assert_eq!(errno(v.attr("/f", "trusted.t")), 61);
    assert_eq!(errno(v.set_attr("/f", "trusted.t", b"")), 1);
    assert_eq!(errno(v.set_attr("/f", "security.x", b"")), 1);
    assert_eq!(errno(v.set_attr("/t", "user.x", b"")), 1);
    assert_eq!(v.attrs("/f").unwrap(), ["user.u"]);
    v.ctx = other(1000);
    v.set_attr("/f", "user.u", b"2").unwrap();
    v.set_attr("/t", "user.x", b"").unwrap();
    v.ctx = root;
    assert_eq!(v.attrs("/f").unwrap(), ["trusted.t", "user.u"]);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn equal_blocks_are_shared_and_parted() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "128", "-N", "2048"]);
    let mut v = plain(&path, "default");
    let free = v.statfs().0;
    for i in 0..1030 {
        let at = format!("/f{i}");
        v.create(&at).unwrap();
        v.set_attr(&at, "user.same", b"for all").unwrap();
        assert_eq!(v.stat(&at).unwrap().blocks, 2);
    }
    // Two blocks of attributes: one has 1024 owners. The rest is the directory's.
    let dir_blocks = v.stat("/").unwrap().size / 1024 - 1;
    let used = free - v.statfs().0;
    assert_eq!(used - dir_blocks - u64::from(dir_blocks > 11), 2);
    v.set_attr("/f3", "user.same", b"mine").unwrap();
    assert_eq!(v.attr("/f4", "user.same").unwrap(), b"for all");
    v.remove_attr("/f5", "user.same").unwrap();
    assert_eq!(v.stat("/f5").unwrap().blocks, 0);
    v.unlink("/f6").unwrap();
    v.unmount();
    assert_clean(&path);
    let mut v = plain(&path, "default");
    for i in (0..1030).filter(|i| *i != 6) {
        v.unlink(&format!("/f{i}")).unwrap();
    }
    assert_eq!(v.statfs().0, free - dir_blocks - u64::from(dir_blocks > 11));
    v.unmount();
    assert_clean(&path);
}

#[test]
fn a_value_that_is_shared_again_is_compared_first() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "128"]);
    let mut v = plain(&path, "default");
    for round in 0..3 {
        for (i, value) in ["one", "two", "one", "three", "two"].iter().enumerate() {
            let at = format!("/f{i}");
            if round == 0 {
                v.create(&at).unwrap();
            }
            v.set_attr(&at, "user.v", format!("{value}{round}").as_bytes()).unwrap();
        }
        v.sync().unwrap();
    }
    for (i, value) in ["one2", "two2", "one2", "three2", "two2"].iter().enumerate() {
        assert_eq!(v.attr(&format!("/f{i}"), "user.v").unwrap(), value.as_bytes());
    }
    v.unmount();
    assert_clean(&path);
    let counted = (0..5).map(|i| debugfs(&path, &format!("stat /f{i}")));
    let acl = |s: &str| {
        s.split("File ACL: ").nth(1).unwrap().split_whitespace().next().unwrap().to_string()
    };
    let blocks: Vec<String> = counted.map(|s| acl(&s)).collect();
    assert_eq!(blocks[0], blocks[2]);
    assert_eq!(blocks[1], blocks[4]);
    assert_ne!(blocks[0], blocks[3]);
}

#[test]
fn a_full_volume_changes_nothing() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "128", "-m", "0"]);
    let mut v = plain(&path, "default");
    v.create("/a").unwrap();
    v.create("/f").unwrap();
    v.set_attr("/a", "user.a", b"old").unwrap();
    let free = v.statfs().0;
    let full = v.write("/f", 0, &vec![1; (free as usize + 1) * 1024]);
    assert_eq!(errno(full), 28);
    while v.statfs().0 > 0 {
        let at = v.stat("/f").unwrap().size;
        v.write("/f", at, &[1; 1024]).unwrap();
    }
    assert_eq!(errno(v.set_attr("/f", "user.x", b"1")), 28);
    // In place.
    v.set_attr("/a", "user.a", b"new").unwrap();
    assert_eq!(v.attr("/a", "user.a").unwrap(), b"new");
    assert_eq!(v.attrs("/f").unwrap(), [""; 0]);
    v.unmount();
    assert_clean(&path);
}

#[test]
fn a_volume_without_the_feature_gets_it() {
    for rev in [&["-O", "^ext_attr"][..], &["-r", "0", "-O", "none"]] {
        let dir = Scratch::new();
        let path = image(&dir, rev);
        assert!(!dumpe2fs(&path).contains("ext_attr"));
        let mut v = plain(&path, "default");
        v.create("/f").unwrap();
        v.set_attr("/f", "user.x", &[5; 200]).unwrap();
        v.unmount();
        assert_clean(&path);
        assert!(dumpe2fs(&path).contains("ext_attr"));
        assert!(debugfs(&path, "ea_list /f").contains("user.x"));
    }
}

/// The good image with one byte changed. What a mount may have written is put back.
fn damage(path: &Path, good: &[u8], at: usize, value: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&good[1024..2048], 1024).unwrap();
    let block = at - at % 256;
    file.write_all_at(&good[block..block + 256], block as u64).unwrap();
    file.write_all_at(&[value], at as u64).unwrap();
}

#[test]
fn damaged_attributes_are_named_and_the_rest_goes_on() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "128"]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.create("/g").unwrap();
    v.set_attr("/f", "user.a", b"value").unwrap();
    v.set_attr("/g", "user.b", b"value").unwrap();
    v.unmount();
    let shown = debugfs(&path, "stat /f");
    let block: u64 = shown
        .split("File ACL: ")
        .nth(1)
        .and_then(|s| s.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap();
    let good = std::fs::read(&path).unwrap();
    let at = block as usize * 1024;
    let mut refused = 0;
    for off in (0..12).chain(32..56) {
        for value in [0u8, 1, 0x7F, 0xFF] {
            damage(&path, &good, at + off, value);
            let mut v = plain(&path, "default");
            match v.attr("/f", "user.a") {
                Err(FsError::Corrupt(c)) => {
                    refused += 1;
                    assert_eq!((c.site, c.block), ("attribute block", block));
                    assert!(matches!(v.set_attr("/f", "user.n", b""), Err(FsError::Corrupt(_))));
                    assert!(matches!(v.attrs("/f"), Err(FsError::Corrupt(_))));
                }
                Ok(_) | Err(FsError::Refused(Refused::NoAttr)) => {}
                other => panic!("{off} {value}: {other:?}"),
            }
            assert_eq!(v.attr("/g", "user.b").unwrap(), b"value");
            assert_eq!(v.stat("/f").unwrap().size, 0);
        }
    }
    assert!(refused > 20, "{refused}");
    std::fs::write(&path, &good).unwrap();
    // A pointer out of the volume.
    debugfs_write(&path, "set_inode_field /f file_acl 4000000000");
    let mut v = plain(&path, "default");
    assert!(matches!(v.attr("/f", "user.a"), Err(FsError::Corrupt(_))));
    drop(v);
    assert_ne!(e2fsck(&path).0, 0);
}

#[test]
fn damaged_attributes_in_an_inode() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "256"]);
    let mut v = plain(&path, "default");
    v.create("/f").unwrap();
    v.set_attr("/f", "user.a", b"value").unwrap();
    assert_eq!(v.stat("/f").unwrap().blocks, 0, "it is in the inode");
    v.unmount();
    let good = std::fs::read(&path).unwrap();
    let magic = 0xEA02_0000u32.to_le_bytes();
    let at = good.windows(4).position(|w| w == magic).unwrap();
    let mut refused = 0;
    for off in 4..24 {
        for value in [0u8, 1, 0x7F, 0xFF] {
            damage(&path, &good, at + off, value);
            let mut v = plain(&path, "default");
            match v.attr("/f", "user.a") {
                Err(FsError::Corrupt(c)) => {
                    refused += 1;
                    assert_eq!(c.site, "inode");
                }
                Ok(_) | Err(FsError::Refused(Refused::NoAttr)) => {}
                other => panic!("{off} {value}: {other:?}"),
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_new_owner_of_a_number_has_no_attributes() {
    let dir = Scratch::new();
    let path = image(&dir, &["-b", "1024", "-I", "256", "-N", "16"]);
    let mut v = plain(&path, "default");
    for _ in 0..20 {
        v.create("/f").unwrap();
        assert_eq!(v.attrs("/f").unwrap(), [""; 0]);
        v.set_attr("/f", "user.in", b"1").unwrap();
        v.set_attr("/f", "user.block", &[2; 400]).unwrap();
        assert_eq!(v.stat("/f").unwrap().blocks, 2);
        v.unlink("/f").unwrap();
    }
    v.unmount();
    assert_clean(&path);
}

#[test]
fn values_in_inodes_of_their_own_are_left_out() {
    let dir = Scratch::new();
    let path = dir.join("image");
    std::fs::File::create(&path).unwrap().set_len(16 * MIB).unwrap();
    let mut mke2fs = seawall_tests::tool("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "ea_inode,^has_journal"]);
    seawall_tests::run(mke2fs.arg(&path)).ok();
    let at = Scratch::new();
    let mount = |what: &[&str]| {
        let mut tool = seawall_tests::tool(what[0]);
        seawall_tests::run(tool.args(&what[1..]).arg(at.path())).ok();
    };
    mount(&["mount", "-t", "ext4", "-o", "loop", path.to_str().unwrap()]);
    let f = at.join("f");
    std::fs::write(&f, b"x").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&f, "user.large", &[7; 5000], flags).unwrap();
    rustix::fs::setxattr(&f, "user.small", b"1", flags).unwrap();
    mount(&["umount"]);
    let opts = seawall_ext2::OpenOptions { read_only: true, ..Default::default() };
    let fs = common::engine(&path, opts).unwrap();
    let host = seawall_diskfs::testing::mount(fs, common::FileDev::open(&path), "default").unwrap();
    let mut v = common::Vol { host, ctx: Ctx::default(), restarts: 0 };
    assert_eq!(v.attrs("/f").unwrap(), ["user.small"]);
    assert_eq!(v.attr("/f", "user.small").unwrap(), b"1");
    assert_eq!(errno(v.attr("/f", "user.large")), 61);
}
