//! A server process: started, known to be ready, stopped, and never left behind.

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of a server's output that are kept for errors.
const LINES_MAX: usize = 20;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running server.
pub(super) struct Server {
    verb: &'static str,
    child: Child,
    lines: Lines,
}

impl Server {
    /// Starts this program with a hidden verb and waits for its line that says it serves.
    pub(super) fn start(verb: &'static str, args: &[&str]) -> Result<Self> {
        let exe = std::env::current_exe().context("finding this program")?;
        let (output, writer) = std::io::pipe()?;
        let mut cmd = Command::new(exe);
        cmd.arg(verb).args(args).stdin(Stdio::piped());
        cmd.stdout(writer.try_clone()?).stderr(writer);
        let child = cmd.spawn().with_context(|| format!("starting {verb}"))?;
        // The command holds the pipe's other ends: without this the reader would never see its end.
        drop(cmd);
        let lines = Lines::default();
        let (say, ready) = channel();
        let kept = lines.clone();
        std::thread::spawn(move || read_lines(output, &kept, &say));
        let mut server = Self { verb, child, lines };
        server.wait_ready(&ready)?;
        Ok(server)
    }

    /// The channel ends without a message when the server ended.
    fn wait_ready(&mut self, ready: &Receiver<()>) -> Result<()> {
        if ready.recv().is_ok() {
            return Ok(());
        }
        let status = self.child.wait()?;
        Err(self.failed(status))
    }

    fn failed(&self, status: ExitStatus) -> anyhow::Error {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("; ");
        anyhow!("{} ended with {status}: {lines}", self.verb)
    }

    /// Waits for its end, which something else brought about.
    pub(super) fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(self.failed(status)) }
    }

    /// Asks it to end, and waits.
    pub(super) fn stop(&mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { bail!("{}: no process", self.verb) };
        kill_process(pid, Signal::TERM).with_context(|| format!("stopping {}", self.verb))?;
        self.wait()
    }
}

impl Drop for Server {
    /// On the way out of an error: the row is void, so the server need not end in order.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Both fail only when it has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs this program with a hidden verb to its end.
pub(super) fn run_hidden(verb: &'static str, args: &[&str]) -> Result<()> {
    let exe = std::env::current_exe().context("finding this program")?;
    let mut cmd = Command::new(exe);
    // A server ends when its input does; so would this one, before it began.
    let (_open, held) = std::io::pipe().map(|(reader, writer)| (writer, reader))?;
    let out = cmd.arg(verb).args(args).stdin(held).output();
    let out = out.with_context(|| format!("starting {verb}"))?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("{verb} ended with {}: {}", out.status, text.trim().replace('\n', "; "));
    }
    Ok(())
}

/// Keeps the last lines, and says once that one of them was the line of a server that serves.
fn read_lines(output: PipeReader, lines: &Lines, say: &Sender<()>) {
    let mut told = false;
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        if !told && line.contains("serving ") {
            told = true;
            // Nobody listens any more: then the row has failed already.
            let _ = say.send(());
        }
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES_MAX {
            lines.remove(0);
        }
        lines.push(line);
    }
}
