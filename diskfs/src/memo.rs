//! What a format remembers between operations and cannot find on disk again: a number for a node
//! that moved, the last state of one that lost its name.
//!
//! It is exact: a change is kept when its transaction commits and not otherwise, so that an
//! operation which meets an error half way has not changed what a number means. Facts that were
//! read from the volume itself ([`crate::Tx::learn`]) are kept at once, so that a long scan need
//! not begin again after each missing block.

use crate::hash::HashMap;

/// A remembered value: 32 bytes, as four words.
pub type Words = [u64; 4];

/// Space and key of a remembered value. Spaces are the format's own; it bounds what it keeps.
pub(crate) type Key = (u8, u64);

#[derive(Debug, Default)]
pub(crate) struct Memo {
    map: HashMap<Key, Words>,
}

impl Memo {
    pub(crate) fn get(&self, key: Key) -> Option<Words> {
        self.map.get(&key).copied()
    }

    pub(crate) fn set(&mut self, key: Key, value: Option<Words>) {
        match value {
            Some(v) => self.map.insert(key, v),
            None => self.map.remove(&key),
        };
    }

    /// Bytes held, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.map.capacity().saturating_mul(core::mem::size_of::<(Key, Words)>())
    }
}
