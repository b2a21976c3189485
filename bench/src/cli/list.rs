//! `seawall list policies|devices|workloads`.

use crate::job::syncfs_is_durable;
use crate::report::label;
use crate::workload::WORKLOADS;
use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use seawall_diskfs::policy::{PRESETS, preset};
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
        What::Devices => {
            t.set_header(["device", "write ms", "read ms", "flush ms", "MB/s", "cache"]);
            for p in PROFILES {
                let ms = |nanos: u64| format!("{:.3}", nanos as f64 / 1e6);
                let rate = match p.rate {
                    0 => "no limit".into(),
                    rate => format!("{:.1}", rate as f64 / 1e6),
                };
                let cache = if p.volatile { "volatile, flushable" } else { "none" };
                t.add_row([
                    p.name.to_string(),
                    ms(p.write_command),
                    ms(p.read_command),
                    ms(p.flush_command),
                    rate,
                    cache.to_string(),
                ]);
            }
        }
        What::Workloads => {
            t.set_header(["workload", "what it does"]);
            for (name, what) in WORKLOADS {
                t.add_row([name, what]);
            }
        }
    }
    Ok(seawall_store::cli::print(&t.to_string())?)
}
