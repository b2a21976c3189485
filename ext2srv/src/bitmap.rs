//! Bit searches in a bitmap block, a word at a time. Bit n is bit n % 8 of byte n / 8.

use seawall_diskfs::FsError;
use seawall_diskfs::bytes::{array_at, slice_mut, u8_at};

/// True when bit `n` is set. A bit past the map counts as set.
pub(crate) fn is_set(map: &[u8], n: u64) -> bool {
    usize::try_from(n / 8).ok().and_then(|i| map.get(i)).is_none_or(|b| b & (1 << (n % 8)) != 0)
}

/// The first clear bit in `from..to`.
pub(crate) fn first_clear(map: &[u8], from: u64, to: u64) -> Option<u64> {
    let mut at = from;
    while at < to {
        let byte = usize::try_from(at / 8).ok()?;
        if at.is_multiple_of(64)
            && let Ok(word) = array_at::<8>(map, byte)
        {
            let ones = u64::from(u64::from_le_bytes(word).trailing_ones());
            if ones == 64 {
                at += 64;
                continue;
            }
            return Some(at + ones).filter(|n| *n < to);
        }
        if !is_set(map, at) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The first byte-aligned run of 8 clear bits in `from..to`.
pub(crate) fn first_clear_byte(map: &[u8], from: u64, to: u64) -> Option<u64> {
    let first = usize::try_from(from.div_ceil(8)).ok()?;
    let last = usize::try_from(to / 8).ok()?;
    let bytes = map.get(first..last)?;
    let at = bytes.iter().position(|b| *b == 0)?;
    Some((first + at) as u64 * 8)
}

/// How many bits from `from` on are clear, at most `limit`.
pub(crate) fn clear_run(map: &[u8], from: u64, limit: u64) -> u64 {
    let mut len = 0;
    while len < limit {
        let at = from + len;
        if at.is_multiple_of(8)
            && limit - len >= 8
            && usize::try_from(at / 8).ok().and_then(|i| map.get(i)) == Some(&0)
        {
            len += 8;
        } else if is_set(map, at) {
            break;
        } else {
            len += 1;
        }
    }
    len
}

/// Sets (or clears) `len` bits. Returns false, with the map half changed, when one already was.
pub(crate) fn assign(map: &mut [u8], from: u64, len: u64, set: bool) -> Result<bool, FsError> {
    for n in from..from + len {
        let byte = usize::try_from(n / 8).unwrap_or(usize::MAX);
        let mask = 1u8 << (n % 8);
        let old = u8_at(map, byte)?;
        if (old & mask != 0) == set {
            return Ok(false);
        }
        if let Some(b) = slice_mut(map, byte, 1)?.first_mut() {
            *b = old ^ mask;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn searches_agree_with_bit_by_bit() {
        let mut map = vec![0xFFu8; 64];
        let mut x = 12345u32;
        for round in 0..200 {
            for b in map.iter_mut() {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *b = if x >> 30 == 0 { (x >> 8) as u8 } else { 0xFF };
            }
            if round % 3 == 0 {
                map[(x % 64) as usize] = 0;
            }
            let from = u64::from(x % 512);
            let slow = (from..500).find(|n| !is_set(&map, *n));
            assert_eq!(first_clear(&map, from, 500), slow);
            if let Some(n) = slow {
                let run = (n..500).take_while(|n| !is_set(&map, *n)).count() as u64;
                assert_eq!(clear_run(&map, n, 500 - n), run);
            }
            let byte = (from.div_ceil(8)..62).find(|i| map[*i as usize] == 0).map(|i| i * 8);
            assert_eq!(first_clear_byte(&map, from, 500), byte);
        }
    }

    #[test]
    fn setting_twice_is_noticed() {
        let mut map = vec![0u8; 2];
        assert!(assign(&mut map, 3, 9, true).unwrap());
        assert_eq!(map, [0xF8, 0x0F]);
        assert!(!assign(&mut map, 11, 2, true).unwrap());
        assert!(assign(&mut map, 15, 2, true).is_err(), "outside the map");
    }
}
