//! Mounts of an image file: by the kernel's own ext2, and by a server of ours over FUSE.
//!
//! Needs root, loop devices and /dev/fuse; `cargo xtask test` has checked them before a test runs.

use crate::{
    Compare, Mtime, Proc, Run, Scratch, Tree, assert_clean, assert_same_tree, bin, mke2fs, run,
    tool, tree_snapshot,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a server may take to end. Generous: it is there to end a run that hangs.
const END: Duration = Duration::from_secs(120);

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

/// An image that `ext2srv mount`, or `fatsrv mount`, serves on a folder. On drop the server is
/// killed and the mount taken away: a test that failed must not leave one in the folder that is
/// removed next.
#[derive(Debug)]
pub struct Mount {
    /// Holds `image`, `mnt` and `socket`.
    pub place: Scratch,
    /// The server; `None` when it has ended or is nobody's child.
    pub server: Option<Proc>,
    /// `ext2srv` or `fatsrv`.
    pub program: &'static str,
}

impl Mount {
    /// A folder with a new `image`, made by mke2fs with these arguments, and an empty `mnt`.
    pub fn place(size: u64, args: &[&str]) -> Scratch {
        let place = Scratch::new();
        mke2fs(&place.join("image"), size, args);
        place.dir("mnt");
        place
    }

    /// Mounts the image in such a folder. `options` are arguments of `ext2srv mount`.
    #[track_caller]
    pub fn on(place: Scratch, options: &[&str]) -> Self {
        let mut m = Self { place, server: None, program: "ext2srv" };
        m.start(options);
        m
    }

    /// As [`Mount::place`], made by mkfs.fat.
    pub fn fat_place(size: u64, args: &[&str]) -> Scratch {
        let place = Scratch::new();
        let image = place.join("image");
        std::fs::File::create(&image).unwrap().set_len(size).unwrap();
        run(tool("mkfs.fat").args(args).arg(&image)).ok();
        place.dir("mnt");
        place
    }

    /// Mounts a FAT image. `options` are arguments of `fatsrv mount`.
    #[track_caller]
    pub fn fat(place: Scratch, options: &[&str]) -> Self {
        let mut m = Self { place, server: None, program: "fatsrv" };
        m.start(options);
        m
    }

    /// Mounts once more.
    #[track_caller]
    pub fn start(&mut self, options: &[&str]) {
        let mut cmd = Command::new(bin(self.program));
        cmd.arg("mount").arg(self.image()).arg(self.dir()).arg("--socket").arg(self.socket());
        self.server = Some(Proc::serve(cmd.args(options), &self.socket()));
    }

    /// The image.
    pub fn image(&self) -> PathBuf {
        self.place.join("image")
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.join("socket")
    }

    /// The mounted root.
    pub fn dir(&self) -> PathBuf {
        self.place.join("mnt")
    }

    /// A path in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// `PROGRAM ctl DIR WORDS`.
    pub fn ctl(&self, words: &[&str]) -> Run {
        run(Command::new(bin(self.program)).arg("ctl").arg(self.dir()).args(words))
    }

    /// `seawall fs WORDS SOCKET:PATH`.
    pub fn fs(&self, words: &[&str], path: &str) -> Run {
        let target = format!("{}:{path}", self.socket().display());
        run(Command::new(bin("seawall")).arg("fs").args(words).arg(target))
    }

    /// A number of `ctl DIR stats --json`; 0 for what is not there.
    pub fn stat(&self, site: &str, name: &str) -> u64 {
        let text = self.ctl(&["stats", "--json"]).ok().stdout;
        let from = text.find(&format!("\"site\": \"{site}\"")).unwrap_or(text.len());
        let key = format!("\"{name}\": ");
        let Some(at) = text[from..].find(&key) else { return 0 };
        let digits = &text[from + at + key.len()..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap();
        digits[..end].parse().unwrap()
    }

    /// Waits for the server's end and returns its exit code; -1 when a signal ended it.
    pub fn wait(&mut self) -> i32 {
        self.server.take().unwrap().wait(END).code().unwrap_or(-1)
    }

    /// Unmounts; the server ends with 0 and e2fsck, or fsck.fat, finds nothing.
    ///
    /// # Panics
    /// When one of these is not so.
    #[track_caller]
    pub fn umount(&mut self) {
        run(tool("umount").arg(self.dir())).ok();
        assert_eq!(self.wait(), 0);
        match self.program {
            "fatsrv" => drop(run(tool("fsck.fat").arg("-n").arg(self.image())).ok()),
            _ => assert_clean(&self.image()),
        }
    }

    /// Same, and the kernel's ext2 finds the same tree.
    ///
    /// # Panics
    /// With what differs.
    #[track_caller]
    pub fn finish(mut self) -> Tree {
        let ours = tree_snapshot(&self.dir());
        self.umount();
        let theirs = LoopMount::ro(&self.image());
        let how = Compare { mtime: Mtime::Exact, symlink_mtime: Mtime::Exact, owner: true };
        assert_same_tree(&ours, &tree_snapshot(theirs.path()), how);
        theirs.unmount();
        ours
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
        let _already_unmounted = run(tool("umount").arg("-l").arg(self.dir()));
    }
}
