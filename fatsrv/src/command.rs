//! The `fatsrv` command, as a function: the shared command line of the servers over this engine.

use crate::boot::{BOOT_BYTES, Boot};
use crate::codepage::CodePage;
use crate::name::Shortname;
use crate::time::Zone;
use crate::{Fat, HEAD_BYTES, OpenOptions};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag};
use seawall_diskfs::FsError;
use seawall_translator::cli::{self, MkfsArgs, MountArgs, Volume};
use std::ffi::OsString;
use std::format;
use std::process::ExitCode;
use std::string::{String, ToString};

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

struct FatServer;

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
    let number = || value.parse().map_err(|_| wrong(name, value, "a number"));
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

    fn mkfs(_dev: &mut dyn BlockDev, _args: &MkfsArgs) -> Result<String, FsError> {
        Err(FsError::unsupported("mkfs of FAT".to_string()))
    }

    fn own_options() -> &'static [&'static str] {
        &OPTIONS
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
