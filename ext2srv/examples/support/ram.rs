//! The engine in process over a disk in memory.

use seawall_blockdev::{BlockDev, CacheClass, Caps, DevError, Numbered, RawDev, Run, WriteFlags};
use seawall_diskfs::driver::Blocking;
use seawall_diskfs::{Ctx, Fs, MountOpts, Timestamp, policy};
use seawall_ext2::{Ext2, MkfsOptions, OpenOptions, mkfs};

/// A disk in memory whose flush costs nothing.
pub(crate) struct Ram(Vec<u8>);

impl Ram {
    fn part(&mut self, start: u64, len: usize) -> Result<&mut [u8], DevError> {
        let at = usize::try_from(start).map_err(|_| DevError::OutOfRange)?;
        self.0.get_mut(at..at + len).ok_or(DevError::OutOfRange)
    }
}

impl RawDev for Ram {
    fn caps(&self) -> Caps {
        Caps {
            size: self.0.len() as u64,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache: CacheClass::Flushable,
            fua: false,
            order: false,
            acked_survives_server_death: false,
            read_only: false,
        }
    }

    fn read(&mut self, start: u64, buf: &mut [u8]) -> Result<(), DevError> {
        buf.copy_from_slice(self.part(start, buf.len())?);
        Ok(())
    }

    fn write(&mut self, start: u64, buf: &[u8], _flags: WriteFlags) -> Result<(), DevError> {
        self.part(start, buf.len())?.copy_from_slice(buf);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DevError> {
        Ok(())
    }

    fn discard(&mut self, _run: Run) -> Result<(), DevError> {
        Ok(())
    }

    fn write_zeroes(&mut self, run: Run) -> Result<(), DevError> {
        // New memory is zero; touching it would only make it resident.
        let part = self.part(run.start, usize::try_from(run.len).unwrap())?;
        if part.iter().any(|b| *b != 0) {
            part.fill(0);
        }
        Ok(())
    }
}

/// The engine over it.
pub(crate) type Rig = Blocking<Ext2, Numbered<Ram>>;

/// The time of all operations.
pub(crate) const NOW: Timestamp = Timestamp { secs: 1_790_000_000, nanos: 0 };

/// The engine with its default policy over an empty volume of `size` bytes and blocks of 4 KiB;
/// `tree` is the feature `dir_index`.
pub(crate) fn rig_with(
    size: u64,
    inodes: u64,
    tree: bool,
    set: impl FnOnce(&mut MountOpts),
) -> Rig {
    let mut disk = vec![0; size as usize];
    // As a volume that was read into memory: no page of it is new.
    disk.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(0));
    let mut dev = Numbered::new(Ram(disk));
    let inodes = u32::try_from(inodes).ok();
    let opts = MkfsOptions { block_size: 4096, inodes, ..MkfsOptions::new(size, [7; 16], NOW) };
    mkfs(&mut dev, &opts).unwrap();
    let sb = dev.get_mut().0.get_mut(1024..2048).unwrap();
    if tree {
        // s_feature_compat, s_def_hash_version, s_flags (signed).
        for (at, value) in [(0x5C, 0x20), (0xFC, 1), (0x160, 1)] {
            *sb.get_mut(at).unwrap() |= value;
        }
    }
    let sb: [u8; 1024] = (&*sb).try_into().unwrap();
    let format = Ext2::open(&sb, size, OpenOptions::default()).unwrap();
    let mut opts = MountOpts::new(policy::preset("default").unwrap());
    set(&mut opts);
    let fs = Fs::new(format, dev.caps(), dev.seqs(), opts).unwrap();
    Blocking { fs, dev }
}

/// Root, now.
pub(crate) fn ctx() -> Ctx {
    Ctx { now: NOW, ..Ctx::default() }
}

/// A name of 16 bytes.
pub(crate) fn name(i: u64) -> String {
    format!("file-{i:07}.txt")
}
