//! UTF-8 with a place for surrogates that have no other half.

use alloc::vec::Vec;

/// The bytes of a name. All of it is UTF-8 but units without their other half, which become the
/// three bytes that the same rule gives.
pub fn encode(units: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(units.len());
    for c in char::decode_utf16(units.iter().copied()) {
        match c {
            Ok(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let u = lone.unpaired_surrogate();
                let low = |shift: u16| 0x80 | (u >> shift & 0x3f) as u8;
                bytes.extend_from_slice(&[0xe0 | (u >> 12) as u8, low(6), low(0)]);
            }
        }
    }
    bytes
}

/// The units of bytes that [`encode`] made; `None` for all others.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let good = match core::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(e) => e.valid_up_to(),
        };
        let (text, rest) = bytes.split_at_checked(good)?;
        units.extend(core::str::from_utf8(text).ok()?.encode_utf16());
        bytes = match rest {
            [] => rest,
            [0xed, b @ 0xa0..=0xbf, c @ 0x80..=0xbf, rest @ ..] => {
                let unit = 0xd000 | u16::from(b & 0x3f) << 6 | u16::from(c & 0x3f);
                // Two halves side by side would have been written as one character.
                if unit & 0xfc00 == 0xdc00 && units.last().is_some_and(|u| u & 0xfc00 == 0xd800) {
                    return None;
                }
                units.push(unit);
                rest
            }
            _ => return None,
        };
    }
    Some(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_halves_come_back() {
        for units in [
            &[0xd800u16][..],
            &[0xdfff, 0xd800],
            &[0x61, 0xd83d, 0x62],
            &[0xd83d, 0xde00, 0xde00],
            &[0xd83d, 0xd83d, 0xde00],
            &[],
        ] {
            assert_eq!(decode(&encode(units)).as_deref(), Some(units));
        }
        assert_eq!(encode(&[0xd83d, 0xde00]), "\u{1f600}".as_bytes());
        assert_eq!(encode(&[0xd83d]), [0xed, 0xa0, 0xbd]);
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [
            &b"\xff"[..],
            b"a\x80",
            b"\xc0\x80",
            b"\xed\xa0",
            b"\xed",
            b"\xed\xa0\xbd\xed\xb8\x80",
            b"\xf4\x90\x80\x80",
        ] {
            assert_eq!(decode(bytes), None, "{bytes:02x?}");
        }
    }
}
