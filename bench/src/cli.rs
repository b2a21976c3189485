//! The `seawall` command. Results go to stdout, everything else to stderr. Exit status 0 on
//! success, 1 on failure with one line saying what was wrong with which object, 2 on bad usage.

mod list;
mod main_job;
mod mount_job;
mod progress;
mod threads;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The price and the protection of durability policies.
///
/// Without a verb: the main job, six presets under the workloads fsync-loop and tree, in virtual
/// time on a model of an SSD and in real time through two server processes, in under a minute.
#[derive(Parser)]
#[command(name = "seawall", version)]
struct Cli {
    /// Says more on stderr; twice says most.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(flatten)]
    main: MainArgs,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Options of the main job.
#[derive(Args)]
struct MainArgs {
    /// Folder for images and sockets; its filesystem is what real rows run on. Default: under the
    /// target folder.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the report as JSON to this file, or to stdout for `-` (the tables then go to stderr).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of file contents and of the volume's identity.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows in virtual time only.
    #[arg(long, conflicts_with = "only_real")]
    only_virtual: bool,
    /// Rows in real time only.
    #[arg(long)]
    only_real: bool,
    /// Workloads instead of all: see `seawall list workloads`.
    #[arg(long, value_delimiter = ',', value_name = "W,..")]
    workload: Vec<String>,
    /// Policies instead of the six of the main job: see `seawall list policies`.
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    policy: Vec<String>,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs workloads under policies on a device model or a store.
    Run(RunArgs),
    /// Lists what other verbs take.
    List {
        /// What.
        #[arg(value_enum)]
        what: list::What,
    },
    /// Works on files behind a filesystem server's socket: `seawall fs --help`.
    #[command(disable_help_flag = true)]
    Fs {
        /// Verb and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Not there yet.
    #[command(disable_help_flag = true)]
    Compare(Rest),
    /// The tables of the three threads, reproduced in virtual time, value by value.
    Threads(threads::ThreadsArgs),
    /// Not there yet.
    #[command(disable_help_flag = true)]
    Crash(Rest),
    /// Not there yet.
    #[command(disable_help_flag = true)]
    Replay(Rest),
}

/// Arguments of a verb that is not there yet.
#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _args: Vec<OsString>,
}

#[derive(Args)]
struct RunArgs {
    /// Filesystem: ext2, or fat (on mounts).
    #[arg(long)]
    fs: String,
    /// Policies, the first (or hurd-vanilla) being what the others are compared with.
    #[arg(long, value_delimiter = ',', required = true, value_name = "A,B")]
    policy: Vec<String>,
    /// Workloads with commas between them; cmd:LINE goes to its end, commas and all.
    #[arg(long, required = true, value_name = "W,..")]
    workload: Vec<String>,
    /// Works on a FUSE mount of the volume, as programs do, instead of over the server's socket.
    /// Workloads that there are on mounts only need not be told.
    #[arg(long)]
    mount: bool,
    /// A device profile (virtual time), or a STORE, which is formatted (real time, two processes).
    #[arg(long, value_name = "PROFILE|STORE")]
    device: String,
    /// Runs of each row; rows in virtual time repeat exactly and run once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of file contents and of the volume's identity.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the report as JSON to this file, or to stdout for `-` (the tables then go to stderr).
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Folder for images and sockets. Default: under the target folder.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Not there yet.
    #[arg(long, value_name = "OUT", hide = true)]
    html: Option<PathBuf>,
}

/// Runs the command with these arguments (the first is the program's name).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(status) = crate::real::hidden(&args) {
        return status;
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => {
            let _the_terminal_is_gone = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    match act(cli) {
        Ok(status) => status,
        Err(error) => {
            seawall_store::cli::say(&format!("seawall: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn act(cli: Cli) -> Result<ExitCode> {
    match cli.verb {
        None => main_job::main_job(&cli.main, cli.verbose)?,
        Some(Verb::Run(args)) => main_job::run(&args, cli.verbose)?,
        Some(Verb::List { what }) => list::list(what)?,
        Some(Verb::Fs { args }) => {
            let name = std::iter::once(OsString::from("seawall fs"));
            return Ok(seawall_translator::fscli::run(name.chain(args)));
        }
        Some(Verb::Compare(_)) => bail!("compare is not there yet"),
        Some(Verb::Threads(args)) => return threads::run(&args, cli.verbose),
        Some(Verb::Crash(_)) => bail!("crash is not there yet"),
        Some(Verb::Replay(_)) => bail!("replay is not there yet"),
    }
    Ok(ExitCode::SUCCESS)
}
