//! A name as a caller gives it.
