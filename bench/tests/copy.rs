//! A 1 GiB file under `hurd-full`: what the indirect-block part of the patch costs, and whom.
//!
//! The file is zeroes, so that the device below keeps metadata only and the test is quick.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, Numbered, PageBuf, RawDev, ReadRun, Run, Tag, WriteFlags,
};
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::policy::preset;
use seawall_diskfs::{
    Ctx, Fs, Handle, MountOpts, OpenFlags, PlanReq, Site, SiteStats, Slice, Timestamp,
};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};
use std::collections::BTreeMap;

const SIZE: u64 = 2 << 30;
const FILE: u64 = 1 << 30;
const WRITE: usize = 1 << 20;

/// A disk that keeps blocks with something in them.
#[derive(Default)]
struct Sparse {
    blocks: BTreeMap<u64, Vec<u8>>,
    flushes: u64,
}

impl RawDev for Sparse {
    fn caps(&self) -> Caps {
        Caps {
            size: SIZE,
            logical: 4096,
            physical: 4096,
            atomic_write: 4096,
            max_io: 1 << 20,
            cache: CacheClass::Flushable,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: false,
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        // The superblock is read by its bytes, everything else by blocks.
        for (i, b) in buf.iter_mut().enumerate() {
            let at = start + i as u64;
            *b = self.blocks.get(&(at / 4096)).map_or(0, |block| block[(at % 4096) as usize]);
        }
        Ok(())
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        let zero = [0u8; 4096];
        for (i, block) in buf.chunks(4096).enumerate() {
            let at = start / 4096 + i as u64;
            if block == zero {
                self.blocks.remove(&at);
            } else {
                self.blocks.insert(at, block.to_vec());
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DevError> {
        self.flushes += 1;
        Ok(())
    }

    fn discard(&mut self, _run: Run) -> Result<(), DevError> {
        Ok(())
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        let blocks = run.start / 4096..(run.start + run.len) / 4096;
        self.blocks.retain(|b, _| !blocks.contains(b));
        Ok(())
    }
}

type Rig = Blocking<Ext2, Numbered<Sparse>>;

fn rig() -> Rig {
    let mut dev = Numbered::new(Sparse::default());
    let time = Timestamp { secs: 1_700_000_000, nanos: 0 };
    let options = MkfsOptions {
        block_size: 4096,
        inodes: Some(1024),
        ..MkfsOptions::new(SIZE, [7; 16], time)
    };
    mkfs(&mut dev, &options).unwrap();
    let mut sb = [0u8; 1024];
    dev.read(&mut [ReadRun { start: 1024, buf: &mut sb }], Tag(0)).unwrap();
    let format = Ext2::open(&sb, SIZE, OpenOptions::default()).unwrap();
    let opts = MountOpts::new(preset("hurd-full").unwrap());
    let fs = Fs::new(format, dev.caps(), dev.seqs(), opts).unwrap();
    dev.get_mut().flushes = 0;
    Blocking { fs, dev }
}

/// Copies a file of [`FILE`] zero bytes in writes of 1 MiB and closes it.
fn copy(r: &mut Rig, sync: bool) -> SiteStats {
    let ctx = Ctx::default();
    let root = r.fs.geometry().root;
    let flags = OpenFlags { write: true, sync, ..OpenFlags::default() };
    let (_, h) =
        driver::run(r, &ctx, |fs, t| fs.create_open(&ctx, root, b"big", 0o644, flags, t)).unwrap();
    let page = Slice::new(PageBuf::zeroed(WRITE));
    for at in (0..FILE).step_by(WRITE) {
        let took = driver::run(r, &ctx, |fs, t| fs.write(&ctx, h, at, &page, t)).unwrap();
        assert_eq!(took, (WRITE, at));
    }
    close(r, h);
    r.fs.stats().site(Site::Indirect)
}

fn close(r: &mut Rig, h: Handle) {
    driver::run_plan(r, PlanReq::Close(h)).unwrap();
    r.fs.clunk(h);
}

#[test]
fn a_plain_copy_pays_nothing_at_indirect() {
    let mut r = rig();
    let indirect = copy(&mut r, false);
    assert_eq!((indirect.syncs_sent, indirect.syncs_merged, indirect.syncs_skipped), (0, 0, 0));
    // The first change's clean mark is all that was flushed.
    assert_eq!(r.fs.stats().syncs_sent(), 1);
    assert_eq!(r.fs.stats().site(Site::Hypermetadata).syncs_sent, 1);
    driver::unmount(&mut r, &Ctx::default()).unwrap();
}

#[test]
fn an_o_sync_copy_pays_once_per_new_indirect_block() {
    let mut r = rig();
    let indirect = copy(&mut r, true);
    // 262,144 blocks: 12 direct, 1,024 under the first indirect block, 261,108 under 255 more, and
    // the double indirect block itself. That one and its first child come with one write, whose two
    // Syncs are one: sent and merged together count the blocks.
    assert_eq!(indirect.syncs_sent + indirect.syncs_merged, 256 + 1);
    assert_eq!((indirect.syncs_sent, indirect.syncs_merged, indirect.syncs_skipped), (256, 1, 0));
    // Each of the 1,024 writes is followed by an fsync; the inode was dirty each time.
    let inode = r.fs.stats().site(Site::Inode);
    assert_eq!((inode.syncs_sent, inode.syncs_skipped), (FILE / WRITE as u64, 0));
    assert_eq!(r.dev.get_ref().flushes, 256 + 1024 + 1, "and one for the clean mark");
    driver::unmount(&mut r, &Ctx::default()).unwrap();
}
