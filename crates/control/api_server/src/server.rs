//! The server: from the store's objects to a socket on which it answers, to its end.

use crate::audit::Audit;
use crate::audit_queue::AuditQueue;
use crate::connection;
use crate::connection_groups::{ConnectionSlot, Peer};
use crate::control::Control;
use crate::error::BindError;
use crate::identity::Identity;
use crate::log::{Severity, log};
use crate::logins::Logins;
use crate::owners::Owners;
use crate::page::Page;
use crate::rights::Door;
use crate::settings::{Settings, Tcp};
use crate::socket::{self, SocketFile};
use crate::state::State;
use crate::tenancy::{self, Kept};
use crate::tokens::Tokens;
use crate::{scrape, stored, tls};
use api::ObjectName;
use rustix::io::Errno;
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
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Threads for what takes long: images, snapshots, large changes. Made when they are needed. Tenants have so
/// few each that these are enough for all of them.
const THREADS: usize = 512;

/// A server that listens.
pub struct Server {
    state: Arc<State>,
    unix: StdUnixListener,
    /// For clients that show a token.
    tenants: Option<StdUnixListener>,
    /// Removed when the server ends.
    files: Vec<SocketFile>,
    administrators: Option<Tcp>,
    tcp: Option<(std::net::TcpListener, Arc<rustls::ServerConfig>)>,
    /// For metrics alone.
    metrics: Option<std::net::TcpListener>,
    /// For browsers.
    page: Option<(std::net::TcpListener, Option<Arc<rustls::ServerConfig>>)>,
}

impl Server {
    /// Reads the store, lets `control` start what is in it, and then listens. Clients wait from then on; they
    /// are answered by [`serve`](Server::serve).
    ///
    /// That no other process has the socket is found out before anything is started.
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
        let metrics = settings.metrics.map(scrape::listen).transpose()?;
        let (page, behind_page) = match settings.page.as_ref().map(Page::listen).transpose()? {
            Some((listener, tls, page)) => (Some((listener, tls)), Some(page)),
            None => (None, None),
        };
        if let Some(tenants) =
            settings.tenants.as_ref().filter(|tenants| tenants.path == settings.socket.path)
        {
            return Err(BindError::OneSocket(tenants.path.clone()));
        }
        let claim = socket::claim(&settings.socket)?;
        let tenants_claim = settings.tenants.as_ref().map(socket::claim).transpose()?;
        let tokens = Tokens::load(&store)?;
        let logins = Logins::load(&store)?;
        if let Some(Kept { tenant, objects }) = tenancy::keep_owners(&store, &mut objects)? {
            let names: Vec<String> = objects.iter().map(ObjectName::to_string).collect();
            let fields = [("tenant", tenant.into()), ("objects", names.join(" ").into())];
            let told = "objects without a tenant belong to `default` from now on; these were the only tenant's and keep it";
            log(Severity::Warning, told, &fields);
        }
        let owners = Owners::new(&objects, store.revision().0);
        let audit = AuditQueue::begin(Audit::open(&settings.audit)?).map_err(BindError::Runtime)?;
        let told = |text: &str| log(Severity::Warning, text, &[]);
        let spans =
            settings.spans.clone().map(|settings| trace_export::Exporter::begin(settings, told)).transpose();
        let spans = spans.map_err(BindError::Runtime)?;
        let kept = (tokens, owners, logins);
        let state = Arc::new(State::new(store, control, settings, audit, spans, kept, behind_page));
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
            ("metrics", address_of(metrics.as_ref()).map(|address| address.to_string()).into()),
            (
                "page",
                page.as_ref().and_then(|(page, _)| page.local_addr().ok()).map(|a| a.to_string()).into(),
            ),
            ("objects", number.into()),
            ("faults", faults.len().into()),
        ];
        log(Severity::Notice, "listening", &fields);
        Ok(Server { state, unix, tenants, files, administrators: settings.tcp.clone(), tcp, metrics, page })
    }

    /// The address on which metrics are given in the clear, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        address_of(self.metrics.as_ref())
    }

    /// The address on which the page is served, if it is.
    pub fn page_address(&self) -> Option<SocketAddr> {
        address_of(self.page.as_ref().map(|(listener, _)| listener))
    }

    /// Answers on the calling thread until SIGTERM or SIGINT; at SIGHUP the audit log is opened anew. Then it
    /// ends as [`serve_until`](Server::serve_until) does. `asked` is called when signals are heard: whether
    /// one came before that.
    ///
    /// # Errors
    /// The system has no threads or signals for it.
    pub fn serve(self, asked: impl FnOnce() -> bool) -> Result<(), BindError> {
        let runtime = runtime()?;
        let entered = runtime.enter();
        let mut terminate = signal(SignalKind::terminate()).map_err(BindError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(BindError::Runtime)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(BindError::Runtime)?;
        let asked = asked();
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
        drop(entered);
        self.run(runtime, async move {
            if asked {
                return "a signal before it listened";
            }
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        })
    }

    /// Answers on the calling thread until `end` comes. Then the socket goes, requests that are being
    /// answered get their answer, streams end, and a client that takes longer than the grace is cut off.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub fn serve_until(self, end: impl Future<Output = ()> + Send + 'static) -> Result<(), BindError> {
        self.run(runtime()?, async move {
            end.await;
            "asked to"
        })
    }

    fn run(
        self,
        runtime: Runtime,
        end: impl Future<Output = &'static str> + Send + 'static,
    ) -> Result<(), BindError> {
        let (state, threads) = (self.state.clone(), self.state.threads.clone());
        let entered = runtime.enter();
        let listening = self.listening()?;
        drop(entered);
        let grace = state.limits.grace;
        let serving = listening.serve(end);
        let ends = threads.clone();
        // As long as a timer ends before the next client's head has to be there, that one's timer needs not
        // wake the runtime, which would take a call of the kernel and a turn in vain for each change.
        let before_heads = (state.limits.header_time / 2).max(Duration::from_millis(1));
        runtime.spawn(async move {
            loop {
                sleep(before_heads).await;
            }
        });
        drop(state);
        runtime.spawn(async move {
            serving.await;
            ends.end();
        });
        threads.run(runtime, grace).map_err(BindError::Runtime)
    }

    fn listening(self) -> Result<Listening, BindError> {
        let Server { state, unix, tenants, files, administrators, tcp, metrics, page } = self;
        let unix = UnixListener::from_std(unix).map_err(BindError::Runtime)?;
        let tenants = tenants.map(UnixListener::from_std).transpose().map_err(BindError::Runtime)?;
        let tcp = match tcp {
            Some((listener, configuration)) => {
                let listener = TcpListener::from_std(listener).map_err(BindError::Runtime)?;
                Some((listener, TlsAcceptor::from(configuration)))
            }
            None => None,
        };
        let metrics = metrics.map(TcpListener::from_std).transpose().map_err(BindError::Runtime)?;
        let page = match page {
            Some((listener, configuration)) => {
                let listener = TcpListener::from_std(listener).map_err(BindError::Runtime)?;
                Some((listener, configuration.map(TlsAcceptor::from)))
            }
            None => None,
        };
        Ok(Listening { state, unix, tenants, files, administrators, tcp, metrics, page })
    }
}

/// A server whose sockets are those of a runtime.
struct Listening {
    state: Arc<State>,
    unix: UnixListener,
    tenants: Option<UnixListener>,
    files: Vec<SocketFile>,
    administrators: Option<Tcp>,
    tcp: Option<(TcpListener, TlsAcceptor)>,
    metrics: Option<TcpListener>,
    page: Option<(TcpListener, Option<TlsAcceptor>)>,
}

impl Listening {
    async fn serve(self, end: impl Future<Output = &'static str>) {
        let Listening { state, unix, tenants, files, administrators, tcp, metrics, page } = self;
        let groups = state.connections.clone();
        let why = tokio::select! {
            why = end => why,
            _ = accept_unix(state.clone(), Some(unix), Door::Administrators) => "nothing listens",
            _ = accept_unix(state.clone(), tenants, Door::Tenants) => "nothing listens",
            _ = accept_tcp(state.clone(), tcp, administrators) => "nothing listens",
            _ = accept_metrics(state.clone(), metrics) => "nothing listens",
            _ = accept_page(state.clone(), page) => "nothing listens",
        };
        drop(files);
        let fields = [
            ("why", why.into()),
            ("connections", groups.open.count().into()),
            ("operations", state.operations.unended().into()),
        ];
        log(Severity::Notice, "ending", &fields);
        state.ending.send_replace(true);
        let mut done = pin!(groups.open.none());
        if timeout(state.limits.grace, done.as_mut()).await.is_err() {
            let left = groups.open.count();
            log(Severity::Warning, "ended before all clients had", &[("connections", left.into())]);
        }
    }
}

fn address_of(listener: Option<&std::net::TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
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

/// What connections come to.
trait Listens: Sync {
    type Stream: Send;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listens for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listens for TcpListener {
    type Stream = (TcpStream, SocketAddr);

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept().await
    }
}

/// Takes the next connection. Where there is no descriptor for it, one that was put aside is given up for it,
/// and one that rests without having shown a token is ended.
async fn next<L: Listens>(state: &State, door: Door, listener: &L) -> Option<L::Stream> {
    let error = match listener.next().await {
        Ok(stream) => return Some(stream),
        Err(error) => error,
    };
    log(Severity::Error, "cannot accept a connection", &[("error", error.to_string().into())]);
    state.connections.make_room();
    if is_out_of_descriptors(&error) && state.spare.give_up(door) {
        if let Ok(Ok(stream)) = timeout(RETRY, listener.next()).await {
            match door {
                Door::Administrators => return Some(stream),
                // It is told by its end, and does not wait for one that may not come.
                Door::Tenants | Door::Page => drop(stream),
            }
        }
        state.spare.put_aside();
    }
    sleep(RETRY).await;
    None
}

/// How long until it is tried again to accept a connection, when there was no descriptor for one.
const RETRY: Duration = Duration::from_millis(100);

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|known| code == Some(known.raw_os_error()))
}

async fn accept_unix(state: Arc<State>, listener: Option<UnixListener>, door: Door) {
    let Some(listener) = listener else { return std::future::pending().await };
    let groups = &state.connections;
    let (group, size) = match door {
        Door::Administrators => (&groups.administrators, state.limits.connections),
        Door::Tenants | Door::Page => (&groups.unknown, state.limits.tenants_connections),
    };
    loop {
        let Some(stream) = next(&state, door, &listener).await else { continue };
        let who = match stream.peer_cred() {
            Ok(peer) => {
                Identity::Process { user: peer.uid(), group: peer.gid(), process: peer.pid().unwrap_or(0) }
            }
            // A peer that the kernel does not know is not served.
            Err(error) => {
                log(Severity::Error, "a client without credentials", &[("error", error.to_string().into())]);
                continue;
            }
        };
        let Identity::Process { user, .. } = who else { continue };
        let Some(slot) = ConnectionSlot::take(group, Peer::User(user), &groups.open) else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            tokio::spawn(connection::refuse(stream, size));
            continue;
        };
        let state = state.clone();
        tokio::spawn(async move {
            state.counts.connections.fetch_add(1, Relaxed);
            connection::serve(state.clone(), stream, (door, who), slot).await;
            state.counts.connections.fetch_sub(1, Relaxed);
            state.spare.put_aside();
        });
    }
}

async fn accept_tcp(state: Arc<State>, tcp: Option<(TcpListener, TlsAcceptor)>, settings: Option<Tcp>) {
    let (Some((listener, tls)), Some(settings)) = (tcp, settings) else {
        return std::future::pending().await;
    };
    let settings = Arc::new(settings);
    loop {
        let Some((stream, peer)) = next(&state, Door::Tenants, &listener).await else { continue };
        let groups = &state.connections;
        // In the clear nothing is said, not even that there are too many.
        let Some(slot) = ConnectionSlot::take(&groups.handshakes, Peer::Address(peer.ip()), &groups.open)
        else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (state, tls, settings) = (state.clone(), tls.clone(), settings.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            state.counts.connections.fetch_add(1, Relaxed);
            let shaken = tokio::select! {
                shaken = timeout(state.limits.unknown_time, tls.accept(stream)) => shaken.ok(),
                () = slot.left() => None,
            };
            match shaken {
                Some(Ok(stream)) => serve_tls(&state, stream, &settings, slot).await,
                Some(Err(error)) => {
                    let fields = [("peer", peer.to_string().into()), ("error", error.to_string().into())];
                    log(Severity::Warning, "a client was not let in", &fields);
                }
                // Too slow, or others came that were waited for less long.
                None => drop(slot),
            }
            state.counts.connections.fetch_sub(1, Relaxed);
            state.spare.put_aside();
        });
    }
}

async fn accept_metrics(state: Arc<State>, listener: Option<TcpListener>) {
    let Some(listener) = listener else { return std::future::pending().await };
    let kept = Arc::<scrape::Kept>::default();
    loop {
        let Some((stream, peer)) = next(&state, Door::Tenants, &listener).await else { continue };
        let groups = &state.connections;
        let Some(slot) = ConnectionSlot::take(&groups.metrics, Peer::Address(peer.ip()), &groups.open) else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (state, kept) = (state.clone(), kept.clone());
        tokio::spawn(async move {
            state.counts.connections.fetch_add(1, Relaxed);
            scrape::serve(state.clone(), kept, stream, slot).await;
            state.counts.connections.fetch_sub(1, Relaxed);
            state.spare.put_aside();
        });
    }
}

async fn accept_page(state: Arc<State>, page: Option<(TcpListener, Option<TlsAcceptor>)>) {
    let Some((listener, tls)) = page else { return std::future::pending().await };
    loop {
        let Some((stream, peer)) = next(&state, Door::Page, &listener).await else { continue };
        let groups = &state.connections;
        let Some(slot) = ConnectionSlot::take(&groups.page, Peer::Address(peer.ip()), &groups.open) else {
            state.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (state, tls) = (state.clone(), tls.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            state.counts.connections.fetch_add(1, Relaxed);
            let who = (Door::Page, Identity::Browser { address: peer.ip().to_canonical(), session: None });
            match tls {
                None => connection::serve(state.clone(), stream, who, slot).await,
                Some(tls) => {
                    let shaken = tokio::select! {
                        shaken = timeout(state.limits.unknown_time, tls.accept(stream)) => shaken.ok(),
                        () = slot.left() => None,
                    };
                    // Browsers begin connections that they do not use, and leave those whose certificate they
                    // do not know.
                    match shaken {
                        Some(Ok(stream)) => connection::serve(state.clone(), stream, who, slot).await,
                        Some(Err(_)) | None => drop(slot),
                    }
                }
            }
            state.counts.connections.fetch_sub(1, Relaxed);
            state.spare.put_aside();
        });
    }
}

/// Serves a connection whose handshake is done.
async fn serve_tls(state: &Arc<State>, stream: TlsStream<TcpStream>, settings: &Tcp, slot: ConnectionSlot) {
    let certificates = stream.get_ref().1.peer_certificates();
    // The verifier lets no client in without one.
    let Some(who) = certificates.and_then(<[_]>::first).map(Identity::of_certificate) else { return };
    let door = door_of(settings, &who);
    let (group, size) = match door {
        Door::Administrators => (&state.connections.administrators_tls, state.limits.connections),
        Door::Tenants | Door::Page => (&state.connections.unknown, state.limits.tenants_connections),
    };
    if !slot.move_to(group) {
        state.counts.refused_connections.fetch_add(1, Relaxed);
        return connection::refuse(stream, size).await;
    }
    slot.set_idle(true);
    connection::serve(state.clone(), stream, (door, who), slot).await;
}

/// By which way the owner of a certificate comes in.
fn door_of(tcp: &Tcp, who: &Identity) -> Door {
    match who {
        Identity::Certificate { sha256, names } if tcp.is_administrator(sha256, names) => {
            Door::Administrators
        }
        _ => Door::Tenants,
    }
}
