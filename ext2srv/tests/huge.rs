//! A volume of 16 TiB, the most that 32-bit block numbers of 4 KiB reach, in a sparse file: it is
//! mounted and used within a small memory for metadata, and mounting reads next to nothing.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/volume.rs"]
mod common;

use common::{FileDev, TIME, Vol, engine};
use seawall_blockdev::{BlockDev, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::{Ctx, Fs, MountOpts};
use seawall_ext2::OpenOptions;
use seawall_tests::{LoopMount, debugfs, pattern, run, tool};
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Counts what is read.
#[derive(Debug)]
struct Counted(FileDev, Rc<Cell<u64>>);

impl RawDev for Counted {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.1.set(self.1.get() + buf.len() as u64);
        self.0.read(start, buf)
    }
    fn write(&mut self, start: u64, buf: &[u8], flags: WriteFlags) -> Result<(), DevError> {
        self.0.write(start, buf, flags)
    }
    fn flush(&mut self) -> Result<(), DevError> {
        self.0.flush()
    }
    fn discard(&mut self, run: Run) -> Result<(), DevError> {
        self.0.discard(run)
    }
    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        self.0.write_zeroes(run)
    }
}

/// A folder in memory: most disks' filesystems hold no file above 16 TiB, and take long to remove
/// one of so many pieces.
struct Shm(PathBuf);

impl Shm {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/seawall-huge-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SIZE: u64 = (u32::MAX as u64) << 12;
/// Memory for metadata blocks: less than the descriptor table has.
const BUDGET: usize = 1 << 20;

fn used_and_judged(image: &Path, size: u64, features: &str) {
    File::create(image).unwrap().set_len(size).unwrap();
    let mut cmd = tool("mke2fs");
    cmd.args(["-q", "-F", "-t", "ext2", "-b", "4096", "-i", "1048576", "-O", features]);
    run(cmd.args(["-E", "lazy_itable_init=1,nodiscard"]).arg(image)).ok();

    let fs = engine(image, OpenOptions::default()).unwrap();
    assert_eq!(u64::from(fs.superblock().groups), size.div_ceil(128 << 20));
    let read = Rc::new(Cell::new(0));
    let dev = Numbered::new(Counted(FileDev::raw(image), read.clone()));
    let policy = seawall_diskfs::policy::preset("default").unwrap();
    let opts = MountOpts { block_budget: BUDGET, ..MountOpts::new(policy) };
    let fs = Fs::new(fs, dev.caps(), dev.seqs(), opts).unwrap();
    let ctx = Ctx { now: TIME, cred: None, owner: (0, 0), ..Ctx::default() };
    let mut v = Vol { host: Blocking { fs, dev }, ctx: ctx.clone(), restarts: 0 };
    driver::check_mount(&mut v.host, &ctx).unwrap();
    driver::recover(&mut v.host, &ctx).unwrap();
    let (free, _) = v.statfs();
    assert!(free > size / 4500, "{free}");
    assert!(read.get() < 1 << 20, "{} bytes read to mount", read.get());

    let mut dirs = Vec::new();
    for i in 0..120 {
        let dir = format!("/d{i}");
        v.mkdir(&dir).unwrap();
        v.create(&format!("{dir}/f")).unwrap();
        v.write(&format!("{dir}/f"), i << 32, &pattern(5000, i)).unwrap();
        dirs.push(v.stat(&dir).unwrap().ino.0);
    }
    // Spread, and still not over the whole table.
    assert!(dirs.iter().max().unwrap() - dirs.iter().min().unwrap() > 128, "{dirs:?}");
    assert!(read.get() < 64 << 20, "{} bytes read", read.get());
    v.unmount();

    let mount = LoopMount::typed(image, "ext4", "loop,ro");
    for i in [0u64, 60, 119] {
        let file = File::open(mount.path().join(format!("d{i}/f"))).unwrap();
        let mut got = vec![0; 5000];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut got, i << 32).unwrap();
        assert!(got == pattern(5000, i));
    }
    mount.unmount();
}

#[test]
fn sixteen_tib_in_a_mebibyte_of_metadata() {
    let dir = Shm::new("sixteen");
    let image = dir.0.join("image");
    used_and_judged(&image, SIZE, "uninit_bg,meta_bg,^resize_inode");
    // The table in one piece, with copies: fewer of them, for the memory's sake.
    used_and_judged(&image, 5 << 40, "uninit_bg,^resize_inode");
}

#[test]
fn blocks_above_32_bits_are_read() {
    let dir = Shm::new("wide");
    let image = dir.0.join("image");
    File::create(&image).unwrap().set_len(20 << 40).unwrap();
    let mut cmd = tool("mke2fs");
    cmd.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-i", "16777216", "-O"]);
    cmd.arg("none,filetype,sparse_super,large_file,extent,64bit,uninit_bg,dir_index,meta_bg");
    // The hash of a directory's name chooses its group; with this seed it is one far up.
    let seed = "22222222-2222-2222-2222-222222222222";
    cmd.args(["-E", &format!("lazy_itable_init=1,nodiscard,hash_seed={seed}")]);
    run(cmd.arg(&image)).ok();
    let mount = LoopMount::typed(&image, "ext4", "loop,noinit_itable");
    for i in 1..5 {
        let dir = mount.path().join(format!("d{i}"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("f"), pattern(9000, i)).unwrap();
    }
    mount.unmount();
    let block: u64 = debugfs(&image, "bmap /d1/f 0").trim().parse().unwrap();
    assert!(block > 1 << 32, "{block}");
    let mut v = common::reading(&image).unwrap();
    for i in 1..5 {
        assert!(v.read(&format!("/d{i}/f"), 0, 9999).unwrap() == pattern(9000, i));
    }
    assert!(v.statfs().0 > 4 << 30);
}
