//! Statistics by tag and by session.
//!
//! A tag is whatever a peer sends, so only [`TAGS_MAX`] are kept apart; the rest is counted under
//! `u32::MAX`. The shape is the wire's, so that a local store and a server report the same.

use alloc::collections::BTreeMap;
use seawall_blockdev::Tag;
use seawall_ipc::storeproto::{Counters, Stats, TagStats, sizes};

/// Tags kept apart.
pub const TAGS_MAX: usize = 128;
/// Tag that collects the others.
pub const OTHER: Tag = Tag(u32::MAX);

/// Size histogram: powers of two, and large requests once more ([`sizes`]).
#[derive(Clone, Debug)]
pub struct Sizes {
    classes: [u64; 64],
    large: u64,
    large_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { classes: [0; 64], large: 0, large_bytes: 0 }
    }
}

impl Sizes {
    fn add(&mut self, len: u64) {
        if let Some(log) = len.checked_ilog2()
            && let Some(count) = self.classes.get_mut(log as usize)
        {
            *count = count.saturating_add(1);
        }
        if len >= sizes::LARGE {
            self.large = self.large.saturating_add(1);
            self.large_bytes = self.large_bytes.saturating_add(len);
        }
    }

    fn to_wire(&self) -> alloc::vec::Vec<(u8, u64)> {
        let large = [(sizes::LARGE_COUNT, self.large), (sizes::LARGE_BYTES, self.large_bytes)];
        (0u8..).zip(self.classes).chain(large).filter(|(_, number)| *number > 0).collect()
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A read of so many bytes succeeded.
    Read(u64),
    /// A write of so many bytes was acknowledged.
    Write(u64),
    /// WRITE_ZEROES or DISCARD of so many bytes was acknowledged.
    Zero(u64),
    /// A SYNC was received.
    Sync,
    /// A device flush was started for one.
    Flush,
    /// A SYNC shares a flush started for another.
    Rider,
    /// A SYNC found everything durable.
    Skipped,
    /// A request failed.
    Error,
}

/// Counters of one tag, session or store.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    plain: Counters,
    read_sizes: Sizes,
    write_sizes: Sizes,
}

impl Tally {
    /// Counts.
    pub fn add(&mut self, what: Count) {
        let c = &mut self.plain;
        let (count, bytes) = match what {
            Count::Read(len) => {
                self.read_sizes.add(len);
                c.read_bytes = c.read_bytes.saturating_add(len);
                (&mut c.reads, 0)
            }
            Count::Write(len) => {
                self.write_sizes.add(len);
                c.write_bytes = c.write_bytes.saturating_add(len);
                (&mut c.writes, 0)
            }
            Count::Zero(len) => (&mut c.zeroes, len),
            Count::Sync => (&mut c.syncs, 0),
            Count::Flush => (&mut c.flushes, 0),
            Count::Rider => (&mut c.riders, 0),
            Count::Skipped => (&mut c.skipped, 0),
            Count::Error => (&mut c.errors, 0),
        };
        *count = count.saturating_add(1);
        c.zero_bytes = c.zero_bytes.saturating_add(bytes);
    }

    /// The counters as reported.
    pub fn to_wire(&self) -> Counters {
        Counters {
            read_sizes: self.read_sizes.to_wire(),
            write_sizes: self.write_sizes.to_wire(),
            ..self.plain.clone()
        }
    }
}

/// Counters of a store.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    total: Tally,
    tags: BTreeMap<Tag, Tally>,
    flush_errors: u64,
}

impl Tallies {
    /// Counts under a tag and in total.
    pub fn add(&mut self, tag: Tag, what: Count) {
        self.total.add(what);
        let known = self.tags.len() < TAGS_MAX || self.tags.contains_key(&tag);
        self.tags.entry(if known { tag } else { OTHER }).or_default().add(what);
    }

    /// Counts a failed device flush.
    pub fn add_flush_error(&mut self) {
        self.flush_errors = self.flush_errors.saturating_add(1);
    }

    /// The statistics as reported, without sessions.
    pub fn to_wire(&self) -> Stats {
        let tags = self
            .tags
            .iter()
            .map(|(tag, tally)| TagStats { tag: tag.0, counters: tally.to_wire() })
            .collect();
        Stats {
            total: self.total.to_wire(),
            flush_errors: self.flush_errors,
            tags,
            sessions: alloc::vec::Vec::new(),
        }
    }
}
