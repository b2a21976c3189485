//! What the numbers of a group of rows say, beside the Hurd thread's.
//!
//! The thread measured programs with and without its flushes, and a loop that gives 0.5 ms a flush.
//! How many flushes the programs made it does not say: that is counted here, and multiplied.

use super::MountRow;
use super::report::seconds;

/// What the thread measured: the workload, seconds without and with the flushes.
const THREAD: [(&str, f64, f64); 4] = [
    ("untar", 159.0, 165.0),
    ("git-clone", 2.12, 2.06),
    ("dpkg", 37.7, 42.3),
    ("fsync-loop", 0.75, 1.25),
];
/// A flush in the thread, s: (1.25 - 0.75) / 1000.
const THREAD_FLUSH: f64 = 0.5e-3;

/// What the others are compared with: `hurd-vanilla`, else the first.
pub(super) fn baseline<'r>(group: &[&'r MountRow]) -> Option<&'r MountRow> {
    let named = group.iter().find(|r| r.policy == "hurd-vanilla");
    named.or(group.first()).copied()
}

/// Lines below the tables.
pub(super) fn words(group: &[&MountRow]) -> Vec<String> {
    let Some(base) = baseline(group) else { return Vec::new() };
    let mut out: Vec<String> = Vec::new();
    // The rows of a group differ in the figures of the program, which name their policy.
    for r in group {
        for note in &r.did.notes {
            let same = group.iter().all(|o| o.did.notes.contains(note));
            let line = if same { note.clone() } else { format!("{}: {note}", r.policy) };
            if !out.contains(&line) {
                out.push(line);
            }
        }
    }
    let how = if base.flush.modelled {
        "the device model's cost of a flush"
    } else {
        "the median of syncs measured on this store before the volume was made"
    };
    out.push(format!(
        "Syncs: site sent/merged/skipped; at end sent ones only. flushes: of the device, during \
         the work. x ms: {how}. Calls: p50/p99. dirty: file data in the server when \
         the work returned."
    ));
    for r in group.iter().filter(|r| r.policy != base.policy) {
        out.push(difference(r, base));
        out.extend(thread(r, base));
    }
    out
}

/// Flushes of a row beside those of the baseline, and what of the time they are.
fn difference(r: &MountRow, base: &MountRow) -> String {
    let more = signed(r.during.store.flushes, base.during.store.flushes);
    let work = (r.work as f64 - base.work as f64) / 1e9;
    let cost = more as f64 * r.flush.nanos as f64 / 1e9;
    let mut line = format!(
        "{} against {}: {more:+} device flushes x {:.3} ms = {cost:+.3} s; work took {work:+.3} s",
        r.policy,
        base.policy,
        r.flush.nanos as f64 / 1e6
    );
    let noise = spread(base).max(spread(r));
    if noise >= work.abs() {
        line += &format!(
            ", but runs of one row differ by {noise:.3} s: that is noise, the count is not"
        );
    } else if more == 0 {
        line += ", none of which is flushes";
    } else if work * cost <= 0.0 || (cost / work).abs() > 1.5 {
        line +=
            ": the rest of the run (processor, other requests, load) moved it more than they did";
    } else {
        line += &format!(": flushes are {:.0} % of that", 100.0 * cost / work);
    }
    line += &format!("; total {} against {} s", seconds(r.total()), seconds(base.total()));
    line
}

/// What the runs of a row differ by, s; 0 for a single one.
fn spread(r: &MountRow) -> f64 {
    let (low, high) = (r.totals.iter().min().copied(), r.totals.iter().max().copied());
    high.unwrap_or(0).saturating_sub(low.unwrap_or(0)) as f64 / 1e9
}

/// The thread's figure for this workload, and how much of it these flushes would be.
fn thread(r: &MountRow, base: &MountRow) -> Option<String> {
    let (name, without, with) =
        THREAD.iter().find(|(name, ..)| r.workload.split(':').next() == Some(name))?;
    // Its loop had 1000 rounds.
    let part = if *name == "fsync-loop" { r.did.bytes as f64 / 4096e3 } else { 1.0 };
    let (without, with) = (without * part, with * part);
    let (seen, needed) = (with - without, (with - without) / THREAD_FLUSH);
    let more = signed(r.during.store.flushes, base.during.store.flushes);
    let at_thread = more as f64 * THREAD_FLUSH;
    let mut line = format!(
        "  thread, {name}: {without:.2} s to {with:.2} s, {seen:+.2} s. These {more:+} flushes at \
         its 0.5 ms are {at_thread:+.3} s"
    );
    if needed <= 0.0 {
        line += ", and it saw the run get faster: noise";
    } else {
        let percent = 100.0 * at_thread / seen;
        line += &format!(
            ", {percent:.0} % of that; all of it would be {needed:.0} flushes, {}",
            match percent {
                p if p > 120.0 => "fewer than were counted here: the workloads differ",
                p if p > 80.0 => "so counting flushes explains it",
                p if p > 20.0 => "so flushes are part of it and something else is the rest",
                _ => "so flushes of this policy do not explain it",
            }
        );
    }
    Some(line)
}

fn signed(now: u64, base: u64) -> i64 {
    let of = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    of(now).saturating_sub(of(base))
}
