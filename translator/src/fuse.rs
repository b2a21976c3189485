//! The FUSE mount: the kernel as a client of the engine in this process.
//!
//! * Only this module names `fuser`, whose interface changes with every release. Faults of 0.18.0
//!   that it goes around: its unmount at drop takes a mount that has ended for one that has not,
//!   and would unmount whatever came to stand there, so mounting and unmounting are done here; the
//!   unmount of a busy mount fails; times before 1970 arrive with their fraction on the wrong side;
//!   some capabilities are accepted that it cannot honour (none of them is asked for).
//! * Several threads read requests, each from a descriptor of its own, and run engine and driver
//!   inline.
//! * The kernel checks permissions and clears set-id bits (`default_permissions`). This server is
//!   the only one that changes the volume, so entries, absent names, attributes, pages and
//!   directory listings are cached without limit of time; what clients of the socket change is
//!   invalidated before they have their answer.
//! * Access lists are the kernel's to check, too (`FUSE_POSIX_ACL`); inode flags are the engine's.
//!   The kernel reads pages that it has without asking, so an open for reading counts as an access.
//! * An inode that the kernel knows is not freed before the kernel forgot it.
//! * A plain FUSE server never hears of sync(1), syncfs(2) or the end of umount(2). fsync of the
//!   mount's root directory and `ctl DIR sync` stand in for the first two: both first have the
//!   kernel hand over its dirty pages. `ctl DIR shutdown` returns when the image is durable.
//! * statfs has no field in which a FUSE server could say "not durable": `ctl DIR stats` does.
//!
//! Ends: umount(2), a signal or `ctl DIR shutdown` write everything back. A busy mount is detached;
//! programs that still hold files go on for [`GRACE`], then get errors. A server that is killed
//! leaves a dead mount, on which the next one says what to do.

mod attrs;
mod close;
mod convert;
mod dirs;
mod find;
mod front;
mod ops;
mod options;
mod spelling;
mod system;

pub(crate) use find::Link;
pub use find::{find_socket, socket_path};
pub use options::Options;

use crate::server::Engine;
use convert::Numbers;
use front::{Ended, Mounted};
use ops::Fuse;
use seawall_diskfs::Format;
use seawall_diskfs::driver::Host;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use std::{format, io};
use thiserror::Error;

/// How long programs that keep a stopped mount busy may go on.
pub const GRACE: Duration = Duration::from_secs(2);
/// Entries and attributes stay valid until they are invalidated. The kernel counts in jiffies and
/// takes a year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Largest read or write that the kernel may send. Its own limit is 256 pages by default.
const IO_BYTES: u32 = 1 << 20;
/// Threads at least: two of them may wait for the device while others serve the rest.
const THREADS_MIN: usize = 4;

/// What is mounted where.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The mount point.
    pub dir: PathBuf,
    /// What `df` and `mount` show as the source.
    pub source: String,
    /// What they show behind `fuse.` as the type.
    pub kind: String,
    /// No writes.
    pub read_only: bool,
    /// Options.
    pub options: Options,
}

/// Why a mount did not come about.
#[derive(Debug, Error)]
pub enum MountError {
    /// The mount point is not one.
    #[error("{}: {what}", dir.display())]
    Dir {
        /// The mount point.
        dir: PathBuf,
        /// What is wrong with it and what to do.
        what: String,
    },
    /// A system call.
    #[error("mount on {}: {what}: {cause}", dir.display())]
    System {
        /// The mount point.
        dir: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
}

fn system(dir: &Path, what: &'static str) -> impl Fn(io::Error) -> MountError {
    let dir = dir.to_path_buf();
    move |cause| MountError::System { dir: dir.clone(), what, cause }
}

/// Mounts the engine's filesystem. Returns the device number of the mount, which answers by then.
/// `ended` is called once the kernel has let go of it. [`Engine::unmount`] ends the mount.
///
/// # Errors
/// [`MountError`]; nothing is mounted then.
pub fn mount<F: Format>(
    engine: &Arc<Engine<F>>,
    spec: &Spec,
    ended: impl FnOnce() + Send + 'static,
) -> Result<u64, MountError> {
    let dir = system::check(&spec.dir)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).max(THREADS_MIN);
    let numbers = Numbers::of(engine);
    let fuse = Fuse {
        engine: Arc::clone(engine),
        options: spec.options,
        numbers,
        handles: Arc::default(),
        freeing: Arc::new(RwLock::new(())),
        refused: Arc::default(),
        has_xattrs: engine.host().with(|fs| fs.has_xattrs()),
        has_acls: engine.host().with(|fs| fs.has_acls()),
        folds: engine.host().with(|fs| fs.folds_names()),
    };
    let refused = Arc::clone(&fuse.refused);
    let (handles, dev) = (Arc::clone(&fuse.handles), Arc::new(AtomicU64::new(0)));
    let device = system::mount(&dir, spec)?;
    let acl = if spec.options.others() { fuser::SessionACL::All } else { fuser::SessionACL::Owner };
    let mut config = fuser::Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = true;
    let session = fuser::Session::from_fd(fuse, device, acl, config).map_err(|e| {
        system::detach(&dir);
        system(&dir, "the kernel's first request")(e)
    })?;
    let notifier = session.notifier();
    let end = Arc::new(Ended::default());
    let thread = {
        let (end, dir) = (Arc::clone(&end), dir.clone());
        std::thread::Builder::new().name("mount".to_string()).spawn(move || {
            if let Err(error) = session.run() {
                tracing::error!(%error, dir = %dir.display(), "the mount failed");
                system::detach(&dir);
            }
            end.set();
            ended();
        })
    };
    let thread = thread.map_err(|e| {
        system::detach(&dir);
        system(&dir, "start a thread")(e)
    })?;
    let front = Mounted {
        engine: Arc::downgrade(engine),
        numbers,
        notifier,
        handles,
        refused,
        deferred: spec.options.kernel_writeback,
        dir: dir.clone(),
        dev: Arc::clone(&dev),
        end,
        thread: Some(thread).into(),
    };
    engine.set_front(Arc::new(front));
    let number = system::device_number(&dir).map_err(|e| {
        engine.stop_front();
        system(&dir, "stat")(e)
    })?;
    dev.store(number, std::sync::atomic::Ordering::Release);
    system::read_ahead(number, IO_BYTES / 1024);
    Ok(number)
}

/// What a person should know of a mount that the kernel does not say.
pub fn notice(program: &str, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "the kernel does not tell this mount of sync(1), syncfs(2) or the end of umount(2): \
         `{program} ctl {dir} sync` or fsync of {dir} make it durable, `{program} ctl {dir} \
         shutdown` returns when it is"
    )
}
