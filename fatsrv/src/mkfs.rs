//! Making a volume, with the type and the sizes that `mkfs.fat` chooses unless told.
//!
//! The boot sector is zeroed first and written last: a device on which this was cut short is
//! refused. Nothing here is durable before the caller's `sync`.
//!
//! Offsets are those of Microsoft's FAT specification 1.03.

mod layout;
mod sectors;

use crate::boot::{BOOT_BYTES, Boot, FatType};
use crate::time::Zone;
use alloc::format;
use layout::Layout;
use seawall_blockdev::{BlockDev, PageBuf, Run, WriteFlags, WriteRun};
use seawall_diskfs::bytes::put;
use seawall_diskfs::{FsError, Site, Timestamp};

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of the volume. What does not fill a track or a cluster, or lies beyond 2^32 - 1
    /// sectors, stays unused.
    pub size: u64,
    /// Type; `None`: FAT32 from 512 MiB on, else the one of FAT12 and FAT16 that has more clusters.
    pub fat: Option<FatType>,
    /// Bytes of a sector: a power of two from 512 to 4096.
    pub sector: u32,
    /// Sectors of a cluster: a power of two up to 128; `None`: by type and size.
    pub sectors_per_cluster: Option<u32>,
    /// Number of FATs, 1 to 255. Many programs read volumes with one or two only.
    pub fats: u32,
    /// Reserved sectors at least; `None`: 32 on FAT32, else 1. Alignment may add some.
    pub reserved: Option<u32>,
    /// Entries of the root directory of FAT12 and FAT16 at least; `None`: 512, less on floppies.
    pub root_entries: Option<u32>,
    /// Sectors before the volume on its medium.
    pub hidden: u32,
    /// Media byte: 0xF0 or 0xF8 to 0xFF; `None`: 0xF8, or what a floppy of this size has.
    pub media: Option<u8>,
    /// Volume serial number.
    pub serial: u32,
    /// Label in the code page of the volume, padded with spaces, as
    /// [`label_from`](crate::label::label_from) makes it; `None`: no label.
    pub label: Option<[u8; 11]>,
    /// Time of the label: the library has no clock.
    pub time: Timestamp,
    /// Zone in which the label's time is written.
    pub zone: Zone,
    /// Clusters and FATs begin at multiples of a cluster. A floppy's never do.
    pub align: bool,
}

impl MkfsOptions {
    /// A volume of `size` bytes as `mkfs.fat` would make it.
    pub fn new(size: u64, serial: u32, time: Timestamp) -> Self {
        Self {
            size,
            fat: None,
            sector: 512,
            sectors_per_cluster: None,
            fats: 2,
            reserved: None,
            root_entries: None,
            hidden: 0,
            media: None,
            serial,
            label: None,
            time,
            zone: Zone::UTC,
            align: true,
        }
    }
}

/// Makes a volume at the start of the device. Old content of the data area stays. Returns the
/// volume's geometry as the engine reads it.
///
/// # Errors
/// `Unsupported` when the options contradict each other, the volume is too small or too large for
/// them, or the device's blocks are larger than the volume's sectors; `Io` from the device.
pub fn mkfs(dev: &mut dyn BlockDev, opts: &MkfsOptions) -> Result<Boot, FsError> {
    let caps = dev.caps();
    let layout = Layout::new(opts)?;
    if opts.size > caps.size {
        let what = format!("a volume of {} bytes on a device of {}", opts.size, caps.size);
        return Err(FsError::unsupported(what));
    }
    if caps.logical > opts.sector {
        let what = format!("sectors of {} bytes on a device of {}", opts.sector, caps.logical);
        return Err(FsError::unsupported(what));
    }
    let boot_sector = sectors::boot(opts, &layout)?;
    // The engine's own reading is the last check of the arithmetic.
    let boot = Boot::parse(&boot_sector, opts.size)?;
    if (boot.fat_type, boot.clusters) != (layout.fat, layout.clusters) {
        return Err(FsError::Bug("mkfs and the engine count clusters differently"));
    }
    let sector = u64::from(opts.sector);
    let mut out = Output { dev, sector, max_io: caps.max_io };
    // First of all the old boot sector goes, and its copy.
    out.zero(0, u64::from(layout.reserved))?;
    for copy in 0..opts.fats {
        let start = u64::from(layout.reserved) + u64::from(copy) * layout.fat_sectors;
        out.zero(start, layout.fat_sectors)?;
        out.write(start, &sectors::first_of_fat(&layout, opts.sector)?, Site::Bitmap)?;
    }
    let root = layout.root_start();
    out.zero(root, layout.root_len())?;
    if let Some(label) = opts.label {
        out.write(root, &sectors::label(opts, label)?, Site::Dirent)?;
    }
    if layout.fat == FatType::Fat32 {
        let info = sectors::info(opts.sector, &layout)?;
        out.write(sectors::INFO, &info, Site::Hypermetadata)?;
        if let Some(backup) = layout.backup {
            let backup = u64::from(backup);
            out.write(backup, &padded(&boot_sector, opts.sector)?, Site::Hypermetadata)?;
            if backup + sectors::INFO < u64::from(layout.reserved) {
                out.write(backup + sectors::INFO, &info, Site::Hypermetadata)?;
            }
        }
    }
    out.write(0, &padded(&boot_sector, opts.sector)?, Site::Hypermetadata)?;
    Ok(boot)
}

fn padded(b: &[u8; BOOT_BYTES], sector: u32) -> Result<PageBuf, FsError> {
    let mut whole = PageBuf::zeroed(sector as usize);
    put(&mut whole, 0, b)?;
    Ok(whole)
}

/// Whole sectors to the device, in requests that it takes.
struct Output<'a> {
    dev: &'a mut dyn BlockDev,
    sector: u64,
    max_io: u32,
}

impl Output<'_> {
    fn write(&mut self, sector: u64, bytes: &[u8], site: Site) -> Result<(), FsError> {
        let run = WriteRun { start: sector * self.sector, buf: bytes, tag: site.tag() };
        self.dev.write(&[run], WriteFlags::default())?;
        Ok(())
    }

    fn zero(&mut self, sector: u64, sectors: u64) -> Result<(), FsError> {
        let most = (u64::from(self.max_io) / self.sector * self.sector).max(self.sector);
        let end = (sector + sectors) * self.sector;
        let mut at = sector * self.sector;
        while at < end {
            let len = most.min(end - at);
            self.dev.write_zeroes(Run::new(at, len), Site::Bitmap.tag())?;
            at += len;
        }
        Ok(())
    }
}
