//! What the cross-crate tests share: the real servers as processes, the real tools as judges, the
//! kernel's own ext2, and trees to compare.
//!
//! Every helper either does what its name says or fails the test with what it saw. None of them
//! skips, and none sleeps to wait for something that has an event.
#![forbid(unsafe_code)]
// A library for tests only: a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bins;
mod compat;
mod e2fs;
mod file_dev;
mod fuzz;
mod mount;
mod process;
mod run;
mod scratch;
mod tree;

pub use bins::bin;
pub use compat::rows_name_tests;
pub use e2fs::{assert_clean, debugfs, debugfs_write, dumpe2fs, e2fsck, mke2fs};
pub use file_dev::FileDev;
pub use fuzz::{Rng, fuzz};
pub use mount::{LoopMount, Mount};
pub use process::Proc;
pub use run::{Run, run, tool};
pub use scratch::Scratch;
pub use tree::{
    Compare, Entry, Kind, Mtime, Tree, assert_same_tree, pattern, sample_tree, tree_diff,
    tree_snapshot,
};
