//! The outside judge: `e2fsck -fn` on the image that a run left.

use anyhow::{Context, Result};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag};
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What e2fsck says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Exit status 0.
    Clean,
    /// Another exit status, and its first complaint.
    Bad(String),
    /// Not judged, and why.
    None(&'static str),
}

impl Verdict {
    /// The cell of a table.
    pub fn text(&self) -> String {
        match self {
            Self::Clean => "clean".into(),
            Self::Bad(what) => format!("BAD: {what}"),
            Self::None(why) => format!("- ({why})"),
        }
    }
}

/// Runs `e2fsck -fn`, which also lives in the `sbin` folders.
///
/// # Errors
/// When it is there and cannot be started.
pub fn check_image(image: &Path) -> Result<Verdict> {
    let path =
        format!("{}:/usr/local/sbin:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut cmd = Command::new("e2fsck");
    cmd.arg("-fn").arg(image).env("PATH", path).env("LC_ALL", "C").stdin(Stdio::null());
    let out = match cmd.output() {
        Ok(out) => out,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Verdict::None("e2fsck is not installed"));
        }
        Err(e) => return Err(e).context("e2fsck"),
    };
    if out.status.success() {
        return Ok(Verdict::Clean);
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let complaint = text.lines().find(|l| !l.starts_with("Pass ") && !l.trim().is_empty());
    Ok(Verdict::Bad(format!("{}: {}", out.status, complaint.unwrap_or("it says nothing"))))
}

/// Copies a device into a sparse file.
///
/// # Errors
/// The device's or the file's.
pub fn dump(dev: &mut dyn BlockDev, image: &Path) -> Result<()> {
    let what = || format!("copying the image to {}", image.display());
    let size = dev.caps().size;
    let file = File::create(image).with_context(what)?;
    file.set_len(size).with_context(what)?;
    let mut buf = PageBuf::zeroed(1 << 20);
    let mut at = 0u64;
    while at < size {
        let len = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).min(buf.len());
        let part = buf.get_mut(..len).unwrap_or_default();
        dev.read(&mut [ReadRun { start: at, buf: part }], Tag(0)).with_context(what)?;
        for (i, page) in buf.get(..len).unwrap_or_default().chunks(4096).enumerate() {
            if page.iter().any(|b| *b != 0) {
                let to = at.saturating_add((i as u64).saturating_mul(4096));
                file.write_all_at(page, to).with_context(what)?;
            }
        }
        at = at.saturating_add(len as u64);
    }
    Ok(())
}
