//! Reports: tables for people, JSON for programs. Provenance first in both.

mod json;
mod table;

pub use json::json;
pub(crate) use json::label;
pub use table::tables;
pub(crate) use table::{new_table, syncs};
