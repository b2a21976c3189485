//! `fsync-loop`: the Hurd thread's loop, create, write 4 KiB, fsync, close.
//!
//! It runs warm, as a loop that is run twice does: before the clock starts the same names are made
//! and removed and a syncfs writes everything, so that the timed part neither reads inode tables
//! nor grows the directory. What is left of a round is what the thread measured: the file's block,
//! its inode's block, and what the policy adds. A run with a time limit warms up for a sixth of it.

use super::Meter;
use crate::outcome::Op;
use crate::seed::Seed;
use crate::target::Target;
use anyhow::Result;
use seawall_blockdev::PageBuf;
use seawall_diskfs::Slice;

/// Bytes written a round.
pub(super) const WRITE: usize = 4096;

fn name(round: u64) -> Vec<u8> {
    format!("file-{round:05}").into_bytes()
}

pub(super) fn run<T: Target>(t: &mut T, rounds: u64, m: &mut Meter<'_>) -> Result<()> {
    let root = t.root();
    let mut seed = Seed::new(m.run.seed);
    let mut made = 0;
    let from = t.now();
    while made < rounds && m.may_warm(t, from) {
        let file = t.create(root, &name(made))?;
        t.close(file)?;
        made += 1;
    }
    for round in 0..made {
        t.unlink(root, &name(round))?;
    }
    t.syncfs()?;
    m.begin(t)?;
    for round in 0..rounds {
        let mut page = PageBuf::zeroed(WRITE);
        seed.fill(&mut page);
        let data = Slice::new(page);
        let name = name(round);
        let file = m.time(t, Op::Create, |t| t.create(root, &name))?;
        m.time(t, Op::Write, |t| t.write(&file, 0, &data))?;
        m.time(t, Op::Fsync, |t| t.fsync(&file))?;
        m.time(t, Op::Close, |t| t.close(file))?;
        if !m.unit(t, WRITE as u64) {
            break;
        }
    }
    m.end(t, false)
}
