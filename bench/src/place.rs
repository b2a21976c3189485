//! Where real rows and images live, and what its flush costs.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flushes measured.
const FLUSHES: usize = 64;
/// Time after which no further flush is measured.
const MEASURE_MAX: Duration = Duration::from_millis(1500);

/// A folder and what is under it.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// The folder.
    pub dir: PathBuf,
    /// Type of its filesystem.
    pub filesystem: String,
    /// What that is mounted from.
    pub device: String,
    /// Write of 4 KiB and fdatasync, ns: half of them took at most this.
    pub flush_p50_ns: u64,
    /// As above, 99 of 100.
    pub flush_p99_ns: u64,
    /// How many were measured.
    pub flushes: usize,
}

/// Under the cargo target folder that the program was built in, else under the system's folder for
/// temporary files.
pub(crate) fn default_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let target = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    target.map_or_else(std::env::temp_dir, Path::to_path_buf).join("seawall-bench")
}

impl Place {
    /// Makes the folder and measures it.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn measure(dir: &Path) -> Result<Self> {
        let what = || format!("--dir {}", dir.display());
        fs::create_dir_all(dir).with_context(what)?;
        let dir = fs::canonicalize(dir).with_context(what)?;
        let (device, filesystem) = mounted(&dir);
        let file = tempfile::tempfile_in(&dir).with_context(what)?;
        let mut took = flushes(&file).with_context(what)?;
        took.sort_unstable();
        let at = |part: usize| {
            let n = took.len().saturating_sub(1).saturating_mul(part) / 100;
            took.get(n).copied().unwrap_or(0)
        };
        Ok(Self {
            flush_p50_ns: at(50),
            flush_p99_ns: at(99),
            flushes: took.len(),
            dir,
            filesystem,
            device,
        })
    }

    /// One line for reports.
    pub fn describe(&self) -> String {
        format!(
            "{} on {} ({}); write 4 KiB + fdatasync p50 {:.3} ms, p99 {:.3} ms ({} measured)",
            self.dir.display(),
            self.filesystem,
            self.device,
            self.flush_p50_ns as f64 / 1e6,
            self.flush_p99_ns as f64 / 1e6,
            self.flushes
        )
    }
}

fn flushes(file: &File) -> std::io::Result<Vec<u64>> {
    // As the store's images: the length is set before, so that no flush has to write it.
    file.set_len(4096 * FLUSHES as u64)?;
    let started = Instant::now();
    let mut took = Vec::with_capacity(FLUSHES);
    for n in 0..FLUSHES {
        let from = Instant::now();
        file.write_all_at(&[n as u8; 4096], 4096 * n as u64)?;
        file.sync_data()?;
        took.push(u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if started.elapsed() > MEASURE_MAX {
            break;
        }
    }
    Ok(took)
}

/// What the folder's filesystem is mounted from, and its type, from the kernel's table.
fn mounted(dir: &Path) -> (String, String) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut best = (0, ("unknown".to_string(), "unknown".to_string()));
    for line in table.lines() {
        let Some((front, back)) = line.split_once(" - ") else { continue };
        let Some(point) = front.split(' ').nth(4) else { continue };
        let point = Path::new(point);
        let depth = point.components().count();
        if dir.starts_with(point) && depth >= best.0 {
            let mut back = back.split(' ');
            let kind = back.next().unwrap_or("unknown").to_string();
            best = (depth, (back.next().unwrap_or("unknown").to_string(), kind));
        }
    }
    best.1
}
