//! Relations between values. They are sharper than the bounds of the values, and carry the
//! argument.

use super::cells::{Key, VARIANTS, Values, Work, variant};
use super::hurd::ROUNDS;
use super::session::{SESSIONS, Session};

/// One relation, judged.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// Its number in the documentation.
    pub(crate) number: u32,
    /// What is claimed.
    pub(crate) claim: &'static str,
    /// What was found.
    pub(crate) found: String,
    /// Whether it holds.
    pub(crate) holds: bool,
}

struct Judge<'a> {
    values: &'a Values,
    drives: Vec<Session>,
    out: Vec<Relation>,
}

const SOLO_KIB: f64 = 900.0;

impl Judge<'_> {
    fn large(&self, drive: &str, policy: &str, column: &str, metric: &'static str) -> f64 {
        self.values.fat(drive, policy, column, Work::Large, metric).unwrap_or(f64::NAN)
    }

    fn small(&self, drive: &str, policy: &str) -> f64 {
        self.values.fat(drive, policy, "5%", Work::Small, "throughput").unwrap_or(f64::NAN)
    }

    fn f2fs(&self, policy: &str, min_seq_blocks: u64, metric: &'static str) -> f64 {
        let (device, policy) = ("ufs".into(), policy.into());
        let threshold = format!("min_seq_blocks={min_seq_blocks}");
        let key = Key { device, policy, threshold, work: Work::Osync, metric };
        self.values.mean(&key).unwrap_or(f64::NAN)
    }

    fn say(&mut self, number: u32, claim: &'static str, parts: Vec<(String, bool)>) {
        let holds = !parts.is_empty() && parts.iter().all(|(_, ok)| *ok);
        let found: Vec<String> = parts
            .into_iter()
            .map(|(text, ok)| if ok { text } else { format!("{text} (NOT)") })
            .collect();
        self.out.push(Relation { number, claim, found: found.join("; "), holds });
    }

    fn request_ratios(&mut self) {
        let wanted = [("pny32", 3.9), ("samsung64", 3.5), ("wdblue", 7.2), ("evo870", 6.9)];
        let parts = wanted.map(|(drive, wanted)| {
            let of = |p| self.large(drive, p, "256M", "requests");
            let ratio = of("stock") / of("wait1");
            let ok = (ratio / wanted - 1.0).abs() <= 0.25;
            (format!("{drive} {ratio:.2} (thread {wanted})"), ok)
        });
        self.say(1, "requests stock/wait1 at 256M as in the thread, within 25 %", parts.into());
    }

    fn cheap_stick(&mut self) {
        let parts = ["5%", "256M"].map(|column| {
            let of = |p| self.large("pny32", p, column, "throughput");
            let ratio = of("wait1") / of("stock");
            (format!("{column} {ratio:.2}"), ratio >= 2.4)
        });
        self.say(2, "PNY: wait1 at least 2.4 times as fast as stock", parts.into());
    }

    fn indifferent_stick(&mut self) {
        let parts = ["5%", "256M"].map(|column| {
            let all =
                VARIANTS.map(|p| self.large("samsung64", variant(p, false), column, "throughput"));
            let spread = spread(&all);
            (format!("{column} {:.1} %", spread * 100.0), spread <= 0.02)
        });
        self.say(3, "Samsung: all policies within 2 %", parts.into());
    }

    fn skipped_close(&mut self) {
        let mut parts = Vec::new();
        for s in self.drives.clone() {
            let dirty = self.large(s.drive, "wait0", "256M", "dirty_at_close");
            let share = dirty * f64::from(1 << 20) / s.bytes as f64;
            let of = |p| self.large(s.drive, p, "256M", "total");
            let total = of("wait0") / of("wait1") - 1.0;
            let ok = share >= 0.8 && total.abs() <= 0.05;
            let text =
                format!("{} {:.0} % dirty, total {:+.1} %", s.drive, share * 100.0, total * 100.0);
            parts.push((text, ok));
        }
        let claim = "wait0 at 256M: at least 80 % of the file dirty at close, total within 5 % of \
                     wait1";
        self.say(4, claim, parts);
        let dirty = self.large("pny32", "wait0", "5%", "dirty_at_close");
        let parts = vec![(format!("{dirty:.1} MiB"), dirty <= 5.0)];
        self.say(5, "wait0 at 5 % on the PNY: at most 5 MiB dirty at close", parts);
    }

    fn waited_close(&mut self) {
        let mut parts = Vec::new();
        for s in self.drives.clone() {
            for column in ["5%", "256M"] {
                let mib = self.large(s.drive, "wait1", column, "in_flight_at_close");
                parts.push((format!("{} {column} {mib:.0} MiB", s.drive), mib == 0.0));
            }
        }
        self.say(6, "wait1: nothing in flight at close", parts);
    }

    fn small_files(&mut self) {
        let mut parts = Vec::new();
        for drive in ["pny32", "samsung64"] {
            let all = ["stock", "wait1", "wait0"].map(|p| self.small(drive, p));
            let spread = spread(&all);
            parts.push((format!("{drive} {:.1} %", spread * 100.0), spread <= 0.04));
        }
        let below = 1.0 - self.small("evo870", "wait1") / self.small("evo870", "stock");
        let ok = (0.05..=0.09).contains(&below);
        parts.push((format!("evo870 wait1 {:.1} % below stock", below * 100.0), ok));
        let claim = "small files: policies within 4 % on USB; EVO wait1 5 to 9 % below stock";
        self.say(7, claim, parts);
    }

    fn bytes_add_up(&mut self) {
        let all: Vec<f64> = self
            .values
            .iter()
            .filter(|(k, _)| k.work == Work::Large && k.metric == "excess_bytes")
            .flat_map(|(_, v)| v.iter().copied())
            .collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let ok = least >= 0.0 && most <= 0.01;
        let text = format!("{:.3} to {:.3} % above the file", least * 100.0, most * 100.0);
        self.say(8, "sum of request sizes is file and metadata within 1 %", vec![(text, ok)]);
    }

    fn serialised(&mut self) {
        let before = self.f2fs("no-serialize", 512, "throughput");
        let after = self.f2fs("serialize-inline-crypto", 512, "throughput");
        let ratio = after / before;
        let mut parts = vec![(format!("{ratio:.2}"), (ratio - 2.6).abs() <= 0.15)];
        for blocks in [64, 128, 255, 256, 257, 384, 512] {
            let rate = self.f2fs("serialize-by-size", blocks, "throughput");
            let wanted = if blocks <= 256 { after } else { before };
            let ok = (rate / wanted - 1.0).abs() <= 0.03;
            parts.push((format!("min_seq_blocks {blocks}: {rate:.0} MiB/s"), ok));
        }
        let claim = "f2fs: serialising is 2.6 +- 0.15 times as fast, and min_seq_blocks does it \
                     exactly from the pages of one write (256) down";
        self.say(9, claim, parts);
    }

    fn flushes(&mut self) {
        let of = |policy: &str| {
            let (device, threshold) = ("qemu-ssd (cache none)".into(), "n/a".into());
            let policy = policy.into();
            let key = Key { device, policy, threshold, work: Work::Loop, metric: "flushes" };
            self.values.mean(&key).unwrap_or(f64::NAN)
        };
        let (none, one) = (of("hurd-vanilla"), of("hurd-full"));
        let ok = none == 0.0 && one == ROUNDS as f64;
        let text = format!("hurd-vanilla {none}, hurd-full {one} in {ROUNDS}");
        self.say(10, "exactly one flush per fsync of a dirty node", vec![(text, ok)]);
    }

    fn alone_until_expiry(&mut self) {
        let mut parts = Vec::new();
        for drive in ["pny32", "samsung64"] {
            let until = self.large(drive, "stock", "5%", "solo_until");
            let avg = self.large(drive, "stock", "5%", "solo_avg");
            let ok = (30.0..=35.0).contains(&until) && avg >= SOLO_KIB;
            parts.push((format!("{drive} until {until:.0} s, mean {avg:.0} KiB"), ok));
        }
        let claim = "stock at 5 % on a file below the threshold walks alone until 30 s";
        self.say(11, claim, parts);
    }

    fn one_run_length(&mut self) {
        let all: Vec<f64> =
            self.drives.iter().map(|s| self.large(s.drive, "stock", "256M", "raced_avg")).collect();
        let spread = spread(&all);
        let list: Vec<String> = all.iter().map(|v| format!("{v:.0}")).collect();
        let text = format!("{} KiB, {:.1} %", list.join(" "), spread * 100.0);
        let claim = "the mean run of two walkers is the same on all drives within 5 %";
        self.say(12, claim, vec![(text, spread <= 0.05)]);
    }
}

/// Difference of the highest and the lowest, relative to the lowest; NaN stays.
fn spread(all: &[f64]) -> f64 {
    if all.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    high / low - 1.0
}

/// All twelve, in order.
pub(crate) fn judge(values: &Values) -> Vec<Relation> {
    let mut j = Judge { values, drives: SESSIONS.into(), out: Vec::new() };
    j.request_ratios();
    j.cheap_stick();
    j.indifferent_stick();
    j.skipped_close();
    j.waited_close();
    j.small_files();
    j.bytes_add_up();
    j.serialised();
    j.flushes();
    j.alone_until_expiry();
    j.one_run_length();
    j.out
}
