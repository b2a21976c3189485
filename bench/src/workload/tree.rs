//! `tree`: copies real source files in, as `cp -r` does: no fsync, one close a file, then syncfs
//! and unmount. Content is in memory before the clock starts.

use super::Meter;
use crate::outcome::Op;
use crate::source::{Node, Tree};
use crate::target::Target;
use anyhow::{Context, Result};

/// Bytes of one write call, what `cp` uses or less.
const WRITE_MAX: usize = 128 * 1024;

pub(super) fn run<T: Target>(t: &mut T, tree: &Tree, m: &mut Meter<'_>) -> Result<()> {
    m.begin(t)?;
    let mut dirs: Vec<T::Dir> = vec![t.root()];
    for entry in &tree.entries {
        let dir = *dirs.get(entry.dir).context("a file comes before its directory")?;
        match &entry.node {
            Node::Dir => dirs.push(m.time(t, Op::Mkdir, |t| t.mkdir(dir, &entry.name))?),
            Node::Symlink(to) => m.time(t, Op::Symlink, |t| t.symlink(dir, &entry.name, to))?,
            Node::File(data) => {
                let file = m.time(t, Op::Create, |t| t.create(dir, &entry.name))?;
                let mut at = 0usize;
                while at < data.len() {
                    let part = data.part(at, WRITE_MAX);
                    m.time(t, Op::Write, |t| t.write(&file, at as u64, &part))?;
                    at = at.saturating_add(part.len());
                }
                m.time(t, Op::Close, |t| t.close(file))?;
                if !m.unit(t, data.len() as u64) {
                    break;
                }
            }
        }
    }
    m.end(t, true)
}
