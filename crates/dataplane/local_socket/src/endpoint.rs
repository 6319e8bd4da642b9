//! A socket where a peer is met: listened at, or connected to, again and again until one comes.

use crate::{Doorbells, Kind, Listener, Peer, Users, connect_as, peer, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often listening or connecting is tried again, and how often a guest's folder is looked at.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is tried where the launcher makes the socket's folder and then waits for the socket.
const SOON: Duration = Duration::from_millis(100);
/// From one peer that connects to the next in the long run, and how many may at once: each costs the port's
/// thread work that no account has, memory files say, and a peer may come and go as fast as it likes.
const APART: Duration = Duration::from_millis(20);
const AT_ONCE: u32 = 64;

/// Which side this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It makes the socket.
    Listens,
    /// The peer makes it.
    Connects,
}

/// What came of [`Endpoint::open`].
#[derive(Debug)]
pub enum Opened {
    /// Peers may connect.
    Listening,
    /// A peer was there.
    Connected(OwnedFd),
    /// It cannot be listened at, in words for the operator.
    Refused(String),
    /// No peer is there.
    Absent(io::Error),
}

/// What a port's thread waits for where a peer is there.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// The peer's connection, if it is read from now.
    pub connection: Option<BorrowedFd<'a>>,
    /// For how long, if not for ever.
    pub span: Option<Duration>,
}

/// What a port's thread woke up for: nothing of it when the time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The port ends.
    pub stop: bool,
    /// The worker has knocked.
    pub knock: bool,
    /// A peer wants to connect.
    pub connection: bool,
    /// The peer has sent something, or has gone.
    pub message: bool,
}

/// See the module's documentation. Nothing but [`Endpoint::wait`] waits.
#[derive(Debug)]
pub struct Endpoint {
    kind: Kind,
    side: Side,
    path: String,
    users: Users,
    listener: Option<Listener>,
    /// When it is opened or looked at next.
    next: Instant,
    /// When as many peers may connect at once again as ever.
    rested: Instant,
}

impl Endpoint {
    /// One that is to be [opened](Endpoint::open), for peers of these users.
    pub fn new(kind: Kind, side: Side, path: &str, users: Users) -> Endpoint {
        let now = Instant::now();
        Endpoint { kind, side, path: path.to_owned(), users, listener: None, next: now, rested: now }
    }

    /// Listens anew, or connects.
    pub fn open(&mut self) -> Opened {
        self.next = Instant::now() + if self.in_guests_folder() { SOON } else { AGAIN };
        // Its file goes before another one is made.
        self.listener = None;
        match self.side {
            Side::Listens => match Listener::bind_as(self.kind, &self.path, self.users) {
                Ok(listener) => {
                    self.listener = Some(listener);
                    Opened::Listening
                }
                Err(reason) => Opened::Refused(reason),
            },
            Side::Connects => match connect_as(self.kind, &self.path) {
                Ok(socket) => Opened::Connected(socket),
                Err(error) => Opened::Absent(error),
            },
        }
    }

    /// Whether it is time to open it: there is neither a peer nor a socket at which one may come, or the
    /// socket was removed with its folder.
    pub fn is_due(&mut self, has_peer: bool) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        if !has_peer && self.listener.is_none() {
            return true;
        }
        self.next = now + AGAIN;
        self.in_guests_folder() && self.listener.as_ref().is_some_and(|listener| !listener.is_in_place())
    }

    /// After how long it may be due if nothing happens.
    pub fn span(&self, has_peer: bool) -> Option<Duration> {
        let seeks = !has_peer && self.listener.is_none();
        // A guest's folder may go without a word.
        let looks = self.in_guests_folder().then_some(AGAIN);
        let now = Instant::now();
        let left = seeks.then(|| self.next.saturating_duration_since(now));
        let turn = self.listener.as_ref().and_then(|_| self.rests(now));
        left.into_iter().chain(looks).chain(turn).min()
    }

    /// How long no peer is taken: too many have come.
    fn rests(&self, now: Instant) -> Option<Duration> {
        let until = self.rested.checked_sub(APART * (AT_ONCE - 1))?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// A peer has gone: another one is looked for later.
    pub fn pause(&mut self) {
        self.next = Instant::now() + AGAIN;
    }

    /// Readable when a peer waits, where this side listens and may take one now.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        let listener = self.listener.as_ref()?;
        self.rests(Instant::now()).is_none().then(|| listener.readable())
    }

    /// Waits until the worker, the peer that is there, or without one the next, wants something, or it is
    /// time to look at the socket. One peer is there at a time: others wait for their turn.
    pub fn wait(&self, bells: &Doorbells, peer: Option<Awaited<'_>>) -> Woken {
        let mut fds = Vec::with_capacity(3);
        let mut add = |fd| {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            fds.len() - 1
        };
        let (stop, knock) = (add(bells.stop()), add(bells.attendant()));
        let next = if peer.is_none() { self.readable().map(&mut add) } else { None };
        let message = peer.and_then(|peer| peer.connection).map(&mut add);
        let span = peer.and_then(|peer| peer.span);
        let timeout = span.into_iter().chain(self.span(peer.is_some())).min().map(timespec);
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Woken::default();
        }
        let happened = |index: usize| !fds[index].revents().is_empty();
        Woken {
            stop: happened(stop),
            knock: happened(knock),
            connection: next.is_some_and(happened),
            message: message.is_some_and(happened),
        }
    }

    /// The next peer; `None` when none waits, or too many have come.
    pub fn accept(&mut self) -> Option<OwnedFd> {
        let now = Instant::now();
        let peer = self.listener.as_ref().filter(|_| self.rests(now).is_none())?.accept()?;
        self.rested = self.rested.max(now) + APART;
        Some(peer)
    }

    /// The process at the other end, if it may be there.
    ///
    /// # Errors
    /// Which it is, and which may.
    pub fn admit(&self, socket: &OwnedFd) -> Result<Peer, String> {
        let peer = peer(socket).map_err(|error| format!("its process is not known: {error}"))?;
        self.users.admit(&self.path, peer.uid).map(|()| peer)
    }

    /// The socket's folder is a guest's, which comes and goes with the launcher's.
    fn in_guests_folder(&self) -> bool {
        self.users == Users::OfFolder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_uid;

    #[test]
    fn one_that_cannot_listen_yet_is_due_again_and_one_that_listens_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("later/a.sock");
        let name = path.display().to_string();
        let mut endpoint = Endpoint::new(Kind::Stream, Side::Listens, &name, Users::own());
        assert!(endpoint.is_due(false), "it was never opened");
        assert!(matches!(endpoint.open(), Opened::Refused(reason) if reason.contains(&name)));
        assert!(!endpoint.is_due(false), "not at once");
        assert!(endpoint.span(false).is_some_and(|span| span <= AGAIN) && endpoint.readable().is_none());
        endpoint.next = Instant::now();
        assert!(endpoint.is_due(false));
        std::fs::create_dir(folder.path().join("later")).expect("a folder");
        assert!(matches!(endpoint.open(), Opened::Listening));
        endpoint.next = Instant::now();
        assert!(!endpoint.is_due(false) && endpoint.span(false).is_none());
        // The folder is no guest's: nobody else takes the socket away.
        std::fs::remove_file(&path).expect("removed");
        endpoint.next = Instant::now();
        assert!(!endpoint.is_due(false));
    }

    #[test]
    fn a_socket_that_went_with_its_guests_folder_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let name = path.display().to_string();
        let mut endpoint = Endpoint::new(Kind::Messages, Side::Listens, &name, Users::OfFolder);
        assert!(matches!(endpoint.open(), Opened::Listening));
        endpoint.next = Instant::now();
        assert!(
            !endpoint.is_due(true) && endpoint.span(true) == Some(AGAIN),
            "it is looked at with a peer, too"
        );
        std::fs::remove_file(&path).expect("removed");
        assert!(!endpoint.is_due(true), "not at once");
        endpoint.next = Instant::now();
        assert!(endpoint.is_due(true));
        assert!(matches!(endpoint.open(), Opened::Listening) && path.exists());
    }

    #[test]
    fn peers_that_come_again_and_again_are_met_so_often_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("a.sock").display().to_string();
        let mut endpoint = Endpoint::new(Kind::Messages, Side::Listens, &name, Users::own());
        assert!(matches!(endpoint.open(), Opened::Listening));
        let meet = |endpoint: &mut Endpoint| {
            let _peer = connect_as(Kind::Messages, &name);
            endpoint.accept().is_some()
        };
        let begin = Instant::now();
        assert!((0..AT_ONCE).all(|_| meet(&mut endpoint)));
        assert!(endpoint.rested >= begin + APART * AT_ONCE, "each counts");
        // As after more of them in no time.
        endpoint.rested = Instant::now() + Duration::from_secs(3600);
        assert!(!meet(&mut endpoint) && endpoint.readable().is_none(), "it waits");
        assert!(endpoint.span(false).is_some_and(|span| span > Duration::from_secs(3000)));
        endpoint.rested = Instant::now();
        assert!(endpoint.readable().is_some() && endpoint.span(false).is_none() && meet(&mut endpoint));
    }

    #[test]
    fn both_sides_meet_and_a_peer_that_has_gone_is_looked_for_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("a.sock").display().to_string();
        let end = |side| Endpoint::new(Kind::Stream, side, &name, Users::own());
        let (mut listens, mut connects) = (end(Side::Listens), end(Side::Connects));
        assert!(matches!(connects.open(), Opened::Absent(_)));
        assert!(matches!(listens.open(), Opened::Listening));
        let Opened::Connected(socket) = connects.open() else { panic!("a peer listens") };
        let other = listens.accept().expect("a peer");
        assert_eq!(connects.admit(&socket).expect("this user's").uid, own_uid());
        assert_eq!(listens.admit(&other).expect("this user's").uid, own_uid());
        connects.next = Instant::now();
        connects.pause();
        assert!(!connects.is_due(false) && connects.span(false).is_some());
    }
}
