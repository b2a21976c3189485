//! What `bench` prints.

use super::work::Tally;
use super::{Bench, Cpu, Op};
use std::format;
use std::string::{String, ToString};
use std::time::Duration;

/// The result; with `--json` these are the keys. MB/s are decimal, times are in microseconds.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    store: String,
    op: &'static str,
    size: u64,
    depth: u32,
    random: bool,
    seconds: f64,
    ops: u64,
    reads: u64,
    iops: f64,
    mb_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    client_cpu_us_per_op: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_op: Option<f64>,
}

impl Report {
    pub(super) fn new(args: &Bench, tally: &Tally, took: Duration, cpu: Cpu) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        let ops = tally.ops as f64;
        let per_op = |d: Duration| d.as_secs_f64() * 1e6 / ops.max(1.0);
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Self {
            store: args.store.clone(),
            op: args.op.name(),
            size: args.size,
            depth: args.depth,
            random: args.random,
            seconds,
            ops: tally.ops,
            reads: tally.reads,
            iops: ops / seconds,
            mb_per_s: ops * args.size as f64 / seconds / 1e6,
            p50_us: micros(tally.latency.value_at_quantile(0.5)),
            p99_us: micros(tally.latency.value_at_quantile(0.99)),
            max_us: micros(tally.latency.max()),
            client_cpu_us_per_op: per_op(cpu.client),
            server_cpu_us_per_op: cpu.server.map(per_op),
        }
    }

    pub(super) fn text(&self) -> String {
        let what = match self.op {
            op if op == Op::Sync.name() => "write+sync pairs".to_string(),
            op if op == Op::Mixed.name() => "reads and writes".to_string(),
            op => format!("{op}s"),
        };
        let places = if self.random { "random" } else { "sequential" };
        let server = self
            .server_cpu_us_per_op
            .map_or(String::new(), |us| format!(", server {us:.2} us an operation"));
        format!(
            "{what} of {} bytes, depth {}, {places}, {:.1} s\n\
             {:.0} IOPS, {:.1} MB/s\n\
             latency p50 {:.1} us, p99 {:.1} us, max {:.1} us\n\
             CPU client {:.2} us{server}",
            self.size,
            self.depth,
            self.seconds,
            self.iops,
            self.mb_per_s,
            self.p50_us,
            self.p99_us,
            self.max_us,
            self.client_cpu_us_per_op,
        )
    }
}
