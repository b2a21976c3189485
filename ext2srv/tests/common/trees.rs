//! Whole trees between the engine and the kernel.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use crate::common::Plain;
use seawall_diskfs::{NewNode, SetAttr, SetTime, Timestamp};
use seawall_tests::{Entry, Kind, Tree, run, tool};
use std::path::{Path, PathBuf};

/// A path of the tree on the volume.
pub fn name(path: &Path) -> String {
    format!("/{}", path.to_str().unwrap())
}

/// Makes the tree of `source` with the engine.
pub fn copy_in(v: &mut Plain, source: &Path, tree: &Tree) {
    for (path, e) in tree {
        let to = name(path);
        if let Some(first) = &e.same_as {
            v.link(&name(first), &to).unwrap();
            continue;
        }
        match &e.kind {
            Kind::Dir => _ = v.mkdir(&to).unwrap(),
            Kind::Symlink(t) => {
                let t = t.to_str().unwrap();
                v.make(&to, NewNode::Symlink(t.as_bytes()), 0o777).unwrap();
            }
            _ => copy_file(v, &source.join(path), &to, e),
        }
    }
    // Last, because what is made in a directory changes its times.
    for (path, e) in tree {
        let at = Timestamp { secs: e.mtime.0, nanos: e.mtime.1 as u32 };
        let set = SetAttr {
            mode: (!matches!(e.kind, Kind::Symlink(_))).then_some(e.mode),
            uid: Some(e.owner.0),
            gid: Some(e.owner.1),
            mtime: SetTime::At(at),
            ..SetAttr::default()
        };
        v.set(&name(path), set).unwrap();
    }
}

fn copy_file(v: &mut Plain, from: &Path, to: &str, e: &Entry) {
    v.create(to).unwrap();
    let bytes = std::fs::read(from).unwrap();
    for (i, piece) in bytes.chunks(64 << 10).enumerate() {
        if piece.iter().any(|b| *b != 0) {
            v.write(to, (i * (64 << 10)) as u64, piece).unwrap();
        }
    }
    v.truncate(to, e.size).unwrap();
}

/// The engine must see what the snapshot says.
pub fn compare(v: &mut Plain, source: &Path, tree: &Tree) {
    for (path, e) in tree {
        let at = name(path);
        let a = v.stat(&at).unwrap_or_else(|err| panic!("{at}: {err}"));
        assert_eq!(a.mode, if matches!(e.kind, Kind::Symlink(_)) { 0o777 } else { e.mode }, "{at}");
        assert_eq!(a.mtime.secs, e.mtime.0, "{at}");
        match &e.kind {
            Kind::Dir => {}
            Kind::Symlink(t) => {
                assert_eq!(PathBuf::from(String::from_utf8(v.readlink(&at).unwrap()).unwrap()), *t);
            }
            _ => {
                assert_eq!((a.size, u64::from(a.nlink)), (e.size, e.nlink), "{at}");
                let got = v.read(&at, 0, e.size as usize + 1).unwrap();
                let want = std::fs::read(source.join(path)).unwrap();
                let differs = got.iter().zip(&want).position(|(a, b)| a != b);
                assert!(got == want, "content of {at} from byte {differs:?} on");
            }
        }
    }
}

/// A copy of a mounted tree, holes and times and all.
pub fn copy_of(mount: &Path, to: &Path) {
    // What is not on disk yet cp may take for a hole.
    run(tool("sync").arg("-f").arg(mount)).ok();
    run(tool("cp").args(["-a", "-T"]).arg(mount).arg(to)).ok();
}
