//! What the names add up to: a tree that holds every directory, and a link count for each inode.

use super::Check;
use super::finding::{Finding, Kind};
use super::inodes::ROOT_INO;

/// More links than this a directory does not count; one then means many.
const LINK_MAX: u32 = 65000;

/// Whether a path leads to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// On the way that is being looked at.
    OnWay,
    Reached,
    Lost,
}

/// A directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dir {
    pub(super) ino: u32,
    /// The directory that has its name; 0: none.
    pub(super) parent: u32,
    /// Where its '..' leads; 0: there is none.
    pub(super) dotdot: u32,
    state: State,
}

impl Dir {
    pub(super) fn new(ino: u32) -> Self {
        Self { ino, parent: 0, dotdot: 0, state: State::Unknown }
    }
}

impl Check<'_> {
    fn dir_at(&self, ino: u32) -> Option<usize> {
        self.dirs.binary_search_by_key(&ino, |d| d.ino).ok()
    }

    /// Notes which directory has a directory's name. False when another name was there first.
    pub(super) fn set_parent(&mut self, ino: u32, parent: u32) -> bool {
        let dir = self.dir_at(ino).and_then(|at| self.dirs.get_mut(at));
        dir.is_none_or(|d| {
            let first = d.parent == 0;
            if first {
                d.parent = parent;
            }
            first
        })
    }

    /// Every directory must be on a path from the root, and its '..' must lead back.
    pub(super) fn check_tree(&mut self) {
        self.tell("paths", 0, 1);
        if self.dir_at(ROOT_INO).is_none() {
            self.add(Finding::new(Kind::RootMissing).inode(ROOT_INO));
        }
        for at in 0..self.dirs.len() {
            self.climb(at);
            let Some(dir) = self.dirs.get(at).copied() else { break };
            if dir.parent != 0 && dir.dotdot != 0 && dir.parent != dir.dotdot {
                let f = Finding::new(Kind::DotdotWrong).inode(dir.ino);
                self.add(f.found(dir.dotdot).right(dir.parent));
            }
        }
    }

    /// Follows parents up to one whose state is known.
    fn climb(&mut self, start: usize) {
        let (mut at, mut verdict) = (start, State::Lost);
        let mut lost = None;
        while let Some(dir) = self.dirs.get_mut(at) {
            match dir.state {
                State::Unknown => dir.state = State::OnWay,
                State::OnWay => {
                    lost = Some(Finding::new(Kind::DirLoop).inode(dir.ino));
                    break;
                }
                known => {
                    verdict = known;
                    break;
                }
            }
            if dir.ino == ROOT_INO {
                verdict = State::Reached;
                break;
            }
            let (ino, parent) = (dir.ino, dir.parent);
            match self.dir_at(parent) {
                Some(up) => at = up,
                None => {
                    lost = Some(Finding::new(Kind::Unreachable).inode(ino));
                    break;
                }
            }
        }
        if let Some(f) = lost {
            self.add(f);
        }
        let mut at = Some(start);
        while let Some(dir) = at.and_then(|i| self.dirs.get_mut(i)) {
            if dir.state != State::OnWay {
                break;
            }
            dir.state = verdict;
            let parent = dir.parent;
            at = self.dir_at(parent);
        }
    }

    /// Every inode in use has a name, and as many as its link count says.
    pub(super) fn check_links(&mut self) {
        self.tell("link counts", 0, 1);
        let mut from = 1;
        while let Some((ino, node)) = self.nodes.next_used(from) {
            from = ino + 1;
            if ino > self.geo.inodes {
                break;
            }
            if (ino != ROOT_INO && ino < self.geo.first_ino) || self.geo.is_nameless(ino) {
                continue;
            }
            let lost = self
                .dir_at(ino)
                .and_then(|at| self.dirs.get(at))
                .is_some_and(|d| d.state == State::Lost);
            let many = node.file_type == 2 && node.found > LINK_MAX;
            let right = if many { 1 } else { node.found };
            if lost {
                continue;
            } else if node.found == 0 {
                self.add(Finding::new(Kind::Nameless).inode(ino));
            } else if u32::from(node.links) != right {
                let f = Finding::new(Kind::LinkCount).inode(ino);
                self.add(f.found(node.links).right(right));
            }
        }
    }
}
