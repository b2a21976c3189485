//! The table of fids.

use super::{Fail, Result};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use seawall_diskfs::{Attr, Handle, Ino, Refused};
use seawall_ipc::Status;

/// A node as a session knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub(super) ino: Ino,
    pub(super) generation: u32,
}

impl From<&Attr> for NodeId {
    fn from(a: &Attr) -> Self {
        Self { ino: a.ino, generation: a.generation }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fid {
    pub(super) node: NodeId,
    pub(super) handle: Option<Handle>,
}

#[derive(Debug)]
pub(super) struct Fids {
    map: BTreeMap<u32, Fid>,
    max: usize,
}

impl Fids {
    pub(super) fn new(max: usize) -> Self {
        Self { map: BTreeMap::new(), max }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn get(&self, fid: u32) -> Result<Fid> {
        self.map.get(&fid).copied().ok_or_else(|| Refused::BadHandle.into())
    }

    pub(super) fn node(&self, fid: u32) -> Result<NodeId> {
        Ok(self.get(fid)?.node)
    }

    pub(super) fn handle(&self, fid: u32) -> Result<Handle> {
        self.get(fid)?.handle.ok_or_else(|| Refused::BadHandle.into())
    }

    /// Whether `fid` may be bound, before anything is done for it. A walk may move its own fid.
    pub(super) fn may_bind(&self, fid: u32, from: Option<u32>) -> Result<()> {
        match self.map.get(&fid) {
            Some(f) if from == Some(fid) && f.handle.is_none() => Ok(()),
            Some(_) => Err(Fail::Status(Status::EINVAL)),
            None if self.map.len() >= self.max => Err(Fail::Status(Status::EMFILE)),
            None => Ok(()),
        }
    }

    pub(super) fn bind(&mut self, fid: u32, node: NodeId, handle: Option<Handle>) {
        self.map.insert(fid, Fid { node, handle });
    }

    pub(super) fn remove(&mut self, fid: u32) -> Result<Fid> {
        self.map.remove(&fid).ok_or_else(|| Refused::BadHandle.into())
    }

    /// Forgets everything and returns the handles that were open.
    pub(super) fn clear(&mut self) -> Vec<Handle> {
        core::mem::take(&mut self.map).into_values().filter_map(|f| f.handle).collect()
    }
}
