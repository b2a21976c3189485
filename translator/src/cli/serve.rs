//! `serve STORE --socket PATH [--mount DIR]`.

use super::{Serve, Usage, Volume, memory, options, policy};
use crate::fuse;
use crate::server::{Device, Places, ServeOptions, serve};
use crate::session::not_durable;
use anyhow::{Context, Result, anyhow, bail};
use seawall_blockdev::BlockDev;
use seawall_diskfs::driver::{self, Blocking};
use seawall_diskfs::{Atime, CacheSizes, Ctx, Format, Fs, MountOpts};
use seawall_store::cli::say;
use seawall_store::{OpenOptions, open};
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, io};

pub(super) fn run<V: Volume>(args: &Serve) -> Result<()> {
    let job = Job {
        store: &args.store,
        socket: Some(&args.socket),
        mount: args.mount.as_deref(),
        policy: &args.policy,
        options: &args.options,
        max_sessions: args.max_sessions,
    };
    job.run::<V>(|| Ok(()))
}

/// What `serve` and `mount` have in common.
pub(super) struct Job<'a> {
    pub(super) store: &'a str,
    pub(super) socket: Option<&'a Path>,
    pub(super) mount: Option<&'a Path>,
    pub(super) policy: &'a str,
    pub(super) options: &'a [String],
    pub(super) max_sessions: u32,
}

impl Job<'_> {
    /// Serves until the end. `ready` is called after the start-up line was written.
    pub(super) fn run<V: Volume>(&self, ready: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let mut policy = policy::load(self.policy)?;
        options::contradictions(self.options)?;
        let mut list: Vec<String> = self.options.to_vec();
        let mut own = V::own_options().to_vec();
        let mut kernel = self.kernel_options(&mut list, &mut own)?;
        let mount = options::apply(&list, &own, &mut policy)?;
        V::check_options(&mount).map_err(Usage)?;
        kernel.acl = kernel.checks && !mount.no_acl;
        kernel.noatime = mount.atime.when == Atime::Never;
        let client_name = format!("{}[{}]", V::PROGRAM, std::process::id());
        let read_only = mount.read_only;
        // Without effect with `read_only`.
        let exclusive = true;
        let opening = OpenOptions { read_only, exclusive, client_name, ..OpenOptions::default() };
        let mut device = open(self.store, &opening)?;
        let volume = V::open(&mut device, &mount).with_context(|| self.store.to_string())?;
        options::volume_errors(V::errors(&volume), &mount, &mut policy);
        blocks_fit(volume.geometry().block_size, device.caps().logical)
            .map_err(|e| anyhow!("{}: {e}", self.store))?;
        let store = device.caps().read_only.then(|| "the read-only store".to_string());
        let why = V::read_only_because(&volume).or(store).filter(|_| !mount.read_only);
        if let Some(why) = why.as_ref().filter(|_| self.options.iter().any(|o| o == "rw")) {
            bail!("{}: -o rw: it cannot be written because of {why}", self.store);
        }
        let (caps, seqs) = (device.caps(), device.seqs());
        let no_close = kernel.no_close;
        let opts = MountOpts {
            read_only,
            no_close,
            atime: mount.atime,
            discard: mount.discard,
            acl: !mount.no_acl,
            user_xattr: !mount.no_user_xattr,
            ..MountOpts::new(policy).with_caches(cache_sizes(mount.cache))
        };
        let fs = Fs::new(volume, caps, seqs, opts).with_context(|| self.store.to_string())?;

        let (fs, device, what) = describe(fs, device);
        let durable =
            not_durable(&fs).map_or_else(|| "durable".into(), |w| format!("not durable: {w}"));
        let mode = match (fs.is_read_only(), why) {
            (false, _) => String::new(),
            (true, Some(why)) => format!(", read-only because of {why}"),
            (true, None) => ", read-only".into(),
        };
        let cache = caps.cache.name();
        let state = format!("(cache {cache}), policy {}, {durable}{mode}", fs.policy().name);
        let options = ServeOptions { sessions: self.max_sessions, ..ServeOptions::default() };
        let places = Places {
            socket: self.socket.map(Path::to_path_buf),
            mount: self.mount.map(|dir| fuse::Spec {
                dir: dir.to_path_buf(),
                source: self.store.to_string(),
                kind: V::PROGRAM.to_string(),
                read_only: fs.is_read_only(),
                options: kernel,
            }),
        };
        let begun = |socket: &Path| {
            self.announce::<V>(what.as_deref().unwrap_or(V::FORMAT), socket, &state);
            ready()
        };
        let device = Device::from(device);
        serve(fs, device, &places, &options, begun).with_context(|| self.store.to_string())
    }

    /// Takes the options of the mount itself out of `list`; those that are there with a value are
    /// mistakes, which `own` would let pass.
    fn kernel_options(
        &self,
        list: &mut Vec<String>,
        own: &mut Vec<&'static str>,
    ) -> Result<fuse::Options> {
        if self.mount.is_none() {
            return Ok(fuse::Options::default());
        }
        let kernel = fuse::Options::take(list);
        let name = |o: &String| o.split('=').next().unwrap_or(o).to_string();
        if let Some(o) = list.iter().find(|o| fuse::Options::NAMES.contains(&&*name(o))) {
            return Err(Usage(format!("-o {o}: {} takes no value", name(o))).into());
        }
        own.extend(fuse::Options::NAMES);
        Ok(kernel)
    }

    fn announce<V: Volume>(&self, format: &str, socket: &Path, state: &str) {
        let place = match self.mount {
            Some(dir) => format!("{} and {}", dir.display(), socket.display()),
            None => socket.display().to_string(),
        };
        let (program, store) = (V::PROGRAM, self.store);
        say(&format!("{program}: serving {format} of {store} on {place} {state}"));
        if let Some(dir) = self.mount {
            say(&format!("{program}: {}", fuse::notice(program, dir)));
        }
    }
}

/// What the volume is. One that cannot say so is served all the same: whoever meets the damage
/// hears of it.
fn describe<F: Format, D: BlockDev>(fs: Fs<F>, dev: D) -> (Fs<F>, D, Option<String>) {
    let mut host = Blocking { fs, dev };
    let ctx = Ctx::default();
    let what = driver::run(&mut host, &ctx, |fs, t| fs.describe(&ctx, t));
    (host.fs, host.dev, what.unwrap_or_default())
}

/// What was asked for, else a share of the machine's memory.
fn cache_sizes(asked: Option<u64>) -> CacheSizes {
    let share = || CacheSizes::for_memory(memory::machine_memory().unwrap_or(0));
    asked.map_or_else(share, CacheSizes::of)
}

/// Refuses a volume that the store cannot be asked for block by block.
fn blocks_fit(volume: u32, store: u32) -> core::result::Result<(), String> {
    if volume >= store {
        return Ok(());
    }
    Err(format!(
        "the volume's blocks of {volume} bytes are smaller than the store's of {store}; open the \
         store without `?direct`, or make a volume with `mkfs --block-size {}K`",
        store.div_ceil(1024)
    ))
}

/// A path that stays the same when the process changes its folder.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_small_blocks_is_told_both_sizes() {
        for (volume, store) in [(1024, 512), (1024, 1024), (4096, 512)] {
            blocks_fit(volume, store).unwrap();
        }
        let e = blocks_fit(1024, 4096).unwrap_err();
        for word in ["1024", "4096", "?direct", "--block-size 4K"] {
            assert!(e.contains(word), "{e}");
        }
    }
}
