//! Virtual devices: what comes in by one of their plugs goes on as they decide, in the sender's context.

use crate::forwarding::Forwarding;
use crate::ids::{SwitchId, Target};
use crate::path::deliver::HandOff;
use crate::path::switching::{Source, SwitchNode};
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

impl Worker {
    /// Hands a batch to a device. Returns the instance that all of it went to, if it may run at once.
    pub(crate) fn pass_batch(
        &mut self,
        source: Source,
        id: SwitchId,
        from: SwitchPort,
        mut batch: Vec<Packet>,
    ) -> Option<HandOff> {
        self.decapsulate(source, id, from, &mut batch);
        if batch.is_empty() {
            self.batches.spare.push(batch);
            return None;
        }
        if let Some(way) = self.way_of_all(id, from, &mut batch) {
            return self.go_together(source, (id, from), batch, way);
        }
        let mut ways = std::mem::take(&mut self.batches.ways);
        self.decide_ways(source, id, from, &batch, &mut ways);
        let first = ways.first().copied().unwrap_or(Way::Nowhere);
        if ways.iter().all(|way| *way == first) {
            self.batches.ways = ways;
            return self.go_together(source, (id, from), batch, first);
        }
        // Those that go one way go together, in their order.
        while let Some(way) = ways.first().copied() {
            let mut together = self.batches.spare.pop().unwrap_or_default();
            let mut left = ways.iter();
            together.extend(batch.extract_if(.., |_| left.next() == Some(&way)));
            ways.retain(|other| *other != way);
            if let Some(handed) = self.go_together(source, (id, from), together, way) {
                self.put_back(handed);
            }
        }
        self.batches.spare.push(batch);
        self.batches.ways = ways;
        None
    }

    /// Hands one packet to a device.
    pub(crate) fn pass_one(&mut self, source: Source, id: SwitchId, from: SwitchPort, mut packet: Packet) {
        if self.encapsulates(id, from) {
            let mut one = self.batches.spare.pop().unwrap_or_default();
            one.push(packet);
            self.decapsulate(source, id, from, &mut one);
            let left = one.pop();
            self.batches.spare.push(one);
            let Some(left) = left else { return };
            packet = left;
        }
        self.enter(source, id, from, packet);
    }

    /// The same with a packet that has no headers which openers do not see.
    pub(crate) fn enter(&mut self, source: Source, id: SwitchId, from: SwitchPort, mut packet: Packet) {
        let all = self.way_of_all(id, from, std::slice::from_mut(&mut packet));
        let way = all.unwrap_or_else(|| {
            let mut ways = std::mem::take(&mut self.batches.ways);
            self.decide_ways(source, id, from, std::slice::from_ref(&packet), &mut ways);
            let way = ways.first().copied().unwrap_or(Way::Nowhere);
            self.batches.ways = ways;
            way
        });
        let owner = self.pool_of_source(source);
        self.show_passing(id, from, Some(way), std::slice::from_ref(&packet), owner);
        self.go(source, id, packet, way);
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

    /// Hands packets on that go one way.
    fn go_together(
        &mut self,
        source: Source,
        (id, from): (SwitchId, SwitchPort),
        mut batch: Vec<Packet>,
        way: Way,
    ) -> Option<HandOff> {
        let owner = self.pool_of_source(source);
        self.show_passing(id, from, Some(way), &batch, owner);
        if let Way::To(plug) = way
            && let Some(target) = self.switch(id).end(plug)
            && self.batches.in_a_row < IN_A_ROW
            && match self.encapsulates(id, plug) {
                true => self.encapsulates_in_place(source, (id, plug), target, &batch),
                false => self.fit_mtu(source, id, plug, &batch),
            }
        {
            self.encapsulate_all(source, id, plug, &mut batch);
            if batch.is_empty() {
                self.batches.spare.push(batch);
                return None;
            }
            self.batches.in_a_row += 1;
            let delivered = self.deliver_batch(source, owner, target, batch);
            let handed = match delivered {
                Ok(next) => next,
                Err(refused) => {
                    self.each(refused, |worker, packet| worker.forward(source, packet, target));
                    None
                }
            };
            self.batches.in_a_row -= 1;
            return handed;
        }
        self.each(batch, |worker, packet| worker.go(source, id, packet, way));
        None
    }

    /// Hands a packet on, or ends it.
    fn go(&mut self, source: Source, id: SwitchId, packet: Packet, way: Way) {
        match way {
            Way::To(plug) => self.leave_by(source, id, plug, packet),
            Way::Each(several) => {
                let plug = |worker: &Worker, n| match &worker.switch(id).forwarding {
                    Forwarding::Device(device) => device.plug(several, n),
                    Forwarding::Learning(_) | Forwarding::Ports(_) => None,
                };
                for n in 1..several.count() {
                    if let (Some(plug), Some(copy)) = (plug(self, n), self.duplicate(source, &packet)) {
                        self.leave_by(source, id, plug, copy);
                    }
                }
                match plug(self, 0) {
                    Some(first) => self.leave_by(source, id, first, packet),
                    None => self.drop_from(source, packet, DropReason::NoDevice),
                }
            }
            Way::Filter => self.drop_from(source, packet, DropReason::SwitchFiltered),
            Way::Seen => self.end_seen(source, packet),
            Way::Nowhere => self.drop_from(source, packet, DropReason::NoDevice),
        }
    }

    /// Hands a packet on by one plug.
    pub(crate) fn leave_by(&mut self, source: Source, id: SwitchId, plug: SwitchPort, packet: Packet) {
        let Some(target) = self.switch(id).end(plug) else {
            return self.drop_from(source, packet, DropReason::NoRoute);
        };
        if self.batches.in_a_row == IN_A_ROW {
            return self.drop_from(source, packet, DropReason::HopBudget);
        }
        self.batches.in_a_row += 1;
        if self.encapsulates(id, plug) {
            self.leave_encapsulated(source, id, plug, packet, target);
        } else if !self.fit_mtu(source, id, plug, std::slice::from_ref(&packet)) {
            self.leave_oversized(source, id, plug, packet, 0);
        } else {
            self.forward(source, packet, target);
        }
        self.batches.in_a_row -= 1;
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
