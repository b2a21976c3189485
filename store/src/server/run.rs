//! Starting, accepting, flushing, stopping.

use super::link::Link;
use super::listen::Listening;
use super::worker::{OwnReply, session};
use crate::backend::Backend;
use crate::block_on::block_on;
use crate::error::StoreError;
use crate::ledger::Want;
use crate::session::{Core, CoreLimits, Effect, SessionId};
use seawall_blockdev::DevError;
use seawall_ipc::conn::widen;
use seawall_ipc::storeproto::{DIALECT, Stats};
use seawall_ipc::{Gather, Reply};
use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::string::{String, ToString};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long sessions may take to send their last replies when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How a store is served.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The store's name, for INFO and logs.
    pub name: String,
    /// Limits.
    pub limits: CoreLimits,
}

/// Sessions that are connected.
#[derive(Default)]
struct Links {
    by_id: HashMap<SessionId, Arc<Link>>,
    /// The server ends: there will be no more.
    closed: bool,
}

/// What all sessions share.
pub(super) struct Hub {
    core: Mutex<Core>,
    backend: Arc<dyn Backend>,
    links: Mutex<Links>,
    /// Held from the end of a flush until the replies it brings are queued.
    delivery: Mutex<()>,
    /// Signalled when a session ended.
    ended: Condvar,
    runtime: Handle,
}

impl Hub {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self) -> MutexGuard<'_, ()> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until replies that other threads took from the core are queued on their links.
    pub(super) fn settle(&self) {
        drop(self.deliver());
    }

    /// Acts on effects: starts a flush, sends other sessions' replies; returns the session's own.
    /// An instant flush runs here and its effects are acted on as well.
    pub(super) fn spread(self: &Arc<Self>, id: SessionId, fx: &mut Vec<Effect>) -> Vec<OwnReply> {
        let mut own = Vec::new();
        let mut delivering = None;
        while !fx.is_empty() {
            let mut flush = false;
            let mut others: HashMap<SessionId, Gather<'_>> = HashMap::new();
            for effect in fx.drain(..) {
                match effect {
                    Effect::Flush => flush = true,
                    Effect::Reply { id: to, reply, body } if to == id => {
                        own.push(OwnReply { reply, body, fd: None });
                    }
                    Effect::Mint { minted, reply, .. } => own.push(self.mint(id, minted, reply)),
                    Effect::LossAccepted { id, lost } => {
                        let (session, bytes) = (id, lost.bytes);
                        tracing::warn!(session, bytes, runs = ?lost.runs, "loss accepted");
                    }
                    Effect::Reply { id: to, reply, body } => {
                        let gather = others.entry(to).or_insert_with(|| Gather::new(DIALECT));
                        gather.message_with_body(&reply, &body);
                    }
                }
            }
            for (to, gather) in others {
                let link = self.links().by_id.get(&to).cloned();
                if let Some(link) = link {
                    link.push(&gather.to_vec(), &self.runtime);
                }
            }
            drop(delivering.take());
            if flush && self.backend.flush_is_instant() {
                let result = block_on(self.backend.flush());
                delivering = Some(self.deliver());
                self.core().flush_done(result, fx);
            } else if flush {
                let hub = Arc::clone(self);
                self.runtime.spawn_blocking(move || hub.flush());
            }
        }
        own
    }

    /// Runs flushes on this thread until nobody waits for one.
    fn flush(self: &Arc<Self>) {
        loop {
            let result = block_on(self.backend.flush());
            let mut effects = Vec::new();
            let delivering = self.deliver();
            self.core().flush_done(result, &mut effects);
            let again = effects.contains(&Effect::Flush);
            effects.retain(|effect| *effect != Effect::Flush);
            // No session has number 0, so every reply goes to its link.
            self.spread(0, &mut effects);
            drop(delivering);
            if !again {
                return;
            }
        }
    }

    /// Lets sessions end whose clients are gone and that would make this HELLO fail: the kernel
    /// says that a client is gone before its session's thread has seen it, and who starts a server
    /// in place of one that just died is not to be refused for that.
    pub(super) fn bury(&self, id: SessionId, hello: &[u8]) {
        let start = Instant::now();
        loop {
            let in_the_way = self.core().in_the_way(id, hello);
            let left = STOP_GRACE.saturating_sub(start.elapsed());
            if in_the_way.is_empty() || left.is_zero() {
                return;
            }
            let links = self.links();
            // One without a link was forgotten just now: the next look will not find it.
            let gone = |id| links.by_id.get(id).is_none_or(|link| link.hung_up());
            if !in_the_way.iter().any(gone) {
                return;
            }
            if in_the_way.iter().all(|id| links.by_id.contains_key(id)) {
                let waited = self.ended.wait_timeout(links, left);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn accept(self: &Arc<Self>, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        let Some(id) = self.core().open_session() else {
            tracing::warn!("connection refused: too many sessions");
            return Ok(());
        };
        if let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) {
            let (pid, uid) = (peer.pid.as_raw_nonzero().get(), peer.uid.as_raw());
            tracing::info!(session = id, pid, uid, "session opened");
        }
        self.start(id, socket)
    }

    /// Makes the socket of a minted session.
    fn mint(self: &Arc<Self>, id: SessionId, minted: SessionId, reply: Reply) -> OwnReply {
        let made = UnixStream::pair().and_then(|(ours, theirs)| {
            self.start(minted, ours)?;
            Ok(theirs)
        });
        match made {
            Ok(theirs) => {
                tracing::info!(session = minted, by = id, "session minted");
                OwnReply { reply, body: Vec::new(), fd: Some(theirs.into()) }
            }
            Err(error) => {
                tracing::error!(session = minted, by = id, %error, "cannot mint a session");
                let reply = self.core().mint_failed(id, minted, reply);
                OwnReply { reply, body: Vec::new(), fd: None }
            }
        }
    }

    /// Starts the thread of a session.
    fn start(self: &Arc<Self>, id: SessionId, socket: UnixStream) -> io::Result<()> {
        if let Err(error) = widen(&socket) {
            tracing::debug!(session = id, %error, "the send buffer stays as it is");
        }
        let link = Arc::new(Link::new(socket));
        let mut links = self.links();
        if links.closed {
            drop(links);
            self.forget(id);
            return Err(io::Error::other("the server ends"));
        }
        links.by_id.insert(id, Arc::clone(&link));
        drop(links);
        let hub = Arc::clone(self);
        let thread = std::thread::Builder::new().name(std::format!("session-{id}"));
        let started = thread.spawn(move || {
            session(&hub, &link, id);
            hub.forget(id);
        });
        if started.is_err() {
            self.forget(id);
        }
        started.map(|_detached| ())
    }

    fn forget(&self, id: SessionId) {
        self.core().close_session(id);
        let link = self.links().by_id.remove(&id);
        if let Some(link) = link {
            link.shutdown(Shutdown::Both);
        }
        self.ended.notify_all();
    }

    /// Lets sessions finish what has arrived; after a grace period they are cut off.
    fn finish_sessions(&self) {
        let mut links = self.links();
        links.closed = true;
        links.by_id.values().for_each(|link| link.shutdown(Shutdown::Read));
        let all_ended = |links: &mut Links| !links.by_id.is_empty();
        let waited = self.ended.wait_timeout_while(links, STOP_GRACE, all_ended);
        links = waited.unwrap_or_else(PoisonError::into_inner).0;
        links.by_id.values().for_each(|link| link.shutdown(Shutdown::Both));
        let waited = self.ended.wait_while(links, all_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The last flush of a server's life.
    fn final_flush(&self) -> Result<(), DevError> {
        let want = self.core().begin_final_flush();
        match want {
            Want::Already(_) => Ok(()),
            // A store that cannot flush never promised anything.
            Want::Fail(DevError::Unsupported) => Ok(()),
            Want::Fail(error) => Err(error),
            Want::Flush => {
                let result = block_on(self.backend.flush());
                self.core().flush_done(result, &mut Vec::new());
                result
            }
        }
    }
}

/// A running server.
pub struct Server {
    hub: Arc<Hub>,
    runtime: Option<Runtime>,
    listening: Option<Listening>,
    stop: watch::Sender<bool>,
    name: String,
}

impl Server {
    /// Binds the socket and starts to accept sessions.
    ///
    /// # Errors
    /// [`StoreError`]: the socket is taken or cannot be made.
    pub fn start(
        backend: Arc<dyn Backend>,
        socket: &Path,
        options: ServeOptions,
    ) -> Result<Self, StoreError> {
        let fail = |e| StoreError::file("serve on", socket, e);
        let mut listening = Listening::bind(socket)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(fail)?;
        let boot_id = uuid::Uuid::new_v4().into_bytes();
        let core = Core::new(options.name.clone(), backend.caps(), boot_id, options.limits);
        let hub = Arc::new(Hub {
            core: Mutex::new(core),
            backend,
            links: Mutex::default(),
            delivery: Mutex::default(),
            ended: Condvar::new(),
            runtime: runtime.handle().clone(),
        });
        let (stop, stopped) = watch::channel(false);
        if let Some(listener) = listening.listener.take() {
            let entered = runtime.enter();
            let listener = tokio::net::UnixListener::from_std(listener).map_err(fail)?;
            drop(entered);
            runtime.spawn(accept_loop(Arc::clone(&hub), listener, stopped));
        }
        let (runtime, listening) = (Some(runtime), Some(listening));
        Ok(Self { hub, runtime, listening, stop, name: options.name })
    }

    /// Statistics so far.
    pub fn stats(&self) -> Stats {
        self.hub.core().stats()
    }

    /// Takes SIGINT and SIGTERM over from now on; the future ends at the first of them.
    fn catch_signals(&self) -> io::Result<impl Future<Output = ()> + use<>> {
        let _entered = self.hub.runtime.enter();
        let mut int = signal(SignalKind::interrupt())?;
        let mut term = signal(SignalKind::terminate())?;
        Ok(async move {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
        })
    }

    /// Stops accepting, executes and answers what has arrived, flushes.
    ///
    /// # Errors
    /// [`StoreError::Device`] when the last flush failed or an earlier failure was never repaired.
    pub fn stop(mut self) -> Result<(), StoreError> {
        self.end().map_err(|cause| StoreError::Device {
            name: self.name.clone(),
            what: "final flush".to_string(),
            cause,
        })
    }

    fn end(&mut self) -> Result<(), DevError> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        self.stop.send_replace(true);
        self.listening = None;
        self.hub.finish_sessions();
        // Waits for flushes under way: they are blocking tasks.
        drop(runtime);
        self.hub.final_flush()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(store = %self.name, %error, "final flush failed");
        }
    }
}

async fn accept_loop(
    hub: Arc<Hub>,
    listener: tokio::net::UnixListener,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let done = match accepted {
            Ok((stream, _)) => stream.into_std().and_then(|stream| hub.accept(stream)),
            Err(e) => Err(e),
        };
        if let Err(error) = done {
            tracing::error!(%error, "accept failed");
            // Out of descriptors or threads: it would fail again at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Serves a store until SIGINT or SIGTERM. `ready` is called once the socket answers.
///
/// # Errors
/// As [`Server::start`] and [`Server::stop`].
pub fn serve(
    backend: Arc<dyn Backend>,
    socket: &Path,
    options: ServeOptions,
    ready: impl FnOnce(),
) -> Result<(), StoreError> {
    let server = Server::start(backend, socket, options)?;
    let signalled = server.catch_signals().map_err(|e| StoreError::file("serve on", socket, e))?;
    ready();
    server.hub.runtime.block_on(signalled);
    server.stop()
}
