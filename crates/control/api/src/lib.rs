//! What the daemon and its clients say to each other: the objects, the answers, the problems and the paths of
//! the REST interface. Types only; nothing here reads, writes or waits.
//!
//! The life of an object:
//! 1. An entry of the operator's file, `functions: {fw: {image: firewall}}`, is the object `function/fw`;
//!    what stands there is its [`spec`](Object::spec), as JSON. A client sends it as a [`Desired`].
//! 2. [`Kind`] and [`ObjectName`] say which object it is, [`paths`] where it is found: `/v1/functions/fw`.
//! 3. The daemon answers with an [`Object`]: the same spec, with the `version` that wrote it and the `status`
//!    that it has now; or, for a change that was only tried, with the [`Difference`] that it would make.
//! 4. What takes long is an [`Operation`] to look at. What happens is told as [`Event`]s.
//! 5. What is refused is answered with a [`Problem`] (RFC 9457) that has all [`Fault`]s, each with its place.
//!
//! All types have JSON schemas, from which the description of the interface is made that the daemon serves,
//! so that what is written beside a field here is what a stranger reads there.
//!
//! Versions and revisions are numbers below 2^53, which every JSON reader takes exactly: at a million changes
//! a second they last for 285 years. Times are text after RFC 3339, in UTC.

#![forbid(unsafe_code)]

mod check;
mod checked_name;
mod device;
mod difference;
mod event;
mod function;
mod function_event;
mod graph;
mod history;
mod image;
mod kind;
mod log;
mod name;
mod neighbour;
mod object;
mod operation;
mod page_link;
pub mod paths;
mod problem;
mod registry_login;
mod snapshot;
mod tenant_device;
#[cfg(test)]
mod tests;
mod token;
mod watch;

pub use check::{CheckReport, PlacedFault};
pub use checked_name::{NAME_PATTERN, Name};
pub use device::{DeviceAddress, DeviceOpener, DevicePort, DeviceState, DeviceStatus, Traffic};
pub use difference::Difference;
pub use event::{Event, Happened, PastEvent, PastEvents};
pub use function::{
    ContainerProcessor, ContainerStandby, FunctionMemory, FunctionState, FunctionStatus, GuestKind, Latency,
    Upgrade, guest_of,
};
pub use function_event::{FunctionEvent, FunctionEventKind, FunctionReport};
pub use graph::{EdgeKind, EdgeTraffic, Graph, GraphEdge, GraphNode, NodeKind};
pub use history::{HistoryLatency, HistoryLine, HistoryMinute, HistoryMoment, HistoryObjects, HistorySpan};
pub use image::Image;
pub use kind::Kind;
pub use log::LogLine;
pub use name::{NAME_MAX, NameError, ObjectName, check_name, names_at, wire_name};
pub use neighbour::{
    AddressOrigin, AddressState, DeviceNeighbours, DhcpClient, Neighbour, NeighbourProtocol, NeighbourState,
    Station, StationAddress, StationFrames,
};
pub use object::{Desired, Health, List, Object, attached_to};
pub use operation::{Operation, OperationState};
pub use page_link::{LINK_PREFIX, PageLink};
pub use problem::{Fault, FaultKind, FaultSource, Problem, ProblemType};
pub use registry_login::{NewRegistryLogin, Password, RegistryLogin};
pub use snapshot::{Adopt, Restore, RotatedKey, Save, Snapshot};
pub use tenant_device::{TENANT_KEYS, TENANT_PORT_KEYS, kept_from_tenants, ports_under};
pub use token::{IssuedToken, NewToken, TOKEN_DIGITS, TOKEN_PREFIX, Token, is_secret};
pub use watch::{
    Capture, TRACED, TRACED_HEADS, TRACED_MAX, Trace, TraceEnd, TraceHop, TraceLine, TracedPacket, WayEnd,
};

/// The tenant of objects that name none.
pub const DEFAULT_TENANT: &str = "default";

/// Version of the interface: the first part of all paths.
pub const VERSION: &str = "v1";

/// Content type of problem documents.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Content type of streams: one JSON object a line.
pub const JSON_LINES: &str = "application/jsonl";

/// Content type of captures (draft-ietf-opsawg-pcapng).
pub const PCAPNG: &str = "application/pcapng";
/// Content type of backups.
pub const TAR: &str = "application/x-tar";
