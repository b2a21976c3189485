//! From scatter lists to requests: adjacent runs merge up to the largest request, longer runs
//! split.

use std::vec::Vec;

/// A slice that can be cut in two.
pub(crate) trait Cut: Sized {
    fn len(&self) -> usize;
    fn cut(self, at: usize) -> (Self, Self);
}

impl Cut for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_checked(at).unwrap_or((self, &[]))
    }
}

impl Cut for &mut [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn cut(self, at: usize) -> (Self, Self) {
        let at = at.min(<[u8]>::len(self));
        self.split_at_mut(at)
    }
}

/// One request: `count` segments from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) tag: u32,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Requests and the slices they move.
#[derive(Debug)]
pub(crate) struct Plan<B> {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) segments: Vec<B>,
}

/// Plans runs of (start, slice, tag) for a device whose largest request is `max_io` bytes. A
/// request has the tag of its first run.
pub(crate) fn plan<B: Cut>(runs: impl Iterator<Item = (u64, B, u32)>, max_io: u32) -> Plan<B> {
    let max = max_io.max(512) as usize;
    let mut out: Plan<B> =
        Plan { pieces: Vec::with_capacity(runs.size_hint().0), segments: Vec::new() };
    for (mut start, mut slice, tag) in runs {
        while slice.len() > 0 {
            let room = match out.pieces.last() {
                Some(last) if last.start.saturating_add(last.len) == start => {
                    max.saturating_sub(last.len as usize)
                }
                _ => 0,
            };
            let n = slice.len().min(if room == 0 { max } else { room });
            let (front, rest) = slice.cut(n);
            slice = rest;
            if room == 0 {
                let first = out.segments.len();
                out.pieces.push(Piece { start, len: 0, tag, first, count: 0 });
            }
            if let Some(last) = out.pieces.last_mut() {
                last.len = last.len.saturating_add(n as u64);
                last.count = last.count.saturating_add(1);
            }
            out.segments.push(front);
            start = start.saturating_add(n as u64);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_adjacent_and_splits_long_runs() {
        let bytes = [0u8; 8192];
        let runs = [(0u64, &bytes[..512]), (512, &bytes[..512]), (4096, &bytes[..4096])];
        let plan = plan(runs.into_iter().map(|(s, b)| (s, b, 7)), 2048);
        let got: Vec<_> = plan.pieces.iter().map(|p| (p.start, p.len, p.first, p.count)).collect();
        assert_eq!(got, [(0, 1024, 0, 2), (4096, 2048, 2, 1), (6144, 2048, 3, 1)]);
        assert_eq!(plan.segments.len(), 4);
    }
}
