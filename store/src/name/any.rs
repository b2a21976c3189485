//! A store opened by name.

use crate::client::Client;
use crate::error::StoreError;
use crate::local::LocalStore;
use seawall_blockdev::{
    BlockDev, Caps, DevError, ReadRun, Run, Seq, SeqState, Tag, WriteFlags, WriteRun,
};
use seawall_ipc::storeproto::Stats;
use std::boxed::Box;
use std::string::String;

/// A store in this process or behind a socket.
pub enum AnyStore {
    /// In this process.
    Local(Box<LocalStore>),
    /// Behind a socket.
    Remote(Box<Client>),
}

impl AnyStore {
    /// Statistics: of this process for a local store, of the whole server for a remote one.
    ///
    /// # Errors
    /// The connection's.
    pub fn stats(&self) -> Result<Stats, DevError> {
        match self {
            Self::Local(store) => Ok(store.stats()),
            Self::Remote(client) => client.stats(),
        }
    }

    /// The local store, if it is one.
    pub fn local(&self) -> Option<&LocalStore> {
        match self {
            Self::Local(store) => Some(store),
            Self::Remote(_) => None,
        }
    }

    /// The client, if it is one.
    pub fn remote(&self) -> Option<&Client> {
        match self {
            Self::Local(_) => None,
            Self::Remote(client) => Some(client),
        }
    }

    /// Writes and makes everything acknowledged durable; to a server both leave in one send.
    ///
    /// # Errors
    /// The first of a write, else that of the sync.
    pub fn write_sync(&mut self, runs: &[WriteRun<'_>], tag: Tag) -> Result<Seq, DevError> {
        match self {
            Self::Local(store) => {
                store.write(runs, WriteFlags::default())?;
                store.sync(tag)
            }
            Self::Remote(client) => client.write_sync(runs, tag),
        }
    }

    /// Says goodbye to a server. Dropping does the same without reporting.
    ///
    /// # Errors
    /// The connection's.
    pub fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(client) => client.close(),
        }
    }

    /// The name of the store behind a client, as its server gives it.
    pub fn served_name(&self) -> Option<String> {
        self.remote().map(|client| client.info().name.clone())
    }
}

impl BlockDev for AnyStore {
    fn caps(&self) -> Caps {
        match self {
            Self::Local(store) => store.caps(),
            Self::Remote(client) => BlockDev::caps(&&**client),
        }
    }

    fn seqs(&self) -> SeqState {
        match self {
            Self::Local(store) => store.seqs(),
            Self::Remote(client) => BlockDev::seqs(&&**client),
        }
    }

    fn read(&mut self, runs: &mut [ReadRun<'_>], tag: Tag) -> Result<(), DevError> {
        match self {
            Self::Local(store) => store.read(runs, tag),
            Self::Remote(client) => (&mut &**client).read(runs, tag),
        }
    }

    fn write(&mut self, runs: &[WriteRun<'_>], flags: WriteFlags) -> Result<Seq, DevError> {
        match self {
            Self::Local(store) => store.write(runs, flags),
            Self::Remote(client) => (&mut &**client).write(runs, flags),
        }
    }

    fn sync(&mut self, tag: Tag) -> Result<Seq, DevError> {
        match self {
            Self::Local(store) => store.sync(tag),
            Self::Remote(client) => (&mut &**client).sync(tag),
        }
    }

    fn discard(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        match self {
            Self::Local(store) => store.discard(run, tag),
            Self::Remote(client) => (&mut &**client).discard(run, tag),
        }
    }

    fn write_zeroes(&mut self, run: Run, tag: Tag) -> Result<Seq, DevError> {
        match self {
            Self::Local(store) => store.write_zeroes(run, tag),
            Self::Remote(client) => (&mut &**client).write_zeroes(run, tag),
        }
    }
}
