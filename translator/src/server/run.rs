//! Starting, accepting, stopping.

use super::engine::{Device, Engine};
use super::flusher::Flusher;
use super::queue::Writers;
use super::worker::{End, serve as serve_session};
use crate::fuse;
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
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::vec::Vec;
use std::{format, string::String};
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
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
    /// The mount.
    #[error(transparent)]
    Fuse(#[from] fuse::MountError),
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

/// Where a filesystem is served. At least one of both.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Socket to listen on. A mount without one gets one by its device number.
    pub socket: Option<PathBuf>,
    /// Mount.
    pub mount: Option<fuse::Spec>,
}

/// Serves a filesystem until SIGINT, SIGTERM, a client's shutdown or the end of its mount; then
/// unmounts it. `ready` is called once socket and mount answer, with the socket's path.
///
/// # Errors
/// [`ServeError`]; `Unmount` when the last flush failed.
pub fn serve<F: Format>(
    fs: Fs<F>,
    device: Device,
    places: &Places,
    options: &ServeOptions,
    ready: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    let engine = Arc::new(Engine::new(fs, device));
    engine.check().map_err(ServeError::Mount)?;
    engine.recover();
    let writers = Writers::start(&engine).map_err(system("start the writers"))?;
    let flusher = Flusher::start(&engine).map_err(system("start the flusher"))?;
    let (stop, stopped) = mpsc::unbounded_channel();
    let (sockets, ended) = (Mutex::default(), Condvar::new());
    let hub = Arc::new(Hub { engine: Arc::clone(&engine), sockets, ended, stop });
    let end: Result<_, ServeError> = runtime.block_on(async {
        let mut signals = Signals::new().map_err(system("handle signals"))?;
        let mut open = open_places(&engine, places)?;
        let listener = open.listening.listener.take().ok_or(io::ErrorKind::NotConnected.into());
        let listener = listener.and_then(tokio::net::UnixListener::from_std);
        let listener = listener.map_err(system("listen"))?;
        ready(&open.socket).map_err(system("say that it is ready"))?;
        let server = Server {
            boot_id: *uuid::Uuid::new_v4().as_bytes(),
            owner: rustix::process::geteuid().as_raw(),
            limits: options.limits,
        };
        let unmounted = &mut open.unmounted;
        Ok(accept_until_stopped(&hub, listener, &server, options, stopped, &mut signals, unmounted)
            .await)
    });
    let result = match end {
        Ok(Some(result)) => result,
        Ok(None) => engine.unmount(),
        Err(e) => {
            engine.unmount().map_err(ServeError::Unmount)?;
            return Err(e);
        }
    };
    drop(flusher);
    drop(writers);
    hub.end_sessions();
    result.map_err(ServeError::Unmount)
}

struct Signals {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (int, term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { int, term, hup: signal(SignalKind::hangup())? })
    }
}

/// Where clients come in.
struct Open {
    listening: Listening,
    socket: PathBuf,
    unmounted: mpsc::UnboundedReceiver<()>,
    /// Keeps the channel open without a mount.
    _mounted: mpsc::UnboundedSender<()>,
    _link: Option<fuse::Link>,
}

/// Mounts, then listens: whoever gets a connection finds the mount. What was begun is ended by
/// [`Engine::unmount`] when a later step fails.
fn open_places<F: Format>(engine: &Arc<Engine<F>>, places: &Places) -> Result<Open, ServeError> {
    let (mounted, unmounted) = mpsc::unbounded_channel();
    let tell = mounted.clone();
    let mut dev = None;
    if let Some(spec) = &places.mount {
        let ended = move || {
            // Without a receiver the server is stopping already.
            let _stopping_already = tell.send(());
        };
        dev = Some(fuse::mount(engine, spec, ended)?);
    }
    let (listening, socket, link) = match (&places.socket, dev) {
        (Some(socket), dev) => {
            let listening = Listening::bind(socket)?;
            let link = dev.map(|dev| fuse::Link::new(dev, socket)).transpose();
            (listening, socket.clone(), link.map_err(system("link the socket by mount"))?)
        }
        (None, Some(dev)) => {
            let socket = fuse::socket_path(dev).map_err(system("make the sockets' folder"))?;
            (Listening::bind(&socket)?, socket, None)
        }
        (None, None) => return Err(system("serve")(io::ErrorKind::InvalidInput.into())),
    };
    Ok(Open { listening, socket, unmounted, _mounted: mounted, _link: link })
}

/// `Some` is the result of a shutdown that was asked for over the socket; `None` a signal, or the
/// end of the mount.
async fn accept_until_stopped<F: Format>(
    hub: &Arc<Hub<F>>,
    listener: tokio::net::UnixListener,
    server: &Server,
    options: &ServeOptions,
    mut stopped: mpsc::UnboundedReceiver<Result<(), FsError>>,
    signals: &mut Signals,
    unmounted: &mut mpsc::UnboundedReceiver<()>,
) -> Option<Result<(), FsError>> {
    let mut next = 0u64;
    loop {
        let accepted = tokio::select! {
            result = stopped.recv() => return result,
            _ = signals.int.recv() => return None,
            _ = signals.term.recv() => return None,
            // A closed terminal: what is cached must not go with it.
            _ = signals.hup.recv() => return None,
            _ = unmounted.recv() => return None,
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
            End::Front(error) => tracing::warn!(session = id, client, %error, "session closed"),
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
