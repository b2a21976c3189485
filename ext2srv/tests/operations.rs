//! Every operation on images of the real mke2fs, judged by e2fsck and debugfs.
// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{Plain, TIME, plain};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Cred, Kind, NewNode, Refused, SetAttr, SetTime, Timestamp};
use seawall_tests::{Scratch, assert_clean, debugfs, debugfs_write, mke2fs, pattern};
use std::path::{Path, PathBuf};

/// Each block size with each inode size, as `mke2fs -t ext2` makes them.
const SHAPES: [[&str; 4]; 5] = [
    ["-b", "1024", "-I", "128"],
    ["-b", "1024", "-I", "256"],
    ["-b", "2048", "-I", "256"],
    ["-b", "4096", "-I", "128"],
    ["-b", "4096", "-I", "256"],
];

fn each_shape(size: u64, f: impl Fn(&Path, u64)) {
    for shape in SHAPES {
        let dir = Scratch::new();
        let image = dir.join("image");
        mke2fs(&image, size, &shape);
        f(&image, shape[1].parse().unwrap());
        assert_clean(&image);
    }
}

fn mounted(image: &Path, f: impl FnOnce(&mut Plain)) {
    let mut v = plain(image, "default");
    f(&mut v);
    v.unmount();
}

/// A file's bytes according to debugfs.
fn cat(image: &Path, path: &str) -> Vec<u8> {
    let out: PathBuf = image.with_extension("cat");
    debugfs(image, &format!("dump {path} {}", out.display()));
    std::fs::read(out).unwrap()
}

/// Equal, without printing megabytes when not.
#[track_caller]
fn assert_same(left: &[u8], right: &[u8]) {
    assert_eq!(left.len(), right.len());
    assert_eq!(left.iter().zip(right).position(|(a, b)| a != b), None);
}

#[test]
fn what_is_written_is_seen_by_debugfs() {
    each_shape(24 << 20, |image, bs| {
        // Around the direct, single and double indirect limits.
        let sizes = [0, 1, bs, 12 * bs - 1, 12 * bs, 12 * bs + 1, (12 + bs / 4) * bs + 1, 3 << 20];
        mounted(image, |v| {
            v.mkdir("/d").unwrap();
            for (i, size) in sizes.iter().enumerate() {
                let path = format!("/d/f{i}");
                v.create(&path).unwrap();
                v.write(&path, 0, &pattern(*size as usize, i as u64)).unwrap();
            }
        });
        assert_clean(image);
        for (i, size) in sizes.iter().enumerate() {
            assert_same(&cat(image, &format!("/d/f{i}")), &pattern(*size as usize, i as u64));
        }
        mounted(image, |v| {
            for (i, size) in sizes.iter().enumerate() {
                let path = format!("/d/f{i}");
                assert_same(
                    &v.read(&path, 0, 5 << 20).unwrap(),
                    &pattern(*size as usize, i as u64),
                );
                assert_eq!(v.stat(&path).unwrap().size, *size);
            }
        });
    });
}

#[test]
fn holes_to_the_triple_indirect_tree_and_back() {
    each_shape(16 << 20, |image, bs| {
        let p = bs / 4;
        let offsets = [
            5 * bs,
            13 * bs + 7,
            (12 + p) * bs,
            (12 + p + p * p) * bs - 1,
            (12 + p + p * p + 5) * bs,
        ];
        let end = offsets[4] + 3;
        mounted(image, |v| {
            let free = v.statfs();
            v.create("/sparse").unwrap();
            for (i, at) in offsets.iter().enumerate() {
                v.write("/sparse", *at, &[i as u8 + 1; 3]).unwrap();
            }
            assert_eq!(v.stat("/sparse").unwrap().size, end);
            for (i, at) in offsets.iter().enumerate() {
                assert_eq!(v.read("/sparse", *at, 3).unwrap(), [i as u8 + 1; 3]);
                assert_eq!(v.read("/sparse", at - 2, 2).unwrap(), [0; 2]);
            }
            assert!(v.statfs() < free);
        });
        assert_clean(image);
        mounted(image, |v| {
            // From the end, one boundary after the other.
            for (i, at) in offsets.iter().enumerate().rev() {
                v.truncate("/sparse", at + 1).unwrap();
                assert_eq!(v.read("/sparse", *at, 9).unwrap(), [i as u8 + 1]);
            }
            v.truncate("/sparse", end).unwrap();
            assert_eq!(v.read("/sparse", offsets[0], 9).unwrap(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(v.read("/sparse", end - 5, 9).unwrap(), [0; 5]);
        });
        assert_clean(image);
        mounted(image, |v| {
            v.unlink("/sparse").unwrap();
        });
    });
}

#[test]
fn names_links_and_moves() {
    each_shape(16 << 20, |image, _| {
        mounted(image, |v| {
            v.mkdir("/a").unwrap();
            v.mkdir("/a/sub").unwrap();
            v.mkdir("/b").unwrap();
            v.create("/a/one").unwrap();
            v.write("/a/one", 0, b"one").unwrap();
            v.link("/a/one", "/b/uno").unwrap();
            assert_eq!(v.stat("/b/uno").unwrap().nlink, 2);
            v.create("/b/two").unwrap();
            v.rename("/a/one", "/b/two").unwrap();
            assert_eq!(v.stat("/a/one").unwrap_err(), Refused::NotFound.into());
            assert_eq!(v.read("/b/two", 0, 9).unwrap(), b"one");
            // Two names of one inode: nothing happens.
            v.rename("/b/two", "/b/uno").unwrap();
            assert_eq!(v.list("/b").unwrap().len(), 2);
            // A directory moves, with what is in it and its `..`.
            v.create("/a/sub/inner").unwrap();
            v.rename("/a/sub", "/b/sub").unwrap();
            assert_eq!(v.stat("/b/sub/..").unwrap().ino, v.stat("/b").unwrap().ino);
            assert_eq!((v.stat("/a").unwrap().nlink, v.stat("/b").unwrap().nlink), (2, 3));
            // Onto an empty directory, and not onto a full one.
            v.mkdir("/c").unwrap();
            assert_eq!(v.rename("/c", "/b/sub").unwrap_err(), Refused::NotEmpty.into());
            v.rename("/b/sub", "/c").unwrap();
            assert_eq!(v.rename("/c", "/c/deeper").unwrap_err(), Refused::Invalid.into());
            assert_eq!(v.rmdir("/c").unwrap_err(), Refused::NotEmpty.into());
            v.unlink("/c/inner").unwrap();
            v.rmdir("/c").unwrap();
            v.rmdir("/a").unwrap();
        });
        assert_clean(image);
        assert_eq!(cat(image, "/b/two"), b"one");
        mounted(image, |v| {
            let mut names: Vec<String> = v.list("/").unwrap().into_iter().map(|e| e.0).collect();
            names.sort();
            assert_eq!(names, ["b", "lost+found"]);
            assert_eq!(v.stat("/").unwrap().nlink, 4);
        });
    });
}

#[test]
fn symlinks_and_special_files() {
    each_shape(8 << 20, |image, _| {
        let targets = [1, 58, 59, 60, 61, 255, 1000].map(|n| vec![b'x'; n]);
        let dev = (259, 70_000);
        mounted(image, |v| {
            for t in &targets {
                let path = format!("/l{}", t.len());
                assert_eq!(v.symlink(&path, t).unwrap().size, t.len() as u64);
            }
            v.make("/fifo", NewNode::Special(Kind::Fifo, (0, 0)), 0o600).unwrap();
            v.make("/sock", NewNode::Special(Kind::Socket, (0, 0)), 0o600).unwrap();
            v.make("/old", NewNode::Special(Kind::BlockDev, (8, 1)), 0o600).unwrap();
            v.make("/new", NewNode::Special(Kind::CharDev, dev), 0o600).unwrap();
        });
        assert_clean(image);
        assert!(debugfs(image, "stat /l59").contains("Fast link dest: \"xxx"));
        assert!(
            debugfs(image, "stat /new").contains("259:70000"),
            "{}",
            debugfs(image, "stat /new")
        );
        assert!(debugfs(image, "stat /old").contains("08:01"), "{}", debugfs(image, "stat /old"));
        mounted(image, |v| {
            for t in &targets {
                let path = format!("/l{}", t.len());
                assert_eq!(&v.readlink(&path).unwrap(), t);
                v.unlink(&path).unwrap();
            }
            assert_eq!(v.stat("/new").unwrap().rdev, dev);
            assert_eq!(v.stat("/old").unwrap().rdev, (8, 1));
            let mut list = v.list("/").unwrap();
            list.sort_by(|a, b| a.0.cmp(&b.0));
            let kinds: Vec<_> = list.into_iter().map(|e| e.2).collect();
            // fifo, lost+found, new, old, sock
            let want = [Kind::Fifo, Kind::Dir, Kind::CharDev, Kind::BlockDev, Kind::Socket];
            assert_eq!(kinds, want.map(Some));
            for path in ["/fifo", "/sock", "/old", "/new"] {
                v.unlink(path).unwrap();
            }
        });
    });
}

#[test]
fn attributes_and_times() {
    each_shape(8 << 20, |image, _| {
        let wide = seawall_ext2_inode_size(image) > 128;
        let far = Timestamp { secs: 9_000_000_000, nanos: 987_654_321 };
        mounted(image, |v| {
            let a = v.create("/f").unwrap();
            assert_eq!((a.uid, a.gid, a.mode, a.nlink), (1000, 70_000, 0o644, 1));
            assert_eq!(a.btime, wide.then_some(TIME));
            let set = SetAttr {
                mode: Some(0o4711),
                uid: Some(100_000),
                gid: Some(5),
                atime: SetTime::At(far),
                mtime: SetTime::At(Timestamp { secs: -5, nanos: 0 }),
                ..SetAttr::default()
            };
            v.set("/f", set).unwrap();
        });
        mounted(image, |v| {
            let a = v.stat("/f").unwrap();
            assert_eq!((a.uid, a.gid, a.mode), (100_000, 5, 0o4711));
            assert_eq!(a.mtime.secs, -5);
            if wide {
                assert_eq!((a.atime, a.ctime), (far, TIME));
            } else {
                assert_eq!(a.ctime, Timestamp { nanos: 0, ..TIME });
            }
        });
        let stat = debugfs(image, "stat /f");
        assert!(stat.contains("User: 100000") && stat.contains("04711"), "{stat}");
    });
}

fn seawall_ext2_inode_size(image: &Path) -> u16 {
    let fs = common::engine(image, seawall_ext2::OpenOptions::default()).unwrap();
    fs.superblock().inode_size
}

#[test]
fn a_large_directory_grows_lists_and_shrinks() {
    each_shape(32 << 20, |image, bs| {
        let name = |i: usize| format!("/d/{i:05}-{}", "n".repeat(i % 40));
        mounted(image, |v| {
            v.mkdir("/d").unwrap();
            for i in 0..2000 {
                v.create(&name(i)).unwrap();
            }
            let epochs = v.host.with(|fs| fs.stats().epochs_open_max);
            assert!(epochs <= 12, "2000 creations took {epochs} epochs at {bs}");
            assert!(v.stat("/d").unwrap().size > 60_000);
        });
        assert_clean(image);
        mounted(image, |v| {
            let listed = v.list("/d").unwrap();
            assert_eq!(listed.len(), 2000);
            for i in (0..2000).filter(|i| i % 3 != 0) {
                v.unlink(&name(i)).unwrap();
            }
            let epochs = v.host.with(|fs| fs.stats().epochs_open_max);
            assert!(epochs <= 12, "1333 removals took {epochs} epochs at {bs}");
            assert_eq!(v.list("/d").unwrap().len(), 667);
            let size = v.stat("/d").unwrap().size;
            // Freed places are found again.
            for i in (0..2000).filter(|i| i % 3 == 1) {
                v.create(&name(i)).unwrap();
            }
            assert_eq!(v.stat("/d").unwrap().size, size);
        });
        assert_clean(image);
        mounted(image, |v| {
            for i in (0..2000).filter(|i| i % 3 != 2) {
                v.unlink(&name(i)).unwrap();
            }
            v.rmdir("/d").unwrap();
        });
    });
}

#[test]
fn a_thousand_creations_make_few_epochs() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 64 << 20, &["-b", "4096"]);
    mounted(&image, |v| {
        for i in 0..1000 {
            v.create(&format!("/{i}")).unwrap();
        }
        let epochs = v.host.with(|fs| fs.stats().epochs_open_max);
        assert!(epochs <= 4, "{epochs} epochs");
    });
    assert_clean(&image);
}

#[test]
fn listings_go_on_where_they_were() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024"]);
    mounted(&image, |v| {
        v.mkdir("/d").unwrap();
        for i in 0..100 {
            v.create(&format!("/d/{i:03}")).unwrap();
        }
        let ctx = v.ctx.clone();
        let ino = v.stat("/d").unwrap().ino;
        let first = v.run(|fs, t| fs.readdir(&ctx, ino, 0, 22, 4096, false, t)).unwrap();
        let cookie = first.last().unwrap().0.next;
        // The names at the cookie, which were listed last, go away.
        let mut names: Vec<String> =
            first.iter().map(|(e, _)| String::from_utf8(e.name.clone()).unwrap()).collect();
        for name in &names[20..] {
            v.unlink(&format!("/d/{name}")).unwrap();
        }
        v.create("/d/a-longer-name").unwrap();
        let rest = v.run(|fs, t| fs.readdir(&ctx, ino, cookie, 200, 1 << 20, true, t)).unwrap();
        names.extend(rest.iter().map(|(e, _)| String::from_utf8(e.name.clone()).unwrap()));
        for i in 0..100 {
            assert_eq!(names.iter().filter(|n| **n == format!("{i:03}")).count(), 1, "{i}");
        }
        assert!(rest.iter().all(|(e, a)| a.unwrap().ino == e.ino));
    });
    assert_clean(&image);
}

#[test]
fn a_full_volume_says_so_and_keeps_going() {
    each_shape(2 << 20, |image, _| {
        let before = {
            let mut v = plain(image, "default");
            let free = v.statfs();
            v.unmount();
            free
        };
        mounted(image, |v| {
            v.create("/big").unwrap();
            let mut at = 0;
            let piece = pattern(64 << 10, 1);
            let e = loop {
                match v.write("/big", at, &piece) {
                    Ok(()) => at += piece.len() as u64,
                    Err(e) => break e,
                }
            };
            assert_eq!(e, Refused::NoSpace.into());
            assert_eq!(v.stat("/big").unwrap().size, at);
            assert_eq!(v.read("/big", at - 7, 9).unwrap(), piece[piece.len() - 7..]);
        });
        assert_clean(image);
        mounted(image, |v| {
            v.unlink("/big").unwrap();
            // Only pending space is left now: the allocator must wait for the barrier.
            v.create("/again").unwrap();
            v.write("/again", 0, &pattern(1 << 20, 2)).unwrap();
            v.unlink("/again").unwrap();
            assert_eq!(v.statfs(), before);
            let e = (0..9999).find_map(|i| v.create(&format!("/{i}")).err()).unwrap();
            assert_eq!(e, Refused::NoSpace.into());
        });
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    each_shape(8 << 20, |image, _| {
        mounted(image, |v| {
            let free = v.statfs();
            let ino = v.create("/f").unwrap().ino;
            v.write("/f", 0, &pattern(300_000, 3)).unwrap();
            let h = v.open(ino).unwrap();
            v.unlink("/f").unwrap();
            v.write_handle(h, 300_000, b"more").unwrap();
            let ctx = v.ctx.clone();
            let got = seawall_diskfs::driver::read(&mut v.host, &ctx, h, 300_000, 9).unwrap();
            assert_eq!(&*got, b"more");
            v.clunk(h);
            assert_eq!(v.statfs(), free);
        });
    });
}

#[test]
fn a_held_inode_outlives_its_name_and_handles() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024"]);
    mounted(&image, |v| {
        v.create("/f").unwrap();
        v.write("/f", 0, &pattern(100_000, 1)).unwrap();
        let ino = v.stat("/f").unwrap().ino;
        v.host.fs.hold(ino);
        v.host.fs.hold(ino);
        v.unlink("/f").unwrap();
        let ctx = v.ctx.clone();
        let attr = driver::run(&mut v.host, &ctx, |fs, t| fs.getattr(&ctx, ino, t)).unwrap();
        assert_eq!((attr.nlink, attr.size), (0, 100_000));
        v.host.fs.unhold(ino, 1);
        assert!(!v.host.fs.has_orphans());
        v.host.fs.unhold(ino, 1);
        assert!(v.host.fs.has_orphans());
        v.create("/g").unwrap();
        assert!(!v.host.fs.has_orphans(), "the driver freed it");
        // What is held when the cache goes away is freed at once.
        let ino = v.stat("/g").unwrap().ino;
        v.host.fs.hold(ino);
        v.unlink("/g").unwrap();
        assert!(!v.host.fs.has_orphans());
        v.host.fs.unhold_all();
        assert!(v.host.fs.has_orphans());
    });
    assert_clean(&image);
}

#[test]
fn set_id_bits_fall_with_a_write_by_others() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024"]);
    mounted(&image, |v| {
        v.create("/f").unwrap();
        let set = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
        let mode = |v: &mut Plain| v.stat("/f").unwrap().mode;
        for (cred, left) in [(None, 0o6777), (Some(0), 0o6777), (Some(7), 0o777)] {
            v.set("/f", set).unwrap();
            v.ctx.cred = cred.map(|uid| Cred { uid, gid: uid, groups: Vec::new() });
            v.write("/f", 0, b"x").unwrap();
            v.ctx.cred = None;
            assert_eq!(mode(v), left, "{cred:?}");
        }
    });
    assert_clean(&image);
}

#[test]
fn an_index_that_e2fsck_made_is_read_and_kept() {
    for bs in ["1024", "4096"] {
        let dir = Scratch::new();
        let image = dir.join("image");
        let tree = dir.dir("tree");
        let sub = tree.join("many");
        std::fs::create_dir(&sub).unwrap();
        for i in 0..3000 {
            std::fs::write(sub.join(format!("file-{i:05}")), b"").unwrap();
        }
        mke2fs(&image, 64 << 20, &["-b", bs, "-N", "5000", "-d", tree.to_str().unwrap()]);
        // mke2fs -d does not index; e2fsck -D does.
        let seen =
            seawall_tests::run(seawall_tests::tool("e2fsck").args(["-f", "-y", "-D"]).arg(&image));
        assert!(seen.code() <= 1, "{seen}");
        assert!(debugfs(&image, "stat /many").contains("Flags: 0x1000"));
        mounted(&image, |v| {
            assert_eq!(v.list("/many").unwrap().len(), 3000);
            v.stat("/many/file-02999").unwrap();
            v.unlink("/many/file-01234").unwrap();
            v.create("/many/new").unwrap();
            assert_eq!(v.list("/many").unwrap().len(), 3000);
        });
        assert_clean(&image);
        assert!(debugfs(&image, "stat /many").contains("Flags: 0x1000"));
    }
}

#[test]
fn attribute_blocks_are_counted_down() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024", "-I", "128"]);
    mounted(&image, |v| {
        v.create("/f").unwrap();
        v.create("/g").unwrap();
    });
    debugfs_write(&image, "ea_set /f user.colour green");
    assert_clean(&image);
    // A second owner of the same block, as the kernel shares them.
    let acl = debugfs(&image, "stat /f");
    let block: u64 = acl
        .split("File ACL: ")
        .nth(1)
        .and_then(|s| s.split_whitespace().next())
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| panic!("{acl}"));
    debugfs_write(&image, &format!("set_inode_field /g file_acl {block}"));
    debugfs_write(&image, "set_inode_field /g blocks 2");
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&2u32.to_le_bytes(), block * 1024 + 4).unwrap();
    assert_clean(&image);
    mounted(&image, |v| {
        v.write("/g", 0, b"content beside the attributes").unwrap();
        v.unlink("/f").unwrap();
    });
    assert_clean(&image);
    assert!(debugfs(&image, "ea_get /g user.colour").contains("green"));
    mounted(&image, |v| {
        v.unlink("/g").unwrap();
    });
    assert_clean(&image);
}

#[test]
fn a_cold_look_up_restarts_little() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 64 << 20, &["-b", "1024"]);
    mounted(&image, |v| {
        for d in ["/a", "/a/b", "/a/b/c", "/a/b/c/d"] {
            v.mkdir(d).unwrap();
        }
        v.create("/a/b/c/d/e").unwrap();
    });
    mounted(&image, |v| {
        let mut at = seawall_diskfs::Ino(2);
        let mut total = 0;
        for name in ["a", "b", "c", "d", "e"] {
            at = v.lookup_in(at, name.as_bytes()).unwrap().ino;
            total += v.restarts;
        }
        assert!(total <= 2 * 5 + 2, "{total} restarts for five names");
    });
}

#[test]
fn large_files_set_the_feature() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "4096", "-O", "^large_file,^resize_inode"]);
    assert!(!seawall_tests::dumpe2fs(&image).contains("large_file"));
    mounted(&image, |v| {
        v.create("/f").unwrap();
        v.write("/f", (2 << 30) - 1, b"xy").unwrap();
    });
    assert_clean(&image);
    assert!(seawall_tests::dumpe2fs(&image).contains("large_file"));
    mounted(&image, |v| {
        assert_eq!(v.stat("/f").unwrap().size, (2 << 30) + 1);
        let max = v.host.with(|fs| fs.geometry().size_max);
        v.truncate("/f", max).unwrap();
        assert_eq!(v.truncate("/f", max + 1).unwrap_err(), Refused::FileTooBig.into());
    });
}

#[test]
fn old_revision_and_missing_filetype() {
    let dir = Scratch::new();
    let image = dir.join("image");
    for args in [&["-b", "1024", "-r", "0"][..], &["-b", "1024", "-O", "^filetype"]] {
        mke2fs(&image, 8 << 20, args);
        mounted(&image, |v| {
            v.mkdir("/d").unwrap();
            v.create("/d/f").unwrap();
            v.write("/d/f", 0, &pattern(50_000, 1)).unwrap();
            assert_eq!(v.list("/d").unwrap()[0].2, None);
        });
        assert_clean(&image);
        assert_same(&cat(&image, "/d/f"), &pattern(50_000, 1));
    }
}

#[test]
fn blocks_up_to_64_kib() {
    use seawall_ext2::{MkfsOptions, mkfs};
    for (block_size, inode_size, size) in [(8192, 256, 16 << 20), (65536, 512, 64 << 20)] {
        let dir = Scratch::new();
        let image = dir.join("image");
        let opts = MkfsOptions { block_size, inode_size, ..MkfsOptions::new(size, [1; 16], TIME) };
        mkfs(&mut common::FileDev::create(&image, size), &opts).unwrap();
        let bs = u64::from(block_size);
        mounted(&image, |v| {
            v.mkdir("/d").unwrap();
            for i in 0..400 {
                v.create(&format!("/d/{i:04}{}", "n".repeat(200))).unwrap();
            }
            v.create("/f").unwrap();
            v.write("/f", 11 * bs, &pattern(3 * bs as usize, 4)).unwrap();
            v.write("/f", (13 + bs / 4) * bs, b"double").unwrap();
        });
        assert_clean(&image);
        mounted(&image, |v| {
            assert_eq!(v.list("/d").unwrap().len(), 400);
            let got = v.read("/f", 11 * bs, 3 * bs as usize).unwrap();
            assert_same(&got, &pattern(3 * bs as usize, 4));
            v.truncate("/f", 12 * bs + 5).unwrap();
            for i in 0..400 {
                v.unlink(&format!("/d/{i:04}{}", "n".repeat(200))).unwrap();
            }
            v.rmdir("/d").unwrap();
        });
        assert_clean(&image);
    }
}

#[test]
fn the_clean_mark() {
    let dir = Scratch::new();
    let image = dir.join("image");
    mke2fs(&image, 8 << 20, &["-b", "1024"]);
    let state = |image: &Path| {
        let text = seawall_tests::dumpe2fs(image);
        let line = text.lines().find(|l| l.starts_with("Filesystem state")).unwrap();
        line.split(':').nth(1).unwrap().trim().to_string()
    };
    let mut v = plain(&image, "default");
    v.create("/f").unwrap();
    v.sync().unwrap();
    assert_eq!(state(&image), "not clean");
    drop(v);
    let open = |force| {
        let opts = seawall_ext2::OpenOptions { force, ..Default::default() };
        common::engine(&image, opts).unwrap()
    };
    let because = open(false).read_only_because().join(" ");
    assert!(because.contains("not cleanly unmounted"), "{because}");
    assert_eq!(open(true).read_only_because(), [""; 0]);
    let mut v = plain(&image, "default");
    assert_eq!(v.create("/g").unwrap_err(), Refused::ReadOnly.into());
    v.stat("/f").unwrap();
    v.unmount();
    assert_eq!(state(&image), "not clean");
    let seen = seawall_tests::run(seawall_tests::tool("e2fsck").args(["-fy"]).arg(&image));
    assert!(seen.code() <= 1, "{seen}");
    let v = plain(&image, "default");
    v.unmount();
    assert_eq!(state(&image), "clean");
}
