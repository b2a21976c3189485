//! Running other programs, always from the root of the repository.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A command in the root, without input, that also finds what lives in the `sbin` folders (a plain
/// user's `PATH` on Debian lacks them).
pub(crate) fn command(program: &str) -> Command {
    let mut cmd = Command::new(program);
    cmd.current_dir(root()).stdin(Stdio::null()).env("PATH", search_path());
    cmd
}

/// The cargo that runs us.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cmd = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cmd.args(args);
    cmd
}

/// Path of a program, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|dir| dir.join(program)).find(|p| p.is_file())
}

fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

/// The command as one would type it.
pub(crate) fn show(cmd: &Command) -> String {
    let program = Path::new(cmd.get_program()).file_name().unwrap_or_default();
    let mut line = program.to_string_lossy().into_owned();
    for arg in cmd.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// Runs it with its output visible; an exit status other than 0 is an error.
pub(crate) fn check(cmd: &mut Command) -> Result<()> {
    println!("    $ {}", show(cmd));
    let status = cmd.status().with_context(|| format!("cannot start `{}`", show(cmd)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", show(cmd));
    }
    Ok(())
}

/// Runs it and returns its standard output; an exit status other than 0 is an error that carries
/// what it wrote to standard error.
pub(crate) fn capture(cmd: &mut Command) -> Result<String> {
    let out = cmd.output().with_context(|| format!("cannot start `{}`", show(cmd)))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("`{}` ended with {}: {}", show(cmd), out.status, said.trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("output of `{}`", show(cmd)))
}
