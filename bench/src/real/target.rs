//! A filesystem behind a socket as a [`Target`]: one RPC a call, each waited for.

use super::server::Server;
use crate::outcome::{Counted, store_since};
use crate::target::{Nanos, Target};
use anyhow::{Context, Result, bail};
use seawall_diskfs::{OpenFlags, Site, SiteStats, Slice};
use seawall_store::{Counters, Stats};
use seawall_translator::client::{Client, ROOT};
use seawall_translator::protocol::{Control, ControlReply, StatsReply};
use std::path::Path;
use std::time::Instant;

/// A mounted filesystem behind two sockets.
pub(super) struct RpcTarget {
    /// Gone after unmount.
    client: Option<Client>,
    server: Server,
    store: seawall_store::Client,
    /// What the store had done before the mount: mkfs.
    before: Counters,
    /// Counters at the last look, and the store's by tag.
    last: (Counted, Stats),
    started: Instant,
}

impl RpcTarget {
    pub(super) fn connect(socket: &Path, store: &Path, server: Server) -> Result<Self> {
        let (name, access) = ("seawall statistics", seawall_store::Access::ReadOnly);
        let store = seawall_store::Client::connect_as(store, name, access)?;
        let before = store.stats().context("store statistics")?.total;
        let client = Some(Client::connect(socket, "seawall")?);
        let last = (Counted::default(), Stats::default());
        Ok(Self { client, server, store, before, last, started: Instant::now() })
    }

    fn client(&mut self) -> Result<&mut Client> {
        self.client.as_mut().context("the filesystem is unmounted")
    }

    fn named<T>(
        &mut self,
        what: &[u8],
        call: impl FnOnce(&mut Client) -> Result<T, seawall_translator::client::ClientError>,
    ) -> Result<T> {
        Ok(call(self.client()?).map_err(|e| e.on(String::from_utf8_lossy(what)))?)
    }
}

impl Target for RpcTarget {
    type Dir = u32;
    type File = u32;

    fn now(&self) -> Nanos {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn root(&self) -> u32 {
        ROOT
    }

    fn mkdir(&mut self, dir: u32, name: &[u8]) -> Result<u32> {
        self.named(name, |c| {
            c.mkdir(dir, name, 0o755)?;
            c.walk(dir, vec![name.to_vec()], None).map(|(fid, _)| fid)
        })
    }

    fn symlink(&mut self, dir: u32, name: &[u8], to: &[u8]) -> Result<()> {
        self.named(name, |c| c.symlink(dir, name, to).map(|_| ()))
    }

    fn create(&mut self, dir: u32, name: &[u8]) -> Result<u32> {
        let flags = OpenFlags { write: true, exclusive: true, ..OpenFlags::default() };
        self.named(name, |c| c.create(dir, name, 0o644, flags).map(|(fid, _)| fid))
    }

    fn write(&mut self, file: &u32, offset: u64, data: &Slice) -> Result<()> {
        self.named(b"the file", |c| c.write(*file, offset, data))
    }

    fn fsync(&mut self, file: &u32) -> Result<()> {
        self.named(b"the file", |c| c.fsync(*file, false).map(|_| ()))
    }

    fn close(&mut self, file: u32) -> Result<()> {
        self.named(b"the file", |c| c.close(file))
    }

    fn unlink(&mut self, dir: u32, name: &[u8]) -> Result<()> {
        self.named(name, |c| c.unlink(dir, name, false))
    }

    fn syncfs(&mut self) -> Result<()> {
        self.named(b"the volume", |c| c.syncfs().map(|_| ()))
    }

    /// The server writes everything back, sets the clean mark and ends.
    fn unmount(&mut self) -> Result<()> {
        self.named(b"the volume", |c| c.control(&Control::Shutdown).map(|_| ()))?;
        self.client = None;
        self.server.wait()
    }

    /// After unmount there is no filesystem to ask: what it did since the last look is what the
    /// store saw under its tags (Syncs sent, writes; not what was merged or skipped).
    fn counted(&mut self) -> Result<Counted> {
        let store = self.store.stats().context("store statistics")?;
        let counted = match self.client.as_mut() {
            Some(client) => match client.control(&Control::Stats)? {
                ControlReply::Stats(fs) => from_reply(&fs),
                other => bail!("statistics: unexpected reply {other:?}"),
            },
            None => from_tags(&self.last.0, &self.last.1, &store),
        };
        let counted = Counted { store: store_since(&store.total, &self.before), ..counted };
        self.last = (counted.clone(), store);
        Ok(counted)
    }
}

pub(super) fn from_reply(fs: &StatsReply) -> Counted {
    let sites = fs.sites.iter().map(|s| {
        let stats = SiteStats {
            hits: s.hits,
            writes: s.writes,
            bytes: s.bytes,
            syncs_sent: s.syncs_sent,
            syncs_merged: s.syncs_merged,
            syncs_skipped: s.syncs_skipped,
            syncs_failed: s.syncs_failed,
        };
        (s.site.name(), stats)
    });
    let named = |name: &str| fs.counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
    Counted {
        sites: sites.collect(),
        commits: named("commits"),
        restarts: named("restarts"),
        store: Counters::default(),
    }
}

pub(super) fn from_tags(last: &Counted, before: &Stats, now: &Stats) -> Counted {
    let tag = |stats: &Stats, site: Site| {
        let found = stats.tags.iter().find(|t| t.tag == site.tag().0);
        found.map(|t| t.counters.clone()).unwrap_or_default()
    };
    let sites = Site::ALL.iter().map(|site| {
        let since = store_since(&tag(now, *site), &tag(before, *site));
        let mut stats = last.site(*site);
        stats.writes = stats.writes.saturating_add(since.writes);
        stats.bytes = stats.bytes.saturating_add(since.write_bytes);
        stats.syncs_sent = stats.syncs_sent.saturating_add(since.syncs);
        (site.name(), stats)
    });
    Counted { sites: sites.collect(), ..last.clone() }
}
