//! Bitmaps and counts of each group against what was found in use.

use super::Check;
use super::finding::{Finding, Kind};
use super::groups::Desc;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;

/// Bits that differ.
#[derive(Default)]
struct Differ {
    first: Option<u64>,
    count: u64,
}

impl Differ {
    fn see(&mut self, at: u64) {
        self.first = self.first.or(Some(at));
        self.count += 1;
    }
}

/// True when the bits from `from` on are all set.
fn filled(map: &[u8], from: u64) -> bool {
    let at = (from / 8) as usize;
    let low = !(u8::MAX << (from % 8));
    let first = map.get(at).is_none_or(|b| b | low == u8::MAX);
    first && map.iter().skip(at + 1).all(|b| *b == u8::MAX)
}

impl Check<'_> {
    pub(super) fn check_bitmaps(&mut self) -> Result<(), FsError> {
        let (mut blocks, mut inodes) = (0, 0);
        for group in 0..self.geo.groups {
            self.tell("bitmaps", u64::from(group), u64::from(self.geo.groups));
            let desc = self.desc(group);
            if !desc.sound {
                continue;
            }
            blocks += self.block_bitmap(group, &desc)?;
            inodes += self.inode_bitmap(group, &desc)?;
        }
        let sums =
            [("blocks", self.geo.free_blocks, blocks), ("inodes", self.geo.free_inodes, inodes)];
        for (what, found, right) in sums {
            if found != right && self.blind.is_empty() {
                let f = Finding::new(Kind::SuperCount).detail(what);
                self.add(f.found(found).right(right));
            }
        }
        Ok(())
    }

    /// Compares a group's block bitmap. Returns how many blocks are free.
    fn block_bitmap(&mut self, group: u32, desc: &Desc) -> Result<u64, FsError> {
        let start = self.geo.group_start(group);
        let bits = self.geo.group_end(group) - start;
        let base = self.bit(start) / 8;
        let map = self.bitmap(group, desc.block_bitmap, desc.blocks_uninit())?;
        let (mut lost, mut unmarked) = (Differ::default(), Differ::default());
        let mut free = bits;
        for at in 0..bits.div_ceil(8) {
            let mask = if bits - at * 8 < 8 { !(u8::MAX << (bits % 8)) } else { u8::MAX };
            let used = self.claimed.byte(base + at) & mask;
            free -= u64::from(used.count_ones());
            let marked = match &map {
                Some(Some(map)) => map.get(at as usize).copied().unwrap_or(0) & mask,
                Some(None) => self.own.byte(base + at) & mask,
                None => used,
            };
            if marked == used {
                continue;
            }
            for bit in (0..8).filter(|n| (marked ^ used) & 1 << n != 0) {
                let differ = if marked & 1 << bit != 0 { &mut lost } else { &mut unmarked };
                differ.see(start + at * 8 + bit);
            }
        }
        if let Some(Some(map)) = &map
            && !filled(map, bits)
        {
            let f = Finding::new(Kind::BlockPadding).group(group);
            self.add(f.block(desc.block_bitmap));
        }
        for (differ, kind) in [(lost, Kind::BlockLost), (unmarked, Kind::BlockUnmarked)] {
            if let Some(first) = differ.first {
                let f = Finding::new(kind).group(group).block(first);
                self.add(f.detail("blocks").found(differ.count));
            }
        }
        self.compare(Kind::FreeBlocks, group, desc.free_blocks, free);
        Ok(free)
    }

    /// A group's bitmap: `None` when it cannot be read, `Some(None)` when it was never written.
    #[allow(clippy::option_option, reason = "unreadable and unwritten are two things")]
    fn bitmap(
        &mut self,
        group: u32,
        block: u64,
        uninit: bool,
    ) -> Result<Option<Option<PageBuf>>, FsError> {
        if uninit {
            return Ok(Some(None));
        }
        let buf = self.read_block(block, |f| f.group(group).detail("bitmap"))?;
        Ok(buf.map(Some))
    }

    /// Compares a group's inode bitmap. Returns how many inodes are free.
    fn inode_bitmap(&mut self, group: u32, desc: &Desc) -> Result<u64, FsError> {
        let per_group = self.geo.inodes_per_group;
        let first = group * per_group + 1;
        let map = self.bitmap(group, desc.inode_bitmap, desc.inodes_uninit())?;
        let blind = self.blind.contains(&group);
        let (mut lost, mut unmarked) = (Differ::default(), Differ::default());
        let (mut free, mut dirs) = (0u64, 0u64);
        for i in 0..per_group {
            let node = self.nodes.get(first + i);
            free += u64::from(!node.used);
            dirs += u64::from(node.used && node.file_type == 2);
            let marked = match &map {
                Some(Some(map)) => crate::bitmap::is_set(map, u64::from(i)),
                Some(None) => false,
                None => node.used,
            };
            if marked != node.used {
                let differ = if marked { &mut lost } else { &mut unmarked };
                differ.see(u64::from(first + i));
            }
        }
        if let Some(Some(map)) = &map
            && !filled(map, u64::from(per_group))
        {
            let f = Finding::new(Kind::InodePadding).group(group);
            self.add(f.block(desc.inode_bitmap));
        }
        if blind {
            return Ok(free);
        }
        for (differ, kind) in [(lost, Kind::InodeLost), (unmarked, Kind::InodeUnmarked)] {
            if let Some(first) = differ.first {
                let f = Finding::new(kind).group(group).inode(first as u32);
                self.add(f.detail("inodes").found(differ.count));
            }
        }
        self.compare(Kind::FreeInodes, group, desc.free_inodes, free);
        self.compare(Kind::UsedDirs, group, desc.used_dirs, dirs);
        Ok(free)
    }

    fn compare(&mut self, kind: Kind, group: u32, found: u32, right: u64) {
        if u64::from(found) != right {
            self.add(Finding::new(kind).group(group).found(found).right(right));
        }
    }
}
