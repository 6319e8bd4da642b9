//! Taking parts and wires out of a fleet. No packet is lost without a count: what is in a relay arrives
//! first, what an instance still has is dropped in its account, and what was counted by removed parts stays
//! in the fleet's.

use super::FleetError;
use super::state::{End, FleetInstance, FleetPort, State, Wire, all_of};
use crate::control::account::{InstanceAccount, PortAccount};
use crate::control::quiesce::Quiesced;
use crate::ids::{PoolId, ServiceId, SwitchId, WireError};
use crate::state::instances::Instance;
use crate::state::ports::PortNode;
use cpu_share::TenantId;
use std::collections::BTreeMap;

impl State {
    /// The place of a switch that is no more, or the next one.
    pub(super) fn place_for_switch(&self) -> usize {
        self.switches.iter().position(Option::is_none).unwrap_or(self.switches.len())
    }

    pub(super) fn add_switch(&mut self, id: SwitchId, home: Option<usize>) {
        self.change += 1;
        if id.index() == self.switches.len() {
            self.switches.push(Some(home));
        } else {
            self.switches[id.index()] = Some(home);
        }
    }

    pub(super) fn remove_switch(&mut self, id: SwitchId) {
        self.change += 1;
        if let Some(home) = self.switches.get_mut(id.index()) {
            *home = None;
        }
        self.users.retain(|(switch, _), _| *switch != id);
        self.joined.retain(|(one, other), _| *one != id && *other != id);
        self.plugs.remove(&id);
    }

    /// Takes away the wires between two ends.
    pub(super) fn unlink(&mut self, workers: &mut Quiesced<'_>, a: End, b: End) -> Result<(), FleetError> {
        let is_it = |wire: &Wire| (wire.from, wire.to) == (a, b) || (wire.from, wire.to) == (b, a);
        let wires = self.wired.get(&a).into_iter().flatten().copied();
        let found: Vec<u64> = wires.filter(|number| self.wires.get(number).is_some_and(is_it)).collect();
        if found.is_empty() {
            return Err(WireError::Absent.into());
        }
        for number in found {
            self.unwire(workers, number);
        }
        Ok(())
    }

    /// Takes away all wires of whatever an end is of.
    pub(super) fn unwire_all(&mut self, workers: &mut Quiesced<'_>, end: End) {
        let wires: Vec<u64> = self.wires_at(end).collect();
        for number in wires {
            self.unwire(workers, number);
        }
    }

    fn unwire(&mut self, workers: &mut Quiesced<'_>, number: u64) {
        let Some(Wire { from, to, both_ways }) = self.wires.get(&number).copied() else { return };
        self.change += 1;
        let before = self.users_around(workers, [from, to]);
        for (end, other, leads) in [(from, to, true), (to, from, both_ways)] {
            if leads {
                self.cut(workers, end);
            }
            let End::Switch(switch, _) = end else { continue };
            if let Some(plugs) = self.plugs.get_mut(&switch).filter(|_| leads) {
                *plugs -= 1;
            }
            if let Some(worker) = self.worker_of(other) {
                one_less(&mut self.users, (switch, worker));
            }
            if let End::Switch(other, _) = other {
                one_less(&mut self.joined, (switch, other));
            }
        }
        self.clear_unused(workers, before);
        self.find_consumers(workers, number);
        self.wires.remove(&number);
        for end in [from, to] {
            if let Some(wires) = self.wired.get_mut(&end) {
                wires.retain(|wire| *wire != number);
                if wires.is_empty() {
                    self.wired.remove(&end);
                }
            }
        }
    }

    /// Lets what leaves by an end lead nowhere.
    fn cut(&self, workers: &mut Quiesced<'_>, end: End) {
        let Ok((home, target)) = self.place(end) else { return };
        let at = match (home, end) {
            // A switch is on every worker that uses it; on others nothing of it is laid.
            (None, End::Switch(switch, _)) => self.users_of(workers, switch),
            (home, _) => home.into_iter().collect(),
        };
        for worker in at {
            if let Ok(way) = workers[worker].end(target) {
                *way = None;
            }
        }
    }

    pub(super) fn unserve(&mut self, workers: &mut Quiesced<'_>, service: ServiceId) {
        self.change += 1;
        let served = self.services.remove(&service);
        workers.iter_mut().for_each(|worker| worker.unserve(service));
        if let Some(End::Switch(switch, _)) = served {
            // Workers that only sent there by the service use the switch no more.
            let all: Vec<usize> = (0..workers.len()).collect();
            let near: Vec<SwitchId> = std::iter::once(switch).chain(self.joined_to(switch)).collect();
            self.clear_unused(workers, near.into_iter().map(|switch| (switch, all.clone())));
        }
    }

    /// Clears switches on the workers that used them and do so no more.
    fn clear_unused(
        &self,
        workers: &mut Quiesced<'_>,
        before: impl IntoIterator<Item = (SwitchId, Vec<usize>)>,
    ) {
        for (switch, users) in before {
            let still = self.users_of(workers, switch);
            for worker in users.into_iter().filter(|worker| !still.contains(worker)) {
                workers[worker].clear_switch(switch);
            }
        }
    }

    /// Takes away all services that lead to whatever an end is of.
    pub(super) fn unserve_all(&mut self, workers: &mut Quiesced<'_>, end: End) {
        let range = all_of(end);
        let gone = self.services.iter().filter(|(_, to)| range.contains(to));
        let gone: Vec<ServiceId> = gone.map(|(service, _)| *service).collect();
        for service in gone {
            self.unserve(workers, service);
        }
    }

    /// Takes away all services of a tenant that is no more: its number goes to another.
    pub(super) fn unserve_tenant(&mut self, workers: &mut Quiesced<'_>, tenant: TenantId) {
        let range = ServiceId { tenant, number: 0 }..=ServiceId { tenant, number: u16::MAX };
        let gone: Vec<ServiceId> = self.services.range(range).map(|(service, _)| *service).collect();
        for service in gone {
            self.unserve(workers, service);
        }
    }

    /// Takes a port out.
    pub(super) fn remove_port(
        &mut self,
        workers: &mut Quiesced<'_>,
        port: FleetPort,
    ) -> Result<(PortAccount, Box<PortNode>), FleetError> {
        let home = self.port(port).ok_or(WireError::Absent)?;
        self.detach(workers, End::Port(port));
        self.unobserve_port(workers, port)?;
        self.forget_port(port);
        let worker = &mut workers[home.worker];
        let (account, removed) = worker.close_port(home.id).ok_or(WireError::Absent)?;
        self.boards.keep_of_gone(&account.counters.ledger);
        Ok((account, removed))
    }

    /// Takes an instance out.
    pub(super) fn remove_instance(
        &mut self,
        workers: &mut Quiesced<'_>,
        instance: FleetInstance,
    ) -> Result<(InstanceAccount, Box<Instance>), FleetError> {
        let home = self.instance(instance).ok_or(WireError::Absent)?;
        self.detach(workers, End::Instance(instance, 0));
        self.unobserve_instance(workers, instance)?;
        self.forget_instance(instance);
        let (account, removed) = workers[home.worker].end_instance(home.id).ok_or(WireError::Absent)?;
        self.boards.keep_of_gone(&account.ledger);
        Ok((account, removed))
    }

    /// Lets nothing lead to a part or away from it. What is on its way there arrives first.
    pub(super) fn detach(&mut self, workers: &mut Quiesced<'_>, part: End) {
        let range = all_of(part);
        let (first, last) = (*range.start(), *range.end());
        let relays = self.relays.range((first, 0, PoolId(0))..=(last, usize::MAX, PoolId(u16::MAX)));
        let (senders, arriving): (Vec<usize>, Vec<_>) =
            relays.map(|((_, sender, _), relay)| (*sender, relay.arriving)).unzip();
        // The workers that send there stand still from now on.
        workers.hold(&senders);
        for home in &arriving {
            workers[home.worker].absorb_relay(home.id);
        }
        self.unserve_all(workers, part);
        self.unwire_all(workers, part);
        if !arriving.is_empty() {
            self.remove_relays(workers, |end| range.contains(end));
        }
    }
}

/// Counts one less of something, of which nothing is left at last.
fn one_less<Key: Ord>(counts: &mut BTreeMap<Key, u32>, key: Key) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}
