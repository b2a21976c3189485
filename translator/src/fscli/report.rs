//! Progress, failures and the sums of a copy.

use crate::cli::{Told, print};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seawall_ipc::Status;
use seawall_store::cli::say;
use seawall_store::name::format_size;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::format;
use std::io::IsTerminal;
use std::string::String;
use std::time::Instant;

/// How many of the same errors are told one by one.
const TOLD: u64 = 3;

/// What a copy did.
pub(super) struct Report {
    bar: ProgressBar,
    started: Instant,
    pub(super) files: u64,
    pub(super) folders: u64,
    pub(super) others: u64,
    pub(super) links: u64,
    pub(super) bytes: u64,
    pub(super) failures: u64,
    /// Error number -> how often.
    repeated: BTreeMap<u32, u64>,
}

impl Report {
    pub(super) fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{spinner} {msg}  {binary_bytes}  {binary_bytes_per_sec}  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self {
            bar,
            started: Instant::now(),
            files: 0,
            folders: 0,
            others: 0,
            links: 0,
            bytes: 0,
            failures: 0,
            repeated: BTreeMap::new(),
        }
    }

    pub(super) fn file(&mut self) {
        self.files += 1;
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{} files", self.files));
        }
    }

    pub(super) fn moved(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if !self.bar.is_hidden() {
            self.bar.set_position(self.bytes);
        }
    }

    /// As [`Report::failed`]; what happens to every file of a tree, on a volume that is full or
    /// cannot be written, is told for the first files and counted for the others.
    pub(super) fn refused(&mut self, same: Option<Status>, why: impl Display) {
        let Some(status) = same.filter(|s| [Status::ENOSPC, Status::EROFS].contains(s)) else {
            return self.failed(why);
        };
        let seen = self.repeated.entry(status.0).or_default();
        *seen += 1;
        if *seen <= TOLD {
            return self.failed(why);
        }
        self.failures += 1;
    }

    pub(super) fn failed(&mut self, why: impl Display) {
        self.failures += 1;
        self.bar.suspend(|| say(&format!("seawall fs: {why}")));
    }

    /// Prints the sums; an error when something failed.
    pub(super) fn finish(self, json: bool) -> Result<()> {
        self.bar.finish_and_clear();
        for (status, count) in self.repeated.iter().filter(|(_, count)| **count > TOLD) {
            let more = count - TOLD;
            say(&format!("seawall fs: {more} more: {}", Status(*status)));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let Self { files, folders, others, links, bytes, failures, .. } = self;
        if json {
            let sums = serde_json::json!({
                "files": files, "folders": folders, "others": others, "links": links,
                "bytes": bytes, "failures": failures, "seconds": seconds,
            });
            print(&serde_json::to_string_pretty(&sums)?)?;
        } else {
            let size = format_size(bytes);
            let text: String = format!(
                "{files} files, {folders} folders, {links} more names, {others} others, {size} in \
                 {seconds:.2} s"
            );
            print(&text)?;
        }
        if failures == 1 {
            return Err(Told.into());
        }
        if failures > 0 {
            bail!("{failures} of them failed, see above");
        }
        Ok(())
    }
}
