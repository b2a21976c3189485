//! The `store` command, as a function: the binary and whoever embeds it run the same code.
//!
//! Results go to stdout, everything else to stderr. Exit status 0 on success, 1 on failure with one
//! line saying what was wrong with which object, 2 on bad usage.

mod bench;
mod copy;
mod parts;
mod show;
mod stream;

pub use parts::partitions_of;
pub use stream::{print, say, still_read};

use crate::backend::FAULT_HELP;
use crate::client::{Access, Client};
use crate::error::StoreError;
use crate::name::{AnyStore, OpenOptions, open, open_backend, parse_size};
use crate::server::{ServeOptions, serve};
use crate::session::CoreLimits;
use crate::sim::Profile;
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use seawall_blockdev::{BlockDev, Tag};
use seawall_ipc::storeproto::limit;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::string::{String, ToString};
use std::sync::Arc;
use std::{format, writeln};
use tracing_subscriber::EnvFilter;

/// Ends every help text of a command that takes a STORE.
fn store_help() -> String {
    format!(
        "STORE is PATH, file:PATH[?ro&direct], mem:SIZE, zero:SIZE, part:N:STORE, \
         sim:PROFILE:STORE, fault:SPEC:STORE or unix:SOCKET (a store server).\n\
         N is the number of a partition, MBR or GPT; `store info` lists them.\n\
         PROFILE is one of {}, or a file PATH.toml.\n\
         SPEC is {FAULT_HELP}.\n\
         Sizes and offsets are bytes or a number with K, M, G or T. See docs/stores.md.",
        Profile::names()
    )
}

/// Serves a store to other processes and talks to one.
#[derive(Parser)]
#[command(name = "store", version, after_help = store_help())]
struct Cli {
    /// Says more on stderr; twice says most. RUST_LOG filters apply.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serves a store on a Unix socket until SIGINT or SIGTERM.
    Serve(Serve),
    /// Prints size, blocks, cache class, sequences and the partitions of a whole disk.
    Info {
        /// The store.
        store: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Makes everything acknowledged durable.
    Sync {
        /// The store.
        store: String,
    },
    /// Copies bytes of the store to stdout.
    Read {
        /// The store.
        store: String,
        /// First byte.
        #[arg(value_parser = parse_size)]
        offset: u64,
        /// Bytes.
        #[arg(value_parser = parse_size)]
        length: u64,
    },
    /// Copies stdin into the store.
    Write {
        /// The store.
        store: String,
        /// First byte, a multiple of the store's block.
        #[arg(value_parser = parse_size)]
        offset: u64,
    },
    /// Ends the fault of a failed flush at a store server, so that syncs can succeed again, and
    /// prints what may be lost. A filesystem server over it must be checked afterwards.
    ClearFault {
        /// A store server, `unix:SOCKET`.
        store: String,
        /// Says that the bytes are given up. Nothing happens without it.
        #[arg(long, required = true)]
        accept_loss: bool,
    },
    /// Measures requests per second, throughput, latency and CPU.
    Bench(bench::Bench),
    /// Prints requests, bytes, sizes and syncs by tag and by session.
    Stats {
        /// The store.
        store: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Serve {
    /// The store.
    store: String,
    /// Socket to listen on, created with mode 0600.
    #[arg(long)]
    socket: PathBuf,
    /// Refuses writes and takes no writer's lock.
    #[arg(long)]
    readonly: bool,
    /// Sessions at a time.
    #[arg(long, value_name = "N", default_value_t = limit::SESSIONS,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_sessions: u32,
    /// Requests in flight per session.
    #[arg(long, value_name = "N", default_value_t = limit::IN_FLIGHT,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_inflight: u32,
}

/// Runs the command with these arguments (the first is the program's name).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => return print_usage(&usage),
    };
    start_tracing(cli.verbose);
    match act(cli.verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("store: {error:#}"));
            match error.downcast_ref() {
                Some(StoreError::Name { .. } | StoreError::NotYet { .. }) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Says what is wrong with the arguments, or what was asked for with `--help`.
pub fn print_usage(usage: &clap::Error) -> ExitCode {
    let _the_terminal_is_gone = usage.print();
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

/// Sends events to stderr: warnings, with `-v` what happens, with `-vv` all of it. `RUST_LOG` says
/// it more exactly.
pub fn start_tracing(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // An embedder may have its own subscriber: then that one is used.
    let _set_already = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

fn act(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Serve(args) => serve_store(args),
        Verb::Info { store, json } => info(&store, json),
        Verb::Sync { store } => {
            let mut device = open_named(&store, access_without_writes(&store))?;
            let seq = device.sync(Tag(0)).with_context(|| format!("{store}: sync"))?;
            print(&format!("durable sequence {}", seq.0))?;
            Ok(device.close()?)
        }
        Verb::Read { store, offset, length } => {
            let mut device = open_named(&store, Access::ReadOnly)?;
            copy::read(&store, &mut device, offset, length)?;
            Ok(device.close()?)
        }
        Verb::Write { store, offset } => {
            let mut device = open_named(&store, Access::Exclusive)?;
            let line = copy::write(&store, &mut device, offset)?;
            print(&line)?;
            Ok(device.close()?)
        }
        Verb::ClearFault { store, accept_loss: _ } => {
            let device = open_named(&store, Access::ReadOnly)?;
            let Some(client) = device.remote() else {
                anyhow::bail!("{store}: only a store server, unix:SOCKET, keeps a fault");
            };
            let lost = client.accept_loss().with_context(|| format!("{store}: clear the fault"))?;
            print(show::lost(&lost).trim_end())?;
            Ok(device.close()?)
        }
        Verb::Bench(args) => Ok(print(&bench::run(&args)?)?),
        Verb::Stats { store, json } => {
            let device = open_named(&store, Access::ReadOnly)?;
            let stats = device.stats().with_context(|| format!("{store}: statistics"))?;
            let text =
                if json { serde_json::to_string_pretty(&stats)? } else { show::stats(&stats) };
            print(text.trim_end())?;
            Ok(device.close()?)
        }
    }
}

fn open_named(name: &str, access: Access) -> Result<AnyStore, StoreError> {
    let client_name = format!("store[{}]", std::process::id());
    let (read_only, exclusive) = (access == Access::ReadOnly, access == Access::Exclusive);
    open(name, &OpenOptions { read_only, exclusive, client_name, ..OpenOptions::default() })
}

/// For what changes nothing but has to know that nobody else has a file: a server is asked beside
/// its writer, a file takes its lock.
fn access_without_writes(name: &str) -> Access {
    if name.starts_with("unix:") { Access::ReadOnly } else { Access::Shared }
}

fn info(name: &str, json: bool) -> anyhow::Result<()> {
    let (mut device, in_use) = match open_named(name, access_without_writes(name)) {
        Err(StoreError::Busy { .. } | StoreError::Held { .. }) => {
            (open_named(name, Access::ReadOnly)?, true)
        }
        opened => (opened?, false),
    };
    let in_use = in_use || device.remote().is_some_and(Client::is_held_by_another);
    let info = show::info_of(name, &mut device, in_use);
    let text = if json { serde_json::to_string_pretty(&info)? } else { show::info(&info) };
    print(text.trim_end())?;
    Ok(device.close()?)
}

fn serve_store(args: Serve) -> anyhow::Result<()> {
    // A server over a server is the one writer that its own sessions take turns to be.
    let options = OpenOptions {
        read_only: args.readonly,
        exclusive: true,
        client_name: format!("store serve[{}]", std::process::id()),
        ..OpenOptions::default()
    };
    let backend = open_backend(&args.store, &options)?;
    let limits = CoreLimits {
        sessions_max: args.max_sessions,
        in_flight_max: args.max_inflight,
        ..CoreLimits::default()
    };
    let options = ServeOptions { name: args.store.clone(), limits };
    let ready = || {
        // Whoever started this waits for the line: the socket answers from here on.
        let mut out = std::io::stdout().lock();
        let line = writeln!(out, "serving {} on {}", args.store, args.socket.display());
        if let Err(error) = line.and_then(|()| out.flush()) {
            tracing::debug!(error = error.to_string(), "nobody reads stdout");
        }
    };
    serve(Arc::from(backend), &args.socket, options, ready)?;
    Ok(())
}
