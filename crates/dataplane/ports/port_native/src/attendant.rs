//! The thread that waits at a port's socket, so that the worker does not have to.
//!
//! 1. It accepts connections, one at a time, looks at their user, and reads their first message.
//! 2. It makes the memory of the rings, hands it and the pool over, and leaves the engine's side for the worker.
//! 3. It notices when a heartbeat is missed, the socket is closed, and the process is gone, and tells the worker.

use crate::Settings;
use crate::processes::{Process, Processes};
use crate::session::{Line, Session};
use local_socket::{Listener, Peer};
use native_abi::{Answer, Attached, Hello, Layout, SIZE_MAX, VERSION};
use native_ring::SharedMemory;
use packet_memory::Pool;
use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};
use rustix::net::RecvFlags;
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a connection may take for its first message.
const GREETING: Duration = Duration::from_secs(1);
/// How long one may take that will be refused: it keeps others waiting.
const REFUSAL: Duration = Duration::from_millis(50);
/// How often making the socket is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often processes are looked at whose sockets are closed and that live; the last one is waited for.
const LINGERING: Duration = Duration::from_secs(1);

/// What the attendant leaves for the worker.
#[derive(Debug)]
pub(crate) struct Desk {
    /// There is something that the worker has not seen.
    news: AtomicBool,
    session: Mutex<Option<Session>>,
    /// Why there is no session.
    reason: Mutex<String>,
    /// Connections that were refused.
    pub refused: AtomicU64,
    /// Buffers that came back because a process ended.
    pub given_back: AtomicU64,
    /// Wakes the worker: ours alone, unlike what a process has too.
    bell: OwnedFd,
    /// Readable when the bell was rung, or the process sent something.
    pub readable: OwnedFd,
    stop: OwnedFd,
}

/// The thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Attendant {
    pub desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Work {
    settings: Settings,
    uid: u32,
    layout: Layout,
    pool: Arc<Pool>,
    processes: Processes,
    desk: Arc<Desk>,
    listener: Option<Listener>,
    /// A connection that has not said anything yet.
    greeting: Option<Greeting>,
    attached: Option<Visit>,
    /// The last process that closed its socket, or had it closed, and lives.
    parted: Option<Arc<Process>>,
    /// Whether there are such processes, of this port or another.
    lingering: bool,
}

/// A connection that has not said anything yet: whose it is, or why it will be refused. It is refused when it has spoken,
/// because what it has not been read of resets its connection, and the reason would not arrive.
struct Greeting {
    connection: OwnedFd,
    peer: Result<Peer, String>,
    since: Instant,
}

impl Greeting {
    fn patience(&self) -> Duration {
        if self.peer.is_ok() { GREETING } else { REFUSAL }
    }
}

/// A process that is attached.
struct Visit {
    line: Arc<Line>,
    /// The last sign of life, and when it was seen.
    beat: (u32, Instant),
}

impl Desk {
    fn new() -> io::Result<Desk> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (bell, stop) = (eventfd(0, flags)?, eventfd(0, flags)?);
        let readable = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&readable, &bell)?;
        Ok(Desk {
            news: AtomicBool::new(false),
            session: Mutex::new(None),
            reason: Mutex::new(String::new()),
            refused: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            bell,
            readable,
            stop,
        })
    }

    /// Whether there is something new since this was last asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Relaxed) && self.news.swap(false, AcqRel)
    }

    /// Whether there is something new, without taking note of it.
    pub fn has_unread(&self) -> bool {
        self.news.load(Acquire)
    }

    /// A session that has begun.
    pub fn take_session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why there is none.
    pub fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes what was readable unreadable until there is more.
    pub fn clear(&self) {
        let mut events = Vec::with_capacity(4);
        let _ = epoll::wait(&self.readable, rustix::buffer::spare_capacity(&mut events), Some(&NO_TIME));
    }

    fn tell(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        }
        self.news.store(true, Release);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Edges alone: what was written once is told once, and nothing has to be read from what another process may have
/// made to wait.
fn watch(all: &OwnedFd, one: &OwnedFd) -> io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    Ok(epoll::add(all, one, epoll::EventData::new_u64(0), flags)?)
}

impl Attendant {
    /// Begins to wait at the socket. One that cannot be made yet is tried again.
    pub fn start(
        settings: &Settings,
        layout: Layout,
        pool: &Arc<Pool>,
        processes: &Processes,
    ) -> io::Result<Attendant> {
        let desk = Arc::new(Desk::new()?);
        let mut work = Work {
            settings: settings.clone(),
            uid: settings.uid.unwrap_or_else(local_socket::own_uid),
            layout,
            pool: pool.clone(),
            processes: processes.clone(),
            desk: desk.clone(),
            listener: None,
            greeting: None,
            attached: None,
            parted: None,
            lingering: false,
        };
        work.listen();
        let thread = std::thread::Builder::new().name("native".into()).spawn(move || work.run())?;
        Ok(Attendant { desk, thread: Some(thread) })
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.desk.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread woke up for.
#[derive(Default)]
struct Seen {
    stop: bool,
    connection: bool,
    greeting: bool,
    closed: bool,
    gone: bool,
}

impl Work {
    fn run(mut self) {
        loop {
            let seen = self.wait();
            if seen.stop {
                break;
            }
            if seen.gone || seen.closed {
                self.part();
            }
            self.look_at_heartbeat();
            if seen.greeting {
                self.greet();
            }
            let late = |greeting: &mut Greeting| greeting.since.elapsed() >= greeting.patience();
            if let Some(Greeting { connection, peer, .. }) = self.greeting.take_if(late) {
                self.refuse(&connection, &peer.err().unwrap_or_else(|| "no greeting within 1 s".into()));
            }
            if seen.connection {
                self.accept();
            }
            if self.listener.is_none() {
                self.listen();
            }
            if self.lingering {
                self.sweep();
            }
        }
        if let Some(visit) = self.attached.take() {
            visit.line.hang_up();
            visit.line.end();
            self.leave(&visit.line);
        }
    }

    fn wait(&self) -> Seen {
        let mut fds = vec![PollFd::new(&self.desk.stop, PollFlags::IN)];
        let mut add = |fd, flags| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            fds.len() - 1
        };
        // One connection at a time: others wait, and are refused in their turn.
        let listener = self.listener.as_ref().filter(|_| self.greeting.is_none());
        let listener = listener.map(|listener| add(listener.readable(), PollFlags::IN));
        let greeting = self.greeting.as_ref().map(|greeting| add(greeting.connection.as_fd(), PollFlags::IN));
        let attached = self.attached.as_ref().map(|visit| {
            // A closed socket is told without being asked for; what is sent is the worker's to read.
            let closed = add(visit.line.socket.as_fd(), PollFlags::empty());
            (closed, add(visit.line.process.pidfd(), PollFlags::IN))
        });
        if let Some(process) = &self.parted {
            add(process.pidfd(), PollFlags::IN);
        }
        let timeout = self
            .patience()
            .map(|span| Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) });
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Seen::default();
        }
        let happened = |index: usize| !fds[index].revents().is_empty();
        Seen {
            stop: happened(0),
            connection: listener.is_some_and(happened),
            greeting: greeting.is_some_and(happened),
            closed: attached.is_some_and(|(closed, _)| happened(closed)),
            gone: attached.is_some_and(|(_, gone)| happened(gone)),
        }
    }

    /// How long there is nothing to do if nothing happens.
    fn patience(&self) -> Option<Duration> {
        let heartbeat = Duration::from_nanos(self.settings.heartbeat.0);
        let spans = [
            self.listener.is_none().then_some(AGAIN),
            self.greeting.as_ref().map(Greeting::patience),
            self.attached.is_some().then_some(heartbeat / 4),
            self.lingering.then_some(LINGERING),
        ];
        spans.into_iter().flatten().min()
    }

    fn listen(&mut self) {
        match Listener::bind(&self.settings.socket, self.uid) {
            Ok(listener) => {
                self.listener = Some(listener);
                self.desk.tell(Some(self.waiting()));
            }
            Err(reason) => self.desk.tell(Some(reason)),
        }
    }

    fn waiting(&self) -> String {
        format!("no process is attached at `{}`", self.settings.socket)
    }

    fn refuse(&self, connection: &OwnedFd, reason: &str) {
        self.desk.refused.fetch_add(1, Relaxed);
        let _ = local_socket::send(connection, &Answer::Refused(reason.to_owned()).to_bytes(), &[]);
    }

    fn accept(&mut self) {
        let Some(connection) = self.listener.as_ref().and_then(Listener::accept) else { return };
        let peer = match local_socket::peer(&connection) {
            Ok(peer) if peer.uid == self.uid => Ok(peer),
            Ok(peer) => Err(format!("found: user {}; allowed: user {}", peer.uid, self.uid)),
            Err(error) => Err(format!("its process is not known: {error}")),
        };
        self.greeting = Some(Greeting { connection, peer, since: Instant::now() });
    }

    fn greet(&mut self) {
        let Some(Greeting { connection, peer, .. }) = self.greeting.take() else { return };
        let mut message = [0u8; Hello::LENGTH + 1];
        let length = match rustix::net::recv(&connection, &mut message[..], RecvFlags::DONTWAIT) {
            Ok((_, length)) => length.min(message.len()),
            Err(_) => return,
        };
        // A probe of another port, or a process that gave up.
        if length == 0 {
            return;
        }
        match self.judge(peer, &message[..length]) {
            Ok(peer) => {
                if let Err(error) = self.attach(connection, peer) {
                    self.desk.tell(Some(format!("{}; the last one failed: {error}", self.waiting())));
                }
            }
            Err(reason) => self.refuse(&connection, &reason),
        }
    }

    /// The process, if it may attach.
    ///
    /// # Errors
    /// Why not, for the process.
    fn judge(&self, peer: Result<Peer, String>, message: &[u8]) -> Result<Peer, String> {
        let peer = peer?;
        let Hello { version } = Hello::from_bytes(message).map_err(|error| error.to_string())?;
        if version != VERSION {
            return Err(format!("found: version {version}; allowed: {VERSION}"));
        }
        match &self.attached {
            Some(visit) => {
                Err(format!("found: process {} is attached; allowed: one process", visit.line.process.pid))
            }
            None => Ok(peer),
        }
    }

    fn attach(&mut self, connection: OwnedFd, peer: Peer) -> io::Result<()> {
        let (memory, file) = SharedMemory::create("superfluid-native-rings", self.layout.bytes())?;
        let pool = self.pool.memory();
        let reader = if self.settings.write { None } else { Some(pool.read_only()?) };
        let descriptor = reader.as_ref().map_or(pool.as_fd(), OwnedFd::as_fd);
        let attached = Attached {
            write: self.settings.write,
            layout: self.layout,
            held: self.settings.held.min(self.pool.config().buffers).min(SIZE_MAX),
            buffers: self.pool.config().buffers,
            buffer_size: self.pool.buffer_size(),
            heartbeat: u32::try_from(self.settings.heartbeat.0 / 1_000_000).unwrap_or(u32::MAX),
            config: self.settings.config.clone().into_bytes(),
        };
        let process = self.processes.join(peer.pid, peer.pidfd, &self.pool, self.settings.held);
        let line = Arc::new(Line {
            socket: connection,
            memory: Arc::new(memory),
            process,
            ended: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            hung: AtomicBool::new(false),
        });
        let message = Answer::Attached(attached).to_bytes();
        let done = watch(&self.desk.readable, &line.socket)
            .and_then(|()| local_socket::send(&line.socket, &message, &[descriptor, file.as_fd()]));
        if let Err(error) = done {
            self.leave(&line);
            return Err(error);
        }
        let session = Session::new(line.clone(), self.layout);
        *self.desk.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.attached = Some(Visit { line, beat: (0, Instant::now()) });
        self.desk.tell(None);
        Ok(())
    }

    /// The process is gone, or its socket closed.
    fn part(&mut self) {
        let Some(visit) = self.attached.take() else { return };
        let process = &visit.line.process;
        let what = if visit.line.cut_off.load(Acquire) {
            "was cut off: a count in the shared memory was impossible"
        } else if process.is_gone() {
            "ended"
        } else {
            "closed its socket"
        };
        visit.line.hang_up();
        visit.line.end();
        self.desk.tell(Some(format!("process {} {what}; {}", process.pid, self.waiting())));
        self.leave(&visit.line);
    }

    fn leave(&mut self, line: &Line) {
        let given_back = self.processes.leave(&line.process, self.settings.held);
        self.desk.given_back.fetch_add(given_back, Relaxed);
        self.parted = Some(line.process.clone());
        self.lingering = true;
    }

    /// What lived on may have ended.
    fn sweep(&mut self) {
        self.desk.given_back.fetch_add(self.processes.sweep(), Relaxed);
        self.parted.take_if(|process| process.custody().has_ended());
        self.lingering = self.processes.any_without_ports();
    }

    fn look_at_heartbeat(&mut self) {
        let Some(visit) = &mut self.attached else { return };
        let beat = visit.line.heartbeat();
        if beat != visit.beat.0 {
            visit.beat = (beat, Instant::now());
        }
        let hung = visit.beat.1.elapsed() >= Duration::from_nanos(self.settings.heartbeat.0);
        if hung != visit.line.hung.swap(hung, AcqRel) {
            let pid = visit.line.process.pid;
            let reason = format!(
                "process {pid} showed no sign of life for {} ms",
                self.settings.heartbeat.0 / 1_000_000
            );
            self.desk.tell(Some(reason));
        }
    }
}
