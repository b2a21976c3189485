//! `read` and `write`: between a store and the standard streams.

use super::still_read;
use crate::name::{AnyStore, format_size};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag, WriteFlags, WriteRun};
use std::format;
use std::io::{Read, Write};
use std::string::String;

/// Bytes per call: several requests in flight on a server.
const CHUNK: usize = 4 * 1024 * 1024;
/// Shorter copies show no progress bar.
const BAR_FROM: u64 = 64 * 1024 * 1024;

fn bar(len: Option<u64>) -> ProgressBar {
    // indicatif draws on stderr, and only if that is a terminal.
    let bar = match len {
        Some(len) if len < BAR_FROM => return ProgressBar::hidden(),
        Some(len) => ProgressBar::new(len),
        None => ProgressBar::no_length(),
    };
    let style = ProgressStyle::with_template(
        "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
    );
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

pub(super) fn read(
    name: &str,
    store: &mut AnyStore,
    offset: u64,
    length: u64,
) -> anyhow::Result<()> {
    let caps = store.caps();
    let end = offset.checked_add(length).filter(|end| *end <= caps.size);
    let Some(end) = end else {
        bail!("{name}: {length} bytes at {offset} do not fit: the store has {} bytes", caps.size);
    };
    let block = u64::from(caps.logical);
    let mut buf = PageBuf::zeroed(CHUNK);
    let bar = bar(Some(length));
    let mut out = std::io::stdout().lock();
    let mut at = offset;
    while at < end {
        // Whole blocks are read; the bytes asked for are cut out of them.
        let first = at / block * block;
        let stop = end.next_multiple_of(block).min(first.saturating_add(CHUNK as u64));
        let len = stop.saturating_sub(first) as usize;
        let piece = buf.get_mut(..len).unwrap_or_default();
        store
            .read(&mut [ReadRun { start: first, buf: piece }], Tag(0))
            .with_context(|| format!("{name}: read of {len} bytes at {first}"))?;
        let from = at.saturating_sub(first) as usize;
        let to = stop.min(end).saturating_sub(first) as usize;
        let done = out.write_all(buf.get(from..to).unwrap_or_default());
        if !still_read(done).context("cannot write to stdout")? {
            break;
        }
        bar.inc(stop.min(end).saturating_sub(at));
        at = stop;
    }
    bar.finish_and_clear();
    still_read(out.flush()).context("cannot write to stdout")?;
    Ok(())
}

/// Returns the line that says what was written.
pub(super) fn write(name: &str, store: &mut AnyStore, offset: u64) -> anyhow::Result<String> {
    let caps = store.caps();
    let block = caps.logical as usize;
    if !offset.is_multiple_of(u64::from(caps.logical)) {
        bail!("{name}: offset {offset} is not a multiple of the store's block of {block} bytes");
    }
    let mut input = std::io::stdin().lock();
    let mut buf = PageBuf::zeroed(CHUNK);
    let bar = bar(None);
    let mut at = offset;
    loop {
        let n = fill(&mut input, &mut buf).context("cannot read stdin")?;
        if n == 0 {
            break;
        }
        if at.checked_add(n as u64).is_none_or(|end| end > caps.size) {
            bail!("{name}: stdin is longer than the {} bytes from {offset} on", caps.size);
        }
        let whole = n.next_multiple_of(block);
        if whole > n {
            complete_block(name, store, at, &mut buf, n, block)?;
        }
        let bytes = buf.get(..whole).unwrap_or_default();
        store
            .write(&[WriteRun { start: at, buf: bytes, tag: Tag(0) }], WriteFlags::default())
            .with_context(|| format!("{name}: write of {whole} bytes at {at}"))?;
        bar.inc(n as u64);
        at = at.saturating_add(n as u64);
    }
    bar.finish_and_clear();
    let len = at.saturating_sub(offset);
    let seq = store.seqs().acked.0;
    Ok(format!("wrote {} ({len} bytes) at {offset}, sequence {seq}", format_size(len)))
}

/// Input ended inside a block: the rest of it keeps what the store has there.
fn complete_block(
    name: &str,
    store: &mut AnyStore,
    at: u64,
    buf: &mut PageBuf,
    n: usize,
    block: usize,
) -> anyhow::Result<()> {
    let first = n / block * block;
    let start = at.saturating_add(first as u64);
    let mut old = PageBuf::zeroed(block);
    store
        .read(&mut [ReadRun { start, buf: &mut old }], Tag(0))
        .with_context(|| format!("{name}: read of {block} bytes at {start}"))?;
    let keep = n.saturating_sub(first);
    let to = buf.get_mut(n..first.saturating_add(block)).unwrap_or_default();
    to.copy_from_slice(old.get(keep..).unwrap_or_default());
    Ok(())
}

fn fill(input: &mut impl Read, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut n = 0;
    while let Some(rest) = buf.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(got) => n += got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}
