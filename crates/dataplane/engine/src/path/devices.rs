//! Virtual devices: what comes in by one of their plugs goes on as they decide, in the sender's context.

use crate::forwarding::Forwarding;
use crate::ids::{SwitchId, Target};
use crate::path::switching::{Source, SwitchNode};
use crate::state::Batches;
use crate::worker::Worker;
use packet_memory::Packet;
use port::PortStatus;
use telemetry::DropReason;
use virtual_device::Way;
use virtual_switch::SwitchPort;

/// Most devices that packets pass from one wire to the next: those at a port, and one of them, in either
/// direction. Wires that lead round and round are ended here.
pub(crate) const IN_A_ROW: u8 = 4;

impl SwitchNode {
    /// The one end to which everything goes that comes in by a port; `None` when that depends on the packets.
    pub(crate) fn only(&self, from: SwitchPort) -> Option<Target> {
        match &self.forwarding {
            Forwarding::Learning(_) => self.only_other(from),
            Forwarding::Device(device) => self.end(device.only(from)?),
            Forwarding::Ports(devices) => self.end(devices.only(from)?),
        }
    }
}

impl Batches {
    /// Brings packets together that go one way, in their order; `ways` are theirs. Each is moved twice at
    /// most, however many ways there are.
    fn bring_together(&mut self, batch: &mut [Packet], ways: &mut [Way]) {
        self.order.clear();
        self.order.extend(0..ways.len());
        self.order.sort_unstable_by_key(|place| (ways[*place], *place));
        for place in 0..ways.len() {
            // What was in front of here is where the one came from that took its place.
            let mut from = self.order[place];
            while from < place {
                from = self.order[from];
            }
            batch.swap(place, from);
            ways.swap(place, from);
        }
    }

    /// Takes the last packets out of a batch that go one way.
    fn take_last(&mut self, batch: &mut Vec<Packet>, ways: &mut Vec<Way>) -> Option<(Way, Vec<Packet>)> {
        let way = *ways.last()?;
        let first = ways.iter().rposition(|other| *other != way).map_or(0, |place| place + 1);
        let mut taken = self.spare();
        if first == 0 {
            std::mem::swap(batch, &mut taken);
        } else {
            taken.extend(batch.drain(first..));
        }
        ways.truncate(first);
        Some((way, taken))
    }
}

impl Worker {
    /// Hands a batch to a device.
    pub(crate) fn pass_batch(
        &mut self,
        source: Source,
        id: SwitchId,
        from: SwitchPort,
        mut batch: Vec<Packet>,
    ) {
        self.decapsulate(source, id, from, &mut batch);
        self.enter(source, id, from, batch)
    }

    /// The same with packets that have no headers which openers do not see.
    pub(crate) fn enter(&mut self, source: Source, id: SwitchId, from: SwitchPort, mut batch: Vec<Packet>) {
        if let Some(way) = self.way_of_all(id, from, &mut batch) {
            return self.go(source, (id, from), batch, way);
        }
        let mut ways = std::mem::take(&mut self.batches.ways);
        self.decide_ways(source, id, from, &batch, &mut ways);
        if !ways.is_sorted() {
            self.batches.bring_together(&mut batch, &mut ways);
        }
        while let Some((way, together)) = self.batches.take_last(&mut batch, &mut ways) {
            self.go(source, (id, from), together, way);
        }
        self.batches.recycle(batch);
        self.batches.ways = ways;
    }

    /// Where all of the packets go, if that does not depend on them; they are told by which port they came.
    fn way_of_all(&self, id: SwitchId, from: SwitchPort, packets: &mut [Packet]) -> Option<Way> {
        match &self.switch(id).forwarding {
            Forwarding::Device(device) => {
                if let Some(port) = device.device_port(from) {
                    packets.iter_mut().for_each(|packet| packet.edit(|record| record.device_port = port));
                }
                device.weigh(from, packets.iter().map(|packet| u64::from(packet.length())).sum());
                device.whole(from, packets.len())
            }
            Forwarding::Ports(devices) => devices.whole(from, packets.len()),
            // It decides by itself.
            Forwarding::Learning(_) => None,
        }
    }

    /// Finds out where each of the packets goes. What devices see that take none is shown there at once.
    fn decide_ways(
        &mut self,
        source: Source,
        id: SwitchId,
        from: SwitchPort,
        packets: &[Packet],
        ways: &mut Vec<Way>,
    ) {
        ways.clear();
        let owner = self.pool_of_source(source);
        let memory = &self.pools[usize::from(owner.0)];
        match &self.switches[id.index()].forwarding {
            Forwarding::Device(device) => {
                let mut decisions = device.decide(from, packets.len(), self.time.now.nanos);
                ways.extend(packets.iter().map(|packet| {
                    let record = packet.record();
                    decisions.next(record.flow_hash, record.device_port, || memory.head(packet).0)
                }));
            }
            Forwarding::Ports(devices) => {
                let mut decisions = devices.decide(packets.len());
                let mut seen = std::mem::take(&mut self.batches.seen);
                ways.extend(packets.iter().enumerate().map(|(n, packet)| {
                    let (head, length) = memory.head::<{ virtual_device::HEAD }>(packet);
                    decisions.next(&head[..length], packet.length(), |plug| seen.push((n, plug)))
                }));
                drop(decisions);
                self.show_seen(id, &mut seen, packets, owner);
                self.batches.seen = seen;
            }
            // It decides by itself.
            Forwarding::Learning(_) => {}
        }
    }

    /// Hands packets on that go one way, or ends them.
    fn go(&mut self, source: Source, (id, from): (SwitchId, SwitchPort), mut batch: Vec<Packet>, way: Way) {
        let owner = self.pool_of_source(source);
        self.show_passing(id, from, Some(way), &batch, owner);
        let reason = match way {
            Way::To(plug) => return self.leave_by(source, id, plug, batch),
            Way::Each(several) => {
                let plug = |worker: &Worker, n| match &worker.switch(id).forwarding {
                    Forwarding::Device(device) => device.plug(several, n),
                    Forwarding::Learning(_) | Forwarding::Ports(_) => None,
                };
                let ends = (0..several.count()).filter_map(|n| self.switch(id).end(plug(self, n)?));
                self.pay_for_copies(ends, &mut batch);
                for n in 1..several.count() {
                    if let Some(plug) = plug(self, n) {
                        let copies = self.duplicate(source, &batch);
                        self.leave_by(source, id, plug, copies);
                    }
                }
                match plug(self, 0) {
                    Some(first) => return self.leave_by(source, id, first, batch),
                    None => DropReason::NoDevice,
                }
            }
            Way::Filter => DropReason::SwitchFiltered,
            Way::Seen => return self.consume(source, batch),
            Way::Nowhere => DropReason::NoDevice,
        };
        self.drop_batch(source, batch, reason);
    }

    /// Hands packets on by one plug.
    pub(crate) fn leave_by(&mut self, source: Source, id: SwitchId, plug: SwitchPort, batch: Vec<Packet>) {
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
    fn leave_for(
        &mut self,
        source: Source,
        (id, plug): (SwitchId, SwitchPort),
        target: Target,
        mut batch: Vec<Packet>,
    ) {
        if self.encapsulates(id, plug) {
            if !self.encapsulates_in_place(source, (id, plug), target, &batch) {
                return self.leave_encapsulated(source, (id, plug), target, batch);
            }
            self.encapsulate_all(source, id, plug, &mut batch);
        } else if !self.fit_mtu(source, id, plug, &batch) {
            // Each by itself, so that none overtakes another.
            for packet in batch.drain(..) {
                if self.fit_mtu(source, id, plug, std::slice::from_ref(&packet)) {
                    let mut one = self.batches.spare();
                    one.push(packet);
                    self.hand_on(source, target, one);
                } else {
                    self.leave_oversized(source, id, plug, packet, 0);
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
        let tell = |target: Target| {
            if let Target::Switch(id, plug) = target
                && let Forwarding::Device(device) = &self.switch(id).forwarding
            {
                device.set_up(plug, up);
                device.set_mtu(plug, mtu);
            }
        };
        match &self.switch(id).forwarding {
            Forwarding::Ports(_) => self.switch(id).ends().for_each(tell),
            Forwarding::Device(_) | Forwarding::Learning(_) => tell(Target::Switch(id, plug)),
        }
    }
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
            for (number, plug) in plugs.iter().enumerate() {
                let mut packet = pool.allocate().expect("a buffer");
                packet.edit(|record| record.mark = number as u64);
                batch.push(packet);
                ways.push(if *plug == 8 { Way::Nowhere } else { Way::To(SwitchPort(*plug)) });
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
