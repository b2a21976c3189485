//! `serve STORE --socket PATH`.

use super::{Serve, Volume, options, policy};
use crate::server::{Device, ServeOptions, serve};
use crate::session::not_durable;
use anyhow::{Context, Result};
use seawall_blockdev::BlockDev;
use seawall_diskfs::{Fs, MountOpts};
use seawall_store::cli::say;
use seawall_store::{OpenOptions, open};
use std::format;

pub(super) fn run<V: Volume>(args: &Serve) -> Result<()> {
    let mut policy = policy::load(&args.policy)?;
    let mount = options::apply(&args.options, V::own_options(), &mut policy)?;
    let client_name = format!("{}[{}]", V::PROGRAM, std::process::id());
    let read_only = mount.read_only;
    let opening = OpenOptions { read_only, client_name, ..OpenOptions::default() };
    let mut device = open(&args.store, &opening)?;
    let volume = V::open(&mut device, &mount).with_context(|| args.store.clone())?;
    let why = V::read_only_because(&volume).filter(|_| !mount.read_only);
    let (caps, seqs) = (device.caps(), device.seqs());
    let opts = MountOpts { read_only, ..MountOpts::new(policy) };
    let fs = Fs::new(volume, caps, seqs, opts).with_context(|| args.store.clone())?;

    let durable =
        not_durable(&fs).map_or_else(|| "durable".into(), |w| format!("not durable: {w}"));
    let mode = match (fs.is_read_only(), why) {
        (false, _) => std::string::String::new(),
        (true, Some(why)) => format!(", read-only because of {why}"),
        (true, None) => ", read-only".into(),
    };
    let line = format!(
        "{}: serving {} of {} on {} (cache {}), policy {}, {durable}{mode}",
        V::PROGRAM,
        V::FORMAT,
        args.store,
        args.socket.display(),
        caps.cache.name(),
        fs.policy().name,
    );
    let options = ServeOptions { sessions: args.max_sessions, ..ServeOptions::default() };
    let ready = || say(&line);
    serve(fs, Device::from(device), &args.socket, &options, ready)
        .with_context(|| args.store.clone())
}
