//! What clients ask and what they are told: one JSON object a line, each way.
//!
//! `{"start": {...}}`, `{"check": {...}}`, `{"limit": {...}}`, `{"share": {...}}`,
//! `{"stop": {"name": "ids"}}`, `{"list": {}}`, `{"queues": {"name": "ids"}}`, `{"kill": {...}}`; answered by
//! `{"done": null}`, `{"guests": {...}}`, `{"used": {...}}`, `{"queues": [...]}` or `{"refused": "..."}`. An
//! unknown key is refused: there is none for users, namespaces, devices, capabilities or hooks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Start a guest; answered when it runs.
    Start(Box<Start>),
    /// Say whether a start would be allowed, and find what it names: nothing is started, made or unpacked.
    Check(Box<Start>),
    /// Change the limits of one that runs.
    Limit(Limit),
    /// Set how much of the processors some may use until the share is over, and say what they have used.
    Share(Share),
    /// End one and forget it; answered when it is gone.
    Stop(Stop),
    /// Say what there is.
    List(List),
    /// Hand over the queues of a guest's TAP devices: one descriptor for each, with the answer.
    Queues(Queues),
    /// Kill one that has failed, and keep how it ended; answered when it was sent the signal.
    Kill(Kill),
}

/// A guest to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Its name on this host: letters, digits, `_`, `-`, at most 32.
    pub name: String,
    /// Whose it is; one of those of the launcher's file.
    pub tenant: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "GuestKind::is_container")]
    pub guest: GuestKind,
    /// The folder of an OCI image layout, an absolute path; of containers alone, and required there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The digest of its manifest, if it has to be this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Program and arguments; the image's own where it is empty. A [program](GuestKind::Program) has to be
    /// named: its path, below one of the folders that the launcher's file has for programs.
    #[serde(default)]
    pub command: Vec<String>,
    /// Its network interfaces beside loopback.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// The guest of the same tenant that it stands by: it has that one's sockets, and Ethernet addresses like
    /// that one's interfaces of the same names. Without this it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets_of: Option<String>,
    /// Files and folders of the host that it may read, by the path that they have inside.
    #[serde(default)]
    pub mounts: BTreeMap<String, String>,
    /// What it may use.
    pub limits: Limits,
    /// The processors of the worker beside which it stays, empty where that one may run on all. Without this
    /// it runs anywhere. One that stays beside a worker gives way to it, as all of these together do; it is
    /// given its part by [`Request::Share`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Vec<u32>>,
    /// Whether it gets `/dev/kvm`.
    #[serde(default, skip_serializing_if = "KvmUse::is_no")]
    pub kvm: KvmUse,
    /// How it is found out whether it still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// A text of the client's, at most [`MARK_MAX`](crate::MARK_MAX) bytes, that [`Request::List`] says
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// How it is found out whether a guest still works: by a program that is run inside and ends with status 0,
/// or by a TCP port of its own that takes a connection. One that fails is killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// A program of the guest's and its arguments; or `tcp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exec: Vec<String>,
    /// A port; or `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// How long after one the next begins, in milliseconds.
    #[serde(default = "second")]
    pub every_ms: u32,
    /// How long one may take.
    #[serde(default = "second")]
    pub within_ms: u32,
    /// After so many failures in a row it is killed.
    #[serde(default = "once")]
    pub failures: u32,
    /// Failures do not count for so long after the start, until one has succeeded.
    #[serde(default = "starting")]
    pub start_ms: u32,
}

fn second() -> u32 {
    1000
}

fn once() -> u32 {
    1
}

fn starting() -> u32 {
    10_000
}

impl Start {
    /// The guest whose folder of sockets it has.
    pub(crate) fn folder(&self) -> &str {
        self.sockets_of.as_deref().unwrap_or(&self.name)
    }
}

/// What a guest is. All are confined alike; what differs is where their files come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestKind {
    /// The files of an image.
    #[default]
    Container,
    /// Folders of the host, read-only, which the launcher's file names.
    Program,
}

impl GuestKind {
    fn is_container(&self) -> bool {
        *self == GuestKind::Container
    }
}

/// Whether a guest gets `/dev/kvm`: where the launcher's file lets its tenant have it, and it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvmUse {
    /// It does not.
    #[default]
    No,
    /// It runs without, where it cannot have it.
    IfPossible,
    /// It is refused, where it cannot have it.
    Required,
}

impl KvmUse {
    fn is_no(&self) -> bool {
        *self == KvmUse::No
    }
}

/// What a guest gets packets by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Its name inside.
    pub name: String,
    /// What it is.
    #[serde(rename = "as", default, skip_serializing_if = "InterfaceKind::is_veth")]
    pub kind: InterfaceKind,
    /// Of a veth pair the name of the other end, in the launcher's network namespace; of a TAP device the
    /// name that its queue is handed over by. It begins with `sfg`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub outer: String,
    /// Addresses with their prefix lengths, `192.0.2.1/24`. Without any, the guest may use packet sockets.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Routers of its default routes, at most one of IPv4 and one of IPv6 of all interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<IpAddr>,
    /// The longest IP packet of a TAP device; the kernel's default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The Ethernet address of the guest's end, `02:00:00:00:00:01`; without it one that follows from the
    /// names of the guest and of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

impl Interface {
    /// One of this kind that has nothing else.
    pub fn new(name: &str, kind: InterfaceKind) -> Interface {
        let (name, outer) = (name.to_owned(), String::new());
        Interface { name, kind, outer, addresses: Vec::new(), gateways: Vec::new(), mtu: None, mac: None }
    }
}

/// What an interface is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfaceKind {
    /// An end of a veth pair.
    #[default]
    Veth,
    /// A TAP device, whose queue [`Request::Queues`] hands over.
    Tap,
    /// The UNIX socket `NAME.sock` in the folder of the guest's sockets, which the client makes there and the
    /// guest finds in [`SOCKETS_INSIDE`](crate::SOCKETS_INSIDE). What is spoken there is theirs to know.
    Socket,
}

impl InterfaceKind {
    fn is_veth(&self) -> bool {
        *self == InterfaceKind::Veth
    }
}

/// What a guest may use of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of memory, its files in temporary file systems included.
    pub memory: u64,
    /// Its part of the processors in relation to others, 1 to 10,000.
    #[serde(default = "weight")]
    pub weight: u32,
    /// The most processor time, in thousandths of one processor; as much as there is without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Processes and threads.
    #[serde(default = "processes")]
    pub processes: u32,
    /// Open files of each process.
    #[serde(default = "files")]
    pub files: u32,
}

impl Limits {
    /// The least of everything.
    pub(crate) fn least() -> Limits {
        Limits { memory: 0, weight: 1, cap: None, processes: 1, files: 1 }
    }
}

fn weight() -> u32 {
    100
}

fn processes() -> u32 {
    256
}

fn files() -> u32 {
    1024
}

/// New limits; `files` stays what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Whose.
    pub name: String,
    /// What it may use from now on.
    pub limits: Limits,
}

/// What guests may use of the processors, for [`SHARE_HOLDS`](crate::SHARE_HOLDS).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// By name: at most so many thousandths of one processor, 10 at least, within the guest's `cap`, until it
    /// is said again or [`SHARE_HOLDS`](crate::SHARE_HOLDS) has passed; `null`: as its limits are. Those that
    /// do not run are passed over.
    pub most: BTreeMap<String, Option<u32>>,
}

/// A guest to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Which.
    pub name: String,
    /// How long it may take after SIGTERM, in milliseconds, at most 10,000; then it is killed.
    #[serde(default)]
    pub grace_ms: u32,
}

/// Whose queues are to be handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queues {
    /// Which guest's.
    pub name: String,
}

/// A guest that has failed, as its client has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Which, or the one that it stands by.
    pub name: String,
    /// One of its processes, in the launcher's PID namespace: which of those that stand by each other it is.
    pub pid: u32,
    /// At most 256 processes, those at each of its sockets: it is not killed if it has one at each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<Vec<u32>>,
    /// Why.
    pub failure: Failure,
}

/// What a guest has done for which it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// It has shown no sign of life for so many milliseconds, and was to.
    #[serde(rename = "silent_ms")]
    Silent(u32),
    /// It has written what cannot be to memory that it shares with its client.
    CutOff,
    /// It has not attached at its sockets for so many milliseconds, and was to.
    #[serde(rename = "unattached_ms")]
    Unattached(u32),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Silent(ms) => write!(f, "heartbeat missed: no sign of life for {ms} ms"),
            Failure::CutOff => {
                f.write_str("it wrote what cannot be to the memory of its rings, and lived on")
            }
            Failure::Unattached(ms) => {
                write!(f, "it has not attached at all of its sockets within {ms} ms")
            }
        }
    }
}

/// What is to be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Answer when something has changed since the answer with this version, or after `wait_ms`.
    #[serde(default)]
    pub after: Option<u64>,
    /// At most 30,000.
    #[serde(default)]
    pub wait_ms: u32,
    /// With the log of this one.
    #[serde(default)]
    pub log_of: Option<String>,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// What there is.
    Guests(Listed),
    /// Processor time that the control groups have had that a share was set for, by name, in microseconds.
    Used(BTreeMap<String, u64>),
    /// The `outer` of each TAP device, in the order of the descriptors that came with this.
    Queues(Vec<String>),
    /// It is not done, and why.
    Refused(String),
}

/// All guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Increases with each change.
    pub version: u64,
    /// By name.
    pub guests: Vec<Guest>,
}

/// A guest as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Whether it runs.
    pub state: State,
    /// What the client that started it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Bytes of memory that its control group has, without files that the kernel takes back first.
    pub memory: Option<u64>,
    /// Processes of it that the kernel has ended because there was no memory below its limit.
    #[serde(default)]
    pub killed_for_memory: u64,
    /// Processor time that its control group has had, in microseconds.
    pub cpu_us: Option<u64>,
    /// When its first process was started, in clock ticks since the host's start; of one that runs.
    #[serde(default)]
    pub began: Option<u64>,
    /// Whether it runs and has answered its probe once, if it has one.
    #[serde(default)]
    pub ready: bool,
    /// Lines of its output, the newest last, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Lines of its output that were lost.
    pub log_lost: u64,
}

/// Whether a guest runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being started.
    Starting,
    /// Its interfaces are there, and its program is being started.
    Attached,
    /// It runs.
    Running {
        /// Its first process, in the launcher's PID namespace.
        pid: u32,
    },
    /// It has ended, and is kept until it is stopped or started again.
    Ended(Ended),
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its first process ended with this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its probe failed, and it was killed.
    Probe,
    /// Its client found that it had failed, and it was killed.
    Failed(Failure),
    /// The kernel ended it, because it needed more memory than its limit.
    Memory,
    /// It ended while no launcher ran, or before it was the launcher's.
    Unknown,
}
