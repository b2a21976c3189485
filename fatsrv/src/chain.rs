//! Cluster chains, as runs.
//!
//! A chain can only be walked from its start, so what was walked is kept
//! ([`Tx::learn_run`](seawall_diskfs::Tx::learn_run)) and a walk goes on from there. A chain that
//! comes back to a cluster of its own is `Corrupt` at the very entry that closes the loop: no
//! cluster is ever handed out twice for one file.

use crate::Fat;
use crate::table::{Entry, Reader};
use alloc::collections::BTreeMap;
use alloc::format;
use seawall_diskfs::{Attempt, Ino, Run, Tx};

/// Where a walk arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// The chain has no clusters.
    Empty,
    /// This run covers the cluster that was asked for.
    Covers(Run),
    /// The chain ends with this run, before that cluster.
    Ends(Run),
}

/// A walk under way.
struct Walk {
    run: Run,
    /// Units of `run`, counted from its start, that are known already.
    known: u64,
    /// Runs of this walk that could not be learned: place and length.
    own: BTreeMap<u64, u64>,
    /// No contiguous step may reach this place: a run of the chain begins there.
    limit: u64,
    reader: Reader,
}

impl Walk {
    fn last(&self) -> u32 {
        // Places are cluster numbers.
        (self.run.disk + self.run.len - 1) as u32
    }

    /// Notes what was found since the last call.
    fn learn(&mut self, tx: &mut Tx<'_>, ino: Ino) {
        let r = self.run;
        let news = r.len - self.known;
        if news > 0 {
            let found = Run { file: r.file + self.known, disk: r.disk + self.known, len: news };
            tx.learn_run(ino, found);
            self.known = r.len;
        }
    }

    fn begin(&mut self, tx: &mut Tx<'_>, ino: Ino, next: u64) {
        self.learn(tx, ino);
        self.own.insert(self.run.disk, self.run.len);
        self.run = Run { file: self.run.end(), disk: next, len: 1 };
        self.known = 0;
        self.set_limit(tx, ino);
    }

    fn set_limit(&mut self, tx: &Tx<'_>, ino: Ino) {
        let known = tx.run_next_place(ino, self.run.disk).unwrap_or(u64::MAX);
        let own = self.own.range(self.run.disk + 1..).next();
        self.limit = known.min(own.map_or(u64::MAX, |(start, _)| *start));
    }

    /// True when the chain was at this place before.
    fn was_at(&self, tx: &Tx<'_>, ino: Ino, place: u64) -> bool {
        let here = place >= self.run.disk && place < self.run.disk + self.run.len;
        let own = self.own.range(..=place).next_back();
        here || tx.run_holds(ino, place) || own.is_some_and(|(start, len)| place - start < *len)
    }
}

impl Fat {
    /// Walks the chain of `ino`, which begins at `start` (0: it has none), to its cluster number
    /// `at`, counted from 0.
    pub(crate) fn walk(&self, tx: &mut Tx<'_>, ino: Ino, start: u32, at: u64) -> Attempt<Walked> {
        if start == 0 {
            return Ok(Walked::Empty);
        }
        if self.boot.cluster_start(start).is_none() {
            let what = format!("a chain begins at cluster {start}");
            return Err(seawall_diskfs::FsError::corrupt("directory entry", 0, what).into());
        }
        if tx.run_at(ino, 0).is_some_and(|r| r.disk != u64::from(start)) {
            tx.forget_runs(ino, 0);
        }
        let (run, known) = match tx.run_at(ino, at) {
            Some(r) if r.place(at).is_some() => return Ok(Walked::Covers(r)),
            Some(r) => (r, r.len),
            None => (Run { file: 0, disk: u64::from(start), len: 1 }, 0),
        };
        let own = BTreeMap::new();
        let mut w = Walk { run, known, own, limit: u64::MAX, reader: Reader::default() };
        w.set_limit(tx, ino);
        while w.run.end() <= at {
            let last = w.last();
            let entry = match w.reader.get(self, tx, last) {
                Ok(e) => e,
                Err(fault) => {
                    w.learn(tx, ino);
                    return Err(fault);
                }
            };
            match entry {
                Entry::End => {
                    w.learn(tx, ino);
                    return Ok(Walked::Ends(w.run));
                }
                Entry::Next(n) => {
                    let n = u64::from(n);
                    let follows = n == u64::from(last) + 1 && n < w.limit;
                    if follows {
                        w.run.len += 1;
                    } else if w.was_at(tx, ino, n) {
                        w.learn(tx, ino);
                        let what = format!("a chain returns from cluster {last} to cluster {n}");
                        return Err(self.bad_entry(last, what).into());
                    } else {
                        w.begin(tx, ino, n);
                    }
                }
                Entry::Free | Entry::Bad => {
                    w.learn(tx, ino);
                    let is = if entry == Entry::Free { "free" } else { "bad" };
                    let what = format!("a chain leads to cluster {last}, which is {is}");
                    return Err(self.bad_entry(last, what).into());
                }
            }
        }
        w.learn(tx, ino);
        Ok(Walked::Covers(w.run))
    }

    /// The last cluster of a chain, and how many there are; `None` for a chain without clusters.
    pub(crate) fn chain_end(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        start: u32,
    ) -> Attempt<Option<(u32, u64)>> {
        Ok(match self.walk(tx, ino, start, u64::MAX - 1)? {
            Walked::Empty => None,
            Walked::Ends(r) | Walked::Covers(r) => Some(((r.disk + r.len - 1) as u32, r.end())),
        })
    }
}
