//! Directory trees as values: taken from any mounted or plain folder, and compared in words.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link and its target.
    Symlink(PathBuf),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device and its number.
    Char(u64),
    /// Block device and its number.
    Block(u64),
}

/// One name of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, 07777.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Bytes. 0 for directories, where it is the filesystem's affair.
    pub size: u64,
    /// 512-byte units in use. Never compared; for tests of holes.
    pub blocks: u64,
    /// Seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// Names of this inode; 1 for directories, where filesystems differ.
    pub nlink: u64,
    /// For a second name of a file: the first one, in order of paths.
    pub same_as: Option<PathBuf>,
    /// Hash of the content of a regular file.
    pub hash: u64,
}

/// Path relative to the root of the tree -> entry, without the root itself and its `lost+found`.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// How exact times have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mtime {
    /// Not compared.
    Ignored,
    /// Whole seconds: all that a 128-byte inode keeps.
    Seconds,
    /// Nanoseconds.
    Exact,
}

/// What a comparison looks at besides kind, mode, size, links and content.
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    /// Times of files and directories.
    pub mtime: Mtime,
    /// Times of symbolic links.
    pub symlink_mtime: Mtime,
    /// Owner and group.
    pub owner: bool,
}

impl Default for Compare {
    fn default() -> Self {
        Self { mtime: Mtime::Seconds, symlink_mtime: Mtime::Ignored, owner: false }
    }
}

/// Reads a whole tree, content included. Does not follow links.
///
/// # Panics
/// When something cannot be read.
#[track_caller]
pub fn tree_snapshot(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut inodes = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for item in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = item.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            if name.as_os_str() == "lost+found" {
                continue;
            }
            let (entry, id) = entry(&path);
            if entry.kind == Kind::Dir {
                todo.push(path);
            }
            inodes.entry(id).or_insert_with(Vec::new).push(name.clone());
            tree.insert(name, entry);
        }
    }
    for mut names in inodes.into_values() {
        names.sort();
        for name in &names[1..] {
            tree.get_mut(name).unwrap().same_as = Some(names[0].clone());
        }
    }
    tree
}

fn entry(path: &Path) -> (Entry, (u64, u64)) {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let t = meta.file_type();
    let kind = match () {
        () if t.is_dir() => Kind::Dir,
        () if t.is_symlink() => Kind::Symlink(fs::read_link(path).unwrap()),
        () if t.is_fifo() => Kind::Fifo,
        () if t.is_socket() => Kind::Socket,
        () if t.is_char_device() => Kind::Char(meta.rdev()),
        () if t.is_block_device() => Kind::Block(meta.rdev()),
        () => Kind::File,
    };
    let dir = kind == Kind::Dir;
    let hash = if kind == Kind::File { content(path) } else { 0 };
    let entry = Entry {
        kind,
        mode: meta.mode() & 0o7777,
        owner: (meta.uid(), meta.gid()),
        size: if dir { 0 } else { meta.size() },
        blocks: meta.blocks(),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        nlink: if dir { 1 } else { meta.nlink() },
        same_as: None,
        hash,
    };
    (entry, (meta.dev(), meta.ino()))
}

/// Zeros count by their place alone, so that a sparse file costs what it holds and a hole is the
/// same as written zeros. Whole pieces, so that the hash does not depend on how much a read
/// returns.
fn content(path: &Path) -> u64 {
    const PIECE: u64 = 1 << 16;
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut hasher = DefaultHasher::new();
    let mut piece = Vec::new();
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = data / PIECE * PIECE;
        file.seek(SeekFrom::Start(at)).unwrap();
        piece.clear();
        file.by_ref().take(PIECE).read_to_end(&mut piece).unwrap();
        if piece.iter().any(|b| *b != 0) {
            hasher.write_u64(at);
            hasher.write(&piece);
        }
        at += PIECE;
    }
    hasher.finish()
}

/// The differences, one line each, in order of paths.
pub fn tree_diff(left: &Tree, right: &Tree, how: Compare) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, l) in left {
        match right.get(path) {
            None => lines.push(format!("{}: only on the left ({:?})", path.display(), l.kind)),
            Some(r) => entry_diff(path, l, r, how, &mut lines),
        }
    }
    for (path, r) in right.iter().filter(|(path, _)| !left.contains_key(*path)) {
        lines.push(format!("{}: only on the right ({:?})", path.display(), r.kind));
    }
    lines
}

fn entry_diff(path: &Path, l: &Entry, r: &Entry, how: Compare, lines: &mut Vec<String>) {
    let mut differ = |what: &str, l: String, r: String| {
        if l != r {
            lines.push(format!("{}: {what} {l} on the left, {r} on the right", path.display()));
        }
    };
    differ("kind", format!("{:?}", l.kind), format!("{:?}", r.kind));
    differ("size", l.size.to_string(), r.size.to_string());
    differ("links", l.nlink.to_string(), r.nlink.to_string());
    differ("same file as", format!("{:?}", l.same_as), format!("{:?}", r.same_as));
    differ("content hash", format!("{:016x}", l.hash), format!("{:016x}", r.hash));
    let symlink = matches!(l.kind, Kind::Symlink(_));
    if !symlink {
        differ("mode", format!("{:04o}", l.mode), format!("{:04o}", r.mode));
    }
    match if symlink { how.symlink_mtime } else { how.mtime } {
        Mtime::Ignored => {}
        Mtime::Seconds => differ("mtime", l.mtime.0.to_string(), r.mtime.0.to_string()),
        Mtime::Exact => differ("mtime", format!("{:?}", l.mtime), format!("{:?}", r.mtime)),
    }
    if how.owner {
        differ("owner", format!("{:?}", l.owner), format!("{:?}", r.owner));
    }
}

/// Fails unless both trees are the same.
///
/// # Panics
/// With the first 20 differences.
#[track_caller]
pub fn assert_same_tree(left: &Tree, right: &Tree, how: Compare) {
    let lines = tree_diff(left, right, how);
    let shown = lines.iter().take(20).cloned().collect::<Vec<_>>().join("\n  ");
    assert!(lines.is_empty(), "{} differences:\n  {shown}", lines.len());
}

/// `len` bytes that depend on `seed` and do not repeat within a block.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Fills a folder with one of everything that a copy has to keep: sizes around 1 and 4 KiB blocks
/// and beyond the direct blocks of either, holes, empty files and folders, modes, old and
/// subsecond times, hard links within and across folders, symbolic links on both sides of the 60
/// bytes that fit an inode, long and odd names.
///
/// # Panics
/// When the folder cannot be written.
#[track_caller]
pub fn sample_tree(root: &Path) {
    let dir = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
    ["empty", "sizes", "links/deep/er", "names"].into_iter().for_each(dir);
    for (i, size) in [0, 1, 1023, 1024, 1025, 4096, 12_289, 49_153, 300_000].iter().enumerate() {
        write(&format!("sizes/{size}"), &pattern(*size, i as u64));
    }
    let holes = File::create(root.join("holes")).unwrap();
    holes.write_all_at(&pattern(100, 77), 0).unwrap();
    holes.write_all_at(&pattern(100, 78), 5 << 20).unwrap();
    holes.set_len(6 << 20).unwrap();
    write("links/first", b"one inode, three names");
    fs::hard_link(root.join("links/first"), root.join("links/second")).unwrap();
    fs::hard_link(root.join("links/first"), root.join("links/deep/third")).unwrap();
    symlink("first", root.join("links/short")).unwrap();
    symlink(format!("/nowhere/{}", "x".repeat(80)), root.join("links/long")).unwrap();
    write(&format!("names/{}", "n".repeat(255)), b"255 bytes");
    write("names/with space, \u{e4} and\nnewline", b"any byte but / and NUL");
    for (name, mode) in [("plain", 0o644), ("exec", 0o755), ("setuid", 0o4711), ("none", 0)] {
        write(name, name.as_bytes());
        fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(root.join("empty"), Permissions::from_mode(0o1777)).unwrap();
    for (name, at) in [("plain", 1), ("exec", 1_000_000_000), ("links/deep", 1_234_567_890)] {
        let at = SystemTime::UNIX_EPOCH + Duration::new(at, 123_456_789);
        let times = FileTimes::new().set_modified(at).set_accessed(at);
        File::open(root.join(name)).unwrap().set_times(times).unwrap();
    }
}
