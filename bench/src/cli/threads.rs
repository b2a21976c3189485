//! `seawall threads`.

use super::progress::Bar;
use crate::job::Progress;
use crate::provenance::Provenance;
use crate::threads::{Options, Report, report};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options.
#[derive(Args)]
pub(super) struct ThreadsArgs {
    /// Seed of everything that is drawn; run N of a cell has this plus N.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of every cell.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Writes all values, relations and studies as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Writes a page with plots that stands by itself.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The report as JSON on stdout in place of tables.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ThreadsArgs, verbose: u8) -> Result<ExitCode> {
    let options = Options { seed: args.seed, runs: args.runs, short: false };
    let bar = Bar::new(options.units(), verbose > 0);
    let made = report(&options, &|| bar.units(1));
    bar.done();
    let report = made?;
    let provenance = Provenance::collect(args.seed);
    print(&report, &provenance, args)?;
    Ok(if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &Report, provenance: &Provenance, args: &ThreadsArgs) -> Result<()> {
    let write = |path: &Path, what: String| {
        std::fs::write(path, what).with_context(|| format!("{}", path.display()))
    };
    if let Some(path) = &args.csv {
        write(path, report.csv())?;
    }
    if let Some(path) = &args.html {
        write(path, report.html(provenance)?)?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report.json(provenance)?)?
    } else {
        format!("{}\n\n{}", provenance.describe(), report.tables()?)
    };
    Ok(seawall_store::cli::print(&text)?)
}
