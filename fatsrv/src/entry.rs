//! The 32 bytes of a directory slot.
