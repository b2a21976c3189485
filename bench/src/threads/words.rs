//! Conclusions in words, made from the numbers of this run: nothing here is true by being written.

use super::Report;
use super::cells::{Key, Work};
use super::session::{SESSIONS, Session};
use super::tables::{number, theirs};

const MEASURED: [&str; 3] = ["stock", "wait1", "wait0"];

struct Words<'a> {
    r: &'a Report,
    out: Vec<String>,
}

impl Words<'_> {
    fn large(&self, drive: &str, policy: &str, column: &str, metric: &'static str) -> f64 {
        self.r.values.fat(drive, policy, column, Work::Large, metric).unwrap_or(f64::NAN)
    }

    fn small(&self, drive: &str, policy: &str) -> f64 {
        let metric = "throughput";
        self.r.values.fat(drive, policy, "5%", Work::Small, metric).unwrap_or(f64::NAN)
    }

    /// A ratio of two variants, ours and the thread's.
    fn ratio(&self, s: Session, column: &str, metric: &'static str) -> (f64, Option<f64>) {
        let ours = |p| self.large(s.drive, p, column, metric);
        let theirs = |p| theirs(self.r, (s.drive, p, column), Work::Large, metric);
        let thread = theirs("wait1").zip(theirs("stock")).map(|(a, b)| a / b);
        (ours("wait1") / ours("stock"), thread)
    }

    fn who_wins(&mut self) {
        for s in SESSIONS {
            for column in ["5%", "256M"] {
                let rates = MEASURED.map(|p| (p, self.large(s.drive, p, column, "throughput")));
                let best = rates.iter().map(|r| r.1).fold(0.0, f64::max);
                let wins: Vec<&str> =
                    rates.iter().filter(|r| r.1 >= best * 0.98).map(|r| r.0).collect();
                let (ours, thread) = self.ratio(s, column, "throughput");
                let (requests, _) = self.ratio(s, column, "requests");
                let thread = thread.map_or("-".into(), |t| format!("{t:.2}"));
                let verdict = if wins.len() == MEASURED.len() {
                    "no variant is more than 2 % faster than another".to_string()
                } else {
                    format!("fastest within 2 %: {}", wins.join(" and "))
                };
                self.out.push(format!(
                    "{} at {column}: {verdict}; wait1 is {ours:.2} times as fast as stock \
                     (thread {thread}) in {:.0} % of its requests",
                    s.drive,
                    requests * 100.0
                ));
            }
        }
    }

    fn slowdown(&mut self) {
        let mut all: Vec<(f64, String)> = Vec::new();
        for s in SESSIONS {
            for column in ["5%", "256M"] {
                let (ours, _) = self.ratio(s, column, "throughput");
                all.push((ours, format!("{} large file at {column}", s.drive)));
            }
            let small = self.small(s.drive, "wait1") / self.small(s.drive, "stock");
            all.push((small, format!("{} 1000 x 1 MiB", s.drive)));
        }
        let slower: Vec<String> = all
            .iter()
            .filter(|a| a.0 < 0.98)
            .map(|a| format!("{} ({:+.1} %)", a.1, (a.0 - 1.0) * 100.0))
            .collect();
        let text = if slower.is_empty() {
            "nowhere more than 2 % slower than stock".to_string()
        } else {
            format!("slower than stock by more than 2 % at: {}", slower.join(", "))
        };
        let drives = SESSIONS.map(|s| s.drive).join(", ");
        self.out.push(format!("So no slowdown for other drives? wait1 on {drives}: {text}."));
    }

    fn moved(&mut self) {
        for s in SESSIONS {
            let of = |metric| self.large(s.drive, "wait0", "256M", metric);
            let (cp, dirty) = (of("cp_returns"), of("dirty_at_close"));
            let (umount, total) = (of("umount"), of("total"));
            let wait1 = self.large(s.drive, "wait1", "256M", "total");
            self.out.push(format!(
                "wait0 at 256M on {}: cp returns after {} s with {} MiB dirty, then unmounting \
                 takes {} s; together {:+.1} % against wait1: the wait moved, it was not saved",
                s.drive,
                number(cp),
                number(dirty),
                number(umount),
                (total / wait1 - 1.0) * 100.0
            ));
        }
    }

    fn proposed(&mut self) {
        for s in SESSIONS {
            let of = |p, metric| self.large(s.drive, p, "256M", metric);
            let (low, high) =
                (of("submit, elevator", "in_flight_at_close"), of("submit", "in_flight_at_close"));
            let saved = of("wait1", "cp_returns") - of("submit, elevator", "cp_returns");
            let requests = of("submit", "requests") / of("wait1", "requests");
            self.out.push(format!(
                "the variant proposed last, on {} at 256M (predicted): as many requests as wait1 \
                 ({requests:.2} x), close saves {saved:.1} s at most, {} to {} MiB in flight \
                 when cp returns",
                s.drive,
                number(low.min(high)),
                number(low.max(high))
            ));
        }
    }

    fn f2fs(&mut self) {
        let of = |policy: &str, blocks: u32, metric| {
            let (device, policy) = ("ufs".into(), policy.into());
            let threshold = format!("min_seq_blocks={blocks}");
            let key = Key { device, policy, threshold, work: Work::Osync, metric };
            self.r.values.mean(&key).unwrap_or(f64::NAN)
        };
        let before = of("no-serialize", 512, "throughput");
        let patch = of("serialize-inline-crypto", 512, "throughput");
        let low = of("serialize-by-size", 256, "throughput");
        let high = of("serialize-by-size", 257, "throughput");
        self.out.push(format!(
            "f2fs (model allocator): serialising gives {:.2} times the throughput ({} to {} \
             MiB/s); min_seq_blocks of 256 does the same within {:.1} %, 257 does nothing ({} \
             MiB/s): the switch is at the pages of one write",
            patch / before,
            number(before),
            number(patch),
            (low / patch - 1.0).abs() * 100.0,
            number(high)
        ));
    }

    fn hurd(&mut self) {
        let of = |policy: &str, metric| {
            let (device, threshold) = ("qemu-ssd (cache none)".into(), "n/a".into());
            let (policy, work) = (policy.into(), Work::Loop);
            let key = Key { device, policy, threshold, work, metric };
            self.r.values.mean(&key).unwrap_or(f64::NAN)
        };
        let flushes = of("hurd-full", "flushes");
        let extra = of("hurd-full", "run_time") - of("hurd-vanilla", "run_time");
        let flush = extra / flushes;
        let count = |seconds: f64| number(seconds / flush);
        self.out.push(format!(
            "Hurd: {flushes:.0} flushes in 1000 rounds cost {extra:.2} s, {:.2} ms each; two \
             numbers set two costs, so this is a fit. tar's +6 s would be {} flushes and apt's \
             +4.6 s {}; how many there are has to be counted on real mounts. At the 10 ms of a \
             rotating disk that the mail guesses the loop would take {:.2} s",
            flush * 1e3,
            count(6.0),
            count(4.6),
            of("hurd-vanilla", "run_time") + flushes * 0.010
        ));
    }
}

/// All conclusions; then what the studies say.
pub(super) fn conclusions(r: &Report) -> Vec<String> {
    let mut w = Words { r, out: Vec::new() };
    w.who_wins();
    w.slowdown();
    w.moved();
    w.proposed();
    w.f2fs();
    w.hurd();
    w.out
}
