//! The harness: what a durability policy costs and what it protects, measured.
//!
//! What a report guarantees: no speed stands without its durability label; a cost that a policy
//! moves (to unmount, say) is in the same row; a virtual row is a seed and a commit and repeats to
//! the byte; a real row says what it did not finish.
#![forbid(unsafe_code)]

pub mod cli;
mod host;
mod image;
mod job;
mod outcome;
mod place;
mod provenance;
mod real;
mod report;
mod seed;
pub mod sim;
mod source;
mod target;
pub mod threads;
mod workload;

pub use image::{Verdict, check_image, dump};
pub use job::{Job, Mode, Progress, Row, rows, syncfs_is_durable, volume};
pub use outcome::{Counted, Latencies, Op, Outcome, Percentiles, Phases};
pub use provenance::Provenance;
pub use report::{json, tables};
pub use seed::Seed;
pub use source::{Entry, FILES_WANTED, Node, Tree};
pub use target::{Nanos, Target};
pub use workload::{ROUNDS, Run, WORKLOADS, Workload};
