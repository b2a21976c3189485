//! The boot sector: where everything on a volume is (the BIOS parameter block).
//!
//! Every number that another part of the engine divides by, multiplies with or indexes by is
//! checked here, once, at open, in 64-bit arithmetic: a FAT size of 0x80000000 sectors must not
//! wrap to a volume with an empty root. After that the geometry is constant.
//!
//! Offsets and rules are those of Microsoft's FAT specification 1.03. What it leaves to habit
//! follows what is found in the field: the jump bytes, the OEM name, the media byte and the type's
//! name in the sector are not looked at, and neither is the count of hidden sectors.

use alloc::borrow::Cow;
use alloc::format;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{array_at, u8_at, u16_at, u32_at};

/// Bytes of the boot sector that are read; sectors may be larger.
pub const BOOT_BYTES: usize = 512;
/// Largest cluster, bytes.
pub const CLUSTER_MAX: u32 = 512 << 10;
/// Most clusters of FAT12 and of FAT16.
pub const FAT12_MAX: u64 = 4084;
/// See [`FAT12_MAX`].
pub const FAT16_MAX: u64 = 65_524;
/// Most clusters of FAT32: the numbers above are marks.
pub const FAT32_MAX: u64 = 0x0FFF_FFF5;
/// Number of the first cluster.
pub const FIRST_CLUSTER: u32 = 2;
/// Bytes of a directory slot.
pub const SLOT: u64 = 32;
/// The block size is at most a page.
const BLOCK_MAX: u32 = 4096;

/// `BS_Reserved1`, the state byte of FAT12 and FAT16: bit 0 in use, bit 1 errors of the medium.
pub const STATE_16: usize = 37;
/// The same on FAT32.
pub const STATE_32: usize = 65;
/// Bit of the state byte: the volume is in use, or was not taken out of use.
pub const STATE_DIRTY: u8 = 1;
/// Bit of the state byte: the medium had errors.
pub const STATE_ERROR: u8 = 2;

/// Width of the table's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatType {
    /// 12 bits.
    Fat12,
    /// 16 bits.
    Fat16,
    /// 32 bits, 28 of them in use.
    Fat32,
}

impl FatType {
    /// Bits of an entry.
    pub fn bits(self) -> u32 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// The bits of an entry that are its value.
    pub fn mask(self) -> u32 {
        match self {
            Self::Fat12 => 0xFFF,
            Self::Fat16 => 0xFFFF,
            Self::Fat32 => 0x0FFF_FFFF,
        }
    }

    /// `FAT12`, `FAT16` or `FAT32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
        }
    }
}

/// Where the root directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// FAT12 and FAT16: at this byte, with this many slots.
    Fixed {
        /// First byte.
        start: u64,
        /// Slots, each of 32 bytes.
        slots: u32,
    },
    /// FAT32: a chain from this cluster.
    Cluster(u32),
}

/// The checked geometry of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// By the number of clusters, and by nothing else; FAT32 when the 16-bit FAT size is 0.
    pub fat_type: FatType,
    /// Bytes of a sector: 512 to 4096.
    pub sector: u32,
    /// Bytes of a cluster.
    pub cluster: u32,
    /// Sectors before the first FAT.
    pub reserved: u32,
    /// Number of FATs.
    pub fats: u32,
    /// Sectors of one FAT.
    pub fat_sectors: u32,
    /// The only FAT that is kept; `None`: all are the same.
    pub active_fat: Option<u32>,
    /// The root directory.
    pub root: Root,
    /// First byte of the first cluster.
    pub data_start: u64,
    /// Number of clusters: numbers are `2..clusters + 2`. No more than a FAT has entries for.
    pub clusters: u32,
    /// Sectors of the volume.
    pub total_sectors: u64,
    /// Sector of FSINFO.
    pub fsinfo: Option<u32>,
    /// Sector of the copy of the boot sector.
    pub backup: Option<u32>,
    /// The media byte, which is also in the FAT's first entry.
    pub media: u8,
    /// Sectors before the volume, as it says.
    pub hidden: u32,
    /// Volume serial number; `None` without an extended boot record.
    pub serial: Option<u32>,
    /// Label in the boot sector, padded with spaces.
    pub label: Option<[u8; 11]>,
    /// The state byte at open.
    pub state: u8,
    /// Bytes of the blocks that the engine works with: the largest, up to a page, that clusters and
    /// their first byte are a multiple of.
    pub block_size: u32,
}

fn bad(what: impl Into<Cow<'static, str>>) -> FsError {
    FsError::corrupt("boot sector", 0, what)
}

/// Numbers as they stand in the sector.
struct Raw {
    sector: u32,
    per_cluster: u32,
    reserved: u32,
    fats: u32,
    root_slots: u32,
    fat_sectors: u64,
    total: u64,
    fat32: bool,
}

impl Raw {
    fn read(b: &[u8; BOOT_BYTES]) -> Result<Self, FsError> {
        refuse_others(b)?;
        let sector = u32::from(u16_at(b, 11)?);
        if !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
            return Err(bad(format!("bytes per sector: {sector}; there are 512 to 4096")));
        }
        let per_cluster = u32::from(u8_at(b, 13)?);
        if !per_cluster.is_power_of_two() || per_cluster * sector > CLUSTER_MAX {
            return Err(bad(format!("sectors per cluster: {per_cluster}")));
        }
        let reserved = u32::from(u16_at(b, 14)?);
        if reserved == 0 {
            return Err(bad("reserved sectors: 0, but the boot sector is one"));
        }
        let fats = u32::from(u8_at(b, 16)?);
        if fats == 0 {
            return Err(bad("number of FATs: 0"));
        }
        let (small, large) = (u32::from(u16_at(b, 22)?), u32_at(b, 36)?);
        let fat32 = small == 0;
        let fat_sectors = u64::from(if fat32 { large } else { small });
        if fat_sectors == 0 {
            return Err(bad("sectors per FAT: 0"));
        }
        let total = match u16_at(b, 19)? {
            0 => u64::from(u32_at(b, 32)?),
            n => u64::from(n),
        };
        if total == 0 {
            return Err(bad("total sectors: 0"));
        }
        let root_slots = u32::from(u16_at(b, 17)?);
        if !fat32 && root_slots == 0 {
            return Err(bad("entries of the root directory: 0"));
        }
        Ok(Self { sector, per_cluster, reserved, fats, root_slots, fat_sectors, total, fat32 })
    }

    /// Sectors of the fixed root directory. FAT32 has none, but where the field is not 0 everybody
    /// leaves room for one.
    fn root_sectors(&self) -> u64 {
        (u64::from(self.root_slots) * SLOT).div_ceil(u64::from(self.sector))
    }

    /// Sectors before the first cluster.
    fn data_start(&self) -> u64 {
        u64::from(self.reserved) + u64::from(self.fats) * self.fat_sectors + self.root_sectors()
    }

    /// Type, and the number of clusters that can be used.
    fn clusters(&self) -> Result<(FatType, u32), FsError> {
        let start = self.data_start();
        let count = self.total.saturating_sub(start) / u64::from(self.per_cluster);
        if count == 0 {
            let (fats, size, total) = (self.fats, self.fat_sectors, self.total);
            return Err(bad(format!(
                "total sectors: {total}, of which {start} come before the first cluster ({fats} \
                 FATs of {size} sectors): no cluster is left"
            )));
        }
        let fat_type = match (self.fat32, count) {
            (true, _) => FatType::Fat32,
            (false, n) if n <= FAT12_MAX => FatType::Fat12,
            (false, _) => FatType::Fat16,
        };
        let entries = self.fat_sectors * u64::from(self.sector) * 8 / u64::from(fat_type.bits());
        let usable = count.min(entries.saturating_sub(2));
        let most = match fat_type {
            FatType::Fat12 => FAT12_MAX,
            FatType::Fat16 => FAT16_MAX,
            FatType::Fat32 => FAT32_MAX,
        };
        match u32::try_from(usable) {
            Ok(n) if n > 0 && usable <= most => Ok((fat_type, n)),
            _ => Err(bad(format!(
                "{count} clusters, {entries} entries of a FAT: not a {} volume",
                fat_type.name()
            ))),
        }
    }
}

/// Volumes that only look like one.
fn refuse_others(b: &[u8; BOOT_BYTES]) -> Result<(), FsError> {
    match &array_at::<8>(b, 3)? {
        b"EXFAT   " => Err(FsError::unsupported("exFAT, which is another filesystem")),
        b"NTFS    " => Err(FsError::unsupported("NTFS, which is another filesystem")),
        _ if b.iter().all(|x| *x == 0) => Err(bad("bytes per sector: 0; the sector is empty")),
        _ => Ok(()),
    }
}

impl Boot {
    /// Reads and checks the first 512 bytes of a volume on a device of `device_size` bytes.
    ///
    /// # Errors
    /// `Corrupt` names the number that is wrong, or says that the device is shorter than the
    /// volume; `Unsupported` names another filesystem or an unknown version.
    pub fn parse(b: &[u8; BOOT_BYTES], device_size: u64) -> Result<Self, FsError> {
        let boot = Self::parse_unsized(b)?;
        let size = boot.total_sectors * u64::from(boot.sector);
        // The part of the last cluster that is missing was never in use.
        let end = boot.data_start + u64::from(boot.clusters) * u64::from(boot.cluster);
        if end > device_size {
            return Err(bad(format!(
                "total sectors: {}, which is {size} bytes, on a store of {device_size}",
                boot.total_sectors
            )));
        }
        Ok(boot)
    }

    /// As [`Boot::parse`], whatever the size of the device.
    ///
    /// # Errors
    /// As [`Boot::parse`].
    pub fn parse_unsized(b: &[u8; BOOT_BYTES]) -> Result<Self, FsError> {
        let raw = Raw::read(b)?;
        let (fat_type, clusters) = raw.clusters()?;
        let fat32 = fat_type == FatType::Fat32;
        let sector = u64::from(raw.sector);
        let fats_end = u64::from(raw.reserved) + u64::from(raw.fats) * raw.fat_sectors;
        let data_start = raw.data_start() * sector;
        let cluster = raw.per_cluster * raw.sector;
        let (root, active_fat) = if fat32 {
            (Root::Cluster(root_cluster(b, clusters)?), active_fat(b, raw.fats)?)
        } else {
            (Root::Fixed { start: fats_end * sector, slots: raw.root_slots }, None)
        };
        let (at, state) = if fat32 { (66, STATE_32) } else { (38, STATE_16) };
        let extended = matches!(u8_at(b, at)?, 0x28 | 0x29);
        let named = u8_at(b, at)? == 0x29;
        let place = |at: usize| -> Result<Option<u32>, FsError> {
            let s = u32::from(u16_at(b, at)?);
            Ok((fat32 && s != 0 && s < raw.reserved).then_some(s))
        };
        Ok(Self {
            fat_type,
            sector: raw.sector,
            cluster,
            reserved: raw.reserved,
            fats: raw.fats,
            fat_sectors: u32::try_from(raw.fat_sectors).map_err(|_| bad("sectors per FAT"))?,
            active_fat,
            root,
            data_start,
            clusters,
            total_sectors: raw.total,
            fsinfo: place(48)?,
            backup: place(50)?,
            media: u8_at(b, 21)?,
            hidden: u32_at(b, 28)?,
            serial: if extended { Some(u32_at(b, at + 1)?) } else { None },
            label: if named { Some(array_at(b, at + 5)?) } else { None },
            state: u8_at(b, state)?,
            block_size: block_size(data_start, cluster),
        })
    }

    /// First byte of this copy of the FAT.
    pub fn fat_start(&self, copy: u32) -> u64 {
        (u64::from(self.reserved) + u64::from(copy) * u64::from(self.fat_sectors))
            * u64::from(self.sector)
    }

    /// First byte of a cluster; `None` for a number that is none.
    pub fn cluster_start(&self, cluster: u32) -> Option<u64> {
        let n = cluster.checked_sub(FIRST_CLUSTER).filter(|n| *n < self.clusters)?;
        Some(self.data_start + u64::from(n) * u64::from(self.cluster))
    }

    /// The highest cluster number and one.
    pub fn cluster_end(&self) -> u32 {
        self.clusters + FIRST_CLUSTER
    }

    /// Byte of the state in the boot sector.
    pub fn state_at(&self) -> usize {
        if self.fat_type == FatType::Fat32 { STATE_32 } else { STATE_16 }
    }

    /// Blocks of a cluster.
    pub fn cluster_blocks(&self) -> u64 {
        u64::from(self.cluster / self.block_size.max(1)).max(1)
    }

    /// Blocks up to the end of the last cluster.
    pub fn blocks(&self) -> u64 {
        let end = self.data_start + u64::from(self.clusters) * u64::from(self.cluster);
        end / u64::from(self.block_size)
    }
}

fn root_cluster(b: &[u8; BOOT_BYTES], clusters: u32) -> Result<u32, FsError> {
    let version = u16_at(b, 42)?;
    if version != 0 {
        return Err(FsError::unsupported(format!("FAT32 version {version:#06x}")));
    }
    let root = u32_at(b, 44)?;
    if root < FIRST_CLUSTER || root - FIRST_CLUSTER >= clusters {
        return Err(bad(format!("cluster of the root directory: {root}")));
    }
    Ok(root)
}

fn active_fat(b: &[u8; BOOT_BYTES], fats: u32) -> Result<Option<u32>, FsError> {
    let flags = u16_at(b, 40)?;
    let active = u32::from(flags & 0xF);
    match flags & 0x80 {
        0 => Ok(None),
        _ if active < fats => Ok(Some(active)),
        _ => Err(bad(format!("active FAT: {active} of {fats}"))),
    }
}

/// Clusters, and so the files' blocks, are whole blocks; the tables before them need not be.
fn block_size(data_start: u64, cluster: u32) -> u32 {
    let aligned = data_start.trailing_zeros().min(cluster.trailing_zeros());
    1u32 << aligned.min(BLOCK_MAX.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(b: &mut [u8; BOOT_BYTES], at: usize, v: u64, n: usize) {
        b[at..at + n].copy_from_slice(&v.to_le_bytes()[..n]);
    }

    /// A volume of 512-byte sectors with one sector a cluster and this many clusters.
    fn small(clusters: u64) -> [u8; BOOT_BYTES] {
        let mut b = [0; BOOT_BYTES];
        let bits = if clusters <= FAT12_MAX { 12 } else { 16 };
        let fat = ((clusters + 2) * bits).div_ceil(512 * 8);
        put(&mut b, 11, 512, 2);
        b[13] = 1;
        put(&mut b, 14, 1, 2);
        b[16] = 2;
        put(&mut b, 17, 512, 2);
        put(&mut b, 22, fat, 2);
        put(&mut b, 32, 1 + 2 * fat + 32 + clusters, 4);
        b
    }

    fn large(clusters: u64) -> [u8; BOOT_BYTES] {
        let mut b = [0; BOOT_BYTES];
        let fat = ((clusters + 2) * 4).div_ceil(512);
        put(&mut b, 11, 512, 2);
        b[13] = 1;
        put(&mut b, 14, 32, 2);
        b[16] = 2;
        put(&mut b, 36, fat, 4);
        put(&mut b, 32, 32 + 2 * fat + clusters, 4);
        put(&mut b, 44, 2, 4);
        b
    }

    #[test]
    fn the_type_follows_from_the_number_of_clusters_alone() {
        for (b, want, n) in [
            (small(4084), FatType::Fat12, 4084),
            (small(4085), FatType::Fat16, 4085),
            (small(65_524), FatType::Fat16, 65_524),
            (large(1000), FatType::Fat32, 1000),
            (large(66_000), FatType::Fat32, 66_000),
        ] {
            let boot = Boot::parse_unsized(&b).unwrap();
            assert_eq!((boot.fat_type, boot.clusters), (want, n));
            assert_eq!(boot.block_size, 512);
        }
    }

    #[test]
    fn a_short_fat_limits_the_clusters() {
        let mut b = small(5122);
        put(&mut b, 22, 20, 2);
        let total = 1 + 2 * 20 + 32 + 5122;
        put(&mut b, 32, total, 4);
        let boot = Boot::parse(&b, total * 512).unwrap();
        assert_eq!((boot.fat_type, boot.clusters), (FatType::Fat16, 5118));
    }

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        type Case = (&'static [(usize, u64, usize)], &'static str);
        let cases16: [Case; 11] = [
            (&[(11, 0, 2)], "bytes per sector"),
            (&[(11, 513, 2)], "bytes per sector"),
            (&[(11, 64, 2)], "bytes per sector"),
            (&[(11, 8192, 2)], "bytes per sector"),
            (&[(13, 0, 1)], "sectors per cluster"),
            (&[(13, 3, 1)], "sectors per cluster"),
            (&[(14, 0, 2)], "reserved sectors"),
            (&[(16, 0, 1)], "number of FATs"),
            (&[(22, 0, 2)], "sectors per FAT"),
            (&[(32, 0, 4)], "total sectors"),
            (&[(19, 1, 2)], "total sectors"),
        ];
        let cases32: [Case; 9] = [
            (&[(36, 0xffff_ffff, 4)], "FATs of 4294967295 sectors"),
            (&[(36, 0x8000_0000, 4)], "no cluster is left"),
            (&[(36, 0, 4)], "sectors per FAT"),
            (&[(16, 255, 1)], "255 FATs"),
            (&[(44, 0, 4)], "root directory: 0"),
            (&[(44, 1, 4)], "root directory: 1"),
            (&[(44, 0x0fff_fff0, 4)], "root directory: 268435440"),
            (&[(32, 0, 4)], "total sectors"),
            (&[(14, 0, 2)], "reserved sectors"),
        ];
        let all = cases16.iter().map(|c| (small(5000), c));
        for (mut b, (patches, word)) in all.chain(cases32.iter().map(|c| (large(66_000), c))) {
            for (at, v, n) in *patches {
                put(&mut b, *at, *v, *n);
            }
            let e = Boot::parse(&b, 1 << 40).unwrap_err();
            assert!(alloc::format!("{e}").contains(word), "{e} does not say {word}");
        }
    }

    #[test]
    fn a_device_that_is_too_short_is_refused() {
        let b = small(5000);
        let boot = Boot::parse_unsized(&b).unwrap();
        let size = boot.total_sectors * 512;
        assert!(Boot::parse(&b, size).is_ok());
        let e = Boot::parse(&b, size - 1).unwrap_err();
        assert!(alloc::format!("{e}").contains("on a store of"), "{e}");
    }

    #[test]
    fn blocks_are_as_large_as_alignment_allows() {
        let mut b = large(66_000);
        b[13] = 8;
        // FATs of 517 sectors: 32 + 2 * 517 = 1066 sectors, a multiple of 2 only.
        put(&mut b, 32, 66_000 * 8 + 32 + 2 * 517, 4);
        put(&mut b, 36, 517, 4);
        assert_eq!(Boot::parse_unsized(&b).unwrap().block_size, 1024);
        put(&mut b, 36, 520, 4);
        assert_eq!(Boot::parse_unsized(&b).unwrap().block_size, 4096);
    }

    #[test]
    fn no_sector_makes_it_panic() {
        let mut x = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..200_000 {
            let mut b = if x & 1 == 0 { small(5000) } else { large(66_000) };
            for _ in 0..4 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                b[(x % 96) as usize] = (x >> 32) as u8;
            }
            if let Ok(boot) = Boot::parse(&b, 1 << 30) {
                assert!(boot.blocks() * u64::from(boot.block_size) <= 1 << 30);
                assert!(boot.cluster_start(boot.cluster_end() - 1).is_some());
                assert!(boot.cluster_start(boot.cluster_end()).is_none());
            }
        }
    }
}
