//! `seawall list policies|devices|workloads`.

use crate::job::syncfs_is_durable;
use crate::real::mounted::MOUNT_WORKLOADS;
use crate::report::label;
use crate::workload::WORKLOADS;
use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use seawall_diskfs::policy::{PRESETS, preset};
use seawall_store::name::format_size;
use seawall_store::sim::PROFILES;

/// What to list.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum What {
    /// Presets.
    Policies,
    /// Device profiles.
    Devices,
    /// Workloads.
    Workloads,
}

pub(super) fn list(what: What) -> Result<()> {
    let mut t = Table::new();
    t.load_style(presets::ASCII_MARKDOWN);
    match what {
        What::Policies => {
            t.set_header(["policy", "fsync Ok is", "syncfs Ok is", "a store that cannot flush"]);
            for name in PRESETS {
                let p = preset(name).with_context(|| format!("no policy {name}"))?;
                let unsupported = format!("{:?}", p.on_unsupported);
                let (fsync, syncfs) = (p.fsync_is_durable(), syncfs_is_durable(&p));
                t.add_row([name, label(fsync), label(syncfs), unsupported.as_str()]);
            }
        }
        What::Devices => return Ok(seawall_store::cli::print(&devices())?),
        What::Workloads => {
            t.set_header(["workload", "what it does"]);
            for (name, what) in WORKLOADS {
                t.add_row([name, what]);
            }
            for (name, what) in MOUNT_WORKLOADS {
                t.add_row([*name, &format!("on a mount: {what}")]);
            }
        }
    }
    Ok(seawall_store::cli::print(&t.to_string())?)
}

/// All profiles with all their parameters, and what each is.
fn devices() -> String {
    let mut t = Table::new();
    t.load_style(presets::ASCII_MARKDOWN);
    t.set_header([
        "device",
        "write MB/s",
        "read MB/s",
        "write ms",
        "read ms",
        "flush ms",
        "switch ms",
        "near",
        "wake ms",
        "largest",
        "segments",
        "slots",
        "cache",
        "slows down",
        "stalls",
        "power cut",
    ]);
    for p in PROFILES {
        t.add_row([
            p.name.to_string(),
            rate(p.rate),
            rate(p.read_rate),
            ms(p.write_command),
            ms(p.read_command),
            ms(p.flush_command),
            ms(p.switch),
            bytes(p.near),
            ms(p.idle_wake),
            bytes(u64::from(p.max_request)),
            if p.max_segments == 0 { "-".into() } else { p.max_segments.to_string() },
            p.slots.to_string(),
            p.cache.map_or("-".into(), |c| {
                format!("{} at {}", format_size(c.bytes), rate(c.fill_rate))
            }),
            p.slow.map_or("-".into(), |s| {
                let (after, to) = (format_size(s.bytes), rate(s.rate));
                format!(
                    "to {to} after {after}, idling gives {} back",
                    if s.recover == 0 { "nothing".into() } else { rate(s.recover) }
                )
            }),
            p.stall.map_or("-".into(), |s| {
                let percent = f64::from(s.per_million) / 1e4;
                format!("{percent} % of writes, {} ms, seed {}", ms(s.time), s.seed)
            }),
            if p.volatile { "loses unflushed" } else { "keeps all" }.into(),
        ]);
    }
    let about: Vec<String> = PROFILES.iter().map(|p| format!("{}: {}", p.name, p.about)).collect();
    format!(
        "{t}\n\nwrite, read, flush ms: of a command beside its bytes. switch: of one that does not \
         begin near the end of the last. wake: of the first after 50 ms without one. -: none. The \
         docs of `seawall_store::sim` say what was measured and what is guessed; a file PATH.toml \
         is a profile as well (docs/stores.md).\n\n{}",
        about.join("\n")
    )
}

fn ms(nanos: u64) -> String {
    if nanos == 0 { "-".into() } else { format!("{}", nanos as f64 / 1e6) }
}

fn rate(bytes: u64) -> String {
    if bytes == 0 { "no limit".into() } else { format!("{}", bytes as f64 / 1e6) }
}

fn bytes(n: u64) -> String {
    if n == 0 { "-".into() } else { format_size(n) }
}
