//! Log lines that would repeat without end, as those of a store that is gone.
//!
//! A message is logged at once, then at most once a second, with the number of times in between.

use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines of the same message.
const QUIET: Duration = Duration::from_secs(1);
/// Different messages remembered.
const MESSAGES: usize = 64;

/// When each message was logged last and how often it came since.
#[derive(Default)]
pub(super) struct Repeats(Mutex<BTreeMap<String, (Instant, u64)>>);

impl Repeats {
    /// How often the message came since its last line, if there is to be one now.
    fn due(&self, message: &str, now: Instant) -> Option<u64> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, since)) = seen.get_mut(message) {
            if now.saturating_duration_since(*last) < QUIET {
                *since = since.saturating_add(1);
                return None;
            }
            *last = now;
            return Some(core::mem::take(since));
        }
        if seen.len() >= MESSAGES {
            seen.clear();
        }
        seen.insert(message.to_string(), (now, 0));
        Some(0)
    }

    /// Warns that an operation failed.
    pub(super) fn warn(&self, op: &str, error: &dyn core::fmt::Display) {
        let message = error.to_string();
        match self.due(&message, Instant::now()) {
            None => {}
            Some(0) => tracing::warn!(op, error = message, "an operation failed"),
            Some(more) => {
                tracing::warn!(op, error = message, "an operation failed; {more} more did before");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted() {
        let (log, start) = (Repeats::default(), Instant::now());
        assert_eq!(log.due("gone", start), Some(0));
        assert_eq!(log.due("other", start), Some(0));
        for _ in 0..100 {
            assert_eq!(log.due("gone", start), None);
        }
        assert_eq!(log.due("gone", start + QUIET), Some(100));
        assert_eq!(log.due("gone", start + QUIET), None);
        assert_eq!(log.due("gone", start + 3 * QUIET), Some(1));
    }
}
