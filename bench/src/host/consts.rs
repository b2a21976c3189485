//! What the host of the thread's measurements costs. One set for all devices, policies and
//! thresholds; where a number was fitted to the threads it says so.

use crate::target::Nanos;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;
/// One millisecond.
pub(crate) const MS: Nanos = 1_000_000;
/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// Pages of one look-up in the page cache (Linux: one folio batch).
pub(crate) const BATCH: u64 = 31;
/// Chance, of 2^32, that a walker is overtaken after a batch. Fitted: 0.496, a mean run of 250 KiB,
/// one value for all devices.
pub(crate) const HANDOFF: u64 = 2_130_303_779;
/// Memory that is contiguous, bytes: 18 KiB. Fitted on the request sizes of single writers.
pub(crate) use seawall_store::sim::SEGMENT;
/// Segments of one bio (Linux).
pub(crate) const BIO_SEGMENTS: u64 = 256;
/// What a timer of 100 ms lasts longer at HZ=1000: its wheel has steps of 8 ms. Fitted.
pub(crate) const LINGER_SLACK: Nanos = 4 * MS;
/// What a process spends on one file beside its waits. Fitted.
pub(crate) const PER_FILE: Nanos = 5 * MS;
/// Unmounting a volume with nothing dirty. Fitted.
pub(crate) const UMOUNT: Nanos = 250 * MS;
/// Dropping a GiB of page cache at unmount. Fitted.
pub(crate) const UMOUNT_GIB: Nanos = 120 * MS;
/// Age at which dirty data is written whatever the threshold (`dirty_expire_centisecs`).
pub(crate) const EXPIRE: Nanos = 30 * SECOND;
/// Smallest step of the flusher's chunk (Linux).
pub(crate) const MIN_CHUNK: u64 = 4 << 20;
/// What the kernel believes of a device before it has written to it, bytes per second.
pub(crate) const FIRST_BANDWIDTH: u64 = 100_000_000;
/// Over what time that estimate is smoothed.
pub(crate) const SMOOTH: Nanos = 3 * SECOND;
/// Memory that others on that host dirtied meanwhile. Fitted on the closes that left nothing.
pub(crate) const OTHERS_DIRTY: u64 = 5 << 19;
