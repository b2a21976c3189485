//! The presets: named policies that are each a row of the report.

use super::{
    Action, Boundary, CleanFsync, ClosePolicy, Exclusion, Flusher, OnError, OnUnsupported, Policy,
    Reuse, SitePolicy, Waited, When,
};
use crate::Site;
use alloc::collections::BTreeMap;
use alloc::string::ToString;

/// Names of the presets, in the order of reports.
pub const PRESETS: &[&str] = &[
    "hurd-vanilla",
    "hurd-shutdown",
    "hurd-full",
    "hurd-sync",
    "linux-ext2",
    "fat-stock",
    "fat-wait1",
    "fat-wait0",
    "fat-submit",
    "lax",
    "default",
    "removable",
    "ordered-epoch",
    "strict",
];

const WHOLE: [Site; 3] = [Site::Syncfs, Site::RemountRo, Site::Unmount];
const FSYNCS: [Site; 2] = [Site::FsyncMeta, Site::FsyncData];

/// A preset by name.
pub fn preset(name: &str) -> Option<Policy> {
    let mut p = match name {
        "hurd-vanilla" => hurd_vanilla(),
        "hurd-shutdown" => hurd_shutdown(),
        "hurd-full" => hurd_full(),
        "hurd-sync" => hurd_sync(),
        "linux-ext2" => linux_ext2(),
        "fat-stock" => fat(Exclusion::None, Action::Submit, Action::Start),
        "fat-wait1" => fat(Exclusion::PerInode, Action::Wait, Action::Wait),
        "fat-wait0" => fat(Exclusion::PerInode, Action::Start, Action::Start),
        "fat-submit" => fat(Exclusion::PerInode, Action::Submit, Action::Wait),
        "lax" => lax(),
        "default" => default(),
        "removable" => removable(),
        "ordered-epoch" => Policy { boundary: Boundary::Order, ..default() },
        "strict" => strict(),
        _ => return None,
    };
    p.name = name.to_string();
    Some(p)
}

fn set(p: &mut Policy, sites: &[Site], action: Action) {
    for s in sites {
        p.sites.insert(*s, SitePolicy { action, when: When::Waited });
    }
}

/// Everything is written when somebody asks or the flusher comes by; nothing is flushed.
fn unordered() -> Policy {
    let mut p = Policy { sites: BTreeMap::new(), ..Policy::default() };
    set(&mut p, &[Site::Bitmap, Site::FatTable, Site::Dirent, Site::Indirect], Action::Start);
    set(&mut p, &[Site::Data, Site::Inode, Site::Hypermetadata], Action::Wait);
    set(&mut p, &FSYNCS, Action::Wait);
    set(&mut p, &WHOLE, Action::Wait);
    set(&mut p, &[Site::Periodic], Action::Start);
    p
}

/// The Hurd before January 2026: waits, no device flush anywhere. Its timer runs every 30 s.
fn hurd_vanilla() -> Policy {
    let mut p = unordered();
    p.clean_fsync = CleanFsync::Nothing;
    p.on_unsupported = OnUnsupported::Ignore;
    p.on_error = OnError::Warn;
    p.flusher = Flusher { interval_ms: 30_000, expire_ms: 0, ..Flusher::default() };
    p
}

/// The part that was applied first: shutdown, syncfs and read-only.
fn hurd_shutdown() -> Policy {
    let mut p = hurd_vanilla();
    set(&mut p, &WHOLE, Action::Barrier);
    p
}

/// With the inode, indirect-block and superblock sites.
fn hurd_full() -> Policy {
    let mut p = hurd_shutdown();
    set(&mut p, &[Site::Hypermetadata, Site::Inode], Action::Barrier);
    p.sites.insert(Site::Indirect, SitePolicy { action: Action::Barrier, when: When::Synchronous });
    p
}

/// The same with `--sync`: every operation waits for what it changed, as the sites say.
fn hurd_sync() -> Policy {
    let mut p = hurd_full();
    set(&mut p, &[Site::Indirect], Action::Barrier);
    p.waited = Waited::All;
    p
}

/// Linux's ext2: fsync flushes the device, syncfs and umount do not.
fn linux_ext2() -> Policy {
    let mut p = unordered();
    set(&mut p, &FSYNCS, Action::Barrier);
    p.on_unsupported = OnUnsupported::Warn;
    p
}

/// Linux's FAT with `flush`, in the four variants of what its close does: it sleeps at each close
/// that flushed.
fn fat(exclusion: Exclusion, data: Action, inode: Action) -> Policy {
    let mut p = unordered();
    set(&mut p, &[Site::Inode, Site::Hypermetadata], Action::Start);
    set(&mut p, &FSYNCS, Action::Barrier);
    p.close = ClosePolicy { data, inode, linger_ms: 100 };
    p.exclusion = exclusion;
    p.on_unsupported = OnUnsupported::Ignore;
    p
}

/// fsync waits for its writes and flushes nothing; only whole-filesystem requests do.
fn lax() -> Policy {
    let mut p = unordered();
    set(&mut p, &[Site::Inode, Site::Hypermetadata], Action::Start);
    set(&mut p, &WHOLE, Action::Barrier);
    p.on_unsupported = OnUnsupported::Warn;
    p
}

/// What fsync or syncfs acknowledged survives any crash with its name; a crash leaves at most what
/// preen repairs.
fn default() -> Policy {
    let mut p = unordered();
    set(&mut p, &[Site::Inode, Site::Hypermetadata], Action::Start);
    set(&mut p, &FSYNCS, Action::Barrier);
    set(&mut p, &WHOLE, Action::Barrier);
    p.boundary = Boundary::Sync;
    p.reuse = Reuse::AfterBarrier;
    p.exclusion = Exclusion::PerInode;
    p
}

/// For what may be pulled out: a file is durable when its last close returns, and the flusher comes
/// by every second.
fn removable() -> Policy {
    let mut p = default();
    p.close = ClosePolicy { data: Action::Barrier, inode: Action::Barrier, linger_ms: 0 };
    p.flusher = Flusher { interval_ms: 1000, expire_ms: 3000, ..Flusher::default() };
    p
}

/// Every operation that returned is durable.
fn strict() -> Policy {
    let mut p = default();
    for s in Site::ALL {
        set(&mut p, &[*s], Action::Barrier);
    }
    p.close = ClosePolicy { data: Action::Barrier, inode: Action::Barrier, linger_ms: 0 };
    p.waited = Waited::All;
    p.on_unsupported = OnUnsupported::RefuseMount;
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_presets_make_fsync_durable() {
        let durable: Vec<&str> = PRESETS
            .iter()
            .copied()
            .filter(|n| preset(n).is_some_and(|p| p.fsync_is_durable()))
            .collect();
        let fats = ["fat-stock", "fat-wait1", "fat-wait0", "fat-submit"];
        let ours = ["default", "removable", "ordered-epoch", "strict"];
        assert_eq!(durable, [["linux-ext2"].as_slice(), &fats, &ours].concat());
        assert!(preset("hurd-fulll").is_none());
    }

    #[test]
    fn indirect_is_a_barrier_only_when_synchronous() {
        let p = preset("hurd-full").unwrap();
        assert_eq!(p.action(Site::Indirect, false), Action::Start);
        assert_eq!(p.action(Site::Indirect, true), Action::Barrier);
        assert_eq!(p.action(Site::Inode, false), Action::Barrier);
        let p = preset("hurd-sync").unwrap();
        assert_eq!(p.action(Site::Indirect, false), Action::Barrier);
    }

    use alloc::vec::Vec;
}
