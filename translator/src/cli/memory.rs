//! How much memory this process may count on.

use std::fs;
use std::path::Path;
use std::string::String;

/// Bytes of the machine's memory, or the limit of a control group (version 1 or 2) that this
/// process is in, if that is less. `None` where the kernel does not say.
pub fn machine_memory() -> Option<u64> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let total = total(&read("/proc/meminfo"));
    let limit = limit(&read("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    // Without a limit, version 1 has a number near 2^63 in its place.
    total.into_iter().chain(limit).min()
}

/// From /proc/meminfo.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the groups in /proc/self/cgroup and all above them. In a container the path
/// may be one of the host's, and its own group stands at the root.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (folder, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            c if c.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = path.trim_start_matches('/');
        for above in Path::new(path).ancestors() {
            let text: String =
                fs::read_to_string(folder.join(above).join(file)).unwrap_or_default();
            // `max` is none.
            let limit: Option<u64> = text.trim().parse().ok();
            least = least.into_iter().chain(limit).min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says() {
        let text = "MemFree:  1 kB\nMemTotal:       24042340 kB\nMemAvailable: 2 kB\n";
        assert_eq!(total(text), Some(24_042_340 << 10));
        for text in ["", "MemTotal:", "MemTotal: many kB", "MemTotal: 18446744073709551615 kB"] {
            assert_eq!(total(text), None, "{text}");
        }
        assert!(machine_memory().unwrap() > 16 << 20);
    }

    #[test]
    fn the_tightest_group_counts() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let v2 = |path| limit(path, dir.path());
        assert_eq!(v2("0::/a/b\n"), None);
        put("a/b/memory.max", "max\n");
        assert_eq!(v2("0::/a/b\n"), None);
        put("a/memory.max", "1000\n");
        put("a/b/c/memory.max", "2000\n");
        assert_eq!(v2("0::/a/b\n"), Some(1000), "a group above");
        assert_eq!(v2("0::/a/b/c\n"), Some(1000));
        assert_eq!(v2("0::/\n"), None);
        put("memory.max", "500\n");
        assert_eq!(v2("0::/not/visible/here\n"), Some(500), "in a container");
        put("memory/d/memory.limit_in_bytes", "300\n");
        let old = "3:cpu,cpuacct:/d\n9:memory:/d\n1:name=systemd:/d:e\n";
        assert_eq!(v2(old), Some(300));
        for text in ["", "0", "0:", "::\n:memory\n"] {
            let seen = v2(text);
            assert!(seen.is_none() || seen == Some(500), "{text}: {seen:?}");
        }
    }
}
