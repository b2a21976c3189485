//! What commands write to the standard streams.
//!
//! A reader that closed its end (`| head`) has what it wanted: that is success, never a panic.

use std::io::{ErrorKind, Result, Write};
use std::writeln;

/// Writes a text as whole lines to stdout.
///
/// # Errors
/// The stream's, but for a reader that is gone.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let done = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
    still_read(done).map(|_| ())
}

/// Whether somebody still reads, from what a write returned.
///
/// # Errors
/// Any other failure.
pub fn still_read(done: Result<()>) -> Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e),
    }
}

/// Writes a line to stderr. When nobody can hear it, nobody can be told that either.
pub fn say(line: &str) {
    let _nobody_listens = writeln!(std::io::stderr().lock(), "{line}");
}
