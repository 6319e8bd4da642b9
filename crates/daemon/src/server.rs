//! The server: from the store's objects to a socket on which it answers, to its end.

use crate::audit::Audit;
use crate::connection;
use crate::control::Control;
use crate::error::BindError;
use crate::identity::Identity;
use crate::log::{Severity, log};
use crate::settings::Settings;
use crate::socket::{self, SocketFile};
use crate::state::State;
use crate::{stored, tls};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::Store;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Threads for what takes long: images, snapshots, large changes. Made when they are needed.
const THREADS: usize = 8;

/// A server that listens.
pub struct Server {
    state: Arc<State>,
    unix: StdUnixListener,
    /// Removed when the server ends.
    file: SocketFile,
    tcp: Option<(std::net::TcpListener, Arc<rustls::ServerConfig>)>,
}

impl Server {
    /// Reads the store, lets `control` start what is in it, and then listens. Clients wait from then on; they are answered
    /// by [`serve`](Server::serve).
    ///
    /// That nobody else has the socket is found out before anything is started.
    ///
    /// # Errors
    /// [`BindError`]: what is wrong with the settings, the store's objects or the socket.
    pub fn bind(
        settings: &Settings,
        store: Arc<Store>,
        control: Arc<dyn Control>,
    ) -> Result<Server, BindError> {
        let objects = stored::all(&store)?;
        let tcp = settings.tcp.as_ref().map(|tcp| {
            let configuration = tls::configuration(tcp)?;
            let listen = |source| BindError::Listen { address: tcp.listen, source };
            let listener = std::net::TcpListener::bind(tcp.listen).map_err(listen)?;
            listener.set_nonblocking(true).map_err(listen)?;
            Ok::<_, BindError>((listener, configuration))
        });
        let tcp = tcp.transpose()?;
        let claim = socket::claim(&settings.socket)?;
        let audit = Audit::open(&settings.audit)?;
        let told = |text: &str| log(Severity::Warning, text, &[]);
        let spans = settings.spans.clone().map(|settings| spans::Exporter::begin(settings, told)).transpose();
        let spans = spans.map_err(BindError::Runtime)?;
        let state = Arc::new(State::new(store, control, settings, audit, spans));
        let number = objects.len();
        let faults = state.control.begin(objects, state.notices.clone());
        for (object, fault) in &faults {
            let fields = [("object", object.to_string().into()), ("fault", fault.to_string().into())];
            log(Severity::Error, "an object could not be started", &fields);
        }
        let (unix, file) = claim.bind()?;
        let fields = [
            ("socket", settings.socket.path.display().to_string().into()),
            ("tcp", tcp.as_ref().and_then(|(tcp, _)| tcp.local_addr().ok()).map(|a| a.to_string()).into()),
            ("objects", number.into()),
            ("faults", faults.len().into()),
        ];
        log(Severity::Notice, "listening", &fields);
        Ok(Server { state, unix, file, tcp })
    }

    /// The address on which TCP is taken, if it is.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// Answers on the calling thread until SIGTERM or SIGINT, then ends as [`serve_until`](Server::serve_until) does.
    ///
    /// # Errors
    /// The system has no threads or signals for it.
    pub fn serve(self) -> Result<(), BindError> {
        let runtime = runtime()?;
        let _entered = runtime.enter();
        let mut terminate = signal(SignalKind::terminate()).map_err(BindError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(BindError::Runtime)?;
        self.run(&runtime, async move {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        })
    }

    /// Answers on the calling thread until `end` comes. Then the socket goes, requests that are being answered get their
    /// answer, streams end, and whoever takes longer than the grace is cut off.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub fn serve_until(self, end: impl Future<Output = ()>) -> Result<(), BindError> {
        let runtime = runtime()?;
        self.run(&runtime, async move {
            end.await;
            "asked to"
        })
    }

    fn run(self, runtime: &Runtime, end: impl Future<Output = &'static str>) -> Result<(), BindError> {
        let Server { state, unix, file, tcp } = self;
        let _entered = runtime.enter();
        let unix = UnixListener::from_std(unix).map_err(BindError::Runtime)?;
        let tcp = match tcp {
            Some((listener, configuration)) => {
                let listener = TcpListener::from_std(listener).map_err(BindError::Runtime)?;
                Some((listener, TlsAcceptor::from(configuration)))
            }
            None => None,
        };
        let grace = state.limits.grace;
        runtime.block_on(async {
            let places = state.limits.connections;
            let room = Arc::new(Semaphore::new(places));
            let accepting = async {
                tokio::join!(accept_unix(&state, &unix, &room), accept_tcp(&state, tcp.as_ref(), &room))
            };
            let why = tokio::select! {
                why = end => why,
                _ = accepting => "nothing listens",
            };
            drop((unix, tcp, file));
            let open = places - room.available_permits();
            let fields = [
                ("why", why.into()),
                ("connections", open.into()),
                ("operations", state.operations.unended().into()),
            ];
            log(Severity::Notice, "ending", &fields);
            state.ending.send_replace(true);
            let all = u32::try_from(places).unwrap_or(u32::MAX);
            let mut done = pin!(room.acquire_many(all));
            if timeout(grace, done.as_mut()).await.is_err() {
                let left = places - room.available_permits();
                log(Severity::Warning, "ended before all clients had", &[("connections", left.into())]);
            }
        });
        Ok(())
    }
}

fn runtime() -> Result<Runtime, BindError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .thread_keep_alive(Duration::from_secs(10))
        .thread_name("daemon-work")
        .build()
        .map_err(BindError::Runtime)
}

/// What is accepted has a place, or is refused.
enum Accepted<S> {
    Placed(S, OwnedSemaphorePermit),
    Refused,
}

/// Takes the next connection.
async fn accepted<S: tokio::io::AsyncWrite + Unpin>(
    state: &Arc<State>,
    room: &Arc<Semaphore>,
    accepted: io::Result<S>,
) -> Accepted<S> {
    match accepted {
        Ok(stream) => match room.clone().try_acquire_owned() {
            Ok(place) => return Accepted::Placed(stream, place),
            Err(_) => {
                state.counts.refused_connections.fetch_add(1, Relaxed);
                connection::refuse(stream, state.limits.connections).await;
            }
        },
        Err(error) => {
            log(Severity::Error, "cannot accept a connection", &[("error", error.to_string().into())]);
            // Out of file descriptors, most likely: others must end first.
            sleep(Duration::from_millis(100)).await;
        }
    }
    Accepted::Refused
}

async fn accept_unix(state: &Arc<State>, listener: &UnixListener, room: &Arc<Semaphore>) {
    loop {
        let next = listener.accept().await.map(|(stream, _)| stream);
        let Accepted::Placed(stream, place) = accepted::<UnixStream>(state, room, next).await else {
            continue;
        };
        let who = match stream.peer_cred() {
            Ok(peer) => {
                Identity::Process { user: peer.uid(), group: peer.gid(), process: peer.pid().unwrap_or(0) }
            }
            // Whom the kernel does not know is not served.
            Err(error) => {
                log(Severity::Error, "a client without credentials", &[("error", error.to_string().into())]);
                continue;
            }
        };
        let state = state.clone();
        tokio::spawn(async move {
            state.counts.connections.fetch_add(1, Relaxed);
            connection::serve(state.clone(), stream, who).await;
            state.counts.connections.fetch_sub(1, Relaxed);
            drop(place);
        });
    }
}

async fn accept_tcp(state: &Arc<State>, tcp: Option<&(TcpListener, TlsAcceptor)>, room: &Arc<Semaphore>) {
    let Some((listener, tls)) = tcp else { return std::future::pending().await };
    loop {
        let next = listener.accept().await.map(|(stream, _)| stream);
        // In the clear nothing is said to anybody, not even that there are too many.
        let Ok(stream) = next else {
            let _ = accepted::<TcpStream>(state, room, next).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (state, tls) = (state.clone(), tls.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let peer = stream.peer_addr().ok();
            state.counts.connections.fetch_add(1, Relaxed);
            match timeout(state.limits.header_time, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let who = stream
                        .get_ref()
                        .1
                        .peer_certificates()
                        .and_then(<[_]>::first)
                        .map(Identity::of_certificate);
                    // The verifier lets nobody in without one.
                    if let Some(who) = who {
                        connection::serve(state.clone(), stream, who).await;
                    }
                }
                Ok(Err(error)) => {
                    let peer = peer.map(|peer| peer.to_string());
                    let fields = [("peer", peer.into()), ("error", error.to_string().into())];
                    log(Severity::Warning, "a client was not let in", &fields);
                }
                Err(_) => {}
            }
            state.counts.connections.fetch_sub(1, Relaxed);
            drop(place);
        });
    }
}
