//! Commit: a transaction's overlay becomes dirty blocks in epochs.

use crate::epoch::{Epoch, Stage};
use crate::fs::Fs;
use crate::plan::After;
use crate::policy::{Reuse, Waited};
use crate::tx::{Effects, OverlayBlock, Staged};
use crate::{Format, Ino, Site, SiteSet};
use alloc::collections::BTreeMap;

/// Hints kept at most; they are only hints.
const HINTS_MAX: usize = 65_536;
/// Directories whose change counters are kept.
const DIR_CHANGES_MAX: usize = 65_536;

/// First epochs that stages may go to because of what earlier transactions did.
struct From {
    /// A name does not come before what its node needs: a new one may stand in a block that is in
    /// no epoch yet, while the node's storage is in one that is still to be written.
    link: Epoch,
    /// Storage is given back after everything that was noted for its node.
    free: Epoch,
}

impl<F: Format> Fs<F> {
    /// Commits and says what the policy wants before the caller hears of it.
    pub(crate) fn commit(&mut self, staged: Staged, site: Site) -> Option<After> {
        if staged.is_empty() {
            self.remember(&staged.effects);
            return None;
        }
        self.stats.commits = self.stats.commits.saturating_add(1);
        self.stats.count(site, |s| s.hits = s.hits.saturating_add(1));
        let force = staged.effects.sync;
        let (upto, sites) = self.apply(staged);
        let all = self.policy.waited == Waited::All || force;
        all.then(|| After { upto, sites, site: Some(site), force, ..After::default() })
    }

    /// Moves the overlay into the cache. Returns the last epoch used and the sites changed.
    pub(crate) fn apply(&mut self, staged: Staged) -> (Epoch, SiteSet) {
        if self.meta.cache.dirty_versions() == 0 {
            self.meta.since = self.meta.now;
        }
        let Staged { overlay, effects } = staged;
        for ino in &effects.fresh {
            self.nodes.fresh(*ino);
            self.meta.indexes.remove(*ino);
            self.meta.runs.forget(*ino, 0);
        }
        self.remember(&effects);
        self.meta.indexes.apply(&effects.index, &effects.changed_dirs);
        for (ino, run, size) in &effects.windows {
            match run {
                Some(run) => self.meta.windows.set(*ino, *run, *size),
                None => self.meta.windows.release(*ino),
            }
        }
        self.stats.file_blocks = self.stats.file_blocks.saturating_add(effects.file_blocks);
        self.stats.file_runs = self.stats.file_runs.saturating_add(effects.file_runs);
        let (last, reached) = if self.policy.ordered() {
            let need = |ino: Ino| self.nodes.needs(ino).1;
            let links = effects.named.iter().map(|(_, ino)| need(*ino));
            let frees = effects.frees_of.iter().map(|ino| self.nodes.reached(*ino).next());
            let from = From {
                link: links.max().unwrap_or_default(),
                free: frees.max().unwrap_or_default(),
            };
            self.place_ordered(&overlay, from)
        } else {
            let last = self.place_unordered(&overlay);
            (last, last)
        };
        self.note(&effects, last, reached);
        self.hold_freed(&effects, last);
        for s in effects.sites.iter() {
            self.stats.count(s, |c| c.hits = c.hits.saturating_add(1));
        }
        let open = self.meta.cache.epochs.count() as u64;
        self.stats.epochs_open_max = self.stats.epochs_open_max.max(open);
        (last, effects.sites)
    }

    fn remember(&mut self, effects: &Effects) {
        for (key, value) in &effects.memo {
            self.meta.memo.set(*key, *value);
        }
    }

    /// One version a block, in the open epoch.
    fn place_unordered(&mut self, overlay: &BTreeMap<u64, OverlayBlock>) -> Epoch {
        let cache = &mut self.meta.cache;
        let mut last = cache.epochs.open;
        for (block, o) in overlay {
            let Some((_, buf)) = o.versions.last() else { continue };
            let epoch = cache.epochs.open.max(cache.newest_epoch(*block).unwrap_or_default());
            cache.put_dirty(*block, epoch, o.site, buf.clone());
            last = last.max(epoch);
            for ino in &o.owners {
                cache.add_owner(*block, *ino);
                self.nodes.entry(*ino).own.insert(*block);
            }
        }
        last
    }

    /// `Init` goes to the oldest open epoch. Each other stage goes to the first one that is not
    /// older than any block it touches and is later than the stages before it. Returns the last
    /// epoch used, and the last one before `Free`.
    fn place_ordered(
        &mut self,
        overlay: &BTreeMap<u64, OverlayBlock>,
        from: From,
    ) -> (Epoch, Epoch) {
        let open = self.meta.cache.epochs.open;
        let mut last = open;
        let mut reached = open;
        let mut floor = open;
        if let Some(e) = self.place_init(overlay, open) {
            floor = e.next();
            last = e;
            reached = e;
        }
        for stage in [Stage::Prepare, Stage::Link, Stage::Unlink, Stage::Free] {
            // Preparing has nothing before it but what it shares an epoch with.
            let from = match stage {
                Stage::Prepare => open,
                Stage::Link => floor.max(from.link),
                Stage::Free => floor.max(from.free),
                _ => floor,
            };
            if let Some(e) = self.place_stage(overlay, stage, from) {
                floor = floor.max(e.next());
                last = last.max(e);
                if stage != Stage::Free {
                    reached = last;
                }
            }
        }
        for (block, o) in overlay {
            let any = |(i, (s, _)): &(usize, &(Stage, _))| {
                *s == Stage::Any || (*s == Stage::Init && o.has_any_before(*i))
            };
            let Some((i, _)) = o.versions.iter().enumerate().rfind(any) else { continue };
            let Some(buf) = o.complete(i) else { continue };
            let cache = &mut self.meta.cache;
            let epoch = open.max(cache.newest_epoch(*block).unwrap_or_default());
            // A later stage of the same block holds the change already.
            if o.versions.iter().skip(i).all(|(s, _)| *s <= Stage::Init) {
                cache.put_dirty(*block, epoch, o.site, buf);
                last = last.max(epoch);
            }
        }
        (last, reached)
    }

    fn place_init(&mut self, overlay: &BTreeMap<u64, OverlayBlock>, open: Epoch) -> Option<Epoch> {
        let cache = &mut self.meta.cache;
        let commutes = self.policy.reuse == Reuse::AfterBarrier;
        let mut last = None;
        for (block, o) in overlay {
            for (i, (stage, buf)) in o.versions.iter().enumerate() {
                if *stage != Stage::Init {
                    continue;
                }
                let old = o.before(i);
                let epoch = match old {
                    Some(old) if commutes => cache.put_commuting(*block, open, o.site, old, buf),
                    _ => {
                        let e = open.max(cache.newest_epoch(*block).unwrap_or_default());
                        cache.put_dirty(*block, e, o.site, buf.clone());
                        e
                    }
                };
                last = last.max(Some(epoch));
            }
        }
        last
    }

    fn place_stage(
        &mut self,
        overlay: &BTreeMap<u64, OverlayBlock>,
        stage: Stage,
        floor: Epoch,
    ) -> Option<Epoch> {
        let cache = &mut self.meta.cache;
        let here = || {
            overlay.iter().filter_map(move |(b, o)| {
                let i = o.versions.iter().rposition(|(s, _)| *s == stage)?;
                Some((*b, o, i))
            })
        };
        here().next()?;
        let newest = here().filter_map(|(b, _, _)| cache.newest_epoch(b)).max();
        let epoch = floor.max(newest.unwrap_or_default());
        for (block, o, i) in here() {
            if let Some(buf) = o.complete(i) {
                cache.put_dirty(block, epoch, o.site, buf);
            }
        }
        Some(epoch)
    }

    fn note(&mut self, effects: &Effects, last: Epoch, reached: Epoch) {
        for ino in &effects.touched {
            let n = self.nodes.entry(*ino);
            n.need = n.need.max(last);
            n.reached = n.reached.max(reached);
            n.inode_dirty = true;
        }
        for (dir, ino) in &effects.named {
            // The name survives only if the directory does: its own needs are inherited.
            let (_, above) = self.nodes.needs(*dir);
            let n = self.nodes.entry(*ino);
            n.need = n.need.max(last).max(above);
        }
        for dir in &effects.changed_dirs {
            self.bump_dir(*dir);
        }
        if self.meta.hints.len() > HINTS_MAX {
            self.meta.hints.clear();
        }
        self.meta.hints.extend(effects.hints.iter().copied());
        let durable = (self.marks.durable, self.meta.cache.epochs.durable);
        let data = &self.data;
        self.nodes.collect(durable, |ino| !data.is_absent(ino));
    }

    pub(crate) fn bump_dir(&mut self, dir: Ino) {
        self.meta.changes = self.meta.changes.saturating_add(1);
        if self.meta.dir_changes.len() > DIR_CHANGES_MAX {
            self.meta.dir_changes.clear();
            self.meta.change_floor = self.meta.changes;
        }
        self.meta.dir_changes.insert(dir, self.meta.changes);
    }

    fn hold_freed(&mut self, effects: &Effects, last: Epoch) {
        let epoch = self.reuse_waits().then_some(last);
        for run in &effects.freed {
            for b in run.start..run.start.saturating_add(run.len) {
                let dirty = self.meta.cache.peek(b).is_some_and(|e| !e.dirty.is_empty());
                // Under order the earlier versions are still written, so that no crash finds a
                // pointer to a block that never was.
                if !dirty || epoch.is_none() {
                    for ino in self.meta.cache.owners(b) {
                        if let Some(n) = self.nodes.known(ino) {
                            n.own.remove(&b);
                        }
                    }
                    self.meta.cache.forget(b);
                }
            }
            self.meta.pending.hold_blocks(*run, epoch);
        }
        for ino in &effects.freed_inodes {
            self.meta.pending.hold_inode(*ino, epoch);
            self.data.truncate(*ino, 0);
            self.nodes.forget(*ino);
            self.meta.indexes.remove(*ino);
            self.meta.runs.forget(*ino, 0);
            self.meta.windows.release(*ino);
        }
    }
}
