//! `seawall threads`.

use super::progress::Bar;
use crate::job::Progress;
use crate::provenance::Provenance;
use crate::threads::{Options, report};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::File;
use std::io::Write;
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
    if let (Some(csv), Some(html)) = (&args.csv, &args.html)
        && std::path::absolute(csv)? == std::path::absolute(html)?
    {
        bail!("{}: --csv and --html cannot be one file", csv.display());
    }
    // A name that cannot be written is said before the work, not after it.
    let csv = args.csv.as_deref().map(create).transpose()?;
    let html = args.html.as_deref().map(create).transpose()?;
    let options = Options { seed: args.seed, runs: args.runs, short: false };
    let bar = Bar::new(options.units(), verbose > 0);
    let made = report(&options, &|| bar.units(1));
    bar.done();
    let report = made?;
    let provenance = Provenance::collect(args.seed);
    if let Some(file) = csv {
        file.write(&report.csv())?;
    }
    if let Some(file) = html {
        file.write(&report.html(&provenance)?)?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report.json(&provenance)?)?
    } else {
        format!("{}\n\n{}", provenance.describe(), report.tables()?)
    };
    seawall_store::cli::print(&text)?;
    Ok(if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Named<'a>(&'a Path, File);

/// Opens it; what it has stays until there is something to put in its place.
fn create(path: &Path) -> Result<Named<'_>> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    Ok(Named(path, file.with_context(|| format!("{}", path.display()))?))
}

impl Named<'_> {
    fn write(mut self, text: &str) -> Result<()> {
        // A terminal or a pipe has no length.
        let length = if self.1.metadata()?.is_file() { self.1.set_len(0) } else { Ok(()) };
        let done = length.and_then(|()| self.1.write_all(text.as_bytes()));
        done.with_context(|| format!("{}", self.0.display()))
    }
}
