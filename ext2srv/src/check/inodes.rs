//! Every inode: its fields against each other and against the blocks that it claims.

use super::Check;
use super::blocks::Use;
use super::connect::Dir;
use super::finding::{Finding, Kind};
use super::geometry::{DIR_INDEX, HUGE_FILE, LARGE_DIR, LARGE_FILE};
use super::raw::{
    FL_APPEND, FL_EXTENTS, FL_HUGE_FILE, FL_IMAGIC, FL_IMMUTABLE, FL_INDEX, FL_REFUSED, Raw,
};
use super::tree::looks_like_extents;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;

/// Bytes of an inode table that are read at once.
const PIECE: u64 = 65536;
pub(super) const BAD_INO: u32 = 1;
pub(super) const ROOT_INO: u32 = 2;

/// What is called for each inode.
pub(super) type OnInode<'f, 'a> = dyn FnMut(&mut Check<'a>, u32, &[u8]) -> Result<(), FsError> + 'f;

impl<'a> Check<'a> {
    pub(super) fn scan_inodes(&mut self) -> Result<(), FsError> {
        self.each_inode("inodes", &mut |check, ino, bytes| check.one_inode(ino, bytes))
    }

    /// Calls `f` with every inode that can be read. Groups that cannot be read in full are noted.
    pub(super) fn each_inode(
        &mut self,
        phase: &'static str,
        f: &mut OnInode<'_, 'a>,
    ) -> Result<(), FsError> {
        for group in 0..self.geo.groups {
            self.tell(phase, u64::from(group), u64::from(self.geo.groups));
            let desc = self.desc(group);
            if !desc.sound {
                self.blind.insert(group);
                continue;
            }
            if desc.inodes_uninit() {
                continue;
            }
            let inodes = u64::from(self.geo.inodes_per_group.saturating_sub(desc.unused()));
            let bytes = inodes * self.geo.inode_size;
            let mut at = 0;
            while at < bytes {
                let len = PIECE.min(bytes - at);
                self.table_piece(group, at, len, f)?;
                at += len;
            }
        }
        Ok(())
    }

    /// Bytes `at..at + len` of a group's inode table.
    fn table_piece(
        &mut self,
        group: u32,
        at: u64,
        len: u64,
        f: &mut OnInode<'_, 'a>,
    ) -> Result<(), FsError> {
        let start = self.desc(group).inode_table * self.geo.bs + at;
        if let Some(buf) = self.dev.read(start, len as usize)? {
            return self.inodes_in(group, at, &buf, f);
        }
        // One bad block must not hide its neighbours.
        let mut done = 0;
        while done < len {
            let part = self.geo.bs.min(len - done);
            match self.dev.read(start + done, part as usize)? {
                Some(buf) => self.inodes_in(group, at + done, &buf, f)?,
                None => {
                    self.blind.insert(group);
                    let f = Finding::new(Kind::Unreadable).block((start + done) / self.geo.bs);
                    self.add(f.group(group).detail("inode table"));
                }
            }
            done += part;
        }
        Ok(())
    }

    fn inodes_in(
        &mut self,
        group: u32,
        at: u64,
        buf: &PageBuf,
        f: &mut OnInode<'_, 'a>,
    ) -> Result<(), FsError> {
        let first =
            u64::from(group) * u64::from(self.geo.inodes_per_group) + at / self.geo.inode_size + 1;
        for (i, bytes) in buf.chunks_exact(self.geo.inode_size as usize).enumerate() {
            let ino = u32::try_from(first + i as u64).unwrap_or(0);
            f(self, ino, bytes)?;
        }
        Ok(())
    }

    fn one_inode(&mut self, ino: u32, bytes: &[u8]) -> Result<(), FsError> {
        let raw = Raw::new(bytes);
        let dtime = raw.dtime();
        let listed = dtime != 0 && self.geo.low_dtime && dtime < self.geo.inodes;
        if listed {
            self.add(Finding::new(Kind::OrphanLink).inode(ino).found(dtime));
        }
        if raw.links() == 0 && ino >= self.geo.first_ino {
            if dtime == 0 && raw.mode() != 0 {
                self.add(Finding::new(Kind::ZeroDtime).inode(ino));
            }
            return Ok(());
        }
        if raw.links() != 0 {
            self.nodes.at(ino, &mut self.budget)?.links = raw.links();
        }
        if ino != ROOT_INO && ino < self.geo.first_ino {
            self.nodes.at(ino, &mut self.budget)?.used = true;
            return self.reserved(ino, &raw);
        }
        if raw.links() == 0 {
            return Ok(());
        }
        if dtime != 0 && !listed {
            self.add(Finding::new(Kind::SetDtime).inode(ino).found(dtime));
        }
        let node = self.nodes.at(ino, &mut self.budget)?;
        node.used = true;
        node.file_type = raw.file_type();
        self.check_fields(ino, &raw);
        self.check_extra(ino, &raw);
        self.check_kind(ino, &raw)?;
        self.check_blocks(ino, &raw)
    }

    /// Fields that older and other systems used and that must be zero.
    fn check_fields(&mut self, ino: u32, raw: &Raw<'_>) {
        let f = raw.fields();
        let hurd = self.geo.hurd;
        let dir_high = raw.is_dir() && self.geo.incompat & LARGE_DIR == 0;
        let huge = self.geo.ro_compat & HUGE_FILE != 0;
        let fields = [
            ("i_faddr", true, u64::from(f.u32(0x70))),
            ("h_i_frag", hurd, u64::from(f.u8(0x74))),
            ("h_i_fsize", hurd, u64::from(f.u8(0x75))),
            ("i_size_high", dir_high, u64::from(raw.size_high())),
            ("i_file_acl_high", !hurd && !self.geo.wide(), u64::from(raw.acl_high())),
            ("i_blocks_high", !hurd && !huge, u64::from(raw.blocks_high())),
        ];
        for (field, zero, value) in fields {
            if zero && value != 0 {
                let f = Finding::new(Kind::FieldNotZero).inode(ino).detail(field);
                self.add(f.found(value));
            }
        }
        let flags = [
            ("imagic", FL_IMAGIC, self.geo.compat & 2 == 0),
            ("extents", FL_EXTENTS, !self.geo.extents()),
            ("inline_data, casefold or encrypt", FL_REFUSED, true),
            ("dir_index", FL_INDEX, raw.is_dir() && self.geo.compat & DIR_INDEX == 0),
        ];
        for (what, flag, wrong) in flags {
            if raw.flags() & flag != 0 && wrong {
                self.add(Finding::new(Kind::FlagWithout).inode(ino).detail(what));
            }
        }
        let mapped = raw.is_file() || raw.is_dir();
        if mapped
            && self.geo.extents()
            && raw.flags() & FL_EXTENTS == 0
            && looks_like_extents(raw.i_block())
        {
            let what = "an extent tree without its flag";
            self.add(Finding::new(Kind::ExtentTree).inode(ino).detail(what));
        }
    }

    /// What lies past the first 128 bytes.
    fn check_extra(&mut self, ino: u32, raw: &Raw<'_>) {
        let room = self.geo.inode_size - 128;
        if room == 0 {
            return;
        }
        let extra = u64::from(raw.extra_isize());
        if extra != 0 && (extra < 4 || extra > room || extra % 4 != 0) {
            self.add(Finding::new(Kind::ExtraSize).inode(ino).found(extra));
            return;
        }
        if extra >= room - 4 {
            return;
        }
        self.check_attr_inode(ino, raw, 128 + extra as usize);
        let f = raw.fields();
        let stamps = [(0x08, 0x8C), (0x0C, 0x84), (0x90, 0x94), (0x10, 0x88)];
        if stamps.iter().any(|(low, high)| f.u32(*low) >> 31 == 1 && f.u32(*high) & 3 == 3) {
            self.add(Finding::new(Kind::TimeRange).inode(ino));
        }
    }

    fn check_kind(&mut self, ino: u32, raw: &Raw<'_>) -> Result<(), FsError> {
        match raw.file_type() {
            0 => {
                let f = Finding::new(Kind::Mode).inode(ino);
                self.add(f.found(raw.mode()));
            }
            1 => {
                let large = raw.size() > 0x7FFF_FFFF;
                if large && self.geo.ro_compat & LARGE_FILE == 0 {
                    self.add(Finding::new(Kind::LargeFile).inode(ino).found(raw.size()));
                }
            }
            2 => {
                self.budget.take(1, size_of::<Dir>())?;
                self.dirs.push(Dir::new(ino));
            }
            7 => {
                if !self.link_is_sound(ino, raw)? {
                    self.add(Finding::new(Kind::Symlink).inode(ino));
                }
            }
            _ => self.check_special(ino, raw),
        }
        Ok(())
    }

    fn check_special(&mut self, ino: u32, raw: &Raw<'_>) {
        let flags = raw.flags();
        let fixed = flags & (FL_IMMUTABLE | FL_APPEND) != 0;
        let filled = (4..15).any(|n| raw.pointer(n) != 0);
        if flags & (FL_INDEX | FL_EXTENTS) != 0 || (fixed && filled) {
            self.add(Finding::new(Kind::Special).inode(ino));
            return;
        }
        if fixed {
            self.add(Finding::new(Kind::SpecialFlags).inode(ino));
        }
        if raw.size() != 0 {
            self.add(Finding::new(Kind::SpecialSize).inode(ino).found(raw.size()));
        }
    }

    /// Whether a symbolic link has a target of its length.
    fn link_is_sound(&mut self, ino: u32, raw: &Raw<'_>) -> Result<bool, FsError> {
        let size = raw.size();
        if size == 0 || raw.size_high() != 0 || raw.flags() & FL_INDEX != 0 {
            return Ok(false);
        }
        let target = |b: &[u8]| {
            let len = b.iter().position(|c| *c == 0);
            len.is_some_and(|n| n as u64 == size)
        };
        if raw.is_short_link() {
            return Ok(raw.flags() & FL_EXTENTS == 0 && target(raw.i_block()));
        }
        let block = if raw.by_extents(&self.geo) {
            // One leaf of one block.
            let f = raw.fields();
            let one = f.u16(0x2A) == 1 && f.u16(0x2E) == 0 && f.u32(0x34) == 0 && f.u16(0x38) == 1;
            if !one {
                return Ok(false);
            }
            u64::from(f.u32(0x3C)) | u64::from(f.u16(0x3A)) << 32
        } else {
            if (1..15).any(|n| raw.pointer(n) != 0) {
                return Ok(false);
            }
            u64::from(raw.pointer(0))
        };
        if !self.geo.holds(block) {
            return Ok(false);
        }
        let buf = self.read_block(block, |f| f.inode(ino))?;
        Ok(buf.is_none_or(|b| target(&b)))
    }

    /// Claims an inode's blocks and compares them with its size and count.
    pub(super) fn check_blocks(&mut self, ino: u32, raw: &Raw<'_>) -> Result<(), FsError> {
        let misread =
            raw.flags() & FL_EXTENTS != 0 && !self.geo.extents() || raw.flags() & FL_REFUSED != 0;
        let mut used = if misread || !raw.has_map() {
            Use { broken: misread, ..Use::default() }
        } else {
            self.claim_map(ino, raw)?
        };
        self.compare_blocks(ino, raw, &mut used)?;
        if raw.is_dir() && used.blocks == 0 && !misread {
            self.add(Finding::new(Kind::DirEmpty).inode(ino));
        }
        Ok(())
    }

    /// Adds what belongs to an inode beside its map, and compares with size and count.
    pub(super) fn compare_blocks(
        &mut self,
        ino: u32,
        raw: &Raw<'_>,
        used: &mut Use,
    ) -> Result<(), FsError> {
        if raw.flags() & FL_INDEX != 0 && raw.file_type() <= 1 {
            let f = Finding::new(Kind::FlagWithout).inode(ino);
            self.add(f.detail("dir_index on what is no directory"));
        }
        used.blocks += u64::from(self.check_acl(ino, raw)?);
        let translator = raw.translator(&self.geo);
        if translator != 0 {
            self.claim(ino, translator)?;
            used.blocks += 1;
        }
        if !(used.broken || raw.is_dir() && used.blocks == 0) {
            self.check_size(ino, raw, used);
            self.check_sectors(ino, raw, used);
        }
        Ok(())
    }

    fn check_size(&mut self, ino: u32, raw: &Raw<'_>, used: &Use) {
        let (size, bs) = (raw.size(), self.geo.bs);
        let right = if raw.is_dir() {
            let blocks = used.last.map_or(0, |l| l + 1);
            let more = blocks.saturating_sub(size / bs);
            let wrong = size % bs != 0 || size / bs > blocks || more > self.geo.prealloc_dir_blocks;
            wrong.then_some(blocks * bs)
        } else if raw.is_link() {
            None
        } else {
            let past = used.last_data.filter(|l| size < l * bs).map(|l| (l + 1) * bs);
            past.or_else(|| (size > self.size_max(raw)).then_some(used.last.unwrap_or(0) * bs))
        };
        if let Some(right) = right {
            let f = Finding::new(Kind::Size).inode(ino);
            self.add(f.found(size).right(right));
        }
    }

    /// Largest size that the map can hold.
    fn size_max(&self, raw: &Raw<'_>) -> u64 {
        let bs = self.geo.bs;
        if raw.by_extents(&self.geo) {
            return bs << 32;
        }
        let p = bs / 4;
        (12 + p + p * p + p.saturating_pow(3)).saturating_mul(bs)
    }

    fn check_sectors(&mut self, ino: u32, raw: &Raw<'_>, used: &Use) {
        if self.geo.hurd {
            return;
        }
        let huge = self.geo.ro_compat & HUGE_FILE != 0 && raw.flags() & FL_HUGE_FILE != 0;
        let right = if huge { used.blocks } else { used.blocks * (self.geo.bs / 512) };
        let stands = raw.blocks(&self.geo);
        if stands != right {
            let f = Finding::new(Kind::SectorCount).inode(ino);
            self.add(f.found(stands).right(right));
        }
    }

    /// An inode's bytes; `None` when they cannot be read, which an earlier pass told.
    pub(super) fn read_inode(&mut self, ino: u32) -> Result<Option<PageBuf>, FsError> {
        let (group, index) = self.geo.inode_place(ino);
        let desc = self.desc(group);
        if !desc.sound {
            return Ok(None);
        }
        let start = desc.inode_table * self.geo.bs + u64::from(index) * self.geo.inode_size;
        self.dev.read(start, self.geo.inode_size as usize)
    }
}
