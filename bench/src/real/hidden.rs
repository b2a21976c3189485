//! The hidden verbs: `seawall __store ..` is `store ..`; `__ext2srv` and `__fatsrv` likewise.

use rustix::process::{Signal, getpid, kill_process};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::process::ExitCode;

/// Runs a hidden verb; `None` when the arguments name none.
pub(crate) fn hidden(args: &[OsString]) -> Option<ExitCode> {
    let program = match args.get(1).map(OsString::as_os_str) {
        Some(verb) if verb == OsStr::new("__store") => "store",
        Some(verb) if verb == OsStr::new("__ext2srv") => "ext2srv",
        Some(verb) if verb == OsStr::new("__fatsrv") => "fatsrv",
        _ => return None,
    };
    let args = std::iter::once(OsString::from(program)).chain(args.iter().skip(2).cloned());
    std::thread::spawn(end_with_parent);
    Some(match program {
        "store" => seawall_store::cli::run(args),
        "fatsrv" => seawall_fat::command::run(args),
        _ => seawall_ext2::command::run(args),
    })
}

/// Ends this process as a signal would, in order, when whoever started it is gone.
fn end_with_parent() {
    let mut byte = [0];
    while matches!(std::io::stdin().read(&mut byte), Ok(n) if n > 0) {}
    if let Err(e) = kill_process(getpid(), Signal::TERM) {
        seawall_store::cli::say(&format!(
            "seawall: the parent is gone and this server cannot stop: {e}"
        ));
    }
}
