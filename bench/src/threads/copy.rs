//! The FAT thread's two workloads on the simulator's host: one large file, and a thousand of 1 MiB,
//! copied by a process that closes each file, followed by a sync or an unmount.

use crate::host::consts::{LINGER_SLACK, MS, OTHERS_DIRTY, PER_FILE, SECOND, UMOUNT, UMOUNT_GIB};
use crate::host::{MetaStore, Sent, Setup, World};
use crate::sim::EPOCH_SECS;
use crate::target::Nanos;
use anyhow::{Context, Result};
use seawall_blockdev::{BlockDev, ReadRun, Tag};
use seawall_diskfs::policy::preset;
use seawall_diskfs::{Handle, PlanReq, Site, Timestamp};
use seawall_fat::boot::BOOT_BYTES;
use seawall_fat::{Boot, Fat, HEAD_BYTES, MkfsOptions, OpenOptions, mkfs};

/// Bytes of the volume: room for the largest copy.
const VOLUME: u64 = 8 << 30;
/// Sectors of a cluster: 16 KiB, as on sticks of 32 GB.
const CLUSTER: u32 = 32;
/// Bytes of one write(2) of cp.
const WRITE: u64 = 1 << 20;

/// A copy to run.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// Preset.
    pub(crate) policy: &'static str,
    /// Host and device.
    pub(crate) setup: Setup,
    /// Rate at which cp dirties memory, MiB/s.
    pub(crate) fill: u64,
    /// Files, and bytes of each.
    pub(crate) files: u64,
    /// See `files`.
    pub(crate) bytes: u64,
    /// What each close sleeps in place of the policy's time, ms.
    pub(crate) linger: Option<u32>,
}

/// What it gave. Times in virtual nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Copied {
    /// cp returned.
    pub(crate) cp: Nanos,
    /// Bytes that nobody had begun to write then, those of others among them.
    pub(crate) dirty: u64,
    /// Bytes under way to the device then.
    pub(crate) in_flight: u64,
    /// A sync right after cp would have returned.
    pub(crate) synced: Nanos,
    /// An unmount right after cp returned.
    pub(crate) total: Nanos,
    /// Content copied.
    pub(crate) content: u64,
    /// What the device was sent.
    pub(crate) sent: Sent,
    /// When the flusher first ran, and what had been sent by then.
    pub(crate) first_pass: Option<(Nanos, Sent)>,
}

impl Copied {
    /// Values by the names of the threads' tables.
    pub(crate) fn metrics(&self) -> [(&'static str, f64); 13] {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        [
            ("throughput", self.rate()),
            ("requests", self.sent.requests as f64),
            ("request_avg", self.sent.average_kib()),
            ("cp_returns", seconds(self.cp)),
            ("dirty_at_close", mib(self.dirty)),
            ("in_flight_at_close", mib(self.in_flight)),
            ("umount", seconds(self.total - self.cp)),
            ("total", seconds(self.total)),
            ("excess_bytes", self.sent.bytes as f64 / self.content.max(1) as f64 - 1.0),
            ("bios_ge_768KiB", 100.0 * self.sent.large_runs as f64 / self.sent.runs.max(1) as f64),
            ("raced_avg", self.sent.raced.1 as f64 / 1024.0 / self.sent.raced.0.max(1) as f64),
            ("solo_until", self.first_pass.map_or(0.0, |(t, _)| seconds(t))),
            ("solo_avg", self.first_pass.map_or(0.0, |(_, sent)| sent.average_kib())),
        ]
    }

    /// MB/s of copy and sync.
    pub(crate) fn rate(&self) -> f64 {
        self.content as f64 / 1e6 / (self.synced as f64 / 1e9)
    }
}

/// A new FAT32 volume on a device that keeps metadata only.
pub(crate) fn volume() -> Result<(Fat, MetaStore)> {
    let mut store = MetaStore::new(VOLUME);
    let time = Timestamp { secs: EPOCH_SECS, nanos: 0 };
    let mut options = MkfsOptions::new(VOLUME, 0x5EA_0A11, time);
    options.sectors_per_cluster = Some(CLUSTER);
    mkfs(&mut store, &options).context("mkfs")?;
    Ok((open(&mut store)?, store))
}

/// Opens the volume that a store holds.
pub(crate) fn open(store: &mut MetaStore) -> Result<Fat> {
    let mut sector = [0; BOOT_BYTES];
    let mut at = |start: u64, buf: &mut [u8]| store.read(&mut [ReadRun { start, buf }], Tag(0));
    at(0, &mut sector)?;
    let boot = Boot::parse(&sector, VOLUME)?;
    let mut head = [0; HEAD_BYTES];
    at(boot.fat_start(boot.active_fat.unwrap_or(0)), &mut head)?;
    let mut info = [0; 512];
    if let Some(s) = boot.fsinfo {
        at(u64::from(s) * u64::from(boot.sector), &mut info)?;
    }
    let info = boot.fsinfo.map(|_| &info);
    Ok(Fat::open(boot, head, info, OpenOptions::default())?)
}

/// The world of a copy, just mounted.
pub(crate) fn mount(copy: &Copy) -> Result<World<Fat>> {
    let (fat, store) = volume()?;
    let policy = preset(copy.policy).with_context(|| format!("no policy {}", copy.policy))?;
    World::new(fat, store, policy, &copy.setup)
}

/// Runs cp up to its return.
pub(crate) fn copy(world: &mut World<Fat>, copy: &Copy) -> Result<()> {
    for n in 0..copy.files {
        let begun = world.now() + PER_FILE;
        world.run_to(begun)?;
        let (_, file) = world.create(format!("F{n:07}.BIN").as_bytes())?;
        fill(world, copy, file)?;
        let verdict = world.run_plan(PlanReq::Close(file))?;
        world.fs().clunk(file);
        // Linux sleeps at every close of a mount with `flush`, whatever the close did.
        let linger = u64::from(copy.linger.unwrap_or(verdict.linger_ms)) * MS;
        let slack = if linger > 0 { LINGER_SLACK } else { 0 };
        world.run_to(world.now() + linger + slack)?;
    }
    Ok(())
}

fn fill(world: &mut World<Fat>, copy: &Copy, file: Handle) -> Result<()> {
    let begun = world.now();
    let mut at = 0;
    while at < copy.bytes {
        let len = WRITE.min(copy.bytes - at);
        world.write(file, at, len)?;
        at += len;
        // A thousand small files: filling is part of what a file costs.
        if copy.files == 1 {
            world.run_to(begun + at * SECOND / (copy.fill << 20))?;
        }
    }
    Ok(())
}

/// Runs a copy, then the unmount.
///
/// # Errors
/// The engine's, and what contradicts the workload.
pub(crate) fn run(c: &Copy) -> Result<Copied> {
    let mut world = mount(c)?;
    copy(&mut world, c)?;
    let mut out = Copied {
        cp: world.now(),
        dirty: world.dirty() + OTHERS_DIRTY,
        in_flight: world.in_flight(),
        content: c.files * c.bytes,
        ..Copied::default()
    };
    world.sync(Site::Syncfs)?;
    out.synced = world.now();
    world.op("mark clean", |fs, ctx, t| fs.mark_clean(ctx, t))?;
    world.sync(Site::Unmount)?;
    let cached = c.files * c.bytes * UMOUNT_GIB / (1 << 30);
    out.total = world.now() + UMOUNT + cached;
    out.sent = world.queue().sent;
    out.first_pass = world.first_pass();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::cells::{VARIANTS, Work, copy_of};
    use crate::threads::session::Session;

    fn small_copy(policy: &'static str, drive: &str) -> Copy {
        let session = Session::of(drive).unwrap();
        let c = copy_of(session, policy, "256M", Work::Large, 1).unwrap();
        Copy { bytes: 512 << 20, ..c }
    }

    #[test]
    fn one_walker_takes_what_the_closed_form_says() {
        let c = small_copy("fat-wait1", "pny32");
        let r = run(&c).unwrap();
        let p = &c.setup.drive;
        // First write at the threshold, then commands and bytes one after the other.
        let first = 256.0 / c.fill as f64 + 0.005;
        let bytes = r.sent.bytes as f64 / p.rate as f64;
        let commands = r.sent.requests as f64 * p.write_command as f64 / 1e9;
        let (got, wanted) = (r.synced as f64 / 1e9, first + bytes + commands);
        assert!((got / wanted - 1.0).abs() < 0.01, "{got} s, closed form {wanted} s");
        // 4.5 MiB a bio, 1 MiB a request: five for each.
        assert_eq!(r.sent.data_bytes, c.bytes);
        assert!((r.sent.average_kib() - 921.6).abs() < 15.0, "{}", r.sent.average_kib());
    }

    #[test]
    fn each_variant_waits_for_what_its_row_says() {
        let [stock, wait1, wait0, submit] =
            VARIANTS.map(|p| run(&small_copy(p, "evo870")).unwrap());
        assert!(stock.sent.requests > 2 * wait1.sent.requests, "two walkers race");
        assert_eq!(wait1.in_flight, 0);
        assert_eq!(wait1.dirty, OTHERS_DIRTY);
        assert!(wait0.dirty > c_bytes() / 4, "the flusher has the inode: close skips it");
        assert!(wait0.cp < wait1.cp);
        assert_eq!(submit.sent.requests, wait1.sent.requests);
        let late = |c: &Copied| c.total - c.cp;
        assert!(late(&wait0) > late(&stock) && late(&stock) > late(&wait1));
    }

    fn c_bytes() -> u64 {
        512 << 20
    }

    #[test]
    fn the_volume_that_a_copy_leaves_is_sound() {
        for policy in VARIANTS {
            let c = Copy { files: 20, bytes: 3 << 20, ..small_copy(policy, "samsung64") };
            let mut world = mount(&c).unwrap();
            copy(&mut world, &c).unwrap();
            world.sync(Site::Syncfs).unwrap();
            world.op("mark clean", |fs, ctx, t| fs.mark_clean(ctx, t)).unwrap();
            world.sync(Site::Unmount).unwrap();
            let mut store = world.into_store();
            let options = seawall_fat::check::CheckOptions::default();
            let report = seawall_fat::check::check(&mut store, &options, &mut |_| ()).unwrap();
            let items: Vec<String> = report.findings().iter().map(|i| format!("{i:?}")).collect();
            assert_eq!(items, Vec::<String>::new(), "{policy}");
        }
    }
}
