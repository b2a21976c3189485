//! The boot sector.
