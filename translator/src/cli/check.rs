//! `check STORE [--json]`.
//!
//! The findings are the result and go to stdout, one a line; on a terminal a bar on stderr shows
//! how far the check is. A volume that is not consistent ends the command with status 1, as one
//! that cannot be checked does.

use super::{Check, Volume, print};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seawall_diskfs::check::{Item, Progress, Report, Severity};
use seawall_store::{OpenOptions, open};
use std::fmt::Write;
use std::format;
use std::io::IsTerminal;
use std::string::{String, ToString};

/// Bounds of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Findings that are kept, of each severity.
    pub keep: usize,
    /// Bytes for bitmaps and tables.
    pub memory: u64,
}

pub(super) fn run<V: Volume>(args: &Check) -> Result<()> {
    if args.replay {
        bail!("--replay: {} volumes with a journal are not replayed yet", V::FORMAT);
    }
    let client_name = format!("{} check[{}]", V::PROGRAM, std::process::id());
    let options = OpenOptions { read_only: true, client_name, ..OpenOptions::default() };
    let mut device = open(&args.store, &options)?;
    let bar = Bar::new();
    let bounds = CheckArgs { keep: args.max_findings, memory: args.memory };
    let report = V::check(&mut device, &bounds, &mut |p| bar.show(p));
    bar.0.finish_and_clear();
    let report = report.with_context(|| args.store.clone())?;
    device.close()?;
    if args.json {
        print(&serde_json::to_string(&report)?)?;
    } else {
        print(&text::<V>(&args.store, &report))?;
    }
    if report.is_clean() {
        return Ok(());
    }
    let (store, sum) = (&args.store, sum(&report));
    bail!("{store}: not consistent: {sum}; a repair needs the reference tools of {}", V::FORMAT)
}

/// How many findings of each severity.
fn sum(report: &Report<Item>) -> String {
    let mut out = String::new();
    for severity in Severity::ALL.into_iter().rev() {
        let n = report.count(severity);
        if n > 0 {
            let before = if out.is_empty() { "" } else { ", " };
            let _ok = write!(out, "{before}{n} {}", severity.name());
        }
    }
    out
}

fn text<V: Volume>(store: &str, report: &Report<Item>) -> String {
    let mut out = String::new();
    for item in report.findings() {
        // Writing to a string cannot fail.
        let _ok = writeln!(out, "{}: {}", item.severity.name(), item.text);
    }
    if report.left_out() > 0 {
        let _ok = writeln!(out, "{} more findings are not listed", report.left_out());
    }
    let format = V::FORMAT;
    let sum = match (report.is_clean(), sum(report)) {
        (true, s) if s.is_empty() => "clean".to_string(),
        (true, s) => format!("clean ({s})"),
        (false, s) => s,
    };
    let _ok = write!(out, "{store}: {format}, {sum}");
    out
}

/// A bar on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{msg:12} [{bar:30}] {percent:>3}%  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self(bar)
    }

    fn show(&self, p: Progress) {
        if !self.0.is_hidden() {
            self.0.set_length(p.total);
            self.0.set_position(p.done);
            self.0.set_message(p.phase);
        }
    }
}
