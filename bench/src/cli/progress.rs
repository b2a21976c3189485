//! A bar on a terminal, nothing in a pipe.

use crate::job::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar on stderr.
pub(super) struct Bar {
    bar: ProgressBar,
    verbose: bool,
}

impl Bar {
    /// A bar for so many units. With `verbose` each row is a line as well.
    pub(super) fn new(units: u64, verbose: bool) -> Self {
        // stderr() draws on a terminal only.
        let bar = ProgressBar::with_draw_target(Some(units), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, verbose }
    }

    /// Removes it.
    pub(super) fn done(self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn row(&self, name: &str) {
        self.bar.set_message(name.to_string());
        if self.verbose {
            self.bar.suspend(|| seawall_store::cli::say(name));
        }
    }

    fn units(&self, n: u64) {
        self.bar.inc(n);
    }
}
