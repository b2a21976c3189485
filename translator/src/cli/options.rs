//! `-o` options, named as the kernel names them.

use super::Usage;
use anyhow::Result;
use seawall_diskfs::policy::{Action, ClosePolicy, OnError, Policy, SitePolicy, Waited, When};
use seawall_diskfs::{Atime, AtimeOpts, CacheSizes, Site};
use seawall_store::name::{format_size, parse_size};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// How to open a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountArgs {
    /// No writes.
    pub read_only: bool,
    /// Write although the volume was not cleanly unmounted.
    pub force: bool,
    /// Access times.
    pub atime: AtimeOpts,
    /// The store is told of freed space.
    pub discard: bool,
    /// Access lists do not count.
    pub no_acl: bool,
    /// No attributes of the `user` name space.
    pub no_user_xattr: bool,
    /// `errors=` was given: what the volume says of it does not count.
    pub errors: bool,
    /// Memory for blocks of metadata, bytes. `None`: a share of the machine's.
    pub cache: Option<u64>,
    /// Options of the format's own, as (name, value).
    pub own: Vec<(String, String)>,
}

const COMMON: [&str; 20] = [
    "defaults",
    "ro",
    "rw",
    "force",
    "sync",
    "dirsync",
    "flush",
    "relatime",
    "noatime",
    "strictatime",
    "nodiratime",
    "diratime",
    "discard",
    "nodiscard",
    "acl",
    "noacl",
    "user_xattr",
    "nouser_xattr",
    "cache",
    "errors",
];

/// Words of fstab(5) that say when and by whom to mount, or are a remark.
const FSTAB: [&str; 12] = [
    "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "group", "fail", "nofail",
    "_netdev", "comment",
];

/// Options of which at most one can be meant, those of the kernel's mount among them.
const EITHER: [&[&str]; 11] = [
    &["ro", "rw"],
    &["suid", "nosuid"],
    &["dev", "nodev"],
    &["exec", "noexec"],
    &["default_permissions", "noperm"],
    &["relatime", "noatime", "strictatime"],
    &["diratime", "nodiratime"],
    &["discard", "nodiscard"],
    &["acl", "noacl"],
    &["user_xattr", "nouser_xattr"],
    &["errors=continue", "errors=remount-ro"],
];

/// Refuses options that contradict each other, as they were given.
pub(super) fn contradictions(list: &[String]) -> Result<()> {
    for set in EITHER {
        let mut given: Vec<&str> = Vec::new();
        for option in list.iter().filter(|o| set.contains(&o.as_str())) {
            if !given.contains(&option.as_str()) {
                given.push(option);
            }
        }
        if given.len() > 1 {
            let what = format!("-o {}: these contradict each other", given.join(","));
            return Err(Usage(what).into());
        }
    }
    Ok(())
}

/// Reads options and applies those that change the policy, whose name then says so.
pub(super) fn apply(list: &[String], own: &[&str], policy: &mut Policy) -> Result<MountArgs> {
    let mut args = MountArgs::default();
    args.atime.when = Atime::Relative;
    for option in list.iter().filter(|o| !o.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match option.as_str() {
            // What fstab(5) has where there are no options, and what it tells others than the
            // filesystem.
            "defaults" => {}
            _ if FSTAB.contains(&name) || name.starts_with("x-") => {}
            "ro" => args.read_only = true,
            "rw" => args.read_only = false,
            "force" => args.force = true,
            "relatime" => args.atime.when = Atime::Relative,
            "noatime" => args.atime.when = Atime::Never,
            "strictatime" => args.atime.when = Atime::Always,
            "diratime" | "nodiratime" => args.atime.no_dirs = name == "nodiratime",
            "discard" | "nodiscard" => args.discard = name == "discard",
            "acl" | "noacl" => args.no_acl = name == "noacl",
            "user_xattr" | "nouser_xattr" => args.no_user_xattr = name == "nouser_xattr",
            "sync" => {
                let changes = Site::ALL.iter().filter(|s| **s != Site::Periodic);
                changes.for_each(|s| barrier(policy, *s));
                policy.waited = Waited::All;
            }
            "dirsync" => {
                barrier(policy, Site::Dirent);
                barrier(policy, Site::Inode);
                barrier(policy, Site::NameOp);
            }
            "flush" => {
                let (data, inode) = (Action::Submit, Action::Start);
                policy.close = ClosePolicy { data, inode, ..policy.close };
            }
            // Linux's names; what it calls `continue` is an error to the caller here too.
            "errors=continue" => policy.on_error = OnError::Fail,
            "errors=remount-ro" => policy.on_error = OnError::ReadOnly,
            _ if name == "errors" => {
                let what = format!("-o {option}: there are continue and remount-ro");
                return Err(Usage(what).into());
            }
            _ if name == "cache" => {
                let size = parse_size(value).map_err(|e| Usage(format!("-o {option}: {e}")))?;
                if size < CacheSizes::MIN {
                    let least = format_size(CacheSizes::MIN);
                    return Err(Usage(format!("-o {option}: at least {least}")).into());
                }
                args.cache = Some(size);
            }
            _ if own.contains(&name) => args.own.push((name.to_string(), value.to_string())),
            _ => {
                let known = COMMON.iter().chain(own.iter()).copied().collect::<Vec<_>>().join(", ");
                let what = format!("-o {option}: no such option; there are {known}");
                return Err(Usage(what).into());
            }
        }
        args.errors |= name == "errors";
        if ["sync", "dirsync", "flush", "errors"].contains(&name) {
            policy.name = format!("{},{option}", policy.name);
        }
    }
    Ok(args)
}

/// Applies what the volume says of `errors=` where no option does; the policy's name then says so.
/// That it says `continue` changes nothing: a policy may be stricter.
pub(super) fn volume_errors(word: Option<&str>, args: &MountArgs, policy: &mut Policy) {
    let said = match word.filter(|_| !args.errors) {
        Some("remount-ro") => "errors=remount-ro",
        Some("panic") => "errors=remount-ro (the volume says panic)",
        _ => return,
    };
    policy.on_error = OnError::ReadOnly;
    policy.name = format!("{},{said}", policy.name);
}

fn barrier(policy: &mut Policy, site: Site) {
    policy.sites.insert(site, SitePolicy { action: Action::Barrier, when: When::Always });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').map(String::from).collect()
    }

    #[test]
    fn options_change_the_policy_and_its_name() {
        let mut p = seawall_diskfs::policy::preset("default").unwrap();
        let args = apply(&list("ro,flush,x=3"), &["x"], &mut p).unwrap();
        assert!(args.read_only);
        assert_eq!(args.own, [("x".to_string(), "3".to_string())]);
        assert_eq!(p.close.data, Action::Submit);
        assert_eq!(p.name, "default,flush");
        apply(&list("sync"), &[], &mut p).unwrap();
        assert_eq!(p.waited, Waited::All);
        assert_eq!(p.action(Site::NameOp, false), Action::Barrier);
    }

    #[test]
    fn the_volume_says_what_no_option_does() {
        let names = |option: &str| {
            [None, Some("continue"), Some("remount-ro"), Some("panic")].map(|word| {
                let mut p = seawall_diskfs::policy::preset("lax").unwrap();
                let args = apply(&list(option), &[], &mut p).unwrap();
                volume_errors(word, &args, &mut p);
                (p.on_error, p.name)
            })
        };
        let is = |on_error, name: &str| (on_error, name.to_string());
        let (fail, ro) = (OnError::Fail, OnError::ReadOnly);
        let panic = "lax,errors=remount-ro (the volume says panic)";
        let ro_said = is(ro, "lax,errors=remount-ro");
        assert_eq!(names(""), [is(fail, "lax"), is(fail, "lax"), ro_said.clone(), is(ro, panic)]);
        assert_eq!(names("errors=continue"), [(); 4].map(|()| is(fail, "lax,errors=continue")));
        assert_eq!(names("errors=remount-ro"), [(); 4].map(|()| ro_said.clone()));
    }

    #[test]
    fn a_cache_has_a_size() {
        let mut p = seawall_diskfs::policy::preset("default").unwrap();
        let mut read = |text: &str| apply(&list(text), &[], &mut p);
        assert_eq!(read("ro").unwrap().cache, None);
        for (text, size) in [("cache=64M", 64 << 20), ("cache=1G,cache=4M", 4 << 20)] {
            assert_eq!(read(text).unwrap().cache, Some(size), "{text}");
        }
        let bad = ["cache", "cache=", "cache=big", "cache=-1", "cache=1.5G", "cache=99999999T"];
        for text in bad.into_iter().chain(["cache=0", "cache=4095K"]) {
            let e = read(text).unwrap_err();
            assert!(e.is::<Usage>() && e.to_string().starts_with(&format!("-o {text}: ")), "{e}");
        }
        assert_eq!(p.name, "default");
    }

    #[test]
    fn contradictions_are_refused_and_repetitions_are_not() {
        for text in ["ro,rw", "suid,nosuid", "nodev,ro,dev", "noexec,exec", "noatime,relatime"] {
            let e = contradictions(&list(text)).unwrap_err();
            assert!(e.is::<Usage>(), "{e}");
            let e = e.to_string();
            assert_eq!(e, format!("-o {}: these contradict each other", text.replace("ro,d", "d")));
        }
        contradictions(&list("defaults,ro,nosuid,ro,nodev,noexec,nodiratime,noatime")).unwrap();
        let mut p = seawall_diskfs::policy::preset("default").unwrap();
        let fstab = "defaults,noauto,user,nofail,x-systemd.automount,comment=mine";
        let args = apply(&list(fstab), &[], &mut p).unwrap();
        assert!(!args.read_only && args.own.is_empty() && p.name == "default");
    }

    #[test]
    fn an_unknown_option_lists_what_exists() {
        let mut p = seawall_diskfs::policy::preset("default").unwrap();
        let e = apply(&list("rw,snyc"), &[], &mut p).unwrap_err().to_string();
        assert!(e.contains("snyc") && e.contains("dirsync"), "{e}");
    }
}
