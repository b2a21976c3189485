//! A volume put together by hand, for what no tool makes: damage, and what others have written.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use seawall_fat::entry::{ATTR_DIRECTORY, RawEntry};
use std::collections::BTreeMap;

/// Attribute of a plain file.
pub const ARCHIVE: u8 = 0x20;
/// 2020-01-02, and 03:04:06.
pub const DATE: u16 = (40 << 9) | (1 << 5) | 2;
/// See [`DATE`].
pub const CLOCK: u16 = (3 << 11) | (4 << 5) | 3;

/// A volume.
#[derive(Clone, Debug)]
pub struct Image {
    pub bits: u32,
    pub clusters: u32,
    /// Sectors of a cluster.
    pub spc: u32,
    pub sector: u32,
    pub reserved: u32,
    pub fats: u32,
    pub fat_sectors: u32,
    pub root_slots: u32,
    pub root_cluster: u32,
    pub backup: u16,
    pub jump: [u8; 3],
    pub oem: [u8; 8],
    pub hidden: u32,
    pub label: [u8; 11],
    /// The state byte.
    pub state: u8,
    /// Free count and next free cluster of FSINFO, whatever is true.
    pub fsinfo: Option<(u32, u32)>,
    /// Entries that are not 0.
    pub fat: BTreeMap<u32, u32>,
    /// What the second copy has instead.
    pub second: BTreeMap<u32, u32>,
    pub data: BTreeMap<u32, Vec<u8>>,
    /// The fixed root directory.
    pub root: Vec<u8>,
    pub next: u32,
}

/// 8.3 as it stands in a slot: `NAME.EXT`.
pub fn short(name: &str) -> [u8; 11] {
    let mut out = [b' '; 11];
    let (base, ext) = name.split_once('.').unwrap_or((name, ""));
    out[..base.len()].copy_from_slice(base.as_bytes());
    out[8..8 + ext.len()].copy_from_slice(ext.as_bytes());
    out
}

/// A short slot.
pub fn entry(name: [u8; 11], attr: u8, start: u32, size: u32) -> RawEntry {
    RawEntry {
        name,
        attr,
        start,
        size,
        crt_date: DATE,
        crt_time: CLOCK,
        acc_date: DATE,
        mod_date: DATE,
        mod_time: CLOCK,
        ..RawEntry::default()
    }
}

/// The slot of a file.
pub fn file(name: &str, start: u32, size: u32) -> Vec<u8> {
    entry(short(name), ARCHIVE, start, size).to_bytes().to_vec()
}

/// The slot of a directory.
pub fn dir(name: &str, start: u32) -> Vec<u8> {
    entry(short(name), ATTR_DIRECTORY, start, 0).to_bytes().to_vec()
}

/// The slots of a file with a long name.
pub fn long(name: &str, alias: &str, start: u32, size: u32) -> Vec<u8> {
    let units: Vec<u16> = name.encode_utf16().collect();
    let mut out = seawall_fat::lfn::long_slots(&units, &short(alias)).concat();
    out.extend(file(alias, start, size));
    out
}

/// Bytes that differ everywhere, by a seed.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

impl Image {
    /// An empty volume of 512-byte clusters with two FATs.
    pub fn new(bits: u32, clusters: u32) -> Self {
        let mask: u32 = if bits == 32 { 0x0FFF_FFFF } else { (1 << bits) - 1 };
        let mut image = Self {
            bits,
            clusters,
            spc: 1,
            sector: 512,
            reserved: if bits == 32 { 32 } else { 1 },
            fats: 2,
            fat_sectors: ((clusters + 2) * bits).div_ceil(8 * 512),
            root_slots: if bits == 32 { 0 } else { 512 },
            root_cluster: 2,
            backup: 6,
            jump: [0xEB, 0x3C, 0x90],
            oem: *b"BYHAND  ",
            hidden: 0,
            label: *b"NO NAME    ",
            state: 0,
            fsinfo: None,
            fat: BTreeMap::from([(0, mask & !0xFF | 0xF8), (1, mask)]),
            second: BTreeMap::new(),
            data: BTreeMap::new(),
            root: Vec::new(),
            next: 2,
        };
        if bits == 32 {
            image.fat.insert(2, mask);
            image.next = 3;
        }
        image
    }

    /// Other sectors.
    pub fn sectors(mut self, bytes: u32) -> Self {
        self.sector = bytes;
        self.fat_sectors = ((self.clusters + 2) * self.bits).div_ceil(8 * bytes);
        self
    }

    pub fn end_mark(&self) -> u32 {
        if self.bits == 32 { 0x0FFF_FFFF } else { (1 << self.bits) - 1 }
    }

    pub fn cluster_bytes(&self) -> usize {
        (self.spc * self.sector) as usize
    }

    /// Puts content into these clusters.
    pub fn put_at(&mut self, clusters: &[u32], bytes: &[u8]) -> u32 {
        for pair in clusters.windows(2) {
            self.fat.insert(pair[0], pair[1]);
        }
        self.fat.insert(*clusters.last().unwrap(), self.end_mark());
        for (c, part) in clusters.iter().zip(bytes.chunks(self.cluster_bytes())) {
            self.data.insert(*c, part.to_vec());
        }
        clusters[0]
    }

    /// Puts content into free clusters in a row.
    pub fn put(&mut self, bytes: &[u8]) -> u32 {
        let count = bytes.len().div_ceil(self.cluster_bytes()).max(1) as u32;
        let clusters: Vec<u32> = (self.next..self.next + count).collect();
        self.next += count;
        self.put_at(&clusters, bytes)
    }

    /// A directory with its dots in one cluster. `up`: the parent's cluster, 0 for the root.
    pub fn put_dir_at(&mut self, cluster: u32, up: u32, slots: &[u8]) {
        let mut body = entry(*b".          ", ATTR_DIRECTORY, cluster, 0).to_bytes().to_vec();
        body.extend(entry(*b"..         ", ATTR_DIRECTORY, up, 0).to_bytes());
        body.extend(slots);
        assert!(body.len() <= self.cluster_bytes());
        self.put_at(&[cluster], &body);
    }

    /// The slots of the root directory.
    pub fn root(&mut self, slots: &[&[u8]]) {
        let slots = slots.concat();
        if self.bits == 32 {
            assert!(slots.len() <= self.cluster_bytes());
            self.put_at(&[self.root_cluster], &slots);
        } else {
            self.root = slots;
        }
    }

    pub fn data_sector(&self) -> u32 {
        let root = (self.root_slots * 32).div_ceil(self.sector);
        self.reserved + self.fats * self.fat_sectors + root
    }

    /// Byte of a FAT's entry.
    pub fn entry_at(&self, copy: u32, cluster: u32) -> usize {
        let start = (self.reserved + copy * self.fat_sectors) * self.sector;
        (start + cluster * self.bits / 8) as usize
    }

    fn boot(&self) -> Vec<u8> {
        let mut b = vec![0u8; self.sector as usize];
        let total = self.data_sector() + self.clusters * self.spc;
        let mut put = |at: usize, bytes: &[u8]| b[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.jump);
        put(3, &self.oem);
        put(11, &(self.sector as u16).to_le_bytes());
        put(13, &[self.spc as u8]);
        put(14, &(self.reserved as u16).to_le_bytes());
        put(16, &[self.fats as u8]);
        put(17, &(self.root_slots as u16).to_le_bytes());
        put(21, &[0xF8]);
        put(24, &[63, 0, 255, 0]);
        put(28, &self.hidden.to_le_bytes());
        put(32, &total.to_le_bytes());
        let at = if self.bits == 32 { 64 } else { 36 };
        put(at, &[0x80, self.state, 0x29, 1, 2, 3, 4]);
        put(at + 7, &self.label);
        if self.bits == 32 {
            put(36, &self.fat_sectors.to_le_bytes());
            put(44, &self.root_cluster.to_le_bytes());
            put(48, &u16::from(self.fsinfo.is_some()).to_le_bytes());
            put(50, &self.backup.to_le_bytes());
        } else {
            put(22, &(self.fat_sectors as u16).to_le_bytes());
        }
        put(510, &[0x55, 0xAA]);
        b
    }

    fn write_fat(&self, out: &mut [u8], copy: u32) {
        let mut all = self.fat.clone();
        if copy == 1 {
            all.extend(&self.second);
        }
        for (cluster, value) in all {
            let at = self.entry_at(copy, cluster);
            match self.bits {
                12 => {
                    let old = u16::from_le_bytes([out[at], out[at + 1]]);
                    let value = value as u16;
                    let new = match cluster & 1 {
                        0 => old & 0xF000 | value,
                        _ => old & 0x000F | value << 4,
                    };
                    out[at..at + 2].copy_from_slice(&new.to_le_bytes());
                }
                16 => out[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
                _ => out[at..at + 4].copy_from_slice(&value.to_le_bytes()),
            }
        }
    }

    /// The volume's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let sector = self.sector as usize;
        let total = (self.data_sector() + self.clusters * self.spc) as usize;
        let mut out = vec![0u8; total * sector];
        let boot = self.boot();
        out[..sector].copy_from_slice(&boot);
        if self.bits == 32 {
            let at = usize::from(self.backup) * sector;
            if self.backup != 0 {
                out[at..at + sector].copy_from_slice(&boot);
            }
            if let Some((free, next)) = self.fsinfo {
                let info = &mut out[sector..2 * sector];
                info[..4].copy_from_slice(b"RRaA");
                info[484..488].copy_from_slice(b"rrAa");
                info[488..492].copy_from_slice(&free.to_le_bytes());
                info[492..496].copy_from_slice(&next.to_le_bytes());
                info[510..512].copy_from_slice(&[0x55, 0xAA]);
            }
        }
        (0..self.fats).for_each(|copy| self.write_fat(&mut out, copy));
        let root = (self.reserved + self.fats * self.fat_sectors) as usize * sector;
        out[root..root + self.root.len()].copy_from_slice(&self.root);
        let data = self.data_sector() as usize * sector;
        for (cluster, bytes) in &self.data {
            let at = data + (*cluster as usize - 2) * self.cluster_bytes();
            out[at..at + bytes.len()].copy_from_slice(bytes);
        }
        out
    }
}
