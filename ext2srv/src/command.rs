//! The `ext2srv` command, as a function: the shared command line of the servers over this engine.
//! The binary and whoever embeds it run the same code.

use crate::check::{CheckOptions, check};
use crate::{Ext2, MkfsOptions, OpenOptions, mkfs};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag};
use seawall_diskfs::FsError;
use seawall_diskfs::check::{Item, Progress, Report};
use seawall_translator::cli::{self, CheckArgs, MkfsArgs, MountArgs, Volume};
use std::ffi::OsString;
use std::format;
use std::process::ExitCode;
use std::string::String;

/// Byte offset and length of the primary superblock.
const SUPERBLOCK: (usize, usize) = (1024, 1024);
/// Largest blocks that a kernel with the usual pages mounts.
const KERNEL_BLOCK_MAX: u64 = 4096;

/// `-o` options that read a volume whose journal needs recovery, as Linux names them.
const NO_RECOVERY: [&str; 2] = ["norecovery", "noload"];
/// `-o` options of this format.
const OPTIONS: [&str; 4] = ["norecovery", "noload", "resuid", "resgid"];
/// What the help says of them.
const OPTIONS_HELP: &str = "\
  resuid=N, resgid=N   who may use the reserved blocks; what the volume says by default
  norecovery, noload   with ro: reads a volume whose journal was not replayed";

/// The number of an own option, the last one given.
fn number(args: &MountArgs, name: &str) -> Result<Option<u32>, String> {
    let Some((_, value)) = args.own.iter().rfind(|(n, _)| n == name) else {
        return Ok(None);
    };
    value.parse().map(Some).map_err(|_| format!("-o {name}={value}: expected a number"))
}

struct Ext2Server;

impl Volume for Ext2Server {
    type Format = Ext2;
    const PROGRAM: &'static str = "ext2srv";
    const FORMAT: &'static str = "ext2";
    const MKFS_OPTIONS: &'static [&'static str] =
        &["block_size", "inode_size", "inodes", "features", "journal"];

    fn open(dev: &mut dyn BlockDev, args: &MountArgs) -> Result<Ext2, FsError> {
        let caps = dev.caps();
        // Whole device blocks around the superblock.
        let (offset, len) = SUPERBLOCK;
        let window = (offset + len).next_multiple_of(caps.logical.max(1) as usize);
        if caps.size < window as u64 {
            return Err(FsError::corrupt("superblock", 0, "the store ends before it"));
        }
        let mut buf = PageBuf::zeroed(window);
        dev.read(&mut [ReadRun { start: 0, buf: &mut buf }], Tag(0))?;
        let bytes = buf.get(offset..).and_then(|b| b.first_chunk::<1024>());
        let bytes = bytes.ok_or(FsError::Bug("superblock window"))?;
        let options = OpenOptions {
            read_only: args.read_only,
            force: args.force,
            no_recovery: args.own.iter().any(|(name, _)| NO_RECOVERY.contains(&name.as_str())),
        };
        let number = |name| number(args, name).map_err(FsError::unsupported);
        let (uid, gid) = (number("resuid")?, number("resgid")?);
        Ok(Ext2::open(bytes, caps.size, options)?.with_reserve_for(uid, gid))
    }

    fn mkfs(dev: &mut dyn BlockDev, args: &MkfsArgs) -> Result<String, FsError> {
        let mut opts = MkfsOptions::new(args.size, args.uuid, args.time);
        if let Some(size) = args.block_size {
            opts.block_size = u32::try_from(size).unwrap_or(u32::MAX);
        }
        opts.inode_size = args.inode_size.unwrap_or(opts.inode_size);
        opts.inodes = args.inodes;
        if let Some(label) = &args.label {
            let into = opts.label.get_mut(..label.len());
            let into = into.ok_or_else(|| FsError::unsupported("a label over 16 bytes"))?;
            into.copy_from_slice(label.as_bytes());
        }
        for name in args.features.iter().filter(|f| !f.is_empty()) {
            opts.features.set(name)?;
        }
        opts.features.journal |= args.journal;
        let made = mkfs(dev, &opts)?;
        let journal = if opts.features.journal { ", a journal" } else { "" };
        let (size, blocks) = (cli::format_size(made), opts.block_size);
        Ok(format!("ext2, {made} bytes ({size}), blocks of {blocks}{journal}"))
    }

    fn mkfs_warning(args: &MkfsArgs) -> Option<String> {
        let size = args.block_size.filter(|size| *size > KERNEL_BLOCK_MAX)?;
        let page = KERNEL_BLOCK_MAX;
        Some(format!("blocks of {size}: a kernel with pages of {page} bytes cannot mount these"))
    }

    fn own_options() -> &'static [&'static str] {
        &OPTIONS
    }

    fn own_options_help() -> Option<&'static str> {
        Some(OPTIONS_HELP)
    }

    fn check_options(args: &MountArgs) -> Result<(), String> {
        number(args, "resuid").and(number(args, "resgid")).map(|_| ())
    }

    fn errors(volume: &Ext2) -> Option<&'static str> {
        // `s_errors`. Linux, too, takes what it does not know for "continue".
        match volume.superblock().errors {
            2 => Some("remount-ro"),
            3 => Some("panic"),
            _ => Some("continue"),
        }
    }

    fn check(
        dev: &mut dyn BlockDev,
        args: &CheckArgs,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report<Item>, FsError> {
        let options = CheckOptions { keep: args.keep, memory: args.memory };
        Ok(check(dev, &options, progress)?.into_items())
    }

    fn read_only_because(volume: &Ext2) -> Option<String> {
        let why = volume.read_only_because();
        (!why.is_empty()).then(|| why.join(", "))
    }
}

/// Runs the command with these arguments (the first is the program's name).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    cli::run::<Ext2Server>(args)
}
