//! Steps that hand over to cargo.
//!
//! Output of the test runner passes through line by line, and its totals are added up on the way:
//! a run in which a test was skipped, or in which no test ran, is a failed run.

use crate::host::{capture, cargo, check, find, show};
use crate::steps::Ctx;
use crate::{json, nostd};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

pub(crate) fn fmt(_: &mut Ctx) -> Result<()> {
    check(&mut cargo(&["fmt", "--all", "--check"]))?;
    check(&mut cargo(&["fmt", "--manifest-path", nostd::MANIFEST, "--check"]))
}

pub(crate) fn clippy(_: &mut Ctx) -> Result<()> {
    check(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

/// The tests look for the servers beside their own executable: same profile, same target folder.
pub(crate) fn build(_: &mut Ctx) -> Result<()> {
    check(&mut cargo(&["build", "--workspace", "--bins", "--locked"]))
}

pub(crate) fn test(ctx: &mut Ctx) -> Result<()> {
    let (runner, words) = if find("cargo-nextest").is_some() {
        (Runner::Nextest, ["nextest", "run"].as_slice())
    } else {
        println!("    cargo-nextest is not installed: cargo test runs the same tests");
        (Runner::Harness, ["test"].as_slice())
    };
    let mut cmd = cargo(words);
    cmd.args(["--workspace", "--locked", "--no-fail-fast"]);
    cmd.args(["--lib", "--bins"]);
    if !ctx.quick {
        cmd.args(["--tests", "--examples"]);
    }
    count(ctx, &mut cmd, runner)?;
    if ctx.counts.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

pub(crate) fn doctest(ctx: &mut Ctx) -> Result<()> {
    let mut cmd = cargo(&["test", "--workspace", "--doc", "--locked", "--no-fail-fast"]);
    count(ctx, &mut cmd, Runner::Harness)
}

/// Every package under `examples/` with a binary runs without arguments and must exit 0.
pub(crate) fn examples(_: &mut Ctx) -> Result<()> {
    let text = capture(&mut cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"]))?;
    let metadata = json::parse(&text).context("cargo metadata")?;
    let mut ran = 0_u32;
    for package in metadata.list("packages") {
        let of_examples = package.text("manifest_path").contains("/examples/");
        let has_bin = package.list("targets").iter().any(|t| t.strings("kind").contains(&"bin"));
        if of_examples && has_bin {
            let package = package.text("name");
            check(&mut cargo(&["run", "--quiet", "--locked", "--package", package]))?;
            ran = ran.saturating_add(1);
        }
    }
    if ran == 0 {
        bail!("no example found");
    }
    Ok(())
}

pub(crate) fn docs(_: &mut Ctx) -> Result<()> {
    let mut cmd = cargo(&["doc", "--no-deps", "--workspace", "--locked"]);
    check(cmd.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Totals of test runners.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// Runs a test runner with visible output and adds up what it says about itself. Both streams go
/// through us; standard output keeps its own thread so that neither pipe can fill up.
fn count(ctx: &mut Ctx, cmd: &mut Command, runner: Runner) -> Result<()> {
    println!("    $ {}", show(cmd));
    cmd.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cmd.spawn().with_context(|| format!("cannot start `{}`", show(cmd)))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || out.map(|s| pass_on(s, runner, |l| println!("{l}"))));
    let mut seen = err.map(|s| pass_on(s, runner, |l| eprintln!("{l}"))).unwrap_or_default();
    if let Ok(Some(more)) = reader.join() {
        seen.add(more);
    }
    let status = child.wait()?;
    ctx.counts.add(seen);
    if !status.success() {
        bail!("`{}` ended with {status}, {} tests failed", show(cmd), seen.failed);
    }
    if seen.skipped > 0 && !ctx.quick {
        bail!("{} tests were skipped; every test has to run", seen.skipped);
    }
    Ok(())
}

fn pass_on(stream: impl Read, runner: Runner, print: impl Fn(&str)) -> Counts {
    let mut seen = Counts::default();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        print(text);
        if let Some(counts) = totals(runner, text) {
            seen.add(counts);
        }
        line.clear();
    }
    seen
}

/// Who ran the tests, which decides the form of the totals. Nextest shows the harness's lines of
/// failed tests as well, and those must not count again.
#[derive(Clone, Copy)]
enum Runner {
    /// `     Summary [   0.1s] 3 tests run: 2 passed, 1 failed, 0 skipped`
    Nextest,
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; ...`, once per executable
    Harness,
}

fn totals(runner: Runner, line: &str) -> Option<Counts> {
    let (_, rest) = match runner {
        Runner::Nextest => line.strip_prefix("     Summary [")?.split_once("run:")?,
        Runner::Harness => line.strip_prefix("test result:")?.split_once('.')?,
    };
    let mut counts = Counts::default();
    // `timed out`, `exec failed` and the like are failures too.
    for part in rest.split([',', ';']) {
        let part = part.split('(').next().unwrap_or_default().trim();
        let Some((number, word)) = part.split_once(' ') else { continue };
        let Ok(n) = number.parse::<u64>() else { continue };
        match word.split_whitespace().next().unwrap_or_default() {
            "passed" => counts.passed = n,
            "skipped" | "ignored" => counts.skipped = n,
            "measured" | "filtered" => {}
            _ => counts.failed = counts.failed.saturating_add(n),
        }
    }
    Some(counts)
}

/// The fuzz tests and where they are: target, package, test.
const FUZZ: &[(&str, &str, &str)] =
    &[("decoder", "seawall-ipc", "fuzz"), ("session", "seawall-store", "fuzz")];

/// Runs one fuzz target for so many seconds; `cargo test` runs it for a moment each time.
pub(crate) fn fuzz(target: &str, seconds: &str) -> Result<()> {
    let Some((_, package, test)) = FUZZ.iter().find(|(name, _, _)| *name == target) else {
        let names: Vec<&str> = FUZZ.iter().map(|(name, _, _)| *name).collect();
        bail!("no fuzz target is called `{target}`; there are {}", names.join(", "));
    };
    seconds.parse::<u64>().with_context(|| format!("`{seconds}` is no number of seconds"))?;
    let mut cmd = cargo(&["test", "--locked", "--package", package, "--test", test]);
    check(cmd.args(["--", "--nocapture"]).env("SEAWALL_FUZZ_SECONDS", seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_totals_of_both_runners() {
        let nextest = "     Summary [   0.105s] 7 tests run: 4 passed (1 slow), 1 failed, \
                       2 timed out, 3 skipped";
        assert_eq!(
            totals(Runner::Nextest, nextest),
            Some(Counts { passed: 4, failed: 3, skipped: 3 })
        );
        let harness = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; \
                       finished in 0.00s";
        assert_eq!(
            totals(Runner::Harness, harness),
            Some(Counts { passed: 5, failed: 0, skipped: 1 })
        );
        assert_eq!(totals(Runner::Nextest, harness), None);
        assert_eq!(totals(Runner::Harness, "running 5 tests"), None);
    }
}
