//! Where everything of a new volume goes. Pure arithmetic, in sectors.
//!
//! The sizes are those that `mkfs.fat` of dosfstools 4.2 and Microsoft's table give. The number of
//! clusters of FAT16 and FAT32 stays above the limit of the type below: Windows takes a volume of
//! up to 4086 clusters for FAT12, and others are off there too.

use super::MkfsOptions;
use crate::boot::{CLUSTER_MAX, FAT12_MAX, FAT16_MAX, FAT32_MAX, FatType, SLOT};
use alloc::format;
use core::ops::RangeInclusive;
use seawall_diskfs::FsError;

/// Largest cluster that is chosen without being asked for, bytes.
const DEFAULT_CLUSTER_MAX: u64 = 64 << 10;
/// Volumes of at least this many bytes are FAT32 unless told.
const FAT32_FROM: u64 = 512 << 20;
/// Volumes of this many sectors or fewer are not padded to whole clusters before each FAT.
const SMALL: u64 = 8192;

/// The whole volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) fat: FatType,
    pub(super) per_cluster: u32,
    pub(super) reserved: u32,
    /// Sectors of one FAT.
    pub(super) fat_sectors: u64,
    /// Slots of a fixed root directory.
    pub(super) root_entries: u32,
    pub(super) clusters: u32,
    pub(super) total: u32,
    pub(super) sectors_per_track: u32,
    pub(super) heads: u32,
    pub(super) media: u8,
    pub(super) backup: Option<u32>,
    /// Sectors of a fixed root directory.
    root_sectors: u32,
    fats: u32,
}

/// What a floppy of a well-known size has.
struct Floppy {
    kib: u64,
    sectors_per_track: u32,
    media: u8,
    per_cluster: u32,
    root_entries: u32,
}

const fn floppy(kib: u64, spt: u32, media: u8, per_cluster: u32, root_entries: u32) -> Floppy {
    Floppy { kib, sectors_per_track: spt, media, per_cluster, root_entries }
}

/// All of them have two sides.
const FLOPPIES: [Floppy; 5] = [
    floppy(360, 9, 0xFD, 2, 112),
    floppy(720, 9, 0xF9, 2, 112),
    floppy(1200, 15, 0xF9, 1, 224),
    floppy(1440, 18, 0xF0, 1, 224),
    floppy(2880, 36, 0xF0, 2, 224),
];

fn refuse(what: impl Into<alloc::borrow::Cow<'static, str>>) -> FsError {
    FsError::unsupported(what)
}

fn check(opts: &MkfsOptions) -> Result<(), FsError> {
    if !opts.sector.is_power_of_two() || !(512..=4096).contains(&opts.sector) {
        let what = "a power of two from 512 to 4096";
        return Err(refuse(format!("sectors of {} bytes; it must be {what}", opts.sector)));
    }
    if let Some(n) = opts.sectors_per_cluster
        && (!n.is_power_of_two() || n > 128 || n * opts.sector > CLUSTER_MAX)
    {
        let most = CLUSTER_MAX / opts.sector;
        let what = format!("a power of two from 1 to {}", most.min(128));
        return Err(refuse(format!("{n} sectors per cluster; it must be {what}")));
    }
    if !(1..=255).contains(&opts.fats) {
        return Err(refuse(format!("{} FATs; there are 1 to 255", opts.fats)));
    }
    if let Some(n) = opts.reserved.filter(|n| !(1..=0xFFFF).contains(n)) {
        return Err(refuse(format!("{n} reserved sectors; there are 1 to 65535")));
    }
    if let Some(n) = opts.root_entries.filter(|n| !(16..=0xFFF0).contains(n)) {
        return Err(refuse(format!("{n} entries of the root directory; there are 16 to 65520")));
    }
    if let Some(m) = opts.media.filter(|m| *m != 0xF0 && *m < 0xF8) {
        return Err(refuse(format!("media byte {m:#04x}; it is 0xf0 or 0xf8 to 0xff")));
    }
    Ok(())
}

/// Numbers of clusters that a new volume of a type may have.
fn range(fat: FatType, forced: bool) -> RangeInclusive<u64> {
    match fat {
        FatType::Fat12 => 1..=FAT12_MAX,
        FatType::Fat16 => 4087..=FAT16_MAX,
        // Some read a smaller one as FAT16, but it is what the caller wants.
        FatType::Fat32 if forced => 2..=FAT32_MAX,
        FatType::Fat32 => 65_529..=FAT32_MAX,
    }
}

/// Heads and sectors of a track, for programs that still ask: as the SD association recommends up
/// to 256 MiB, above as BIOSes translate block numbers.
fn tracks(sectors: u64) -> (u32, u32) {
    if sectors <= 524_288 {
        let heads = match sectors {
            n if n <= 32_768 => 2,
            n if n <= 65_536 => 4,
            n if n <= 262_144 => 8,
            _ => 16,
        };
        return (heads, if sectors <= 4096 { 16 } else { 32 });
    }
    let cylinders = 63 * 1024;
    let heads = [16, 32, 64, 128].into_iter().find(|h| sectors <= h * cylinders).unwrap_or(255);
    (heads as u32, 63)
}

/// What is tried: everything but the sizes that follow from them.
#[derive(Clone, Copy)]
struct Wish {
    total: u64,
    sector: u64,
    fats: u64,
    reserved: u64,
    root_entries: u64,
    align: bool,
}

/// A type with a cluster size.
#[derive(Clone, Copy)]
struct Fit {
    fat: FatType,
    per_cluster: u64,
    reserved: u64,
    root_sectors: u64,
    fat_sectors: u64,
    clusters: u64,
}

impl Wish {
    /// The sizes that follow; the number of clusters may be out of range, or 0.
    fn fit(&self, fat: FatType, per_cluster: u64) -> Fit {
        let whole = self.align && self.total > SMALL;
        let round = |n: u64| if whole { n.next_multiple_of(per_cluster) } else { n };
        let fat32 = fat == FatType::Fat32;
        let root = if fat32 { 0 } else { (self.root_entries * SLOT).div_ceil(self.sector) };
        let (mut reserved, root_sectors) = (round(self.reserved), round(root));
        let bits = u64::from(fat.bits());
        let fat_for = |clusters: u64| ((clusters + 2) * bits).div_ceil(8 * self.sector);
        let left = |reserved: u64, fat_sectors: u64| {
            let start = reserved + self.fats * fat_sectors + root_sectors;
            self.total.saturating_sub(start) / per_cluster
        };
        // The smallest FAT with entries for the clusters that it leaves room for.
        let unit = if whole { per_cluster } else { 1 };
        let (mut low, mut high) = (1, round(fat_for(left(reserved, 0))).div_ceil(unit));
        while low < high {
            let middle = (low + high) / 2;
            let enough = fat_for(left(reserved, middle * unit)) <= middle * unit;
            (low, high) = if enough { (low, middle) } else { (middle + 1, high) };
        }
        let fat_sectors = low * unit;
        if self.align && !whole {
            let start = reserved + self.fats * fat_sectors + root_sectors;
            reserved += start.next_multiple_of(per_cluster) - start;
        }
        let clusters = left(reserved, fat_sectors);
        Fit { fat, per_cluster, reserved, root_sectors, fat_sectors, clusters }
    }
}

impl Layout {
    pub(super) fn new(opts: &MkfsOptions) -> Result<Self, FsError> {
        check(opts)?;
        let sector = u64::from(opts.sector);
        let floppy = FLOPPIES.iter().find(|f| {
            f.kib << 10 == opts.size && sector == 512 && opts.fat != Some(FatType::Fat32)
        });
        let all = (opts.size / sector).min(u64::from(u32::MAX));
        let (heads, spt) = floppy.map_or_else(|| tracks(all), |f| (2, f.sectors_per_track));
        let spt64 = u64::from(spt);
        // DOS and mtools want whole tracks.
        let total = if opts.align { all / spt64 * spt64 } else { all };
        let large = opts.fat.is_none() && opts.size >= FAT32_FROM;
        let wanted = if large { Some(FatType::Fat32) } else { opts.fat };
        let wish = |fat: FatType| {
            let fat32 = fat == FatType::Fat32;
            Wish {
                total,
                sector,
                fats: u64::from(opts.fats),
                reserved: u64::from(opts.reserved.unwrap_or(if fat32 { 32 } else { 1 })),
                root_entries: u64::from(
                    opts.root_entries.or(floppy.map(|f| f.root_entries)).unwrap_or(512),
                ),
                align: opts.align && floppy.is_none(),
            }
        };
        if wanted == Some(FatType::Fat32) && opts.reserved == Some(1) {
            return Err(refuse("1 reserved sector on FAT32; it needs 2 at least"));
        }
        let first = floppy.map(|f| u64::from(f.per_cluster));
        let fit = choose(opts, wanted, first, &wish)?;
        let reserved = u32::try_from(fit.reserved).ok().filter(|n| *n <= 0xFFFF);
        let reserved = reserved.ok_or_else(|| {
            refuse(format!("{} reserved sectors, aligned; there are 1 to 65535", fit.reserved))
        })?;
        if fit.fat != FatType::Fat32 && fit.fat_sectors > 0xFFFF {
            return Err(FsError::Bug("a FAT of 16-bit entries that 16 bits cannot count"));
        }
        // What alignment added to the root directory is used, up to what its field can say.
        let slots = fit.root_sectors * sector / SLOT;
        let root_entries = if fit.fat == FatType::Fat32 { 0 } else { slots.min(0xFFF0) };
        Ok(Self {
            fat: fit.fat,
            per_cluster: fit.per_cluster as u32,
            reserved,
            fat_sectors: fit.fat_sectors,
            root_entries: root_entries as u32,
            clusters: fit.clusters as u32,
            total: total as u32,
            sectors_per_track: spt,
            heads,
            media: opts.media.unwrap_or_else(|| floppy.map_or(0xF8, |f| f.media)),
            backup: backup(fit.fat, reserved),
            root_sectors: fit.root_sectors as u32,
            fats: opts.fats,
        })
    }

    /// First sector of the root directory.
    pub(super) fn root_start(&self) -> u64 {
        u64::from(self.reserved) + u64::from(self.fats) * self.fat_sectors
    }

    /// Sectors of the root directory.
    pub(super) fn root_len(&self) -> u64 {
        match self.fat {
            FatType::Fat32 => u64::from(self.per_cluster),
            _ => u64::from(self.root_sectors),
        }
    }
}

/// Sector of the boot sector's copy: 6 wherever there is one.
fn backup(fat: FatType, reserved: u32) -> Option<u32> {
    match (fat, reserved) {
        (FatType::Fat32, 7..) => Some(6),
        (FatType::Fat32, 3..) => Some(reserved - 1),
        _ => None,
    }
}

/// Sectors of a cluster that are tried, in this order.
fn sizes(opts: &MkfsOptions, fat: FatType, first: Option<u64>) -> impl Iterator<Item = u64> {
    let sector = u64::from(opts.sector);
    let bytes = match fat {
        FatType::Fat32 => match opts.size {
            n if n > 32 << 30 => 32 << 10,
            n if n > 16 << 30 => 16 << 10,
            n if n > 8 << 30 => 8 << 10,
            n if n > 260 << 20 => 4 << 10,
            _ => 512,
        },
        _ => 2 << 10,
    };
    let given = opts.sectors_per_cluster.map(u64::from);
    let start = first.unwrap_or(bytes / sector).max(1);
    let most = (DEFAULT_CLUSTER_MAX / sector).min(128);
    let up = core::iter::successors(Some(start), move |n| Some(n * 2).filter(|n| *n <= most));
    // Smaller ones when even the first makes too few clusters for the type asked for.
    let down = core::iter::successors(Some(start / 2), |n| Some(n / 2)).take_while(|n| *n > 0);
    let free = given.is_none();
    given.into_iter().chain(up.chain(down).filter(move |_| free))
}

/// The first cluster size that makes a volume of the wanted type, or of FAT12 or FAT16.
fn choose(
    opts: &MkfsOptions,
    wanted: Option<FatType>,
    first: Option<u64>,
    wish: &dyn Fn(FatType) -> Wish,
) -> Result<Fit, FsError> {
    let forced = opts.fat.is_some();
    let small = [FatType::Fat12, FatType::Fat16];
    let types = wanted.as_ref().map_or(&small[..], core::slice::from_ref);
    let good = |f: &Fit| range(f.fat, forced).contains(&f.clusters);
    let mut nearest: Option<Fit> = None;
    for n in sizes(opts, wanted.unwrap_or(FatType::Fat16), first) {
        let fits = types.iter().map(|fat| wish(*fat).fit(*fat, n));
        if let Some(best) = fits.clone().filter(good).max_by_key(|f| f.clusters) {
            return Ok(best);
        }
        nearest = nearest.or_else(|| fits.last());
    }
    let fat = nearest.map_or(FatType::Fat16, |f| f.fat);
    let (clusters, per_cluster) = nearest.map_or((0, 1), |f| (f.clusters, f.per_cluster));
    let allowed = if wanted.is_some() { range(fat, forced) } else { 1..=FAT16_MAX };
    let cluster = per_cluster * u64::from(opts.sector);
    Err(refuse(format!(
        "{} of {} bytes: {clusters} clusters of {cluster} bytes, but there are {} to {}; choose \
         another size, type or number of sectors per cluster",
        if wanted.is_some() { fat.name() } else { "FAT12 or FAT16" },
        opts.size,
        allowed.start(),
        allowed.end(),
    )))
}
