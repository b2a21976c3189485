//! The size histograms of the statistics, read.
//!
//! A histogram is a list of `(n, number)`. With n below 64, `number` requests had 2^n to 2^(n+1)-1
//! bytes. Large requests are counted once more under [`LARGE_COUNT`] and [`LARGE_BYTES`], numbers
//! that no size has, so that the list says how much of the data moved in requests of 768 KiB and
//! more and a reader who does not know these two still reads the rest. What is not in the list is
//! 0. Readers skip every n of 64 and more that they do not know.

use alloc::vec::Vec;

/// Bytes from which on a request is large: three quarters of 1 MiB.
pub const LARGE: u64 = 768 * 1024;
/// The n under which large requests are counted.
pub const LARGE_COUNT: u8 = 128;
/// The n under which their bytes are.
pub const LARGE_BYTES: u8 = 129;

/// Power of two of the size class that [`LARGE`] divides: 512 KiB.
const DIVIDED: u8 = 19;

/// Large requests and their bytes.
pub fn large(sizes: &[(u8, u64)]) -> (u64, u64) {
    let of = |n| sizes.iter().find(|(m, _)| *m == n).map_or(0, |(_, number)| *number);
    (of(LARGE_COUNT), of(LARGE_BYTES))
}

/// Smallest size of each class that was seen, bytes, and its count, ascending. The classes begin
/// at powers of two and at 768 KiB.
pub fn edges(sizes: &[(u8, u64)]) -> Vec<(u64, u64)> {
    let mut out = Vec::with_capacity(sizes.len());
    let above: u64 = sizes.iter().filter(|(n, _)| (20..64).contains(n)).map(|(_, c)| *c).sum();
    let divided = large(sizes).0.saturating_sub(above);
    for (n, count) in sizes.iter().filter(|(n, _)| *n < 64) {
        let upper = if *n == DIVIDED { divided.min(*count) } else { 0 };
        out.push((1u64 << n, count.saturating_sub(upper)));
        out.push((LARGE, upper));
    }
    out.retain(|(_, count)| *count > 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_512_kib_is_divided() {
        let sizes = [(12, 5), (19, 4), (20, 2), (LARGE_COUNT, 3), (LARGE_BYTES, 3 << 20)];
        assert_eq!(large(&sizes), (3, 3 << 20));
        assert_eq!(edges(&sizes), [(4096, 5), (512 << 10, 3), (LARGE, 1), (1 << 20, 2)]);
        // A list of an older server.
        assert_eq!(large(&sizes[..3]), (0, 0));
        assert_eq!(edges(&sizes[..3]), [(4096, 5), (512 << 10, 4), (1 << 20, 2)]);
        assert_eq!(edges(&[(19, 1), (LARGE_COUNT, 1), (200, 9)]), [(LARGE, 1)]);
    }
}
