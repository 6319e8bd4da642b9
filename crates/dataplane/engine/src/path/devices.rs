//! Virtual devices: what comes in by one of their plugs goes on as they decide, in the sender's context.

use crate::forwarding::Forwarding;
use crate::ids::{Holder, InstanceId, Plug, PortId, SwitchId, Target};
use crate::path::switching::SwitchNode;
use crate::path::tunnels::tunnels_at;
use crate::state::Batches;
use crate::worker::Worker;
use packet_memory::Packet;
use port::PortStatus;
use telemetry::DropReason;
use virtual_device::{Counts, Straight, Way};
use virtual_switch::SwitchPort;

/// Most devices that packets pass from one wire to the next: those at a port, and one of them, in either
/// direction. Wires that lead round and round are ended here.
pub(crate) const IN_A_ROW: u8 = 4;
/// Numbers of plugs, and by which ports and instances are told from them.
const PLUGS: u64 = 1 << u16::BITS;
const PORTS: u64 = 1 << 62;
const INSTANCES: u64 = 1 << 63;

impl SwitchNode {
    /// The one end to which everything goes that comes in by a port; `None` when that depends on the packets.
    pub(crate) fn only(&self, from: SwitchPort) -> Option<Target> {
        match &self.forwarding {
            Forwarding::Learning(_) => self.only_other(from),
            Forwarding::Device(device) => self.end(device.only(from)?),
            Forwarding::Ports(devices) => self.end(devices.only(from)?),
        }
    }

    /// Packets leave by a plug as they are, however long they are.
    fn is_plain(&self, plug: SwitchPort) -> bool {
        self.forwarding.device().is_none_or(|device| device.is_plain(plug))
    }

    /// Where a batch goes at once that comes in by a plug, if it does.
    fn lead_on(&self, from: SwitchPort, batch: &mut [Packet], bytes: Option<u64>) -> Option<&Target> {
        let at = |plug: SwitchPort| self.places.get(usize::from(plug.0));
        let Straight { to, port, is_limited } = at(from)?.straight?;
        let end = at(to)?.end.as_ref().filter(|end| !matches!(end, Target::Switch(..)))?;
        if self.is_watched() || is_limited && !self.is_plain(to) {
            return None;
        }
        enter(port, &self.counts, from, batch, bytes);
        Some(end)
    }

    /// There are taps or observers to be shown what passes.
    fn is_watched(&self) -> bool {
        !self.taps.is_empty() || !self.observers.is_empty()
    }
}

/// Where a packet goes on from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// One of the device's ways.
    By(Way),
    /// To an end at once, past what leads there as it is.
    To(Target),
}

/// Packets that go one way.
type Together = (Onward, Vec<Packet>);

impl Batches {
    /// Brings packets together that go one way, which are in their order from the last one on; `ways` are
    /// theirs. Each is moved twice at most, however many ways there are.
    fn bring_together(&mut self, batch: &mut [Packet], ways: &mut [Onward]) {
        let rank = |one: &Onward| match *one {
            Onward::By(Way::To(plug)) => u64::from(plug.0),
            Onward::To(Target::Port(PortId(n))) => PORTS | u64::from(n),
            Onward::To(Target::Instance(InstanceId(n), k)) => INSTANCES | u64::from(n) << 16 | u64::from(k),
            // There are few others.
            _ => PLUGS + ways.iter().position(|other| other == one).unwrap_or(0) as u64,
        };
        self.order.clear();
        self.order.extend(ways.iter().map(rank).zip(0..));
        self.order.sort_unstable_by(|one, other| other.cmp(one));
        for place in 0..ways.len() {
            // What was in front of here is where the one came from that took its place.
            let mut from = self.order[place].1 as usize;
            while from < place {
                from = self.order[from].1 as usize;
            }
            batch.swap(place, from);
            ways.swap(place, from);
        }
    }

    /// Takes the last packets out of such a batch, which go one way.
    fn take_last(&mut self, batch: &mut Vec<Packet>, ways: &mut Vec<Onward>) -> Option<Together> {
        let way = *ways.last()?;
        let mut taken = self.spare();
        while ways.pop_if(|last| *last == way).is_some() {
            taken.extend(batch.pop());
        }
        Some((way, taken))
    }
}

impl Worker {
    /// Where a batch goes that is handed to a target: past a device that leads it on as it is, and that
    /// nothing observes, to what is behind it. `bytes` are the batch's, if that is known.
    #[inline(always)]
    pub(crate) fn straight_on(&self, target: Target, batch: &mut [Packet], bytes: Option<u64>) -> Target {
        let Target::Switch(id, from) = target else { return target };
        self.switch(id).lead_on(from, batch, bytes).copied().unwrap_or(target)
    }

    /// Hands a batch to a device.
    pub(crate) fn pass(&mut self, source: Holder, id: SwitchId, from: SwitchPort, mut batch: Vec<Packet>) {
        self.decapsulate(source, (id, from), &mut batch);
        self.enter(source, id, from, batch)
    }

    /// The same with packets that have no headers which openers do not see.
    pub(crate) fn enter(&mut self, source: Holder, id: SwitchId, from: SwitchPort, mut batch: Vec<Packet>) {
        let SwitchNode { forwarding, counts, .. } = self.switch(id);
        let whole = match forwarding {
            Forwarding::Device(device) => {
                enter(device.device_port(from), counts, from, &mut batch, None);
                device.whole(from)
            }
            Forwarding::Ports(devices) => {
                counts.enter(from, devices.is_port(from), batch.len() as u64, 0);
                devices.whole(from)
            }
            Forwarding::Learning(_) => None,
        };
        if let Some(way) = whole {
            return self.go(source, (id, from), batch, Onward::By(way));
        }
        let mut ways = self.decide_ways(source, (id, from), &batch);
        let are_one = |ways: &[Onward]| ways.iter().all(|way| Some(way) == ways.first());
        let mut is_one = are_one(&ways);
        if !is_one && !self.switch(id).is_watched() {
            let node = self.switch(id);
            batch.iter_mut().zip(&mut ways).for_each(|(packet, way)| self.look_ahead(node, packet, way));
            is_one = are_one(&ways);
        }
        match ways.first() {
            Some(way) if is_one => self.go(source, (id, from), batch, *way),
            _ => {
                self.batches.bring_together(&mut batch, &mut ways);
                while let Some((way, together)) = self.batches.take_last(&mut batch, &mut ways) {
                    self.go(source, (id, from), together, way);
                }
                self.batches.recycle(batch);
            }
        }
        self.batches.ways = ways;
    }

    /// Finds out whether a packet that leaves by a plug goes to an end at once. Packets for many devices find
    /// that out one behind the other, so that the memory of one is waited for while that of others comes, and
    /// those for one end stay together.
    #[inline]
    fn look_ahead(&self, node: &SwitchNode, packet: &mut Packet, way: &mut Onward) {
        let bytes = packet.length().into();
        if let Onward::By(Way::To(plug)) = *way
            && let Some(target) = node.end(plug).filter(|_| node.is_plain(plug))
            && let end @ (Target::Instance(..) | Target::Port(_)) =
                self.straight_on(target, std::slice::from_mut(packet), Some(bytes))
        {
            *way = Onward::To(end);
        }
    }

    /// Finds out where each of the packets goes. What devices see that take none is shown there at once.
    fn decide_ways(&mut self, source: Holder, (id, from): Plug, packets: &[Packet]) -> Vec<Onward> {
        let mut ways = std::mem::take(&mut self.batches.ways);
        ways.clear();
        let owner = self.pool_of(source);
        let memory = &self.pools[usize::from(owner.0)];
        match &self.switches[id.index()].forwarding {
            Forwarding::Device(device) => {
                let mut decisions = device.decide(from, packets.len(), self.time.now.nanos);
                let decided = packets.iter().map(|packet| {
                    let record = packet.record();
                    decisions.next(record.flow_hash, record.device_port, || memory.head(packet).0)
                });
                ways.extend(decided.map(Onward::By));
            }
            Forwarding::Ports(devices) => {
                let mut seen = std::mem::take(&mut self.batches.seen);
                let decided = packets.iter().enumerate().map(|(n, packet)| {
                    let (head, length) = memory.head::<{ virtual_device::HEAD }>(packet);
                    devices.decide(&head[..length], packet.length(), |plug| seen.push((n, plug)))
                });
                ways.extend(decided.map(Onward::By));
                self.switch(id).counts.see(from, seen.len() as u64);
                self.show_seen(id, &mut seen, packets, owner);
                self.batches.seen = seen;
            }
            Forwarding::Learning(table) => {
                let heads = packets.iter().map(|packet| memory.head(packet).0);
                let decided = table.decide_batch(from, heads, self.time.now.nanos);
                ways.extend(decided.map(|route| Onward::By(Way::from(route))));
            }
        }
        ways
    }

    /// Hands packets on that go one way, or ends them.
    fn go(&mut self, source: Holder, (id, from): Plug, mut batch: Vec<Packet>, way: Onward) {
        let way = match way {
            Onward::By(way) => way,
            Onward::To(end) => return self.hand_on(source, end, batch),
        };
        if self.switch(id).is_watched() {
            self.show_passing(id, from, Some(way), &batch, self.pool_of(source));
        }
        self.switch(id).counts.go(from, way, batch.len() as u64);
        let reason = match way {
            Way::To(plug) => return self.leave_by(source, id, plug, batch),
            Way::Each(_) | Way::Flood => {
                let plugs = self.switch(id).each(from, way);
                self.pay_for_copies(plugs.iter().filter_map(|plug| self.switch(id).end(*plug)), &mut batch);
                let Some((first, others)) = plugs.split_first() else {
                    return self.drop_batch(source, batch, DropReason::NoRoute);
                };
                for plug in others {
                    let copies = self.duplicate(source, &batch);
                    self.leave_by(source, id, *plug, copies);
                }
                return self.leave_by(source, id, *first, batch);
            }
            Way::Filter => DropReason::SwitchFiltered,
            Way::Seen => return self.consume(source, batch),
            Way::Nowhere => DropReason::NoDevice,
        };
        self.drop_batch(source, batch, reason);
    }

    /// Hands packets on by one plug.
    pub(crate) fn leave_by(&mut self, source: Holder, id: SwitchId, plug: SwitchPort, batch: Vec<Packet>) {
        let reason = match self.switch(id).end(plug) {
            Some(target) if self.batches.in_a_row < IN_A_ROW => {
                self.batches.in_a_row += 1;
                self.leave_for(source, (id, plug), target, batch);
                self.batches.in_a_row -= 1;
                return;
            }
            Some(_) => DropReason::HopBudget,
            None => DropReason::NoRoute,
        };
        self.drop_batch(source, batch, reason);
    }

    /// Puts headers on packets that leave by a plug, or ends what the link there does not take, and hands
    /// them on.
    fn leave_for(&mut self, source: Holder, (id, plug): Plug, target: Target, mut batch: Vec<Packet>) {
        if self.switch(id).is_plain(plug) {
            let target = self.straight_on(target, &mut batch, None);
            return self.hand_on(source, target, batch);
        }
        if tunnels_at(&self.switch(id).forwarding, plug).is_some() {
            if !self.encapsulates_in_place(source, target, &batch) {
                return self.leave_encapsulated(source, (id, plug), target, batch);
            }
            self.encapsulate_all(source, (id, plug), &mut batch);
        } else if !self.fit_mtu(source, id, plug, &batch) {
            // Each by itself, so that none overtakes another.
            for packet in batch.drain(..) {
                match self.fit_mtu(source, id, plug, std::slice::from_ref(&packet)) {
                    true => self.hand_on(source, target, vec![packet]),
                    false => self.leave_oversized(source, id, plug, packet, 0),
                }
            }
        }
        self.hand_on(source, target, batch);
    }

    /// Tells the devices over a port whether its link is up, and how long a packet it takes.
    pub(crate) fn note_link(&self, port: usize) {
        let Some(Target::Switch(id, plug)) = self.ports[port].target else { return };
        let mtu = self.ports[port].port.mtu();
        let up = !matches!(self.ports[port].port.status(), PortStatus::Down(_));
        let set = |target: Target| {
            let Target::Switch(id, plug) = target else { return };
            if let Some(device) = self.switch(id).forwarding.device() {
                device.set_up(plug, up);
                device.set_mtu(plug, mtu);
            }
        };
        match &self.switch(id).forwarding {
            Forwarding::Ports(_) => self.switch(id).ends().for_each(set),
            Forwarding::Device(_) | Forwarding::Learning(_) => set(Target::Switch(id, plug)),
        }
    }
}

/// Packets enter a device: they are told by which port they came, if they came by one, and are counted.
#[inline(always)]
fn enter(port: Option<u8>, counts: &Counts, from: SwitchPort, packets: &mut [Packet], bytes: Option<u64>) {
    if let Some(port) = port {
        packets.iter_mut().for_each(|packet| packet.edit(|record| record.device_port = port));
    }
    let bytes = bytes.unwrap_or_else(|| packets.iter().map(|packet| u64::from(packet.length())).sum());
    counts.enter(from, port.is_some(), packets.len() as u64, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet_memory::{PageKind, Pool, PoolConfig};
    use proptest::prelude::*;

    proptest! {
        /// However they are mixed, packets that go one way come together, in their order, and none is lost.
        #[test]
        fn packets_of_one_way_come_together_in_their_order(plugs in prop::collection::vec(0u16..9, 0..64)) {
            let config = PoolConfig { buffers: 64, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
            let pool = Pool::new("test", config).expect("a pool");
            let mut batches = Batches::default();
            let (mut batch, mut ways) = (Vec::new(), Vec::new());
            let onward = |plug: u16| match plug {
                8 => Onward::By(Way::Nowhere),
                6 | 7 => Onward::To(Target::Instance(InstanceId(1), plug)),
                4 | 5 => Onward::To(Target::Port(PortId(plug.into()))),
                _ => Onward::By(Way::To(SwitchPort(plug))),
            };
            for (number, plug) in plugs.iter().enumerate() {
                let mut packet = pool.allocate().expect("a buffer");
                packet.edit(|record| record.mark = number as u64);
                batch.push(packet);
                ways.push(onward(*plug));
            }
            let before = ways.clone();
            batches.bring_together(&mut batch, &mut ways);
            let (mut seen, mut found) = (Vec::new(), Vec::new());
            while let Some((way, together)) = batches.take_last(&mut batch, &mut ways) {
                prop_assert!(!found.contains(&way), "{way:?} comes twice");
                found.push(way);
                let marks: Vec<u64> = together.iter().map(|packet| packet.record().mark).collect();
                prop_assert!(marks.is_sorted() && marks.iter().all(|mark| before[*mark as usize] == way));
                seen.extend(marks);
                pool.free_batch(together);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..plugs.len() as u64).collect::<Vec<_>>());
            prop_assert!(batch.is_empty() && ways.is_empty());
        }
    }
}
