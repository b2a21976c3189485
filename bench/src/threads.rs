//! The tables of the three threads, reproduced in virtual time and compared value by value.
//!
//! The FAT tables run the engine of `fatsrv` on the simulator's host, the Hurd's loop the engine of
//! `ext2srv`; f2fs has a model allocator, and reports say so. A value outside its tolerance that is
//! not waived by name, or a relation that does not hold, is a failure.

mod cells;
mod compare;
mod copy;
mod csv;
mod f2fs;
mod html;
mod hurd;
mod ledger;
mod pull;
mod race;
mod relations;
mod session;
mod studies;
mod svg;
mod tables;
mod words;

use crate::provenance::Provenance;
use anyhow::Result;
use cells::{Key, Values};
use compare::Compared;
use ledger::Place;
use relations::Relation;
use studies::Study;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of everything drawn.
    pub seed: u64,
    /// Runs of every cell, each with its own seed.
    pub runs: u32,
    /// One drive at one threshold, shorter f2fs runs, no studies: for tests. Most values are then
    /// missing, and the report does not pass.
    pub short: bool,
}

impl Options {
    /// Runs that `report` will tell of.
    pub fn units(&self) -> u64 {
        let studies = if self.short { 0 } else { studies::UNITS };
        cells::all(self.short).len() as u64 * u64::from(self.runs.max(1)) + studies
    }
}

/// What came of it.
pub struct Report {
    values: Values,
    compared: Vec<Compared>,
    relations: Vec<Relation>,
    studies: Vec<Study>,
    seeds: Vec<u64>,
}

/// Runs everything. `tick` is told of each run that ended.
///
/// # Errors
/// A cell that could not run, named; a row of the source that nobody thought of.
pub fn report(options: &Options, tick: &(dyn Fn() + Sync)) -> Result<Report> {
    let seeds: Vec<u64> =
        (0..u64::from(options.runs.max(1))).map(|n| options.seed.wrapping_add(n)).collect();
    let values = cells::values(&cells::all(options.short), &seeds, tick)?;
    let compared = compare::compare(&values)?;
    let relations = relations::judge(&values);
    let studies = if options.short { Vec::new() } else { studies::all(options.seed, tick)? };
    Ok(Report { values, compared, relations, studies, seeds })
}

impl Report {
    /// True when every value is inside its tolerance or waived, every relation holds, and another
    /// seed moves nothing by more than 2 %.
    pub fn passes(&self) -> bool {
        let inside = self.compared.iter().all(|c| !c.fails());
        inside && self.relations.iter().all(|r| r.holds) && self.seed_moves().0 <= 0.02
    }

    /// The most that a value moves between seeds, relative to its mean, and which it is.
    pub fn seed_moves(&self) -> (f64, String) {
        self.seed_effect().map_or((0.0, String::new()), |(most, key)| (most, key.text()))
    }

    fn seed_effect(&self) -> Option<(f64, &Key)> {
        let waived = self.compared.iter().filter(|c| matches!(c.place, Place::Waived(_)));
        let waived: Vec<&Key> = waived.map(|c| &c.key).collect();
        self.values.seed_effect(&waived)
    }

    /// Values outside their tolerance that nobody waived, and relations that do not hold.
    pub fn failures(&self) -> Vec<String> {
        let values = self.compared.iter().filter(|c| c.fails()).map(Compared::name);
        let relations = self.relations.iter().filter(|r| !r.holds);
        values.chain(relations.map(|r| format!("relation {}: {}", r.number, r.found))).collect()
    }

    /// All tables for a terminal.
    ///
    /// # Errors
    /// A row of the source without a place.
    pub fn tables(&self) -> Result<String> {
        tables::text(self)
    }

    /// All values, relations and studies as CSV.
    pub fn csv(&self) -> String {
        csv::csv(self)
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// A row of the source without a place.
    pub fn json(&self, provenance: &Provenance) -> Result<serde_json::Value> {
        csv::json(self, provenance)
    }

    /// One page with plots that stands by itself.
    ///
    /// # Errors
    /// A row of the source without a place.
    pub fn html(&self, provenance: &Provenance) -> Result<String> {
        html::page(self, provenance)
    }
}
