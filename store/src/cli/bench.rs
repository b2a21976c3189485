//! `store bench`: what a store answers per second, as a client of its API sees it.
//!
//! Requests go out in batches of `--depth`: one call, one vectored send to a server, and the next
//! batch when all of it is answered. The latency of a request is that of its batch. `sync` is
//! different: each of `--depth` sessions repeats "write, then sync", which on a server leave in one
//! send, and the pair is the operation; so it shows what sharing one flush is worth.
//!
//! The figures are of this run on this machine: compare them only with others of the same minutes.

mod report;
mod work;

use crate::name::{OpenOptions, open, parse_size};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use report::Report;
use seawall_blockdev::BlockDev;
use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::time::{Duration, Instant};
use std::vec::Vec;
use work::{Tally, Worker};

/// What is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Op {
    /// Reads.
    Read,
    /// Overwrites.
    Write,
    /// Overwrites and makes it durable; the pair counts as one operation.
    Sync,
    /// Batches of seven reads to three writes in turn, at random places with --random.
    Mixed,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Mixed => "mixed",
        }
    }
}

/// Arguments of `store bench`.
#[derive(Args)]
pub(super) struct Bench {
    /// The store. All operations but read overwrite it.
    store: String,
    /// The operation.
    #[arg(long, value_enum, default_value_t = Op::Read)]
    op: Op,
    /// Bytes of one request.
    #[arg(long, default_value = "4K", value_parser = parse_size)]
    size: u64,
    /// Requests per batch; with sync, sessions at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// How long: 500ms, 5s, 2m.
    #[arg(long, default_value = "5s", value_parser = parse_time)]
    time: Duration,
    /// At random places, from a fixed seed; else one after the other.
    #[arg(long)]
    random: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A duration as a number with ms, s or m.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let fail = || format!("\"{text}\" is not a time; write a number with us, ms, s or m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let micros = match text.get(digits.len()..).unwrap_or_default() {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        _ => return Err(fail()),
    };
    let number: u64 = digits.parse().map_err(|_| fail())?;
    number.checked_mul(micros).map(Duration::from_micros).ok_or_else(fail)
}

/// Runs it and returns what to print.
pub(super) fn run(args: &Bench) -> anyhow::Result<String> {
    let first = open_session(args, 0)?;
    let caps = first.caps();
    let block = u64::from(caps.logical.max(1));
    let whole = args.size > 0 && args.size.is_multiple_of(block);
    if !whole || args.size > u64::from(u32::MAX) {
        bail!("{}: --size must be a multiple of the store's block of {block} bytes", args.store);
    }
    let batch = if args.op == Op::Sync { 1 } else { args.depth };
    if args.size.saturating_mul(u64::from(batch)) > caps.size {
        bail!("{}: --size times --depth is more than the store's {} bytes", args.store, caps.size);
    }
    let sessions = if args.op == Op::Sync { args.depth } else { 1 };
    if sessions > 1 && first.remote().is_none() {
        bail!("{}: only a server has sessions to sync at a time; use --depth 1", args.store);
    }
    let server = first.remote().and_then(crate::client::Client::peer_pid);
    let mut workers: Vec<Worker> = Vec::new();
    workers.push(Worker::new(args, first, batch, 0, sessions));
    for n in 1..sessions {
        workers.push(Worker::new(args, open_session(args, n)?, batch, n, sessions));
    }
    let cpu = Cpu::now(server);
    let started = Instant::now();
    let tally = measure(args, &mut workers, started)?;
    let report = Report::new(args, &tally, started.elapsed(), Cpu::now(server).since(&cpu));
    for worker in workers {
        worker.close()?;
    }
    if args.json { Ok(serde_json::to_string_pretty(&report)?) } else { Ok(report.text()) }
}

fn open_session(args: &Bench, n: u32) -> anyhow::Result<crate::name::AnyStore> {
    let client_name = format!("bench[{}].{n}", std::process::id());
    let read_only = args.op == Op::Read;
    Ok(open(&args.store, &OpenOptions { read_only, client_name, ..OpenOptions::default() })?)
}

/// Every worker in a thread of its own but the first, which draws the bar.
fn measure(args: &Bench, workers: &mut [Worker], started: Instant) -> anyhow::Result<Tally> {
    let end = started.checked_add(args.time).context("--time is too long")?;
    let bar = bar(args.time);
    let done = std::thread::scope(|scope| -> anyhow::Result<Tally> {
        let (first, others) = workers.split_first_mut().context("no session")?;
        let running: Vec<_> =
            others.iter_mut().map(|w| scope.spawn(move || w.run(end, &mut |_| {}))).collect();
        let mut tally = first.run(end, &mut |now: Instant| {
            let millis = now.saturating_duration_since(started).as_millis();
            bar.set_position(u64::try_from(millis).unwrap_or(u64::MAX));
        })?;
        for thread in running {
            match thread.join() {
                Ok(other) => tally.add(&other?)?,
                Err(_) => bail!("a session's thread ended with a panic"),
            }
        }
        Ok(tally)
    });
    bar.finish_and_clear();
    done.with_context(|| format!("{}: {}", args.store, args.op.name()))
}

fn bar(time: Duration) -> ProgressBar {
    if time < Duration::from_secs(2) {
        return ProgressBar::hidden();
    }
    // indicatif draws on stderr, and only if that is a terminal.
    let bar = ProgressBar::new(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    match ProgressStyle::with_template("{wide_bar} {percent}% {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// CPU time spent so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// By this process.
    pub(super) client: Duration,
    /// By the server's process, if it is on this machine and can be seen. Resolution 10 ms.
    pub(super) server: Option<Duration>,
}

impl Cpu {
    fn now(server: Option<i32>) -> Self {
        let spec = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let client = Duration::try_from(spec).unwrap_or_default();
        Self { client, server: server.and_then(cpu_of) }
    }

    fn since(&self, start: &Self) -> Self {
        let server = self.server.zip(start.server).map(|(now, then)| now.saturating_sub(then));
        Self { client: self.client.saturating_sub(start.client), server }
    }
}

/// User and system time of a process: fields 14 and 15 of its `stat`, in ticks of 10 ms (proc(5);
/// the kernel reports 100 ticks a second to user space on every architecture of ours).
fn cpu_of(pid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(user.saturating_add(system).saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "s", "-1s", "1.5s", "1h", "99999999999999999999s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(cpu_of(own).is_some());
        assert_eq!(Op::Read.name(), "read");
    }
}
