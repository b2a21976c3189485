//! Running a program to its end.

use std::fmt;
use std::process::{Command, ExitStatus, Stdio};

/// How a program ended and what it wrote.
#[derive(Debug)]
pub struct Run {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error, invalid UTF-8 replaced.
    pub stderr: String,
    command: String,
}

impl Run {
    /// Exit code; -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Itself, if the exit code is 0.
    ///
    /// # Panics
    /// With command, status and output, if it is not.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Itself, if the exit code is `code`.
    ///
    /// # Panics
    /// As [`Run::ok`].
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert!(self.code() == code, "exit code {code} expected: {self}");
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr, command } = self;
        write!(f, "{command}: {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// A command for a system tool; also finds those in the `sbin` folders.
pub fn tool(name: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    let mut cmd = Command::new(name);
    cmd.env("PATH", path).env("LC_ALL", "C");
    cmd
}

/// Runs it without input and collects what it wrote. A status other than 0 is for the caller to
/// judge: see [`Run::ok`].
///
/// # Panics
/// When it cannot be started.
#[track_caller]
pub fn run(cmd: &mut Command) -> Run {
    let out = cmd.stdin(Stdio::null()).output();
    let out = out.unwrap_or_else(|e| panic!("cannot start {cmd:?}: {e}"));
    Run {
        status: out.status,
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        command: format!("{:?} {:?}", cmd.get_program(), cmd.get_args().collect::<Vec<_>>()),
    }
}
