//! Servers as real processes.
//!
//! Start-up is waited for by events: the folder of the socket is watched for its creation, the
//! process is watched for its end, whichever comes first.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long a server may take to accept. Generous: it is there to end a run that hangs.
const START: Duration = Duration::from_secs(60);

/// A child process. Killed on drop.
#[derive(Debug)]
pub struct Proc {
    child: Child,
    pidfd: OwnedFd,
    stdout: Stream,
    stderr: Stream,
    status: Option<ExitStatus>,
}

impl Proc {
    /// Starts it, without input, and collects what it writes.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn(cmd: &mut Command) -> Self {
        cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = cmd.spawn().unwrap_or_else(|e| panic!("cannot start {cmd:?}: {e}"));
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let stdout = Stream::collect(child.stdout.take().unwrap());
        let stderr = Stream::collect(child.stderr.take().unwrap());
        Self { child, pidfd, stdout, stderr, status: None }
    }

    /// Starts a server and returns when `socket` accepts connections. One connection is made and
    /// closed to find out.
    ///
    /// # Panics
    /// With its output, when it ends or does not accept in time.
    #[track_caller]
    pub fn serve(cmd: &mut Command, socket: &Path) -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&watch, socket.parent().unwrap(), events).unwrap();
        let mut proc = Self::spawn(cmd);
        let deadline = Instant::now() + START;
        loop {
            // Between bind and listen the file is there and refuses; no event ends that state.
            let limit = match UnixStream::connect(socket) {
                Ok(_) => return proc,
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => Duration::from_millis(5),
                Err(_) => deadline.saturating_duration_since(Instant::now()),
            };
            if proc.ended(limit, Some(&watch)) {
                let status = proc.reap();
                panic!("{cmd:?} ended with {status} before it accepted\n{}", proc.output());
            }
            if Instant::now() >= deadline {
                panic!("{cmd:?} does not accept on {}\n{}", socket.display(), proc.output());
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. A process that has ended already is fine.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// SIGTERM: the orderly way to stop a server.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGKILL, and waits until it is gone: a server that dies in the middle of something.
    pub fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.reap()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// With its output, when it is still running after `limit`.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        assert!(self.ended(limit, None), "still running after {limit:?}\n{}", self.output());
        self.reap()
    }

    /// True while it runs.
    pub fn running(&self) -> bool {
        !self.ended(Duration::ZERO, None)
    }

    /// What it wrote to standard output so far; all of it once it ended.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it wrote to standard error so far; all of it once it ended.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    fn output(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout(), self.stderr())
    }

    /// Waits until the process ended (true), the watch has news or the time is over (false).
    fn ended(&self, limit: Duration, watch: Option<&OwnedFd>) -> bool {
        if self.status.is_some() {
            return true;
        }
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        fds.extend(watch.map(|w| PollFd::new(w, PollFlags::IN)));
        let limit = Timespec::try_from(limit).unwrap();
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("poll: {e}"),
        }
        let ended = !fds[0].revents().is_empty();
        if let Some(watch) = watch {
            let _ = rustix::io::read(watch.as_fd(), &mut [0_u8; 4096]);
        }
        ended
    }

    fn reap(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        self.status = Some(status);
        self.stdout.finish();
        self.stderr.finish();
        status
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// One output stream, read by a thread so that the process never blocks on a full pipe.
#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    end: mpsc::Receiver<()>,
}

impl Stream {
    fn collect(mut from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (tell, end) = mpsc::channel();
        let into = Arc::clone(&text);
        std::thread::spawn(move || {
            let mut piece = [0_u8; 4096];
            while let Ok(n @ 1..) = from.read(&mut piece) {
                into.lock().unwrap().extend_from_slice(&piece[..n]);
            }
            drop(tell);
        });
        Self { text, end }
    }

    /// Waits for the end of the stream. Bounded, since a grandchild may hold it open.
    fn finish(&self) {
        let _ = self.end.recv_timeout(Duration::from_secs(5));
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }
}
