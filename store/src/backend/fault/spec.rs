//! The SPEC of `fault:SPEC:STORE`.

use core::str::FromStr;
use seawall_blockdev::{CacheClass, DevError, Run};
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;

/// What is accepted, for help and error messages.
pub const FAULT_HELP: &str = "KIND SELECT[/ACTION], with commas between rules. KIND: read, write, \
     flush. SELECT: =N, =N+, =N-M, =all, @START+LEN, %PERCENT~SEED. ACTION: eio (default), enospc, \
     short (half is done, then EIO), a delay as 5ms or 200us. And: unflushable, unknown, die=N, \
     gone=N";

/// Which requests of a kind a rule is about. Requests are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Select {
    Nth {
        first: u64,
        last: u64,
    },
    Range(Run),
    /// Each with the probability `below` / 2^64, decided by its number and the seed.
    Chance {
        below: u64,
        seed: u64,
    },
}

impl Select {
    fn hits(self, nth: u64, run: Option<Run>) -> bool {
        match self {
            Self::Nth { first, last } => (first..=last).contains(&nth),
            Self::Range(range) => run.is_some_and(|run| range.overlaps(&run)),
            Self::Chance { below, seed } => mix(seed ^ mix(nth)) < below,
        }
    }

    fn nth(value: &str) -> Option<Self> {
        let (first, last) = if value == "all" {
            (1, u64::MAX)
        } else if let Some(from) = value.strip_suffix('+') {
            (from.parse().ok()?, u64::MAX)
        } else if let Some((from, to)) = value.split_once('-') {
            (from.parse().ok()?, to.parse().ok()?)
        } else {
            (value.parse().ok()?, value.parse().ok()?)
        };
        Some(Self::Nth { first, last })
    }

    fn range(value: &str) -> Option<Self> {
        let (start, len) = value.split_once('+')?;
        let size = |text| crate::name::parse_size(text).ok();
        Some(Self::Range(Run::new(size(start)?, size(len)?)))
    }

    fn chance(value: &str) -> Option<Self> {
        let (percent, seed) = value.split_once('~')?;
        let percent: f64 = percent.parse().ok().filter(|p| (0.0..=100.0).contains(p))?;
        // A float cast saturates, so 100 % is every number but one of 2^64.
        let below = (percent / 100.0 * 2f64.powi(64)) as u64;
        Some(Self::Chance { below, seed: seed.parse().ok()? })
    }
}

/// The finaliser of splitmix64: neighbouring inputs give unrelated outputs, the same everywhere.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Fail(DevError),
    Short,
    Delay(Duration),
}

impl Action {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "eio" => Self::Fail(DevError::Io),
            "enospc" => Self::Fail(DevError::NoSpace),
            "short" => Self::Short,
            _ => Self::Delay(delay(text)?),
        })
    }
}

fn delay(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let micros: u64 = match text.get(digits.len()..)? {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(digits.parse::<u64>().ok()?.checked_mul(micros)?))
}

/// The rules of one kind, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules(Vec<(Select, Action)>);

/// What the rules say about one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Time that passes first: the sum of all delays that hit.
    pub(super) delay: Duration,
    /// Half is done, then it fails with EIO.
    pub(super) short: bool,
    /// It fails with this and nothing is done: of the first rule that hits.
    pub(super) fail: Option<DevError>,
}

impl Rules {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has_delay(&self) -> bool {
        self.0.iter().any(|(_, action)| matches!(action, Action::Delay(_)))
    }

    /// `run` is `None` for a flush.
    pub(super) fn judge(&self, nth: u64, run: Option<Run>) -> Verdict {
        let mut verdict = Verdict::default();
        for (_, action) in self.0.iter().filter(|(select, _)| select.hits(nth, run)) {
            match action {
                Action::Delay(time) => verdict.delay = verdict.delay.saturating_add(*time),
                Action::Short => verdict.short = true,
                Action::Fail(error) => verdict.fail = verdict.fail.or(Some(*error)),
            }
        }
        verdict
    }

    fn add(&mut self, select: Select, action: Action) {
        self.0.push((select, action));
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
    /// True when every read and write passes as it is.
    pub(super) fn is_harmless(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.die.is_none() && self.gone.is_none()
    }

    fn add(&mut self, rule: &str) -> Option<()> {
        match rule {
            "unflushable" => self.class = Some(CacheClass::Unflushable),
            "unknown" => self.class = Some(CacheClass::Unknown),
            _ => match rule.split_once('=') {
                Some(("die", n)) => self.die = Some(n.parse().ok()?),
                Some(("gone", n)) => self.gone = Some(n.parse().ok()?),
                _ => self.add_rule(rule)?,
            },
        }
        Some(())
    }

    fn add_rule(&mut self, rule: &str) -> Option<()> {
        let (head, action) = match rule.split_once('/') {
            Some((head, action)) => (head, Action::parse(action)?),
            None => (rule, Action::Fail(DevError::Io)),
        };
        let (kind, select) = head.split_at_checked(head.find(['=', '@', '%'])?)?;
        let (how, value) = select.split_at_checked(1)?;
        let select = match how {
            "=" => Select::nth(value)?,
            "@" => Select::range(value)?,
            _ => Select::chance(value)?,
        };
        let flush = kind == "flush";
        if flush && (matches!(select, Select::Range(_)) || action == Action::Short) {
            return None;
        }
        match kind {
            "read" => self.reads.add(select, action),
            "write" => self.writes.add(select, action),
            "flush" => self.flushes.add(select, action),
            _ => return None,
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

    fn fails(rules: &Rules, nth: u64) -> bool {
        rules.judge(nth, Some(Run::new(0, 512))).fail.is_some()
    }

    #[test]
    fn parses_every_rule_and_names_the_wrong_one() {
        let spec: FaultSpec = "unflushable,flush=2,read=3+,write@4K+512,die=9".parse().unwrap();
        assert_eq!(spec.class, Some(CacheClass::Unflushable));
        assert!(fails(&spec.flushes, 2) && !fails(&spec.flushes, 3));
        assert!(fails(&spec.reads, 8) && !fails(&spec.reads, 2));
        let at = |start| spec.writes.judge(1, Some(Run::new(start, 4096))).fail;
        assert_eq!((at(4096), at(0)), (Some(DevError::Io), None));
        assert_eq!(spec.die, Some(9));
        for wrong in [
            "",
            "flush",
            "flush=x",
            "write@5",
            "flush@1+2",
            "hang=1",
            "write=1/",
            "write=1/5",
            "flush=1/short",
            "read%5",
            "read%101~1",
            "read%5~x",
            "write=2-x",
            "sync=1",
            "=1",
        ] {
            assert_eq!(wrong.parse::<FaultSpec>(), Err(wrong.to_string()));
        }
    }

    #[test]
    fn delays_add_up_and_the_first_error_counts() {
        let spec: FaultSpec =
            "write=all/5ms,write=2-3/200us,write=3/enospc,write=3,write=4/short".parse().unwrap();
        let judge = |nth| spec.writes.judge(nth, None);
        assert_eq!(judge(1), Verdict { delay: Duration::from_millis(5), ..Verdict::default() });
        assert_eq!(judge(3).delay, Duration::from_micros(5200));
        assert_eq!(judge(3).fail, Some(DevError::NoSpace));
        assert!(judge(4).short && judge(4).fail.is_none());
        assert!(spec.writes.has_delay() && !spec.reads.has_delay());
    }

    #[test]
    fn chance_is_a_function_of_number_and_seed() {
        let spec: FaultSpec = "read%10~42,write%10~43,flush%100~0".parse().unwrap();
        let hits = |rules: &Rules| (1..=10_000).filter(|n| fails(rules, *n)).collect::<Vec<_>>();
        assert!((900..1100).contains(&hits(&spec.reads).len()));
        assert_ne!(hits(&spec.reads), hits(&spec.writes));
        assert_eq!(hits(&spec.flushes).len(), 10_000);
        // A stored seed must keep its meaning.
        assert_eq!(hits(&spec.reads)[..4], FIRST);
    }

    const FIRST: [u64; 4] = [9, 18, 26, 29];
}
