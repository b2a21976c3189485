//! The ext2 engine inside a program: a file as the disk, no runtime, eight files open at a time.
#![forbid(unsafe_code)]
use seawall_blockdev::{BlockDev, CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_blockdev::{PageBuf, ReadRun, Tag};
use seawall_diskfs::{Ctx, Fs, MountOpts, OpenFlags, PlanReq, Slice, Timestamp};
use seawall_diskfs::{driver::*, policy::preset};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use std::{fs::File, os::unix::fs::FileExt};

const SIZE: u64 = 16 << 20;
struct Disk(File);
impl RawDev for Disk {
    fn caps(&self) -> Caps {
        Caps::disk(SIZE, CacheClass::Flushable)
    }
    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        self.0.read_exact_at(buf, start).map_err(|_| DevError::Io)
    }
    fn write(&mut self, start: u64, buf: &[u8], _: WriteFlags) -> Result<(), DevError> {
        self.0.write_all_at(buf, start).map_err(|_| DevError::Io)
    }
    fn flush(&mut self) -> Result<(), DevError> {
        self.0.sync_data().map_err(|_| DevError::Io)
    }
    fn discard(&mut self, _: Run) -> Result<(), DevError> {
        Err(DevError::Unsupported)
    }
    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        self.write(run.start, &vec![0; run.len as usize], WriteFlags::default())
    }
}
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("seawall-embedded-{}.img", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(SIZE)?;
    let mut dev = Numbered::new(Disk(file));
    mkfs(&mut dev, &MkfsOptions::new(SIZE, [7; 16], Timestamp::default()))?;
    let mut superblock = [0; 1024];
    dev.read(&mut [ReadRun { start: 1024, buf: &mut superblock }], Tag(0))?;
    let volume = Ext2::open(&superblock, SIZE, OpenOptions::default())?;
    let opts = MountOpts::new(preset("default").ok_or("no such preset")?);
    let fs = Fs::new(volume, dev.caps(), dev.seqs(), opts)?;
    let (root, ctx, mut host) = (fs.geometry().root, Ctx::default(), Blocking { fs, dev });
    let rw = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let create = |n| run(&mut host, &ctx, |fs, t| fs.create_open(&ctx, root, &[n], 0o644, rw, t));
    let files = (b'a'..=b'h').map(create).collect::<Result<Vec<_>, _>>()?;
    let page = Slice::new(PageBuf::from_slice(b"in a file in a file\n"));
    for (_, file) in &files {
        run(&mut host, &ctx, |fs, t| fs.write(&ctx, *file, 0, &page, t))?;
    }
    for (_, file) in files {
        run_plan(&mut host, PlanReq::Fsync { handle: file, datasync: false })?;
        assert_eq!(*read(&mut host, &ctx, file, 0, 100)?, *page);
        host.fs.clunk(file);
    }
    unmount(&mut host, &ctx)?;
    println!("8 files written, fsynced and read back; {} Syncs", host.fs.stats().syncs_sent());
    Ok(())
}
