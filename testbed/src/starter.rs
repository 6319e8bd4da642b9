//! The thread that starts what is to end with the process of a test.
//!
//! The kernel ends a child when the *thread* that started it ends (`PR_SET_PDEATHSIG`), and tests start
//! daemons on threads that are only there to enter a namespace. So one thread starts them all, and does
//! nothing else as long as the process lives: however a test ends, nothing of it goes on.
//!
//! 1. [`start`] hands over a command, and the network namespace of the calling thread.
//! 2. The thread moves there, if it is elsewhere, and starts it: what else a child has of its parent is of
//!    the process and the same for all threads.
//! 3. Between fork and exec the child asks for the signal, and looks whether its parent has ended meanwhile.
//!
//! Limits: what the child starts is its own affair. A launcher is therefore to be ended by SIGTERM, at
//! which it ends its guests: they outlive a SIGKILL. A program with capabilities of its file's (`ping`) is
//! not ended by its parent's end.

use crate::namespace::ends_with_parent;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Where the calling thread's network namespace is found.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

struct Wanted {
    command: Command,
    namespace: File,
    answer: Sender<(Command, io::Result<Child>)>,
}

/// Starts a command as [`Command::spawn`] does, in the calling thread's network namespace. What it becomes is
/// ended by SIGKILL when this process has ended.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn start(command: &mut Command) -> io::Result<Child> {
    start_ended_by(command, Signal::KILL)
}

/// The same with another signal.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn start_ended_by(command: &mut Command, signal: Signal) -> io::Result<Child> {
    static STARTER: LazyLock<io::Result<Mutex<Sender<Wanted>>>> = LazyLock::new(|| {
        let (sender, wanted) = channel();
        thread::Builder::new().name("starter".into()).spawn(move || serve(&wanted))?;
        Ok(Mutex::new(sender))
    });
    let gone = || io::Error::other("the thread that starts processes has ended");
    let starter = STARTER.as_ref().map_err(|error| io::Error::from(error.kind()))?;
    let namespace = File::open(NAMESPACE)?;
    ends_with_parent(command, signal);
    let (answer, answered) = channel();
    let wanted = Wanted { command: std::mem::replace(command, Command::new("")), namespace, answer };
    starter.lock().unwrap_or_else(PoisonError::into_inner).send(wanted).map_err(|_| gone())?;
    let (back, child) = answered.recv().map_err(|_| gone())?;
    *command = back;
    child
}

/// Never ends: the sender is kept as long as the process lives.
fn serve(wanted: &Receiver<Wanted>) {
    while let Ok(Wanted { mut command, namespace, answer }) = wanted.recv() {
        let child = stand_in(&namespace).and_then(|()| command.spawn());
        // The caller waits for it.
        let _ = answer.send((command, child));
    }
}

/// Moves this thread to a network namespace. Where it is there already no right is needed.
fn stand_in(namespace: &File) -> io::Result<()> {
    if File::open(NAMESPACE)?.metadata()?.ino() != namespace.metadata()?.ino() {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    Ok(())
}
