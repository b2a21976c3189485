//! The f2fs thread's load on a model allocator: one log head, blocks given at writeback one page at
//! a time, one open request for all inodes, `merge_boundary = inode_offset` with inline encryption,
//! `exclusion = global{min_bytes}`.
//!
//! This is not an engine of the servers: ext2 and FAT give blocks when data is written, and cannot
//! be made to do what the thread is about. Reports name it "model allocator".

use crate::seed::Seed;
use crate::target::Nanos;
use seawall_store::sim::UFS;
use std::collections::VecDeque;

const PAGE: u64 = 4096;
/// Pages of the largest request: 1 MiB.
const REQUEST_PAGES: u64 = 256;
/// Blocks of a segment of the log.
const SEGMENT_BLOCKS: u64 = 512;
/// Chance, of 2^32, that the next page is the same writer's: 0.092. Fitted on the shares before; a
/// fair lock among eight would have 1/8.
const SAME: u64 = 395_136_991;
/// Chance, of 2^32, that the next segment of the log does not follow the last one: 0.45. Fitted on
/// the shares after.
const GAP: u64 = 1_932_735_283;
/// Chance, of 2^32, that a synchronous write's node request is one block and not two: 0.18. Fitted
/// on the shares after.
const ONE_NODE: u64 = 773_094_113;

/// What runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fio {
    /// Writers, each in its own file.
    pub(crate) writers: usize,
    /// Bytes of a write: this times a number drawn from 1 to `spread`.
    pub(crate) write: u64,
    /// See `write`.
    pub(crate) spread: u64,
    /// Inline encryption: a request holds one inode, at offsets that follow each other.
    pub(crate) crypto: bool,
    /// Inodes with inline encryption take turns whatever their size.
    pub(crate) serialize_crypto: bool,
    /// Dirty pages from which on an inode takes the filesystem's turn.
    pub(crate) min_seq_blocks: u64,
    /// Virtual time.
    pub(crate) runtime: Nanos,
    /// What a page costs its writer, ns. Declared, not measured; the device is the bound in both of
    /// the thread's rows. With none, a writer that is alone for a moment gives all its pages before
    /// anybody wakes, and the eight fall into taking turns by themselves.
    pub(crate) page: Nanos,
}

impl Fio {
    /// The thread's load: 8 writers of 1 MiB, O_SYNC, 60 s, inline encryption.
    pub(crate) const THREAD: Self = Self {
        writers: 8,
        write: 1 << 20,
        spread: 1,
        crypto: true,
        serialize_crypto: false,
        min_seq_blocks: 512,
        runtime: 60_000_000_000,
        page: 2_000,
    };
}

/// The thread's two rows, and thresholds swept around the pages of one write.
pub(crate) fn table(short: bool) -> Vec<(&'static str, Fio)> {
    let runtime = if short { 1_000_000_000 } else { Fio::THREAD.runtime };
    let thread = Fio { runtime, ..Fio::THREAD };
    let sweep = Fio { runtime: runtime.min(5_000_000_000), ..thread };
    let mut out = vec![
        ("no-serialize", thread),
        ("serialize-inline-crypto", Fio { serialize_crypto: true, ..thread }),
    ];
    for min_seq_blocks in [64, 128, 255, 256, 257, 384, 512] {
        out.push(("serialize-by-size", Fio { min_seq_blocks, ..sweep }));
    }
    out
}

/// What it gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gave {
    /// Virtual seconds.
    pub(crate) seconds: f64,
    /// Content written and acknowledged, bytes.
    pub(crate) bytes: u64,
    /// Requests: all, of 4 KiB, of 8 KiB, of 512 KiB and more.
    pub(crate) requests: [u64; 4],
    /// Bytes in requests.
    pub(crate) sent: u64,
    /// p99 of a write, ms.
    pub(crate) p99: f64,
}

impl Gave {
    /// Values by the names of the thread's tables.
    pub(crate) fn metrics(&self) -> Vec<(&'static str, f64)> {
        let [all, four, eight, large] = self.requests.map(|n| n as f64);
        vec![
            ("throughput", self.bytes as f64 / f64::from(1 << 20) / self.seconds),
            // Of a minute, so that shorter runs can be compared.
            ("requests", all * 60.0 / self.seconds),
            ("share_4KiB", four / all * 100.0),
            ("share_8KiB", eight / all * 100.0),
            ("share_ge512KiB", large / all * 100.0),
            ("p99_ms", self.p99),
        ]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the filesystem's turn.
    Turn,
    /// Takes pages.
    Walks,
    /// Waits until its data is acknowledged.
    Data(Nanos),
    /// Waits until its node is acknowledged.
    Node(Nanos),
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    state: State,
    begun: Nanos,
    /// Pages of this write, and how many have blocks.
    pages: u64,
    given: u64,
    /// Offset of its next page in the file, pages.
    index: u64,
    /// When its last request is acknowledged.
    acked: Nanos,
}

/// The request that grows at the head of the log.
#[derive(Clone, Copy, Debug)]
struct Open {
    writer: usize,
    next_index: u64,
    next_block: u64,
    pages: u64,
}

/// What the device spends on a request, picoseconds: a page is 2.2 us, and whole nanoseconds would
/// add up.
fn cost(bytes: u64) -> u128 {
    let moved = u128::from(bytes) * 1_000_000_000_000 / u128::from(UFS.rate.max(1));
    u128::from(UFS.write_command) * 1000 + moved
}

struct Log {
    now: Nanos,
    /// When the device is free, picoseconds.
    free: u128,
    flying: VecDeque<Nanos>,
    head: u64,
    open: Option<Open>,
    /// Writers with pages in the open request.
    in_open: u64,
    requests: [u64; 4],
    sent: u64,
}

impl Log {
    /// Sends a request; returns when it is acknowledged.
    fn send(&mut self, bytes: u64) -> Nanos {
        while self.flying.front().is_some_and(|t| *t <= self.now) {
            self.flying.pop_front();
        }
        if self.flying.len() >= UFS.slots as usize
            && let Some(t) = self.flying.pop_front()
        {
            self.now = self.now.max(t);
        }
        let start = self.free.max(u128::from(self.now) * 1000);
        self.free = start + cost(bytes);
        let acked = u64::try_from(self.free / 1000).unwrap_or(u64::MAX);
        self.flying.push_back(acked);
        let [all, four, eight, large] = &mut self.requests;
        *all += 1;
        *four += u64::from(bytes == 4096);
        *eight += u64::from(bytes == 8192);
        *large += u64::from(bytes >= 512 << 10);
        self.sent += bytes;
        acked
    }

    fn submit_open(&mut self, writers: &mut [Writer]) {
        let Some(open) = self.open.take() else { return };
        let acked = self.send(open.pages * PAGE);
        for (at, w) in writers.iter_mut().enumerate() {
            if self.in_open & (1 << at) != 0 {
                w.acked = acked;
            }
        }
        self.in_open = 0;
    }

    /// Gives a page of `w` the block at the head.
    fn give(&mut self, w: usize, fio: &Fio, writers: &mut [Writer], rng: &mut Seed) {
        self.now += fio.page;
        if self.head.is_multiple_of(SEGMENT_BLOCKS) && rng.draw() >> 32 < GAP {
            // The log goes on where it finds room.
            self.head += SEGMENT_BLOCKS + rng.draw() % SEGMENT_BLOCKS;
        }
        let block = self.head;
        self.head += 1;
        let Some(index) = writers.get(w).map(|x| x.index) else { return };
        let merges = self.open.is_some_and(|o| {
            o.next_block == block
                && o.pages < REQUEST_PAGES
                && (!fio.crypto || (o.writer == w && o.next_index == index))
        });
        if !merges {
            self.submit_open(writers);
        }
        let pages = self.open.map_or(0, |o| o.pages) + 1;
        self.open = Some(Open { writer: w, next_index: index + 1, next_block: block + 1, pages });
        self.in_open |= 1 << w;
        if let Some(x) = writers.get_mut(w) {
            x.index += 1;
            x.given += 1;
        }
    }
}

struct Run<'a> {
    fio: &'a Fio,
    rng: Seed,
    log: Log,
    writers: Vec<Writer>,
    turn: Option<usize>,
    waiting: VecDeque<usize>,
    last: usize,
    bytes: u64,
    took: Vec<Nanos>,
}

/// Runs the load.
pub(crate) fn run(fio: &Fio, seed: u64) -> Gave {
    let log = Log {
        now: 0,
        free: 0,
        flying: VecDeque::new(),
        head: 0,
        open: None,
        in_open: 0,
        requests: [0; 4],
        sent: 0,
    };
    let mut run = Run {
        fio,
        rng: Seed::new(seed),
        log,
        writers: Vec::new(),
        turn: None,
        waiting: VecDeque::new(),
        last: 0,
        bytes: 0,
        took: Vec::new(),
    };
    let idle = Writer { state: State::Turn, begun: 0, pages: 0, given: 0, index: 0, acked: 0 };
    run.writers = vec![idle; fio.writers];
    run.log.head = run.rng.draw() % SEGMENT_BLOCKS;
    for w in 0..fio.writers {
        run.begin(w);
    }
    while run.log.now < fio.runtime {
        run.step();
    }
    run.took.sort_unstable();
    let p99 = run.took.get(run.took.len() * 99 / 100).copied().unwrap_or(0);
    Gave {
        seconds: fio.runtime as f64 / 1e9,
        bytes: run.bytes,
        requests: run.log.requests,
        sent: run.log.sent,
        p99: p99 as f64 / 1e6,
    }
}

impl Run<'_> {
    fn begin(&mut self, w: usize) {
        let units = 1 + self.rng.draw() % self.fio.spread.max(1);
        let pages = self.fio.write * units / PAGE;
        let turns =
            self.fio.crypto && self.fio.serialize_crypto || pages >= self.fio.min_seq_blocks;
        let state = if turns { State::Turn } else { State::Walks };
        if let Some(x) = self.writers.get_mut(w) {
            *x = Writer { state, begun: self.log.now, pages, given: 0, ..*x };
        }
        if turns {
            self.waiting.push_back(w);
            self.pass_turn();
        }
    }

    fn pass_turn(&mut self) {
        if self.turn.is_none()
            && let Some(w) = self.waiting.pop_front()
        {
            self.turn = Some(w);
            if let Some(x) = self.writers.get_mut(w) {
                x.state = State::Walks;
            }
        }
    }

    /// Those whose requests were acknowledged go on.
    fn wake(&mut self) {
        for w in 0..self.writers.len() {
            let Some(x) = self.writers.get_mut(w) else { return };
            match x.state {
                State::Data(t) if t <= self.log.now => {
                    let one = self.rng.draw() >> 32 < ONE_NODE;
                    let acked = self.log.send(if one { PAGE } else { 2 * PAGE });
                    x.state = State::Node(acked);
                }
                State::Node(t) if t <= self.log.now => {
                    self.bytes += x.pages * PAGE;
                    self.took.push(t.saturating_sub(x.begun));
                    self.begin(w);
                }
                _ => {}
            }
        }
    }

    /// The writer whose page is next.
    fn pick(&mut self) -> Option<usize> {
        let walks = |w: usize, all: &[Writer]| all.get(w).is_some_and(|x| x.state == State::Walks);
        let others = (0..self.writers.len())
            .filter(|w| *w != self.last && walks(*w, &self.writers))
            .count() as u64;
        let mine = walks(self.last, &self.writers);
        if others == 0 {
            return mine.then_some(self.last);
        }
        let draw = self.rng.draw();
        if mine && draw >> 32 < SAME {
            return Some(self.last);
        }
        let nth = usize::try_from((draw & 0xFFFF_FFFF) % others).unwrap_or(0);
        (0..self.writers.len()).filter(|w| *w != self.last && walks(*w, &self.writers)).nth(nth)
    }

    fn step(&mut self) {
        self.wake();
        let Some(w) = self.pick() else {
            let next = self.writers.iter().filter_map(|x| match x.state {
                State::Data(t) | State::Node(t) => Some(t),
                _ => None,
            });
            self.log.now = next.min().unwrap_or(self.fio.runtime).max(self.log.now);
            return;
        };
        self.last = w;
        self.log.give(w, self.fio, &mut self.writers, &mut self.rng);
        let over = self.writers.get(w).is_some_and(|x| x.given >= x.pages);
        if !over {
            return;
        }
        if self.log.in_open & (1 << w) != 0 {
            self.log.submit_open(&mut self.writers);
        }
        if let Some(x) = self.writers.get_mut(w) {
            x.state = State::Data(x.acked);
        }
        if self.turn == Some(w) {
            self.turn = None;
            self.pass_turn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_agree_and_serialising_wins() {
        for seed in 1..6 {
            for (name, fio) in table(true).into_iter().take(2) {
                let g = run(&fio, seed);
                let rate = g.bytes as f64 / g.seconds / f64::from(1 << 20);
                let wanted = if fio.serialize_crypto { 1747.0 } else { 673.0 };
                assert!((rate / wanted - 1.0).abs() < 0.02, "{name} {seed}: {rate} MiB/s");
            }
        }
    }
}
