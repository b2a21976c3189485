//! The flusher's thread.

use super::engine::Engine;
use seawall_diskfs::Format;
use std::io;
use std::string::ToString;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Ends its thread when it is stopped or dropped.
pub(super) struct Flusher<F: Format> {
    engine: Arc<Engine<F>>,
    thread: Option<JoinHandle<()>>,
}

impl<F: Format> Flusher<F> {
    pub(super) fn start(engine: &Arc<Engine<F>>) -> io::Result<Self> {
        let own = Arc::clone(engine);
        let thread =
            Builder::new().name("flusher".to_string()).spawn(move || own.flush_until_stopped())?;
        Ok(Self { engine: Arc::clone(engine), thread: Some(thread) })
    }
}

impl<F: Format> Drop for Flusher<F> {
    fn drop(&mut self) {
        self.engine.stop_flusher();
        if let Some(t) = self.thread.take()
            && t.join().is_err()
        {
            tracing::error!("the flusher's thread panicked");
        }
    }
}
