//! The SPEC of `fault:SPEC:STORE`.

use core::str::FromStr;
use seawall_blockdev::{CacheClass, Run};
use std::string::{String, ToString};
use std::vec::Vec;

/// Which requests of one kind fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// First and last failing request, counted from 1.
    nth: Vec<(u64, u64)>,
    ranges: Vec<Run>,
}

impl Rules {
    pub(super) fn hits_nth(&self, nth: u64) -> bool {
        self.nth.iter().any(|(first, last)| (*first..=*last).contains(&nth))
    }

    pub(super) fn hits(&self, nth: u64, run: Run) -> bool {
        self.hits_nth(nth) || self.ranges.iter().any(|range| range.overlaps(&run))
    }

    fn is_empty(&self) -> bool {
        self.nth.is_empty() && self.ranges.is_empty()
    }

    fn add_nth(&mut self, value: &str) -> Option<()> {
        let rule = match (value, value.strip_suffix('+')) {
            ("all", _) => (1, u64::MAX),
            (_, Some(from)) => (from.parse().ok()?, u64::MAX),
            (n, None) => (n.parse().ok()?, n.parse().ok()?),
        };
        self.nth.push(rule);
        Some(())
    }

    fn add_range(&mut self, value: &str) -> Option<()> {
        let (start, len) = value.split_once('+')?;
        self.ranges.push(Run::new(
            crate::name::parse_size(start).ok()?,
            crate::name::parse_size(len).ok()?,
        ));
        Some(())
    }
}

/// Parsed rules. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultSpec {
    pub(super) class: Option<CacheClass>,
    pub(super) reads: Rules,
    pub(super) writes: Rules,
    pub(super) flushes: Rules,
    pub(super) die: Option<u64>,
    pub(super) gone: Option<u64>,
}

impl FaultSpec {
    /// True when no read or write can fail.
    pub(super) fn is_harmless(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.die.is_none() && self.gone.is_none()
    }

    fn add(&mut self, rule: &str) -> Option<()> {
        match rule {
            "unflushable" => self.class = Some(CacheClass::Unflushable),
            "unknown" => self.class = Some(CacheClass::Unknown),
            _ => {
                if let Some((kind, value)) = rule.split_once('@') {
                    return match kind {
                        "read" => self.reads.add_range(value),
                        "write" => self.writes.add_range(value),
                        _ => None,
                    };
                }
                let (kind, value) = rule.split_once('=')?;
                return match kind {
                    "read" => self.reads.add_nth(value),
                    "write" => self.writes.add_nth(value),
                    "flush" => self.flushes.add_nth(value),
                    "die" => value.parse().ok().map(|n| self.die = Some(n)),
                    "gone" => value.parse().ok().map(|n| self.gone = Some(n)),
                    _ => None,
                };
            }
        }
        Some(())
    }
}

impl FromStr for FaultSpec {
    type Err = String;

    /// Parses a SPEC; the error is the rule that is not understood.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        for rule in text.split(',') {
            spec.add(rule).ok_or_else(|| rule.to_string())?;
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_rule_and_names_the_wrong_one() {
        let spec: FaultSpec = "unflushable,flush=2,read=3+,write@4K+512,die=9".parse().unwrap();
        assert_eq!(spec.class, Some(CacheClass::Unflushable));
        assert!(spec.flushes.hits_nth(2) && !spec.flushes.hits_nth(3));
        assert!(spec.reads.hits_nth(8) && !spec.reads.hits_nth(2));
        assert!(
            spec.writes.hits(1, Run::new(4096, 4096)) && !spec.writes.hits(1, Run::new(0, 4096))
        );
        assert_eq!(spec.die, Some(9));
        for wrong in ["", "flush", "flush=x", "write@5", "flush@1+2", "hang=1"] {
            assert_eq!(wrong.parse::<FaultSpec>(), Err(wrong.to_string()));
        }
    }
}
