//! A backend's batch as requests of this session: one request and one result each.

use super::Client;
use super::exchange::Data;
use crate::backend::{BackendOp, Submission};
use crate::plan::{Piece, Plan};
use crate::wire::check;
use core::mem::discriminant;
use seawall_blockdev::DevError;
use seawall_ipc::storeproto::op;
use seawall_ipc::{Reply, Request, flags};
use std::vec::Vec;

impl Client {
    /// Executes the batch in order: neighbours of one kind leave in one send.
    pub(crate) fn submit(&self, batch: &mut [Submission<'_>]) {
        let mut rest = batch;
        while let Some(first) = rest.first() {
            let kind = discriminant(&first.op);
            let same = rest.iter().take_while(|s| discriminant(&s.op) == kind).count();
            let (group, tail) = rest.split_at_mut(same.max(1).min(rest.len()));
            let done = self.group(group);
            for (i, s) in group.iter_mut().enumerate() {
                s.result = match &done {
                    Ok(replies) => {
                        replies.get(i).map_or(Err(DevError::Protocol), |r| check(r.status))
                    }
                    Err(error) => Err(*error),
                };
            }
            rest = tail;
        }
    }

    fn group(&self, group: &mut [Submission<'_>]) -> Result<Vec<Reply>, DevError> {
        let requests: Vec<Request> = group.iter().map(|s| request(&s.op)).collect();
        let mut pieces = Vec::with_capacity(group.len());
        for (first, s) in group.iter().enumerate() {
            let run = s.op.run();
            pieces.push(Piece { start: run.start, len: run.len, tag: 0, first, count: 1 });
        }
        let mut ins: Vec<&mut [u8]> = Vec::new();
        let mut outs: Vec<&[u8]> = Vec::new();
        for s in group {
            match &mut s.op {
                BackendOp::Read { buf, .. } => ins.push(buf),
                BackendOp::Write { buf, .. } => outs.push(buf),
                BackendOp::Zero { .. } | BackendOp::Discard { .. } => {}
            }
        }
        let replies = if !ins.is_empty() {
            let mut plan = Plan { pieces, segments: ins };
            return self.exchange(&requests, Data::In(&mut plan));
        } else if !outs.is_empty() {
            self.exchange(&requests, Data::Out(&Plan { pieces, segments: outs }))?
        } else {
            self.exchange(&requests, Data::Nothing)?
        };
        // Keeps the newest sequence; errors are told one by one.
        let _first_error = self.acknowledged(&replies);
        Ok(replies)
    }
}

fn request(what: &BackendOp<'_>) -> Request {
    let run = what.run();
    let (op, flags) = match what {
        BackendOp::Read { .. } => (op::READ, 0),
        BackendOp::Write { fua, .. } => (op::WRITE, if *fua { flags::FUA } else { 0 }),
        BackendOp::Zero { keep, .. } => (op::WRITE_ZEROES, if *keep { flags::NO_HOLE } else { 0 }),
        BackendOp::Discard { .. } => (op::DISCARD, 0),
    };
    Request { op, flags, offset: run.start, length: run.len, ..Request::default() }
}
