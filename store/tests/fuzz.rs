//! Arbitrary requests, completions and disconnections against the session core.
//!
//! No host, no socket: the core must answer every request exactly once, keep its limits, never ask
//! for two flushes at a time, and never say a durable sequence above the acknowledged one. Seeded:
//! see [`seawall_tests::fuzz`].
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{CacheClass, Caps, DevError};
use seawall_ipc::storeproto::{FEATURES, Hello, OpenRange, op, rights};
use seawall_ipc::{Reply, Request, encode_body, flags};
use seawall_store::session::{Core, CoreLimits, Effect, Job, SessionId, Step};
use seawall_tests::{Rng, fuzz};
use std::collections::BTreeMap;

const ROUNDS: u64 = 400;
const ACTS: usize = 300;
const SESSIONS_MAX: u32 = 5;
const IN_FLIGHT_MAX: u32 = 6;

struct Host {
    core: Core,
    live: Vec<SessionId>,
    jobs: Vec<Job>,
    flushing: bool,
    /// Requests without a reply, by session and cookie.
    open: BTreeMap<(SessionId, u64), u32>,
    cookie: u64,
}

impl Host {
    fn new(rng: &mut Rng) -> Self {
        let cache = rng.pick(&[
            CacheClass::Flushable,
            CacheClass::Flushable,
            CacheClass::WriteThrough,
            CacheClass::Unflushable,
            CacheClass::Unknown,
        ]);
        let caps = Caps {
            size: 64 * 512,
            logical: 512,
            physical: 512,
            atomic_write: 512,
            max_io: 1 << 20,
            cache,
            fua: rng.below(2) == 0,
            order: false,
            acked_survives_server_death: true,
            read_only: rng.below(8) == 0,
        };
        let limits = CoreLimits {
            sessions_max: SESSIONS_MAX,
            in_flight_max: IN_FLIGHT_MAX,
            ..CoreLimits::default()
        };
        let core = Core::new("fuzz".into(), caps, [1; 16], limits);
        let (live, jobs, open) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { core, live, jobs, flushing: false, open, cookie: 1 }
    }

    fn connect(&mut self, rng: &mut Rng) {
        let Some(id) = self.core.open_session() else {
            assert_eq!(self.live.len(), SESSIONS_MAX as usize);
            return;
        };
        self.live.push(id);
        if rng.below(8) != 0 {
            // Few ask for a place of their own: they shut the others out.
            let own = if rng.below(16) == 0 { 0 } else { FEATURES };
            let offered = rng.next() & !own;
            let hello = Hello { version: 1, offered, required: 0, client: "f".into() };
            self.request(rng, id, op::HELLO, encode_body(&hello).unwrap());
        }
    }

    fn any_request(&mut self, rng: &mut Rng) {
        if self.live.is_empty() {
            return self.connect(rng);
        }
        let id = rng.pick(&self.live);
        let op = rng.pick(&[
            op::READ,
            op::WRITE,
            op::WRITE,
            op::WRITE,
            op::WRITE_ZEROES,
            op::DISCARD,
            op::SYNC,
            op::SYNC,
            op::SYNC,
            op::CANCEL,
            op::CLEAR_FAULT,
            op::OPEN_RANGE,
            op::INFO,
            op::STATS,
            op::ATTACH,
            op::HELLO,
            op::BYE,
            77,
        ]);
        if op == op::BYE && rng.below(6) != 0 {
            return;
        }
        let body = match op {
            op::OPEN_RANGE => {
                let asked = OpenRange {
                    offset: rng.pick(&[0, 512, 4096, 100, u64::MAX]),
                    length: rng.pick(&[512, 4096, 64 * 512, 0, u64::MAX]),
                    rights: rng.pick(&[rights::ALL, rights::READ, 0, 7, u32::MAX]),
                    generation: rng.pick(&[0, 0, 0, 1]),
                };
                encode_body(&asked).unwrap()
            }
            op::HELLO => (0..rng.below(40)).map(|_| rng.next() as u8).collect(),
            _ => Vec::new(),
        };
        self.request(rng, id, op, body);
    }

    fn request(&mut self, rng: &mut Rng, id: SessionId, op: u16, mut body: Vec<u8>) {
        if rng.below(10) == 0 {
            body.truncate(rng.below(body.len()));
        }
        let length = rng.pick(&[512, 512, 1024, 4096, 0, 3, u64::MAX, 64 * 512]);
        let offset = match op {
            op::CANCEL => self.cookie.saturating_sub(rng.below(8) as u64),
            _ => rng.pick(&[0, 512, 1024, 4096, 31 * 512, 63 * 512, 7, u64::MAX - 511]),
        };
        let wild = rng.below(16) == 0;
        let request = Request {
            op,
            flags: match op {
                _ if wild => rng.next() as u16 & 0x3f,
                op::SYNC => rng.pick(&[0, flags::DRAIN]),
                op::WRITE => rng.pick(&[0, 0, 0, flags::FUA]),
                op::CLEAR_FAULT => flags::ACCEPT_LOSS,
                _ => 0,
            },
            cookie: self.cookie,
            offset,
            length,
            inline_len: if op == op::WRITE && !wild { length as u32 } else { body.len() as u32 },
            region: if wild { rng.next() as u32 } else { 0 },
            aux: rng.pick(&[0, 0, 1, 3, u32::MAX]),
            tag: rng.below(300) as u32,
            ..Request::default()
        };
        self.cookie += 1;
        *self.open.entry((id, request.cookie)).or_default() += 1;
        let mut out = Vec::new();
        let step = self.core.request(id, &request, &body, &mut out);
        self.take(rng, out);
        match step {
            Step::Done => {}
            Step::Io(job) => {
                assert!(job.run.end().unwrap() <= self.core.caps().size && job.run.len > 0);
                self.jobs.push(job);
            }
            Step::Cancel(cancel) => {
                let mine = |j: &Job| j.id == cancel.id && j.cookie == cancel.target;
                let at = self.jobs.iter().position(mine).filter(|_| rng.below(2) == 0);
                if let Some(at) = at {
                    let job = self.jobs.remove(at);
                    let mut out = Vec::new();
                    let reply = self.core.job_canceled(&job, &mut out);
                    self.answered(job.id, &reply);
                    self.take(rng, out);
                }
                let reply = self.core.cancel_done(cancel, at.is_some());
                self.answered(cancel.id, &reply);
            }
            Step::Close(_) => self.close(id),
        }
    }

    fn close(&mut self, id: SessionId) {
        self.core.close_session(id);
        self.live.retain(|l| *l != id);
        self.open.retain(|(session, _), _| *session != id);
        assert_eq!(self.core.in_flight(id), 0);
    }

    fn answered(&mut self, id: SessionId, reply: &Reply) {
        if !self.live.contains(&id) {
            return;
        }
        let left = self.open.get_mut(&(id, reply.cookie)).filter(|n| **n > 0);
        *left.unwrap_or_else(|| panic!("answered twice: {reply:?}")) -= 1;
        if self.open[&(id, reply.cookie)] == 0 {
            self.open.remove(&(id, reply.cookie));
        }
    }

    fn take(&mut self, rng: &mut Rng, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { id, reply, .. } => {
                    if reply.op == op::SYNC && reply.status == 0 {
                        let class = self.core.caps().cache;
                        assert!(class.can_promise() && reply.value <= self.core.seqs().acked.0);
                    }
                    self.answered(id, &reply);
                }
                Effect::Mint { id, minted, reply } if rng.below(4) == 0 => {
                    let reply = self.core.mint_failed(id, minted, reply);
                    self.answered(id, &reply);
                }
                Effect::Mint { id, minted, reply } => {
                    self.live.push(minted);
                    assert!(self.live.len() <= SESSIONS_MAX as usize);
                    self.answered(id, &reply);
                }
                Effect::LossAccepted { lost, .. } => assert!(lost.after <= lost.through),
                Effect::Flush => {
                    assert!(!self.flushing, "two flushes at a time");
                    self.flushing = true;
                }
            }
        }
    }

    fn finish_job(&mut self, rng: &mut Rng) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.swap_remove(rng.below(self.jobs.len()));
        let result = if rng.below(8) == 0 { Err(DevError::Io) } else { Ok(()) };
        let mut out = Vec::new();
        let reply = self.core.job_done(&job, result, &mut out);
        assert_eq!(reply.cookie, job.cookie);
        self.answered(job.id, &reply);
        self.take(rng, out);
    }

    fn finish_flush(&mut self, rng: &mut Rng) {
        if !core::mem::take(&mut self.flushing) {
            return;
        }
        let result = if rng.below(5) == 0 { Err(DevError::Io) } else { Ok(()) };
        let mut out = Vec::new();
        self.core.flush_done(result, &mut out);
        self.take(rng, out);
    }

    fn act(&mut self, rng: &mut Rng) {
        match rng.below(20) {
            0 => self.connect(rng),
            1 if rng.below(4) == 0 && !self.live.is_empty() => {
                let id = rng.pick(&self.live);
                self.close(id);
            }
            2..=6 => self.finish_job(rng),
            7..=8 => self.finish_flush(rng),
            _ => self.any_request(rng),
        }
        for id in &self.live {
            assert!(self.core.in_flight(*id) <= IN_FLIGHT_MAX);
        }
        let seqs = self.core.seqs();
        assert!(seqs.durable <= seqs.acked);
    }
}

fn round(rng: &mut Rng) {
    let mut host = Host::new(rng);
    for _ in 0..ACTS {
        host.act(rng);
    }
    // Everything that is under way ends, and everything is answered.
    while !host.jobs.is_empty() || host.flushing {
        host.finish_job(rng);
        host.finish_flush(rng);
    }
    assert!(host.open.is_empty(), "without a reply: {:?}", host.open);
    assert!(host.live.iter().all(|id| host.core.in_flight(*id) == 0));
}

#[test]
fn arbitrary_requests_are_answered_once_and_within_the_limits() {
    fuzz(ROUNDS, round);
}
