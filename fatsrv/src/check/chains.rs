//! Chains: who owns which cluster. A cluster is claimed by the first chain that leads to it.

use super::Check;
use super::finding::{Finding, Kind};
use super::table::Entry;
use crate::boot::FIRST_CLUSTER;
use seawall_diskfs::FsError;

/// Most bytes of a chain.
const CHAIN_MAX: u64 = u32::MAX as u64;

/// A chain that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Clusters claimed, from the start on.
    pub(super) len: u64,
    /// Why it ends before its end mark, and at which cluster. An entry without a meaning ends it
    /// too, but is a finding of its own.
    pub(super) broken: Option<(Kind, u32)>,
}

impl Check<'_> {
    /// True for the number of a cluster.
    pub(super) fn is_cluster(&self, n: u32) -> bool {
        (FIRST_CLUSTER..self.boot.cluster_end()).contains(&n)
    }

    /// Claims the chain from `start`, which is the number of a cluster.
    pub(super) fn claim(&mut self, start: u32) -> Result<Chain, FsError> {
        let (mut at, mut len) = (start, 0);
        let broken = loop {
            let entry = self.table.get(at);
            match entry {
                Entry::Free => break Some((Kind::ChainFree, at)),
                Entry::Bad => break Some((Kind::ChainBad, at)),
                _ => {}
            }
            if self.claimed.set(u64::from(at), &mut self.budget)? {
                let own = self.leads_to(start, at, len);
                let kind = if own { Kind::ChainLoop } else { Kind::ChainShared };
                break Some((kind, at));
            }
            len += 1;
            match entry {
                Entry::Next(next) => at = next,
                _ => break None,
            }
        };
        Ok(Chain { len, broken })
    }

    /// True when `target` is one of the first `len` clusters from `start`.
    fn leads_to(&self, start: u32, target: u32, len: u64) -> bool {
        let mut at = start;
        for _ in 0..len {
            if at == target {
                return true;
            }
            let Entry::Next(next) = self.table.get(at) else { break };
            at = next;
        }
        false
    }

    /// Claims the chain of a name and says what is wrong with it: `size` is that of a file, `None`
    /// for a directory. Returns the clusters claimed; 0 for a directory that is too long to read.
    pub(super) fn check_chain(
        &mut self,
        start: u32,
        size: Option<u32>,
        named: &dyn Fn(&Self, Kind) -> Finding,
    ) -> Result<u64, FsError> {
        let cluster = u64::from(self.boot.cluster);
        let need = size.map(|s| u64::from(s).div_ceil(cluster));
        if start == 0 {
            if need.is_some_and(|n| n > 0) {
                let f = named(self, Kind::ChainShort).found(0u32).right(need.unwrap_or(0));
                self.add(f);
            }
            return Ok(0);
        }
        if !self.is_cluster(start) {
            let f = named(self, Kind::StartRange).found(start);
            self.add(f);
            return Ok(0);
        }
        let chain = self.claim(start)?;
        if let Some((kind, at)) = chain.broken {
            let f = named(self, kind).cluster(at);
            self.add(f);
            return Ok(chain.len);
        }
        let kind = match need {
            Some(0) => Kind::EmptyStart,
            Some(n) if chain.len > n => Kind::ChainLong,
            Some(n) if chain.len < n => Kind::ChainShort,
            None if chain.len.saturating_sub(1) * cluster >= CHAIN_MAX => Kind::ChainHuge,
            _ => return Ok(chain.len),
        };
        let f = named(self, kind).cluster(start).found(chain.len);
        let Some(need) = need else {
            self.add(f);
            return Ok(0);
        };
        self.add(f.right(need));
        Ok(chain.len)
    }
}
