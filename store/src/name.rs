//! STORE names, as every command line takes them.
//!
//! Chains read left to right: `fault:flush=3:file:disk.img`. Before the first colon stands a kind
//! (lower-case letters, digits, `+`); without one the name is a path. Nothing is guessed: a word
//! that looks like a kind and is none is an error, and a path with a colon is written `file:a:b` or
//! `./a:b`.

mod any;
mod size;

pub use any::AnyStore;
pub use size::{SizeError, format_size, parse_size};

use crate::backend::{
    Backend, Clock, FAULT_HELP, FaultBackend, FaultSpec, FileBackend, FileOptions, MemBackend,
    PartBackend, ReadOnly, RemoteBackend, SimBackend,
};
use crate::client::{Access, Client};
use crate::error::StoreError;
use crate::local::LocalStore;
use crate::sim::{Profile, load_profile};
use std::boxed::Box;
use std::format;
use std::path::Path;
use std::string::{String, ToString};
use std::sync::Arc;

/// What is accepted, for error messages.
pub const ACCEPTED: &str = "accepted are PATH, file:PATH[?ro&direct], mem:SIZE, zero:SIZE, \
     part:N:STORE, sim:PROFILE:STORE, fault:SPEC:STORE and unix:SOCKET";

/// Kinds that have a place in the grammar but no code yet.
const NOT_YET: [&str; 8] =
    ["remap", "concat", "stripe", "mirror", "cow", "record", "nbd", "nbd+unix"];

/// What time `sim:` stores live in.
#[derive(Clone, Debug, Default)]
pub enum SimClock {
    /// Real time.
    #[default]
    Wall,
    /// Virtual time of the given clock, or of a new one.
    Virtual(Option<Clock>),
}

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Refuses writes and takes no writer's lock, as `?ro` does.
    pub read_only: bool,
    /// Takes the store of a server for itself: the only session that may write to it
    /// ([`Access::Exclusive`]). Without effect with `read_only`. A file has one writer anyway.
    pub exclusive: bool,
    /// Creates the file of a `file:` store and sets its length. Ignored by stores that are no file.
    pub create_size: Option<u64>,
    /// Time of `sim:` stores.
    pub clock: SimClock,
    /// The name a client gives to a server.
    pub client_name: String,
}

impl OpenOptions {
    fn access(&self) -> Access {
        match (self.read_only, self.exclusive) {
            (true, _) => Access::ReadOnly,
            (false, true) => Access::Exclusive,
            (false, false) => Access::Shared,
        }
    }
}

/// Opens a STORE by name.
///
/// # Errors
/// [`StoreError`]: one line saying what is wrong with which object.
pub fn open(name: &str, options: &OpenOptions) -> Result<AnyStore, StoreError> {
    if let Some(("unix", rest)) = split_kind(name) {
        let socket = socket(name, rest)?;
        let client = Client::connect_as(socket, &options.client_name, options.access())?;
        return Ok(AnyStore::Remote(Box::new(client)));
    }
    let clock = match &options.clock {
        SimClock::Wall => Clock::wall(),
        SimClock::Virtual(clock) => clock.clone().unwrap_or_else(Clock::virtual_time),
    };
    let backend = writable_or_not(backend(name, options, &clock)?, options);
    Ok(AnyStore::Local(Box::new(LocalStore::with_clock(Arc::from(backend), clock))))
}

/// Opens a STORE for a server.
///
/// # Errors
/// As [`open`].
pub fn open_backend(name: &str, options: &OpenOptions) -> Result<Box<dyn Backend>, StoreError> {
    let clock = match &options.clock {
        SimClock::Virtual(Some(clock)) => clock.clone(),
        SimClock::Virtual(None) => Clock::virtual_time(),
        SimClock::Wall => Clock::wall(),
    };
    Ok(writable_or_not(backend(name, options, &clock)?, options))
}

/// A store that knows nothing of read-only opening is kept from writes all the same.
fn writable_or_not(backend: Box<dyn Backend>, options: &OpenOptions) -> Box<dyn Backend> {
    if options.read_only && !backend.caps().read_only {
        return Box::new(ReadOnly::over(backend));
    }
    backend
}

fn socket<'n>(name: &str, path: &'n str) -> Result<&'n Path, StoreError> {
    if path.is_empty() {
        return Err(StoreError::name(name, "expected unix:SOCKET"));
    }
    Ok(Path::new(path))
}

fn split_kind(name: &str) -> Option<(&str, &str)> {
    let (kind, rest) = name.split_once(':')?;
    let is_kind = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'+';
    (!kind.is_empty() && kind.bytes().all(is_kind)).then_some((kind, rest))
}

fn backend(
    name: &str,
    options: &OpenOptions,
    clock: &Clock,
) -> Result<Box<dyn Backend>, StoreError> {
    let Some((kind, rest)) = split_kind(name) else { return file(name, name, options) };
    match kind {
        "file" => file(name, rest, options),
        "mem" | "zero" => memory(name, kind, rest),
        "sim" => {
            let (profile, inner) = profile(name, rest)?;
            let inner = backend(inner, options, clock)?;
            Ok(Box::new(SimBackend::new(profile, inner, clock.clone())))
        }
        "fault" => {
            let (spec, inner) = rest
                .split_once(':')
                .ok_or_else(|| StoreError::name(name, "expected fault:SPEC:STORE"))?;
            let spec: FaultSpec = spec.parse().map_err(|rule| {
                StoreError::name(
                    name,
                    format!("fault rule \"{rule}\" is not understood; rules are {FAULT_HELP}"),
                )
            })?;
            let inner = backend(inner, options, clock)?;
            Ok(Box::new(FaultBackend::with_clock(spec, inner, clock.clone())))
        }
        "part" => part(name, rest, options, clock),
        "unix" => {
            let path = socket(name, rest)?;
            let remote = RemoteBackend::connect(path, &options.client_name, options.access())?;
            Ok(Box::new(remote))
        }
        kind if NOT_YET.contains(&kind) => {
            Err(StoreError::NotYet { name: name.to_string(), kind: kind.to_string() })
        }
        _ => Err(StoreError::name(name, format!("no kind of store {kind}; {ACCEPTED}"))),
    }
}

/// The profile at the front, and the STORE behind it. A name has no point and no slash, so that a
/// file's cannot be mistaken for one: that ends with the first `.toml:`.
fn profile<'n>(name: &str, rest: &'n str) -> Result<(Profile, &'n str), StoreError> {
    let expected = "expected sim:PROFILE:STORE, PROFILE a name or a file that ends in .toml";
    let expected = || StoreError::name(name, expected);
    let (front, inner) = rest.split_once(':').ok_or_else(expected)?;
    if !front.contains(['.', '/']) {
        let profile = Profile::find(front).ok_or_else(|| {
            let known = Profile::names();
            StoreError::name(
                name,
                format!("no device profile {front}; there are {known}, or a file PATH.toml"),
            )
        })?;
        return Ok((profile, inner));
    }
    let end = rest.find(".toml:").ok_or_else(expected)?.saturating_add(".toml".len());
    let (path, inner) = rest.split_at_checked(end).ok_or_else(expected)?;
    let profile = load_profile(path).map_err(|e| StoreError::name(name, e.to_string()))?;
    Ok((profile, inner.strip_prefix(':').unwrap_or(inner)))
}

/// The device model in a STORE name, if there is one and nothing stands in front of it but
/// partitions and faults.
pub fn profile_of(name: &str) -> Option<Profile> {
    let mut rest = name;
    loop {
        match split_kind(rest)? {
            ("sim", inner) => return profile(name, inner).ok().map(|(profile, _)| profile),
            ("part" | "fault", inner) => rest = inner.split_once(':')?.1,
            _ => return None,
        }
    }
}

fn part(
    name: &str,
    rest: &str,
    options: &OpenOptions,
    clock: &Clock,
) -> Result<Box<dyn Backend>, StoreError> {
    let (number, inner) = rest
        .split_once(':')
        .filter(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        .ok_or_else(|| StoreError::name(name, "expected part:N:STORE, N a partition's number"))?;
    let number = match number.parse() {
        Ok(0) => return Err(StoreError::name(name, "partitions are counted from 1")),
        Ok(number) => number,
        Err(_) => return Err(StoreError::name(name, format!("no table has {number} partitions"))),
    };
    // The size that a new file gets is never that of the disk around a partition.
    let options = OpenOptions { create_size: None, ..options.clone() };
    let whole = |what| format!("{what}, which has one writer for all of its partitions,");
    let inner = backend(inner, &options, clock).map_err(|error| match error {
        StoreError::Busy { what } => StoreError::Busy { what: whole(what) },
        StoreError::Held { what, by } => StoreError::Held { what: whole(what), by },
        other => other,
    })?;
    let part = PartBackend::open(number, inner)
        .map_err(|cause| StoreError::Partition { name: name.to_string(), cause })?;
    Ok(Box::new(part))
}

fn memory(name: &str, kind: &str, size: &str) -> Result<Box<dyn Backend>, StoreError> {
    let bytes = parse_size(size).map_err(|e| StoreError::name(name, e.to_string()))?;
    let made = if kind == "mem" { MemBackend::new(bytes) } else { MemBackend::zero(bytes) };
    let made = made.map_err(|_| StoreError::name(name, "size must be 512 bytes to 4 TiB"))?;
    Ok(Box::new(made))
}

fn file(name: &str, path: &str, options: &OpenOptions) -> Result<Box<dyn Backend>, StoreError> {
    let mut read_only = options.read_only;
    let mut direct = false;
    let mut path = path;
    if let Some((front, qualifiers)) = path.rsplit_once('?') {
        path = front;
        for qualifier in qualifiers.split('&') {
            match qualifier {
                "ro" => read_only = true,
                "direct" => direct = true,
                "io_uring" => {
                    let kind = format!("file with ?{qualifier}");
                    return Err(StoreError::NotYet { name: name.to_string(), kind });
                }
                _ => {
                    let problem =
                        format!("no qualifier ?{qualifier}; accepted are ?ro and ?direct");
                    return Err(StoreError::name(name, problem));
                }
            }
        }
    }
    if path.is_empty() {
        return Err(StoreError::name(name, ACCEPTED));
    }
    let options = FileOptions { read_only, create_size: options.create_size, direct };
    Ok(Box::new(FileBackend::open(Path::new(path), options)?))
}
