//! Wires of a fleet: laid where both ends are, led over relays between workers, laid anew when something moves.

use super::FleetError;
use super::state::{End, FleetInstance, Home, Relay, State, Wire};
use crate::ids::{PoolId, SwitchId, Target, WireError};
use crate::worker::Worker;
use port::relay::one_way;
use std::collections::BTreeSet;

impl State {
    /// Lays a wire.
    pub(super) fn link(
        &mut self,
        workers: &mut [Box<Worker>],
        from: End,
        to: End,
        both_ways: bool,
    ) -> Result<(), FleetError> {
        if from == to {
            return Err(WireError::Taken.into());
        }
        if matches!((from, to), (End::Switch(..), End::Switch(..))) {
            return Err(WireError::TwoSwitches.into());
        }
        for end in [from, to] {
            let (home, target) = self.place(end)?;
            workers[home.unwrap_or(0)].end(target)?;
            if self.wired.contains(&end) {
                return Err(WireError::Taken.into());
            }
        }
        self.wired.insert(from);
        if both_ways {
            self.wired.insert(to);
        }
        self.change += 1;
        self.wires.push(Wire { from, to, both_ways });
        self.lay(workers, self.wires.len() - 1)?;
        self.lay_switches(workers, &[from, to])?;
        workers.iter_mut().for_each(|worker| worker.find_consumers());
        Ok(())
    }

    /// Enters a service, for every worker to use.
    pub(super) fn serve(
        &mut self,
        workers: &mut [Box<Worker>],
        service: u16,
        end: End,
    ) -> Result<(), FleetError> {
        let (home, target) = self.place(end)?;
        workers[home.unwrap_or(0)].end(target)?;
        self.services.insert(service, end);
        self.lay_services(workers)?;
        self.lay_switches(workers, &[end])?;
        workers.iter_mut().for_each(|worker| worker.find_consumers());
        Ok(())
    }

    /// Shows the packets of one instance to another.
    pub(super) fn observe(
        &mut self,
        workers: &mut [Box<Worker>],
        observer: FleetInstance,
        at: FleetInstance,
        interface: Option<u16>,
    ) -> Result<(), FleetError> {
        let home = self.instance(at).ok_or(WireError::Absent)?;
        let watching = self.instance(observer).ok_or(WireError::Absent)?;
        if watching.worker != home.worker {
            self.move_to(workers, &[End::Instance(observer, 0)], home.worker)?;
        }
        self.change += 1;
        self.observations.push((observer, at, interface));
        self.lay_observations(workers, &[at]);
        Ok(())
    }

    /// Moves ports and instances to a worker; returns how many.
    pub(super) fn move_to(
        &mut self,
        workers: &mut [Box<Worker>],
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
        // What is between workers arrives first: nothing that is sent later overtakes it.
        self.absorb_relays(workers);
        for &instance in &instances {
            let home = self.instances[instance.0 as usize];
            if let Some(moving) = workers[home.worker].take_instance(home.id) {
                let id = workers[to].put_instance(moving);
                self.instances[instance.0 as usize] = Home { worker: to, id };
            }
        }
        for &port in &ports {
            let home = self.ports[port.0 as usize];
            if let Some(node) = workers[home.worker].take_port(home.id) {
                let id = workers[to].insert_port(node);
                self.ports[port.0 as usize] = Home { worker: to, id };
            }
        }
        let moved = |end: &End| match end {
            End::Port(port) => ports.contains(port),
            End::Instance(instance, _) => instances.contains(instance),
            End::Switch(..) => false,
        };
        // All ways that lead to what has moved, and all that it used.
        let ends_of = |wire: &Wire| [wire.from, wire.to];
        let touched = self.wires.iter().filter(|wire| ends_of(wire).iter().any(moved));
        let far: BTreeSet<End> = touched.flat_map(ends_of).collect();
        self.remove_relays(workers, |end| far.contains(end) || moved(end));
        // Others may lead to the same ends, over the same relays.
        let again = |wire: &Wire| ends_of(wire).iter().any(|end| far.contains(end));
        let again: Vec<usize> = (0..self.wires.len()).filter(|&n| again(&self.wires[n])).collect();
        let ends: Vec<End> = again.iter().flat_map(|&n| ends_of(&self.wires[n])).collect();
        for n in again {
            self.lay(workers, n)?;
        }
        self.lay_switches(workers, &ends)?;
        self.lay_services(workers)?;
        self.lay_observations(workers, &instances);
        workers.iter_mut().for_each(|worker| worker.find_consumers());
        Ok(instances.len() + ports.len())
    }

    /// Lays one wire as its ends are now. The ports of switches are seen to by [`State::lay_switches`].
    fn lay(&mut self, workers: &mut [Box<Worker>], wire: usize) -> Result<(), WireError> {
        let Wire { from, to, both_ways } = self.wires[wire];
        let back = both_ways.then_some((to, from));
        for (from, to) in [(from, to)].into_iter().chain(back) {
            let (Some(worker), target) = self.place(from)? else { continue };
            let pool = self.pool_of(workers, from);
            let way = self.way(workers, worker, pool, to)?;
            *workers[worker].end(target)? = Some(way);
        }
        Ok(())
    }

    /// Lays what leaves by the ports of switches among these ends, on every worker where something is plugged into them.
    fn lay_switches(&mut self, workers: &mut [Box<Worker>], ends: &[End]) -> Result<(), WireError> {
        let switches: BTreeSet<SwitchId> = ends
            .iter()
            .filter_map(|end| match end {
                End::Switch(id, _) => Some(*id),
                End::Port(_) | End::Instance(..) => None,
            })
            .collect();
        for switch in switches {
            let of_switch = |end: End| matches!(end, End::Switch(id, _) if id == switch);
            let (mut plugged, mut users) = (Vec::new(), BTreeSet::new());
            for Wire { from, to, both_ways } in self.wires.iter().copied() {
                if of_switch(from) {
                    plugged.push((from, to));
                    users.extend(self.place(to)?.0);
                }
                // Who sends into it uses it, even if nothing comes back.
                if of_switch(to) {
                    plugged.extend(both_ways.then_some((to, from)));
                    users.extend(self.place(from)?.0);
                }
            }
            if let Some(home) = self.switches.get(switch.index()).copied().flatten() {
                users = BTreeSet::from([home]);
            } else if self.services.values().any(|end| of_switch(*end)) {
                // Whoever may use a service may send it there.
                users.extend(0..workers.len());
            }
            for (port, end) in plugged {
                let End::Switch(id, number) = port else { continue };
                for &user in &users {
                    let pool = self.pool_of(workers, end);
                    let way = self.way(workers, user, pool, end)?;
                    *workers[user].end(Target::Switch(id, number))? = Some(way);
                }
            }
        }
        Ok(())
    }

    fn lay_services(&mut self, workers: &mut [Box<Worker>]) -> Result<(), WireError> {
        for (service, end) in self.services.clone() {
            let pool = self.pool_of(workers, end);
            for worker in 0..workers.len() {
                let way = self.way(workers, worker, pool, end)?;
                workers[worker].serve(service, way);
            }
        }
        Ok(())
    }

    /// Enters who observes these instances, and whom they observe.
    fn lay_observations(&mut self, workers: &mut [Box<Worker>], instances: &[FleetInstance]) {
        let observed: BTreeSet<FleetInstance> = self
            .observations
            .iter()
            .filter(|(observer, at, _)| instances.contains(observer) || instances.contains(at))
            .map(|(_, at, _)| *at)
            .collect();
        for at in observed {
            let Some(home) = self.instance(at) else { continue };
            workers[home.worker].forget_observers(home.id);
            for (observer, of, interface) in &self.observations {
                if let (true, Some(watching)) = (*of == at, self.instance(*observer)) {
                    workers[home.worker].observe(watching.id, home.id, *interface);
                }
            }
        }
    }

    /// How an end is reached from a worker by packets of a pool: directly, or over a relay, made if there is none yet.
    fn way(
        &mut self,
        workers: &mut [Box<Worker>],
        from: usize,
        pool: Option<PoolId>,
        end: End,
    ) -> Result<Target, WireError> {
        let (home, target) = self.place(end)?;
        let Some(home) = home.filter(|home| *home != from) else { return Ok(target) };
        // A service or a switch without an end's pool: what arrives is copied where it has to be.
        let pool = pool.or_else(|| self.pool_of(workers, end)).unwrap_or(PoolId(0));
        if let Some(relay) = self.relays.get(&(from, pool, end)) {
            return Ok(Target::Port(relay.sending));
        }
        let (sending, arriving) = one_way(workers[from].bell(), workers[home].bell());
        let name = format!("worker-{from} to worker-{home}");
        let sending = workers[from].add_port(&name, pool, Box::new(sending));
        let arriving = workers[home].add_port(&name, pool, Box::new(arriving));
        *workers[home].end(Target::Port(arriving))? = Some(target);
        let relay = Relay { sending, arriving: Home { worker: home, id: arriving } };
        self.relays.insert((from, pool, end), relay);
        Ok(Target::Port(sending))
    }

    /// Empties all relays to where they lead. Those that lead to switches come last, and one by one: what they hold may go on
    /// by others, which have room for it then.
    fn absorb_relays(&self, workers: &mut [Box<Worker>]) {
        let (switched, plain): (Vec<_>, Vec<_>) =
            self.relays.iter().partition(|((_, _, end), _)| matches!(end, End::Switch(..)));
        let mut absorb = |relay: &Relay| {
            workers[relay.arriving.worker].absorb_relay(relay.arriving.id);
        };
        plain.iter().for_each(|(_, relay)| absorb(relay));
        for (_, relay) in switched {
            absorb(relay);
            plain.iter().for_each(|(_, relay)| absorb(relay));
        }
    }

    /// Takes away the relays that lead to some ends; they are empty.
    fn remove_relays(&mut self, workers: &mut [Box<Worker>], doomed: impl Fn(&End) -> bool) {
        let gone: Vec<_> = self.relays.keys().filter(|(_, _, end)| doomed(end)).copied().collect();
        for key in gone {
            let Some(relay) = self.relays.remove(&key) else { continue };
            let ends = [(key.0, relay.sending), (relay.arriving.worker, relay.arriving.id)];
            for (worker, port) in ends {
                if let Some(node) = workers[worker].take_port(port) {
                    debug_assert_eq!(node.port.in_flight(), 0, "absorbed before");
                    self.gone.merge(&node.port.counters().ledger);
                    self.gone.merge(&node.ledger);
                }
            }
        }
    }

    fn pool_of(&self, workers: &[Box<Worker>], end: End) -> Option<PoolId> {
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
