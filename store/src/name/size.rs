//! Sizes as people write them: bytes or binary units.

use std::format;
use std::string::String;
use thiserror::Error;

/// A size that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{0}\" is not a size; write bytes or a number with K, M, G or T")]
pub struct SizeError(String);

/// Parses `4096`, `64K`, `64M`, `2G`, `1T` (powers of 1024; `KiB` and so on are fine too).
///
/// # Errors
/// [`SizeError`].
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let fail = || SizeError(text.into());
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => return Err(fail()),
    };
    let number: u64 = digits.parse().map_err(|_| fail())?;
    number.checked_mul(1 << shift).ok_or_else(fail)
}

/// Formats a size with a binary unit: `512 B`, `64 KiB`, `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        let one = 1u64 << shift;
        if bytes >= one {
            if bytes.is_multiple_of(one) {
                return format!("{} {unit}", bytes >> shift);
            }
            return format!("{:.1} {unit}", bytes as f64 / one as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "64X", "-1", "1.5G", "99999999999T", "0x10"] {
            assert_eq!(parse_size(wrong), Err(SizeError(wrong.into())));
        }
        assert_eq!(format_size(1536 << 20), "1.5 GiB");
        assert_eq!(format_size(64 << 10), "64 KiB");
        assert_eq!(format_size(100), "100 B");
    }
}
