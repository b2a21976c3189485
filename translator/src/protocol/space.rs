//! Body of the feature [`super::feature::ALLOCATE`].

use serde::{Deserialize, Serialize};

/// What becomes of the record's range (offset, length) of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Allocate {
    /// Holes get blocks, which read as zeroes; the file grows to the range's end.
    Reserve,
    /// The same, and the size stays: EOPNOTSUPP where the format has no blocks past it.
    ReserveKeepSize,
    /// What the range holds is gone and reads as zeroes; the size stays.
    Punch,
    /// Punch, then Reserve: the range has blocks and reads as zeroes.
    Zero,
}
