//! Starting, accepting, stopping.

use super::engine::{Device, Engine};
use super::flusher::Flusher;
use super::worker::{End, serve as serve_session};
use crate::protocol::limit;
use crate::session::{Limits, Server, Session};
use rustix::net::sockopt::socket_peercred;
use seawall_diskfs::{Cred, Format, Fs, FsError};
use seawall_store::StoreError;
use seawall_store::server::Listening;
use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::vec::Vec;
use std::{format, string::String};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// How long sessions may take to send their last replies when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How a filesystem is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Limits of a session.
    pub limits: Limits,
    /// Sessions at a time; one more is closed at once.
    pub sessions: u32,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), sessions: limit::SESSIONS }
    }
}

/// Why serving failed or ended badly.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] StoreError),
    /// Threads, signals, the runtime.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// The volume contradicts itself where every operation would meet it.
    #[error("mount: {0}")]
    Mount(FsError),
    /// The last flush.
    #[error("unmount: {0}; the volume is left marked as in use, check it before the next mount")]
    Unmount(FsError),
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |cause| ServeError::System { what, cause }
}

/// What the accepting side and the sessions share.
struct Hub<F> {
    engine: Arc<Engine<F>>,
    sockets: Mutex<HashMap<u64, Arc<UnixStream>>>,
    /// Signalled when a session ended.
    ended: Condvar,
    /// The result of a shutdown that a session ran.
    stop: mpsc::UnboundedSender<Result<(), FsError>>,
}

/// Serves a filesystem until SIGINT, SIGTERM or a client's shutdown; then unmounts it. `ready` is
/// called once the socket answers.
///
/// # Errors
/// [`ServeError`]; `Unmount` when the last flush failed.
pub fn serve<F: Format>(
    fs: Fs<F>,
    device: Device,
    socket: &Path,
    options: &ServeOptions,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    let mut listening = Listening::bind(socket)?;
    let engine = Arc::new(Engine::new(fs, device));
    engine.check().map_err(ServeError::Mount)?;
    engine.recover();
    let flusher = Flusher::start(&engine).map_err(system("start the flusher"))?;
    let (stop, stopped) = mpsc::unbounded_channel();
    let (sockets, ended) = (Mutex::default(), Condvar::new());
    let hub = Arc::new(Hub { engine: Arc::clone(&engine), sockets, ended, stop });
    let end = runtime.block_on(async {
        let listener = listening.listener.take().ok_or(io::ErrorKind::NotConnected)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let server = Server {
            boot_id: *uuid::Uuid::new_v4().as_bytes(),
            owner: rustix::process::geteuid().as_raw(),
            limits: options.limits,
        };
        accept_until_stopped(&hub, listener, &server, options, stopped, ready).await
    });
    drop(listening);
    let result = match end {
        Ok(Some(result)) => result,
        Ok(None) => engine.unmount(),
        Err(e) => {
            engine.unmount().map_err(ServeError::Unmount)?;
            return Err(system("serve")(e));
        }
    };
    drop(flusher);
    hub.end_sessions();
    result.map_err(ServeError::Unmount)
}

/// `Some` is the result of a shutdown that was asked for over the socket; `None` a signal.
async fn accept_until_stopped<F: Format>(
    hub: &Arc<Hub<F>>,
    listener: tokio::net::UnixListener,
    server: &Server,
    options: &ServeOptions,
    mut stopped: mpsc::UnboundedReceiver<Result<(), FsError>>,
    ready: impl FnOnce(),
) -> io::Result<Option<Result<(), FsError>>> {
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    ready();
    let mut next = 0u64;
    loop {
        let accepted = tokio::select! {
            result = stopped.recv() => return Ok(result),
            _ = int.recv() => return Ok(None),
            _ = term.recv() => return Ok(None),
            accepted = listener.accept() => accepted,
        };
        next = next.saturating_add(1);
        let begun = accepted
            .and_then(|(socket, _)| socket.into_std())
            .and_then(|socket| begin(hub, next, socket, server, options));
        if let Err(error) = begun {
            tracing::warn!(%error, "a connection could not be served");
            // Out of descriptors or threads: it would fail again at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn begin<F: Format>(
    hub: &Arc<Hub<F>>,
    id: u64,
    socket: UnixStream,
    server: &Server,
    options: &ServeOptions,
) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    let peer = socket_peercred(&socket)?;
    let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
    // Supplementary groups are not asked for: read from the process they could be another's by
    // then. A client has fewer rights than it might, never more.
    let cred = Cred { uid, gid, groups: Vec::new() };
    let socket = Arc::new(socket);
    {
        let mut sockets = hub.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if sockets.len() >= options.sessions as usize {
            tracing::warn!(uid, "connection refused: {} sessions already", sockets.len());
            return Ok(());
        }
        sockets.insert(id, Arc::clone(&socket));
    }
    tracing::info!(session = id, uid, gid, pid = peer.pid.as_raw_nonzero().get(), "session");
    let mut session = Session::new(id, server.clone(), cred);
    let in_flight = options.limits.in_flight;
    let own = Arc::clone(hub);
    let thread = std::thread::Builder::new().name(format!("session {id}"));
    let spawned = thread.spawn(move || {
        let end = serve_session(&own.engine, &socket, &mut session, in_flight);
        own.ended(id, &session, end);
    });
    if let Err(e) = spawned {
        hub.forget(id);
        return Err(e);
    }
    Ok(())
}

impl<F: Format> Hub<F> {
    fn ended(&self, id: u64, session: &Session, end: End) {
        let client: String = session.client().into();
        match end {
            End::Eof => tracing::info!(session = id, client, "session closed by the client"),
            End::Receive(error) => tracing::warn!(session = id, client, %error, "session closed"),
            End::Send(error) => tracing::info!(session = id, client, %error, "client is gone"),
            End::Shutdown(result) => {
                // The other end is the accepting side; without it the server stops anyway.
                let _stopping_already = self.stop.send(result);
            }
        }
        self.forget(id);
    }

    fn forget(&self, id: u64) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = sockets.remove(&id) {
            let _already_closed = socket.shutdown(Shutdown::Both);
        }
        self.ended.notify_all();
    }

    /// Lets sessions send what they owe, then ends them.
    fn end_sessions(&self) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for how in [Shutdown::Read, Shutdown::Both] {
            for socket in sockets.values() {
                let _already_closed = socket.shutdown(how);
            }
            sockets = self
                .ended
                .wait_timeout_while(sockets, STOP_GRACE, |s| !s.is_empty())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
