//! The fixed records: requests of 64 bytes and replies of 32 bytes, little-endian.
//!
//! Both protocols use them unchanged, and the same records later sit in a shared-memory ring, so
//! their layout is asserted at compile time. The magic is the dialect's: a filesystem client that
//! connects to a store's socket is refused at its first record.

use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a request record.
pub const REQUEST_LEN: usize = 64;
/// Bytes of a reply record.
pub const REPLY_LEN: usize = 32;
/// A reply carries its request's operation with this bit set.
pub const REPLY_BIT: u16 = 0x8000;

/// Flag bits of a record. Bits 12 to 15 count the descriptors that travel with it.
pub mod flags {
    /// Reply only when this write is durable.
    pub const FUA: u16 = 1 << 0;
    /// Nothing acknowledged before this request may persist after it.
    pub const PRE_BARRIER: u16 = 1 << 1;
    /// A SYNC that also covers every earlier request of its session.
    pub const DRAIN: u16 = 1 << 2;
    /// WRITE_ZEROES must keep the range allocated.
    pub const NO_HOLE: u16 = 1 << 3;
    /// Fail with EOPNOTSUPP instead of emulating slowly.
    pub const FAST: u16 = 1 << 4;
    /// A CLEAR_FAULT that knows that data is lost.
    pub const ACCEPT_LOSS: u16 = 1 << 5;
    /// Position of the descriptor count.
    pub const FD_SHIFT: u32 = 12;
    /// Mask of the descriptor count.
    pub const FD_MASK: u16 = 0xf << FD_SHIFT;
}

/// A request, in host integers. Field meanings are the operation's; `magic` is the dialect's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Operation: 1 to 63 store, 64 to 255 filesystem.
    pub op: u16,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Chosen by the client, returned in the reply. 0 is reserved for events.
    pub cookie: u64,
    /// Byte offset.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Bytes that follow the record: a body or a payload, as the operation says.
    pub inline_len: u32,
    /// Shared-memory region, 0 for inline.
    pub region: u32,
    /// Offset in the region.
    pub region_off: u64,
    /// Policy site; opaque to the store.
    pub tag: u32,
    /// Operation specific.
    pub aux: u32,
    /// Trace id, 0 for none.
    pub trace: u64,
}

/// A reply, in host integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The request's operation, without [`REPLY_BIT`].
    pub op: u16,
    /// Bits of [`flags`].
    pub flags: u16,
    /// The request's cookie; 0 for an event.
    pub cookie: u64,
    /// 0 or a Linux error number ([`crate::Status`]).
    pub status: u32,
    /// Bytes that follow the record.
    pub inline_len: u32,
    /// Operation specific: ack_seq for writes, durable_seq for SYNC, bytes for reads.
    pub value: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestRecord {
    magic: U32,
    op: U16,
    flags: U16,
    cookie: U64,
    offset: U64,
    length: U64,
    inline_len: U32,
    region: U32,
    region_off: U64,
    tag: U32,
    aux: U32,
    trace: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyRecord {
    magic: U32,
    op: U16,
    flags: U16,
    cookie: U64,
    status: U32,
    inline_len: U32,
    value: U64,
}

const _: () = assert!(size_of::<RequestRecord>() == REQUEST_LEN);
const _: () = assert!(size_of::<ReplyRecord>() == REPLY_LEN);

impl Request {
    /// Appends the 64 bytes.
    pub fn put(&self, magic: u32, out: &mut Vec<u8>) {
        let record = RequestRecord {
            magic: magic.into(),
            op: self.op.into(),
            flags: self.flags.into(),
            cookie: self.cookie.into(),
            offset: self.offset.into(),
            length: self.length.into(),
            inline_len: self.inline_len.into(),
            region: self.region.into(),
            region_off: self.region_off.into(),
            tag: self.tag.into(),
            aux: self.aux.into(),
            trace: self.trace.into(),
        };
        out.extend_from_slice(record.as_bytes());
    }

    /// Reads magic and request from exactly 64 bytes, else `None`.
    pub fn get(bytes: &[u8]) -> Option<(u32, Self)> {
        let r = RequestRecord::read_from_bytes(bytes).ok()?;
        let request = Self {
            op: r.op.get(),
            flags: r.flags.get(),
            cookie: r.cookie.get(),
            offset: r.offset.get(),
            length: r.length.get(),
            inline_len: r.inline_len.get(),
            region: r.region.get(),
            region_off: r.region_off.get(),
            tag: r.tag.get(),
            aux: r.aux.get(),
            trace: r.trace.get(),
        };
        Some((r.magic.get(), request))
    }
}

impl Reply {
    /// Appends the 32 bytes; the operation gets [`REPLY_BIT`].
    pub fn put(&self, magic: u32, out: &mut Vec<u8>) {
        let record = ReplyRecord {
            magic: magic.into(),
            op: (self.op | REPLY_BIT).into(),
            flags: self.flags.into(),
            cookie: self.cookie.into(),
            status: self.status.into(),
            inline_len: self.inline_len.into(),
            value: self.value.into(),
        };
        out.extend_from_slice(record.as_bytes());
    }

    /// Reads magic and reply from exactly 32 bytes, else `None`. The operation keeps its
    /// [`REPLY_BIT`] so that the caller can check it.
    pub fn get(bytes: &[u8]) -> Option<(u32, Self)> {
        let r = ReplyRecord::read_from_bytes(bytes).ok()?;
        let reply = Self {
            op: r.op.get(),
            flags: r.flags.get(),
            cookie: r.cookie.get(),
            status: r.status.get(),
            inline_len: r.inline_len.get(),
            value: r.value.get(),
        };
        Some((r.magic.get(), reply))
    }
}
