//! Who looks at packets without being part of their way: a capture, say.

use crate::ids::{InstanceId, PortId};
use crate::worker::Worker;
use clock::Nanos;
use packet_memory::{Packet, Pool};

/// What is happening to packets that a tap sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// A port has received them.
    Received,
    /// A port is about to transmit them.
    Transmitted,
    /// A function has decided: verdict, interface and bytes are as it left them.
    Decided,
    /// A function gave up packets that it held or made.
    Emitted,
    /// The function broke over them; their contents are unknown.
    Trapped,
    /// The function is down.
    Down,
}

/// Sees packets. It is called between the steps of the data path, at the cost of whoever is running, and must never
/// wait.
pub trait Tap: Send {
    /// Sees packets, which stay where they are.
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage, now: Nanos);

    /// Called about ten times in a second: for whatever is not to be kept back longer.
    fn settle(&mut self);
}

impl Worker {
    /// Shows the packets of a port to a tap, in both directions.
    pub fn tap_port(&mut self, port: PortId, tap: Box<dyn Tap>) {
        self.ports[port.index()].taps.push(tap);
        self.tapped = true;
    }

    /// Shows the packets of an instance to a tap, with what the instance decided.
    pub fn tap_instance(&mut self, instance: InstanceId, tap: Box<dyn Tap>) {
        self.instances[instance.index()].taps.push(tap);
        self.tapped = true;
    }

    /// Shows packets of a port to its taps.
    #[cold]
    pub(crate) fn show_port(&mut self, port: usize, packets: &[Packet], passage: Passage) {
        let node = &mut self.ports[port];
        let pool = &self.pools[usize::from(node.pool.0)];
        for tap in &mut node.taps {
            tap.see(pool, packets, passage, self.now.nanos);
        }
    }

    /// Shows packets of an instance to its taps.
    #[cold]
    pub(crate) fn show_instance(&mut self, index: usize, packets: &[Packet], passage: Passage) {
        let instance = &mut self.instances[index];
        let pool = &self.pools[usize::from(instance.pool.0)];
        for tap in &mut instance.taps {
            tap.see(pool, packets, passage, self.now.nanos);
        }
    }

    pub(crate) fn settle_taps(&mut self) {
        let of_ports = self.ports.iter_mut().flat_map(|(_, node)| &mut node.taps);
        let of_instances = self.instances.iter_mut().flat_map(|(_, instance)| &mut instance.taps);
        of_ports.chain(of_instances).for_each(|tap| tap.settle());
    }
}
