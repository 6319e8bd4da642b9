//! End-to-end tests with real kernel traffic: whatever needs network namespaces is here and nowhere else.
//!
//! The life of a test:
//! 1. [`isolated`] runs the test again in a child that has namespaces of its own: network namespaces for
//!    root, user and network namespaces for every other user. Inside, the test is root.
//! 2. It makes hosts, each a [`Namespace`] without a name, held by a descriptor alone, and joins them by veth
//!    pairs ([`Line`] is the usual arrangement: client, the device under test, server; [`Hosts`] are not
//!    joined yet).
//! 3. Commands run in a host with a limit of time ([`run`]) or in the background ([`Background`]).
//! 4. When the test ends, well or not or by a signal, its processes are ended by the kernel with their parent
//!    ([`start`]), and the namespaces go with their last descriptor. Nothing has a name, so nothing can be
//!    left behind.
//!
//! Limits: needs `ip` (iproute2) and `unshare` (util-linux), and the programs that a test calls.

mod at_port;
mod datagrams;
mod error;
mod hosts;
mod iperf;
mod isolation;
mod line;
mod namespace;
mod process;
mod relay;
mod starter;
mod traffic;

pub use at_port::{broadcast_frame, events_until_up, pool, receive, wait_for};
pub use datagrams::segments_of_udp;
pub use error::TestbedError;
pub use hosts::Hosts;
pub use iperf::Iperf;
pub use isolation::isolated;
pub use line::{CLIENT, Line, SERVER};
pub use namespace::Namespace;
pub use process::{Background, Finished, run};
pub use relay::{Account, Relay, RunningRelay};
pub use starter::{start, start_ended_by};
pub use traffic::{audit, echo, pattern, serve_echo};
