//! Reports: tables for people, JSON for programs. Provenance first in both.

mod json;
mod table;

pub(crate) use json::label;
pub use json::json;
pub use table::tables;
