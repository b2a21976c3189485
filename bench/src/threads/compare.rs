//! Ours beside theirs: every value of the threads that is compared, its error, its tolerance.

use super::cells::{Key, Values, Work};
use super::ledger::{Place, Row, place, rows};
use super::session::Session;
use anyhow::{Context, Result};

/// A value inside `max(relative * theirs, absolute)` passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    /// Share of the thread's value.
    pub(crate) relative: f64,
    /// In the value's unit.
    pub(crate) absolute: f64,
}

impl Tolerance {
    const fn relative(relative: f64) -> Self {
        Self { relative, absolute: 0.0 }
    }

    /// As tables print it.
    pub(crate) fn text(self, unit: &str) -> String {
        let (percent, absolute) = (self.relative * 100.0, self.absolute);
        match (self.relative > 0.0, self.absolute > 0.0) {
            (true, true) => format!("{percent:.0} % or {absolute} {unit}"),
            (true, false) => format!("{percent:.0} %"),
            (false, true) if unit == "%" => format!("{absolute} points"),
            _ => format!("{absolute} {unit}"),
        }
    }
}

/// One compared value.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// Its name here.
    pub(crate) key: Key,
    /// Unit.
    pub(crate) unit: String,
    /// Mean of the thread's repetitions; of a range, the end that is compared.
    pub(crate) theirs: f64,
    /// Lowest and highest of them.
    pub(crate) range: (f64, f64),
    /// Rows of the source that it stands for.
    pub(crate) rows: usize,
    /// Repetitions behind it.
    pub(crate) repetitions: u32,
    /// Ours, mean over seeds; lowest and highest.
    pub(crate) ours: Option<f64>,
    /// See `ours`.
    pub(crate) spread: (f64, f64),
    /// Bound.
    pub(crate) tolerance: Tolerance,
    /// Fitted, held out or waived.
    pub(crate) place: Place,
    /// Session it was measured in.
    pub(crate) session: String,
    /// Theirs is a range: ours passes when it is inside, widened by the tolerance.
    pub(crate) is_range: bool,
}

impl Compared {
    /// Relative error; of a range, to its nearer end, 0 inside.
    pub(crate) fn error(&self) -> Option<f64> {
        let ours = self.ours?;
        let theirs =
            if self.is_range { ours.clamp(self.range.0, self.range.1) } else { self.theirs };
        (theirs != 0.0).then(|| ours / theirs - 1.0)
    }

    /// Inside the tolerance. A waived value without one of ours is not.
    pub(crate) fn is_inside(&self) -> bool {
        let Some(ours) = self.ours else { return false };
        let theirs =
            if self.is_range { ours.clamp(self.range.0, self.range.1) } else { self.theirs };
        let bound = (self.tolerance.relative * theirs.abs()).max(self.tolerance.absolute);
        (ours - theirs).abs() <= bound
    }

    /// The verdict in a word.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.place, self.is_inside()) {
            (_, true) => "pass",
            (Place::Waived(_), false) => "waived",
            _ => "FAIL",
        }
    }

    /// True when it lets the command fail.
    pub(crate) fn fails(&self) -> bool {
        self.verdict() == "FAIL"
    }

    /// Its name as one text.
    pub(crate) fn name(&self) -> String {
        self.key.text()
    }
}

/// The bound of a value, as it was set when the model was fitted.
fn tolerance(r: &Row, key: &Key) -> Tolerance {
    let usb = Session::of(&key.device).is_some_and(|s| s.usb);
    let pick = |relative, absolute| Tolerance { relative, absolute };
    match (key.work, key.metric) {
        (Work::Osync, "throughput") => Tolerance::relative(0.03),
        (Work::Osync, "requests") => Tolerance::relative(0.10),
        (Work::Osync, _) if r.policy == "no-serialize" => pick(0.0, 2.0),
        (Work::Osync, _) => pick(0.0, 8.0),
        (Work::Loop, _) => Tolerance::relative(0.01),
        (_, "cp_returns" | "total") => pick(0.10, 0.6),
        (_, "umount") => pick(0.12, 0.6),
        (_, "dirty_at_close") => pick(0.05, 2.0),
        (_, "in_flight_at_close") => pick(0.25, 90.0),
        (_, "requests" | "request_avg") if r.policy == "stock" => Tolerance::relative(0.20),
        (_, "requests" | "request_avg") if usb => Tolerance::relative(0.15),
        (_, "requests" | "request_avg") => Tolerance::relative(0.35),
        // Not among the bounds of the fit: points, as for the f2fs shares after.
        (_, "bios_ge_768KiB") => pick(0.0, 8.0),
        _ => Tolerance::relative(0.10),
    }
}

fn work_of(r: &Row) -> Work {
    match r.workload.as_str() {
        w if w.starts_with("fio ") => Work::Osync,
        "1000 x open/write/fsync/close" => Work::Loop,
        "copy 1000 x 1 MiB" => Work::Small,
        _ => Work::Large,
    }
}

/// What the tables of the FAT thread have, in the order of its columns.
pub(crate) const FAT_METRICS: [&str; 8] = [
    "throughput",
    "requests",
    "request_avg",
    "cp_returns",
    "dirty_at_close",
    "in_flight_at_close",
    "umount",
    "total",
];

/// What those of the others have besides.
const OTHER_METRICS: [&str; 4] = ["share_4KiB", "share_8KiB", "share_ge512KiB", "run_time"];

/// The name of something that the threads' tables have.
pub(crate) fn metric(name: &str) -> Option<&'static str> {
    FAT_METRICS.iter().chain(&OTHER_METRICS).find(|m| **m == name).copied()
}

/// The name here of what a row says.
fn key_of(r: &Row) -> Option<Key> {
    let range = r.metric.trim_end_matches("_min").trim_end_matches("_max");
    let metric = match range {
        "data_bios_ge_768KiB" => "bios_ge_768KiB",
        m => metric(m)?,
    };
    let policy = match r.policy.as_str() {
        "vanilla" => "hurd-vanilla",
        "full-sync" => "hurd-full",
        p => p,
    };
    let (device, policy) = (r.device.clone(), policy.to_string());
    Some(Key { device, policy, threshold: r.threshold.clone(), work: work_of(r), metric })
}

/// Every value of the threads that is compared, in the order of the source.
///
/// # Errors
/// A row without a place, or one that should be compared and cannot be.
pub(crate) fn compare(values: &Values) -> Result<Vec<Compared>> {
    let mut out: Vec<Compared> = Vec::new();
    for r in rows()? {
        let place = place(r).with_context(|| format!("no place for {} {}", r.device, r.metric))?;
        let numeric = r.unit != "text";
        let compared = matches!(place, Place::Fitted | Place::HeldOut | Place::Waived(_));
        let Some(key) = key_of(r).filter(|_| numeric && compared) else {
            if matches!(place, Place::Fitted | Place::HeldOut) {
                anyhow::bail!("{} {} is to be compared with nothing", r.device, r.metric);
            }
            continue;
        };
        let value = r.number()?;
        let is_range = r.metric.ends_with("_min") || r.metric.ends_with("_max");
        let same =
            |c: &&mut Compared| c.key == key && c.session == r.session && c.is_range == is_range;
        if let Some(c) = out.iter_mut().find(same) {
            c.theirs = (c.theirs * c.rows as f64 + value) / (c.rows + 1) as f64;
            c.range = (c.range.0.min(value), c.range.1.max(value));
            c.rows += 1;
            c.repetitions += 1;
            continue;
        }
        let each = values.each(&key).unwrap_or_default();
        let low = each.iter().copied().fold(f64::INFINITY, f64::min);
        let high = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        out.push(Compared {
            ours: values.mean(&key),
            spread: (low, high),
            tolerance: tolerance(r, &key),
            key,
            unit: r.unit.clone(),
            theirs: value,
            range: (value, value),
            rows: 1,
            repetitions: r.runs.unwrap_or(1),
            place,
            session: r.session.clone(),
            is_range,
        });
    }
    Ok(out)
}
