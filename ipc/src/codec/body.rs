//! Control bodies: serde values as bincode 1.x bytes (little-endian, fixed-width integers).
//!
//! The only module that names bincode. Its format is kept, not its API: the bytes are those of
//! bincode 1.x, which other crates write and read as well, so the wire outlives the crate.
//! A length inside a body cannot make the decoder allocate more than [`BODY_MAX`], and bytes that
//! are left over are an error.

use alloc::vec::Vec;
use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Largest body either protocol accepts, bytes.
pub const BODY_MAX: usize = 256 * 1024;

type Legacy = Configuration<LittleEndian, Fixint, Limit<BODY_MAX>>;

fn config() -> Legacy {
    bincode::config::legacy().with_limit::<BODY_MAX>()
}

/// Why a body could not be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// Longer than [`BODY_MAX`].
    #[error("control body is longer than {BODY_MAX} bytes")]
    TooLong,
    /// The bytes are not a value of the expected type.
    #[error("control body does not decode")]
    Malformed,
    /// The value ended before the bytes did.
    #[error("control body has {0} bytes too many")]
    Trailing(usize),
    /// The value cannot be written.
    #[error("control body does not encode")]
    Unencodable,
}

/// Encodes a control body.
///
/// # Errors
/// [`BodyError::TooLong`] or [`BodyError::Unencodable`].
pub fn encode_body<T: Serialize>(value: &T) -> Result<Vec<u8>, BodyError> {
    let bytes =
        bincode::serde::encode_to_vec(value, config()).map_err(|_| BodyError::Unencodable)?;
    if bytes.len() > BODY_MAX {
        return Err(BodyError::TooLong);
    }
    Ok(bytes)
}

/// Decodes a control body; every byte must be used.
///
/// # Errors
/// [`BodyError::TooLong`], [`BodyError::Malformed`] or [`BodyError::Trailing`].
pub fn decode_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    if bytes.len() > BODY_MAX {
        return Err(BodyError::TooLong);
    }
    let (value, used) =
        bincode::serde::decode_from_slice(bytes, config()).map_err(|_| BodyError::Malformed)?;
    match bytes.len().saturating_sub(used) {
        0 => Ok(value),
        extra => Err(BodyError::Trailing(extra)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;

    #[test]
    fn forged_length_trailing_bytes_and_oversize_are_errors() {
        let bytes = encode_body(&(7u32, String::from("abc"))).unwrap();
        assert_eq!(bytes, [7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(decode_body::<(u32, String)>(&bytes).unwrap(), (7, "abc".into()));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode_body::<(u32, String)>(&longer), Err(BodyError::Trailing(1)));
        let forged = [0xff; 12];
        assert_eq!(decode_body::<(u32, Vec<u8>)>(&forged), Err(BodyError::Malformed));
        assert_eq!(encode_body(&vec![0u8; BODY_MAX]), Err(BodyError::TooLong));
        assert_eq!(decode_body::<u8>(&vec![0u8; BODY_MAX + 1]), Err(BodyError::TooLong));
    }
}
