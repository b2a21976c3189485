//! The `fatsrv` command, as a function: the shared command line of the servers over this engine.

use crate::boot::{BOOT_BYTES, Boot, FatType};
use crate::check::{CheckOptions, check};
use crate::codepage::CodePage;
use crate::label::label_from;
use crate::name::{Rules, Shortname};
use crate::time::Zone;
use crate::{Fat, HEAD_BYTES, MkfsOptions, OpenOptions, mkfs};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag};
use seawall_diskfs::FsError;
use seawall_diskfs::check::{Item, Progress, Report};
use seawall_translator::cli::{self, CheckArgs, MkfsArgs, MountArgs, Volume};
use std::ffi::OsString;
use std::format;
use std::process::ExitCode;
use std::string::String;

/// `-o` options of this format, as Linux names them.
const OPTIONS: [&str; 17] = [
    "uid",
    "gid",
    "umask",
    "fmask",
    "dmask",
    "codepage",
    "iocharset",
    "utf8",
    "shortname",
    "tz",
    "time_offset",
    "quiet",
    "rodir",
    "nonumtail",
    "check",
    "usefree",
    "uni_xlate",
];

/// What the help says of them.
const OPTIONS_HELP: &str = "\
  uid=N, gid=N            owner of everything; whoever mounts by default
  umask=, fmask=, dmask=  permission bits taken away, octal: of all, of files, of directories
  codepage=N              of short names: 437 (the default), 850, 866, 932 and more
  iocharset=utf8, utf8    names are UTF-8; this is all there is
  shortname=RULE          lower, win95, winnt or mixed (the default)
  nonumtail               short names without a number where they can be
  check=relaxed|normal    accepted; names are never strict
  tz=ZONE                 UTC (the default), minutes or +HH:MM: what the volume's times are in
  time_offset=MIN         the same in minutes east of UTC
  quiet                   chown and chmod that FAT cannot keep succeed
  rodir                   the read-only attribute of a directory counts
  usefree, uni_xlate      refused: not needed here";

/// Bytes of a sector unless told, and unless the device's blocks are larger.
const SECTOR: u64 = 512;
/// What a volume may leave unused without a word: less than a track.
const MOST_SLACK: u64 = 64 << 10;

struct FatServer;

fn mkfs_options(logical: u32, args: &MkfsArgs) -> Result<MkfsOptions, FsError> {
    let [a, b, c, d, ..] = args.uuid;
    let mut opts = MkfsOptions::new(args.size, u32::from_be_bytes([a, b, c, d]), args.time);
    opts.fat = match args.fat {
        Some(12) => Some(FatType::Fat12),
        Some(16) => Some(FatType::Fat16),
        Some(32) => Some(FatType::Fat32),
        Some(n) => return Err(FsError::unsupported(format!("FAT{n}"))),
        None => None,
    };
    let sector = args.sector_size.unwrap_or(SECTOR.max(u64::from(logical)));
    opts.sector = u32::try_from(sector).unwrap_or(u32::MAX);
    opts.sectors_per_cluster = args.sectors_per_cluster;
    opts.fats = args.fats.unwrap_or(opts.fats);
    opts.reserved = args.reserved_sectors;
    opts.root_entries = args.root_entries;
    opts.hidden = args.hidden_sectors.unwrap_or(0);
    opts.media = args.media;
    if let Some(text) = args.label.as_deref().filter(|l| !l.is_empty()) {
        let label = label_from(text, &Rules::default().codepage);
        let rule = "up to 11 bytes, without \"*+,./:;<=>?[\\]|";
        let wrong = |_| FsError::unsupported(format!("the label \"{text}\"; it has {rule}"));
        opts.label = Some(label.map_err(wrong)?);
    }
    Ok(opts)
}

/// The process's umask, which Linux takes for the files of a mount. Read where that does not change
/// it.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    mask.and_then(|m| u32::from_str_radix(m.trim(), 8).ok()).unwrap_or(0o022)
}

/// Reads bytes of a device, whole blocks of it around them.
fn read_at<const N: usize>(dev: &mut dyn BlockDev, pos: u64) -> Result<[u8; N], FsError> {
    let caps = dev.caps();
    let logical = u64::from(caps.logical.max(1));
    let start = pos / logical * logical;
    let end = (pos + N as u64).next_multiple_of(logical);
    if end > caps.size {
        return Err(FsError::corrupt("boot sector", 0, "the store ends before its tables"));
    }
    let window = usize::try_from(end - start).unwrap_or(0);
    let mut buf = PageBuf::zeroed(window);
    dev.read(&mut [ReadRun { start, buf: &mut buf }], Tag(0))?;
    let at = usize::try_from(pos - start).unwrap_or(0);
    seawall_diskfs::bytes::array_at(&buf, at)
}

fn wrong(name: &str, value: &str, expected: &str) -> FsError {
    FsError::unsupported(format!("-o {name}={value}: expected {expected}"))
}

fn mask(name: &str, value: &str) -> Result<u32, FsError> {
    let mask = u32::from_str_radix(value, 8).ok().filter(|m| *m <= 0o777);
    mask.ok_or_else(|| wrong(name, value, "permission bits in octal, as in umask=022"))
}

/// Applies one `-o` option.
fn apply(o: &mut OpenOptions, name: &str, value: &str) -> Result<(), FsError> {
    // The last number means nobody.
    let number = || value.parse().ok().filter(|n| *n != u32::MAX);
    let number = || number().ok_or_else(|| wrong(name, value, "a number up to 4294967294"));
    match name {
        "uid" => o.uid = number()?,
        "gid" => o.gid = number()?,
        "umask" => {
            o.fmask = mask(name, value)?;
            o.dmask = o.fmask;
        }
        "fmask" => o.fmask = mask(name, value)?,
        "dmask" => o.dmask = mask(name, value)?,
        "codepage" => {
            let page = CodePage::by_name(value);
            o.rules.codepage = page.ok_or_else(|| wrong(name, value, CodePage::names()))?;
        }
        // Names are UTF-8 here, whatever the locale.
        "iocharset" if value.eq_ignore_ascii_case("utf8") => {}
        "iocharset" => return Err(wrong(name, value, "utf8, which is all there is")),
        "utf8" if ["", "1", "true", "yes"].contains(&value) => {}
        "utf8" => return Err(wrong(name, value, "nothing: names are always UTF-8")),
        "shortname" => {
            let rule = Shortname::by_name(value);
            o.rules.shortname =
                rule.ok_or_else(|| wrong(name, value, "lower, win95, winnt or mixed"))?;
        }
        "tz" => {
            let zone = Zone::parse(value);
            o.zone = zone.ok_or_else(|| wrong(name, value, "UTC, minutes or +HH:MM"))?;
        }
        "time_offset" => {
            let zone = value.parse().ok().and_then(Zone::offset);
            o.zone = zone.ok_or_else(|| wrong(name, value, "minutes east of UTC"))?;
        }
        "quiet" => o.quiet = true,
        "rodir" => o.rodir = true,
        "nonumtail" => o.rules.numtail = false,
        "check" if ["n", "normal", "r", "relaxed"].contains(&value) => {}
        "check" => return Err(wrong(name, value, "relaxed or normal: names are never strict")),
        "usefree" | "uni_xlate" => {
            return Err(FsError::unsupported(format!("-o {name}; it is not needed here")));
        }
        _ => return Err(wrong(name, value, "another value")),
    }
    Ok(())
}

impl Volume for FatServer {
    type Format = Fat;
    const PROGRAM: &'static str = "fatsrv";
    const FORMAT: &'static str = "FAT";
    const MKFS_OPTIONS: &'static [&'static str] = &[
        "fat",
        "sector_size",
        "sectors_per_cluster",
        "fats",
        "reserved_sectors",
        "root_entries",
        "hidden_sectors",
        "media",
    ];
    const SERIAL: bool = true;

    fn open(dev: &mut dyn BlockDev, args: &MountArgs) -> Result<Fat, FsError> {
        let sector = read_at::<BOOT_BYTES>(dev, 0)?;
        let boot = Boot::parse(&sector, dev.caps().size)?;
        let mask = own_umask();
        let mut options = OpenOptions {
            read_only: args.read_only,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            fmask: mask,
            dmask: mask,
            ..OpenOptions::default()
        };
        for (name, value) in &args.own {
            apply(&mut options, name, value)?;
        }
        let head = read_at::<HEAD_BYTES>(dev, boot.fat_start(boot.active_fat.unwrap_or(0)))?;
        let fsinfo = match boot.fsinfo {
            Some(s) => Some(read_at::<512>(dev, u64::from(s) * u64::from(boot.sector))?),
            None => None,
        };
        Fat::open(boot, head, fsinfo.as_ref(), options)
    }

    fn mkfs(dev: &mut dyn BlockDev, args: &MkfsArgs) -> Result<String, FsError> {
        let opts = mkfs_options(dev.caps().logical, args)?;
        let boot = mkfs(dev, &opts)?;
        let bytes = boot.total_sectors * u64::from(boot.sector);
        let (name, size) = (boot.fat_type.name(), cli::format_size(bytes));
        let serial = boot.serial.unwrap_or(0);
        let (cluster, high, low) = (boot.cluster, serial >> 16, serial & 0xFFFF);
        Ok(format!("{name}, {bytes} bytes ({size}), clusters of {cluster}, {high:04X}-{low:04X}"))
    }

    fn mkfs_warning(args: &MkfsArgs) -> Option<String> {
        if let Some(n) = args.fats.filter(|n| *n > 2) {
            return Some(format!("{n} FATs: fsck.fat and others take one or two only"));
        }
        let most = u64::from(u32::MAX) * args.sector_size.unwrap_or(SECTOR);
        let more = "larger sectors (--sector-size) reach further";
        (args.size > most + MOST_SLACK).then(|| format!("only {most} bytes are used; {more}"))
    }

    fn check(
        dev: &mut dyn BlockDev,
        args: &CheckArgs,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report<Item>, FsError> {
        let bounds = CheckOptions { keep: args.keep, memory: args.memory, ..Default::default() };
        Ok(check(dev, &bounds, progress)?.into_items())
    }

    fn own_options() -> &'static [&'static str] {
        &OPTIONS
    }

    fn own_options_help() -> Option<&'static str> {
        Some(OPTIONS_HELP)
    }

    fn check_options(args: &MountArgs) -> Result<(), String> {
        let mut options = OpenOptions::default();
        let done = args.own.iter().try_for_each(|(name, v)| apply(&mut options, name, v));
        done.map_err(|e| match e {
            FsError::Unsupported(what) => what.into(),
            e => format!("{e}"),
        })
    }

    fn read_only_because(volume: &Fat) -> Option<String> {
        let why = volume.read_only_because();
        (!why.is_empty()).then(|| why.join(", "))
    }
}

/// Runs the command with these arguments (the first is the program's name).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    cli::run::<FatServer>(args)
}
