//! Others read what was written here, and their writing is read here: mtools and the `fatfs` crate.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{Plain, assert_clean, mkfs_fat, plain};
use seawall_diskfs::Kind;
use seawall_tests::{Scratch, pattern, run, tool};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

/// Paths to contents; `None` for a directory.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

const SHAPES: [(u64, &[&str]); 4] = [
    (2 << 20, &["-F", "12", "-s", "2"]),
    (5 << 20, &["-F", "16", "-s", "2"]),
    (40 << 20, &["-F", "32", "-s", "1"]),
    (8 << 20, &["-F", "12", "-S", "4096", "-s", "1"]),
];

fn mtool(name: &str, image: &Path) -> Command {
    let mut cmd = tool(name);
    cmd.env("MTOOLS_SKIP_CHECK", "1").env("LC_ALL", "C.UTF-8").arg("-i").arg(image);
    cmd
}

fn sample() -> Tree {
    let mut t = Tree::new();
    let mut add = |p: String, n: Option<usize>| {
        t.insert(p, n.map(|n| pattern(n, n as u64)));
    };
    for d in ["/DIR", "/a directory", "/a directory/deeper", "/\u{fc}nicode names", "/empty place"]
    {
        add(d.to_string(), None);
    }
    for (i, d) in ["", "/DIR", "/a directory", "/a directory/deeper", "/\u{fc}nicode names"]
        .into_iter()
        .enumerate()
    {
        add(format!("{d}/SHORT.TXT"), Some(i));
        add(format!("{d}/lower.txt"), Some(513 * i));
        add(format!("{d}/Long name with spaces {i}.html"), Some(5000 + i));
        add(format!("{d}/Long name with spaces {i}.htm"), Some(20_000 * i));
        add(format!("{d}/Stra\u{df}e \u{65e5}\u{672c} {i}"), Some(100));
        add(format!("{d}/{}", "x".repeat(150)), Some(1));
    }
    for i in 0..70 {
        add(format!("/a directory/deeper/number {i} of many"), Some(i));
    }
    t
}

fn write_ours(v: &mut Plain, t: &Tree) {
    for (p, data) in t {
        match data {
            None => drop(v.mkdir(p).unwrap()),
            Some(d) => {
                v.create(p).unwrap();
                v.write(p, 0, d).unwrap();
            }
        }
    }
    // Slots and clusters that were in use before.
    for i in 0..30 {
        v.create(&format!("/DIR/gone {i}")).unwrap();
        v.write(&format!("/DIR/gone {i}"), 0, &[1; 3000]).unwrap();
    }
    for i in 0..30 {
        v.unlink(&format!("/DIR/gone {i}")).unwrap();
    }
}

fn read_ours(v: &mut Plain) -> Tree {
    let (mut t, mut todo) = (Tree::new(), vec![String::new()]);
    while let Some(dir) = todo.pop() {
        for (name, _, kind) in v.list(&format!("{dir}/")).unwrap() {
            let path = format!("{dir}/{name}");
            let data = match kind {
                Some(Kind::Dir) => {
                    todo.push(path.clone());
                    None
                }
                _ => Some(v.read(&path, 0, 1 << 20).unwrap()),
            };
            t.insert(path, data);
        }
    }
    t
}

/// Every path as `mdir -b -/ -a` lists them, and contents as `mtype` gives them.
fn read_mtools(image: &Path) -> Tree {
    let listed = run(mtool("mdir", image).args(["-b", "-/", "-a", "::/"])).ok().stdout;
    let mut t = Tree::new();
    for line in listed.lines().filter_map(|l| l.strip_prefix("::")) {
        match line.strip_suffix('/') {
            Some(dir) => t.insert(dir.to_string(), None),
            None => {
                let out = mtool("mtype", image).arg(format!("::{line}")).output().unwrap();
                assert!(out.status.success(), "mtype {line}");
                t.insert(line.to_string(), Some(out.stdout))
            }
        };
    }
    t
}

type FatFs = fatfs::FileSystem<File>;

fn open_fatfs(image: &Path) -> FatFs {
    let file = File::options().read(true).write(true).open(image).unwrap();
    fatfs::FileSystem::new(file, fatfs::FsOptions::new()).unwrap()
}

fn read_fatfs(image: &Path) -> Tree {
    fn walk(dir: &fatfs::Dir<'_, File>, path: &str, t: &mut Tree) {
        for e in dir.iter().map(Result::unwrap) {
            let name = e.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let p = format!("{path}/{name}");
            if e.is_dir() {
                t.insert(p.clone(), None);
                walk(&e.to_dir(), &p, t);
            } else {
                let mut data = Vec::new();
                e.to_file().read_to_end(&mut data).unwrap();
                t.insert(p, Some(data));
            }
        }
    }
    let fs = open_fatfs(image);
    let mut t = Tree::new();
    walk(&fs.root_dir(), "", &mut t);
    t
}

#[track_caller]
fn assert_same(got: &Tree, want: &Tree) {
    let names = |t: &Tree| t.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(got), names(want));
    for (p, data) in want {
        assert!(got[p] == *data, "content of {p}");
    }
}

#[test]
fn mtools_and_fatfs_see_the_tree_that_was_written() {
    let want = sample();
    for (size, args) in SHAPES {
        let dir = Scratch::new();
        let image = dir.join("image");
        mkfs_fat(&image, size, args);
        let mut v = plain(&image, "default");
        write_ours(&mut v, &want);
        v.unmount();
        assert_clean(&image);
        assert_same(&read_mtools(&image), &want);
        assert_same(&read_fatfs(&image), &want);
        assert_same(&read_ours(&mut plain(&image, "default")), &want);
    }
}

#[test]
fn a_tree_that_mtools_wrote_is_read_and_changed() {
    let want = sample();
    for (size, args) in SHAPES {
        let dir = Scratch::new();
        let (image, file) = (dir.join("image"), dir.join("content"));
        mkfs_fat(&image, size, args);
        for (p, data) in &want {
            match data {
                None => run(mtool("mmd", &image).arg(format!("::{p}"))).ok(),
                Some(d) => {
                    std::fs::write(&file, d).unwrap();
                    run(mtool("mcopy", &image).arg(&file).arg(format!("::{p}"))).ok()
                }
            };
        }
        let mut v = plain(&image, "default");
        assert_same(&read_ours(&mut v), &want);
        let mut after = want.clone();
        for p in want.keys().filter(|p| p.contains("number 1")) {
            v.unlink(p).unwrap();
            after.remove(p);
        }
        v.rename("/SHORT.TXT", "/a directory/Now a longer name").unwrap();
        let moved = after.remove("/SHORT.TXT").unwrap();
        after.insert("/a directory/Now a longer name".to_string(), moved);
        v.unmount();
        assert_clean(&image);
        assert_same(&read_mtools(&image), &after);
    }
}

#[test]
fn a_tree_that_fatfs_wrote_is_read() {
    let want = sample();
    for (size, args) in SHAPES {
        let dir = Scratch::new();
        let image = dir.join("image");
        mkfs_fat(&image, size, args);
        let fs = open_fatfs(&image);
        for (p, data) in &want {
            let p = p.trim_start_matches('/');
            match data {
                None => drop(fs.root_dir().create_dir(p).unwrap()),
                Some(d) => fs.root_dir().create_file(p).unwrap().write_all(d).unwrap(),
            }
        }
        fs.unmount().unwrap();
        assert_same(&read_ours(&mut plain(&image, "default")), &want);
        // What it reads of ours at any offset.
        let fs = open_fatfs(&image);
        let mut f = fs.root_dir().open_file("a directory/Long name with spaces 2.htm").unwrap();
        f.seek(SeekFrom::Start(12_345)).unwrap();
        let mut part = [0; 100];
        f.read_exact(&mut part).unwrap();
        let whole = want["/a directory/Long name with spaces 2.htm"].clone().unwrap();
        assert!(part == whole[12_345..12_445]);
    }
}
