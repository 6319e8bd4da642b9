//! Switches: where their ports lead on this worker, and copies of packets that go several ways.
//!
//! A switch of the engine is anything that forwards by a decision, in the sender's context (HyperNF, section
//! 3.3): a learning switch, a virtual device, the devices at a port. [`crate::path::devices`] passes packets
//! through them.

use crate::control::tap::Tap;
use crate::forwarding::Forwarding;
use crate::ids::{Holder, PoolId, Target};
use crate::path::observers::Observer;
use crate::worker::Worker;
use packet_memory::Packet;
use std::collections::BTreeMap;
use telemetry::{DropReason, Ledger};
use virtual_device::{Counts, Device, Straight, Way};
use virtual_switch::SwitchPort;

/// What a packet pays of its hop budget for each time that it becomes twice as many.
const DOUBLING: u8 = 8;

/// A plug of a switch: all that most packets ask for of one and the next lies together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Where what leaves by it goes.
    pub(crate) end: Option<Target>,
    /// How everything goes on that comes in by it, if the device that decides says so.
    pub(crate) straight: Option<Straight>,
}

/// A switch as one worker sees it: what decides is shared by all, the wires are this worker's own.
pub(crate) struct SwitchNode {
    /// By the numbers of its plugs.
    pub(crate) places: Vec<Place>,
    /// Instances that are shown what passes.
    pub(crate) observers: Vec<Observer>,
    /// What is shown what passes, or what passes one plug.
    pub(crate) taps: Vec<(Option<SwitchPort>, Box<dyn Tap>)>,
    /// What this worker counts of it.
    pub(crate) counts: Counts,
    pub(crate) forwarding: Forwarding,
    /// It was taken out.
    pub(crate) is_gone: bool,
    pub(crate) name: String,
}

impl SwitchNode {
    pub(crate) fn new(name: &str, forwarding: Forwarding) -> SwitchNode {
        let mut node = SwitchNode {
            name: name.to_owned(),
            counts: forwarding.counts(),
            forwarding,
            places: Vec::new(),
            is_gone: false,
            observers: Vec::new(),
            taps: Vec::new(),
        };
        node.take_over_plans();
        node
    }

    /// Takes over from the device what it says of its plugs.
    fn take_over_plans(&mut self) {
        let device = self.forwarding.device();
        let count = device.map_or(0, Device::plugs).max(self.places.len());
        self.places.resize(count, Place::default());
        for (number, place) in (0..=u16::MAX).map(SwitchPort).zip(&mut self.places) {
            place.straight = device.and_then(|device| device.straight(number));
        }
    }

    /// Where what leaves by a port goes.
    #[inline]
    pub(crate) fn end(&self, port: SwitchPort) -> Option<Target> {
        self.places.get(usize::from(port.0))?.end
    }

    pub(crate) fn end_mut(&mut self, port: SwitchPort) -> &mut Option<Target> {
        let index = usize::from(port.0);
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::default());
        }
        &mut self.places[index].end
    }

    /// Another one of its kind decides from now on.
    pub(crate) fn set_forwarding(&mut self, forwarding: Forwarding) {
        self.counts = forwarding.counts();
        self.forwarding = forwarding;
        self.take_over_plans();
    }

    /// It is no more; its place is kept for the next one.
    pub(crate) fn end_for_good(&mut self) {
        self.clear();
        self.observers.clear();
        self.taps.clear();
        self.counts = Counts::default();
        self.is_gone = true;
    }

    /// Lets all ports lead nowhere.
    pub(crate) fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| place.end = None);
    }

    /// What the only port beside one leads to; `None` when there are more, or none.
    #[inline]
    pub(crate) fn only_other(&self, than: SwitchPort) -> Option<Target> {
        let others = self.places.iter().enumerate().filter(|(number, _)| *number != usize::from(than.0));
        let mut others = others.filter_map(|(_, place)| place.end);
        let only = others.next();
        only.filter(|_| others.next().is_none())
    }

    /// The plugs by which packets leave that come in by one and go several ways. Two that lead to one end
    /// would give it two copies of what is flooded.
    pub(crate) fn each(&self, from: SwitchPort, way: Way) -> Vec<SwitchPort> {
        match (&self.forwarding, way) {
            (Forwarding::Device(device), Way::Each(several)) => {
                (0..several.count()).filter_map(|n| device.plug(several, n)).collect()
            }
            (_, Way::Flood) => {
                let plugs = self.places.iter().map(|place| place.end).zip((0..=u16::MAX).map(SwitchPort));
                let mut ends: BTreeMap<Option<Target>, SwitchPort> = plugs.collect();
                ends.remove(&None);
                ends.remove(&self.end(from));
                ends.into_values().collect()
            }
            _ => Vec::new(),
        }
    }

    /// What its ports lead to.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Target> {
        self.places.iter().filter_map(|place| place.end)
    }
}

impl Worker {
    /// The pool that something has its packets in.
    pub(crate) fn pool_of(&self, holder: Holder) -> PoolId {
        match holder {
            Holder::Instance(index) => self.instances[index].pool,
            Holder::Port(index) => self.ports[index].pool,
        }
    }

    /// Where its packets are counted.
    pub(crate) fn ledger_of(&mut self, holder: Holder) -> &mut Ledger {
        match holder {
            Holder::Instance(index) => &mut self.instances[index].counters.ledger,
            Holder::Port(index) => &mut self.ports[index].ledger,
        }
    }

    /// Has packets pay of their hop budget for a copy for each of these ends: each time that they become
    /// twice as many that may come back, as all may but those that leave by a port, it is [`DOUBLING`]. So of
    /// a frame that goes round in a loop at most 65,536 packets come to functions. What cannot pay comes to
    /// none.
    pub(crate) fn pay_for_copies(&self, ends: impl Iterator<Item = Target>, batch: &mut [Packet]) {
        let is_inside = |end: Holder| !matches!(end, Holder::Port(port) if !self.ports[port].relay);
        let may_return = |end: &Target| self.only_end(*end).is_none_or(is_inside);
        let price = DOUBLING * ends.filter(may_return).count().next_power_of_two().trailing_zeros() as u8;
        batch.iter_mut().for_each(|it| it.edit(|it| it.hop_budget = it.hop_budget.saturating_sub(price)));
    }

    /// Copies of packets in their sender's pool; between tenants they are copied again, as the originals are.
    /// One that could not be made is counted as made and lost at once.
    pub(crate) fn duplicate(&mut self, source: Holder, packets: &[Packet]) -> Vec<Packet> {
        let (pool, mut copies) = (self.pool_of(source), self.batches.spare());
        for packet in packets {
            let copy = self.pools[usize::from(pool.0)].duplicate(packet);
            self.ledger_of(source).copied += 1;
            match &copy {
                Some(copy) if self.is_tapped(source) => self.show_copy(source, packet, pool, copy),
                Some(_) => {}
                None => self.ledger_of(source).dropped[DropReason::NoBuffer] += 1,
            }
            copies.extend(copy);
        }
        copies
    }
}
