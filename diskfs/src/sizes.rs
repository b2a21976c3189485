//! How much memory the caches of metadata take.
//!
//! A name and its inode take about 300 bytes of blocks. A cache that holds less than the
//! directories in use reads a block for each name that is looked up, so the size follows the
//! machine. It is decided once, at the mount: the sum of all caches stays bounded whatever the
//! volume holds.

/// Smallest and largest share of blocks that [`CacheSizes::for_memory`] gives.
const SHARE: core::ops::RangeInclusive<u64> = 32 << 20..=512 << 20;

/// Memory for metadata, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// Of blocks.
    pub blocks: usize,
    /// Of directory indexes, in addition: 20 bytes a name, where the volume has none on disk.
    pub index: usize,
}

impl CacheSizes {
    /// Least memory for blocks: 64 blocks of 64 KiB, which an operation may hold at a time.
    pub const MIN: u64 = 4 << 20;

    /// For a machine, or a process group, with so much memory: a 32nd of it for blocks, at least
    /// 32 MiB and at most 512 MiB, and a quarter of that for indexes.
    pub fn for_memory(bytes: u64) -> Self {
        Self::of((bytes / 32).clamp(*SHARE.start(), *SHARE.end()))
    }

    /// So much for blocks, but [`Self::MIN`] at least, and a quarter of it for indexes.
    pub fn of(bytes: u64) -> Self {
        let bytes = bytes.max(Self::MIN);
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { blocks: size(bytes), index: size(bytes / 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_memory_within_limits() {
        const MIB: u64 = 1 << 20;
        for (memory, blocks) in [
            (0, 32),
            (MIB, 32),
            (1024 * MIB, 32),
            (2048 * MIB, 64),
            (16_384 * MIB, 512),
            (24_000 * MIB, 512),
            (u64::MAX, 512),
        ] {
            let sizes = CacheSizes::for_memory(memory);
            assert_eq!(sizes, CacheSizes::of(blocks * MIB), "{memory}");
            assert_eq!(sizes.blocks as u64, blocks * MIB);
            assert_eq!(sizes.index, sizes.blocks / 4);
        }
        assert_eq!(CacheSizes::of(0).blocks as u64, CacheSizes::MIN);
        assert_eq!(CacheSizes::of(100 * MIB).blocks, 100 << 20, "what is asked for counts");
    }
}
