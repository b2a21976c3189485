//! Drives of the threads that the store has no profile of yet.

use seawall_store::sim::{CacheModel, Profile, QEMU_SSD};

/// A drive as the queue needs it.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// Costs.
    pub(crate) profile: Profile,
    /// Most segments of one request; 0: only its length counts.
    pub(crate) segments: u64,
}

const NONE: Profile = Profile {
    name: "",
    rate: 0,
    read_command: 0,
    write_command: 0,
    flush_command: 0,
    switch: 0,
    near: 4 << 20,
    idle_wake: 0,
    max_request: 1 << 20,
    slots: 2,
    cache: None,
    volatile: true,
};

/// The drive of that name.
pub(crate) fn find(name: &str) -> Option<Drive> {
    let (profile, segments) = match name {
        "pny32" => {
            (Profile { name: "pny32", rate: 59_000_000, write_command: 37_000_000, ..NONE }, 0)
        }
        "samsung64" => (
            Profile {
                name: "samsung64",
                rate: 33_550_000,
                write_command: 50_000,
                switch: 1_300_000,
                ..NONE
            },
            0,
        ),
        "wdblue" => (
            Profile {
                name: "wdblue",
                rate: 101_500_000,
                write_command: 550_000,
                switch: 12_000_000,
                max_request: 4 << 20,
                slots: 24,
                cache: Some(CacheModel { bytes: 16 << 20, fill_rate: 300_000_000 }),
                ..NONE
            },
            168,
        ),
        "evo870" => (
            Profile {
                name: "evo870",
                rate: 375_000_000,
                write_command: 5_000,
                switch: 20_000,
                max_request: 4 << 20,
                slots: 96,
                idle_wake: 5_500_000,
                ..NONE
            },
            168,
        ),
        "qemu-ssd" => (QEMU_SSD, 0),
        _ => return None,
    };
    Some(Drive { profile, segments })
}
