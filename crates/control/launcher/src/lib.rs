//! The launcher: the one part of Superfluid that has the rights to start processes outside of the sandbox.
//!
//! The daemon has no more rights than ports need. What it wants started it asks this part for, which runs as
//! root, in a unit of its own, and believes nothing: what may be started, with which files, for which tenant
//! and as which users is in a file of its own, [`Permits`], that the daemon cannot write. A daemon that was
//! taken over can start and end what this file allows, confined as this part confines it, and gains nothing
//! else.
//!
//! The life of a guest, a container or a program of the host:
//! 1. A [`Request::Start`] comes by the socket; the kernel says which user sent it ([`server`](serve)).
//! 2. [`Permits::check`] finds tenant, image, mounts and interfaces in the file, or refuses the request with
//!    what is allowed. Paths are opened without following links; what was checked is what is used.
//! 3. The image is unpacked, once for a tenant, in the tenant's range of users ([`container_image`]); a
//!    program gets an empty root, into which the folders are bound that the file names. Files that are to be
//!    mounted are copied into the guest's own folder. Where it has interfaces that are sockets, a folder for
//!    them is made, in which the client makes sockets and which the guest sees.
//! 4. `config.json` is written here, nothing of it by the client: user, network, process, mount, IPC, UTS and
//!    cgroup namespaces of its own, a read-only root, bounded temporary file systems, no new privileges,
//!    system calls by an allow list, limits of memory, processor, processes and open files.
//! 5. The OCI runtime (runc or crun) creates the container; the launcher holds it by a pidfd, gives it its
//!    ends of the veth pairs and its TAP devices, whose queues [`Request::Queues`] hands to the client, and
//!    has it started.
//! 6. It ends by itself, by [`Request::Stop`], because its [`Probe`] failed, because its client says that it
//!    has failed ([`Request::Kill`]), or with the launcher. Its control group is killed, its interfaces go,
//!    and [`Request::List`] says how it ended.
//!
//! A launcher that is started again finds what the one before it started, by the records in its folder, the
//! process's start time and the control group, and holds it again; what it cannot hold it ends.
//!
//! A client that wants containers to stay as they are wanted has a [`Keeper`].
//!
//! Limits: [`REQUEST_MAX`], [`CONNECTIONS_MAX`], [`LOG_LINES`] lines of [`LOG_LINE`] bytes for each guest,
//! and those of the file for each tenant.

#![forbid(unsafe_code)]

mod bundle;
mod cgroup;
mod client;
mod error;
mod guests;
mod image_program;
mod images;
mod interfaces;
pub mod keeper;
mod kvm;
mod log;
mod netlink;
mod open_files;
mod orphans;
mod output;
mod permits;
mod probe;
mod program;
mod record;
mod request;
mod runtime;
mod seccomp;
mod server;
mod settings;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;
mod watch;

pub use client::{ClientError, Launcher};
pub use error::{LauncherError, Refusal};
pub use guests::SHARE_HOLDS;
pub use keeper::{Keeper, owner_of};
pub use permits::{Permits, Permitted};
pub use request::{
    Answer, Ended, Failure, Guest, GuestKind, Interface, InterfaceKind, Kill, KvmUse, Limit, Limits, List,
    Listed, Probe, Queues, Request, Share, Start, State, Stop,
};
pub use server::serve;
pub use settings::Settings;

/// Where a guest finds the sockets of its interfaces.
pub const SOCKETS_INSIDE: &str = "/run/superfluid";

/// Longest request, in bytes.
pub const REQUEST_MAX: usize = 64 << 10;

/// Longest answer, in bytes.
pub const ANSWER_MAX: usize = 4 << 20;

/// Longest mark of a guest, in bytes.
pub const MARK_MAX: usize = 512;

/// Most connections of one client, which is a user, at a time.
pub const CONNECTIONS_MAX: usize = 64;

/// Lines of a guest's output that are kept, the newest.
pub const LOG_LINES: usize = 256;

/// Bytes of such a line; the rest of a longer one is lost.
pub const LOG_LINE: usize = 1024;
