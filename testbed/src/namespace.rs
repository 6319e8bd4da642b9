// UNSAFETY: a thread of its own leaves its network namespace, and a child enters one between fork and exec;
// neither has a safe wrapper.
#![allow(unsafe_code)]
//! Network namespaces without names: each lives as long as a descriptor of it.

use crate::process::run;
use crate::{Finished, TestbedError};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Longest time for a command that sets something up.
const SETUP_LIMIT: Duration = Duration::from_secs(10);

/// A host: a network namespace.
#[derive(Debug)]
pub struct Namespace(File);

fn kernel(what: &'static str) -> impl FnOnce(io::Error) -> TestbedError {
    move |source| TestbedError::Kernel { what, source }
}

impl Namespace {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// [`TestbedError::Kernel`].
    pub fn here() -> Result<Namespace, TestbedError> {
        File::open("/proc/thread-self/ns/net")
            .map(Namespace)
            .map_err(kernel("opening the own network namespace"))
    }

    /// A new one, with its loopback interface up and without IPv6, so that nothing is sent that no test asked
    /// for.
    ///
    /// # Errors
    /// [`TestbedError`]: not root, or `ip` failed.
    pub fn new() -> Result<Namespace, TestbedError> {
        let made = thread::spawn(|| {
            // SAFETY: the thread shares no descriptors away and does nothing else; the network namespace is
            // per thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|error| kernel("making a network namespace")(error.into()))?;
            Namespace::here()
        });
        let namespace = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        namespace.quiet()?;
        Ok(namespace)
    }

    /// Switches loopback on and IPv6 off.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn quiet(&self) -> Result<(), TestbedError> {
        self.ip("link set lo up")?;
        self.enter(|| {
            for which in ["all", "default"] {
                // Where /proc/sys is read-only, neighbour discovery is a few packets more.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
            }
        });
        Ok(())
    }

    /// Runs `body` on a thread inside.
    ///
    /// # Panics
    /// When `body` does, or the kernel refuses to enter.
    pub fn enter<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        let inside = || {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("entering a namespace");
            body()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A command that will run inside and ends with the thread that starts it: of [`crate::start`] and
    /// [`crate::Background`], with this process.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let namespace = self.0.try_clone();
        // SAFETY: between fork and exec only two system calls are made; nothing is allocated, no lock is
        // taken.
        unsafe {
            command.pre_exec(move || {
                let namespace = namespace.as_ref().map_err(|error| io::Error::from(error.kind()))?;
                set_parent_process_death_signal(Some(Signal::KILL))?;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(())
            });
        }
        command
    }

    /// Runs a command line inside, words separated by spaces.
    ///
    /// # Errors
    /// [`TestbedError`]: see [`run`].
    pub fn run(&self, line: &str, limit: Duration) -> Result<Finished, TestbedError> {
        let mut words = line.split_whitespace();
        run(self.command(words.next().unwrap_or_default()).args(words), limit)
    }

    /// Runs `ip` with these arguments inside.
    ///
    /// # Errors
    /// [`TestbedError`]: see [`run`].
    pub fn ip(&self, arguments: &str) -> Result<(), TestbedError> {
        self.run(&format!("ip {arguments}"), SETUP_LIMIT).map(|_| ())
    }

    /// Makes a veth pair: `name` here, `other_name` in `other`, both switched on.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn join(&self, name: &str, other: &Namespace, other_name: &str) -> Result<(), TestbedError> {
        self.join_wide(name, other, other_name, 1)
    }

    /// Makes a veth pair with so many queues in each direction.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn join_wide(
        &self,
        name: &str,
        other: &Namespace,
        other_name: &str,
        queues: u32,
    ) -> Result<(), TestbedError> {
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        let path = other.path()?;
        self.ip(&format!("link add {name} {queues} type veth peer name {other_name} {queues} netns {path}"))?;
        self.ip(&format!("link set {name} up"))?;
        other.ip(&format!("link set {other_name} up"))?;
        self.await_carrier(name)?;
        other.await_carrier(other_name)
    }

    /// Waits, not for long, until the kernel says that an interface which was switched on has a carrier: it
    /// looks at that a moment later.
    fn await_carrier(&self, name: &str) -> Result<(), TestbedError> {
        for _ in 0..100 {
            let shown = self.run(&format!("ip -oneline link show {name}"), SETUP_LIMIT)?;
            if shown.stdout.contains(" state UP ") {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Moves an interface to another host, under another name there. It is switched off by that.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn give(&self, name: &str, other: &Namespace, other_name: &str) -> Result<(), TestbedError> {
        self.ip(&format!("link set {name} netns {} name {other_name}", other.path()?))
    }

    /// `ip` takes a path for a namespace. A descriptor of ours is one under our own entry in /proc, whatever
    /// number that /proc knows us by.
    fn path(&self) -> Result<String, TestbedError> {
        let own = std::fs::read_link("/proc/self").map_err(kernel("reading /proc/self"))?;
        Ok(format!("/proc/{}/fd/{}", own.display(), self.0.as_raw_fd()))
    }
}

/// Has a command end, by this signal, with the thread that starts it.
pub(crate) fn ends_with_parent(command: &mut Command, signal: Signal) {
    let parent: Pid = getpid();
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // A parent that has ended meanwhile ends no one any more.
            if getppid() != Some(parent) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
}
