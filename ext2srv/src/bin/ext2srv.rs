//! The `ext2srv` command; everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    seawall_ext2::command::run(std::env::args_os())
}
