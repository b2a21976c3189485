//! The close site of a mount: what FLUSH does.
//!
//! A close that does something is not run in a thread that reads requests: it may wait for the
//! device, and several of them would keep everybody else from the mount.

use super::ops::{Fuse, fail};
use crate::server::{Engine, linger};
use fuser::{Errno, ReplyEmpty};
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Format, Handle, PlanReq};
use std::string::ToString;
use std::sync::{Arc, Mutex, PoisonError};

impl<F: Format> Fuse<F> {
    pub(super) fn close_site(&self, handle: Handle, reply: ReplyEmpty) {
        let acts = self.engine.while_mounted(|host| host.with(|fs| fs.close_acts(handle)));
        if acts != Some(true) {
            return run(&self.engine, handle, reply);
        }
        let engine = Arc::clone(&self.engine);
        let reply = Arc::new(Mutex::new(Some(reply)));
        let theirs = Arc::clone(&reply);
        let take =
            |r: &Mutex<Option<ReplyEmpty>>| r.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = move || {
            if let Some(reply) = take(&theirs) {
                run(&engine, handle, reply);
            }
        };
        let spawned = std::thread::Builder::new().name("close".to_string()).spawn(work);
        if spawned.is_err()
            && let Some(reply) = take(&reply)
        {
            run(&self.engine, handle, reply);
        }
    }
}

fn run<F: Format>(engine: &Engine<F>, handle: Handle, reply: ReplyEmpty) {
    match engine.while_mounted(|host| driver::verdict(host, PlanReq::Close(handle))) {
        Some(Ok(verdict)) => {
            linger(verdict.linger_ms);
            reply.ok();
        }
        Some(Err(e)) => reply.error(fail(engine, &e)),
        None => reply.error(Errno::EIO),
    }
}
