//! The slots of long names as the reference checker follows them: which of them belong to nothing.
//! What a long name means is [`crate::lfn::Scanner`]'s to say.

use super::finding::Kind;
use crate::entry::SLOT;
use crate::lfn::checksum;

/// The number of a part.
const NUMBER: u8 = 0x1F;
/// The first part on disk.
const START: u8 = 0x40;

/// Where in a long name the slots are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Long {
    /// Parts still to come, and the checksum; `None`: in no long name.
    state: Option<(u8, u8)>,
}

impl Long {
    /// Takes a long slot.
    pub(super) fn part(&mut self, b: &[u8; SLOT], tell: &mut dyn FnMut(Kind)) {
        let (id, sum) = (b[0], b[13]);
        let number = id & NUMBER;
        if matches!(self.state, Some((0, _))) {
            self.orphan(tell);
        }
        let (missing, first_sum) = match self.state {
            before if id & START != 0 && number != 0 => {
                if before.is_some() {
                    tell(Kind::LongStart);
                }
                (number, sum)
            }
            None => {
                tell(if number == 0 { Kind::LongSequence } else { Kind::LongFragment });
                return;
            }
            Some((missing, _)) if missing != number => {
                tell(Kind::LongSequence);
                self.state = None;
                return;
            }
            Some(state) => state,
        };
        if sum != first_sum {
            tell(Kind::LongChecksum);
        }
        self.state = Some((missing - 1, first_sum));
        if b[12] != 0 || b[26] != 0 || b[27] != 0 {
            tell(Kind::LongField);
        }
    }

    /// Takes a free slot, or the end of the directory.
    pub(super) fn orphan(&mut self, tell: &mut dyn FnMut(Kind)) {
        if self.state.take().is_some() {
            tell(Kind::LongOrphan);
        }
    }

    /// Takes the slot of a short name. True when a whole long name, be it another's, is before it.
    pub(super) fn short(&mut self, name: &[u8; 11], tell: &mut dyn FnMut(Kind)) -> bool {
        let state = self.state.take();
        match state {
            Some((0, sum)) if sum != checksum(name) => tell(Kind::LongChecksum),
            Some((1.., _)) => tell(Kind::LongUnfinished),
            _ => {}
        }
        matches!(state, Some((0, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lfn::long_slots;
    use alloc::vec::Vec;

    #[derive(Clone, Copy)]
    enum Do {
        Part(usize),
        Sum(usize),
        Field(usize),
        Free,
        Short(&'static [u8; 11]),
    }

    /// What is told of slots of a name of three parts.
    fn told(steps: &[Do]) -> Vec<Kind> {
        let units: Vec<u16> = (0..30).map(|i| b'a' as u16 + i).collect();
        let slots = long_slots(&units, b"SHORT   TXT");
        let (mut long, mut kinds) = (Long::default(), Vec::new());
        for step in steps {
            let tell = &mut |k| kinds.push(k);
            match *step {
                Do::Part(n) => long.part(&slots[n], tell),
                Do::Sum(n) => {
                    let mut slot = slots[n];
                    slot[13] ^= 1;
                    long.part(&slot, tell);
                }
                Do::Field(n) => {
                    let mut slot = slots[n];
                    slot[26] = 1;
                    long.part(&slot, tell);
                }
                Do::Free => long.orphan(tell),
                Do::Short(name) => drop(long.short(name, tell)),
            }
        }
        kinds
    }

    #[test]
    fn each_kind_of_damage_is_told() {
        use Do::{Field, Free, Part, Short, Sum};
        let right = Short(b"SHORT   TXT");
        let cases: [(&[Do], &[Kind]); 11] = [
            (&[Part(0), Part(1), Part(2), right], &[]),
            (&[right, Free], &[]),
            (&[Part(0), Part(1), Part(2), Free], &[Kind::LongOrphan]),
            (&[Part(0), Part(1), Part(2), Part(0)], &[Kind::LongOrphan]),
            (&[Part(0), Part(1), right], &[Kind::LongUnfinished]),
            (&[Part(0), Part(0), Part(1), Part(2), right], &[Kind::LongStart]),
            (&[Part(1), Part(2), right], &[Kind::LongFragment, Kind::LongFragment]),
            (&[Part(0), Part(2), right], &[Kind::LongSequence]),
            (&[Part(0), Part(1), Part(2), Short(b"OTHER      ")], &[Kind::LongChecksum]),
            (&[Part(0), Sum(1), Part(2), right], &[Kind::LongChecksum]),
            (&[Part(0), Field(1), Part(2), right], &[Kind::LongField]),
        ];
        for (steps, want) in cases {
            assert_eq!(told(steps), want);
        }
    }
}
