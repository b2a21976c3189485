//! The ledger: every number of the three threads, and what is made of each.
//!
//! A row without a place is an error, so that none is left out in silence.

use super::compare::FAT_METRICS;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::sync::LazyLock;

const SOURCE: &str = include_str!("../../data/source_tables.toml");

/// One number of the threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Device as the profile is named here.
    pub(crate) device: String,
    /// Variant, in the words of the file's header.
    pub(crate) policy: String,
    /// Threshold of the flusher, or of serialising.
    pub(crate) threshold: String,
    /// Workload.
    pub(crate) workload: String,
    /// What was measured.
    pub(crate) metric: String,
    /// The number; one row is text.
    pub(crate) value: toml::Value,
    /// Its unit.
    pub(crate) unit: String,
    /// Which thread.
    #[serde(rename = "source")]
    pub(crate) _source: String,
    /// Which measuring session.
    pub(crate) session: String,
    /// Which repetition.
    #[serde(default, rename = "run")]
    pub(crate) _run: Option<u32>,
    /// Repetitions averaged.
    #[serde(default)]
    pub(crate) runs: Option<u32>,
    /// The thread says "about".
    #[serde(default, rename = "approx")]
    pub(crate) _approx: bool,
    /// False: the thread guesses or announces.
    #[serde(default = "yes", rename = "measured")]
    pub(crate) _measured: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    #[serde(rename = "schema")]
    _schema: u32,
    row: Vec<Row>,
}

static ROWS: LazyLock<Result<Vec<Row>, String>> =
    LazyLock::new(|| toml::from_str::<Source>(SOURCE).map(|s| s.row).map_err(|e| e.to_string()));

/// All rows, in the order of the file.
///
/// # Errors
/// The file's syntax, with line and key.
pub(crate) fn rows() -> Result<&'static [Row]> {
    match &*ROWS {
        Ok(rows) => Ok(rows),
        Err(e) => bail!("bench/data/source_tables.toml: {e}"),
    }
}

impl Row {
    /// The number.
    ///
    /// # Errors
    /// The row is text.
    pub(crate) fn number(&self) -> Result<f64> {
        let n = self.value.as_float().or_else(|| self.value.as_integer().map(|n| n as f64));
        n.with_context(|| format!("{} {}: no number", self.device, self.metric))
    }
}

/// What is made of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Compared; parameters of the model were set with it in view.
    Fitted,
    /// Compared; no parameter was set with it in view.
    HeldOut,
    /// Something that the runs are set to.
    Setting(&'static str),
    /// Follows from other rows.
    Derived(&'static str),
    /// Compared where there is a value, and passes whatever it says; why.
    Waived(&'static str),
    /// Measured on real mounts, not in virtual time.
    Real(&'static str),
}

impl Place {
    /// In a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::HeldOut => "held out",
            Self::Setting(_) => "setting",
            Self::Derived(_) => "derived",
            Self::Waived(_) => "waived",
            Self::Real(_) => "measured on real mounts",
        }
    }

    /// Why, where there is something to say.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Fitted | Self::HeldOut => "",
            Self::Setting(s) | Self::Derived(s) | Self::Waived(s) | Self::Real(s) => s,
        }
    }
}

/// The row's place; `None`: nobody thought of it.
pub(crate) fn place(r: &Row) -> Option<Place> {
    match r.session.as_str() {
        "fat-v1-patch-mail" | "fat-v1-drive-survey" => first_survey(r),
        "fat-t1-copy-sync" | "fat-t1-copy-sync-other-day" | "fat-t2-cp-umount" => fat(r),
        "f2fs-serialize" => f2fs(r),
        "hurd-store-sync" => hurd(r),
        _ => None,
    }
}

fn fat_setting(r: &Row) -> Option<Place> {
    let used = match r.metric.as_str() {
        "dirty_background_bytes" => "threshold of the columns 256M",
        "dirty_writeback_centisecs" => "period of the flusher in the columns 256M",
        "dirty_background_ratio" => "the columns 5%",
        "threshold_min" | "threshold_max" => {
            "the columns 5%: one value a device inside this range, picked with request counts in \
             view"
        }
        "expiry" => "age at which data is written whatever the threshold",
        "dirty_background_ratio_kernel_default" => "the columns default: twice 5%",
        _ => return None,
    };
    Some(Place::Setting(used))
}

fn first_survey(r: &Row) -> Option<Place> {
    if r.workload == "setting" {
        return fat_setting(r);
    }
    let known = ["throughput", "throughput_min", "throughput_max"];
    let share = ["data_bios_ge_768KiB_min", "data_bios_ge_768KiB_max"];
    match (r.device.as_str(), r.policy.as_str(), r.metric.as_str()) {
        ("pny32", "stock", m) if known.contains(&m) && r.workload == "copy 3 GiB" => {
            Some(Place::Waived(
                "PNY stock of the first survey: the same experiment gave 6.4 to 6.9 MB/s in the \
                 next one; the stick's penalty moved by 2 between sessions",
            ))
        }
        ("pny32" | "samsung64", _, m) if known.contains(&m) || share.contains(&m) => {
            Some(Place::HeldOut)
        }
        ("pny250_uas", _, "throughput") => Some(Place::Waived(
            "the PNY 250G throttles itself: 200 to 365 MB/s for one row; it would need a profile \
             of its own whose bandwidth drops",
        )),
        ("evo870_uas", _, "throughput") => Some(Place::Waived(
            "the EVO on USB would need a profile of its own (another bridge, other limits)",
        )),
        _ => None,
    }
}

fn fat(r: &Row) -> Option<Place> {
    if r.workload == "setting" {
        return fat_setting(r);
    }
    let m = FAT_METRICS.iter().find(|m| **m == r.metric)?;
    let drifted = ["requests", "request_avg", "in_flight_at_close"];
    let key = (r.device.as_str(), r.threshold.as_str(), r.policy.as_str());
    if key == ("evo870", "5%", "stock") && drifted.contains(m) {
        return Some(Place::Waived(
            "EVO 5 % stock: 1,460 requests need a threshold of 4 GiB or more, the wait=0 row of \
             the same column one below: it drifted with free memory",
        ));
    }
    Some(Place::Fitted)
}

fn f2fs(r: &Row) -> Option<Place> {
    const LOST: &str = "f2fs before-row: its histogram holds at most 13.8 GiB of 39.6 GiB written; \
                        the trace lost most of its events, so counts are unusable, shares are not";
    let before = r.policy == "no-serialize";
    Some(match r.metric.as_str() {
        "throughput" if r.unit == "text" => Place::Derived("relation 9: lowering min_seq_blocks"),
        "throughput" | "share_4KiB" | "share_8KiB" | "share_ge512KiB" => Place::Fitted,
        "requests" if !before => Place::Fitted,
        "requests" | "requests_4KiB" | "requests_8KiB" | "requests_ge512KiB" if before => {
            Place::Waived(LOST)
        }
        "requests_4KiB" | "requests_8KiB" | "requests_ge512KiB" => {
            Place::Derived("share of the requests of the same row")
        }
        "min_seq_blocks_default" | "min_seq_blocks_tried" => Place::Setting("threshold"),
        "threads" | "write_size" | "runtime" | "file_size" | "alloc_unit" => {
            Place::Setting("workload")
        }
        _ => return None,
    })
}

fn hurd(r: &Row) -> Option<Place> {
    let real = "counted and timed on real mounts; a model with two costs says nothing of it";
    match (r.workload.as_str(), r.metric.as_str()) {
        _ if r.device == "hdd (projected)" => Some(Place::Waived("a guess of the mail")),
        ("1000 x open/write/fsync/close", "run_time") => Some(Place::Fitted),
        ("1000 x open/write/fsync/close", "regression" | "extra_per_op") => {
            Some(Place::Derived("the two run times"))
        }
        ("jbd2 prototype", "commit_period") => Some(Place::Setting("of a plan, not of a run")),
        (w, "run_time" | "delta" | "delta_rel")
            if w.starts_with("tar ") || w.starts_with("git ") || w.starts_with("apt ") =>
        {
            Some(Place::Real(real))
        }
        _ => None,
    }
}

/// Rows by the name of their place.
///
/// # Errors
/// A row without a place, named.
pub(crate) fn counts() -> Result<Vec<(&'static str, usize)>> {
    let mut out: Vec<(&'static str, usize)> = Vec::new();
    for r in rows()? {
        let place = place(r).with_context(|| {
            format!("no place for {} {} {} {}", r.session, r.device, r.policy, r.metric)
        })?;
        match out.iter_mut().find(|(name, _)| *name == place.name()) {
            Some((_, n)) => *n += 1,
            None => out.push((place.name(), 1)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place() {
        let rows = rows().unwrap();
        assert_eq!(rows.len(), 322);
        let counts = counts().unwrap();
        assert_eq!(counts.iter().map(|(_, n)| n).sum::<usize>(), 322);
    }

    #[test]
    fn a_row_that_nobody_thought_of_has_none() {
        let mut r = rows().unwrap().first().cloned().unwrap();
        r.metric = "temperature".into();
        assert_eq!(place(&r), None);
        r.session = "elsewhere".into();
        assert_eq!(place(&r), None);
    }
}
