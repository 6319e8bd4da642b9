//! A way to ask the kernel about interfaces of one network namespace, and to change them.

use crate::link::{self, Change, Link};
use rustix::fs::fstat;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Room for what the kernel says of one interface: about 2 KiB.
const ANSWER: usize = 32 << 10;

/// Answers to other requests that are passed over before ours is given up.
const LONGEST_QUEUE: usize = 64;

/// Which network namespace: the number of its file.
pub(crate) type NamespaceId = (u64, u64);

/// A route socket. Stays in the network namespace in which it was made.
#[derive(Debug)]
pub(crate) struct Inquiry {
    socket: OwnedFd,
    namespace: NamespaceId,
    sequence: Cell<u32>,
}

impl Inquiry {
    /// In the network namespace of the calling thread.
    pub fn here() -> io::Result<Inquiry> {
        let own = std::fs::File::open("/proc/thread-self/ns/net")?;
        Inquiry::of_this_thread(own.as_fd())
    }

    /// In another network namespace.
    pub fn within(namespace: BorrowedFd<'_>) -> io::Result<Inquiry> {
        // A thread that has entered another namespace must not be used further.
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
                Inquiry::of_this_thread(namespace)
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn of_this_thread(namespace: BorrowedFd<'_>) -> io::Result<Inquiry> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol is the one of routes and interfaces, NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Inquiry { socket, namespace: identify(namespace)?, sequence: Cell::new(0) })
    }

    /// Where it asks.
    pub fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    /// What the kernel says of an interface, if it is there.
    pub fn link(&self, name: &str) -> io::Result<Option<Link>> {
        self.ask(|sequence| link::query(name, sequence))?.into_link()
    }

    /// Changes an interface.
    pub fn change(&self, index: i32, change: &Change) -> io::Result<()> {
        self.ask(|sequence| link::change(index, change, sequence))?.into_done()
    }

    fn ask(&self, request: impl FnOnce(u32) -> Vec<u8>) -> io::Result<link::Answer> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        send(&self.socket, &request(sequence), SendFlags::empty())?;
        let mut bytes = vec![0; ANSWER];
        // The kernel has answered when `send` returns; what does not belong to this request is older.
        for _ in 0..LONGEST_QUEUE {
            let (length, _) = recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
            if let Some(answer) = bytes.get(..length).and_then(|bytes| link::answer(bytes, sequence)) {
                return Ok(answer);
            }
        }
        Err(io::Error::from(io::ErrorKind::InvalidData))
    }
}

/// Which network namespace a descriptor is of.
pub(crate) fn identify(namespace: BorrowedFd<'_>) -> io::Result<NamespaceId> {
    let status = fstat(namespace)?;
    Ok((status.st_dev, status.st_ino))
}
