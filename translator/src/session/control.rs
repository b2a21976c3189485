//! What is asked of the server itself.

use super::files::sync_all;
use super::{Answer, Fail, Input, Made, Outcome, Result, Session, answer, parse};
use crate::protocol::{Control, ControlReply, Counter, PolicyInfo, SiteCounters, StatsReply, op};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::policy::{PRESETS, Policy, When, preset};
use seawall_diskfs::{Format, Fs, FsError, Refused, Site, Timestamp};
use seawall_ipc::{Request, Status, encode_body};

/// Attempts at catching a moment without dirty blocks while other sessions go on.
const SWITCH_TRIES: u32 = 16;

impl Session {
    pub(super) fn control<H: Host>(
        &mut self,
        host: &mut H,
        now: Timestamp,
        request: &Request,
        input: &Input,
    ) -> Outcome {
        match self.admitted(input) {
            Ok(Control::Shutdown) => Outcome::Shutdown,
            Ok(what) => Outcome::Answer(finish(request, self.act(host, now, what))),
            Err(e) => Outcome::Answer(finish(request, Err(e))),
        }
    }

    /// Executes a request on a volume that is unmounted: only a greeting, and a Shutdown, which has
    /// the result of the one before it, mean something.
    pub fn handle_unmounted(&mut self, request: &Request, input: &Input) -> Outcome {
        let made = match request.op {
            op::HELLO => parse(input).and_then(|hello| self.hello(&hello, false)),
            op::CONTROL if matches!(self.admitted(input), Ok(Control::Shutdown)) => {
                return Outcome::Shutdown;
            }
            _ => Err(Status::ESHUTDOWN.into()),
        };
        Outcome::Answer(answer(request, made))
    }

    fn admitted(&self, input: &Input) -> Result<Control> {
        if !self.greeted {
            return Err(Status::EPROTO.into());
        }
        let what = parse(input)?;
        if self.peer.uid != 0 && self.peer.uid != self.server.owner {
            return Err(Refused::NotPermitted.into());
        }
        Ok(what)
    }

    fn act<H: Host>(
        &mut self,
        host: &mut H,
        now: Timestamp,
        what: Control,
    ) -> Result<ControlReply> {
        match what {
            Control::Sync => sync_all(host)?,
            Control::PolicyGet => return Ok(ControlReply::Policy(host.with(|fs| info(fs)))),
            Control::PolicySet(name) => {
                let policy = preset(&name).ok_or_else(|| {
                    let known = PRESETS.join(", ");
                    let text = format!("no policy '{name}'; there are {known}");
                    Fail::Text(Status::EINVAL, text)
                })?;
                switch(host, policy)?;
                return Ok(ControlReply::Policy(host.with(|fs| info(fs))));
            }
            Control::Stats => {
                let mut stats = host.with(|fs| stats(fs));
                if let Some(e) = host.trouble() {
                    stats.not_durable = Some(e.to_string());
                }
                return Ok(ControlReply::Stats(stats));
            }
            Control::RemountRo => {
                driver::remount_ro(host, &self.ctx(now)).map_err(|e| in_the_way(host, e))?;
            }
            Control::NextFree(unit) => {
                let ctx = self.ctx(now);
                driver::run(host, &ctx, |fs, t| fs.set_next_free(&ctx, unit, t))?;
            }
            Control::Freeze | Control::Thaw | Control::Shutdown => {
                return Err(Status::EOPNOTSUPP.into());
            }
        }
        Ok(ControlReply::Done)
    }
}

/// Says what keeps a volume from becoming read-only.
fn in_the_way<H: Host>(host: &mut H, e: FsError) -> Fail {
    if !matches!(e, FsError::Refused(Refused::Busy)) {
        return e.into();
    }
    let words = match host.with(|fs| fs.files_being_written()) {
        1 => "1 file is open for writing".to_string(),
        // It was closed meanwhile.
        0 => "a file was open for writing".to_string(),
        n => format!("{n} files are open for writing"),
    };
    Fail::Text(Status::EBUSY, words)
}

/// A control reply says in words what went wrong, beside the status.
pub(super) fn finish(request: &Request, result: Result<ControlReply>) -> Answer {
    let (failed, words) = match result {
        Ok(reply) => return answer(request, Made::body(&reply)),
        Err(Fail::Fs(e)) => {
            let words = e.to_string();
            (Fail::Fs(e), words)
        }
        Err(Fail::Text(s, words)) => (Fail::Status(s), words),
        Err(Fail::Status(s)) => (Fail::Status(s), s.to_string()),
        Err(walk @ Fail::Walk(..)) => (walk, String::new()),
    };
    let mut out = answer(request, Err(failed));
    out.body = encode_body(&ControlReply::Failed(words)).unwrap_or_default();
    out
}

/// Puts a policy in force between two operations, everything synced under both.
fn switch<H: Host>(host: &mut H, new: Policy) -> Result<()> {
    let old = host.with(|fs| fs.policy().clone());
    for _ in 0..SWITCH_TRIES {
        sync_all(host)?;
        match host.with(|fs| fs.set_policy(new.clone())) {
            Ok(()) => return settle(host, old),
            Err(FsError::Refused(Refused::Busy)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Refused::Busy.into())
}

/// The sync under the new policy. When it cannot be, the old one comes back.
fn settle<H: Host>(host: &mut H, old: Policy) -> Result<()> {
    let Err(e) = sync_all(host) else { return Ok(()) };
    let new = host.with(|fs| fs.policy().name.clone());
    let back = host.with(|fs| fs.set_policy(old.clone()));
    let now = if back.is_ok() { &old.name } else { &new };
    let text = format!("the sync under policy {new} failed ({e}); policy {now} is in force");
    Err(Fail::Text(Status(u32::try_from(e.errno()).unwrap_or(Status::EIO.0)), text))
}

/// What makes fsync's Ok less than durable on this mount; `None` when Ok means durable.
pub fn not_durable<F: Format>(fs: &Fs<F>) -> Option<String> {
    let cache = fs.caps().cache;
    if !cache.can_promise() {
        return Some(format!("the store cannot flush (its cache is {})", cache.name()));
    }
    let p = fs.policy();
    (!p.fsync_is_durable())
        .then(|| format!("policy {}: fsync may return Ok before the file is durable", p.name))
}

fn info<F: Format>(fs: &Fs<F>) -> PolicyInfo {
    let p = fs.policy();
    PolicyInfo {
        name: p.name.clone(),
        not_durable: not_durable(fs),
        presets: PRESETS.iter().map(ToString::to_string).collect(),
        text: text(p),
    }
}

/// Names of variants as policy files spell them.
fn snake(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        if c.is_ascii_uppercase() && inside {
            out.push('_');
        }
        inside = c.is_ascii_lowercase();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The policy, one line for each setting.
fn text(p: &Policy) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ok = writeln!(out, "{name:<18} {}", snake(&value));
    };
    for (site, s) in &p.sites {
        let when = if s.when == When::Waited { String::new() } else { format!(", {:?}", s.when) };
        line(site.name(), format!("{:?}{when}", s.action));
    }
    line("close", format!("data {:?}, inode {:?}", p.close.data, p.close.inode));
    if p.close.linger_ms > 0 {
        line("close_linger", format!("{} ms", p.close.linger_ms));
    }
    line("boundary", format!("{:?}", p.boundary));
    line("reuse", format!("{:?}", p.reuse));
    line("waited", format!("{:?}", p.waited));
    line("exclusion", format!("{:?}", p.exclusion));
    line("on_unsupported", format!("{:?}", p.on_unsupported));
    line("on_error", format!("{:?}", p.on_error));
    line("clean_fsync", format!("{:?}", p.clean_fsync));
    let f = p.flusher;
    line("flusher", format!("every {} ms, {} ms old", f.interval_ms, f.expire_ms));
    line("flusher_bytes", format!("above {}, at most {}", f.background, f.limit));
    line("flusher_request", format!("{}, {} a turn", f.max_request, f.chunk));
    out
}

fn stats<F: Format>(fs: &Fs<F>) -> StatsReply {
    let s = fs.stats();
    let sites = Site::ALL.iter().map(|site| (*site, s.site(*site)));
    let sites: Vec<SiteCounters> = sites
        .filter(|(_, c)| *c != Default::default())
        .map(|(site, c)| SiteCounters {
            site,
            hits: c.hits,
            writes: c.writes,
            bytes: c.bytes,
            syncs_sent: c.syncs_sent,
            syncs_merged: c.syncs_merged,
            syncs_skipped: c.syncs_skipped,
            syncs_failed: c.syncs_failed,
        })
        .collect();
    let ((meta, data), sizes) = (fs.memory(), fs.cache_sizes());
    let w = s.writeback;
    let counter = |name: &str, value: u64| Counter { name: name.to_string(), value };
    StatsReply {
        policy: fs.policy().name.clone(),
        cache: fs.caps().cache.name().to_string(),
        not_durable: not_durable(fs),
        read_only: fs.is_read_only(),
        sites,
        counters: [
            counter("commits", s.commits),
            counter("restarts", s.restarts),
            counter("epochs written", s.epochs_written),
            counter("epochs open, most", s.epochs_open_max),
            counter("cache hits", s.cache_hits),
            counter("cache misses", s.cache_misses),
            counter("blocks given to files", s.file_blocks),
            counter("runs they came in", s.file_runs),
            counter("bytes discarded", s.discarded_bytes),
            counter("flusher's passes", w.passes),
            counter("flusher's last pass, bytes", w.pass_bytes),
            counter("flusher's last pass, ms", w.last_pass_ms),
            counter("written for the threshold, bytes", w.background_bytes),
            counter("written for age, bytes", w.expiry_bytes),
            counter("written by closes, bytes", w.close_bytes),
            counter("written by fsync, bytes", w.fsync_bytes),
            counter("written by sync, bytes", w.sync_bytes),
            counter("inodes left to their owners", w.skipped),
            counter("writers throttled", w.throttled),
            counter("writers throttled, ms", w.throttled_ms),
            counter("dirty data bytes", s.dirty_bytes),
            counter("dirty blocks", s.dirty_blocks),
            counter("metadata cache bytes", meta as u64),
            counter("metadata cache budget", sizes.blocks as u64),
            counter("directory index bytes", s.index_bytes),
            counter("directory index budget", sizes.index as u64),
            counter("data cache bytes", data),
            counter("open handles", fs.open_handles() as u64),
            counter("acknowledged sequence", fs.seqs().acked.0),
            counter("durable sequence", fs.seqs().durable.0),
        ]
        .into(),
    }
}
