//! What the checkers of all formats share: how bad a finding is, how many are kept, how far a check
//! is. No format is known here.
//!
//! A report keeps a bounded number of findings and counts the rest: a hostile image can have one
//! for each of its bits.

mod bits;
mod reader;

pub use bits::{Bits, Budget, pieces};
pub use reader::Reader;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use serde::{Serialize, Serializer};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the volume is consistent. The format's reference checker calls it clean.
    Note,
    /// Wrong counts, lost space, redundant fields: repaired without a decision, no content is lost.
    Repairable,
    /// Content is lost or in danger: shared blocks, pointers to nowhere, names of nothing, loops.
    Damage,
}

impl Severity {
    /// From mildest to worst.
    pub const ALL: [Self; 3] = [Self::Note, Self::Repairable, Self::Damage];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Repairable => "repairable",
            Self::Damage => "damage",
        }
    }
}

/// Where a finding is. What does not apply is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// Inode number.
    pub inode: Option<u64>,
    /// Filesystem block, or what the format has in its place (a cluster).
    pub block: Option<u64>,
    /// Block group, or what the format has in its place.
    pub group: Option<u32>,
}

/// Writes what was found and what should be there, for the end of a finding's line.
///
/// # Errors
/// The formatter's.
pub fn write_numbers(
    f: &mut fmt::Formatter<'_>,
    found: Option<u64>,
    right: Option<u64>,
) -> fmt::Result {
    match (found, right) {
        (Some(found), Some(right)) => write!(f, " (found {found}, should be {right})"),
        (Some(found), None) => write!(f, " ({found})"),
        (None, Some(right)) => write!(f, " (should be {right})"),
        (None, None) => Ok(()),
    }
}

/// A finding of a format. Its text names what is wrong, and where.
pub trait Finding: Display {
    /// How bad it is.
    fn severity(&self) -> Severity;
    /// A stable name of this kind of finding, in `snake_case`.
    fn kind(&self) -> &'static str;
    /// Where it is.
    fn place(&self) -> Place;
}

/// The kinds of finding of a format, one a line: `Name = Severity, "stable_name", "what is wrong";`
#[macro_export]
macro_rules! check_kinds {
    ($($name:ident = $severity:ident, $slug:literal, $text:literal;)*) => {
        /// A kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each kind's text is its documentation")]
        pub enum Kind { $($name,)* }

        impl Kind {
            /// Every kind, in the order in which a check meets them.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// How bad it is.
            pub fn severity(self) -> $crate::check::Severity {
                match self { $(Kind::$name => $crate::check::Severity::$severity,)* }
            }

            /// Its stable name.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$name => $slug,)* }
            }

            /// What is wrong.
            pub fn text(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }
        }
    };
}

/// A finding whose format is forgotten: for whoever only shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// How bad it is.
    pub severity: Severity,
    /// The stable name of its kind.
    pub kind: &'static str,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong, and where.
    pub text: String,
}

/// How many findings a report keeps unless told.
pub const KEEP: usize = 1000;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<F> {
    findings: Vec<F>,
    keep: usize,
    counts: [u64; 3],
}

impl<F> Report<F> {
    /// An empty report that keeps at most `keep` findings of each severity.
    pub fn new(keep: usize) -> Self {
        Self { findings: Vec::new(), keep, counts: [0; 3] }
    }

    /// The findings that were kept, in the order in which they were made.
    pub fn findings(&self) -> &[F] {
        &self.findings
    }

    /// How many findings of this severity there were, kept or not.
    pub fn count(&self, severity: Severity) -> u64 {
        match (self.counts, severity) {
            ([n, ..], Severity::Note) => n,
            ([_, n, _], Severity::Repairable) => n,
            ([.., n], Severity::Damage) => n,
        }
    }

    /// How many findings were counted and not kept.
    pub fn left_out(&self) -> u64 {
        self.counts.iter().sum::<u64>().saturating_sub(self.findings.len() as u64)
    }

    /// True when there is nothing above [`Severity::Note`].
    pub fn is_clean(&self) -> bool {
        let [_, repairable, damage] = self.counts;
        repairable == 0 && damage == 0
    }
}

impl<F: Finding> Report<F> {
    /// Adds a finding, or counts it when there are enough of its severity.
    pub fn add(&mut self, finding: F) {
        let [notes, repairable, damage] = &mut self.counts;
        let count = match finding.severity() {
            Severity::Note => notes,
            Severity::Repairable => repairable,
            Severity::Damage => damage,
        };
        *count += 1;
        if *count <= self.keep as u64 {
            self.findings.push(finding);
        }
    }

    /// Forgets the format.
    pub fn into_items(self) -> Report<Item> {
        let item = |f: &F| Item {
            severity: f.severity(),
            kind: f.kind(),
            place: f.place(),
            text: f.to_string(),
        };
        Report {
            findings: self.findings.iter().map(item).collect(),
            keep: self.keep,
            counts: self.counts,
        }
    }
}

impl Serialize for Report<Item> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut s = out.serialize_struct("Report", 6)?;
        s.serialize_field("clean", &self.is_clean())?;
        for severity in Severity::ALL {
            s.serialize_field(severity.name(), &self.count(severity))?;
        }
        s.serialize_field("left_out", &self.left_out())?;
        s.serialize_field("findings", &self.findings)?;
        s.end()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is looked at.
    pub phase: &'static str,
    /// Units done, of `total`.
    pub done: u64,
    /// Units of this phase.
    pub total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bad(Severity);

    impl Display for Bad {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            write!(f, "bad")
        }
    }

    impl Finding for Bad {
        fn severity(&self) -> Severity {
            self.0
        }
        fn kind(&self) -> &'static str {
            "bad"
        }
        fn place(&self) -> Place {
            Place { inode: Some(3), ..Place::default() }
        }
    }

    #[test]
    fn findings_are_bounded_and_counted() {
        let mut r = Report::new(2);
        assert!(r.is_clean());
        r.add(Bad(Severity::Note));
        assert!(r.is_clean(), "a note is no fault");
        for _ in 0..5 {
            r.add(Bad(Severity::Damage));
        }
        assert!(!r.is_clean());
        assert_eq!((r.count(Severity::Damage), r.count(Severity::Note)), (5, 1));
        assert_eq!((r.findings().len(), r.left_out()), (3, 3));
        let items = r.into_items();
        assert_eq!(items.left_out(), 3);
        assert_eq!(items.findings()[2].place.inode, Some(3));
    }
}
