//! `-o` options that concern the mount, not the volume or the policy.

use std::string::String;
use std::vec::Vec;

/// How the kernel mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Users other than the server's may enter. Always so for root's mounts that check.
    pub allow_other: bool,
    /// Set-id bits count.
    pub suid: bool,
    /// Device nodes work.
    pub dev: bool,
    /// Programs may be run.
    pub exec: bool,
    /// The kernel keeps written pages and sends them later. Off by default: two caches would be
    /// measured where one is meant.
    pub kernel_writeback: bool,
    /// FLUSH is not answered, which saves a request at each close; policies with a close action are
    /// refused.
    pub no_close: bool,
    /// The kernel checks permissions. Without, whoever may enter may do everything, and that is the
    /// mount's own user alone unless `allow_other` is given; access lists are off.
    pub checks: bool,
    /// Access lists count.
    pub acl: bool,
    /// What mount(8) shows of access times; the engine keeps them.
    pub noatime: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_other: false,
            suid: true,
            dev: true,
            exec: true,
            kernel_writeback: false,
            no_close: false,
            checks: true,
            acl: true,
            noatime: false,
        }
    }
}

impl Options {
    /// Names of what [`Options::take`] takes.
    pub const NAMES: [&str; 11] = [
        "allow_other",
        "default_permissions",
        "suid",
        "nosuid",
        "dev",
        "nodev",
        "exec",
        "noexec",
        "noperm",
        "kernel_writeback",
        "noclose",
    ];

    /// Other users than the mount's may enter.
    pub(super) fn others(&self) -> bool {
        self.allow_other || (self.checks && super::system::is_root())
    }

    /// Takes its own out of a list.
    pub fn take(list: &mut Vec<String>) -> Self {
        let mut o = Self::default();
        list.retain(|name| {
            match name.as_str() {
                "allow_other" => o.allow_other = true,
                "default_permissions" | "noperm" => o.checks = name != "noperm",
                "suid" | "nosuid" => o.suid = name == "suid",
                "dev" | "nodev" => o.dev = name == "dev",
                "exec" | "noexec" => o.exec = name == "exec",
                "kernel_writeback" => o.kernel_writeback = true,
                "noclose" => o.no_close = true,
                _ => return true,
            }
            false
        });
        o
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_are_taken_and_the_others_left() {
        let mut list: Vec<String> =
            Options::NAMES.iter().chain(["ro", "x=nosuid"].iter()).map(|n| (*n).into()).collect();
        let o = Options::take(&mut list);
        assert_eq!(list, ["ro", "x=nosuid"]);
        assert!(o.allow_other && o.kernel_writeback && o.no_close);
        assert!(!o.suid && !o.dev && !o.exec, "the last one counts");
    }
}
