//! The thread that waits at a port's socket, so that the worker does not have to.
//!
//! 1. It accepts connections, one at a time, looks at their user, and reads their first message.
//! 2. It makes the memory of the rings, hands it and the pool over, and leaves the engine's side for the
//!    worker.
//! 3. It notices when a heartbeat is missed, the socket is closed, and the process is gone, and tells the
//!    worker.
//! 4. Processes that are attached beside the first wait here. When that one is done for, the worker finds the
//!    next one's side in its place; what the one before had comes back when it is gone.
//! 5. Of a guest of the launcher's it says that a process is to be ended: one that hangs for longer than it
//!    may, or was cut off and lives on. It would else stay, and the next one not come.
//! 6. It tells processes of the device behind the port, and takes their asks for neighbours
//!    ([`device_line`](crate::device_line)).

use crate::device_line::DeviceLine;
use crate::hint;
use crate::processes::{Process, Processes};
use crate::pulse::{Failed, Failure, Pulse};
use crate::session::{Line, Session};
use crate::suspects::Suspects;
use crate::{DeviceTable, Settings};
use local_socket::{Attendant, Doorbells, Endpoint, HasBells, Kind, Opened, Peer, Side, timespec};
use native_abi::{Answer, Attached, Hello, Layout, SIZE_MAX, VERSION};
use native_ring::SharedMemory;
use packet_memory::Pool;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may take for its first message.
const GREETING: Duration = Duration::from_secs(1);
/// How long one may take that will be refused: it keeps others waiting.
const REFUSAL: Duration = Duration::from_millis(50);
/// How often processes are looked at whose sockets are closed and that live; the last few are waited for.
const LINGERING: Duration = Duration::from_secs(1);
/// So many.
const PARTED: usize = 8;
/// How often heartbeats are looked at where another process can take over.
const BEAT: Duration = Duration::from_millis(4);
/// How often it is looked whether a process is to be ended, once one hangs or was cut off.
const SUSPICIOUS: Duration = Duration::from_millis(500);

/// What the attendant leaves for the worker.
#[derive(Debug)]
pub(crate) struct Desk {
    session: Mutex<Option<Session>>,
    /// Why there is no session.
    reason: Mutex<String>,
    /// Connections that were refused.
    pub refused: AtomicU64,
    /// Buffers that came back because a process ended.
    pub given_back: AtomicU64,
    /// Processes that wait to take over.
    pub standby: AtomicU64,
    /// How often one did.
    pub takeovers: AtomicU64,
    /// Addresses that processes asked for.
    pub asks: AtomicU64,
    /// Messages of processes that were none.
    pub message_faults: AtomicU64,
    /// The attendant's is rung when a process is dying.
    pub bells: Doorbells,
}

/// What the thread works with.
struct Work {
    settings: Settings,
    layout: Layout,
    pool: Arc<Pool>,
    processes: Processes,
    /// What processes are told of the device.
    table: Arc<DeviceTable>,
    desk: Arc<Desk>,
    endpoint: Endpoint,
    /// A connection that has not said anything yet.
    greeting: Option<Greeting>,
    attached: Option<Visit>,
    /// Those that wait to take over from it, the first in front.
    standby: Vec<Visit>,
    /// The last processes that closed their sockets, or had them closed, and live.
    parted: Vec<Arc<Process>>,
    /// Whether there are such processes, of this port or another.
    lingering: bool,
    /// Those of a guest that are to be ended if they do not come back.
    suspects: Suspects,
}

/// A connection that has not said anything yet: whose it is, or why it will be refused. It is refused when it
/// has spoken, because what it has not been read of resets its connection, and the reason would not arrive.
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
    /// The worker's side, until the worker has it.
    session: Option<Session>,
    pulse: Pulse,
    /// Where it is told of the device, if it wants to be.
    devices: Option<DeviceLine>,
}

impl Visit {
    /// Looks for a sign of life; whether there was none for so long.
    fn is_hung(&mut self, heartbeat: Duration, now: Instant) -> bool {
        self.pulse.silence(self.line.heartbeat(), now) >= heartbeat
    }
}

impl Desk {
    pub(crate) fn new() -> io::Result<Desk> {
        Ok(Desk {
            session: Mutex::new(None),
            reason: Mutex::new(String::new()),
            refused: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            standby: AtomicU64::new(0),
            takeovers: AtomicU64::new(0),
            asks: AtomicU64::new(0),
            message_faults: AtomicU64::new(0),
            bells: Doorbells::new()?,
        })
    }

    /// A session that has begun.
    pub fn take_session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why there is none.
    pub fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        }
        self.bells.announce();
    }
}

impl HasBells for Desk {
    fn bells(&self) -> &Doorbells {
        &self.bells
    }
}

/// Begins to wait at the socket. One that cannot be made yet is tried again.
pub(crate) fn start(
    settings: &Settings,
    layout: Layout,
    pool: &Arc<Pool>,
    processes: &Processes,
    table: &Arc<DeviceTable>,
) -> io::Result<Attendant<Desk>> {
    let desk = Arc::new(Desk::new()?);
    table.is_for(&desk);
    let mut work = Work {
        settings: settings.clone(),
        layout,
        pool: pool.clone(),
        processes: processes.clone(),
        table: table.clone(),
        desk: desk.clone(),
        endpoint: Endpoint::new(Kind::Messages, Side::Listens, &settings.socket, settings.users),
        greeting: None,
        attached: None,
        standby: Vec::new(),
        parted: Vec::new(),
        lingering: false,
        suspects: Suspects::default(),
    };
    work.listen();
    Attendant::start("native", desk, move || work.run())
}

/// What the thread woke up for.
#[derive(Default)]
struct Seen {
    stop: bool,
    connection: bool,
    greeting: bool,
    /// Something may have become of a process.
    processes: bool,
}

impl Work {
    fn run(mut self) {
        loop {
            let seen = self.wait();
            if seen.stop {
                break;
            }
            if seen.processes {
                self.see_who_is_left();
            }
            let now = Instant::now();
            self.look_at_heartbeats(now);
            self.report(now);
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
            // Others may attach while a process is there.
            if self.endpoint.is_due(false) {
                self.listen();
            }
            if self.lingering || !self.parted.is_empty() {
                self.sweep();
            }
            self.speak_of_devices(now);
        }
        for visit in self.attached.take().into_iter().chain(std::mem::take(&mut self.standby)) {
            self.end(&visit.line);
        }
    }

    fn wait(&self) -> Seen {
        let mut fds = Vec::new();
        let mut add = |fd, flags| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            fds.len() - 1
        };
        add(self.desk.bells.stop(), PollFlags::IN);
        // One connection at a time: others wait, and are refused in their turn.
        let listener = self.endpoint.readable().filter(|_| self.greeting.is_none());
        let listener = listener.map(|listener| add(listener, PollFlags::IN));
        let greeting = self.greeting.as_ref().map(|greeting| add(greeting.connection.as_fd(), PollFlags::IN));
        let first = add(self.desk.bells.attendant(), PollFlags::IN);
        let mut last = first;
        for visit in self.attached.iter().chain(&self.standby) {
            // A closed socket is told without being asked for; what is sent is the worker's to read.
            add(visit.line.socket.as_fd(), PollFlags::empty());
            last = add(visit.line.process.pidfd(), PollFlags::IN);
        }
        for (socket, flags) in self.device_lines().filter_map(DeviceLine::awaited) {
            add(socket, flags);
        }
        for process in &self.parted {
            add(process.pidfd(), PollFlags::IN);
        }
        let timeout = self.patience().map(timespec);
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Seen::default();
        }
        let happened = |index: usize| !fds[index].revents().is_empty();
        Seen {
            stop: happened(0),
            connection: listener.is_some_and(happened),
            greeting: greeting.is_some_and(happened),
            processes: (first..=last).any(happened),
        }
    }

    /// How long there is nothing to do if nothing happens.
    fn patience(&self) -> Option<Duration> {
        let hangs = |visit: &Visit| visit.line.hung.load(Acquire);
        let is_suspicious = !self.suspects.is_empty() || self.attached.as_ref().is_some_and(hangs);
        let spans = [
            self.endpoint.span(false),
            self.greeting.as_ref().map(Greeting::patience),
            self.attached.is_some().then_some(self.heartbeat() / 4),
            (!self.standby.is_empty()).then_some(BEAT),
            self.lingering.then_some(LINGERING),
            (is_suspicious && self.settings.guest.is_some()).then_some(SUSPICIOUS),
            self.device_lines().filter_map(DeviceLine::rest).min(),
        ];
        spans.into_iter().flatten().min()
    }

    fn device_lines(&self) -> impl Iterator<Item = &DeviceLine> {
        self.attached.iter().chain(&self.standby).filter_map(|visit| visit.devices.as_ref())
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_nanos(self.settings.heartbeat.0)
    }

    fn listen(&mut self) {
        match self.endpoint.open() {
            // It is told once.
            Opened::Refused(reason) if reason == self.desk.reason() => {}
            Opened::Refused(reason) => self.desk.tell(Some(reason)),
            Opened::Listening | Opened::Connected(_) | Opened::Absent(_) => {
                self.desk.tell(Some(self.waiting()));
            }
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
        let Some(connection) = self.endpoint.accept() else { return };
        let peer = self.endpoint.admit(&connection);
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
            Ok((peer, devices)) => {
                if let Err(error) = self.attach(connection, peer, devices) {
                    self.desk.tell(Some(format!("{}; the last one failed: {error}", self.waiting())));
                }
            }
            Err(reason) => self.refuse(&connection, &reason),
        }
    }

    /// The process, if it may attach, and whether it wants to be told of its device.
    ///
    /// # Errors
    /// Why not, for the process.
    fn judge(&self, peer: Result<Peer, String>, message: &[u8]) -> Result<(Peer, bool), String> {
        let peer = peer?;
        let Hello { version, devices } = Hello::from_bytes(message).map_err(|error| error.to_string())?;
        if version != VERSION {
            return Err(format!("found: version {version}; allowed: {VERSION}"));
        }
        let Some(visit) = &self.attached else { return Ok((peer, devices)) };
        let others = self.standby.len() as u32;
        if others < self.settings.standby {
            return Ok((peer, devices));
        }
        let pid = visit.line.process.pid;
        Err(match self.settings.standby {
            0 => format!("found: process {pid} is attached; allowed: one process"),
            most => {
                format!("found: process {pid} is attached, and {others} beside it; allowed: {most} beside it")
            }
        })
    }

    fn attach(&mut self, connection: OwnedFd, peer: Peer, devices: bool) -> io::Result<()> {
        let (devices, theirs) = devices.then(DeviceLine::pair).transpose()?.unzip();
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
        let process = self.processes.join(
            (peer.pid, peer.pidfd),
            (self.settings.guest.as_deref(), &self.settings.socket),
            &self.pool,
            self.settings.held,
        );
        let line = Arc::new(Line::new(connection, memory, process));
        let message = Answer::Attached(attached).to_bytes();
        let descriptors: Vec<_> =
            [descriptor, file.as_fd()].into_iter().chain(theirs.as_ref().map(OwnedFd::as_fd)).collect();
        let done = self
            .desk
            .bells
            .watch(&line.socket)
            .and_then(|()| local_socket::send(&line.socket, &message, &descriptors));
        if let Err(error) = done {
            self.leave(&line);
            return Err(error);
        }
        if self.settings.standby > 0 {
            let desk = self.desk.clone();
            if let Err(error) = hint::begin(line.clone(), move || desk.bells.knock()) {
                self.end(&line);
                return Err(error);
            }
        }
        let session = Some(Session::new(line.clone(), self.layout));
        self.standby.push(Visit { line, session, pulse: Pulse::new(Instant::now()), devices });
        // Ports of one function come to the same order.
        self.standby.sort_by_key(|visit| visit.line.process.number);
        match self.attached {
            None => self.promote(),
            Some(_) => self.count_standby(),
        }
        Ok(())
    }

    /// The first process that waits and lives gets the packets, if there is one.
    fn promote(&mut self) {
        let alive = |visit: &Visit| !visit.line.hung.load(Acquire) && !visit.line.dying.load(Acquire);
        let first = self.standby.iter().position(alive).or((!self.standby.is_empty()).then_some(0));
        if let Some(first) = first {
            let mut visit = self.standby.remove(first);
            *self.desk.session.lock().unwrap_or_else(PoisonError::into_inner) = visit.session.take();
            self.attached = Some(visit);
        }
        self.count_standby();
        self.desk.tell(None);
    }

    fn count_standby(&self) {
        self.desk.standby.store(self.standby.len() as u64, Relaxed);
    }

    /// What has become of the process behind a line, if it is not to have packets any more.
    fn fate(line: &Line) -> Option<&'static str> {
        let mut closed = [PollFd::new(&line.socket, PollFlags::empty())];
        let closed = poll(&mut closed, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0);
        if line.cut_off.load(Acquire) {
            Some("was cut off: a count in the shared memory was impossible")
        } else if line.process.is_gone() {
            Some("ended")
        } else if line.dying.load(Acquire) {
            Some("is ending")
        } else {
            closed.then_some("closed its socket")
        }
    }

    /// Processes may be gone or dying, or their sockets closed.
    fn see_who_is_left(&mut self) {
        self.desk.bells.silence();
        if let Some(what) = self.attached.as_ref().and_then(|visit| Work::fate(&visit.line)) {
            self.part(what);
        }
        let gone: Vec<Visit> =
            self.standby.extract_if(.., |visit| Work::fate(&visit.line).is_some()).collect();
        gone.iter().for_each(|visit| self.end(&visit.line));
        self.count_standby();
    }

    /// The process that has the packets is not to have them any more.
    fn part(&mut self, what: &str) {
        let Some(visit) = self.attached.take() else { return };
        visit.line.end();
        let pid = visit.line.process.pid;
        if self.standby.is_empty() {
            self.desk.tell(Some(format!("process {pid} {what}; {}", self.waiting())));
        } else {
            self.desk.takeovers.fetch_add(1, Relaxed);
            self.promote();
        }
        // Not before another one has the packets.
        self.end(&visit.line);
        if self.settings.guest.is_none() {
            return;
        }
        if visit.line.cut_off.load(Acquire) {
            self.suspects.cut_off(visit.line, Instant::now());
        } else if visit.line.hung.load(Acquire) {
            self.suspects.hung(visit.line, visit.pulse);
        }
    }

    fn end(&mut self, line: &Line) {
        line.hang_up();
        line.end();
        hint::end(line);
        self.leave(line);
    }

    fn leave(&mut self, line: &Line) {
        let given_back = self.processes.leave(&line.process, &self.settings.socket, self.settings.held);
        self.desk.given_back.fetch_add(given_back, Relaxed);
        if !line.process.is_gone() && !self.parted.iter().any(|known| Arc::ptr_eq(known, &line.process)) {
            self.parted.truncate(PARTED - 1);
            self.parted.insert(0, line.process.clone());
        }
        self.lingering = self.processes.any_without_ports();
    }

    /// What lived on may have ended.
    fn sweep(&mut self) {
        // What is gone now is swept now.
        self.parted.retain(|process| !process.is_gone());
        self.desk.given_back.fetch_add(self.processes.sweep(), Relaxed);
        self.lingering = self.processes.any_without_ports();
    }

    fn look_at_heartbeats(&mut self, now: Instant) {
        let heartbeat = self.heartbeat();
        for visit in &mut self.standby {
            let hung = visit.is_hung(heartbeat, now);
            visit.line.hung.store(hung, Release);
        }
        let Some(visit) = &mut self.attached else { return };
        let hung = visit.is_hung(heartbeat, now);
        if hung == visit.line.hung.swap(hung, AcqRel) {
            return;
        }
        let silent = format!("showed no sign of life for {} ms", heartbeat.as_millis());
        // One that hangs as well is no better.
        if hung && self.standby.iter().any(|visit| !visit.line.hung.load(Acquire)) {
            return self.part(&silent);
        }
        self.desk.tell(Some(format!("process {} {silent}", visit.line.process.pid)));
    }

    /// Tells processes of the device behind the port, and takes what they ask for.
    fn speak_of_devices(&mut self, now: Instant) {
        let Work { table, desk, attached, standby, .. } = self;
        let latest = table.entries();
        for visit in attached.iter_mut().chain(standby) {
            let Some(devices) = &mut visit.devices else { continue };
            let (told, heard) = (devices.tell(&latest), devices.hear(desk, now));
            if told.as_ref().is_ok_and(|told| *told) {
                visit.line.has_told_of_devices();
            }
            match (told, heard) {
                (Ok(_), Ok(addresses)) if addresses.is_empty() => {}
                (Ok(_), Ok(addresses)) => table.ask(addresses),
                // It wants to know no more.
                _ => visit.devices = None,
            }
        }
    }

    /// Says which processes of a guest are to be ended.
    fn report(&mut self, now: Instant) {
        let heartbeat = self.heartbeat();
        let Some(guest) = &self.settings.guest else { return };
        let is_back = |process: &Arc<Process>| {
            let mut there = self.attached.iter().chain(&self.standby);
            there.any(|visit| Arc::ptr_eq(&visit.line.process, process))
        };
        let mut failed = self.suspects.look(heartbeat, now, is_back);
        for visit in self.attached.iter_mut().chain(&mut self.standby) {
            let silence = visit.pulse.is_lost(heartbeat, now);
            failed.extend(silence.map(|silence| (visit.line.process.pid, Failure::Silent(silence))));
        }
        for (pid, failure) in failed {
            self.processes.report(Failed { guest: guest.clone(), pid, failure });
        }
    }
}
