//! What the tests of this crate share: devices over sparse files, and a mounted volume with
//! operations by path.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_blockdev::{Numbered, PageBuf};
use seawall_diskfs::driver::{self, Blocking, Host};
use seawall_diskfs::testing::{AllMiss, MemDev, mount};
use seawall_diskfs::{
    Attr, Ctx, Done, FsError, Handle, Ino, Kind, NewNode, OpenFlags, PlanReq, RenameFlags, SetAttr,
    Slice, Timestamp,
};
use seawall_fat::boot::BOOT_BYTES;
use seawall_fat::{Boot, Fat, HEAD_BYTES, OpenOptions, ROOT};
pub use seawall_tests::FileDev;
use seawall_tests::{run, tool};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The time of every test.
pub const TIME: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 123_456_789 };

/// A numbered [`FileDev`].
pub type Dev = Numbered<FileDev>;

/// Opens the engine on a device's content.
pub fn engine_at(
    read: &dyn Fn(u64, &mut [u8]),
    size: u64,
    opts: OpenOptions,
) -> Result<Fat, FsError> {
    let mut sector = [0u8; BOOT_BYTES];
    read(0, &mut sector);
    let boot = Boot::parse(&sector, size)?;
    let mut head = [0u8; HEAD_BYTES];
    read(boot.fat_start(boot.active_fat.unwrap_or(0)), &mut head);
    let fsinfo = boot.fsinfo.map(|s| {
        let mut info = [0u8; 512];
        read(u64::from(s) * u64::from(boot.sector), &mut info);
        info
    });
    Fat::open(boot, head, fsinfo.as_ref(), opts)
}

/// Opens the engine on an image.
pub fn engine(path: &Path, opts: OpenOptions) -> Result<Fat, FsError> {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    engine_at(&|at, buf| file.read_exact_at(buf, at).unwrap(), size, opts)
}

/// Opens the engine on an image in memory.
pub fn engine_on(data: &[u8], opts: OpenOptions) -> Result<Fat, FsError> {
    let read = |at: u64, buf: &mut [u8]| {
        let at = at as usize;
        buf.copy_from_slice(&data[at..at + buf.len()]);
    };
    engine_at(&read, data.len() as u64, opts)
}

/// Mounts an image in memory with a preset.
pub fn in_memory(data: Vec<u8>, preset: &str) -> Mem {
    let fs = engine_on(&data, OpenOptions::default()).unwrap();
    let host = mount(fs, Numbered::new(MemDev::new(data)), preset).unwrap();
    Vol { host, ctx: ctx(), restarts: 0 }
}

/// Makes an image of `size` bytes with `mkfs.fat` and the given arguments.
pub fn mkfs_fat(image: &Path, size: u64, args: &[&str]) {
    File::create(image).unwrap().set_len(size).unwrap();
    run(tool("mkfs.fat").args(["-i", "1234abcd"]).args(args).arg(image)).ok();
}

/// What `fsck.fat -n` thinks of an image: exit code (0 is clean) and what it printed.
pub fn fsck_fat(image: &Path) -> (i32, String) {
    let seen = run(tool("fsck.fat").arg("-n").arg(image));
    (seen.code(), seen.stdout + &seen.stderr)
}

/// Fails unless `fsck.fat -n` exits with 0.
#[track_caller]
pub fn assert_clean(image: &Path) {
    let (code, output) = fsck_fat(image);
    assert!(code == 0, "fsck.fat -n: exit code {code}\n{output}");
}

/// A mounted image.
pub struct Vol<H> {
    pub host: H,
    pub ctx: Ctx,
    pub restarts: u32,
}

/// In memory.
pub type Mem = Vol<Blocking<Fat, Numbered<MemDev>>>;
/// On one thread.
pub type Plain = Vol<Blocking<Fat, Dev>>;
/// The same, every attempt with empty caches.
pub type Cold = Vol<AllMiss<Blocking<Fat, Dev>>>;

fn ctx() -> Ctx {
    Ctx { now: TIME, cred: None, owner: (1000, 70_000), ..Ctx::default() }
}

/// Mounts an image with a preset.
pub fn plain(path: &Path, preset: &str) -> Plain {
    let fs = engine(path, OpenOptions::default()).unwrap();
    let host = mount(fs, FileDev::open(path), preset).unwrap();
    Vol { host, ctx: ctx(), restarts: 0 }
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

impl<H: Host<Format = Fat>> Vol<H> {
    pub fn run<T>(
        &mut self,
        op: impl FnMut(
            &mut seawall_diskfs::Fs<Fat>,
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
        let mut at = ROOT;
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

    pub fn open_any(&mut self, ino: Ino) -> Res<Handle> {
        let ctx = self.ctx.clone();
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        self.run(|fs, t| fs.open(&ctx, ino, flags, t))
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
        self.run(|fs, t| fs.getattr(&ctx, ROOT, t)).unwrap();
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
        let h = self.open_any(ino)?;
        let out = self.read_handle(h, offset, len);
        self.clunk(h);
        out
    }

    pub fn read_handle(&mut self, h: Handle, offset: u64, len: usize) -> Res<Vec<u8>> {
        let ctx = self.ctx.clone();
        let mut out = Vec::new();
        while out.len() < len {
            let at = offset + out.len() as u64;
            let part = driver::read(&mut self.host, &ctx, h, at, len - out.len())?;
            if part.is_empty() {
                break;
            }
            out.extend_from_slice(&part);
        }
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

    pub fn rename(&mut self, old: &str, new: &str) -> Res<()> {
        self.rename_with(old, new, RenameFlags::default())
    }

    pub fn rename_with(&mut self, old: &str, new: &str, flags: RenameFlags) -> Res<()> {
        let (from, from_name) = self.dir(old)?;
        let (to, to_name) = self.dir(new)?;
        let ctx = self.ctx.clone();
        self.run(|fs, t| fs.rename(&ctx, (from, from_name), (to, to_name), flags, t))
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

    pub fn fsync(&mut self, ino: Ino) -> Res<()> {
        let h = self.open_any(ino)?;
        let done = driver::run_plan(&mut self.host, PlanReq::Fsync { handle: h, datasync: false });
        self.clunk(h);
        done
    }

    /// Everything written, the marks clean; the volume goes on afterwards.
    pub fn settle(&mut self) -> Res<()> {
        let ctx = self.ctx.clone();
        driver::unmount(&mut self.host, &ctx)
    }

    pub fn unmount(mut self) {
        self.settle().unwrap();
    }
}
