//! The thread that deals with the peer's socket, so that the worker does not have to.
//!
//! 1. It accepts a connection, or makes one, and looks at the user at its other end.
//! 2. It carries out the handshake and leaves the ends of the rings for the worker.
//! 3. It wakes the peer when the worker asks for it, notices the socket's end, and begins again.

use crate::Settings;
use crate::config::Role;
use crate::desk::{Desk, Line, Session};
use crate::handshake::{Handshake, Joined};
use crate::lent::{Connected, Peers};
use crate::message::{LENGTH, Message, shown};
use local_socket::{Attendant, Awaited, Endpoint, Kind, Opened, Side, Woken, ring};
use packet_memory::Pool;
use rustix::fs::OFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// How long a handshake may take: another peer waits meanwhile.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// How often it is looked whether a process is gone that is not connected any more.
const LINGERING: Duration = Duration::from_millis(100);

/// What the thread works with.
struct Work {
    settings: Settings,
    desk: Arc<Desk>,
    endpoint: Endpoint,
    connection: Connection,
    /// The pool that peers get, and which processes have it.
    shared: Option<(Arc<Pool>, Peers)>,
    /// There are processes that are not connected any more and may live.
    lingering: bool,
}

/// How far a connection has come.
enum Connection {
    None,
    Shaking { socket: OwnedFd, handshake: Handshake, since: Instant, connected: Option<Connected> },
    Joined { line: Arc<Line>, to_peer: Vec<OwnedFd>, from_peer: Vec<OwnedFd>, _connected: Option<Connected> },
}

/// Begins.
///
/// # Errors
/// No descriptors or threads are left.
pub(crate) fn start(settings: &Settings, shared: Option<(Arc<Pool>, Peers)>) -> io::Result<Attendant<Desk>> {
    let desk = Arc::new(Desk::new()?);
    let side = match settings.role {
        Role::Master => Side::Listens,
        Role::Slave => Side::Connects,
    };
    let mut work = Work {
        settings: settings.clone(),
        desk: desk.clone(),
        endpoint: Endpoint::new(Kind::Messages, side, &settings.socket, settings.users),
        connection: Connection::None,
        lingering: shared.is_some(),
        shared,
    };
    work.look_for_peer();
    Attendant::start("memif", desk, move || work.run())
}

impl Work {
    fn run(mut self) {
        loop {
            let seen = self.wait();
            if seen.stop {
                break;
            }
            if seen.knock {
                self.wake_peer();
            }
            if seen.message {
                self.read();
            }
            if let Connection::Shaking { since, .. } = &self.connection
                && since.elapsed() >= HANDSHAKE
            {
                self.refuse("the handshake took longer than 3 s");
            }
            if self.lingering {
                self.lingering = self.shared.as_ref().is_some_and(|(_, peers)| peers.sweep());
            }
            if seen.connection
                && let Some(socket) = self.endpoint.accept()
            {
                self.begin(socket);
            }
            if self.endpoint.is_due(self.has_peer()) {
                self.look_for_peer();
            }
        }
        self.leave("the port was closed");
    }

    fn has_peer(&self) -> bool {
        !matches!(self.connection, Connection::None)
    }

    fn wait(&self) -> Woken {
        let lingering = self.lingering.then_some(LINGERING);
        let awaited = match &self.connection {
            Connection::None => lingering.map(|span| Awaited { connection: None, span: Some(span) }),
            Connection::Shaking { socket, since, .. } => {
                let left = HANDSHAKE.saturating_sub(since.elapsed());
                let span = Some(lingering.map_or(left, |span| left.min(span)));
                Some(Awaited { connection: Some(socket.as_fd()), span })
            }
            Connection::Joined { line, .. } => {
                Some(Awaited { connection: Some(line.socket.as_fd()), span: lingering })
            }
        };
        self.endpoint.wait(&self.desk.bells, awaited)
    }

    fn waiting(&self) -> String {
        format!("no peer is connected at `{}`", self.settings.socket)
    }

    /// A master listens, a slave connects.
    fn look_for_peer(&mut self) {
        match self.endpoint.open() {
            Opened::Listening => self.desk.tell(self.waiting()),
            Opened::Connected(socket) => self.begin(socket),
            // It is told once.
            Opened::Refused(reason) if reason == self.desk.reason() => {}
            Opened::Refused(reason) => self.desk.tell(reason),
            Opened::Absent(error) => self.desk.tell(format!("{}: {error}", self.waiting())),
        }
    }

    fn begin(&mut self, socket: OwnedFd) {
        let (mut handshake, hello) = Handshake::new(&self.settings);
        let (mut connected, mut refused) = (None, None);
        match (self.endpoint.admit(&socket), &self.shared) {
            (Ok(peer), Some((pool, peers))) => {
                let peer = peers.join(peer, pool);
                handshake = handshake.lends(peer.lender());
                connected = Some(peer);
            }
            (Ok(_), None) => {}
            (Err(reason), _) => refused = Some(reason),
        }
        self.connection = Connection::Shaking { socket, handshake, since: Instant::now(), connected };
        if let Some(reason) = refused {
            return self.refuse(&reason);
        }
        if let (Some(hello), Connection::Shaking { socket, .. }) = (hello, &self.connection)
            && local_socket::send(socket, &hello.to_bytes(), &[]).is_err()
        {
            // A probe, or a peer that gave up.
            self.connection = Connection::None;
        }
    }

    /// The next message, or the end.
    fn read(&mut self) {
        let socket = match &self.connection {
            Connection::None => return,
            Connection::Shaking { socket, .. } => socket,
            Connection::Joined { line, .. } => &line.socket,
        };
        let mut bytes = [0; LENGTH + 1];
        match local_socket::receive(socket, &mut bytes) {
            Ok(None) => {}
            Ok(Some((length @ 1.., descriptors))) => match Message::from_bytes(&bytes[..length]) {
                Ok(message) => self.carry_out(message, descriptors),
                Err(error) => self.refuse(&error.to_string()),
            },
            Ok(Some((0, _))) | Err(_) => self.part(),
        }
    }

    fn carry_out(&mut self, message: Message, descriptors: Vec<OwnedFd>) {
        let (socket, handshake) = match &mut self.connection {
            Connection::Shaking { socket, handshake, .. } => (socket, handshake),
            Connection::Joined { .. } => {
                let reason = match message {
                    Message::Disconnect { code, reason } => {
                        format!("the peer has disconnected: {} ({code})", shown(&reason))
                    }
                    _ => "found: a message after the handshake; allowed: DISCONNECT".into(),
                };
                return self.refuse(&reason);
            }
            Connection::None => return,
        };
        let done = handshake.read(message, descriptors).and_then(|answer| {
            if let Some((message, descriptors)) = &answer.message {
                let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                local_socket::send(socket, &message.to_bytes(), &descriptors)
                    .map_err(|error| format!("answering: {error}"))?;
            }
            Ok(answer.joined)
        });
        match done {
            Ok(None) => {}
            Ok(Some(mut joined)) => {
                let Joined { to_peer, from_peer, .. } = &mut *joined;
                let (to_peer, from_peer) = (std::mem::take(to_peer), std::mem::take(from_peer));
                let watched = from_peer.iter().try_for_each(|bell| self.desk.bells.watch(bell));
                let Connection::Shaking { socket, connected, .. } =
                    std::mem::replace(&mut self.connection, Connection::None)
                else {
                    return;
                };
                let line =
                    Arc::new(Line { socket, ended: AtomicBool::new(false), cut_off: AtomicBool::new(false) });
                match watched {
                    Ok(()) => {
                        let _connected = connected;
                        self.connection =
                            Connection::Joined { line: line.clone(), to_peer, from_peer, _connected };
                        self.desk.begin(Session { line, joined: *joined });
                    }
                    Err(error) => {
                        from_peer.iter().for_each(|bell| self.desk.bells.unwatch(bell));
                        self.desk.tell(format!("{}: the last one failed: {error}", self.waiting()));
                    }
                }
            }
            Err(reason) => self.refuse(&reason),
        }
    }

    /// The worker has put something into rings while the peer slept.
    fn wake_peer(&self) {
        let sleepers = self.desk.bells.take_sleepers();
        let Connection::Joined { to_peer, .. } = &self.connection else { return };
        for (_, bell) in to_peer.iter().enumerate().filter(|(queue, _)| sleepers >> queue & 1 == 1) {
            // Its flags are shared with the peer, which may have changed them.
            let _ = rustix::fs::fcntl_setfl(bell, OFlags::NONBLOCK);
            ring(bell);
        }
    }

    /// The connection is over, because of the peer, which is told.
    fn refuse(&mut self, reason: &str) {
        if let Connection::Shaking { .. } = self.connection {
            self.desk.refused.fetch_add(1, Relaxed);
        }
        self.leave(reason);
        self.desk.tell(format!("{}; the last one: {reason}", self.waiting()));
        self.endpoint.pause();
    }

    /// The peer has closed its socket, or the worker has.
    fn part(&mut self) {
        let was = std::mem::replace(&mut self.connection, Connection::None);
        let what = match &was {
            Connection::Joined { line, .. } if line.cut_off.load(Acquire) => {
                "was cut off: what it wrote into the shared memory was impossible"
            }
            Connection::Joined { .. } => "closed its socket",
            _ => "closed its socket during the handshake",
        };
        self.connection = was;
        self.end();
        self.desk.tell(format!("{}; the last one {what}", self.waiting()));
        self.endpoint.pause();
    }

    /// Says why, and ends the connection.
    fn leave(&mut self, reason: &str) {
        let socket = match &self.connection {
            Connection::None => None,
            Connection::Shaking { socket, .. } => Some(socket),
            Connection::Joined { line, .. } => Some(&line.socket),
        };
        if let Some(socket) = socket {
            let _ = local_socket::send(socket, &Message::disconnect(reason).to_bytes(), &[]);
        }
        self.end();
    }

    fn end(&mut self) {
        if let Connection::Joined { line, from_peer, .. } = &self.connection {
            line.hang_up();
            line.ended.store(true, Release);
            from_peer.iter().for_each(|bell| self.desk.bells.unwatch(bell));
        }
        self.connection = Connection::None;
        self.lingering = self.shared.is_some();
    }
}
