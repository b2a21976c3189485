//! `unix:SOCKET` below another store or behind another server: a store server as a backend.
//!
//! The flush is the server's SYNC, so what it may not promise is not promised here either, and a
//! fault that is sticky there makes every flush fail here until the same bytes are written again.
//! The server is synced when it is opened for writing: what was in it before counts as durable only
//! after that.

use super::{Backend, Submission};
use crate::client::{Access, Client};
use crate::error::StoreError;
use async_trait::async_trait;
use seawall_blockdev::{BlockDev, Caps, DevError, Tag};
use std::boxed::Box;
use std::path::Path;
use std::string::ToString;

/// A session with a store server, as a backend.
#[derive(Debug)]
pub struct RemoteBackend {
    client: Client,
    caps: Caps,
}

impl RemoteBackend {
    /// Connects; `name` is for the server's logs.
    ///
    /// # Errors
    /// [`StoreError`]: no server there, somebody else writes to it, or its first sync failed.
    pub fn connect(path: &Path, name: &str, access: Access) -> Result<Self, StoreError> {
        let client = Client::connect_as(path, name, access)?;
        let caps = (&client).caps();
        if caps.cache.can_promise() && !caps.read_only {
            (&mut &client).sync(Tag(0)).map_err(|cause| StoreError::Device {
                name: path.display().to_string(),
                what: "first sync".to_string(),
                cause,
            })?;
        }
        Ok(Self { client, caps })
    }
}

#[async_trait]
impl Backend for RemoteBackend {
    fn caps(&self) -> Caps {
        self.caps
    }

    async fn submit(&self, batch: &mut [Submission<'_>]) {
        self.client.submit(batch);
    }

    async fn flush(&self) -> Result<(), DevError> {
        (&mut &self.client).sync(Tag(0)).map(|_| ())
    }

    fn flush_is_instant(&self) -> bool {
        false
    }
}
