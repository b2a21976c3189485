//! The simulator's host: an engine, its flusher and a device queue in virtual time, on one thread.
//!
//! The calling process is straight-line code over [`World`]; the flusher and the device run as
//! events between its calls. The engine is the one that the servers run, so what is claimed, owned,
//! skipped or waited for is its policy's doing; the host draws only how long a run of pages one
//! walker gets before another overtakes it. A run is a seed and a commit.

pub(crate) mod consts;
mod flusher;
mod queue;
mod store;
mod walk;
mod walker;
mod world;

pub(crate) use queue::{EDGES, Sent};
pub(crate) use store::MetaStore;
pub(crate) use world::{Setup, World};
