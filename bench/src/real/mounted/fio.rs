//! The f2fs thread's load: fio with the thread's own line, or a loop of the same calls.

use super::program::{Place, run};
use super::{Did, act};
use anyhow::{Context, Result};
use seawall_store::name::format_size;
use serde_json::Value;
use std::process::Command;

/// The thread's options; run time and size are what the workload says.
const LINE: &[&str] = &[
    "--name=wb_osync",
    "--rw=write",
    "--bs=1M",
    "--time_based=1",
    "--ioengine=psync",
    "--direct=0",
    "--sync=1",
    "--numjobs=8",
    "--thread=1",
    "--nrfiles=1",
    "--filename_format=wb_osync.$jobnum",
];

pub(super) fn osync(place: &Place<'_>, seconds: u64, bytes: u64) -> Result<Did> {
    let mut cmd = Command::new("fio");
    cmd.args(LINE).arg(format!("--runtime={seconds}s")).arg(format!("--size={bytes}"));
    let line = format!("fio {} --runtime={seconds}s --size={bytes}", LINE.join(" "));
    cmd.arg("--directory").arg(place.dir).args(["--group_reporting", "--output-format=json"]);
    // Where it leaves files of its own.
    cmd.current_dir(place.folder);
    match run(cmd, "fio") {
        Ok(out) => read(&out, &line, seconds, bytes),
        Err(e) if not_there(&e) => {
            let mut did = act::osync(place, seconds, bytes)?;
            did.notes.push(format!(
                "fio is not installed: an own loop of the same calls (8 threads, O_SYNC, pwrite of \
                 1 MiB, files of {}, {seconds} s)",
                format_size(bytes)
            ));
            Ok(did)
        }
        Err(e) => Err(e),
    }
}

fn not_there(e: &anyhow::Error) -> bool {
    let io = e.chain().find_map(|c| c.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound)
}

fn read(out: &str, line: &str, seconds: u64, bytes: u64) -> Result<Did> {
    let from = out.find('{').unwrap_or(0);
    let report: Value = serde_json::from_str(out.get(from..).unwrap_or_default())
        .context("fio: its report is no JSON")?;
    let write = report.pointer("/jobs/0/write").context("fio: no job in its report")?;
    let number = |at: &str| write.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
    let written = write.pointer("/io_bytes").and_then(Value::as_u64).unwrap_or(0);
    let spread = ["50", "99"].map(|p| number(&format!("/clat_ns/percentile/{p}.000000")) / 1e6);
    let [p50, p99] = spread;
    let mut notes = vec![format!(
        "{line}: {:.1} MB/s, {} writes, {p50:.2} ms p50, {p99:.2} ms p99 (fio's own figures)",
        number("/bw_bytes") / 1e6,
        number("/total_ios"),
    )];
    if (seconds, bytes) != (60, 2 << 30) {
        notes.push("the thread ran it for 60 s on files of 2 GiB each".into());
    }
    Ok(Did { bytes: written, notes, ..Did::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let out = "fio: a warning\n{\"jobs\": [{\"write\": {\"io_bytes\": 1048576, \"bw_bytes\": \
                   2500000, \"total_ios\": 1, \"clat_ns\": {\"percentile\": {\"50.000000\": \
                   1500000, \"99.000000\": 3000000}}}}]}";
        let did = read(out, "fio", 5, 64).unwrap();
        assert_eq!(did.bytes, 1 << 20);
        assert!(did.notes[0].starts_with("fio: 2.5 MB/s, 1 writes, 1.50 ms p50, 3.00 ms p99"));
        assert!(read("nothing", "fio", 5, 64).is_err());
    }
}
