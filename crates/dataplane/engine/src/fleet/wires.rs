//! Wires of a fleet: laid where both ends are, led over relays between workers, laid anew when something
//! moves.

use super::FleetError;
use super::state::{End, FleetInstance, Home, Relay, State, Wire};
use crate::control::quiesce::Quiesced;
use crate::ids::{PoolId, ServiceId, SwitchId, Target, WireError};
use port::relay::{RELAY_PACKETS, one_way};
use std::collections::{BTreeMap, BTreeSet};
use virtual_switch::SwitchPort;

impl State {
    /// Lays a wire.
    pub(super) fn link(
        &mut self,
        workers: &mut Quiesced<'_>,
        from: End,
        to: End,
        both_ways: bool,
    ) -> Result<(), FleetError> {
        if from == to {
            return Err(WireError::Taken.into());
        }
        if let (End::Switch(one, _), End::Switch(other, _)) = (from, to) {
            workers[0].may_join(one, other)?;
        }
        for (end, other) in [(from, to), (to, from)] {
            let (home, target) = self.place(end)?;
            // A switch without a worker of its own is known to all: the worker that is concerned anyway is
            // asked.
            let home = home.or(self.place(other)?.0).unwrap_or(0);
            workers[home].end(target)?;
            if self.leads_on(end) {
                return Err(WireError::Taken.into());
            }
        }
        let number = self.number();
        self.wires.insert(number, Wire { from, to, both_ways });
        for end in [from, to] {
            self.wired.entry(end).or_default().push(number);
        }
        self.lay(workers, number)?;
        self.plug(workers, number)?;
        self.find_consumers(workers, number);
        Ok(())
    }

    /// Whether something leads from an end to elsewhere.
    fn leads_on(&self, end: End) -> bool {
        let wires = self.wired.get(&end).into_iter().flatten();
        wires.filter_map(|number| self.wires.get(number)).any(|wire| wire.from == end || wire.both_ways)
    }

    /// Enters a service, for its tenant's functions on every worker.
    pub(super) fn serve(
        &mut self,
        workers: &mut Quiesced<'_>,
        service: ServiceId,
        end: End,
    ) -> Result<(), FleetError> {
        let (home, target) = self.place(end)?;
        workers[home.unwrap_or(0)].end(target)?;
        self.services.insert(service, end);
        self.change += 1;
        self.lay_service(workers, service, end)?;
        if matches!(end, End::Switch(..)) {
            self.lay_switches(workers, &[end])?;
        }
        self.find_all_consumers(workers);
        Ok(())
    }

    /// Moves ports and instances to a worker; returns how many.
    pub(super) fn move_to(
        &mut self,
        workers: &mut Quiesced<'_>,
        parts: &[End],
        to: usize,
    ) -> Result<usize, FleetError> {
        let (mut ports, mut instances) = (BTreeSet::new(), BTreeSet::new());
        for part in parts {
            match part {
                End::Port(port) => {
                    ports.insert(*port);
                }
                End::Instance(instance, _) => instances.extend(self.together(*instance)),
                End::Switch(..) => {}
            }
        }
        instances.retain(|instance| self.instance(*instance).is_none_or(|home| home.worker != to));
        ports.retain(|port| self.port(*port).is_none_or(|home| home.worker != to));
        let instances: Vec<_> = instances.into_iter().collect();
        self.check_moves(workers, &instances)?;
        for port in &ports {
            self.port(*port).ok_or(WireError::Absent)?;
        }

        self.change += 1;
        workers.gather();
        // What is between workers arrives first: nothing that is sent later overtakes it.
        self.absorb_relays(workers);
        for &instance in &instances {
            let Some(home) = self.instance(instance) else { continue };
            if let Some(moving) = workers[home.worker].take_instance(home.id) {
                let id = workers[to].put_instance(moving);
                self.set_home(instance, Home { worker: to, id });
            }
        }
        for &port in &ports {
            let Some(home) = self.port(port) else { continue };
            if let Some(node) = workers[home.worker].take_port(home.id) {
                let id = workers[to].insert_port(node);
                self.set_home_of_port(port, Home { worker: to, id });
            }
        }
        let moved = |end: &End| match end {
            End::Port(port) => ports.contains(port),
            End::Instance(instance, _) => instances.contains(instance),
            End::Switch(..) => false,
        };
        // All ways that lead to what has moved, and all that it used.
        let all: Vec<End> = (ports.iter().map(|port| End::Port(*port)))
            .chain(instances.iter().map(|instance| End::Instance(*instance, 0)))
            .collect();
        let touched: BTreeSet<u64> = all.iter().flat_map(|end| self.wires_at(*end)).collect();
        let far: BTreeSet<End> = touched.iter().flat_map(|number| self.ends_of(*number)).collect();
        self.remove_relays(workers, |end| far.contains(end) || moved(end));
        // Others may lead to the same ends, over the same relays.
        let beside = far.iter().filter_map(|end| self.wired.get(end)).flatten().copied();
        let again: BTreeSet<u64> = beside.collect();
        let ends: Vec<End> = again.iter().flat_map(|number| self.ends_of(*number)).collect();
        for number in again {
            self.lay(workers, number)?;
        }
        self.lay_switches(workers, &ends)?;
        self.lay_services(workers)?;
        let count = instances.len() + ports.len();
        let mut concerned: BTreeSet<FleetInstance> = instances.into_iter().collect();
        for end in &far {
            match end {
                End::Instance(instance, _) => drop(concerned.insert(*instance)),
                End::Port(port) => drop(ports.insert(*port)),
                End::Switch(..) => {}
            }
        }
        self.lay_observations(workers, &concerned, &ports)?;
        self.find_all_consumers(workers);
        Ok(count)
    }

    fn ends_of(&self, wire: u64) -> impl Iterator<Item = End> + use<> {
        self.wires.get(&wire).map(|wire| [wire.from, wire.to]).into_iter().flatten()
    }

    /// Lays one wire as its ends are now. The ports of switches are seen to by [`State::plug`] and
    /// [`State::lay_switches`].
    fn lay(&mut self, workers: &mut Quiesced<'_>, wire: u64) -> Result<(), WireError> {
        let Some(Wire { from, to, both_ways }) = self.wires.get(&wire).copied() else { return Ok(()) };
        let back = both_ways.then_some((to, from));
        for (from, to) in [(from, to)].into_iter().chain(back) {
            let (Some(worker), target) = self.place(from)? else { continue };
            let pool = self.pool_of(workers, from);
            let way = self.way(workers, worker, pool, to)?;
            *workers[worker].end(target)? = Some(way);
        }
        Ok(())
    }

    /// Lays what leaves by the ports of switches among these ends, on every worker where something is plugged
    /// into them.
    fn lay_switches(&mut self, workers: &mut Quiesced<'_>, ends: &[End]) -> Result<(), WireError> {
        let mut switches = BTreeSet::new();
        for end in ends {
            if let End::Switch(id, _) = end {
                switches.insert(*id);
                switches.extend(self.joined_to(*id));
            }
        }
        for &switch in &switches {
            self.users.retain(|(id, _), _| *id != switch);
            for (_, _, end) in self.plugged_into(switch) {
                if let Some(worker) = self.place(end)?.0 {
                    *self.users.entry((switch, worker)).or_default() += 1;
                }
            }
        }
        for switch in switches {
            let users = self.users_of(workers, switch);
            for worker in 0..workers.len() {
                workers[worker].clear_switch(switch);
                if users.contains(&worker) {
                    self.lay_switch(workers, switch, worker)?;
                }
            }
        }
        Ok(())
    }

    /// Lets what a new wire plugs into a switch be found on all workers that use the switch.
    fn plug(&mut self, workers: &mut Quiesced<'_>, wire: u64) -> Result<(), WireError> {
        let Some(Wire { from, to, both_ways }) = self.wires.get(&wire).copied() else { return Ok(()) };
        let before = self.users_around(workers, [from, to]);
        let sides = [(from, to, true), (to, from, both_ways)];
        for (end, other, leads) in sides {
            let End::Switch(switch, _) = end else { continue };
            if let Some(worker) = self.place(other)?.0 {
                *self.users.entry((switch, worker)).or_default() += 1;
            }
            if let End::Switch(other, _) = other {
                *self.joined.entry((switch, other)).or_default() += 1;
            }
            *self.plugs.entry(switch).or_default() += u32::from(leads);
            self.see_who_presses_back(workers, switch);
        }
        for (switch, before) in before {
            for user in self.users_of(workers, switch) {
                if !before.contains(&user) {
                    self.lay_switch(workers, switch, user)?;
                    continue;
                }
                for (end, other, leads) in sides {
                    if let End::Switch(id, port) = end
                        && id == switch
                        && leads
                    {
                        self.lay_plug(workers, switch, port, other, user)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The switches that a wire between two ends may bring to other workers, and those on which each is now.
    pub(super) fn users_around(
        &self,
        workers: &Quiesced<'_>,
        ends: [End; 2],
    ) -> BTreeMap<SwitchId, Vec<usize>> {
        let switches: BTreeSet<SwitchId> = match ends {
            [End::Switch(one, _), End::Switch(other, _)] => [one, other].into(),
            [End::Switch(id, _), _] | [_, End::Switch(id, _)] => {
                std::iter::once(id).chain(self.joined_to(id)).collect()
            }
            _ => BTreeSet::new(),
        };
        switches.into_iter().map(|switch| (switch, self.users_of(workers, switch))).collect()
    }

    /// The switches to which a switch is wired: devices, and the devices at a port.
    pub(super) fn joined_to(&self, switch: SwitchId) -> impl Iterator<Item = SwitchId> + use<'_> {
        self.joined.range((switch, SwitchId(0))..=(switch, SwitchId(u32::MAX))).map(|((_, other), _)| *other)
    }

    /// The watermark of a wire by which packets of a pool reach an end: one function or port of the same
    /// tenant throttles their senders, be it behind a switch that no other end is plugged into.
    fn watermark(&self, workers: &Quiesced<'_>, end: End, pool: PoolId) -> usize {
        let ends = match end {
            End::Switch(id, here) => {
                self.plugged_into(id).into_iter().filter(|(port, ..)| *port != here).collect()
            }
            End::Instance(..) | End::Port(_) => vec![(SwitchPort(0), true, end)],
        };
        let owner = |pool: PoolId| workers[0].owners.get(usize::from(pool.0));
        let together = |end| self.pool_of(workers, end).is_some_and(|there| owner(there) == owner(pool));
        if matches!(ends[..], [(_, _, only)] if together(only)) { RELAY_PACKETS / 2 } else { 0 }
    }

    /// Lets senders on other workers that reach a switch wait, or not, depending on what is plugged into it
    /// now.
    fn see_who_presses_back(&self, workers: &mut Quiesced<'_>, switch: SwitchId) {
        let first = (End::Switch(switch, SwitchPort(0)), 0, PoolId(0));
        let last = (End::Switch(switch, SwitchPort(u16::MAX)), usize::MAX, PoolId(u16::MAX));
        for ((end, from, pool), relay) in self.relays.range(first..=last) {
            let watermark = self.watermark(workers, *end, *pool);
            workers[*from].ports[relay.sending.index()].watermark = watermark;
        }
    }

    /// The workers on which a switch forwards.
    pub(super) fn users_of(&self, workers: &Quiesced<'_>, switch: SwitchId) -> Vec<usize> {
        if let Some(home) = self.switches.get(switch.index()).copied().flatten().flatten() {
            return vec![home];
        }
        // What comes into one goes on into those that it is wired to, on the same worker.
        let near = std::iter::once(switch).chain(self.joined_to(switch));
        let users: BTreeSet<usize> = near.flat_map(|near| self.senders_to(workers, near)).collect();
        users.into_iter().collect()
    }

    /// The workers on which packets come into a switch, be it from another one's home.
    fn senders_to(&self, workers: &Quiesced<'_>, switch: SwitchId) -> Vec<usize> {
        if let Some(home) = self.switches.get(switch.index()).copied().flatten().flatten() {
            return vec![home];
        }
        // Every function that may use a service may send it there.
        if self.services.values().any(|end| matches!(end, End::Switch(id, _) if *id == switch)) {
            return (0..workers.len()).collect();
        }
        self.users.range((switch, 0)..=(switch, usize::MAX)).map(|((_, worker), _)| *worker).collect()
    }

    /// Ports of a switch, whether anything leaves by them, and what is plugged into them.
    pub(super) fn plugged_into(&self, switch: SwitchId) -> Vec<(SwitchPort, bool, End)> {
        let wires = self.wires_at(End::Switch(switch, SwitchPort(0)));
        let plugged = wires.filter_map(|number| match *self.wires.get(&number)? {
            Wire { from: End::Switch(id, port), to, .. } if id == switch => Some((port, true, to)),
            Wire { from, to: End::Switch(id, port), both_ways } if id == switch => {
                Some((port, both_ways, from))
            }
            _ => None,
        });
        plugged.collect()
    }

    /// Lays all that leaves by a switch, on one worker.
    fn lay_switch(
        &mut self,
        workers: &mut Quiesced<'_>,
        switch: SwitchId,
        worker: usize,
    ) -> Result<(), WireError> {
        for (port, leads, end) in self.plugged_into(switch) {
            if leads {
                self.lay_plug(workers, switch, port, end, worker)?;
            }
        }
        Ok(())
    }

    /// Lays what leaves by one port of a switch, on one worker.
    fn lay_plug(
        &mut self,
        workers: &mut Quiesced<'_>,
        switch: SwitchId,
        port: SwitchPort,
        end: End,
        worker: usize,
    ) -> Result<(), WireError> {
        let pool = self.pool_of(workers, end);
        let way = self.way(workers, worker, pool, end)?;
        *workers[worker].end(Target::Switch(switch, port))? = Some(way);
        Ok(())
    }

    fn lay_services(&mut self, workers: &mut Quiesced<'_>) -> Result<(), WireError> {
        for (service, end) in self.services.clone() {
            self.lay_service(workers, service, end)?;
        }
        Ok(())
    }

    fn lay_service(
        &mut self,
        workers: &mut Quiesced<'_>,
        service: ServiceId,
        end: End,
    ) -> Result<(), WireError> {
        let pool = self.pool_of(workers, end);
        for worker in 0..workers.len() {
            let way = self.way(workers, worker, pool, end)?;
            workers[worker].serve(service, way);
        }
        Ok(())
    }

    /// How an end is reached from a worker by packets of a pool: directly, or over a relay, made if there is
    /// none yet.
    pub(super) fn way(
        &mut self,
        workers: &mut Quiesced<'_>,
        from: usize,
        pool: Option<PoolId>,
        end: End,
    ) -> Result<Target, WireError> {
        let (home, target) = self.place(end)?;
        let Some(home) = home.filter(|home| *home != from) else { return Ok(target) };
        // A service or a switch without an end's pool: what arrives is copied where it has to be.
        let pool = pool.or_else(|| self.pool_of(workers, end)).unwrap_or(PoolId(0));
        if let Some(relay) = self.relays.get(&(end, from, pool)) {
            return Ok(Target::Port(relay.sending));
        }
        let (sending, arriving) = one_way(workers[from].bell(), workers[home].bell());
        let name = format!("worker-{from} to worker-{home}");
        let sending = workers[from].add_port(&name, pool, Box::new(sending));
        let arriving = workers[home].add_port(&name, pool, Box::new(arriving));
        workers[from].ports[sending.index()].watermark = self.watermark(workers, end, pool);
        *workers[home].end(Target::Port(arriving))? = Some(target);
        let relay = Relay { sending, arriving: Home { worker: home, id: arriving } };
        self.relays.insert((end, from, pool), relay);
        self.laid.push(Home { worker: home, id: arriving });
        Ok(Target::Port(sending))
    }

    /// Empties all relays to where they lead. Those that lead to switches come last, and one by one: what
    /// they hold may go on by others, which have room for it then. What went by a relay that was emptied
    /// before, to an observer or from switch to switch, is left for the next round: as often as a packet may
    /// pass from one to the next.
    pub(super) fn absorb_relays(&self, workers: &mut Quiesced<'_>) {
        let (switched, plain): (Vec<_>, Vec<_>) =
            self.relays.iter().partition(|((end, _, _), _)| matches!(end, End::Switch(..)));
        let absorb = |workers: &mut Quiesced<'_>, relay: &Relay| {
            workers[relay.arriving.worker].absorb_relay(relay.arriving.id);
        };
        for _ in 0..nf_abi::HOP_BUDGET {
            plain.iter().for_each(|(_, relay)| absorb(workers, relay));
            for (_, relay) in &switched {
                absorb(workers, relay);
                plain.iter().for_each(|(_, relay)| absorb(workers, relay));
            }
            if self.relays.values().all(|relay| is_empty(workers, relay)) {
                break;
            }
        }
    }

    /// Takes away the relays that lead to some ends; they are empty.
    pub(super) fn remove_relays(&mut self, workers: &mut Quiesced<'_>, doomed: impl Fn(&End) -> bool) {
        let gone: Vec<_> = self.relays.keys().filter(|(end, _, _)| doomed(end)).copied().collect();
        for key in gone {
            let Some(relay) = self.relays.remove(&key) else { continue };
            let ends = [(key.1, relay.sending), (relay.arriving.worker, relay.arriving.id)];
            for (worker, port) in ends {
                if let Some(node) = workers[worker].take_port(port) {
                    debug_assert_eq!(node.port.in_flight(), 0, "absorbed before");
                    self.boards.keep_of_gone(&node.port.counters().ledger);
                    self.boards.keep_of_gone(&node.ledger);
                }
            }
        }
    }

    fn pool_of(&self, workers: &Quiesced<'_>, end: End) -> Option<PoolId> {
        match end {
            End::Port(port) => {
                let home = self.port(port)?;
                Some(workers[home.worker].ports.get(home.id.index())?.pool)
            }
            End::Instance(instance, _) => {
                let home = self.instance(instance)?;
                Some(workers[home.worker].instances.get(home.id.index())?.pool)
            }
            End::Switch(..) => None,
        }
    }
}

/// Whether nothing is on its way to the other worker.
fn is_empty(workers: &Quiesced<'_>, relay: &Relay) -> bool {
    let node = workers[relay.arriving.worker].ports.get(relay.arriving.id.index());
    node.is_none_or(|node| node.port.in_flight() == 0)
}
