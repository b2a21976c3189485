//! `mount STORE DIR`.
//!
//! `--daemon` starts the program again with a hidden flag, before there is any thread, and waits
//! for a byte on a pipe that the new process has as its standard input. What goes wrong before that
//! byte the new process says itself, on the terminal of the old one.

use super::serve::{Job, absolute};
use super::{Mount, Volume};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, ExitCode};

pub(super) fn run<V: Volume>(args: &Mount) -> Result<ExitCode> {
    if args.daemon {
        return start();
    }
    let dir = absolute(&args.dir)?;
    let socket = args.socket.as_deref().map(absolute).transpose()?;
    let job = Job {
        store: &args.store,
        socket: socket.as_deref(),
        mount: Some(&dir),
        policy: &args.policy,
        options: &args.options,
        max_sessions: args.max_sessions,
    };
    job.run::<V>(|| if args.daemon_child { leave() } else { Ok(()) })?;
    Ok(ExitCode::SUCCESS)
}

fn start() -> Result<ExitCode> {
    let program = std::env::current_exe().context("this program's own path")?;
    let (mut ready, tell) = io::pipe().context("pipe")?;
    let mut command = Command::new(program);
    let arguments = std::env::args_os().skip(1).filter(|a| a != "--daemon");
    command.args(arguments).arg("--daemon-child").stdin(tell);
    let mut child = command.spawn().context("start the server")?;
    // The other end is the child's alone, so its death ends the wait.
    drop(command);
    let mut byte = [0u8; 1];
    if ready.read(&mut byte).context("wait for the server")? == 1 {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().context("wait for the server")?;
    match status.code() {
        Some(code @ 1..) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        _ => bail!("the server ended before the mount answered: {status}"),
    }
}

/// Leaves terminal, folder and streams of whoever started it, and says that it is ready.
fn leave() -> io::Result<()> {
    rustix::process::setsid().or_else(|e| match e {
        // A group leader already: started by hand with the hidden flag.
        rustix::io::Errno::PERM => rustix::process::getsid(None),
        e => Err(e),
    })?;
    std::env::set_current_dir("/")?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    rustix::io::write(rustix::stdio::stdin(), b"R")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(())
}
