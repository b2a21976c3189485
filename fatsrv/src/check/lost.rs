//! Clusters that the FAT calls used and nothing owns, chain by chain.

use super::Check;
use super::finding::{Finding, Kind};
use super::table::Entry;
use crate::boot::FIRST_CLUSTER;
use seawall_diskfs::FsError;
use seawall_diskfs::check::Bits;

impl Check<'_> {
    fn is_lost(&self, cluster: u32, entry: Entry) -> bool {
        !matches!(entry, Entry::Free | Entry::Bad) && !self.claimed.get(u64::from(cluster))
    }

    /// The first lost cluster from `from` on, and what its entry says.
    fn next_lost(&self, from: u32) -> Option<(u32, Entry)> {
        let mut used = self.table.used(from).map(|(n, v)| (n, self.table.means(v)));
        used.find(|(n, entry)| self.is_lost(*n, *entry))
    }

    /// Tells each lost chain once: first those with a beginning, then rings.
    pub(super) fn check_lost(&mut self) -> Result<(), FsError> {
        self.tell("clusters", 0, 2);
        if self.next_lost(FIRST_CLUSTER).is_none() {
            return Ok(());
        }
        let mut inner = Bits::new(u64::from(self.boot.cluster_end()), &mut self.budget)?;
        let mut from = FIRST_CLUSTER;
        while let Some((n, entry)) = self.next_lost(from) {
            if let Entry::Next(next) = entry {
                inner.set(u64::from(next), &mut self.budget)?;
            }
            from = n + 1;
        }
        for rings in [false, true] {
            self.tell("clusters", 1 + u64::from(rings), 2);
            let mut from = FIRST_CLUSTER;
            while let Some((n, _)) = self.next_lost(from) {
                if rings || !inner.get(u64::from(n)) {
                    let chain = self.claim(n)?;
                    self.add(Finding::new(Kind::Lost).cluster(n).found(chain.len));
                }
                from = n + 1;
            }
        }
        Ok(())
    }
}
