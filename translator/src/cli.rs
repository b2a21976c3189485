//! The command line that all filesystem servers share: `mkfs`, `serve`, `ctl` and what is to come.
//!
//! Results go to stdout, everything else to stderr. Exit status 0 on success, 1 on failure with one
//! line saying what was wrong with which object and what to do, 2 on bad usage.

mod check;
mod ctl;
mod memory;
mod mkfs;
mod mount;
mod options;
mod policy;
mod serve;
mod show;

pub use check::CheckArgs;
pub use memory::machine_memory;
pub use mkfs::MkfsArgs;
pub use options::MountArgs;
pub use policy::load as load_policy;
pub use seawall_store::name::format_size;

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use seawall_blockdev::BlockDev;
use seawall_diskfs::check::{Item, Progress, Report};
use seawall_diskfs::{Format, FsError};
use seawall_store::StoreError;
use seawall_store::cli::{print_usage, say, start_tracing};
use seawall_store::name::parse_size;
use std::ffi::OsString;
use std::format;
use std::path::PathBuf;
use std::process::ExitCode;
use std::string::String;
use std::vec::Vec;

/// A server for a format.
pub trait Volume {
    /// The format.
    type Format: Format;

    /// The server's program name: `ext2srv`.
    const PROGRAM: &'static str;
    /// The format's name: `ext2`.
    const FORMAT: &'static str;
    /// The options of `mkfs` that it takes, as [`MkfsArgs`] names them, beside `size`, `label` and
    /// `uuid`. Others are refused and not in the help.
    const MKFS_OPTIONS: &'static [&'static str];
    /// The volume's identity is a serial number of 4 bytes, the first of [`MkfsArgs::uuid`].
    const SERIAL: bool = false;

    /// Opens the volume on a device.
    ///
    /// # Errors
    /// `Unsupported` names the feature, `Corrupt` the place, `Io` the device's error.
    fn open(dev: &mut dyn BlockDev, args: &MountArgs) -> Result<Self::Format, FsError>;

    /// Makes a volume. Returns one line that says what was made. Nothing is durable before the
    /// caller's sync.
    ///
    /// # Errors
    /// `Unsupported` for options that cannot be, else the device's.
    fn mkfs(dev: &mut dyn BlockDev, args: &MkfsArgs) -> Result<String, FsError>;

    /// What to say of a volume that was made as asked and may surprise. `None`: nothing.
    fn mkfs_warning(_args: &MkfsArgs) -> Option<String> {
        None
    }

    /// Checks the volume on a device, which is only read. `progress` is told how far it is.
    ///
    /// # Errors
    /// `Unsupported` for a volume that cannot be checked; `Io` when the device is gone. What is
    /// wrong with the volume is no error.
    fn check(
        dev: &mut dyn BlockDev,
        args: &CheckArgs,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report<Item>, FsError> {
        let _ = (dev, args, progress);
        Err(FsError::unsupported(format!("check of {}; that comes later", Self::FORMAT)))
    }

    /// Why the volume cannot be written, although that was not asked for; `None` when it can.
    fn read_only_because(volume: &Self::Format) -> Option<String>;

    /// What the volume says of `-o errors=`, for mounts without that option: `continue`,
    /// `remount-ro` or `panic` (taken as `remount-ro`).
    fn errors(_volume: &Self::Format) -> Option<&'static str> {
        None
    }

    /// Names of `-o` options of its own, which [`Volume::open`] finds in [`MountArgs::own`].
    fn own_options() -> &'static [&'static str] {
        &[]
    }

    /// What the help says of them.
    fn own_options_help() -> Option<&'static str> {
        None
    }

    /// Checks the values of its own options before the store is opened.
    ///
    /// # Errors
    /// What is wrong with which.
    fn check_options(_args: &MountArgs) -> Result<(), String> {
        Ok(())
    }
}

const STORE_HELP: &str = "STORE is PATH, file:PATH[?ro], mem:SIZE, zero:SIZE, part:N:STORE, \
     sim:PROFILE:STORE, fault:SPEC:STORE or unix:SOCKET (a store server).\n\
     Sizes are bytes or a number with K, M, G or T.";

/// Serves a filesystem on a store, makes one, and talks to a server.
#[derive(Parser)]
#[command(version, after_help = STORE_HELP)]
struct Cli {
    /// Says more on stderr; twice says most. RUST_LOG filters apply.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Makes a filesystem on a store.
    Mkfs(Mkfs),
    /// Serves the filesystem on a store until SIGINT, SIGTERM, `ctl SOCKET shutdown` or, with
    /// --mount, until it is unmounted.
    Serve(Serve),
    /// Asks something of a server; returns when it is done.
    Ctl(Ctl),
    /// Mounts the filesystem on a store through FUSE, until it is unmounted, SIGINT, SIGTERM or
    /// `ctl DIR shutdown`.
    Mount(Mount),
    /// Checks a filesystem that is not in use and changes nothing. Exit status 0: it is consistent;
    /// 1: it is not, or cannot be checked.
    Check(Check),
}

#[derive(Args)]
struct Check {
    /// The store.
    store: String,
    /// Replays the journal first (comes later).
    #[arg(long)]
    replay: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Findings that are listed, of each severity; the rest is counted.
    #[arg(long, value_name = "N", default_value_t = seawall_diskfs::check::KEEP)]
    max_findings: usize,
    /// Memory for bitmaps and tables.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    memory: u64,
}

#[derive(Args)]
struct Mkfs {
    /// The store.
    store: String,
    /// Size of the filesystem; that of the store by default. Creates the file of a file: store that
    /// does not exist.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Size of a block.
    #[arg(long, value_parser = parse_size)]
    block_size: Option<u64>,
    /// Size of an inode in bytes.
    #[arg(long, value_name = "BYTES")]
    inode_size: Option<u16>,
    /// Number of inodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    inodes: Option<u32>,
    /// Volume name, at most 16 bytes.
    #[arg(long, value_parser = label)]
    label: Option<String>,
    /// Volume identity; a random one by default.
    #[arg(long, value_parser = mkfs::identity)]
    uuid: Option<mkfs::Identity>,
    /// Features, separated by commas: NAME adds one, ^NAME takes it away, none takes all away.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<String>,
    /// With an empty journal.
    #[arg(long)]
    journal: bool,
    /// Type: width of the FAT's entries; by size unless given.
    #[arg(long, value_name = "12|16|32", value_parser = mkfs::fat)]
    fat: Option<u8>,
    /// Size of a sector.
    #[arg(long, value_parser = parse_size)]
    sector_size: Option<u64>,
    /// Sectors of a cluster; by size unless given.
    #[arg(long, value_name = "N")]
    sectors_per_cluster: Option<u32>,
    /// Number of FATs; 2 unless given.
    #[arg(long, value_name = "N")]
    fats: Option<u32>,
    /// Sectors before the first FAT at least.
    #[arg(long, value_name = "N")]
    reserved_sectors: Option<u32>,
    /// Entries of the root directory at least (not of FAT32).
    #[arg(long, value_name = "N")]
    root_entries: Option<u32>,
    /// Sectors before the volume on its medium.
    #[arg(long, value_name = "N")]
    hidden_sectors: Option<u32>,
    /// Media byte, in hexadecimal: f0, or f8 to ff.
    #[arg(long, value_name = "BYTE", value_parser = mkfs::media)]
    media: Option<u8>,
}

#[derive(Args)]
struct Serve {
    /// The store.
    store: String,
    /// Socket to listen on, created with mode 0600.
    #[arg(long)]
    socket: PathBuf,
    /// Also mounts it here, with the options of `mount`. The end of the mount (umount) ends the
    /// server too.
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Durability policy: the name of a preset, or a file that ends in .toml.
    #[arg(long, value_name = "NAME-or-FILE", default_value = "default")]
    policy: String,
    /// Mount options, separated by commas: defaults, ro, rw, force, sync, dirsync, flush, relatime
    /// (the default), noatime, strictatime, nodiratime, discard, noacl, nouser_xattr,
    /// errors=continue|remount-ro, cache=SIZE (memory for metadata, at least 4M; by default a 32nd
    /// of the machine's, from 32M to 512M; directory indexes take up to a quarter of it more).
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    options: Vec<String>,
    /// Sessions at a time.
    #[arg(long, value_name = "N", default_value_t = crate::protocol::limit::SESSIONS,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_sessions: u32,
}

#[derive(Args)]
struct Mount {
    /// The store.
    store: String,
    /// The mount point.
    dir: PathBuf,
    /// Socket to listen on, created with mode 0600; without it, one that `ctl DIR` finds.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Durability policy: the name of a preset, or a file that ends in .toml.
    #[arg(long, value_name = "NAME-or-FILE", default_value = "default")]
    policy: String,
    /// Mount options, separated by commas: defaults, ro, rw, force, sync, dirsync, flush, relatime
    /// (the default), noatime, strictatime, nodiratime, discard, noacl, nouser_xattr,
    /// errors=continue|remount-ro, cache=SIZE (memory for metadata, at least 4M; by default a 32nd
    /// of the machine's, from 32M to 512M; directory indexes take up to a quarter of it more),
    /// allow_other, noperm (nobody's permissions are checked), suid, nosuid, dev, nodev, exec,
    /// noexec, kernel_writeback, noclose.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    options: Vec<String>,
    /// Returns when the mount answers; the server goes on in the background.
    #[arg(long)]
    daemon: bool,
    #[arg(long, hide = true)]
    daemon_child: bool,
    /// Sessions at a time.
    #[arg(long, value_name = "N", default_value_t = crate::protocol::limit::SESSIONS,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_sessions: u32,
}

#[derive(Args)]
struct Ctl {
    /// Socket of the server, or a directory of its mount.
    socket: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Makes everything durable, as the policy says.
    Sync,
    /// Prints the policy, or puts a preset in force.
    Policy {
        /// The preset.
        name: Option<String>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints what each site did.
    Stats {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes everything back and allows no more changes.
    RemountRo,
    /// Writes everything back and ends the server.
    Shutdown,
    /// FAT: allocation goes on at this cluster, so that runs can be repeated on the same part of a
    /// device.
    NextCluster {
        /// The cluster's number.
        #[arg(value_name = "N")]
        cluster: u64,
    },
    /// Holds changes back (comes later).
    Freeze,
    /// Lets changes go on (comes later).
    Thaw,
}

/// Runs the command of a server with these arguments (the first is the program's name).
pub fn run<V: Volume>(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = Cli::command()
        .name(V::PROGRAM)
        .bin_name(V::PROGRAM)
        .about(format!("Serves {} filesystems, makes them, and talks to a server.", V::FORMAT))
        .mut_subcommand("mkfs", mkfs::only_of::<V>)
        .mut_subcommand("serve", with_own_options::<V>)
        .mut_subcommand("mount", with_own_options::<V>);
    let parsed = command.try_get_matches_from(args).and_then(|m| {
        mkfs::refuse_others::<V>(&m)?;
        Cli::from_arg_matches(&m)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(usage) => return print_usage(&usage),
    };
    start_tracing(cli.verbose);
    let done = match cli.verb {
        Verb::Mkfs(args) => mkfs::run::<V>(args),
        Verb::Serve(args) => serve::run::<V>(&args),
        Verb::Ctl(args) => ctl::run(&args),
        Verb::Mount(args) => match mount::run::<V>(&args) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        Verb::Check(args) => check::run::<V>(&args),
    };
    exit(V::PROGRAM, done)
}

fn with_own_options<V: Volume>(command: Command) -> Command {
    match V::own_options_help() {
        Some(help) => command.after_help(format!("Options of {}:\n{help}", V::FORMAT)),
        None => command,
    }
}

fn label(text: &str) -> Result<String, String> {
    match text.len() {
        0..=16 => Ok(text.into()),
        n => Err(format!("{n} bytes, of at most 16")),
    }
}

/// Writes a result to stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    Ok(seawall_store::cli::print(text)?)
}

/// The end of a command whose failures are on stderr already.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct Told;

/// A value on the command line that is wrong whatever it is used on: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

fn is_usage(error: &anyhow::Error) -> bool {
    let name = |e: &StoreError| matches!(e, StoreError::Name { .. } | StoreError::NotYet { .. });
    error.is::<Usage>() || error.downcast_ref::<StoreError>().is_some_and(name)
}

pub(crate) fn exit(program: &str, done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<Told>() {
                say(&format!("{program}: {error:#}"));
            }
            if is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
