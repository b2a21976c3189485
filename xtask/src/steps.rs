//! The steps of `cargo xtask test`, their order, and the summary at the end.
//!
//! A failed step does not stop the run, so that one run tells everything; two do, because what
//! follows would only repeat their message: `tools` and `build`.

use crate::runners::Counts;
use crate::{deps, nostd, runners, tools};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// What a step may need to know, and what it adds up.
pub(crate) struct Ctx {
    /// Only what needs neither root nor the built servers.
    pub(crate) quick: bool,
    /// Tests seen so far.
    pub(crate) counts: Counts,
}

/// One step.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Part of a quick run.
    quick: bool,
    /// Nothing after it makes sense when it failed.
    vital: bool,
    run: fn(&mut Ctx) -> Result<()>,
}

const fn step(
    name: &'static str,
    what: &'static str,
    quick: bool,
    run: fn(&mut Ctx) -> Result<()>,
) -> Step {
    Step { name, what, quick, vital: false, run }
}

const fn vital(step: Step) -> Step {
    Step { vital: true, ..step }
}

/// All steps, in the order in which they run.
pub(crate) const ALL: &[Step] = &[
    vital(step("tools", "what the tests call is there, or gets installed", false, tools::run)),
    step("fmt", "cargo fmt --check", true, runners::fmt),
    step("clippy", "cargo clippy, warnings are errors", true, runners::clippy),
    step("deps", "arrows between crates, licences, bans, sources", true, deps::run),
    step("nostd", "the engines and server cores link without std", true, nostd::run),
    vital(step("build", "the servers that the tests start", false, runners::build)),
    step("test", "unit and integration tests", true, runners::test),
    step("doctest", "examples in the documentation", false, runners::doctest),
    step("examples", "every example runs to its end", false, runners::examples),
    step("docs", "cargo doc, warnings are errors", false, runners::docs),
];

/// Runs the named steps, or all of them when `names` is empty.
pub(crate) fn run(names: &[&str], quick: bool) -> Result<()> {
    let chosen: Vec<&Step> = ALL
        .iter()
        .filter(|s| if names.is_empty() { !quick || s.quick } else { names.contains(&s.name) })
        .collect();
    let mut ctx = Ctx { quick, counts: Counts::default() };
    let started = Instant::now();
    let mut done: Vec<(&Step, Duration, Result<()>)> = Vec::new();
    for step in &chosen {
        println!("\n==> {}: {}", step.name, step.what);
        let begun = Instant::now();
        let result = (step.run)(&mut ctx);
        let took = begun.elapsed();
        match &result {
            Ok(()) => println!("==> {} passed in {:.1} s", step.name, took.as_secs_f64()),
            Err(e) => println!("==> {} FAILED in {:.1} s: {e:#}", step.name, took.as_secs_f64()),
        }
        let stop = result.is_err() && step.vital;
        done.push((step, took, result));
        if stop {
            break;
        }
    }
    summary(&chosen, &done, started.elapsed(), &ctx)
}

fn summary(
    chosen: &[&Step],
    done: &[(&Step, Duration, Result<()>)],
    total: Duration,
    ctx: &Ctx,
) -> Result<()> {
    println!("\n==> summary");
    let mut failed = Vec::new();
    for (step, took, result) in done {
        let verdict = if result.is_ok() { "passed" } else { "FAILED" };
        println!("    {:9} {verdict} {:7.1} s", step.name, took.as_secs_f64());
        if let Err(e) = result {
            failed.push(step.name);
            println!("              {e:#}");
        }
    }
    for step in chosen.get(done.len()..).unwrap_or_default() {
        println!("    {:9} NOT RUN", step.name);
    }
    let others = ALL.iter().filter(|s| !chosen.iter().any(|c| c.name == s.name));
    let others: Vec<&str> = others.map(|s| s.name).collect();
    if !others.is_empty() {
        println!("    not asked for: {}", others.join(", "));
    }
    println!(
        "    steps: {} passed, {} failed in {:.1} s",
        done.len().saturating_sub(failed.len()),
        failed.len(),
        total.as_secs_f64()
    );
    let c = ctx.counts;
    if chosen.iter().any(|s| s.name.ends_with("test")) {
        println!("tests: {} passed, {} failed, {} skipped", c.passed, c.failed, c.skipped);
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
