//! HELLO, and who may write beside whom.
//!
//! A filesystem server caches what it read and owns what it writes: a second one over the same
//! blocks, or an mkfs, and each destroys what the other wrote. So a session can ask in HELLO to be
//! the only writer ([`feature::EXCLUSIVE`]). It is refused with EBUSY while another session may
//! write, and while it lives those that may write are refused. Sessions that gave up writing
//! ([`feature::READ_ONLY`]) are in nobody's way and nobody is in theirs.
//!
//! * Two sessions meet only where their windows overlap: each partition has a writer of its own.
//! * A session and those minted from it, at any remove, are one writer. Two siblings are not.
//! * The lock ends with the session, when the last write it asked for has ended, so that a late
//!   write of a dead client cannot hit what its successor wrote.
//! * A second HELLO on a session can ask for more, never give back: requests that were admitted
//!   under the first may not have run yet.
//! * On a store that is read-only nobody writes, and everybody is let in.

use super::member::Member;
use super::{CloseReason, Core, Effect, SessionId, Step, answer};
use crate::stats::Count;
use alloc::vec::Vec;
use seawall_blockdev::{Run, Tag};
use seawall_ipc::storeproto::{FEATURES, Hello, HelloReply, InUse, Version, feature};
use seawall_ipc::{Request, Status, decode_body};

/// What a HELLO makes of its session.
#[derive(Clone, Copy)]
struct Wish {
    writes: bool,
    exclusive: bool,
}

impl Core {
    pub(super) fn hello(
        &mut self,
        id: SessionId,
        request: &Request,
        body: &[u8],
        out: &mut Vec<Effect>,
    ) -> Step {
        let Ok(hello) = decode_body::<Hello>(body) else {
            return Step::Close(CloseReason::Body);
        };
        let version = Version::CURRENT as u16;
        if hello.required & !FEATURES != 0 || hello.version != version {
            out.push(Effect::reply(id, answer(request, Status::EPROTO, FEATURES)));
            return Step::Done;
        }
        let wish = match self.wish(id, &hello) {
            Ok(wish) => wish,
            Err(status) => return self.refuse(id, request, status, out),
        };
        if let Some(in_use) = self.in_use(id, wish) {
            self.count(id, Tag(request.tag), Count::Error);
            let reply = answer(request, Status::EBUSY, 0);
            return self.reply_with_body(id, request, reply, &in_use, out);
        }
        self.greet(id, &hello, wish);
        let reply = HelloReply {
            version,
            features: (hello.offered | hello.required) & FEATURES,
            boot_id: self.boot_id,
            session_id: id,
            generation: self.generation_of(id),
            in_flight_max: self.limits.in_flight_max,
            payload_max: self.limits.payload_max,
        };
        self.reply_body(id, request, &reply, out)
    }

    fn wish(&self, id: SessionId, hello: &Hello) -> Result<Wish, Status> {
        let member = self.members.get(&id).ok_or(Status::ESTALE)?;
        let asked = hello.offered | hello.required;
        let gives_up = asked & feature::READ_ONLY != 0;
        let exclusive = asked & feature::EXCLUSIVE != 0;
        if exclusive && gives_up {
            return Err(Status::EINVAL);
        }
        if exclusive && !member.could_write() {
            return Err(Status::EPERM);
        }
        let wrote = member.greeted && !member.gave_up;
        let writes = member.could_write() && (wrote || !gives_up) && !self.caps.read_only;
        Ok(Wish { writes, exclusive: exclusive || member.generation != 0 })
    }

    fn greet(&mut self, id: SessionId, hello: &Hello, wish: Wish) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.gave_up = !wish.writes && (hello.offered | hello.required) & feature::READ_ONLY != 0;
        member.greeted = true;
        member.client = hello.client.chars().take(64).filter(|c| !c.is_control()).collect();
        if wish.writes && wish.exclusive && member.generation == 0 {
            self.generation = self.generation.saturating_add(1);
            member.generation = self.generation;
        }
    }

    /// Sessions because of which this one cannot have what it wishes.
    fn blockers(&self, id: SessionId, wish: Wish) -> impl Iterator<Item = (SessionId, &Member)> {
        let mine = self.members.get(&id).filter(|_| wish.writes);
        self.members.iter().map(|(other, m)| (*other, m)).filter(move |(other, m)| {
            let writes = m.greeted && m.could_write() && !m.gave_up;
            let meets = mine.is_some_and(|mine| {
                let related = mine.ancestors.contains(other) || m.ancestors.contains(&id);
                !related && overlap(mine.window, m.window)
            });
            *other != id && writes && meets && (wish.exclusive || m.generation != 0)
        })
    }

    fn in_use(&self, id: SessionId, wish: Wish) -> Option<InUse> {
        let count = self.blockers(id, wish).count();
        let exclusive = self.blockers(id, wish).find(|(_, m)| m.generation != 0);
        let (other, member) = exclusive.or_else(|| self.blockers(id, wish).next())?;
        Some(InUse {
            session_id: other,
            client: member.client.clone(),
            exclusive: member.generation != 0,
            more: u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX),
        })
    }

    /// Sessions that would make this HELLO fail with EBUSY. A host that knows that the client of
    /// one of them is gone lets it end first.
    pub fn in_the_way(&self, id: SessionId, body: &[u8]) -> Vec<SessionId> {
        let hello = decode_body::<Hello>(body).ok();
        let wish = hello.and_then(|hello| self.wish(id, &hello).ok());
        let ids = wish.map(|wish| self.blockers(id, wish).map(|(other, _)| other).collect());
        ids.unwrap_or_default()
    }

    /// The generation of the exclusive writer a session meets, 0 if there is none.
    fn generation_of(&self, id: SessionId) -> u64 {
        let Some(mine) = self.members.get(&id) else { return 0 };
        let meets = self.members.values().filter(|m| overlap(mine.window, m.window));
        meets.map(|m| m.generation).max().unwrap_or(0)
    }
}

fn overlap(a: Run, b: Run) -> bool {
    let (a_end, b_end) = (a.start.saturating_add(a.len), b.start.saturating_add(b.len));
    a.start < b_end && b.start < a_end
}
