//! Dates and times of a directory entry.
