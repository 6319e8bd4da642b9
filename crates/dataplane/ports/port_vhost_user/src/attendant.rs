//! The thread that deals with the front end's socket, so that the worker does not have to.
//!
//! 1. It accepts a connection, or makes one, and looks at the user at its other end.
//! 2. It reads the front end's messages, carries them out ([`Backend`]) and answers.
//! 3. It wakes the guest when the worker asks for it, notices the socket's end, and begins again.

use crate::Settings;
use crate::backend::Backend;
use crate::config::Role;
use crate::desk::{Desk, Line};
use crate::stream::{self, Read, Reader};
use local_socket::{Attendant, Awaited, Endpoint, Kind, Opened, Side, Woken};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Messages that are read within one [`SPAN`]: a device of 16 pairs of rings starts with some 300.
const MESSAGES: u32 = 1000;
const SPAN: Duration = Duration::from_secs(1);

/// What the thread works with.
struct Work {
    settings: Settings,
    desk: Arc<Desk>,
    endpoint: Endpoint,
    connection: Option<Connection>,
    /// When messages were last counted from, and how many came since, whatever connection they came by: a
    /// front end may connect again as often as it likes.
    counted: (Instant, u32),
}

struct Connection {
    // Takes the rings away before the socket is closed.
    backend: Backend,
    line: Arc<Line>,
    reader: Reader,
}

/// Begins.
///
/// # Errors
/// No descriptors or threads are left.
pub(crate) fn start(settings: &Settings) -> io::Result<Attendant<Desk>> {
    let desk = Arc::new(Desk::new()?);
    let side = match settings.role {
        Role::Server => Side::Listens,
        Role::Client => Side::Connects,
    };
    let mut work = Work {
        settings: settings.clone(),
        desk: desk.clone(),
        endpoint: Endpoint::new(Kind::Stream, side, &settings.socket, settings.users),
        connection: None,
        counted: (Instant::now(), 0),
    };
    work.look_for_peer();
    Attendant::start("vhost-user", desk, move || work.run())
}

impl Work {
    fn run(mut self) {
        loop {
            let seen = self.wait();
            if seen.stop {
                break;
            }
            if seen.knock {
                let sleepers = self.desk.bells.take_sleepers();
                self.connection.iter().for_each(|connection| connection.backend.wake(sleepers));
            }
            if seen.message {
                self.read();
            }
            let until = self.connection.as_ref().and_then(|connection| connection.reader.until());
            if until.is_some_and(|until| Instant::now() >= until) {
                self.refuse("the rest of a message took longer than 3 s");
            }
            if seen.connection
                && let Some(socket) = self.endpoint.accept()
            {
                self.begin(socket);
            }
            if self.endpoint.is_due(self.connection.is_some()) {
                self.look_for_peer();
            }
        }
    }

    fn wait(&self) -> Woken {
        let awaited = self.connection.as_ref().map(|open| match self.pause() {
            Some(pause) => Awaited { connection: None, span: Some(pause) },
            None => {
                let left = |until: Instant| until.saturating_duration_since(Instant::now());
                Awaited { connection: Some(open.line.socket.as_fd()), span: open.reader.until().map(left) }
            }
        });
        self.endpoint.wait(&self.desk.bells, awaited)
    }

    /// How long nothing more is read: there was too much.
    fn pause(&self) -> Option<Duration> {
        let (since, count) = self.counted;
        (count >= MESSAGES).then(|| SPAN.saturating_sub(since.elapsed())).filter(|left| !left.is_zero())
    }

    fn waiting(&self) -> String {
        format!("no front end is connected at `{}`", self.settings.socket)
    }

    fn tell(&self, words: String) {
        self.desk.tell(|told| (told.up, told.words) = (false, words));
    }

    /// A server listens, a client connects.
    fn look_for_peer(&mut self) {
        match self.endpoint.open() {
            Opened::Listening => self.tell(self.waiting()),
            Opened::Connected(socket) => self.begin(socket),
            // It is told once.
            Opened::Refused(reason) if reason == self.desk.told().words => {}
            Opened::Refused(reason) => self.tell(reason),
            Opened::Absent(error) => self.tell(format!("{}: {error}", self.waiting())),
        }
    }

    fn begin(&mut self, socket: OwnedFd) {
        let admitted = self.endpoint.admit(&socket);
        let line = Arc::new(Line { socket, cut_off: AtomicBool::new(false) });
        let backend = Backend::new(&self.settings, &self.desk);
        self.desk.rings().line = Some(line.clone());
        self.connection = Some(Connection { backend, line, reader: Reader::default() });
        match admitted {
            Ok(_) => self.desk.tell(|told| {
                told.peers += 1;
                told.words = "a front end is connected; its guest has not started the device".into();
            }),
            Err(reason) => self.refuse(&reason),
        }
    }

    /// The next message, or the end.
    fn read(&mut self) {
        let Some(Connection { backend, line, reader }) = &mut self.connection else { return };
        let done = match reader.read(&line.socket) {
            Read::Nothing => return,
            Read::Closed => return self.part(),
            Read::Wrong(reason) => Err(reason),
            Read::Message(message, descriptors) => backend.read(message, descriptors).and_then(|answer| {
                let sent = answer.map_or(Ok(()), |answer| stream::send(&line.socket, &answer.to_bytes()));
                sent.map_err(|error| format!("answering: {error}"))
            }),
        };
        if self.counted.0.elapsed() >= SPAN {
            self.counted = (Instant::now(), 0);
        }
        self.counted.1 += 1;
        if let Err(reason) = done {
            self.refuse(&reason);
        }
    }

    /// The connection is over, because of the peer.
    fn refuse(&mut self, reason: &str) {
        self.desk.refused.fetch_add(1, Relaxed);
        self.end(reason);
    }

    /// The peer has closed its socket, or the worker has.
    fn part(&mut self) {
        let cut_off = self.connection.as_ref().is_some_and(|open| open.line.cut_off.load(Acquire));
        let what = if cut_off {
            "was cut off: its rings or its memory were impossible"
        } else {
            "closed its socket"
        };
        self.end(what);
    }

    fn end(&mut self, reason: &str) {
        // A peer's socket is closed when the worker has let it go, too.
        self.connection.iter().for_each(|open| open.line.hang_up());
        self.connection = None;
        self.tell(format!("{}; the last one: {reason}", self.waiting()));
        self.endpoint.pause();
    }
}
