//! The `seawall` command; everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    seawall_bench::cli::run(std::env::args_os())
}
