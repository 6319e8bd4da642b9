//! Taps: code that is shown packets without being part of their way: a capture, say, or a trace.

use crate::ids::{Holder, InstanceId, PoolId, PortId, SwitchId};
use crate::path::observers::{Seen, passes};
use crate::worker::Worker;
use packet_memory::{Packet, Pool};
use telemetry::DropReason;
use virtual_device::Way;
use virtual_switch::SwitchPort;

/// What is happening to packets that a tap sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passage {
    /// A port has received them.
    Received,
    /// A port is about to transmit them.
    Transmitted,
    /// A function is about to be called with them.
    Arrived,
    /// A function has decided: verdict, interface and bytes are as it left them.
    Decided,
    /// A function gave up packets that it held or made.
    Emitted,
    /// The function broke over them; their contents are unknown.
    Trapped,
    /// The function is down.
    Down,
    /// They end here without, or in spite of, what a function decided.
    Lost(DropReason),
    /// They come into a device by this plug and go on.
    Passing(u16, Onward),
}

/// Where packets go from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Onward {
    /// Out by this plug.
    By(u16),
    /// Out by several plugs, as copies.
    Several,
    /// Another device takes them.
    Elsewhere,
    /// Nowhere: they are dropped for this reason.
    Nowhere(DropReason),
}

/// Sees packets. It is called between the steps of the data path, at the cost of the running instance, and
/// must never wait.
pub trait Tap: Send {
    /// Sees packets, which stay where they are.
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage);

    /// Called about ten times in a second: for whatever is not to be kept back longer.
    fn flush(&mut self);

    /// A copy of a packet was made, which goes on in another pool or another way.
    fn copied(&mut self, _original: (&Pool, &Packet), _copy: (&Pool, &Packet)) {}

    /// It wants to see nothing any more, and is taken out when taps are next looked after.
    fn is_over(&self) -> bool {
        false
    }
}

impl Worker {
    /// Shows the packets of a port to a tap, in both directions.
    pub fn tap_port(&mut self, port: PortId, tap: Box<dyn Tap>) {
        self.ports[port.index()].taps.push(tap);
        self.upkeep.tapped = true;
    }

    /// Shows the packets of an instance to a tap, with what the instance decided.
    pub fn tap_instance(&mut self, instance: InstanceId, tap: Box<dyn Tap>) {
        self.instances[instance.index()].taps.push(tap);
        self.upkeep.tapped = true;
    }

    /// Shows the packets that pass a device to a tap, or those that come in or go out by one plug of it.
    pub fn tap_switch(&mut self, switch: SwitchId, plug: Option<SwitchPort>, tap: Box<dyn Tap>) {
        if let Some(node) = self.switches.get_mut(switch.index()) {
            node.taps.push((plug, tap));
            self.upkeep.tapped = true;
        }
    }

    /// Shows packets that come into a device by one plug to its taps.
    #[cold]
    pub(crate) fn show_taps(
        &mut self,
        id: SwitchId,
        from: SwitchPort,
        way: Option<Way>,
        packets: &[Packet],
        owner: PoolId,
    ) {
        let onward = match way {
            Some(Way::To(SwitchPort(plug))) => Onward::By(plug),
            Some(Way::Each(_) | Way::Flood) => Onward::Several,
            Some(Way::Seen) | None => Onward::Elsewhere,
            Some(Way::Filter) => Onward::Nowhere(DropReason::SwitchFiltered),
            Some(Way::Nowhere) => Onward::Nowhere(DropReason::NoDevice),
        };
        let pool = &self.pools[usize::from(owner.0)];
        let node = &mut self.switches[id.index()];
        let mut taps = std::mem::take(&mut node.taps);
        for (plug, tap) in &mut taps {
            if plug.is_none_or(|plug| passes(node, from, way, plug)) {
                tap.see(pool, packets, Passage::Passing(from.0, onward));
            }
        }
        node.taps = taps;
    }

    /// Shows packets of a port to its taps, and those that pass it to its observers.
    #[inline(never)]
    pub(crate) fn show_port(&mut self, port: usize, packets: &[Packet], passage: Passage) {
        let node = &mut self.ports[port];
        let owner = node.pool;
        let pool = &self.pools[usize::from(owner.0)];
        for tap in &mut node.taps {
            tap.see(pool, packets, passage);
        }
        if matches!(passage, Passage::Received | Passage::Transmitted) {
            self.show_at(Seen::Port(port), packets, owner, |_, _| true);
        }
    }

    /// Shows packets of an instance to its taps.
    #[cold]
    pub(crate) fn show_instance(&mut self, index: usize, packets: &[Packet], passage: Passage) {
        let instance = &mut self.instances[index];
        let pool = &self.pools[usize::from(instance.pool.0)];
        for tap in &mut instance.taps {
            tap.see(pool, packets, passage);
        }
    }

    /// Tells the taps of the sender of a packet that the packet was copied.
    #[cold]
    pub(crate) fn show_copy(&mut self, source: Holder, original: &Packet, pool: PoolId, copy: &Packet) {
        let here = self.pool_of(source);
        let taps = match source {
            Holder::Instance(index) => &mut self.instances[index].taps,
            Holder::Port(index) => &mut self.ports[index].taps,
        };
        let (here, there) = (&self.pools[usize::from(here.0)], &self.pools[usize::from(pool.0)]);
        for tap in taps {
            tap.copied((here, original), (there, copy));
        }
    }

    /// Shows packets that end to the taps of the instance or port that had them.
    #[cold]
    pub(crate) fn show_lost(&mut self, of: Holder, packets: &[Packet], reason: DropReason) {
        match of {
            Holder::Instance(index) => self.show_instance(index, packets, Passage::Lost(reason)),
            Holder::Port(index) => self.show_port(index, packets, Passage::Lost(reason)),
        }
    }

    /// Whether there are taps at it.
    #[inline]
    pub(crate) fn is_tapped(&self, holder: Holder) -> bool {
        match holder {
            Holder::Instance(index) => !self.instances[index].taps.is_empty(),
            Holder::Port(index) => !self.ports[index].taps.is_empty(),
        }
    }

    /// Lets taps hand over what they keep back, and takes those out that are over.
    pub(crate) fn flush_taps(&mut self) {
        let of_ports = self.ports.iter_mut().map(|(_, node)| &mut node.taps);
        let of_instances = self.instances.iter_mut().map(|(_, instance)| &mut instance.taps);
        let mut left = false;
        for node in self.switches.iter_mut().filter(|node| !node.taps.is_empty()) {
            node.taps.iter_mut().for_each(|(_, tap)| tap.flush());
            node.taps.retain(|(_, tap)| !tap.is_over());
            left |= !node.taps.is_empty();
        }
        for taps in of_ports.chain(of_instances).filter(|taps| !taps.is_empty()) {
            taps.iter_mut().for_each(|tap| tap.flush());
            taps.retain(|tap| !tap.is_over());
            left |= !taps.is_empty();
        }
        self.upkeep.tapped = left;
    }
}
