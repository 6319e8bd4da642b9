//! Ports that one instance alone takes everything from: that one polls them.
//!
//! Which one it is follows from the wires, and from what decides in the switches on the way
//! ([`Worker::only_end`](crate::worker::Worker::only_end)). A change of either is followed back, against the
//! packets, to the ports whose way it is part of; the others are not looked at.

use super::state::{End, Home, State, Wire};
use crate::control::quiesce::Quiesced;
use crate::forwarding::Forwarding;
use crate::ids::{Plug, PoolId, PortId, SwitchId};
use std::collections::BTreeSet;
use virtual_switch::SwitchPort;

/// In a switch with more ends than these, whatever comes in by one has several takers: two ends, and one that
/// has just come or is about to go.
const FEW_ENDS: u32 = 3;

/// What is found on the way back.
#[derive(Default)]
struct Upstream {
    ports: Vec<Home<PortId>>,
    /// Plugs by which packets leave switches, of which it is to be found out what leads to them.
    plugs: Vec<Plug>,
    seen: BTreeSet<Plug>,
}

impl Upstream {
    fn add_plug(&mut self, plug: Plug) {
        if self.seen.insert(plug) {
            self.plugs.push(plug);
        }
    }
}

impl State {
    /// Finds out which instances poll the ports whose packets may pass a wire that was laid or taken away.
    pub(super) fn find_consumers(&mut self, workers: &mut Quiesced<'_>, wire: u64) {
        let Some(Wire { from, to, both_ways }) = self.wires.get(&wire).copied() else { return };
        let mut upstream = Upstream { ports: std::mem::take(&mut self.laid), ..Upstream::default() };
        for end in [Some(from), both_ways.then_some(to)].into_iter().flatten() {
            self.add_end(end, &mut upstream);
        }
        self.find_consumers_of(workers, upstream);
    }

    /// The same of the ports whose packets may pass a switch in which something else decides now.
    pub(super) fn find_consumers_at(&mut self, workers: &mut Quiesced<'_>, switch: SwitchId) {
        // Of a learning switch, wires alone say what is the only one.
        if matches!(workers[0].switch(switch).forwarding, Forwarding::Learning(_)) {
            return;
        }
        let mut upstream = Upstream::default();
        self.add_ends_at(switch, |_| true, &mut upstream);
        self.find_consumers_of(workers, upstream);
    }

    /// The same for all ports.
    pub(super) fn find_all_consumers(&mut self, workers: &mut Quiesced<'_>) {
        self.laid.clear();
        workers.iter_mut().for_each(|worker| worker.find_consumers());
    }

    fn find_consumers_of(&self, workers: &mut Quiesced<'_>, mut upstream: Upstream) {
        while let Some((switch, plug)) = upstream.plugs.pop() {
            let is_crowded = self.plugs.get(&switch).is_some_and(|plugs| *plugs > FEW_ENDS);
            match &workers[0].switch(switch).forwarding {
                // Where more ends lead on, none is the only one.
                Forwarding::Learning(_) if is_crowded => {}
                Forwarding::Learning(_) => self.add_ends_at(switch, |_| true, &mut upstream),
                Forwarding::Device(device) => {
                    self.add_ends_at(switch, |from| device.only(from) == Some(plug), &mut upstream);
                }
                Forwarding::Ports(devices) => {
                    self.add_ends_at(switch, |from| devices.only(from) == Some(plug), &mut upstream);
                }
            }
        }
        for home in upstream.ports {
            workers[home.worker].find_consumer(home.id);
        }
    }

    /// Adds what leads into a switch by some of its plugs: ports, relays, other switches.
    fn add_ends_at(&self, switch: SwitchId, is_meant: impl Fn(SwitchPort) -> bool, upstream: &mut Upstream) {
        for (_, _, end) in self.plugged_into(switch).into_iter().filter(|(plug, ..)| is_meant(*plug)) {
            self.add_end(end, upstream);
        }
        let relays = (End::Switch(switch, SwitchPort(0)), 0, PoolId(0))
            ..=(End::Switch(switch, SwitchPort(u16::MAX)), usize::MAX, PoolId(u16::MAX));
        let relays = self.relays.range(relays);
        let meant = relays.filter(|((end, ..), _)| matches!(end, End::Switch(_, plug) if is_meant(*plug)));
        upstream.ports.extend(meant.map(|(_, relay)| relay.arriving));
    }

    /// Adds a port, or a plug by which packets leave a switch. What instances send is not polled.
    fn add_end(&self, end: End, upstream: &mut Upstream) {
        match end {
            End::Port(port) => upstream.ports.extend(self.port(port)),
            End::Switch(switch, plug) => upstream.add_plug((switch, plug)),
            End::Instance(..) => {}
        }
    }
}
