//! What SYNC says, against a naive device that loses whatever it may lose.
//!
//! Random interleavings of several sessions, of writes that reach the device at any time between
//! request and answer, and of flushes that succeed and fail. The device drops everything it holds
//! unwritten when a flush fails, and reports the next flush as a success, as kernels do.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use seawall_blockdev::{CacheClass, Caps, DevError};
use seawall_ipc::storeproto::{Hello, op};
use seawall_ipc::{Reply, Request, encode_body, flags};
use seawall_store::session::{Core, CoreLimits, Effect, Job, JobKind, Step};
use std::collections::HashMap;

const UNITS: u64 = 6;
const SESSIONS: u64 = 3;

#[derive(Clone, Debug)]
enum Act {
    Write {
        session: u64,
        unit: u64,
        fua: bool,
    },
    /// The device takes a write that is under way.
    Apply(prop::sample::Index),
    /// It is answered.
    Finish(prop::sample::Index, bool),
    Sync {
        session: u64,
        drain: bool,
        reads_replies: bool,
    },
    FlushEnds(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..SESSIONS, 0..UNITS, prop::bool::weighted(0.1))
            .prop_map(|(session, unit, fua)| Act::Write { session, unit, fua }),
        4 => index().prop_map(Act::Apply),
        4 => (index(), prop::bool::weighted(0.9)).prop_map(|(i, ok)| Act::Finish(i, ok)),
        3 => (0..SESSIONS, any::<bool>(), any::<bool>()).prop_map(
            |(session, drain, reads_replies)| Act::Sync { session, drain, reads_replies }
        ),
        3 => prop::bool::weighted(0.75).prop_map(Act::FlushEnds),
    ]
}

/// One unit of the device. Versions are the order in which the device took writes.
#[derive(Clone, Copy, Default)]
struct Unit {
    cached: u64,
    dirty: bool,
    media: u64,
}

struct Write {
    session: u64,
    /// Place among all requests.
    order: u64,
    unit: u64,
    applied: u64,
    acked: Option<u64>,
    failed: bool,
    /// The failure was reported by a DRAIN, or its reply was read before one.
    told: bool,
    fua: bool,
}

struct Sync {
    session: u64,
    order: u64,
    drain: bool,
    /// Writes whose failure the client had read when it sent this.
    seen: Vec<u64>,
    acked_before: Vec<u64>,
}

struct World {
    core: Core,
    ids: Vec<u64>,
    units: Vec<Unit>,
    /// Unit and version on their way to the medium.
    flushing: Option<Vec<(usize, u64)>>,
    jobs: Vec<Job>,
    writes: HashMap<u64, Write>,
    syncs: HashMap<u64, Sync>,
    /// Failed writes by session, in the order of their replies.
    failures: Vec<Vec<u64>>,
    cookie: u64,
    version: u64,
    oks: u64,
}

fn caps(cache: CacheClass) -> Caps {
    Caps {
        size: UNITS * 512,
        logical: 512,
        physical: 512,
        atomic_write: 512,
        max_io: 1 << 20,
        cache,
        fua: true,
        order: false,
        acked_survives_server_death: true,
        read_only: false,
    }
}

impl World {
    fn new(cache: CacheClass) -> Self {
        let limits = CoreLimits { in_flight_max: 10_000, ..CoreLimits::default() };
        let mut core = Core::new("model".into(), caps(cache), [1; 16], limits);
        let hello = Hello { version: 1, offered: 0, required: 0, client: String::new() };
        let body = encode_body(&hello).unwrap();
        let ids: Vec<u64> = (0..SESSIONS).map(|_| core.open_session().unwrap()).collect();
        for id in &ids {
            let request = Request { op: op::HELLO, ..Request::default() };
            core.request(*id, &request, &body, &mut Vec::new());
        }
        Self {
            core,
            ids,
            units: vec![Unit::default(); UNITS as usize],
            flushing: None,
            jobs: Vec::new(),
            writes: HashMap::new(),
            syncs: HashMap::new(),
            failures: vec![Vec::new(); SESSIONS as usize],
            cookie: 0,
            version: 0,
            oks: 0,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Write { session, unit, fua } => self.write(*session, *unit, *fua),
            Act::Apply(index) if !self.jobs.is_empty() => {
                let cookie = index.get(&self.jobs).cookie;
                self.apply(cookie);
            }
            Act::Finish(index, ok) if !self.jobs.is_empty() => {
                let at = index.index(self.jobs.len());
                self.finish(at, *ok);
            }
            Act::Sync { session, drain, reads_replies } => {
                self.sync(*session, *drain, *reads_replies);
            }
            Act::FlushEnds(ok) => self.flush_ends(*ok),
            Act::Apply(_) | Act::Finish(..) => {}
        }
        self.durable_is_true();
    }

    fn write(&mut self, session: u64, unit: u64, fua: bool) {
        self.cookie += 1;
        let cookie = self.cookie;
        let flags = if fua { flags::FUA } else { 0 };
        let request = Request {
            op: op::WRITE,
            flags,
            cookie,
            offset: unit * 512,
            length: 512,
            inline_len: 512,
            ..Request::default()
        };
        let order = cookie;
        let write = Write {
            session,
            order,
            unit,
            applied: 0,
            acked: None,
            failed: false,
            told: false,
            fua,
        };
        self.writes.insert(cookie, write);
        let mut out = Vec::new();
        match self.core.request(self.ids[session as usize], &request, &[], &mut out) {
            Step::Io(job) => self.jobs.push(job),
            Step::Done => assert!(fua, "only a FUA write is refused, after a failed flush"),
            Step::Close(reason) => panic!("{reason:?}"),
            Step::Cancel(cancel) => panic!("{cancel:?}"),
        }
        self.take(out);
    }

    fn apply(&mut self, cookie: u64) {
        let write = self.writes.get_mut(&cookie).unwrap();
        if write.applied > 0 {
            return;
        }
        self.version += 1;
        write.applied = self.version;
        let unit = &mut self.units[write.unit as usize];
        unit.cached = self.version;
        if write.fua {
            unit.media = self.version;
        } else {
            unit.dirty = true;
        }
    }

    fn finish(&mut self, at: usize, ok: bool) {
        let job = self.jobs.swap_remove(at);
        assert!(matches!(job.kind, JobKind::Write { .. }));
        if ok {
            self.apply(job.cookie);
        }
        let mut out = Vec::new();
        let result = if ok { Ok(()) } else { Err(DevError::Io) };
        let reply = self.core.job_done(&job, result, &mut out);
        self.write_reply(&reply);
        self.take(out);
    }

    fn write_reply(&mut self, reply: &Reply) {
        let write = self.writes.get_mut(&reply.cookie).unwrap();
        if reply.status == 0 {
            write.acked = Some(reply.value);
            if write.fua {
                assert!(self.units[write.unit as usize].media >= write.applied);
            }
        } else {
            write.failed = true;
            self.failures[write.session as usize].push(reply.cookie);
        }
    }

    fn sync(&mut self, session: u64, drain: bool, reads_replies: bool) {
        self.cookie += 1;
        let cookie = self.cookie;
        let failures = &self.failures[session as usize];
        let seen = if reads_replies { failures.clone() } else { Vec::new() };
        let acked = |w: &&u64| self.writes[*w].acked.is_some();
        let acked_before = self.writes.keys().filter(acked).copied().collect();
        let aux = seen.len() as u32;
        self.syncs.insert(cookie, Sync { session, order: cookie, drain, seen, acked_before });
        let flags = if drain { flags::DRAIN } else { 0 };
        let request = Request { op: op::SYNC, cookie, flags, aux, ..Request::default() };
        let mut out = Vec::new();
        self.core.request(self.ids[session as usize], &request, &[], &mut out);
        self.take(out);
    }

    fn flush_ends(&mut self, ok: bool) {
        let Some(flushing) = self.flushing.take() else { return };
        let result = if ok {
            for (unit, version) in flushing {
                self.units[unit].media = self.units[unit].media.max(version);
            }
            Ok(())
        } else {
            // Everything unwritten is dropped and will not be tried again.
            self.units.iter_mut().for_each(|unit| unit.dirty = false);
            Err(DevError::Io)
        };
        let mut out = Vec::new();
        self.core.flush_done(result, &mut out);
        self.take(out);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Mint { .. } | Effect::LossAccepted { .. } => panic!("{effect:?}"),
                Effect::Flush => {
                    assert!(self.flushing.is_none(), "two flushes at a time");
                    let mut list = Vec::new();
                    for (i, unit) in self.units.iter_mut().enumerate().filter(|(_, u)| u.dirty) {
                        unit.dirty = false;
                        list.push((i, unit.cached));
                    }
                    self.flushing = Some(list);
                }
                Effect::Reply { reply, .. } if reply.op == op::SYNC => self.sync_reply(&reply),
                Effect::Reply { reply, .. } => self.write_reply(&reply),
            }
        }
    }

    fn is_on_media(&self, write: &Write) -> bool {
        self.units[write.unit as usize].media >= write.applied
    }

    fn sync_reply(&mut self, reply: &Reply) {
        let sync = self.syncs.remove(&reply.cookie).unwrap();
        let earlier = |w: &Write| w.session == sync.session && w.order < sync.order;
        let untold: Vec<u64> = self
            .writes
            .iter()
            .filter(|(c, w)| earlier(w) && w.failed && !w.told && !sync.seen.contains(c))
            .map(|(c, _)| *c)
            .collect();
        if sync.drain {
            assert!(!self.writes.values().any(|w| earlier(w) && w.acked.is_none() && !w.failed));
            for write in self.writes.values_mut().filter(|w| earlier(w) && w.failed) {
                write.told = true;
            }
        }
        if reply.status != 0 {
            return;
        }
        self.oks += 1;
        assert!(self.core.caps().cache.can_promise());
        for cookie in &sync.acked_before {
            assert!(self.is_on_media(&self.writes[cookie]), "acknowledged, synced, not durable");
        }
        for write in self.writes.values() {
            let covered = write.acked.is_some_and(|seq| seq <= reply.value);
            let drained = sync.drain && earlier(write) && !write.failed;
            assert!(!(covered || drained) || self.is_on_media(write));
        }
        assert!(!sync.drain || untold.is_empty(), "an error was not told");
    }

    /// The durable sequence never leads.
    fn durable_is_true(&self) {
        let durable = self.core.seqs().durable.0;
        for write in self.writes.values() {
            let covered = write.acked.is_some_and(|seq| seq <= durable);
            assert!(!covered || self.is_on_media(write), "durable leads");
        }
    }

    fn settle(&mut self) {
        while !self.jobs.is_empty() || self.flushing.is_some() {
            while !self.jobs.is_empty() {
                self.finish(0, true);
            }
            self.flush_ends(true);
        }
        assert!(self.syncs.is_empty(), "a sync was never answered");
        for id in &self.ids {
            assert_eq!(self.core.in_flight(*id), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_sync_that_says_ok_is_never_a_lie(acts in prop::collection::vec(act(), 1..80)) {
        let mut world = World::new(CacheClass::Flushable);
        acts.iter().for_each(|act| world.act(act));
        world.settle();
        // Nothing stays broken for ever: once all is written again, a sync succeeds.
        for unit in 0..UNITS {
            world.write(0, unit, false);
        }
        world.settle();
        let before = world.oks;
        world.sync(0, false, false);
        world.settle();
        prop_assert_eq!(world.oks, before + 1);
        prop_assert!(!world.core.info().faulted);
        // And an error is told once: a second DRAIN has nothing left to report.
        world.sync(0, true, false);
        world.settle();
        let before = world.oks;
        world.sync(0, true, false);
        world.settle();
        prop_assert_eq!(world.oks, before + 1);
    }

    #[test]
    fn a_device_that_cannot_flush_never_gets_an_ok(acts in prop::collection::vec(act(), 1..60)) {
        for cache in [CacheClass::Unflushable, CacheClass::Unknown] {
            let mut world = World::new(cache);
            acts.iter().for_each(|act| world.act(act));
            world.settle();
            prop_assert_eq!(world.oks, 0);
            prop_assert_eq!(world.core.seqs().durable.0, 0);
        }
    }
}
