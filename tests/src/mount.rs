//! The kernel's own ext2, on an image file.
//!
//! Needs root and loop devices; `cargo xtask test` has checked both before a test runs.

use crate::{Scratch, run, tool};
use std::path::Path;

/// An image mounted by the kernel. Unmounted on drop, but only [`LoopMount::unmount`] reports a
/// failure, so a test that reads the image afterwards calls that.
#[derive(Debug)]
pub struct LoopMount {
    at: Scratch,
    mounted: bool,
}

impl LoopMount {
    /// Mounts for reading and writing.
    #[track_caller]
    pub fn rw(image: &Path) -> Self {
        Self::with(image, "loop")
    }

    /// Mounts read-only; not a byte of the image changes.
    #[track_caller]
    pub fn ro(image: &Path) -> Self {
        Self::with(image, "loop,ro")
    }

    /// Mounts with the given `-o` options, which have to contain `loop`.
    ///
    /// # Panics
    /// When the kernel refuses.
    #[track_caller]
    pub fn with(image: &Path, options: &str) -> Self {
        Self::typed(image, "ext2", options)
    }

    /// Mounts as `ext3` or `ext4`, for features that `ext2` does not take.
    ///
    /// # Panics
    /// When the kernel refuses.
    #[track_caller]
    pub fn typed(image: &Path, kind: &str, options: &str) -> Self {
        let at = Scratch::new();
        run(tool("mount").args(["-t", kind, "-o", options]).arg(image).arg(at.path())).ok();
        Self { at, mounted: true }
    }

    /// The mounted root.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Unmounts: everything written is in the image file when this returns.
    ///
    /// # Panics
    /// When the mount is busy.
    #[track_caller]
    pub fn unmount(mut self) {
        self.mounted = false;
        let seen = run(tool("umount").arg(self.at.path()));
        if !seen.status.success() {
            self.detach();
        }
        seen.ok();
    }

    /// Without it, removing the scratch folder would remove the files in the image.
    fn detach(&self) {
        run(tool("umount").arg("-l").arg(self.at.path())).ok();
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if self.mounted && !run(tool("umount").arg(self.at.path())).status.success() {
            self.detach();
        }
    }
}
