//! `cargo xtask test`: the one command that checks Seawall, on a developer's machine and in CI.
//!
//! It guarantees that nothing is skipped quietly: a tool that is missing is installed or named, a
//! test that did not run counts as a failure, and the exit status is 0 only when every step passed.
#![forbid(unsafe_code)]

mod deny;
mod deps;
mod host;
mod json;
mod nostd;
mod runners;
mod spdx;
mod steps;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask test [--quick] [STEP..]   run all steps in order, or only those named
       cargo xtask deps                      dependencies: who may depend on what, licences, bans
       cargo xtask nostd [--relock]          build the engines without std; --relock renews the
                                             gate's own Cargo.lock from the workspace's
       cargo xtask fuzz TARGET SECONDS       mutate and repeat: decoder, session
       cargo xtask steps                     list the steps

--quick leaves out everything that needs root or the real servers: tools, build, doctest,
examples, docs, and of the tests all but the unit tests.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.split_first() {
        Some((&"test", rest)) => test(rest),
        Some((&"nostd", ["--relock"])) => outcome(nostd::relock()),
        Some((&("deps" | "nostd"), [])) => test(&args),
        Some((&"fuzz", [target, seconds])) => outcome(runners::fuzz(target, seconds)),
        Some((&"steps", [])) => {
            for step in steps::ALL {
                println!("{:9} {}", step.name, step.what);
            }
            ExitCode::SUCCESS
        }
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => usage("no such command"),
    }
}

fn test(args: &[&str]) -> ExitCode {
    let quick = args.contains(&"--quick");
    let names: Vec<&str> = args.iter().copied().filter(|a| *a != "--quick").collect();
    if let Some(unknown) = names.iter().find(|n| steps::ALL.iter().all(|s| s.name != **n)) {
        return usage(&format!("no step is called `{unknown}`; `cargo xtask steps` lists them"));
    }
    outcome(steps::run(&names, quick))
}

fn usage(why: &str) -> ExitCode {
    eprint!("xtask: {why}\n{USAGE}");
    ExitCode::from(2)
}

fn outcome(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}
