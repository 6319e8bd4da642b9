//! The programs that Superfluid is compared with: DPDK's testpmd, Open vSwitch with DPDK, and Suricata, each
//! configured at its best, run as a process and measured. What each setting is for is told in
//! `docs/peers.md`.
//!
//! The life of a peer:
//! 1. [`missing`] says which programs are not installed, and the command that installs them. Nothing is
//!    installed here.
//! 2. [`Testpmd::start`], [`OpenVswitch::start`] or [`l3fwd::L3fwd::start`] writes what the program needs
//!    into a [`Folder`] of its own, starts it in a network namespace of its own, and waits until its polling
//!    thread polls. Suricata runs a capture to its end instead, [`Suricata::read`], or takes packets as they
//!    come, [`Inspector`].
//! 3. While the other side is measured it is stopped ([`Polling::pause`]), so that it takes no processor time
//!    and no cache; then it goes on ([`Polling::resume`]) and is given time to warm up.
//! 4. [`Polling::measure`] gives the packets that it sent in a window and the processor time of its polling
//!    threads, which does not count what other programs took.
//! 5. When the value is dropped the process is killed by its number, and the folder removed. A process that
//!    ends takes its peers along; a folder that a killed process left behind is removed by the next.
//!
//! Traffic comes from captures in memory ([`frames`], [`dialogues`], and [`exchanges`] for
//! [`public_rules`]), or from the kernel itself ([`Flood`] into a [`VethLine`]), which sends faster than any
//! program in user space could.
//!
//! Limits: Linux, root (network namespaces, huge pages, BPF), two processors at least: the polling thread of
//! the program that is measured has the last one to itself, everything else has the first.

mod capture;
mod connection;
mod cores;
pub mod dialogues;
mod dpdk;
mod error;
pub mod exchanges;
mod flood;
mod folder;
pub mod frames;
mod inspector;
mod install;
pub mod l3fwd;
mod memif;
mod openvswitch;
mod openvswitch_line;
mod openvswitch_memif;
mod polling;
mod process;
pub mod public_rules;
mod speech;
mod suricata;
mod testpmd;
mod testpmd_loop;
mod tun;
mod veth;
mod vhost;

pub use capture::{CaptureWriter, read_frames};
pub use cores::{Claim, Cores, SoftirqThread, free_huge_pages, thread_time};
pub use error::PeerError;
pub use flood::Flood;
pub use folder::Folder;
pub use inspector::{INTERFACE, Inspector, Taken, Taking};
pub use install::{missing, missing_l3fwd, missing_of};
pub use memif::MemifPair;
pub use openvswitch::{FlowCaches, OpenVswitch, Tracked};
pub use openvswitch_line::OpenVswitchLine;
pub use openvswitch_memif::OpenVswitchMemif;
pub use polling::{Busy, Polling, Window};
pub use suricata::{Alerts, PARSERS, Parsers, Reading, Suricata};
pub use testpmd::{Driver, Testpmd};
pub use testpmd_loop::TestpmdLoop;
pub use tun::Tun;
pub use veth::{IN, OUT, VethLine};
pub use vhost::TestpmdVhost;
