//! The device trait and its vocabulary.

use crate::{Caps, DevError};

/// A byte range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Run {
    /// A run.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, len }
    }

    /// One past the last byte, or `None` on overflow.
    pub fn end(&self) -> Option<u64> {
        self.start.checked_add(self.len)
    }

    /// True when the two ranges share a byte.
    pub fn overlaps(&self, other: &Run) -> bool {
        self.start < other.start.saturating_add(other.len)
            && other.start < self.start.saturating_add(self.len)
    }
}

/// A position in the order of acknowledged writes, scoped to one life of one store. 0 is "before
/// the first write".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// Where a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SeqState {
    /// Sequence of the newest acknowledged write.
    pub acked: Seq,
    /// Everything up to and including this is on stable media.
    pub durable: Seq,
}

/// An opaque number that travels with a request and keys the statistics of whoever executes it.
/// Filesystems put the policy site here; the device never interprets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag(pub u32);

/// Modifiers of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteFlags {
    /// Acknowledge only when this write is durable. Needs [`Caps::fua`], else `Unsupported`.
    pub fua: bool,
    /// Nothing acknowledged before this request may persist after it. Needs [`Caps::order`].
    pub pre_barrier: bool,
}

/// One piece of a scatter read.
#[derive(Debug)]
pub struct ReadRun<'a> {
    /// Device offset, bytes.
    pub start: u64,
    /// Filled completely on success.
    pub buf: &'a mut [u8],
}

/// One piece of a gather write. Pieces that are adjacent on the device go out as one request.
#[derive(Clone, Copy, Debug)]
pub struct WriteRun<'a> {
    /// Device offset, bytes.
    pub start: u64,
    /// The bytes.
    pub buf: &'a [u8],
    /// Policy site or 0.
    pub tag: Tag,
}

/// A block device. No method has a default body: whoever implements it decides what each means.
///
/// Methods take `&mut self`; a device that several threads share implements the trait for a shared
/// reference to itself, as `std::io::Read` is implemented for `&File`.
///
/// # Errors
/// Every method returns [`DevError`]. On an error of `read` the buffers hold nothing of value; on
/// an error of `write` each logical block of the batch is old or new and none is acknowledged.
pub trait BlockDev {
    /// Capabilities. Constant for the life of the device.
    fn caps(&self) -> Caps;

    /// Sequences as last seen by this side. `durable` may lag behind the truth, never lead.
    fn seqs(&self) -> SeqState;

    /// Reads all runs, in any order.
    fn read(&mut self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError>;

    /// Writes all runs, in any order, and returns the sequence of the last one acknowledged. The
    /// whole batch is acknowledged when this returns.
    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError>;

    /// Makes everything acknowledged before the call durable and returns the highest durable
    /// sequence.
    fn sync(&mut self, tag: Tag) -> Result<Seq, DevError>;

    /// Gives the range's storage back. Its content is undefined afterwards. Write-class: it has a
    /// sequence and is durable only after a `sync`.
    fn discard(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError>;

    /// Fills the range with zeroes. Write-class.
    fn write_zeroes(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError>;
}
