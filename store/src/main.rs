//! `store`: serves a store and talks to one.
use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_store::cli::run(std::env::args_os())
}
