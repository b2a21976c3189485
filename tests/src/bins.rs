//! Finding the servers that were built with the tests.
//!
//! Cargo builds a package's own binaries for its tests, but not those of other packages, so they
//! can be absent or older than the sources. A stale server would pass or fail for yesterday's code;
//! both cases stop the test.

use std::fs;
use std::path::{Path, PathBuf};

/// Path of `store`, `ext2srv`, `seawall` or any other binary of the workspace, in the folder of the
/// profile that this test was built with.
///
/// # Panics
/// When it is not there, or a source file it was built from is newer.
pub fn bin(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    let path = folder.join(name);
    let Ok(built) = fs::metadata(&path).and_then(|m| m.modified()) else {
        panic!("{} is not built: run `cargo xtask test build`", path.display());
    };
    let newer = |source: &Path| fs::metadata(source).is_ok_and(|m| m.modified().unwrap() > built);
    if let Some(source) = sources(&path).into_iter().find(|s| newer(s)) {
        panic!(
            "{} is older than {}: run `cargo xtask test build`",
            path.display(),
            source.display()
        );
    }
    path
}

/// What cargo wrote down beside the binary: `target: source source ..`, spaces escaped.
fn sources(binary: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let list = text.split_once(": ").map(|(_, list)| list.replace("\\ ", "\0")).unwrap_or_default();
    list.split_whitespace().map(|s| PathBuf::from(s.replace('\0', " "))).collect()
}
