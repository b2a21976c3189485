//! The `tree` workload's files: real sources that are there after a build.
//!
//! The packages that this workspace's lockfile names are looked for under
//! `CARGO_HOME/registry/src`, in order of their names, until there are at least [`FILES_WANTED`]
//! files. When they are not enough, the sources of the workspace itself are added, and every report
//! says so. Two machines with the same packages have the same tree: its fingerprint covers names,
//! sizes and content.

use anyhow::{Context, Result, bail};
use seawall_blockdev::PageBuf;
use seawall_diskfs::Slice;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files that a tree should have.
pub const FILES_WANTED: usize = 2000;
/// Largest tree, bytes: it is held in memory.
const BYTES_MAX: u64 = 512 << 20;

const LOCKFILE: &str = include_str!("../../Cargo.lock");

/// What an entry is.
#[derive(Clone, Debug)]
pub enum Node {
    /// A directory; it has the next number, the root being 0.
    Dir,
    /// A regular file and its content.
    File(Slice),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
}

/// One name.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of the directory it is in.
    pub dir: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub node: Node,
}

/// A tree in memory, directories before what is in them.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// All names.
    pub entries: Vec<Entry>,
    /// Packages taken from the registry.
    pub packages: usize,
    /// Where they were.
    pub from: PathBuf,
    /// Files that the workspace itself had to add.
    pub own_files: usize,
    dirs: usize,
}

impl Tree {
    /// Reads the tree.
    ///
    /// # Errors
    /// A file that cannot be read; no file at all.
    pub fn find() -> Result<Self> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let registry = home.unwrap_or_default().join("registry/src");
        let mut tree = Self { from: registry.clone(), dirs: 1, ..Self::default() };
        for package in packages(&registry) {
            if tree.files().count() >= FILES_WANTED {
                break;
            }
            tree.add(&package)?;
            tree.packages = tree.packages.saturating_add(1);
        }
        let had = tree.files().count();
        if had < FILES_WANTED {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
            for folder in OWN.iter().map(|name| root.join(name)).filter(|p| p.is_dir()) {
                tree.add(&folder)?;
            }
            tree.own_files = tree.files().count().saturating_sub(had);
        }
        if tree.files().next().is_none() {
            bail!(
                "workload tree: no source files under {}; build once with cargo, or set CARGO_HOME",
                registry.display()
            );
        }
        Ok(tree)
    }

    /// Adds a folder of that name to the root.
    ///
    /// # Errors
    /// What cannot be read; a tree that is too large for memory.
    pub fn add(&mut self, folder: &Path) -> Result<()> {
        self.dirs = self.dirs.max(1);
        let mut todo = vec![(0usize, folder.to_path_buf())];
        while let Some((dir, path)) = todo.pop() {
            let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
            self.entries.push(Entry { dir, name, node: Node::Dir });
            let here = self.dirs;
            self.dirs = self.dirs.saturating_add(1);
            let reading = || format!("workload tree: {}", path.display());
            let mut items: Vec<PathBuf> = fs::read_dir(&path)
                .with_context(reading)?
                .map(|item| item.map(|i| i.path()))
                .collect::<Result<_, _>>()
                .with_context(reading)?;
            items.sort();
            for item in items {
                if let Some(node) = node(&item)? {
                    let name = item.file_name().unwrap_or_default().as_bytes().to_vec();
                    self.entries.push(Entry { dir: here, name, node });
                } else if item.is_dir() && item.file_name() != Some("target".as_ref()) {
                    todo.push((here, item));
                }
            }
            if self.bytes() > BYTES_MAX {
                bail!("workload tree: more than {} MiB of sources", BYTES_MAX >> 20);
            }
        }
        Ok(())
    }

    /// Contents of the regular files.
    pub fn files(&self) -> impl Iterator<Item = &Slice> {
        self.entries.iter().filter_map(|e| match &e.node {
            Node::File(data) => Some(data),
            _ => None,
        })
    }

    /// Bytes in the regular files.
    pub fn bytes(&self) -> u64 {
        self.files().map(|f| f.len() as u64).sum()
    }

    /// Directories, without the root.
    pub fn dirs(&self) -> usize {
        self.entries.iter().filter(|e| matches!(e.node, Node::Dir)).count()
    }

    /// FNV-1a over names, kinds, sizes and contents: equal trees have equal fingerprints.
    pub fn fingerprint(&self) -> u64 {
        let mut h = 0xCBF2_9CE4_8422_2325_u64;
        let mut eat = |bytes: &[u8]| {
            for b in bytes {
                h = (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3);
            }
        };
        for e in &self.entries {
            eat(&(e.dir as u64).to_le_bytes());
            eat(&e.name);
            match &e.node {
                Node::Dir => eat(b"/"),
                Node::Symlink(to) => eat(to),
                Node::File(data) => {
                    eat(&(data.len() as u64).to_le_bytes());
                    eat(data);
                }
            }
        }
        h
    }

    /// One line for reports.
    pub fn describe(&self) -> String {
        let files = self.files().count();
        let mut line = format!(
            "{files} files, {} directories, {:.1} MB from {} packages under {}",
            self.dirs(),
            self.bytes() as f64 / 1e6,
            self.packages,
            self.from.display()
        );
        if self.own_files > 0 {
            line += &format!(
                "; the registry has fewer than {FILES_WANTED}, so {} are the workspace's own",
                self.own_files
            );
        }
        if files < FILES_WANTED {
            line += &format!("; FEWER THAN {FILES_WANTED}: not comparable with other trees");
        }
        line
    }
}

/// The workspace's folders with sources.
const OWN: &[&str] = &[
    "blockdev",
    "ipc",
    "diskfs",
    "store",
    "ext2srv",
    "translator",
    "bench",
    "tests",
    "examples",
    "xtask",
];

/// A file or link; `None` for what is neither.
fn node(path: &Path) -> Result<Option<Node>> {
    let reading = || format!("workload tree: {}", path.display());
    let kind = fs::symlink_metadata(path).with_context(reading)?.file_type();
    if kind.is_symlink() {
        let to = fs::read_link(path).with_context(reading)?;
        return Ok(Some(Node::Symlink(to.as_os_str().as_bytes().to_vec())));
    }
    if !kind.is_file() {
        return Ok(None);
    }
    let bytes = fs::read(path).with_context(reading)?;
    Ok(Some(Node::File(Slice::new(PageBuf::from_slice(&bytes)))))
}

/// Folders of the lockfile's packages, by name.
fn packages(registry: &Path) -> Vec<PathBuf> {
    let wanted = locked();
    let mut found: Vec<PathBuf> = Vec::new();
    for index in fs::read_dir(registry).into_iter().flatten().flatten() {
        for package in fs::read_dir(index.path()).into_iter().flatten().flatten() {
            let name = package.file_name().to_string_lossy().into_owned();
            if wanted.contains(&name) {
                found.push(package.path());
            }
        }
    }
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found.dedup_by(|a, b| a.file_name() == b.file_name());
    found
}

/// `name-version` of every package in the lockfile that comes from a registry.
fn locked() -> BTreeSet<String> {
    let field = |block: &str, key: &str| {
        let line = block.lines().find_map(|l| l.strip_prefix(key))?;
        Some(line.trim_matches('"').to_string())
    };
    LOCKFILE
        .split("[[package]]")
        .filter(|block| block.contains("\nsource = "))
        .filter_map(|b| Some(format!("{}-{}", field(b, "name = ")?, field(b, "version = ")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockfile_names_packages_with_their_versions() {
        let all = locked();
        assert!(all.iter().any(|p| p.starts_with("tokio-1.")), "{all:?}");
        assert!(!all.iter().any(|p| p.starts_with("seawall")), "own packages have no source");
    }

    #[test]
    fn a_folder_is_read_directories_first() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::write(top.join("a"), b"12345").unwrap();
        fs::write(top.join("sub/b"), b"").unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let mut tree = Tree::default();
        tree.add(&top).unwrap();
        let names: Vec<(usize, &[u8])> =
            tree.entries.iter().map(|e| (e.dir, e.name.as_slice())).collect();
        let want: [(usize, &[u8]); 5] =
            [(0, b"top"), (1, b"a"), (1, b"link"), (1, b"sub"), (2, b"b")];
        assert_eq!(names, want);
        assert_eq!((tree.files().count(), tree.dirs(), tree.bytes()), (2, 2, 5));
        let before = tree.fingerprint();
        fs::write(top.join("a"), b"12346").unwrap();
        let mut other = Tree::default();
        other.add(&top).unwrap();
        assert_ne!(before, other.fingerprint());
    }
}
