//! The processes that are attached to ports, and what each has of a pool.
//!
//! A process that is attached to several ports has one list of buffers for all that are of one pool. It comes
//! back when the process is gone and no port has it any more; a process that closed its sockets and lives
//! keeps its buffers, as it keeps its mapping, until then. Whether it is gone is looked at whenever a port
//! attends to something.

use crate::custody::Custody;
use crate::hint::Hints;
use crate::pulse::Failed;
use packet_memory::Pool;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A process, and what it has of one pool.
#[derive(Debug)]
pub(crate) struct Process {
    pub pid: u32,
    /// The guest of the launcher's that it is of, as the first of its ports knows.
    guest: Option<String>,
    /// Grows with each process that is new to a port: ports of one function have the same one take over.
    pub number: u64,
    pidfd: OwnedFd,
    pool: Arc<Pool>,
    custody: Mutex<Custody>,
    /// Sockets of the ports that it is attached to.
    ports: Mutex<Vec<String>>,
    /// What is to learn of its end before it is gone.
    pub hints: Hints,
}

/// The processes of a host. Ports of one host are opened with clones of one.
#[derive(Clone, Default)]
pub struct Processes {
    known: Arc<Mutex<Known>>,
    failures: Arc<OnceLock<Box<Tell>>>,
}

/// Takes a process that is to be ended.
type Tell = dyn Fn(Failed) + Send + Sync;

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("known", &self.known).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Known {
    processes: Vec<Arc<Process>>,
    /// How many there were.
    count: u64,
}

impl Process {
    /// What it has.
    #[inline]
    pub fn custody(&self) -> MutexGuard<'_, Custody> {
        self.custody.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether the process has ended: its memory is unmapped then.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    fn ports(&self) -> MutexGuard<'_, Vec<String>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes {
    /// Has `tell` called for each process of a guest that is to be ended, on its port's thread, and again
    /// from time to time while it lives. The first one to be given stays.
    pub fn when_failed(&self, tell: impl Fn(Failed) + Send + Sync + 'static) {
        let _ = self.failures.set(Box::new(tell));
    }

    /// A process of a guest is to be ended.
    pub(crate) fn report(&self, failed: Failed) {
        if let Some(tell) = self.failures.get() {
            tell(failed);
        }
    }

    /// The processes of guests that are attached at this socket, of which the folder is that of all guests'
    /// sockets, as this process sees their numbers.
    pub fn attached_at(&self, socket: &str) -> Vec<u32> {
        let all = self.all();
        let is_there = |port: &String| Path::new(port).ends_with(socket);
        let own = all.processes.iter().filter(|process| process.guest.is_some());
        own.filter(|process| process.ports().iter().any(is_there)).map(|process| process.pid).collect()
    }

    /// A process has attached to a port with this socket, of a guest's or of none: it may have so many
    /// buffers more.
    pub(crate) fn join(
        &self,
        (pid, pidfd): (u32, OwnedFd),
        (guest, socket): (Option<&str>, &str),
        pool: &Arc<Pool>,
        held: u32,
    ) -> Arc<Process> {
        let mut all = self.all();
        let known = all
            .processes
            .iter()
            .find(|process| process.pid == pid && Arc::ptr_eq(&process.pool, pool) && !process.is_gone());
        let process = known.cloned().unwrap_or_else(|| {
            all.count += 1;
            let process = Arc::new(Process {
                pid,
                guest: guest.map(str::to_owned),
                number: all.count,
                pidfd,
                pool: pool.clone(),
                custody: Mutex::new(Custody::new(pool.config().buffers)),
                ports: Mutex::default(),
                hints: Hints::default(),
            });
            all.processes.push(process.clone());
            process
        });
        process.ports().push(socket.to_owned());
        process.custody().change_limit(held as isize);
        process
    }

    /// The process is not attached to a port any more. Returns what [`Processes::sweep`] does.
    pub(crate) fn leave(&self, process: &Process, socket: &str, held: u32) -> u64 {
        let mut ports = process.ports();
        if let Some(place) = ports.iter().position(|port| port == socket) {
            ports.swap_remove(place);
        }
        drop(ports);
        process.custody().change_limit(-(held as isize));
        self.sweep()
    }

    /// Takes back what processes had that are gone; returns how many buffers that were.
    pub(crate) fn sweep(&self) -> u64 {
        let mut given_back = 0;
        self.all().processes.retain(|process| {
            if !process.ports().is_empty() || !process.is_gone() {
                return true;
            }
            let left = process.custody().end();
            given_back += left.len() as u64;
            process.pool.return_buffers(left);
            false
        });
        given_back
    }

    /// Whether there are processes that no port has any more, and that live.
    pub(crate) fn any_without_ports(&self) -> bool {
        self.all().processes.iter().any(|process| process.ports().is_empty())
    }

    fn all(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
