//! Two veth pairs, with the program that is measured between them.

use crate::PeerError;
use crate::error::file;
use std::time::Duration;
use testbed::Namespace;

/// The interface that packets come in by.
pub const IN: &str = "sf-in";
/// The interface that they go out by.
pub const OUT: &str = "sf-out";

/// The other ends.
pub(crate) const SENDER_END: &str = "sf-send";
const RECEIVER_END: &str = "sf-end";

const SETUP: Duration = Duration::from_secs(10);

/// A sender, a device under test and a receiver, each in a network namespace without a name.
#[derive(Debug)]
pub struct VethLine {
    pub(crate) sender: Namespace,
    /// Where [`IN`] and [`OUT`] are.
    pub device: Namespace,
    receiver: Namespace,
}

impl VethLine {
    /// Makes it.
    ///
    /// # Errors
    /// [`PeerError`]: not root, or `ip` or `ethtool` failed.
    pub fn new() -> Result<VethLine, PeerError> {
        let line =
            VethLine { sender: Namespace::new()?, device: Namespace::new()?, receiver: Namespace::new()? };
        line.device.join(IN, &line.sender, SENDER_END)?;
        line.device.join(OUT, &line.receiver, RECEIVER_END)?;
        // With it on, a veth takes frames as they come from BPF, without a socket buffer for each.
        line.device.run(&format!("ethtool -K {IN} gro on"), SETUP)?;
        Ok(line)
    }

    /// Packets that arrived at the device's [`IN`], whether they were taken or not.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn offered(&self) -> Result<u64, PeerError> {
        received(&self.device, IN)
    }

    /// Packets that arrived at the receiver, which looks at their headers and drops them.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn delivered(&self) -> Result<u64, PeerError> {
        received(&self.receiver, RECEIVER_END)
    }
}

fn received(namespace: &Namespace, interface: &str) -> Result<u64, PeerError> {
    const TABLE: &str = "/proc/thread-self/net/dev";
    let table = namespace.enter(|| std::fs::read_to_string(TABLE)).map_err(file(TABLE))?;
    packets_in(&table, interface).ok_or_else(|| PeerError::Unexpected {
        peer: "kernel",
        found: format!("no interface {interface} in {TABLE}"),
    })
}

/// Received packets of an interface, from the kernel's table.
fn packets_in(table: &str, interface: &str) -> Option<u64> {
    table.lines().find_map(|line| {
        let counters = line.trim_start().strip_prefix(interface)?.strip_prefix(':')?;
        counters.split_whitespace().nth(1)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_column_counts_packets() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs|bytes packets\n    lo: 9 8 0 0\n\
                     sf-in: 640 10 0 0 0 0 0 0 128 2 0 0\nsf-in2:1 77 0\n";
        assert_eq!(packets_in(table, "sf-in"), Some(10));
        assert_eq!(packets_in(table, "sf-in2"), Some(77));
        assert_eq!(packets_in(table, "sf-out"), None);
    }
}
