//! The socket: which process asks, and one answer for each line.

use crate::client::{NOT_SERVED, UNREAD};
use crate::guests::Guests;
use crate::request::{Answer, Request};
use crate::stream::send;
use crate::{ANSWER_MAX, CONNECTIONS_MAX, LauncherError, Permits, REQUEST_MAX, Refusal, Settings};
use rustix::fs::FlockOperation;
use rustix::net::sockopt::socket_peercred;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How long an answer may wait for its reader.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until SIGTERM or SIGINT, then ends all guests.
///
/// # Errors
/// [`LauncherError`]: why it does not start.
pub fn serve(settings: &Settings) -> Result<(), LauncherError> {
    let user = rustix::process::geteuid().as_raw();
    if user != 0 {
        return Err(LauncherError::NotRoot(user));
    }
    let settings = &settings.whole().map_err(LauncherError::file("."))?;
    let permits = Permits::read(&settings.permits)?;
    crate::images::passable(&settings.run).map_err(LauncherError::file(&settings.run))?;
    let lock = settings.run.join("lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let locked = local_file::open_with(&lock, &mut options).map_err(LauncherError::file(&lock))?;
    rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| LauncherError::InUse(settings.run.clone()))?;
    // Processes whose parents have ended become this one's: it is told how they ended.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| LauncherError::file("/proc/self")(error.into()))?;
    crate::orphans::begin().map_err(LauncherError::file("threads"))?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(LauncherError::file("signals"))?;
    let socket = &settings.socket;
    make_room(socket).map_err(LauncherError::file(socket))?;
    let guests = Guests::open(settings, permits)?;
    let listener = UnixListener::bind(socket).map_err(LauncherError::file(socket))?;
    // Every user may connect: the kernel says which one it is, and the file says which are served.
    fs::set_permissions(socket, Permissions::from_mode(0o666)).map_err(LauncherError::file(socket))?;
    console::output().line(&format!("superfluid launcher: listening on {}", socket.display()));
    let accepting = Arc::clone(&guests);
    Builder::new()
        .name("accept".into())
        .spawn(move || accept(&listener, &accepting))
        .map_err(LauncherError::file(socket))?;
    // The first one begins the end.
    let _ = signals.forever().next();
    let removed = fs::remove_file(socket).map_err(LauncherError::file(socket));
    guests.stop_all();
    removed
}

/// Removes a socket that nothing listens at any more: that of a launcher that has ended. What else is there
/// stays, and is told.
fn make_room(socket: &Path) -> io::Result<()> {
    let in_the_way = |what| io::Error::new(ErrorKind::AlreadyExists, what);
    match fs::symlink_metadata(socket) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(in_the_way("found what is no socket; allowed: a path where nothing is"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(socket),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(in_the_way("another program listens there")),
    }
}

/// Open connections by the user at their other end: no client's are another's.
#[derive(Debug, Default)]
struct Connections(Mutex<BTreeMap<u32, usize>>);

impl Connections {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, if there may be.
    fn enter(&self, client: u32) -> Result<(), Refusal> {
        let mut all = self.all();
        let open = all.entry(client).or_default();
        if *open >= CONNECTIONS_MAX {
            return Err(Refusal::new(format!(
                "{UNREAD} user {client} has {open} connections open; allowed: {CONNECTIONS_MAX} of each client"
            )));
        }
        *open += 1;
        Ok(())
    }

    fn leave(&self, client: u32) {
        if let Some(open) = self.all().get_mut(&client) {
            *open = open.saturating_sub(1);
        }
    }
}

fn accept(listener: &UnixListener, guests: &Arc<Guests>) {
    let connections = Arc::new(Connections::default());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Of descriptors or memory there are none left just now.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let admitted = admit(&stream, guests.permits());
        let client = match admitted.and_then(|client| connections.enter(client).map(|()| client)) {
            Ok(client) => client,
            Err(refused) => {
                let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
                let _ = answer(&stream, &Answer::Refused(refused.to_string()), &[]);
                continue;
            }
        };
        let (guests, counted) = (Arc::clone(guests), Arc::clone(&connections));
        let serving = move || {
            // A client that is gone is told nothing.
            let _ = converse(&stream, client, &guests);
            counted.leave(client);
        };
        if Builder::new().name("client".into()).spawn(serving).is_err() {
            connections.leave(client);
        }
    }
}

/// The user at the other end, if the file lets it ask (unix(7), `SO_PEERCRED`).
fn admit(stream: &UnixStream, permits: &Permits) -> Result<u32, Refusal> {
    let found = socket_peercred(stream).map_err(Refusal::of("the client's user is not known"))?.uid.as_raw();
    if permits.serves(found) {
        return Ok(found);
    }
    Err(Refusal::new(format!(
        "{NOT_SERVED}{found} asks; allowed: root and the `clients` of the launcher's file"
    )))
}

fn converse(stream: &UnixStream, client: u32, guests: &Arc<Guests>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(REQUEST_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            let why = format!("a request without an end; allowed: a line of at most {REQUEST_MAX} bytes");
            return answer(stream, &Answer::Refused(why), &[]);
        }
        let (answered, queues) = reply(&line, client, guests);
        answer(stream, &answered, &queues)?;
    }
}

/// The answer, and descriptors with it.
fn reply(line: &[u8], client: u32, guests: &Arc<Guests>) -> (Answer, Vec<OwnedFd>) {
    let done = |done: Result<(), Refusal>| match done {
        Ok(()) => Answer::Done,
        Err(refused) => Answer::Refused(refused.to_string()),
    };
    let answer = match serde_json::from_slice(line) {
        Ok(Request::Start(start)) => done(guests.start(&start, client)),
        Ok(Request::Check(start)) => done(guests.check(&start)),
        Ok(Request::Limit(limit)) => done(guests.limit(&limit)),
        Ok(Request::Share(share)) => match guests.share(&share) {
            Ok(used) => Answer::Used(used),
            Err(refused) => Answer::Refused(refused.to_string()),
        },
        Ok(Request::Stop(stop)) => done(guests.stop(&stop)),
        Ok(Request::Kill(kill)) => done(guests.kill(&kill)),
        Ok(Request::List(list)) => Answer::Guests(guests.list(&list)),
        Ok(Request::Queues(of)) => match guests.queues(&of.name) {
            Ok(queues) => {
                let (names, queues) = queues.into_iter().unzip();
                return (Answer::Queues(names), queues);
            }
            Err(refused) => Answer::Refused(refused.to_string()),
        },
        Err(error) => done(Err(Refusal::new(format!("{UNREAD} {error}")))),
    };
    (answer, Vec::new())
}

fn answer(stream: &UnixStream, answer: &Answer, queues: &[OwnedFd]) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer).map_err(std::io::Error::other)?;
    if line.len() >= ANSWER_MAX {
        line = serde_json::to_vec(&Answer::Refused(format!("an answer of {} bytes", line.len())))?;
    }
    line.push(b'\n');
    send(stream, &line, queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_removed_for_the_socket_but_one_that_nothing_listens_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("launcher.yaml");
        make_room(&at).expect("nothing is there");
        fs::write(&at, "clients: {}").expect("written");
        let told = make_room(&at).expect_err("a file").to_string();
        assert_eq!(told, "found what is no socket; allowed: a path where nothing is");
        assert_eq!(fs::read(&at).expect("still there"), b"clients: {}");
        let at = folder.path().join("socket");
        let listener = UnixListener::bind(&at).expect("a socket");
        assert_eq!(make_room(&at).expect_err("in use").to_string(), "another program listens there");
        drop(listener);
        make_room(&at).expect("nothing listens any more");
        assert!(!at.exists());
    }

    #[test]
    fn a_fifo_in_the_place_of_its_file_keeps_no_start_waiting() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("launcher.yaml");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        let told = Permits::read(&fifo).map(drop).expect_err("no file").to_string();
        assert!(told.contains("launcher.yaml: found a FIFO; allowed: a regular file"), "{told}");
    }

    #[test]
    fn a_client_that_opens_all_its_connections_takes_none_of_anothers() {
        let connections = Connections::default();
        assert!((0..CONNECTIONS_MAX).all(|_| connections.enter(998).is_ok()));
        let refused = connections.enter(998).expect_err("one too many").to_string();
        assert!(refused.contains("user 998 has 64 connections open; allowed: 64"), "{refused}");
        assert_eq!(connections.enter(0), Ok(()));
        connections.leave(998);
        assert_eq!(connections.enter(998), Ok(()));
    }
}
