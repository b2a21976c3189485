//! Where a report comes from: the first thing in it.

use crate::place::Place;
use serde::Serialize;
use std::fs;

/// What is needed to repeat a run, or to know that it cannot be.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// Version of this report's form.
    pub format: u32,
    /// Package version.
    pub version: &'static str,
    /// Commit of the sources, `-dirty` when they were changed, or `unknown`.
    pub commit: String,
    /// Build profile.
    pub profile: &'static str,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Seconds since 1970 when the report was begun.
    pub begun: u64,
    /// Where real rows ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The tree that was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Its fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree_fingerprint: Option<String>,
}

impl Provenance {
    /// Looks at the host.
    pub fn collect(seed: u64) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|l| Some(l.strip_prefix("model name")?.split_once(':')?.1.trim().to_string()))
            .unwrap_or_else(|| "unknown".into());
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_string();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            format: 1,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("SEAWALL_COMMIT").into(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            seed,
            cpu,
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            kernel: if kernel.is_empty() { "unknown".into() } else { kernel },
            begun: now.map_or(0, |d| d.as_secs()),
            place: None,
            tree: None,
            tree_fingerprint: None,
        }
    }

    /// Lines for a person.
    pub fn describe(&self) -> String {
        format!(
            "seawall {} commit {} ({} build), seed {}\nhost: {}, {} cores, Linux {}",
            self.version, self.commit, self.profile, self.seed, self.cpu, self.cores, self.kernel
        )
    }
}
