//! The two checksums of ext4's metadata: CRC-16 (polynomial 0x8005, reflected) of group descriptors
//! under `uninit_bg`, and CRC-32C (0x1EDC6F41, reflected) under `metadata_csum`. Neither is
//! inverted at the end: the values are those of the kernel's `crc16()` and `crc32c()`.

/// Table of a reflected CRC, one entry a byte.
const fn table(polynomial: u32) -> [u32; 256] {
    let mut out = [0u32; 256];
    let mut rest: &mut [u32] = &mut out;
    let mut n = 0u32;
    while let [first, tail @ ..] = rest {
        let mut v = n;
        let mut bit = 0;
        while bit < 8 {
            v = if v & 1 != 0 { v >> 1 ^ polynomial } else { v >> 1 };
            bit += 1;
        }
        *first = v;
        rest = tail;
        n += 1;
    }
    out
}

const CRC16: [u32; 256] = table(0xA001);
const CRC32C: [u32; 256] = table(0x82F6_3B78);

fn run(table: &[u32; 256], crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, b| {
        let at = usize::from(crc as u8 ^ b);
        crc >> 8 ^ table.get(at).copied().unwrap_or(0)
    })
}

/// CRC-16 of `bytes`, going on from `crc`.
pub(crate) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    run(&CRC16, u32::from(crc), bytes) as u16
}

/// CRC-32C of `bytes`, going on from `crc`.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    run(&CRC32C, crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the catalogue of CRCs: CRC-16/ARC and CRC-32C of the nine digits.
    #[test]
    fn check_values() {
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
    }
}
