//! 8.3 names and aliases.
