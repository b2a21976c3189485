//! The blocks of an inode, one after another: pointers and pointer blocks, or extents and their
//! nodes. A walk reads nothing itself: it stops at each block of the tree, and whoever walks reads
//! it and enters it, or does not.

use super::geometry::Fields;
use alloc::vec::Vec;
use seawall_blockdev::PageBuf;

const EXTENT_MAGIC: u16 = 0xF30A;
/// Bytes of an extent header, and of each entry behind it.
const ENTRY: usize = 12;
/// Longest initialized extent; what is above is the length of an uninitialized one.
const INIT_MAX: u64 = 32768;
/// Deepest extent tree.
const DEPTH_MAX: u16 = 5;

/// What a walk comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A block of the tree itself; [`Walk::enter`] it or it is passed over.
    Node { block: u64, file: u64 },
    /// Blocks of the file from block `file` on. `init`: they hold data.
    Run { block: u64, file: u64, len: u64, init: bool },
    /// The tree contradicts itself.
    Wrong(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Level {
    /// The inode's fifteen pointers.
    Root,
    /// Pointers to trees of this height; 0: to data.
    Pointers(u32),
    /// Entries of extents of this depth; 0: leaves.
    Extents { depth: u16, count: u16 },
}

#[derive(Debug)]
struct Frame {
    buf: PageBuf,
    level: Level,
    next: usize,
    /// First file block of the next pointer.
    file: u64,
}

/// A walk through the tree of one inode.
#[derive(Debug)]
pub(super) struct Walk {
    frames: Vec<Frame>,
    /// The node last returned: its level and first file block.
    node: Option<(Level, u64)>,
    pointers: u64,
    block_size: usize,
    /// File block that the next extent must not be below.
    floor: u64,
    wrong: Option<&'static str>,
}

impl Walk {
    /// A walk from `i_block`, which are 60 bytes.
    pub(super) fn new(i_block: &[u8], extents: bool, block_size: u64) -> Self {
        let mut walk = Self {
            frames: Vec::new(),
            node: None,
            pointers: block_size / 4,
            block_size: block_size as usize,
            floor: 0,
            wrong: None,
        };
        let buf = PageBuf::from_slice(i_block);
        if extents {
            walk.open_extents(buf, None, 0);
        } else {
            walk.frames.push(Frame { buf, level: Level::Root, next: 0, file: 0 });
        }
        walk
    }

    /// Goes down into the node that was returned last.
    pub(super) fn enter(&mut self, buf: PageBuf) {
        match self.node.take() {
            Some((Level::Extents { depth, .. }, file)) => {
                self.open_extents(buf, Some(depth), file);
            }
            Some((level, file)) => self.frames.push(Frame { buf, level, next: 0, file }),
            None => {}
        }
    }

    fn open_extents(&mut self, buf: PageBuf, depth: Option<u16>, file: u64) {
        match extent_header(&buf, depth, if depth.is_some() { self.block_size } else { 60 }) {
            Ok((depth, count)) => {
                let level = Level::Extents { depth, count };
                self.frames.push(Frame { buf, level, next: 0, file });
            }
            Err(what) => self.wrong = Some(what),
        }
    }

    /// What comes next.
    pub(super) fn next(&mut self) -> Option<Item> {
        self.node = None;
        if let Some(what) = self.wrong.take() {
            return Some(Item::Wrong(what));
        }
        loop {
            let frame = self.frames.last_mut()?;
            let at = frame.next;
            frame.next += 1;
            let item = match frame.level {
                Level::Root if at < 15 => {
                    let height = at.saturating_sub(11) as u32;
                    pointer(frame, at, height, self.pointers, &mut self.node)
                }
                Level::Pointers(height) if at as u64 >= self.pointers => {
                    let _ = height;
                    self.frames.pop();
                    continue;
                }
                Level::Pointers(height) => {
                    pointer(frame, at, height, self.pointers, &mut self.node)
                }
                Level::Extents { depth, count } if at < usize::from(count) => {
                    Some(extent(frame, at, depth, &mut self.floor, &mut self.node))
                }
                _ => {
                    self.frames.pop();
                    continue;
                }
            };
            if item.is_some() {
                return item;
            }
        }
    }
}

/// The pointer at index `at`, which is the root of a tree of this height; `None` for a hole.
fn pointer(
    frame: &mut Frame,
    at: usize,
    height: u32,
    pointers: u64,
    node: &mut Option<(Level, u64)>,
) -> Option<Item> {
    let file = frame.file;
    frame.file = file.saturating_add(pointers.saturating_pow(height));
    let block = u64::from(Fields(&frame.buf).u32(at * 4));
    if block == 0 {
        return None;
    }
    if height == 0 {
        return Some(Item::Run { block, file, len: 1, init: true });
    }
    *node = Some((Level::Pointers(height - 1), file));
    Some(Item::Node { block, file })
}

fn extent(
    frame: &Frame,
    at: usize,
    depth: u16,
    floor: &mut u64,
    node: &mut Option<(Level, u64)>,
) -> Item {
    let e = Fields(frame.buf.get((at + 1) * ENTRY..).unwrap_or_default());
    let file = u64::from(e.u32(0));
    if file < *floor || (at == 0 && file < frame.file) {
        return Item::Wrong("extents overlap or are not in order");
    }
    if depth > 0 {
        let block = u64::from(e.u32(4)) | u64::from(e.u16(8)) << 32;
        *node = Some((Level::Extents { depth: depth - 1, count: 0 }, file));
        return Item::Node { block, file };
    }
    let block = u64::from(e.u32(8)) | u64::from(e.u16(6)) << 32;
    let stored = u64::from(e.u16(4));
    let init = stored <= INIT_MAX;
    let len = if init { stored } else { stored - INIT_MAX };
    if len == 0 {
        return Item::Wrong("an extent of no blocks");
    }
    *floor = file + len;
    Item::Run { block, file, len, init }
}

/// Depth and number of entries.
fn extent_header(buf: &[u8], depth: Option<u16>, size: usize) -> Result<(u16, u16), &'static str> {
    let h = Fields(buf);
    let (count, max, own) = (h.u16(2), h.u16(4), h.u16(6));
    let room = size / ENTRY - 1;
    if h.u16(0) != EXTENT_MAGIC {
        return Err("no extent header");
    }
    // Checksums and older writers leave up to two entries unused.
    if count > max || usize::from(max) > room || usize::from(max) + 2 < room {
        return Err("an extent header's counts");
    }
    if own > DEPTH_MAX || depth.is_some_and(|d| d != own) {
        return Err("an extent header's depth");
    }
    if own > 0 && count == 0 {
        return Err("an extent node without entries");
    }
    Ok((own, count))
}

/// True when these 60 bytes begin like an extent tree.
pub(super) fn looks_like_extents(i_block: &[u8]) -> bool {
    extent_header(i_block, None, 60).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(i_block: &[u8], extents: bool, enter: impl Fn(u64) -> Option<PageBuf>) -> Vec<Item> {
        let mut walk = Walk::new(i_block, extents, 1024);
        let mut out = Vec::new();
        while let Some(item) = walk.next() {
            out.push(item);
            if let Item::Node { block, .. } = item
                && out.len() < 500
                && let Some(buf) = enter(block)
            {
                walk.enter(buf);
            }
            assert!(out.len() < 100_000);
        }
        out
    }

    #[test]
    fn pointers_know_their_place() {
        let mut b = [0u8; 60];
        b[4] = 9;
        b[48] = 20;
        b[52] = 30;
        let mut ind = PageBuf::zeroed(1024);
        ind[8] = 21;
        let items = walk(&b, false, |n| (n == 20).then(|| ind.clone()));
        let run = |block, file| Item::Run { block, file, len: 1, init: true };
        let want = [
            run(9, 1),
            Item::Node { block: 20, file: 12 },
            run(21, 14),
            Item::Node { block: 30, file: 268 },
        ];
        assert_eq!(items, want);
    }

    #[test]
    fn any_bytes_end() {
        let mut x = 3u64;
        let mut byte = move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        };
        for round in 0..2000 {
            let mut b: Vec<u8> = (0..60).map(|_| byte()).collect();
            if round % 2 == 0 {
                b[..8].copy_from_slice(&[0x0A, 0xF3, 4, 0, 4, 0, byte() % 4, 0]);
            }
            walk(&b, round % 2 == 0, |n| (n % 3 != 0).then(|| PageBuf::from_slice(&b.repeat(18))));
        }
    }
}
