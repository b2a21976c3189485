//! Bodies of the feature [`super::feature::XATTR`].

use alloc::vec::Vec;
use seawall_diskfs::XattrHow;
use serde::{Deserialize, Serialize};

/// Something about a node's extended attributes. Names are whole (`user.x`); access lists have the
/// form of the kernel's attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Xattr {
    /// A value: ENODATA when it is not there.
    Get {
        /// Its name.
        name: Vec<u8>,
    },
    /// Sets a value of at most 64 KiB.
    Set {
        /// Its name.
        name: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// What is expected: EEXIST or ENODATA else.
        how: XattrHow,
    },
    /// The names that the caller may know of.
    List,
    /// Takes one away: ENODATA when it is not there.
    Remove {
        /// Its name.
        name: Vec<u8>,
    },
}

/// Answer to [`Xattr`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrReply {
    /// To Set and Remove.
    Done,
    /// To Get.
    Value(Vec<u8>),
    /// To List.
    Names(Vec<Vec<u8>>),
}
