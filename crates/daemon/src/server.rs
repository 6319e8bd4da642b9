//! The server: from the store's objects to a socket on which it answers, to its end.

use crate::audit::Audit;
use crate::connection;
use crate::control::Control;
use crate::error::BindError;
use crate::identity::Identity;
use crate::log::{Severity, log};
use crate::owners::Owners;
use crate::rights::Door;
use crate::settings::{Settings, Tcp};
use crate::socket::{self, SocketFile};
use crate::state::State;
use crate::tenancy::{self, Kept};
use crate::tokens::Tokens;
use crate::{stored, tls};
use api::ObjectName;
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
    /// For those who show a token.
    tenants: Option<StdUnixListener>,
    /// Removed when the server ends.
    files: Vec<SocketFile>,
    administrators: Option<Tcp>,
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
        let mut objects = stored::all(&store)?;
        let tcp = settings.tcp.as_ref().map(|tcp| {
            let configuration = tls::configuration(tcp)?;
            let listen = |source| BindError::Listen { address: tcp.listen, source };
            let listener = std::net::TcpListener::bind(tcp.listen).map_err(listen)?;
            listener.set_nonblocking(true).map_err(listen)?;
            Ok::<_, BindError>((listener, configuration))
        });
        let tcp = tcp.transpose()?;
        if let Some(tenants) =
            settings.tenants.as_ref().filter(|tenants| tenants.path == settings.socket.path)
        {
            return Err(BindError::OneSocket(tenants.path.clone()));
        }
        let claim = socket::claim(&settings.socket)?;
        let tenants_claim = settings.tenants.as_ref().map(socket::claim).transpose()?;
        let tokens = Tokens::load(&store)?;
        if let Some(Kept { tenant, objects }) = tenancy::keep_owners(&store, &mut objects)? {
            let names: Vec<String> = objects.iter().map(ObjectName::to_string).collect();
            let fields = [("tenant", tenant.into()), ("objects", names.join(" ").into())];
            let told = "objects without a tenant belong to `default` from now on; these were the only tenant's and keep it";
            log(Severity::Warning, told, &fields);
        }
        let owners = Owners::new(&objects, store.revision().0);
        let audit = Audit::open(&settings.audit)?;
        let told = |text: &str| log(Severity::Warning, text, &[]);
        let spans = settings.spans.clone().map(|settings| spans::Exporter::begin(settings, told)).transpose();
        let spans = spans.map_err(BindError::Runtime)?;
        let state = Arc::new(State::new(store, control, settings, audit, spans, (tokens, owners)));
        let number = objects.len();
        let faults = state.control.begin(objects, state.notices.clone());
        for (object, fault) in &faults {
            let fields = [("object", object.to_string().into()), ("fault", fault.to_string().into())];
            log(Severity::Error, "an object could not be started", &fields);
        }
        let (unix, file) = claim.bind()?;
        let mut files = vec![file];
        let tenants = match tenants_claim {
            Some(claim) => {
                let (listener, file) = claim.bind()?;
                files.push(file);
                Some(listener)
            }
            None => None,
        };
        let fields = [
            ("socket", settings.socket.path.display().to_string().into()),
            ("tenants", settings.tenants.as_ref().map(|socket| socket.path.display().to_string()).into()),
            ("tcp", tcp.as_ref().and_then(|(tcp, _)| tcp.local_addr().ok()).map(|a| a.to_string()).into()),
            ("objects", number.into()),
            ("faults", faults.len().into()),
        ];
        log(Severity::Notice, "listening", &fields);
        Ok(Server { state, unix, tenants, files, administrators: settings.tcp.clone(), tcp })
    }

    /// The address on which TCP is taken, if it is.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// Answers on the calling thread until SIGTERM or SIGINT; at SIGHUP the audit log is opened anew. Then it ends as [`serve_until`](Server::serve_until) does.
    ///
    /// # Errors
    /// The system has no threads or signals for it.
    pub fn serve(self) -> Result<(), BindError> {
        let runtime = runtime()?;
        let _entered = runtime.enter();
        let mut terminate = signal(SignalKind::terminate()).map_err(BindError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(BindError::Runtime)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(BindError::Runtime)?;
        let state = self.state.clone();
        // One that came before it could be heard.
        state.audit.reopen();
        runtime.spawn(async move {
            while hangup.recv().await.is_some() {
                let state = state.clone();
                // A file may take its time to be opened.
                let reopened = tokio::task::spawn_blocking(move || state.audit.reopen()).await;
                if reopened.is_ok() {
                    log(Severity::Notice, "SIGHUP: the audit log was opened anew", &[]);
                }
            }
        });
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
        let Server { state, unix, tenants, files, administrators, tcp } = self;
        let _entered = runtime.enter();
        let unix = UnixListener::from_std(unix).map_err(BindError::Runtime)?;
        let tenants = tenants.map(UnixListener::from_std).transpose().map_err(BindError::Runtime)?;
        let tcp = match tcp {
            Some((listener, configuration)) => {
                let listener = TcpListener::from_std(listener).map_err(BindError::Runtime)?;
                Some((listener, TlsAcceptor::from(configuration)))
            }
            None => None,
        };
        let grace = state.limits.grace;
        runtime.block_on(async {
            let rooms = Rooms::new(&state);
            let accepting = async {
                tokio::join!(
                    accept_unix(&state, Some(&unix), (Door::Administrators, &rooms.administrators)),
                    accept_unix(&state, tenants.as_ref(), (Door::Tenants, &rooms.tenants)),
                    accept_tcp(&state, tcp.as_ref(), administrators.as_ref(), &rooms)
                )
            };
            let why = tokio::select! {
                why = end => why,
                _ = accepting => "nothing listens",
            };
            drop((unix, tenants, tcp, files));
            let open = rooms.open();
            let fields = [
                ("why", why.into()),
                ("connections", open.into()),
                ("operations", state.operations.unended().into()),
            ];
            log(Severity::Notice, "ending", &fields);
            state.ending.send_replace(true);
            let mut done = pin!(rooms.empty());
            if timeout(grace, done.as_mut()).await.is_err() {
                let left = rooms.open();
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

/// Places for connections: those without rights take none from administrators.
struct Rooms {
    administrators: Arc<Semaphore>,
    tenants: Arc<Semaphore>,
    places: (usize, usize),
}

impl Rooms {
    fn new(state: &State) -> Rooms {
        let places = (state.limits.connections, state.limits.tenants_connections);
        Rooms {
            administrators: Arc::new(Semaphore::new(places.0)),
            tenants: Arc::new(Semaphore::new(places.1)),
            places,
        }
    }

    fn open(&self) -> usize {
        let free = self.administrators.available_permits() + self.tenants.available_permits();
        (self.places.0 + self.places.1).saturating_sub(free)
    }

    /// Comes when all connections have ended.
    async fn empty(&self) {
        let all = |places: usize| u32::try_from(places).unwrap_or(u32::MAX);
        let _all = (
            self.administrators.acquire_many(all(self.places.0)).await,
            self.tenants.acquire_many(all(self.places.1)).await,
        );
    }
}

/// What is accepted has a place, or is refused.
enum Accepted<S> {
    Placed(S, OwnedSemaphorePermit),
    Refused,
}

/// Takes the next connection.
async fn accepted<S: tokio::io::AsyncWrite + Unpin>(
    state: &Arc<State>,
    (room, places): (&Arc<Semaphore>, usize),
    accepted: io::Result<S>,
) -> Accepted<S> {
    match accepted {
        Ok(stream) => match room.clone().try_acquire_owned() {
            Ok(place) => return Accepted::Placed(stream, place),
            Err(_) => {
                state.counts.refused_connections.fetch_add(1, Relaxed);
                connection::refuse(stream, places).await;
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

async fn accept_unix(
    state: &Arc<State>,
    listener: Option<&UnixListener>,
    (door, room): (Door, &Arc<Semaphore>),
) {
    let Some(listener) = listener else { return std::future::pending().await };
    let places = match door {
        Door::Administrators => state.limits.connections,
        Door::Tenants => state.limits.tenants_connections,
    };
    loop {
        let next = listener.accept().await.map(|(stream, _)| stream);
        let Accepted::Placed(stream, place) = accepted::<UnixStream>(state, (room, places), next).await
        else {
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
            connection::serve(state.clone(), stream, (door, who)).await;
            state.counts.connections.fetch_sub(1, Relaxed);
            drop(place);
        });
    }
}

async fn accept_tcp(
    state: &Arc<State>,
    tcp: Option<&(TcpListener, TlsAcceptor)>,
    settings: Option<&Tcp>,
    rooms: &Rooms,
) {
    let (Some((listener, tls)), Some(settings)) = (tcp, settings) else {
        return std::future::pending().await;
    };
    let (room, settings) = (&rooms.administrators, Arc::new(settings.clone()));
    loop {
        let next = listener.accept().await.map(|(stream, _)| stream);
        // In the clear nothing is said to anybody, not even that there are too many.
        let Ok(stream) = next else {
            let _ = accepted::<TcpStream>(state, (room, state.limits.connections), next).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (state, tls) = (state.clone(), tls.clone());
        let (settings, tenants) = (settings.clone(), rooms.tenants.clone());
        tokio::spawn(async move {
            let mut place = place;
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
                        let door = door_of(&settings, &who);
                        let room =
                            if door == Door::Tenants { tenants.try_acquire_owned().ok() } else { None };
                        match (door, room) {
                            (Door::Tenants, None) => {
                                state.counts.refused_connections.fetch_add(1, Relaxed);
                                connection::refuse(stream, state.limits.tenants_connections).await;
                            }
                            (Door::Tenants, Some(room)) => {
                                place = room;
                                connection::serve(state.clone(), stream, (door, who)).await;
                            }
                            (Door::Administrators, _) => {
                                connection::serve(state.clone(), stream, (door, who)).await;
                            }
                        }
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

/// By which way whoever has a certificate comes in.
fn door_of(tcp: &Tcp, who: &Identity) -> Door {
    match who {
        Identity::Certificate { sha256, names } if tcp.is_administrator(sha256, names) => {
            Door::Administrators
        }
        _ => Door::Tenants,
    }
}
