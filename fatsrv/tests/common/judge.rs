//! What the tests of mkfs and the checker share: devices over sparse files, and the judges.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_diskfs::Timestamp;
use seawall_fat::MkfsOptions;
pub use seawall_tests::FileDev;
use seawall_tests::{run, tool};
use std::path::Path;

/// The time of every test.
pub const TIME: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 123_456_789 };

/// A volume of `size` bytes.
pub fn options(size: u64) -> MkfsOptions {
    MkfsOptions::new(size, 0x1234_ABCD, TIME)
}

/// Exit status and output of `fsck.fat -n`.
pub fn fsck(image: &Path) -> (i32, String) {
    let seen = run(tool("timeout").args(["60", "fsck.fat", "-n"]).arg(image));
    (seen.code(), seen.stdout + &seen.stderr)
}

/// Fails unless `fsck.fat -n` ends with 0.
#[track_caller]
pub fn assert_clean(image: &Path, what: &str) {
    let (code, output) = fsck(image);
    assert!(code == 0, "{what}: fsck.fat -n: {code}\n{output}");
}

/// Runs one of mtools on an image; `::` is its root.
#[track_caller]
pub fn mtool(image: &Path, name: &str, args: &[&str]) -> String {
    run(tool(name).arg("-i").arg(image).args(args)).ok().stdout
}
