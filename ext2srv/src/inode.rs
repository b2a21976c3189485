//! Inodes (`struct ext4_inode`): 128 bytes of the old format and, with larger inodes, nanoseconds,
//! wider seconds and a birth time.
//!
//! Fields that the engine does not know are kept: a change reads the inode's bytes, puts what it
//! knows over them and leaves the rest (Hurd translators, authors, in-inode attributes).

use crate::Ext2;
use crate::features::{
    INCOMPAT_64BIT, INCOMPAT_EXTENTS, INCOMPAT_LARGE_DIR, RO_COMPAT_DIR_NLINK, RO_COMPAT_HUGE_FILE,
};
use alloc::format;
use seawall_diskfs::bytes::{put, slice, slice_mut, u32_at};
use seawall_diskfs::{Attempt, Attr, Change, FsError, Ino, Kind, Refused, Site, Stage, Timestamp};
use seawall_diskfs::{Tx, bytes};
use zerocopy::little_endian::{U16, U32};

mod raw;

use raw::{RawExtra, RawInode};

const WHAT: &str = "inode";
/// The root directory.
pub(crate) const ROOT_INO: u64 = 2;
/// Directory is indexed (`EXT2_INDEX_FL`).
pub(crate) const FL_INDEX: u32 = 0x1000;
/// Directories made here are spread (`EXT2_TOPDIR_FL`).
pub(crate) const FL_TOPDIR: u32 = 0x2_0000;
/// `i_blocks` counts filesystem blocks (`EXT4_HUGE_FILE_FL`).
const FL_HUGE_FILE: u32 = 0x4_0000;
/// `i_block` is the root of a tree of extents (`EXT4_EXTENTS_FL`).
pub(crate) const FL_EXTENTS: u32 = 0x8_0000;
const FL_INLINE_DATA: u32 = 0x1000_0000;
/// Flags that any new inode takes from its directory: nodump, noatime.
const FL_INHERITED: u32 = 0x40 | 0x80;
/// Flags that files also take: secrm, unrm, compr, sync, nocompr, data journalled, notail.
const FL_INHERITED_DATA: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x400 | 0x4000 | 0x8000;
/// Flag that directories also take: dirsync.
const FL_INHERITED_DIR: u32 = 0x1_0000;
/// Flags that callers may set (`EXT2_FL_USER_MODIFIABLE`).
pub(crate) const FLAGS_SETTABLE: u32 = 0x3_80FF;
/// Bytes of the pointers `i_block`; a symlink target shorter than this lives there.
pub(crate) const I_BLOCK_BYTES: usize = 60;
/// Most links of an inode (`EXT2_LINK_MAX`).
const LINK_MAX: u16 = 32000;
/// The same where `dir_nlink` says that ext4 was there (`EXT4_LINK_MAX`).
const LINK_MAX_EXT4: u16 = 65000;

/// What the engine knows of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// Permission bits, 07777.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) btime: Option<Timestamp>,
    pub(crate) dtime: u32,
    pub(crate) links: u16,
    /// Storage in 512-byte units, attribute block included.
    pub(crate) sectors: u64,
    pub(crate) flags: u32,
    pub(crate) block: [u32; 15],
    pub(crate) generation: u32,
    /// The block of attributes; 0: none.
    pub(crate) file_acl: u64,
    pub(crate) extra_isize: u16,
    /// `i_blocks` has 48 bits: the volume has the feature `huge_file`.
    pub(crate) huge: bool,
    /// A Hurd volume's inode owns a translator block. Not a field of its own here: see
    /// `xattr/translator.rs`.
    pub(crate) translator: bool,
    /// Seed of the checksums of its blocks. Not a field of its own here: see `sums.rs`.
    pub(crate) sums: Option<u32>,
}

fn decode_time(low: U32, extra: U32, fits: bool) -> Timestamp {
    let low = i64::from(low.get().cast_signed());
    let extra = if fits { extra.get() } else { 0 };
    // Two bits widen the seconds, thirty are nanoseconds; more than a second is garbage.
    let secs = low + (i64::from(extra & 3) << 32);
    Timestamp { secs, nanos: (extra >> 2).min(999_999_999) }
}

/// Puts a time into its field, and what does not fit there into the wider inode's, if it is there.
fn encode_time(field: &mut U32, extra: Option<&mut U32>, t: Timestamp) {
    let most = i64::from(i32::MAX) + if extra.is_some() { 3 << 32 } else { 0 };
    let secs = t.secs.clamp(i64::from(i32::MIN), most);
    let low = secs as i32;
    field.set(low.cast_unsigned());
    if let Some(extra) = extra {
        let epoch = (((secs - i64::from(low)) >> 32) & 3) as u32;
        extra.set(epoch | t.nanos << 2);
    }
}

impl Inode {
    /// A new inode.
    pub(crate) fn new(kind: Kind, mode: u32, owner: (u32, u32), now: Timestamp) -> Self {
        Self {
            kind,
            mode: (mode & 0o7777) as u16,
            uid: owner.0,
            gid: owner.1,
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: Some(now),
            dtime: 0,
            links: 1,
            sectors: 0,
            flags: 0,
            block: [0; 15],
            generation: 0,
            file_acl: 0,
            extra_isize: 0,
            huge: false,
            translator: false,
            sums: None,
        }
    }

    /// Takes what a new node takes from its directory.
    pub(crate) fn inherit(&mut self, parent: &Inode) {
        let mask = match self.kind {
            Kind::Dir => FL_INHERITED | FL_INHERITED_DATA | FL_INHERITED_DIR,
            Kind::File => FL_INHERITED | FL_INHERITED_DATA,
            _ => FL_INHERITED,
        };
        self.flags = parent.flags & mask;
    }

    /// Flags that a node of this kind can have, of those that callers may set.
    pub(crate) fn flags_allowed(&self) -> u32 {
        match self.kind {
            Kind::Dir => u32::MAX,
            // dirsync and topdir say something of directories only.
            Kind::File => !0x3_0000,
            // A checker takes others for damage.
            _ => FL_INHERITED,
        }
    }

    /// True when bytes `..end` past the old 128 belong to the inode.
    fn fits(&self, end: u16) -> bool {
        self.extra_isize >= end
    }

    /// Reads an inode's bytes; `None` when it is not in use. `huge` is the feature `huge_file`,
    /// `inodes` the highest number: a deletion time up to it is a link of the orphan list, and the
    /// inode is in use.
    #[inline]
    pub(crate) fn decode(
        b: &[u8],
        huge: bool,
        block_size: u32,
        inodes: u32,
    ) -> Result<Option<Self>, &'static str> {
        let (raw, extra) = RawInode::split(b).ok_or("inode lies outside its block")?;
        let (raw_mode, links, dtime) = (raw.mode.get(), raw.links.get(), raw.dtime.get());
        if links == 0 && (raw_mode == 0 || dtime > inodes) {
            return Ok(None);
        }
        let kind = Kind::from_mode(u32::from(raw_mode)).ok_or("mode names no kind of node")?;
        let flags = raw.flags.get();
        let extra_isize = extra.map_or(0, |e| e.extra_isize.get());
        if usize::from(extra_isize) > b.len() - 128 || extra_isize % 4 != 0 {
            return Err("i_extra_isize does not fit the inode");
        }
        let high = if kind == Kind::File { raw.size_high.get() } else { 0 };
        let mut sectors = u64::from(raw.sectors.get());
        if huge {
            sectors |= u64::from(raw.sectors_high.get()) << 32;
            if flags & FL_HUGE_FILE != 0 {
                sectors = sectors.saturating_mul(u64::from(block_size / 512));
            }
        }
        let wide = |low: U16, high: U16| u32::from(low.get()) | u32::from(high.get()) << 16;
        let time = |low: U32, part: fn(&RawExtra) -> U32, end: u16| {
            decode_time(low, extra.map_or(U32::ZERO, part), extra_isize >= end)
        };
        let born = extra.filter(|_| extra_isize >= 20);
        Ok(Some(Self {
            kind,
            mode: raw_mode & 0o7777,
            uid: wide(raw.uid, raw.uid_high),
            gid: wide(raw.gid, raw.gid_high),
            size: u64::from(raw.size.get()) | u64::from(high) << 32,
            atime: time(raw.atime, |e| e.atime_extra, 16),
            ctime: time(raw.ctime, |e| e.ctime_extra, 8),
            mtime: time(raw.mtime, |e| e.mtime_extra, 12),
            btime: born.map(|e| decode_time(e.crtime, e.crtime_extra, extra_isize >= 24)),
            dtime,
            links,
            sectors,
            flags,
            block: raw.block.map(U32::get),
            generation: raw.generation.get(),
            file_acl: u64::from(raw.file_acl.get()),
            extra_isize,
            huge,
            translator: false,
            sums: None,
        }))
    }

    /// Puts the inode over its bytes on disk.
    pub(crate) fn encode(&self, b: &mut [u8]) -> Result<(), FsError> {
        let (raw, extra) = RawInode::split_mut(b).ok_or(FsError::Bug("no room for an inode"))?;
        let halves = |v: u32| (U16::new(v as u16), U16::new((v >> 16) as u16));
        raw.mode.set(self.kind.mode_bits() as u16 | self.mode);
        (raw.uid, raw.uid_high) = halves(self.uid);
        (raw.gid, raw.gid_high) = halves(self.gid);
        raw.size.set(self.size as u32);
        let (mut atime, mut ctime, mut mtime) = (None, None, None);
        if let Some(e) = extra {
            e.extra_isize.set(self.extra_isize);
            if let Some(t) = self.btime
                && self.fits(20)
            {
                encode_time(&mut e.crtime, self.fits(24).then_some(&mut e.crtime_extra), t);
            }
            atime = self.fits(16).then_some(&mut e.atime_extra);
            ctime = self.fits(8).then_some(&mut e.ctime_extra);
            mtime = self.fits(12).then_some(&mut e.mtime_extra);
        }
        encode_time(&mut raw.atime, atime, self.atime);
        encode_time(&mut raw.ctime, ctime, self.ctime);
        encode_time(&mut raw.mtime, mtime, self.mtime);
        raw.dtime.set(self.dtime);
        raw.links.set(self.links);
        raw.sectors.set(self.sectors as u32);
        let mut flags = self.flags;
        if self.huge {
            // The count of units always fits: no file that is written here has 2^48 of them.
            raw.sectors_high.set((self.sectors >> 32) as u16);
            flags &= !FL_HUGE_FILE;
        }
        raw.flags.set(flags);
        raw.block = self.block.map(U32::new);
        raw.generation.set(self.generation);
        raw.file_acl.set(self.file_acl as u32);
        if self.kind == Kind::File {
            raw.size_high.set((self.size >> 32) as u32);
        }
        Ok(())
    }

    /// The bytes of `i_block`, where a short symlink's target lives.
    pub(crate) fn block_bytes(&self) -> [u8; I_BLOCK_BYTES] {
        let mut out = [0; I_BLOCK_BYTES];
        for (chunk, p) in out.chunks_exact_mut(4).zip(self.block) {
            chunk.copy_from_slice(&p.to_le_bytes());
        }
        out
    }

    /// Puts bytes into `i_block`; what does not fit is dropped.
    pub(crate) fn set_block_bytes(&mut self, bytes: &[u8]) {
        for (p, chunk) in self.block.iter_mut().zip(bytes.chunks(4)) {
            let mut word = [0; 4];
            for (w, c) in word.iter_mut().zip(chunk) {
                *w = *c;
            }
            *p = u32::from_le_bytes(word);
        }
    }

    /// Device number of a special file, from whichever of the two encodings is in use.
    pub(crate) fn rdev(&self) -> (u32, u32) {
        if !matches!(self.kind, Kind::CharDev | Kind::BlockDev) {
            return (0, 0);
        }
        let [old, new, ..] = self.block;
        if old != 0 {
            return (old >> 8 & 0xFF, old & 0xFF);
        }
        (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xF_FF00)
    }

    /// Sets a device number: the old 8:8 encoding where it fits, else 12:20.
    pub(crate) fn set_rdev(&mut self, (major, minor): (u32, u32)) {
        let [old, new, ..] = &mut self.block;
        if major < 256 && minor < 256 {
            *old = major << 8 | minor;
        } else {
            *new = minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xF_FF00) << 12;
        }
    }

    /// True when `i_block` holds block pointers. `unit` are the units of an attribute or
    /// translator block.
    pub(crate) fn has_map(&self, unit: u64) -> bool {
        match self.kind {
            Kind::File | Kind::Dir => true,
            Kind::Symlink => {
                let own = u64::from(self.file_acl != 0) + u64::from(self.translator);
                self.sectors > own * unit
            }
            _ => false,
        }
    }

    /// Attributes.
    pub(crate) fn attr(&self, ino: Ino, block_size: u32) -> Attr {
        Attr {
            ino,
            generation: self.generation,
            kind: self.kind,
            mode: u32::from(self.mode),
            nlink: u32::from(self.links),
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            blocks: self.sectors,
            blksize: block_size,
            rdev: self.rdev(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            flags: self.flags,
        }
    }
}

impl Ext2 {
    /// The group of an inode and its place there.
    pub(crate) fn inode_group(&self, ino: Ino) -> Attempt<(u32, u32)> {
        let n = u32::try_from(ino.0).unwrap_or(0);
        if n == 0 || n > self.sb.inodes {
            return Err(Refused::Stale.into());
        }
        Ok(((n - 1) / self.sb.inodes_per_group, (n - 1) % self.sb.inodes_per_group))
    }

    /// Block and offset of an inode.
    pub(crate) fn inode_place(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<(u64, usize)> {
        let (group, index) = self.inode_group(ino)?;
        let g = self.group(tx, group)?;
        if index >= g.inodes_begun {
            // Nothing was ever put there.
            return Err(Refused::Stale.into());
        }
        let at = u64::from(index) * u64::from(self.sb.inode_size);
        let bs = self.block_bytes();
        Ok((g.inode_table + at / bs, (at % bs) as usize))
    }

    /// Reads an inode that is in use.
    pub(crate) fn inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Inode> {
        if ino.0 != ROOT_INO && ino.0 < u64::from(self.sb.first_ino) {
            return Err(Refused::Stale.into());
        }
        self.special_inode(tx, ino)?.ok_or_else(|| Refused::Stale.into())
    }

    /// Reads any inode, one of the reserved ones too; `None` when it is not in use.
    pub(crate) fn special_inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Option<Inode>> {
        let (block, off) = self.inode_place(tx, ino)?;
        let wrong = |what: &str| FsError::corrupt(WHAT, block, format!("inode {}: {what}", ino.0));
        // In one piece: each function that an inode passes through copies it.
        let b = slice(tx.view(block, 1, WHAT)?, off, usize::from(self.sb.inode_size))?;
        let huge = self.ro_compat(RO_COMPAT_HUGE_FILE);
        let inode = Inode::decode(b, huge, self.sb.block_size, self.sb.inodes).map_err(wrong)?;
        let Some(mut inode) = inode else { return Ok(None) };
        inode.sums = self.inode_sums(b, ino).map_err(wrong)?;
        let (raw, _) = RawInode::split(b).ok_or_else(|| wrong("outside its block"))?;
        self.complete(&mut inode, raw).map_err(wrong)?;
        if inode.kind == Kind::Dir && inode.size > u64::from(u32::MAX) {
            return Err(FsError::unsupported("a directory of 4 GiB or more").into());
        }
        if inode.size > self.size_max() {
            return Err(wrong("size is above what the format can hold").into());
        }
        Ok(Some(inode))
    }

    /// What only the volume's features say of an inode's bytes.
    fn complete(&self, inode: &mut Inode, raw: &RawInode) -> Result<(), &'static str> {
        if inode.flags & FL_EXTENTS != 0 && !self.incompat(INCOMPAT_EXTENTS) {
            return Err("extents without the feature");
        }
        if inode.flags & FL_INLINE_DATA != 0 {
            return Err("inline data without the feature");
        }
        if self.incompat(INCOMPAT_64BIT) {
            inode.file_acl |= u64::from(raw.file_acl_high.get()) << 32;
        }
        if inode.kind == Kind::Dir && self.incompat(INCOMPAT_LARGE_DIR) {
            inode.size |= u64::from(raw.size_high.get()) << 32;
        }
        inode.translator = self.is_hurd() && raw.osd1 != U32::ZERO;
        Ok(())
    }

    /// Most links of an inode.
    pub(crate) fn links_max(&self) -> u16 {
        if self.ro_compat(RO_COMPAT_DIR_NLINK) { LINK_MAX_EXT4 } else { LINK_MAX }
    }

    /// The link count of a directory that gets one more directory in it. With `dir_nlink` it
    /// becomes 1 past the limit, "not counted any more", and stays so, as the kernel has it. e2fsck
    /// lets the 1 stand while there are more than 65,000.
    pub(crate) fn one_more_child(&self, dir: &Inode) -> Result<u16, Refused> {
        match (dir.links.saturating_add(1), self.ro_compat(RO_COMPAT_DIR_NLINK)) {
            (_, true) if dir.links == 1 => Ok(1),
            (n, true) => Ok(if n > LINK_MAX_EXT4 { 1 } else { n }),
            (n, false) if n > LINK_MAX => Err(Refused::TooManyLinks),
            (n, false) => Ok(n),
        }
    }

    /// An inode of the orphan list; `None` when it is not in use.
    pub(crate) fn listed_inode(&self, tx: &mut Tx<'_>, ino: Ino) -> Attempt<Option<Inode>> {
        match self.inode(tx, ino) {
            Err(seawall_diskfs::Fault::Err(FsError::Refused(Refused::Stale))) => Ok(None),
            other => other.map(Some),
        }
    }

    /// An inode that must be a directory.
    pub(crate) fn dir_inode(&self, tx: &mut Tx<'_>, dir: Ino) -> Attempt<Inode> {
        let inode = self.inode(tx, dir)?;
        if inode.kind != Kind::Dir {
            return Err(Refused::NotDir.into());
        }
        Ok(inode)
    }

    /// Puts an inode on disk.
    pub(crate) fn put_inode(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &Inode,
        stage: Stage,
    ) -> Attempt<()> {
        let raw = self.raw_inode(tx, ino, stage)?;
        Ok(inode.encode(raw)?)
    }

    /// Reads, changes and puts an inode. Always from the newest bytes: two changes of one inode in
    /// one transaction must not undo each other.
    pub(crate) fn update_inode(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        stage: Stage,
        f: impl FnOnce(&mut Inode),
    ) -> Attempt<()> {
        let mut inode = self.inode(tx, ino)?;
        f(&mut inode);
        tx.touch(ino);
        self.put_inode(tx, ino, &inode, stage)
    }

    /// As [`Self::update_inode`], for what no fsync has to cover: access times.
    pub(crate) fn update_quietly(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        f: impl FnOnce(&mut Inode),
    ) -> Attempt<()> {
        let mut inode = self.inode(tx, ino)?;
        f(&mut inode);
        let (block, off) = self.inode_place(tx, ino)?;
        let change = Change { site: Site::Inode, stage: Stage::Any, owner: None };
        let buf = tx.modify(block, WHAT, change)?;
        Ok(inode.encode(slice_mut(buf, off, usize::from(self.sb.inode_size))?)?)
    }

    /// Clears an inode's bytes and puts a new one there; its generation follows the last one's.
    pub(crate) fn put_new_inode(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        inode: &mut Inode,
    ) -> Attempt<()> {
        inode.extra_isize = self.sb.extra_isize;
        inode.huge = self.ro_compat(RO_COMPAT_HUGE_FILE);
        tx.touch(ino);
        let raw = self.raw_inode(tx, ino, Stage::Init)?;
        inode.generation = u32_at(raw, 0x64)?.wrapping_add(1);
        raw.fill(0);
        self.sign(raw, inode)?;
        Ok(inode.encode(raw)?)
    }

    /// An inode's bytes for changing.
    pub(crate) fn raw_inode<'t>(
        &self,
        tx: &'t mut Tx<'_>,
        ino: Ino,
        stage: Stage,
    ) -> Attempt<&'t mut [u8]> {
        let (block, off) = self.inode_place(tx, ino)?;
        let change = Change { site: Site::Inode, stage, owner: Some(ino) };
        let buf = tx.modify(block, WHAT, change)?;
        Ok(slice_mut(buf, off, usize::from(self.sb.inode_size))?)
    }

    /// Notes in the superblock that a file of 2 GiB or more exists, which a reader without the
    /// feature `large_file` would misread.
    pub(crate) fn note_size(&self, tx: &mut Tx<'_>, inode: &Inode) -> Attempt<()> {
        use crate::features::RO_COMPAT_LARGE_FILE;
        use crate::superblock::{
            GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE, S_FEATURE_RO_COMPAT, S_FIRST_INO,
            S_INODE_SIZE, S_REV_LEVEL,
        };
        if inode.kind != Kind::File || inode.size <= 0x7FFF_FFFF {
            return Ok(());
        }
        let (rev, have) = self
            .read_super(tx, |s| Ok((u32_at(s, S_REV_LEVEL)?, u32_at(s, S_FEATURE_RO_COMPAT)?)))?;
        if rev != 0 && have & RO_COMPAT_LARGE_FILE != 0 {
            return Ok(());
        }
        self.modify_super(tx, |s| {
            if rev == 0 {
                put(s, S_REV_LEVEL, &1u32.to_le_bytes())?;
                put(s, S_FIRST_INO, &GOOD_OLD_FIRST_INO.to_le_bytes())?;
                put(s, S_INODE_SIZE, &GOOD_OLD_INODE_SIZE.to_le_bytes())?;
            }
            bytes::put(s, S_FEATURE_RO_COMPAT, &(have | RO_COMPAT_LARGE_FILE).to_le_bytes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    #[test]
    fn what_is_put_is_read() {
        for (len, extra) in [(128, 0), (256, 32), (256, 8), (1024, 32)] {
            let mut i = Inode::new(Kind::File, 0o4755, (70_000, 65_536), t(1_700_000_000, 5));
            i.size = 5 << 30;
            i.mtime = t(6_000_000_000, 999_999_999);
            i.ctime = t(-3, 7);
            i.sectors = 88;
            i.block = core::array::from_fn(|n| n as u32 + 100);
            i.extra_isize = extra;
            let mut b = alloc::vec![0u8; len];
            b[0x24] = 0xAA;
            i.encode(&mut b).unwrap();
            let got = Inode::decode(&b, false, 1024, 100).unwrap().unwrap();
            assert_eq!(b[0x24], 0xAA, "unknown fields are kept");
            if extra >= 24 {
                assert_eq!(got, i);
            } else {
                assert_eq!((got.uid, got.gid, got.size), (i.uid, i.gid, i.size));
                assert_eq!(got.btime, None);
                assert_eq!(got.ctime.secs, -3);
                assert_eq!(got.mtime, t(i64::from(i32::MAX), 0));
            }
        }
    }

    #[test]
    fn device_numbers_in_both_encodings() {
        for dev in [(0, 0), (8, 1), (255, 255), (256, 0), (8, 256), (4095, 0xF_FFFF)] {
            let mut i = Inode::new(Kind::BlockDev, 0o600, (0, 0), t(0, 0));
            i.set_rdev(dev);
            assert_eq!(i.rdev(), dev);
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let mut x = 1u64;
        for _ in 0..20_000 {
            let b: alloc::vec::Vec<u8> = (0..256)
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (x >> 56) as u8
                })
                .collect();
            let _ = Inode::decode(&b, true, 65536, 100);
            let _ = Inode::decode(&b[..128], false, 1024, 100);
        }
    }
}
