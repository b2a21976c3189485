//! `seawall fs VERB SOCKET:/path`: files of a filesystem server from the command line.
//!
//! `put` and `get` recurse and keep hard links, symlinks, times, modes, special files and holes,
//! and owners for user 0. Requests of many files are under way at a time, so small files do not
//! cost a round trip each. A failure names its file on stderr; the others go on and the exit status
//! is 1.

mod copy;
mod get;
mod list;
mod local;
mod put;
mod report;
mod simple;
mod target;
mod translators;

use crate::cli::exit;
use clap::{Args, Parser, Subcommand};
use seawall_store::cli::{print_usage, start_tracing};
use std::ffi::OsString;
use std::format;
use std::path::PathBuf;
use std::process::ExitCode;
use std::vec::Vec;
use target::Target;

const HELP: &str = "TARGET is SOCKET:/path. A source that ends in /. (or is SOCKET:/) means its \
     content; otherwise it keeps its name in a destination that is a folder.";

/// Files of a filesystem server.
#[derive(Parser)]
#[command(name = "fs", bin_name = "seawall fs", version, after_help = HELP)]
struct Cli {
    /// Says more on stderr; twice says most. RUST_LOG filters apply.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists folders.
    Ls(Ls),
    /// Prints attributes.
    Stat {
        /// What.
        #[arg(required = true)]
        targets: Vec<Target>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copies files to stdout.
    Cat {
        /// What.
        #[arg(required = true)]
        targets: Vec<Target>,
    },
    /// Copies local files and trees to a server.
    Put(Put),
    /// Copies files and trees from a server.
    Get(Get),
    /// Makes folders.
    Mkdir {
        /// Also those above; one that is there is fine.
        #[arg(short, long)]
        parents: bool,
        /// Permission bits, octal.
        #[arg(short, long, default_value = "755", value_parser = octal)]
        mode: u32,
        /// What.
        #[arg(required = true)]
        targets: Vec<Target>,
    },
    /// Removes files and, with -r, folders.
    Rm {
        /// Folders, too, with all that is in them.
        #[arg(short, long)]
        recursive: bool,
        /// What is not there is fine.
        #[arg(short, long)]
        force: bool,
        /// What.
        #[arg(required = true)]
        targets: Vec<Target>,
    },
    /// Moves a name within a server.
    Mv {
        /// Fails when the new name is taken.
        #[arg(short, long)]
        no_clobber: bool,
        /// What.
        from: Target,
        /// New name, or a folder.
        to: Target,
    },
    /// Makes a hard link, or with -s a symlink.
    Ln {
        /// A symlink; WHAT is then its text.
        #[arg(short, long)]
        symbolic: bool,
        /// What it points to: TARGET, or text with -s.
        what: OsString,
        /// The new name.
        to: Target,
    },
    /// Copies within a server or between two.
    Cp {
        /// Folders, too.
        #[arg(short, long)]
        recursive: bool,
        /// What.
        from: Target,
        /// New name, or a folder.
        to: Target,
    },
    /// Prints the translators that are kept with nodes: command lines.
    Showtrans {
        /// What.
        #[arg(required = true)]
        targets: Vec<Target>,
    },
    /// Keeps a translator with a node, or takes it away.
    Settrans {
        /// What.
        target: Target,
        /// Its command line; none takes it away.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Prints space.
    Df {
        /// SOCKET:/ of the servers.
        #[arg(required = true)]
        targets: Vec<Target>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Ls {
    /// With attributes.
    #[arg(short)]
    long: bool,
    /// Also names that begin with a dot.
    #[arg(short)]
    all: bool,
    /// Folders in folders, too.
    #[arg(short = 'R')]
    recursive: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// What.
    #[arg(required = true)]
    targets: Vec<Target>,
}

#[derive(Args)]
struct Put {
    /// fsync of every file before it is closed.
    #[arg(long)]
    fsync: bool,
    /// Makes everything durable at the end.
    #[arg(long)]
    syncfs: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Local files and folders.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Where to.
    to: Target,
}

#[derive(Args)]
struct Get {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// What.
    #[arg(required = true)]
    sources: Vec<Target>,
    /// Local name or folder.
    to: PathBuf,
}

fn octal(text: &str) -> Result<u32, std::string::String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("expected octal permission bits up to 7777".into()),
    }
}

/// Runs the command with these arguments (the first is the program's name).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => return print_usage(&usage),
    };
    start_tracing(cli.verbose);
    let done = match cli.verb {
        Verb::Ls(args) => list::ls(&args),
        Verb::Stat { targets, json } => list::stat(&targets, json),
        Verb::Cat { targets } => simple::cat(&targets),
        Verb::Put(args) => put::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Mkdir { parents, mode, targets } => simple::mkdir(&targets, parents, mode),
        Verb::Rm { recursive, force, targets } => simple::rm(&targets, recursive, force),
        Verb::Mv { no_clobber, from, to } => simple::mv(&from, &to, no_clobber),
        Verb::Ln { symbolic, what, to } => simple::ln(&what, &to, symbolic),
        Verb::Cp { recursive, from, to } => copy::run(&from, &to, recursive),
        Verb::Showtrans { targets } => translators::show(&targets),
        Verb::Settrans { target, command } => translators::set(&target, &command),
        Verb::Df { targets, json } => list::df(&targets, json),
    };
    exit("seawall fs", done)
}
