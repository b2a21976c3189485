//! What the tests of this crate share: devices over sparse files, and a mounted volume with
//! operations by path.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_blockdev::{Numbered, PageBuf};
use seawall_diskfs::driver::{self, Blocking, Host};
use seawall_diskfs::testing::{AllMiss, mount};
use seawall_diskfs::{
    Attr, Ctx, Done, FsError, Handle, Ino, Kind, NewNode, OpenFlags, PlanReq, RenameFlags, SetAttr,
    Slice, Timestamp,
};
use seawall_ext2::{Ext2, OpenOptions};
pub use seawall_tests::FileDev;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The time of every test.
pub const TIME: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 123_456_789 };

/// A numbered [`FileDev`].
pub type Dev = Numbered<FileDev>;

/// Opens the engine on an image.
pub fn engine(path: &Path, opts: OpenOptions) -> Result<Ext2, FsError> {
    let file = File::open(path).unwrap();
    let mut sb = [0u8; 1024];
    let _ = file.read_at(&mut sb, 1024).unwrap();
    Ext2::open(&sb, file.metadata().unwrap().len(), opts)
}

/// A mounted image.
pub struct Vol<H> {
    pub host: H,
    pub ctx: Ctx,
    pub restarts: u32,
}

/// On one thread.
pub type Plain = Vol<Blocking<Ext2, Dev>>;
/// The same, every attempt with empty caches.
pub type Cold = Vol<AllMiss<Blocking<Ext2, Dev>>>;

fn ctx() -> Ctx {
    Ctx { now: TIME, cred: None, owner: (1000, 70_000), ..Ctx::default() }
}

/// Mounts an image with a preset.
pub fn plain(path: &Path, preset: &str) -> Plain {
    let fs = engine(path, OpenOptions::default()).unwrap();
    let host = mount(fs, FileDev::open(path), preset).unwrap();
    Vol { host, ctx: ctx(), restarts: 0 }
}

/// Mounts an image as a server does: it is checked first.
pub fn checked(path: &Path, opts: OpenOptions) -> Res<Plain> {
    let host = mount(engine(path, opts)?, FileDev::open(path), "default")?;
    let mut v = Vol { host, ctx: ctx(), restarts: 0 };
    driver::check_mount(&mut v.host, &ctx())?;
    Ok(v)
}

/// Mounts an image for reading alone.
pub fn reading(path: &Path) -> Res<Plain> {
    checked(path, OpenOptions { read_only: true, ..OpenOptions::default() })
}

/// Mounts an image with a preset, cold at every attempt.
pub fn cold(path: &Path, preset: &str) -> Cold {
    let Vol { host, ctx, restarts } = plain(path, preset);
    Vol { host: AllMiss(host), ctx, restarts }
}

/// Names of a path and the last one.
fn split(path: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let last = parts.pop().unwrap_or(".");
    (parts, last)
}

pub type Res<T> = Result<T, FsError>;

impl<H: Host<Format = Ext2>> Vol<H> {
    pub fn run<T>(
        &mut self,
        op: impl FnMut(
            &mut seawall_diskfs::Fs<Ext2>,
            &mut seawall_diskfs::Ticket,
        ) -> seawall_diskfs::Attempt<Done<T>>,
    ) -> Res<T> {
        let (value, restarts) = driver::run_counted(&mut self.host, &self.ctx.clone(), op)?;
        self.restarts = restarts;
        Ok(value)
    }

    pub fn lookup_in(&mut self, dir: Ino, name: &[u8]) -> Res<Attr> {
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.lookup(&ctx, dir, name, t))
    }

    fn dir<'p>(&mut self, path: &'p str) -> Res<(Ino, &'p [u8])> {
        let (parts, last) = split(path);
        let mut at = Ino(2);
        for p in parts {
            at = self.lookup_in(at, p.as_bytes())?.ino;
        }
        Ok((at, last.as_bytes()))
    }

    pub fn stat(&mut self, path: &str) -> Res<Attr> {
        let (dir, name) = self.dir(path)?;
        self.lookup_in(dir, name)
    }

    pub fn make(&mut self, path: &str, node: NewNode<'_>, mode: u32) -> Res<Attr> {
        let (dir, name) = self.dir(path)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.create(&ctx, dir, name, node, mode, t))
    }

    pub fn create(&mut self, path: &str) -> Res<Attr> {
        self.make(path, NewNode::File, 0o644)
    }

    pub fn mkdir(&mut self, path: &str) -> Res<Attr> {
        self.make(path, NewNode::Dir, 0o755)
    }

    pub fn symlink(&mut self, path: &str, target: &[u8]) -> Res<Attr> {
        self.make(path, NewNode::Symlink(target), 0o777)
    }

    pub fn open(&mut self, ino: Ino) -> Res<Handle> {
        let ctx = self.ctx.clone();
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        self.run(|fs, t| fs.open(&ctx, ino, flags, t))
    }

    pub fn clunk(&mut self, h: Handle) {
        self.host.with(|fs| fs.clunk(h));
        // The driver frees what became unreachable after the next operation.
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.getattr(&ctx, Ino(2), t)).unwrap();
    }

    pub fn write(&mut self, path: &str, offset: u64, bytes: &[u8]) -> Res<()> {
        let ino = self.stat(path)?.ino;
        let h = self.open(ino)?;
        let out = self.write_handle(h, offset, bytes);
        self.clunk(h);
        out
    }

    pub fn write_handle(&mut self, h: Handle, offset: u64, bytes: &[u8]) -> Res<()> {
        let ctx = self.ctx.clone();
        let mut done = 0;
        while done < bytes.len() {
            let data = Slice::new(PageBuf::from_slice(&bytes[done..]));
            let at = offset + done as u64;
            done += self.run(|fs, t| fs.write(&ctx, h, at, &data, t))?.0;
        }
        Ok(())
    }

    pub fn read(&mut self, path: &str, offset: u64, len: usize) -> Res<Vec<u8>> {
        let ino = self.stat(path)?.ino;
        let ctx = self.ctx.clone();
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let h = self.run(|fs, t| fs.open(&ctx, ino, flags, t))?;
        let mut out = Vec::new();
        while out.len() < len {
            let at = offset + out.len() as u64;
            let part = driver::read(&mut self.host, &ctx, h, at, len - out.len());
            match part {
                Ok(p) if p.is_empty() => break,
                Ok(p) => out.extend_from_slice(&p),
                Err(e) => {
                    self.clunk(h);
                    return Err(e);
                }
            }
        }
        self.clunk(h);
        Ok(out)
    }

    pub fn set(&mut self, path: &str, set: SetAttr) -> Res<Attr> {
        let ino = self.stat(path)?.ino;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.set_attr(&ctx, ino, &set, t))
    }

    pub fn truncate(&mut self, path: &str, size: u64) -> Res<()> {
        self.set(path, SetAttr { size: Some(size), ..SetAttr::default() }).map(|_| ())
    }

    pub fn unlink(&mut self, path: &str) -> Res<()> {
        let (dir, name) = self.dir(path)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.unlink(&ctx, dir, name, t))
    }

    pub fn rmdir(&mut self, path: &str) -> Res<()> {
        let (dir, name) = self.dir(path)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.rmdir(&ctx, dir, name, t))
    }

    pub fn link(&mut self, old: &str, new: &str) -> Res<()> {
        let ino = self.stat(old)?.ino;
        let (dir, name) = self.dir(new)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.link(&ctx, ino, dir, name, t)).map(|_| ())
    }

    pub fn rename(&mut self, old: &str, new: &str) -> Res<()> {
        self.rename_with(old, new, RenameFlags::default())
    }

    pub fn rename_with(&mut self, old: &str, new: &str, flags: RenameFlags) -> Res<()> {
        let (from, from_name) = self.dir(old)?;
        let (to, to_name) = self.dir(new)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.rename(&ctx, (from, from_name), (to, to_name), flags, t))
    }

    pub fn readlink(&mut self, path: &str) -> Res<Vec<u8>> {
        let ino = self.stat(path)?.ino;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.readlink(&ctx, ino, t))
    }

    /// Names of a directory but `.` and `..`, with inode and kind, as the directory lists them.
    pub fn list(&mut self, path: &str) -> Res<Vec<(String, Ino, Option<Kind>)>> {
        let ino = self.stat(path)?.ino;
        let ctx = self.ctx.clone();
        let mut out = Vec::new();
        let mut cookie = 0;
        loop {
            let part = self.run(|fs, t| fs.readdir(&ctx, ino, cookie, 7, 4096, false, t))?;
            let Some((last, _)) = part.last() else { return Ok(out) };
            assert!(last.next > cookie, "a listing must move on");
            cookie = last.next;
            for (e, _) in part {
                if e.name != b"." && e.name != b".." {
                    out.push((String::from_utf8_lossy(&e.name).into_owned(), e.ino, e.kind));
                }
            }
        }
    }

    /// Free blocks and inodes.
    pub fn statfs(&mut self) -> (u64, u64) {
        let ctx = self.ctx.clone();
        let s = self.run(|fs, t| fs.statfs(&ctx, t)).unwrap();
        (s.blocks_free, s.files_free)
    }

    pub fn sync(&mut self) -> Res<()> {
        driver::run_plan(&mut self.host, PlanReq::Whole(seawall_diskfs::Site::Syncfs))
    }

    pub fn unmount(mut self) {
        let ctx = self.ctx.clone();
        driver::unmount(&mut self.host, &ctx).unwrap();
    }
}
