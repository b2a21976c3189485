//! What executes requests: the object-safe seam below the server and the local store.
//!
//! A backend knows offsets, bytes and flushes; sequences, sharing of flushes and the sticky fault
//! are kept above it. `submit` takes a whole batch, so a boxed future costs once per batch and
//! adjacent writes can go out as one vectored call.
//!
//! A backend that is closed over (`fault:`, `sim:`, `part:`) forwards the flush; one that cannot
//! flush says so in its capabilities and answers `Unsupported`.

use alloc::boxed::Box;
use async_trait::async_trait;
use seawall_blockdev::{Caps, DevError, Run};

/// One request to a backend.
#[derive(Debug)]
pub enum BackendOp<'b> {
    /// Fills the buffer from `start`.
    Read {
        /// Device offset, bytes.
        start: u64,
        /// Where to.
        buf: &'b mut [u8],
    },
    /// Writes the bytes at `start`.
    Write {
        /// Device offset, bytes.
        start: u64,
        /// The bytes.
        buf: &'b [u8],
        /// Durable before the request ends.
        fua: bool,
    },
    /// Fills the run with zeroes.
    Zero {
        /// Where.
        run: Run,
        /// Keeps the run allocated.
        keep: bool,
    },
    /// Gives the run's storage back; what it reads as afterwards is undefined.
    Discard {
        /// Where.
        run: Run,
    },
}

impl BackendOp<'_> {
    /// The bytes it touches.
    pub fn run(&self) -> Run {
        match self {
            Self::Read { start, buf } => Run::new(*start, buf.len() as u64),
            Self::Write { start, buf, .. } => Run::new(*start, buf.len() as u64),
            Self::Zero { run, .. } | Self::Discard { run } => *run,
        }
    }

    /// True for what changes the device.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Read { .. })
    }
}

/// A request and its result, which `submit` fills in.
#[derive(Debug)]
pub struct Submission<'b> {
    /// The request.
    pub op: BackendOp<'b>,
    /// `Err(Gone)` until it was executed.
    pub result: Result<(), DevError>,
}

impl<'b> Submission<'b> {
    /// A request that was not executed yet.
    pub fn new(op: BackendOp<'b>) -> Self {
        Self { op, result: Err(DevError::Gone) }
    }
}

/// Told the place in the batch of each request that ended, and the request.
pub type Done<'d> = dyn FnMut(usize, &Submission<'_>) + Send + 'd;

/// Executes requests.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Capabilities. Constant.
    fn caps(&self) -> Caps;

    /// Executes the batch as if in order and fills in each result. Runs are inside the device and
    /// whole blocks; the caller has checked. Data of a write whose result is `Ok` is in the
    /// backend's hands: a later flush covers it.
    async fn submit(&self, batch: &mut [Submission<'_>]);

    /// The same, and tells of each request when it ends. A batch on a device that takes real time
    /// for each is then answered request by request.
    async fn submit_each(&self, batch: &mut [Submission<'_>], done: &mut Done<'_>) {
        self.submit(batch).await;
        batch.iter().enumerate().for_each(|(i, s)| done(i, s));
    }

    /// True when the requests of a batch end at times of their own, so that `submit_each` is worth
    /// a reply each.
    fn is_paced(&self) -> bool {
        false
    }

    /// Makes everything that `submit` took before this call durable.
    ///
    /// # Errors
    /// [`DevError::Unsupported`] when it cannot; any other error may have lost writes.
    async fn flush(&self) -> Result<(), DevError>;

    /// True when `flush` takes no longer than a memory access, so that nothing is gained by moving
    /// it to another thread.
    fn flush_is_instant(&self) -> bool;

    /// What a partition table in it counts in, bytes, where that is known: an image has sectors of
    /// 512, whatever blocks it is read in. `None` leaves it to the logical block, and an MBR on
    /// blocks of more than 512 is not read then.
    fn table_unit(&self) -> Option<u32> {
        None
    }
}

#[cfg(feature = "std")]
mod fault;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod mem;
#[cfg(feature = "std")]
mod part;
#[cfg(feature = "std")]
mod readonly;
#[cfg(feature = "std")]
mod remote;
#[cfg(feature = "std")]
mod sim;
#[cfg(feature = "std")]
mod writev;

#[cfg(feature = "std")]
pub use fault::{DIE_STATUS, FAULT_HELP, FaultBackend, FaultSpec};
#[cfg(feature = "std")]
pub use file::{FileBackend, FileOptions};
#[cfg(feature = "std")]
pub use mem::MemBackend;
#[cfg(feature = "std")]
pub use part::PartBackend;
#[cfg(feature = "std")]
pub(crate) use readonly::ReadOnly;
#[cfg(feature = "std")]
pub use remote::RemoteBackend;
#[cfg(feature = "std")]
pub use sim::{Clock, SimBackend};
