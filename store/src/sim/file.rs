//! Profiles in TOML files: a built-in profile and what differs from it.
//!
//! A file that is not understood is one error with the file, the line and the key. Unknown keys are
//! errors, so that a mistyped cost cannot be left out silently.

use super::{CacheModel, Nanos, Profile, QEMU_SSD, SlowAfter, Stall};
use crate::name::parse_size;
use serde::de::{Deserialize, Deserializer, Error};
use std::borrow::Cow;
use std::format;
use std::path::Path;
use std::string::{String, ToString};
use std::vec::Vec;
use thiserror::Error;

/// What is wrong with a profile's file, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("device profile {path}: {problem}")]
pub struct ProfileError {
    path: String,
    problem: String,
}

/// Reads a profile's file. Its name, if the file gives none, is the file's without `.toml`.
///
/// # Errors
/// The file cannot be read, or is not understood.
pub fn load_profile(path: &str) -> Result<Profile, ProfileError> {
    let fail = |problem| ProfileError { path: path.to_string(), problem };
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    parse_profile(&text, &stem).map_err(fail)
}

/// Reads a profile from the text of its file; `name` is used if there is none in it.
///
/// # Errors
/// `line N: KEY: what is wrong`.
pub fn parse_profile(text: &str, name: &str) -> Result<Profile, String> {
    let file: ProfileFile = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|at| text.get(..at.start)).unwrap_or_default();
        let number = before.matches('\n').count();
        let key = text.lines().nth(number).and_then(|line| line.split_once('='));
        let key = key.map_or(String::new(), |(key, _)| format!("{}: ", key.trim()));
        let message = error.message().replace('\n', "; ");
        format!("line {}: {key}{message}", number.saturating_add(1))
    })?;
    Ok(file.over(name))
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProfileFile {
    base: Option<Base>,
    name: Option<Name>,
    about: Option<Name>,
    rate: Option<Rate>,
    read_rate: Option<Rate>,
    read_command: Option<Time>,
    write_command: Option<Time>,
    flush_command: Option<Time>,
    switch: Option<Time>,
    near: Option<Size>,
    idle_wake: Option<Time>,
    max_request: Option<Request>,
    max_segments: Option<u32>,
    slots: Option<Slots>,
    cache: Option<CacheFile>,
    slow: Option<SlowFile>,
    stall: Option<StallFile>,
    volatile: Option<bool>,
    without: Vec<Part>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheFile {
    bytes: Size,
    fill_rate: Rate,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowFile {
    bytes: Size,
    rate: Rate,
    recover: Option<Rate>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StallFile {
    chance: Chance,
    time: Time,
    seed: Option<u64>,
}

/// What a base can be stripped of.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Cache,
    Slow,
    Stall,
}

impl ProfileFile {
    fn over(self, name: &str) -> Profile {
        let mut p = self.base.map_or(QEMU_SSD, |base| base.0);
        p.about = Cow::Owned(self.about.map_or(format!("from a file, over {}", p.name), |a| a.0));
        p.name = Cow::Owned(self.name.map_or(name.to_string(), |n| n.0));
        for part in self.without {
            match part {
                Part::Cache => p.cache = None,
                Part::Slow => p.slow = None,
                Part::Stall => p.stall = None,
            }
        }
        let set = |to: &mut u64, from: Option<u64>| *to = from.unwrap_or(*to);
        set(&mut p.rate, self.rate.map(|r| r.0));
        set(&mut p.read_rate, self.read_rate.map(|r| r.0));
        set(&mut p.read_command, self.read_command.map(|t| t.0));
        set(&mut p.write_command, self.write_command.map(|t| t.0));
        set(&mut p.flush_command, self.flush_command.map(|t| t.0));
        set(&mut p.switch, self.switch.map(|t| t.0));
        set(&mut p.near, self.near.map(|s| s.0));
        set(&mut p.idle_wake, self.idle_wake.map(|t| t.0));
        p.max_request = self.max_request.map_or(p.max_request, |r| r.0);
        p.max_segments = self.max_segments.unwrap_or(p.max_segments);
        p.slots = self.slots.map_or(p.slots, |s| s.0);
        p.volatile = self.volatile.unwrap_or(p.volatile);
        let cache = |c: CacheFile| CacheModel { bytes: c.bytes.0, fill_rate: c.fill_rate.0 };
        p.cache = self.cache.map(cache).or(p.cache);
        let recover = |r: Option<Rate>| r.map_or(0, |r| r.0);
        let slow = |s: SlowFile| {
            let (bytes, rate) = (s.bytes.0, s.rate.0);
            SlowAfter { bytes, rate, recover: recover(s.recover) }
        };
        p.slow = self.slow.map(slow).or(p.slow);
        let stall = |s: StallFile| {
            let (per_million, time) = (s.chance.0, s.time.0);
            Stall { per_million, time, seed: s.seed.unwrap_or(1) }
        };
        p.stall = self.stall.map(stall).or(p.stall);
        p
    }
}

struct Base(Profile);
struct Name(String);
struct Rate(u64);
struct Time(Nanos);
struct Size(u64);
struct Chance(u32);
struct Request(u32);
struct Slots(u32);

/// A value that is written as text and means something else.
macro_rules! from_text {
    ($type:ident, $parse:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                let parse: fn(&str) -> Result<_, String> = $parse;
                parse(&text).map(Self).map_err(D::Error::custom)
            }
        }
    };
}

from_text!(Base, |text| Profile::find(text)
    .ok_or_else(|| format!("no device profile {text}; there are {}", Profile::names())));
from_text!(Name, |text| match text {
    text if text.trim().is_empty() || text.contains(char::is_control) =>
        Err("expected some printable text".into()),
    text => Ok(text.to_string()),
});
from_text!(Rate, parse_rate);
from_text!(Time, parse_nanos);
from_text!(Size, |text| parse_size(text).map_err(|e| e.to_string()));
from_text!(Chance, |text| {
    let millionths = text.strip_suffix('%').and_then(|n| decimal(n.trim_end(), 10_000));
    let millionths = millionths.filter(|m| *m <= 1_000_000).and_then(|m| u32::try_from(m).ok());
    millionths.ok_or_else(|| format!("\"{text}\" is not a chance; write one from 0% to 100%"))
});
from_text!(Request, |text| {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    let fits = bytes == 0 || (bytes >= 4096 && bytes.is_multiple_of(512));
    let bytes = u32::try_from(bytes).ok().filter(|_| fits);
    bytes.ok_or_else(|| format!("\"{text}\" is not 0 or 4K to 4G in steps of 512 bytes"))
});

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from)? {
            0 => Err(D::Error::custom("a device has at least 1 slot")),
            slots => Ok(Self(slots)),
        }
    }
}

/// `59MB/s`, `33.55 MB/s`: decimal units; `none` is no limit.
fn parse_rate(text: &str) -> Result<u64, String> {
    let units = [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("kB/s", 1_000), ("B/s", 1)];
    if text == "none" {
        return Ok(0);
    }
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let rate = found.and_then(|(number, scale)| decimal(number.trim_end(), scale));
    if rate == Some(0) {
        return Err(format!("\"{text}\" moves nothing; without a limit it is \"none\""));
    }
    rate.ok_or_else(|| {
        format!("\"{text}\" is not a rate; write a number with B/s, kB/s, MB/s or GB/s, or none")
    })
}

/// `37ms`, `0.05ms`, `20us`.
fn parse_nanos(text: &str) -> Result<Nanos, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let time = found.and_then(|(number, scale)| decimal(number.trim_end(), scale));
    time.ok_or_else(|| format!("\"{text}\" is not a time; write a number with ns, us, ms or s"))
}

/// A decimal number times `scale`, rounded down; `None`: not one, or too large.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| (1..=12).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let one = 10u128.pow(u32::try_from(part.len()).ok()?);
    let part = part.parse::<u128>().ok()?.checked_mul(u128::from(scale))? / one;
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
