//! The reference tools for ext2 as judges.

use crate::{run, tool};
use std::fs::File;
use std::path::Path;

/// Makes an image of `size` bytes with `mke2fs` and the given arguments (`["-b", "1024"]`). The
/// file is created, or emptied first.
///
/// # Panics
/// When the tool says no.
#[track_caller]
pub fn mke2fs(image: &Path, size: u64, args: &[&str]) {
    File::create(image).unwrap().set_len(size).unwrap();
    run(tool("mke2fs").args(["-q", "-F", "-t", "ext2"]).args(args).arg(image)).ok();
}

/// What a forced, read-only `e2fsck -fn` thinks of an image: exit code (0 is clean, 4 is "errors
/// left uncorrected") and everything it printed.
#[track_caller]
pub fn e2fsck(image: &Path) -> (i32, String) {
    let seen = run(tool("e2fsck").arg("-fn").arg(image));
    (seen.code(), seen.stdout + &seen.stderr)
}

/// Fails unless `e2fsck -fn` exits with 0.
///
/// # Panics
/// With what e2fsck found.
#[track_caller]
pub fn assert_clean(image: &Path) {
    let (code, output) = e2fsck(image);
    assert!(code == 0, "e2fsck -fn {}: exit code {code}\n{output}", image.display());
}

/// Output of one `debugfs` request (`stat /a`, `dump_extents /a`), read-only. The tool exits with 0
/// even when it failed, so anything on standard error but its banner fails the test.
///
/// # Panics
/// When debugfs complains.
#[track_caller]
pub fn debugfs(image: &Path, request: &str) -> String {
    debugfs_with(image, request, &[])
}

/// Same, with the image open for writing: to damage it on purpose.
///
/// # Panics
/// When debugfs complains.
#[track_caller]
pub fn debugfs_write(image: &Path, request: &str) -> String {
    debugfs_with(image, request, &["-w"])
}

#[track_caller]
fn debugfs_with(image: &Path, request: &str, args: &[&str]) -> String {
    let seen = run(tool("debugfs").args(args).args(["-R", request]).arg(image)).ok();
    let banner = |l: &&str| l.starts_with("debugfs 1.") || l.trim().is_empty();
    let complaint = seen.stderr.lines().find(|l| !banner(l));
    assert!(complaint.is_none(), "debugfs `{request}`: {seen}");
    seen.stdout
}

/// Output of `dumpe2fs -h`: the superblock in words.
///
/// # Panics
/// When the tool says no.
#[track_caller]
pub fn dumpe2fs(image: &Path) -> String {
    run(tool("dumpe2fs").arg("-h").arg(image)).ok().stdout
}
