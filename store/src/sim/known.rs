//! The built-in profiles, each with where its numbers come from.
//!
//! Unless its comment says otherwise: rate, costs, largest request, slots and cache of the drives
//! of the Linux FAT thread are fitted on that thread's tables (one set for all policies and
//! thresholds); the threads measured neither reads, which cost what writes cost, nor flushes, which
//! are guesses, nor how near is near, which is 4 MiB: two walkers of one file stay within it, file
//! data and tables at the front of a volume do not.

use super::{CacheModel, Profile, SlowAfter, Stall};
use alloc::borrow::Cow;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const KIB: u32 = 1024;
const MIB: u32 = 1024 * 1024;
/// Decimal, as rates are.
const MB: u64 = 1_000_000;
const NEAR: u64 = 4 << 20;

/// Reads and writes at one rate and one cost; what is not given here does not exist.
const fn drive(
    names: (&'static str, &'static str),
    rate: u64,
    command: u64,
    max_request: u32,
    slots: u32,
) -> Profile {
    Profile {
        name: Cow::Borrowed(names.0),
        about: Cow::Borrowed(names.1),
        rate,
        read_rate: rate,
        read_command: command,
        write_command: command,
        flush_command: 0,
        switch: 0,
        near: 0,
        idle_wake: 0,
        max_request,
        max_segments: 0,
        slots,
        cache: None,
        slow: None,
        stall: None,
        volatile: false,
    }
}

/// The virtual SSD of the Hurd thread: two numbers were measured there, 0.75 s for 1000 rounds of
/// create, write, fsync and close without a flush and 1.25 s with one each. 0.25 ms a write and
/// 0.50 ms a flush reproduce them with two writes a round and 0.25 ms for the rest. The thread says
/// nothing about reads; they cost what a write costs.
pub const QEMU_SSD: Profile = {
    let about = "the Hurd thread's virtual SSD (QEMU, cache none)";
    let mut p = drive(("qemu-ssd", about), 0, 250 * US, MIB, 64);
    p.flush_command = 500 * US;
    p.volatile = true;
    p
};

/// The cheap stick. 37 ms a write command, whatever its size, is what makes small requests dear;
/// no penalty for interleaving is needed. It has no cache; a flush and a read are guessed to cost 1
/// ms, commands that program nothing. A 4 KiB write costs about 23 ms on the real one: one more
/// parameter would say so.
pub const PNY32: Profile = {
    let about = "PNY 32 GB USB stick, the cheap one of the FAT thread";
    let mut p = drive(("pny32", about), 59 * MB, 37 * MS, MIB, 2);
    p.read_command = MS;
    p.flush_command = MS;
    p
};

/// A stick without a cost per command, which therefore does not care about the policy. Its flush
/// is guessed as a command.
pub const SAMSUNG64: Profile = {
    let about = "Samsung 64 GB USB stick of the FAT thread";
    let mut p = drive(("samsung64", about), 33_550_000, 50 * US, MIB, 2);
    (p.switch, p.near) = (1_300 * US, NEAR);
    p.flush_command = 50 * US;
    p
};

/// A disk: 12 ms to go elsewhere, a write cache. 10 ms a flush is what the Hurd thread guessed for
/// a rotating disk.
pub const WDBLUE: Profile = {
    let about = "WD Blue hard disk of the FAT thread";
    let mut p = drive(("wdblue", about), 101_500_000, 550 * US, 4 * MIB, 24);
    (p.switch, p.near) = (12 * MS, NEAR);
    p.max_segments = 168;
    p.cache = Some(CacheModel { bytes: 16 << 20, fill_rate: 300 * MB });
    p.flush_command = 10 * MS;
    p.volatile = true;
    p
};

/// A SATA SSD that takes 5.5 ms to leave its idle state. The fit needs no cache that acknowledges
/// early; it has one all the same, which a power failure empties. 0.5 ms a flush is a guess, what
/// the Hurd thread saw of an SSD.
pub const EVO870: Profile = {
    let about = "Samsung 870 EVO SATA SSD of the FAT thread";
    let mut p = drive(("evo870", about), 375 * MB, 5 * US, 4 * MIB, 96);
    (p.switch, p.near) = (20 * US, NEAR);
    p.idle_wake = 5_500 * US;
    p.max_segments = 168;
    p.flush_command = 500 * US;
    p.volatile = true;
    p
};

/// The same drive behind a USB bridge. The best runs copied 4 GiB at 379 MB/s: 380 MB/s and 10 us a
/// request of 1 MiB give 378.6. Files of 1 MiB went at 9.51 to 9.61 MB/s with and without waiting,
/// 109 to 110 ms each, so nothing like the 5.5 ms of the SATA port is seen: no idle cost. Two runs
/// of the stock kernel at 346 MB/s are the host's. Largest request and slots are guesses from what
/// USB hosts commonly allow; the flush is that of the SATA drive.
pub const EVO870_UAS: Profile = {
    let about = "Samsung 870 EVO behind a USB bridge (UAS)";
    let mut p = drive(("evo870-uas", about), 380 * MB, 10 * US, MIB, 32);
    (p.switch, p.near) = (20 * US, NEAR);
    p.flush_command = 500 * US;
    p.volatile = true;
    p
};

/// A fast stick that throttles itself. Three runs of 4 GiB each: 365, 200, 322 MB/s (stock) and
/// 365, 255, 251 (wait1).
///
/// * Both first runs are 365 to the end: at least 4 GiB go at the full rate. 378 MB/s and 0.1 ms a
///   command are 364.9 at 1 MiB a request, and leave 2.9 ms for a file of 1 MiB.
/// * The slowest run bounds the slow rate from above; taken as 200 MB/s, the others had 2.0 GB
///   (255), 1.9 GB (251) and 3.6 GB (322) of fast room when they began.
/// * So room comes back between runs. How long the pauses were is not known: 100 MB/s, which is
///   2 GB in 20 s, is a guess.
/// * Files of 1 MiB: wait1 takes 3.9 ms longer than stock (9.28 and 9.61 MB/s); 2.9 ms are data,
///   two or three commands of the tables about 0.3, the rest is put down as 0.7 ms after a pause.
///
/// Largest request, slots and the flush (0.5 ms) are guesses.
pub const PNY250_UAS: Profile = {
    let about = "PNY 250 GB USB SSD (UAS) of the FAT thread, which throttles itself";
    let mut p = drive(("pny250-uas", about), 378 * MB, 100 * US, MIB, 32);
    p.idle_wake = 700 * US;
    p.slow = Some(SlowAfter { bytes: 4 << 30, rate: 200 * MB, recover: 100 * MB });
    p.flush_command = 500 * US;
    p.volatile = true;
    p
};

/// The flash of the f2fs thread's telephone: two throughputs there fix its rate and its cost per
/// command. 0.5 ms a flush is a guess.
pub const UFS: Profile = {
    let about = "UFS flash of the f2fs thread";
    let mut p = drive(("ufs", about), 1_874 * MB, 3_950, MIB, 64);
    p.flush_command = 500 * US;
    p.volatile = true;
    p
};

/// A stick that pauses: `samsung64`, and one write in 200 takes 250 ms longer. Nobody measured
/// it. 250 ms is what the SD specification allows a card to be busy with a write; how often is a
/// guess. Copy it into a file to have other chances and times.
pub const STALL: Profile = {
    let about = "a USB stick that pauses now and then (ours)";
    let mut p = drive(("stall", about), 33_550_000, 50 * US, MIB, 2);
    (p.switch, p.near) = (1_300 * US, NEAR);
    p.flush_command = 50 * US;
    p.stall = Some(Stall { per_million: 5_000, time: 250 * MS, seed: 1 });
    p
};

/// A consumer NVMe SSD, TLC behind a fast region. Data sheets of that class: 3 GB/s written and
/// 3.5 GB/s read in sequence, about 50,000 writes/s (20 us) and 12,000 reads/s (80 us, a read of
/// TLC flash) one at a time, transfers of 512 KiB, under 1 GB/s when the fast region is full.
/// Guessed: its 40 GB, its return at 500 MB/s, 1 ms a flush (no capacitors).
pub const NVME: Profile = {
    let about = "a consumer NVMe SSD (ours, from the class of its data sheets)";
    let mut p = drive(("nvme", about), 3_000 * MB, 20 * US, 512 * KIB, 256);
    p.read_rate = 3_500 * MB;
    p.read_command = 80 * US;
    p.slow = Some(SlowAfter { bytes: 40_000 * MB, rate: 900 * MB, recover: 500 * MB });
    p.flush_command = MS;
    p.volatile = true;
    p
};

/// An SD card of class V30 A1: 30 MB/s of sequential writes is what V30 promises, 500 random writes
/// (2 ms) and 1,500 random reads (0.67 ms) a second of 4 KiB what A1 promises; 90 MB/s read is the
/// class of UHS-I. The cost of a random write is split by guess into 0.2 ms for a command and 1.66
/// ms for one that leaves the allocation unit of 4 MiB (0.14 ms are the data). Hosts send up to 512
/// KiB and prepare one request beside the one that runs. No cache (A1): a flush is a command. The
/// model has one cost for going elsewhere, so a random read takes 1.9 ms, longer than A1 allows.
pub const SD_CARD: Profile = {
    let about = "an SD card, V30 A1 (ours, from what the class promises)";
    let mut p = drive(("sd-card", about), 30 * MB, 200 * US, 512 * KIB, 2);
    p.read_rate = 90 * MB;
    p.read_command = 200 * US;
    (p.switch, p.near) = (1_660 * US, NEAR);
    p.flush_command = 200 * US;
    p
};

/// All profiles.
pub const PROFILES: [Profile; 11] =
    [QEMU_SSD, PNY32, SAMSUNG64, WDBLUE, EVO870, EVO870_UAS, PNY250_UAS, UFS, STALL, NVME, SD_CARD];
