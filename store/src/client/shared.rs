//! What the threads of a client share: credit, who leads, and mail for those who do not.

use seawall_blockdev::{DevError, PageBuf};
use seawall_ipc::Reply;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::vec::Vec;

/// A reply that another thread received.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) reply: Reply,
    pub(super) payload: PageBuf,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// Cookies of one call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) base: u64,
    pub(super) count: u64,
}

impl Call {
    /// Place of a cookie in the call.
    pub(super) fn index(&self, cookie: u64) -> Option<usize> {
        let index = cookie.checked_sub(self.base).filter(|index| *index < self.count)?;
        usize::try_from(index).ok()
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Requests the server still takes.
    pub(super) credit: u32,
    /// A thread receives.
    pub(super) leading: bool,
    /// Why the connection is over.
    pub(super) dead: Option<DevError>,
    pub(super) mail: HashMap<u64, Letter>,
    calls: Vec<Call>,
    next_cookie: u64,
}

impl Shared {
    pub(super) fn new(credit: u32) -> Self {
        Self {
            credit,
            leading: false,
            dead: None,
            mail: HashMap::new(),
            calls: Vec::new(),
            next_cookie: 1,
        }
    }

    pub(super) fn begin(&mut self, count: usize) -> Call {
        let call = Call { base: self.next_cookie, count: count as u64 };
        self.next_cookie = self.next_cookie.saturating_add(call.count);
        self.calls.push(call);
        call
    }

    pub(super) fn end(&mut self, call: Call) {
        self.calls.retain(|c| *c != call);
        if !self.mail.is_empty() {
            self.mail.retain(|cookie, _| call.index(*cookie).is_none());
        }
    }

    /// True when the cookie belongs to a call under way.
    pub(super) fn is_known(&self, cookie: u64) -> bool {
        self.calls.iter().any(|call| call.index(cookie).is_some())
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.calls.len() > 1
    }
}
