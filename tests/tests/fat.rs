//! A FAT volume on the real mount: names in every spelling, what the kernel keeps of them, a full
//! volume, programs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rustix::io::Errno;
use seawall_tests::{Mount, Scratch, pattern, run, tool};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn mounted(size: u64, args: &[&str], options: &[&str]) -> Mount {
    Mount::fat(Mount::fat_place(size, args), options)
}

fn small() -> Mount {
    mounted(32 << 20, &["-F", "16"], &[])
}

fn names(dir: &Path) -> Vec<String> {
    let list = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        list.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: std::io::Result<T>, want: Errno) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(want.raw_os_error()));
}

#[test]
fn a_rename_of_the_case_alone_arrives() {
    let mut m = small();
    fs::write(m.at("abc"), b"one").unwrap();
    let ino = fs::metadata(m.at("abc")).unwrap().ino();
    for (old, new) in [("abc", "Abc"), ("Abc", "ABC"), ("ABC", "abc")] {
        fs::rename(m.at(old), m.at(new)).unwrap();
        assert_eq!(names(&m.dir()), [new]);
        assert_eq!(fs::metadata(m.at(new)).unwrap().ino(), ino);
        assert_eq!(fs::read(m.at(old)).unwrap(), b"one");
    }
    fs::create_dir(m.at("sub")).unwrap();
    fs::write(m.at("sub/file"), b"x").unwrap();
    fs::rename(m.at("sub"), m.at("Sub")).unwrap();
    assert_eq!(names(&m.dir()), ["Sub", "abc"]);
    assert_eq!(fs::read(m.at("SUB/FILE")).unwrap(), b"x");
    // Through a directory in another spelling, and over a file in another spelling.
    fs::rename(m.at("SUB/file"), m.at("sub/FILE")).unwrap();
    assert_eq!(names(&m.at("Sub")), ["FILE"]);
    fs::write(m.at("other"), b"two").unwrap();
    fs::rename(m.at("other"), m.at("ABC")).unwrap();
    assert_eq!(names(&m.dir()), ["Sub", "abc"]);
    assert_eq!(fs::read(m.at("abc")).unwrap(), b"two");
    m.umount();
}

/// rename(2) with a flag, as mv(1) does it first; and mv itself.
#[test]
fn mv_changes_the_case_of_files_and_directories() {
    let mut m = small();
    fs::write(m.at("A long name"), b"1").unwrap();
    fs::create_dir(m.at("dir")).unwrap();
    run(tool("mv").arg(m.at("A long name")).arg(m.at("a LONG name"))).ok();
    run(tool("mv").arg("-T").arg(m.at("dir")).arg(m.at("DIR"))).ok();
    assert_eq!(names(&m.dir()), ["DIR", "a LONG name"]);
    // From a spelling that is not the volume's to another one.
    fs::rename(m.at("A LONG NAME"), m.at("a long name")).unwrap();
    assert_eq!(names(&m.dir()), ["DIR", "a long name"]);
    // To itself, and to its own spelling: nothing happens.
    fs::rename(m.at("A LONG NAME"), m.at("A LONG NAME")).unwrap();
    fs::rename(m.at("A LONG NAME"), m.at("a long name")).unwrap();
    assert_eq!(names(&m.dir()), ["DIR", "a long name"]);
    // Another file stands in the way.
    fs::write(m.at("other"), b"2").unwrap();
    let here = rustix::fs::CWD;
    let how = rustix::fs::RenameFlags::NOREPLACE;
    let done = rustix::fs::renameat_with(here, m.at("other"), here, m.at("A Long Name"), how);
    assert_eq!(done, Err(Errno::EXIST));
    m.umount();
}

#[test]
fn the_kernel_keeps_no_name_that_is_gone() {
    let mut m = small();
    fails(fs::metadata(m.at("NOTE")), Errno::NOENT);
    fs::write(m.at("note"), b"1").unwrap();
    assert_eq!(fs::read(m.at("NOTE")).unwrap(), b"1");
    fs::remove_file(m.at("Note")).unwrap();
    fails(fs::metadata(m.at("note")), Errno::NOENT);
    fails(fs::metadata(m.at("NOTE")), Errno::NOENT);
    fs::write(m.at("NOTE"), b"2").unwrap();
    assert_eq!(fs::read(m.at("note")).unwrap(), b"2");
    fs::rename(m.at("note"), m.at("moved")).unwrap();
    fails(fs::metadata(m.at("NOTE")), Errno::NOENT);
    assert_eq!(fs::read(m.at("MOVED")).unwrap(), b"2");
    // By its alias.
    fs::write(m.at("A long file name.text"), b"3").unwrap();
    fs::remove_file(m.at("ALONGF~1.TEX")).unwrap();
    fails(fs::metadata(m.at("A long file name.text")), Errno::NOENT);
    // By somebody who does not come through the mount.
    fs::write(m.at("Both"), b"4").unwrap();
    assert_eq!(fs::read(m.at("Both")).unwrap(), b"4");
    m.fs(&["rm"], "/BOTH").ok();
    fails(fs::metadata(m.at("Both")), Errno::NOENT);
    fs::create_dir(m.at("Dir")).unwrap();
    fs::write(m.at("Dir/f"), b"5").unwrap();
    m.fs(&["rm"], "/dir/F").ok();
    fails(fs::metadata(m.at("Dir/f")), Errno::NOENT);
    fs::remove_dir(m.at("DIR")).unwrap();
    fails(fs::metadata(m.at("Dir")), Errno::NOENT);
    assert_eq!(names(&m.dir()), ["moved"]);
    m.umount();
}

#[test]
fn names_that_cannot_be() {
    let mut m = small();
    for name in ["a:b", "a*b", "a?b", "a\"b", "a<b", "a|b", "a\\b", "tab\tx", "space ", "con"] {
        fails(File::create_new(m.at(name)), Errno::INVAL);
    }
    fails(File::create_new(m.at("...")), Errno::NOENT);
    fails(File::create_new(m.at(&"n".repeat(256))), Errno::NAMETOOLONG);
    File::create_new(m.at("dots...")).unwrap();
    File::create_new(m.at(" lead")).unwrap();
    File::create_new(m.at(&"\u{20ac}".repeat(255))).unwrap();
    assert!(m.at("dots").exists() && m.at("dots.").exists());
    assert_eq!(names(&m.dir()), [" lead", "dots", &"\u{20ac}".repeat(255)]);
    fails(std::os::unix::fs::symlink("x", m.at("link")), Errno::PERM);
    fails(fs::hard_link(m.at("dots"), m.at("hard")), Errno::PERM);
    m.umount();
}

#[test]
fn directories_move_and_count_their_links() {
    let mut m = small();
    let links = |name: &str| fs::metadata(m.at(name)).unwrap().nlink();
    fs::create_dir_all(m.at("a/sub")).unwrap();
    fs::create_dir(m.at("b")).unwrap();
    fs::write(m.at("a/sub/f"), b"1").unwrap();
    fs::write(m.at("b/y"), b"y").unwrap();
    assert_eq!((links("a"), links("b")), (3, 2));
    fs::rename(m.at("a/sub"), m.at("b/sub2")).unwrap();
    assert_eq!((links("a"), links("b")), (2, 3));
    let up = fs::metadata(m.at("b/sub2/..")).unwrap().ino();
    assert_eq!(up, fs::metadata(m.at("b")).unwrap().ino());
    fs::write(m.at("p"), b"p").unwrap();
    fails(fs::rename(m.at("p"), m.at("b")), Errno::ISDIR);
    fails(fs::rename(m.at("b"), m.at("p")), Errno::NOTDIR);
    fails(fs::rename(m.at("b"), m.at("b/sub2/below")), Errno::INVAL);
    fs::create_dir(m.at("e")).unwrap();
    fails(fs::rename(m.at("e"), m.at("b")), Errno::NOTEMPTY);
    fs::rename(m.at("b"), m.at("e")).unwrap();
    assert_eq!(names(&m.at("e")), ["sub2", "y"]);
    fs::rename(m.at("p"), m.at("e/y")).unwrap();
    assert_eq!(fs::read(m.at("e/y")).unwrap(), b"p");
    fails(fs::remove_dir(m.at("e")), Errno::NOTEMPTY);
    m.umount();
}

#[test]
fn a_full_volume_loses_nothing_and_gives_everything_back() {
    let mut m = mounted(3 << 20, &["-F", "16", "-s", "1"], &[]);
    let free = || rustix::fs::statvfs(m.dir()).unwrap().f_bfree;
    let before = free();
    let mut files = Vec::new();
    'full: for n in 0..100u64 {
        let name = format!("fill{n}");
        let content = pattern(300_000, n);
        let mut f = File::create(m.at(&name)).unwrap();
        let mut taken = 0;
        for part in content.chunks(6000) {
            match f.write(part) {
                Ok(k) => taken += k,
                Err(e) => {
                    assert_eq!(e.raw_os_error(), Some(28));
                    files.push((name, content, taken));
                    break 'full;
                }
            }
        }
        files.push((name, content, taken));
    }
    assert!(files.len() > 8);
    for (name, content, taken) in &files {
        let got = fs::read(m.at(name)).unwrap();
        assert_eq!(got.len(), *taken, "{name}: its size is what write returned");
        assert!(got == content[..*taken], "{name}: its content");
    }
    for (name, ..) in &files {
        fs::remove_file(m.at(name)).unwrap();
    }
    m.ctl(&["sync"]).ok();
    assert_eq!(free(), before);
    m.umount();
}

#[test]
fn space_ahead_is_given_back_at_the_last_close() {
    let mut m = small();
    let free = || rustix::fs::statvfs(m.dir()).unwrap().f_bfree;
    let before = free();
    let f = File::options().read(true).write(true).create_new(true).open(m.at("f")).unwrap();
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&f, keep, 0, 1 << 20).unwrap();
    assert_eq!(f.metadata().unwrap().len(), 0);
    assert!(before - free() >= (1 << 20) / 4096, "{before} {}", free());
    f.write_all_at(b"some of it", 0).unwrap();
    drop(f);
    m.ctl(&["sync"]).ok();
    let left = before - rustix::fs::statvfs(m.dir()).unwrap().f_bfree;
    assert!(left <= 1, "{left} clusters");
    // FAT has no holes: a file grows by zeroes.
    let f = File::options().read(true).write(true).open(m.at("F")).unwrap();
    f.write_all_at(b"end", 300_000).unwrap();
    let mut got = vec![1u8; 300_003];
    f.read_exact_at(&mut got, 0).unwrap();
    assert_eq!((&got[..10], &got[300_000..]), (&b"some of it"[..], &b"end"[..]));
    assert!(got[10..300_000].iter().all(|b| *b == 0));
    drop(f);
    m.umount();
}

#[test]
fn git_and_tar() {
    let mut m = mounted(256 << 20, &["-F", "32"], &[]);
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
    run(tool("tar").arg("-C").arg(&origin).arg("-cf").arg(&tar).args(["--exclude=.git", "."])).ok();
    let there = m.at("untarred");
    fs::create_dir(&there).unwrap();
    let mut untar = tool("tar");
    run(untar.arg("-C").arg(&there).args(["--no-same-owner", "-xf"]).arg(&tar)).ok();
    for i in 0..200 {
        let name = format!("d{}/f{i}", i % 7);
        assert!(fs::read(there.join(&name)).unwrap() == pattern(i * 50, i as u64), "{name}");
    }
    run(tool("rm").arg("-r").arg(m.at("clone"))).ok();
    m.umount();
}

#[test]
fn options_are_those_of_linux() {
    let place = Mount::fat_place(8 << 20, &["-F", "12", "-n", "STICK"]);
    let said = |options: &str| {
        let mut c = std::process::Command::new(seawall_tests::bin("fatsrv"));
        c.arg("mount").arg(place.join("image")).arg(place.join("mnt")).args(["-o", options]);
        run(&mut c).exits(2).stderr
    };
    for (options, words) in [
        ("codepage=4711", "codepage=4711"),
        ("shortname=long", "lower, win95, winnt or mixed"),
        ("umask=9", "octal"),
        ("tz=Mars", "tz=Mars"),
        ("iocharset=latin1", "utf8"),
        ("uid=me", "uid=me"),
        ("gid=4294967295", "up to 4294967294"),
        ("check=s", "relaxed or normal"),
        ("cache=1M", "at least 4 MiB"),
    ] {
        let text = said(options);
        assert!(text.contains(words) && text.lines().count() == 1, "{options}: {text}");
    }
    let mut help = std::process::Command::new(seawall_tests::bin("fatsrv"));
    let help = run(help.args(["mount", "--help"])).ok().stdout;
    for word in ["codepage=N", "shortname=RULE", "tz=ZONE", "fmask="] {
        assert!(help.contains(word), "{help}");
    }
    let options =
        ["-o", "noauto,nofail,uid=1234,gid=2345,fmask=0137,dmask=0027,tz=+02:00,codepage=850"];
    let mut m = Mount::fat(place, &options);
    fs::create_dir(m.at("d")).unwrap();
    fs::write(m.at("d/f"), b"x").unwrap();
    let file = fs::metadata(m.at("d/f")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (1234, 2345, 0o640));
    assert_eq!(fs::metadata(m.at("d")).unwrap().mode() & 0o7777, 0o750);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_626_350_400);
    File::options().write(true).open(m.at("d/f")).unwrap().set_modified(at).unwrap();
    assert_eq!(fs::metadata(m.at("d/f")).unwrap().modified().unwrap(), at);
    run(tool("chown").args(["0:0"]).arg(m.at("d/f"))).exits(1);
    run(tool("chmod").args(["a-w"]).arg(m.at("d/f"))).ok();
    assert_eq!(fs::metadata(m.at("d/f")).unwrap().mode() & 0o7777, 0o440);
    m.umount();
}

/// Two local names that are one on the volume: the second is refused, nothing is lost.
#[test]
fn put_tells_names_that_the_volume_takes_for_one() {
    let mut m = small();
    let from = Scratch::new();
    let tree = from.dir("tree");
    for (name, text) in [("Read", "first"), ("read", "second"), ("READ.", "third"), ("other", "x")]
    {
        fs::write(tree.join(name), text).unwrap();
    }
    let put = m.fs(&["put", tree.to_str().unwrap()], "/");
    let said = put.exits(1).stderr;
    assert!(said.contains("the volume takes this name for that of READ."), "{said}");
    assert_eq!(names(&m.at("tree")), ["READ", "other"]);
    assert_eq!(fs::read(m.at("tree/read")).unwrap(), b"third");
    m.umount();
}

#[test]
fn mkfs_says_what_it_is_put_over() {
    let place = Scratch::new();
    let disk = place.join("disk");
    File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let mut sfdisk = tool("sfdisk");
    sfdisk.args(["-q", "--no-reread", "--wipe", "never"]).arg(&disk);
    let mut child = sfdisk.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"label: dos\nsize=8M,type=c\nsize=8M\n").unwrap();
    assert!(child.wait().unwrap().success());
    let mkfs = || {
        let mut c = std::process::Command::new(seawall_tests::bin("fatsrv"));
        run(c.arg("mkfs").arg(&disk)).ok().stderr
    };
    assert!(mkfs().contains("a table of 2 partitions was there"));
    assert_eq!(mkfs(), "");
}

/// A server that was killed leaves the volume marked as in use, and what was synced on it.
#[test]
fn a_killed_server_leaves_the_mark_and_what_was_synced() {
    let mut m = mounted(64 << 20, &["-F", "32"], &[]);
    fs::write(m.at("kept"), pattern(100_000, 1)).unwrap();
    m.ctl(&["sync"]).ok();
    m.server.take().unwrap().kill();
    run(tool("umount").arg("-l").arg(m.dir())).ok();
    let said = run(tool("fsck.fat").arg("-n").arg(m.image())).stdout;
    assert!(said.contains("Dirty bit is set"), "{said}");
    m.start(&[]);
    assert!(fs::read(m.at("kept")).unwrap() == pattern(100_000, 1));
    run(tool("umount").arg(m.dir())).ok();
    assert_eq!(m.wait(), 0);
}
