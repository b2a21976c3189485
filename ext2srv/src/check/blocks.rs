//! Who owns which block: every inode claims what its map leads to, and a block that is claimed
//! twice is followed once.

use super::Check;
use super::finding::{Finding, Kind};
use super::geometry::LARGE_DIR;
use super::raw::Raw;
use super::tree::{Item, Walk};
use seawall_diskfs::FsError;
use seawall_diskfs::check::Bits;

/// What an inode's map leads to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Blocks, those of the tree and of the attributes included.
    pub(super) blocks: u64,
    /// Last file block that has a block.
    pub(super) last: Option<u64>,
    /// Last file block that has a block with data in it.
    pub(super) last_data: Option<u64>,
    /// A finding says already that sizes and counts cannot fit.
    pub(super) broken: bool,
}

/// How a claim went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The first one.
    First,
    /// Somebody has it.
    Again,
    /// No block of the volume.
    Outside,
}

impl Check<'_> {
    /// Claims a block for an inode.
    pub(super) fn claim(&mut self, ino: u32, block: u64) -> Result<Claim, FsError> {
        if !self.geo.holds(block) {
            self.add(Finding::new(Kind::PointerRange).inode(ino).block(block));
            return Ok(Claim::Outside);
        }
        let bit = self.bit(block);
        if !self.claimed.set(bit, &mut self.budget)? {
            return Ok(Claim::First);
        }
        if self.own.get(bit) {
            self.add(Finding::new(Kind::PointerMetadata).inode(ino).block(block));
        } else {
            self.shared.set(bit, &mut self.budget)?;
            self.any_shared = true;
        }
        Ok(Claim::Again)
    }

    /// Claims everything that an inode's map leads to.
    pub(super) fn claim_map(&mut self, ino: u32, raw: &Raw<'_>) -> Result<Use, FsError> {
        let mut used = Use::default();
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        while let Some(item) = walk.next() {
            match item {
                Item::Wrong(what) => {
                    used.broken = true;
                    self.add(Finding::new(Kind::ExtentTree).inode(ino).detail(what));
                }
                Item::Node { block, .. } => {
                    let claim = self.claim(ino, block)?;
                    used.broken |= claim != Claim::First;
                    used.blocks += 1;
                    if claim == Claim::First
                        && let Some(buf) = self.read_block(block, |f| f.inode(ino))?
                    {
                        walk.enter(buf);
                    }
                }
                Item::Run { block, file, len, init } => {
                    self.claim_run(ino, raw, &mut used, (block, file, len))?;
                    if init {
                        used.last_data = used.last;
                    }
                }
            }
        }
        Ok(used)
    }

    fn claim_run(
        &mut self,
        ino: u32,
        raw: &Raw<'_>,
        used: &mut Use,
        (block, file, len): (u64, u64, u64),
    ) -> Result<(), FsError> {
        let last = file + len - 1;
        if last > self.file_blocks_max(raw) {
            used.broken = true;
            self.add(Finding::new(Kind::TooBig).inode(ino).block(block).found(last));
        }
        for at in block..block.saturating_add(len) {
            match self.claim(ino, at)? {
                Claim::First => {}
                Claim::Again => {
                    used.broken = true;
                    self.again = self.again.saturating_sub(1);
                    if self.again == 0 {
                        break;
                    }
                }
                Claim::Outside => {
                    used.broken = true;
                    break;
                }
            }
        }
        used.blocks += len;
        used.last = Some(used.last.map_or(last, |l| l.max(last)));
        Ok(())
    }

    /// Last file block that an inode of this kind may have.
    fn file_blocks_max(&self, raw: &Raw<'_>) -> u64 {
        if raw.by_extents(&self.geo) && !raw.is_dir() {
            return u64::from(u32::MAX);
        }
        let most = (1u64 << 41) / self.geo.bs;
        if raw.is_dir() && self.geo.incompat & LARGE_DIR == 0 {
            (1u64 << 31) / self.geo.bs
        } else if raw.is_dir() || raw.is_file() {
            most
        } else {
            0
        }
    }

    /// Tells for each inode that it shares blocks: a second walk, made only when there are such
    /// blocks.
    pub(super) fn name_owners(&mut self) -> Result<(), FsError> {
        if !self.any_shared {
            return Ok(());
        }
        let bits = self.geo.blocks - self.geo.first_block;
        let mut entered = Bits::new(bits, &mut self.budget)?;
        self.again = bits.saturating_mul(8).saturating_add(1 << 20);
        self.each_inode("shared blocks", &mut |check, ino, bytes| {
            let raw = Raw::new(bytes);
            if check.nodes.get(ino).used && ino != super::special::RESIZE_INO {
                check.count_shared(ino, &raw, &mut entered)?;
            }
            Ok(())
        })
    }

    fn count_shared(&mut self, ino: u32, raw: &Raw<'_>, entered: &mut Bits) -> Result<(), FsError> {
        let mut first = None;
        let mut count = 0u64;
        let mut see = |check: &Self, block: u64| {
            if check.geo.holds(block) && check.shared.get(check.bit(block)) {
                first = first.or(Some(block));
                count += 1;
            }
        };
        see(self, raw.acl(&self.geo));
        see(self, raw.translator(&self.geo));
        let mut walk = Walk::new(raw.i_block(), raw.by_extents(&self.geo), self.geo.bs);
        let has_map = raw.has_map();
        while let Some(item) = has_map.then(|| walk.next()).flatten() {
            match item {
                Item::Wrong(_) => {}
                Item::Run { block, len, .. } => {
                    let most = if self.again == 0 { 1 } else { len };
                    self.again = self.again.saturating_sub(len - 1);
                    let end = block.saturating_add(most).min(self.geo.blocks);
                    (block..end).for_each(|b| see(self, b));
                }
                Item::Node { block, .. } => {
                    see(self, block);
                    if self.geo.holds(block)
                        && !entered.set(self.bit(block), &mut self.budget)?
                        && let Some(buf) =
                            self.dev.read(block * self.geo.bs, self.geo.bs as usize)?
                    {
                        walk.enter(buf);
                    }
                }
            }
        }
        if let Some(block) = first {
            let f = Finding::new(Kind::PointerShared).inode(ino).block(block);
            self.add(f.detail("blocks shared").found(count));
        }
        Ok(())
    }
}
