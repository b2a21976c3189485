//! The checksum of GPT: CRC-32 (polynomial 0x04C11DB7 reflected, as in Ethernet and zlib).

const fn table() -> [u32; 256] {
    let mut out = [0u32; 256];
    let mut rest: &mut [u32] = &mut out;
    let mut n = 0u32;
    while let [first, tail @ ..] = rest {
        let mut v = n;
        let mut bit = 0;
        while bit < 8 {
            v = if v & 1 != 0 { v >> 1 ^ 0xEDB8_8320 } else { v >> 1 };
            bit += 1;
        }
        *first = v;
        rest = tail;
        n += 1;
    }
    out
}

const TABLE: [u32; 256] = table();

/// CRC-32 of the pieces, one after the other.
pub(super) fn crc32(pieces: &[&[u8]]) -> u32 {
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    !bytes.fold(!0u32, |crc, b| {
        let at = usize::from(crc as u8 ^ b);
        crc >> 8 ^ TABLE.get(at).copied().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value() {
        assert_eq!(crc32(&[b"123456789"]), 0xCBF4_3926);
        assert_eq!(crc32(&[b"1234", b"", b"56789"]), 0xCBF4_3926);
        assert_eq!(crc32(&[]), 0);
    }
}
