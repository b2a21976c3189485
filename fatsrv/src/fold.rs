//! What makes two names the same.
