//! Any backend without its writes, for `--readonly` and read-only opening of what is no file.

use super::{Backend, Submission};
use async_trait::async_trait;
use seawall_blockdev::{Caps, DevError};
use std::boxed::Box;

/// Refuses everything that changes the backend below it.
pub(crate) struct ReadOnly {
    inner: Box<dyn Backend>,
}

impl ReadOnly {
    pub(crate) fn over(inner: Box<dyn Backend>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Backend for ReadOnly {
    fn caps(&self) -> Caps {
        Caps { read_only: true, ..self.inner.caps() }
    }

    fn table_unit(&self) -> Option<u32> {
        self.inner.table_unit()
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        if !batch.iter().any(|s| s.op.is_write()) {
            return self.inner.submit(batch).await;
        }
        for s in batch {
            if s.op.is_write() {
                s.result = Err(DevError::ReadOnly);
            } else {
                self.inner.submit(core::slice::from_mut(s)).await;
            }
        }
    }

    async fn flush(&self) -> Result<(), DevError> {
        self.inner.flush().await
    }

    fn flush_is_instant(&self) -> bool {
        self.inner.flush_is_instant()
    }
}
