//! Open vSwitch with DPDK between two memif ports: what comes in by one goes out by the other.

use crate::dpdk::Telemetry;
use crate::openvswitch::{FlowCaches, Place};
use crate::polling::{Busy, Polling};
use crate::process::Process;
use crate::{Cores, Folder, PeerError};
use std::path::PathBuf;
use std::time::Duration;
use testbed::Namespace;

/// Megabytes of huge pages.
const MEMORY: u32 = 1024;
/// The sockets, in the folder.
const SOCKETS: [&str; 2] = ["left.sock", "right.sock"];
/// No connection tracking, no learning.
const FLOWS: &str = "in_port=1,actions=output:2\nin_port=2,actions=output:1\n";

/// A running Open vSwitch.
#[derive(Debug)]
pub struct OpenVswitchMemif {
    /// To measure it by.
    pub polling: Polling,
    /// What it was told.
    pub configuration: String,
    namespace: Namespace,
    // In this order: the daemon ends before its database, and the folder goes last.
    _database: Process,
    folder: Folder,
}

impl OpenVswitchMemif {
    /// Starts it; it listens at [`OpenVswitchMemif::sockets`].
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(cores: Cores) -> Result<OpenVswitchMemif, PeerError> {
        let folder = Folder::new()?;
        let namespace = Namespace::new()?;
        let at = Place { folder: &folder, namespace: &namespace };
        let database = at.database()?;
        let mut configuration = at.configure(MEMORY, FlowCaches::Both, cores)?;
        let daemon = at.start()?;
        configuration += &at.add_bridge()?;
        for (n, (name, socket)) in ["left", "right"].into_iter().zip(SOCKETS).enumerate() {
            let device =
                format!("net_memif{n},role=server,socket={},socket-abstract=no,rsize=10", at.path(socket));
            configuration += &at.add_port(name, &device, n + 1, 2)?;
        }
        at.set_flows(FLOWS)?;
        configuration += FLOWS;
        let socket = Telemetry::path(folder.path(), "ovs");
        let polling = Polling::ready(daemon, &socket, 2, "pmd-", cores)?;
        Ok(OpenVswitchMemif { polling, configuration, namespace, _database: database, folder })
    }

    /// Where its ports listen.
    pub fn sockets(&self) -> [PathBuf; 2] {
        SOCKETS.map(|name| self.folder.file(name))
    }

    /// What it moves in this time, and in which part of it.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended, or does not answer.
    pub fn measure(&self, window: Duration) -> Result<Busy, PeerError> {
        let before = self.cycles()?;
        let window = self.polling.measure(window)?;
        let after = self.cycles()?;
        let (idle, busy) = (after.idle - before.idle, after.busy - before.busy);
        Ok(Busy { window, share: busy / (idle + busy) })
    }

    fn cycles(&self) -> Result<Cycles, PeerError> {
        let at = Place { folder: &self.folder, namespace: &self.namespace };
        let told = at.control(&["dpif-netdev/pmd-stats-show"])?;
        Cycles::read(&told).ok_or_else(|| PeerError::Unexpected {
            peer: "ovs-vswitchd",
            found: format!("no cycles of its polling thread: {told}"),
        })
    }
}

/// Cycles of the polling thread, in rounds without packets and with them.
#[derive(Debug, PartialEq)]
struct Cycles {
    idle: f64,
    busy: f64,
}

impl Cycles {
    fn read(told: &str) -> Option<Cycles> {
        let number = |name: &str| -> Option<f64> {
            let line = told.lines().find_map(|line| line.trim().strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some(Cycles { idle: number("idle cycles:")?, busy: number("processing cycles:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_read_from_what_the_switch_tells() {
        let told = "pmd thread numa_id 0 core_id 1:\n  packets received: 5\n  idle cycles: 300 (75.00%)\n  \
                    processing cycles: 100 (25.00%)\n  avg cycles per packet: 80.00 (400/5)\n";
        assert_eq!(Cycles::read(told), Some(Cycles { idle: 300.0, busy: 100.0 }));
        assert_eq!(Cycles::read("main thread:\n  packets received: 0\n"), None);
    }
}
