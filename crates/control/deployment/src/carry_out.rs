//! A plan, done at one quiescent point of the workers.

use crate::Host;
use crate::deployed::{Deployed, own_pool, pool_of};
use crate::devices::DeviceChange;
use crate::function::{StartedFunction, policies};
use crate::hand_over::TakenOver;
use crate::initial_placement::InitialPlacement;
use crate::prepare::{Beginning, Prepared};
use crate::stations::There;
use crate::workshop::Unused;
use engine::{Change, End, FleetError, Removed, RemovedPort, Stopped};
use guest_wasm::watchdog;
use packet_memory::{Packet, Pool};
use snapshot::PacketState;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;
use telemetry::clock::Nanos;
use wiring::{
    Edge, Endpoint, Instance, Link, Observation, Plan, Port, Service, container_of_port, container_port,
};

/// How long a change waits for the end of ports. A thread at a socket ends at once, unless a hostile peer
/// keeps it from that.
const PORTS_END: Duration = Duration::from_millis(100);

/// What was carried out. Dropping it gives the memory of what was removed back, which takes its time.
pub struct CarriedOut {
    /// Functions that were taken out.
    pub removed: Vec<Removed>,
    /// Functions that have handed over, with the guests before.
    pub handed: Vec<TakenOver>,
    /// For how long the workers stood still that it concerned, from when the first one had stopped.
    pub stood_still: Nanos,
    /// What did not go as it should have, one line each: defects, since it had been checked before.
    pub troubles: Vec<String>,
    /// Pools that were given back. After the functions, whose address space waits for others of their pools.
    unused: Unused,
}

impl CarriedOut {
    /// Whether there is memory to give back.
    pub fn has_remains(&self) -> bool {
        !(self.removed.is_empty() && self.handed.is_empty() && self.unused.pools.is_empty())
    }
}

impl Host {
    /// Does what was prepared.
    ///
    /// # Errors
    /// [`Stopped`]: the host has.
    pub fn carry_out(&self, mut prepared: Prepared) -> Result<CarriedOut, Stopped> {
        // Those that have not been asked to hand over before it was too late to refuse are now.
        let late = prepared.hand_over(true).err();
        let (workshop, stand_in) = (self.workshop.clone(), self.stand_in.clone());
        let (workers, io) = (self.workers.list.len(), self.io_worker());
        // Before the workers are stopped: they wait for no lock.
        let mut deployed = self.deployed();
        let mut devices = DeviceChange::of(&deployed, &prepared.plan);
        let observations = deployed.observations_to_lay(&prepared.plan, devices.as_ref());
        let plan = &prepared.plan;
        // A look at all wires, which a change of one function among thousands does without.
        // What a guest's interfaces are on the links of devices is said of the guest, and not of its wires.
        let concerns_guests = !plan.add_containers.is_empty();
        let concerns_stations = devices.is_some()
            || concerns_guests
            || !plan.adjust_instances.is_empty()
            || !plan.change_instances.is_empty();
        if deployed.devices.keep_headers(prepared.plan.add_devices.values()) {
            let there = deployed.pools.values().map(|(pool, _)| pool);
            there.chain(prepared.pools.values()).for_each(|pool| pool.keep_headers());
        }
        let clock = watchdog::clock();
        let (mut done, ports) = self.fleet.change(|change| {
            let mut work = Work {
                deployed: &mut deployed,
                change,
                stand_in,
                workers,
                io,
                done: Vec::new(),
                ports: Vec::new(),
                troubles: Vec::new(),
                pools: Vec::new(),
            };
            for (name, instance) in prepared.handed.instances() {
                work.deployed.put_instance(name, instance.clone());
            }
            work.take_away(&prepared.plan, devices.as_ref());
            work.adjust(&prepared.plan);
            let handed = prepared.handed.keep();
            work.add(prepared, devices.as_mut(), observations);
            let Work { done: removed, ports, mut troubles, pools, .. } = work;
            troubles.extend(late.map(|error| error.to_string()));
            let stood_still = change.first_still_since().map_or(Nanos(0), |first| clock.now().since(first));
            let unused = Unused { pools, workshop };
            (CarriedOut { removed, handed, stood_still, troubles, unused }, ports)
        })?;
        let replaced = deployed.devices.take_replaced();
        if concerns_stations {
            let Deployed { wiring, instances, stations: ports, devices, .. } = &*deployed;
            let there = There { wiring, instances, ports, next_hops: devices.next_hops() };
            done.troubles.extend(self.stations.follow(&there, &self.fleet));
        }
        drop(deployed);
        drop((replaced, devices));
        end_ports(ports);
        Ok(done)
    }
}

/// Ends what ports have that were taken out, while the workers go on. When this returns nothing of it is
/// there any more, a socket's path say, unless it takes long.
fn end_ports<P: Send + 'static>(ports: Vec<P>) {
    if ports.is_empty() {
        return;
    }
    let (end, ended) = channel::<()>();
    let work = move || {
        drop(ports);
        drop(end);
    };
    // Where the system has no thread for it, this one has ended them.
    if Builder::new().name("ports-end".into()).spawn(work).is_ok() {
        let _ = ended.recv_timeout(PORTS_END);
    }
}

/// A plan at work.
struct Work<'a, 'b, 'c> {
    deployed: &'a mut Deployed,
    change: &'a mut Change<'b, 'c>,
    stand_in: Arc<Pool>,
    /// Workers that share functions.
    workers: usize,
    io: Option<usize>,
    done: Vec<Removed>,
    ports: Vec<RemovedPort>,
    troubles: Vec<String>,
    pools: Vec<Arc<Pool>>,
}

impl Work<'_, '_, '_> {
    /// What came of a step; if it was refused, that is noted.
    fn note<T>(&mut self, what: &str, name: impl fmt::Display, outcome: Result<T, FleetError>) -> Option<T> {
        outcome.map_err(|error| self.troubles.push(format!("{what} `{name}`: {error}"))).ok()
    }

    fn take_away(&mut self, plan: &Plan, devices: Option<&DeviceChange>) {
        for service in &plan.remove_services {
            if let Some(id) = self.deployed.service(service) {
                self.change.unserve(id);
            }
            self.deployed.unplug_service(service);
            self.deployed.wiring.services.remove(service);
        }
        for seen in &plan.unobserve {
            self.deployed.wiring.observations.remove(seen);
            let ended = self.deployed.unobserve(self.change, seen);
            self.note("observer", &seen.observer, ended);
        }
        for edge in &plan.unwire {
            self.unwire(edge);
        }
        if let Some(devices) = devices {
            let troubles = &mut self.troubles;
            devices.take_off(self.deployed, self.change, &mut |link, taken| note_link(troubles, link, taken));
        }
        for name in &plan.remove_devices {
            self.deployed.wiring.devices.swap_remove(name);
        }
        for name in &plan.remove_containers {
            self.deployed.wiring.containers.swap_remove(name);
            if let Some(laid) = self.deployed.containers.get_mut(name) {
                laid.end_claim(self.change);
            }
        }
        for name in &plan.remove_instances {
            if let Some(id) = self.deployed.instances.remove(name) {
                self.deployed.paused.remove(name);
                let removed = self.change.remove_instance(id);
                let removed = self.note("function", name, removed);
                self.done.extend(removed);
            }
            self.give_back(&own_pool(name));
            self.deployed.take_instance(name);
        }
        for name in &plan.remove_ports {
            self.deployed.stations.remove(name);
            if let Some(id) = self.deployed.ports.remove(name) {
                let removed = self.change.remove_port(id);
                let removed = self.note("port", name, removed);
                self.ports.extend(removed);
            }
            self.deployed.wiring.ports.swap_remove(name);
        }
        for name in &plan.remove_switches {
            if let Some((id, _)) = self.deployed.switches.remove(name) {
                self.change.remove_switch(id);
            }
            self.deployed.wiring.switches.swap_remove(name);
        }
        for name in &plan.remove_tenants {
            self.give_back(name);
            if let Some(id) = self.deployed.tenants.remove(name) {
                self.change.remove_tenant(id);
            }
            self.deployed.wiring.tenants.swap_remove(name);
        }
    }

    fn give_back(&mut self, pool: &str) {
        if let Some((_, id)) = self.deployed.pools.remove(pool) {
            self.pools.extend(self.change.remove_pool(id, &self.stand_in));
        }
    }

    fn adjust(&mut self, plan: &Plan) {
        for (name, allowance) in &plan.adjust_tenants {
            if let (Some(id), Some(tenant)) =
                (self.deployed.tenants.get(name), self.deployed.wiring.tenants.get_mut(name))
            {
                self.change.set_tenant_claim(*id, allowance.cpu.claim());
                allowance.apply(tenant);
            }
        }
        for (name, adjustment) in &plan.adjust_instances {
            if let (Some(id), Some(instance)) =
                (self.deployed.instances.get(name).copied(), self.deployed.wiring.instances.get_mut(name))
            {
                adjustment.clone().apply(instance);
                let pool = self.deployed.pools.get(&pool_of(name, instance));
                let bounded = pool.map(|(pool, _)| policies(instance, pool));
                let bounded = bounded.map_or(Ok(()), |policies| self.change.set_policies(id, policies));
                let adjusted = bounded.and_then(|()| self.change.set_claim(id, adjustment.cpu.claim()));
                self.note("function", name, adjusted);
                if let Some(worker) = adjustment.worker {
                    let moved = self.change.move_to(&[End::Instance(id, 0)], worker);
                    self.note("function", name, moved);
                }
            }
        }
    }

    fn add(
        &mut self,
        prepared: Prepared,
        devices: Option<&mut DeviceChange>,
        observations: Vec<Observation>,
    ) {
        let Prepared {
            plan,
            beginnings,
            pools,
            switches,
            mut functions,
            mut ports,
            stripes,
            initial,
            mut unused,
            ..
        } = prepared;
        unused.pools.clear();
        let homes = self.homes(&plan, initial.as_ref());
        if let Some(workers) = &plan.workers {
            self.deployed.wiring.workers = workers.clone();
        }
        for (name, tenant) in plan.add_tenants {
            let id = self.change.add_tenant(tenant.cpu.claim());
            self.deployed.tenants.insert(name.clone(), id);
            self.deployed.wiring.tenants.insert(name, tenant);
        }
        // Those that are not a tenant's are a function's own.
        let mut of_functions: HashMap<String, &String> = HashMap::new();
        if !pools.is_empty() {
            of_functions
                .extend(plan.add_instances.iter().map(|(name, instance)| (own_pool(name), &instance.tenant)));
        }
        for (name, pool) in pools {
            let owner = of_functions.get(&name).copied().unwrap_or(&name);
            let added = match self.deployed.tenants.get(owner) {
                Some(owner) => self.change.add_pool_of(*owner, pool.clone()),
                None => self.change.add_pool(pool.clone()),
            };
            if let Some(id) = self.note("pool", &name, added) {
                self.deployed.pools.insert(name, (pool, id));
            }
        }
        for (name, switch) in plan.add_switches {
            let Some(table) = switches.get(&name).cloned() else { continue };
            // Forwarding is done in the sender's context, whatever worker that is on.
            let added = self.change.add_switch(&name, table.clone(), None);
            if let Some(id) = self.note("switch", &name, added) {
                self.deployed.switches.insert(name.clone(), (id, table));
            }
            self.deployed.wiring.switches.insert(name, switch);
        }
        for (name, instance) in plan.add_instances {
            if let Some(started) = functions.remove(&name) {
                self.add_function(&name, &instance, started, homes[&name]);
            }
            self.deployed.put_instance(&name, instance);
        }
        for (name, container) in &plan.add_containers {
            let named = container.interfaces.iter().map(|it| container_port(name, &it.name));
            let ports: Vec<_> = named.filter_map(|port| self.deployed.ports.get(&port).copied()).collect();
            let laid = self.deployed.containers.entry(name.clone()).or_default();
            let claimed = laid.claim(self.change, container, self.workers, &ports);
            self.note("container", name, claimed);
        }
        for (name, port) in plan.add_ports {
            if let Some(opened) = ports.remove(&name) {
                self.add_port(&name, &port, opened, homes[&name]);
            }
            self.deployed.wiring.ports.insert(name, port);
        }
        // Observers are known before wires are laid: what an observer sends has a way out, and no way back.
        self.deployed.wiring.observations.extend(plan.observe.iter().cloned());
        for edge in plan.wire {
            self.wire(edge);
        }
        self.deployed.wiring.devices.extend(plan.add_devices);
        self.deployed.wiring.containers.extend(plan.add_containers);
        let Deployed { wiring, containers, .. } = &mut *self.deployed;
        containers.retain(|name, _| wiring.containers.contains_key(name));
        if let Some(devices) = devices {
            let troubles = &mut self.troubles;
            let mut note = |link: &Link, laid| note_link(troubles, link, laid);
            let paired = devices.put_on(self.deployed, self.change, stripes, &mut note);
            self.troubles.extend(paired.err().into_iter().flatten());
        }
        // Devices may have been laid another way than where observers were.
        for (observer, trouble) in self.deployed.lay_observers(self.change, observations) {
            self.note::<()>("observer", &observer, Err(trouble));
        }
        for (name, beginning) in beginnings {
            self.begin(&name, beginning);
        }
        for (service, endpoint) in plan.add_services {
            self.serve(&service, &endpoint);
            self.deployed.wiring.services.insert(service, endpoint);
        }
    }

    fn add_function(&mut self, name: &str, instance: &Instance, started: StartedFunction, home: usize) {
        let pool = self.deployed.pools.get(&pool_of(name, instance)).map(|(_, id)| *id);
        let tenant = self.deployed.tenants.get(instance.payer()).copied();
        let (Some(pool), Some(tenant)) = (pool, tenant) else { return };
        let (setup, guest) = started.setup(name, instance, tenant, pool);
        let added = self.change.add_instance(home, setup, guest);
        let added = self.note("function", name, added).map(|id| (name.to_owned(), id));
        self.deployed.instances.extend(added);
    }

    fn add_port(&mut self, name: &str, port: &Port, opened: Box<dyn port::Port>, home: usize) {
        let Some(pool) = self.deployed.pools.get(&port.tenant).map(|(_, id)| *id) else { return };
        let stations = opened.stations().map(|stations| (name.to_owned(), stations));
        self.deployed.stations.extend(stations);
        let added = self.change.add_port(home, name, pool, opened);
        let Some(id) = self.note("port", name, added) else { return };
        self.deployed.ports.insert(name.to_owned(), id);
        let container = container_of_port(name);
        if let Some(laid) = container.and_then(|name| self.deployed.containers.get(name)) {
            let given = laid.give_meter(self.change, id);
            self.note("port", name, given);
        }
    }

    fn serve(&mut self, service: &Service, endpoint: &Endpoint) {
        let id = self.deployed.service(service);
        match self.deployed.plug_service(service, endpoint) {
            Ok(end) => {
                if let (Some(id), Some(end)) = (id, end) {
                    let served = self.change.serve(id, end);
                    self.note("service", service, served);
                }
            }
            Err(trouble) => self.troubles.push(trouble),
        }
    }

    /// Lets a function begin as it should.
    fn begin(&mut self, name: &str, Beginning { paused, saved }: Beginning) {
        let Some(id) = self.deployed.instances.get(name).copied() else { return };
        if paused {
            let done = self.change.set_paused(id, true);
            self.note("function", name, done);
        }
        let Some(instance) = self.deployed.wiring.instances.get(name) else { return };
        let pool = self.deployed.pools.get(&pool_of(name, instance));
        let (Some(saved), Some((pool, _))) = (saved, pool) else { return };
        let waiting = saved.packets.iter().filter(|packet| packet.state == PacketState::Queued);
        let packets: Vec<Packet> = waiting
            .filter(|packet| packet.record().ingress < instance.interfaces)
            .filter_map(|packet| guest::unpack(pool, packet).ok())
            .collect();
        for packet in self.change.put_into_queue(id, packets) {
            pool.free(packet);
        }
    }

    fn wire(&mut self, edge: Edge) {
        if let Err(trouble) = self.deployed.plug(&edge) {
            self.troubles.push(trouble);
        }
        let [a, b] = edge.ends();
        if let (Some(from), Some(to)) = (self.deployed.end(&edge, a), self.deployed.end(&edge, b)) {
            // What an observer makes goes out, and nothing comes to it but what it observes.
            let laid = match (self.deployed.observes(a), self.deployed.observes(b)) {
                (true, false) => self.change.lead(from, to),
                (false, true) => self.change.lead(to, from),
                _ => self.change.link(from, to),
            };
            self.note("wire", &edge, laid);
        }
        let shared = Arc::new(edge.clone());
        for end in edge.ends().into_iter().filter(|end| !end.takes_many()) {
            self.deployed.wired.insert(end.clone(), shared.clone());
        }
        self.deployed.wiring.edges.insert(edge);
    }

    fn unwire(&mut self, edge: &Edge) {
        let [a, b] = edge.ends();
        if let (Some(from), Some(to)) = (self.deployed.end(edge, a), self.deployed.end(edge, b)) {
            let taken = self.change.unlink(from, to);
            self.note("wire", edge, taken);
        }
        self.deployed.unplug(edge);
        for end in edge.ends() {
            self.deployed.wired.remove(end);
        }
        self.deployed.wiring.edges.remove(edge);
    }

    /// The worker of everything that comes: where the wiring says, where those are that it is wired to or
    /// shown the packets of, or else where there are fewest functions.
    fn homes(&self, plan: &Plan, initial: Option<&InitialPlacement>) -> BTreeMap<String, usize> {
        let mut homes = BTreeMap::new();
        for (name, port) in &plan.add_ports {
            if let (wiring::PortIo::Thread, Some(io)) = (port.io, self.io) {
                homes.insert(name.clone(), io);
            }
        }
        if let Some(initial) = initial {
            let names = plan.add_instances.keys().chain(plan.add_ports.keys());
            for name in names {
                homes.entry(name.clone()).or_insert_with(|| initial.of_name(name));
            }
            return homes;
        }
        let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let wires = plan.wire.iter().map(|edge| edge.ends().map(Endpoint::name));
        let seen =
            plan.observe.iter().flat_map(|seen| seen.at.names().map(|at| [seen.observer.as_str(), at]));
        let opened = plan.wire.iter().filter_map(Edge::opening).flat_map(|(end, opening)| {
            let name = opening.device.as_str();
            let device = plan.add_devices.get(name).or_else(|| self.deployed.wiring.devices.get(name));
            let over = device.into_iter().flat_map(|device| device.over.keys());
            over.map(|port| [end.name(), port.as_str()])
        });
        for [a, b] in wires.chain(seen).chain(opened) {
            beside.entry(a).or_default().push(b);
            beside.entry(b).or_default().push(a);
        }
        let mut population: Vec<usize> =
            (0..self.workers).map(|worker| self.change.population(worker)).collect();
        let instances = plan.add_instances.iter().map(|(name, instance)| (name, instance.worker));
        // Ports of containers that stay on a worker come before those that are wired to them.
        let on_worker = |port: &String| {
            let name = container_of_port(port)?;
            let wiring = &self.deployed.wiring;
            plan.add_containers.get(name).or_else(|| wiring.containers.get(name))?.worker
        };
        let ports = plan.add_ports.keys().map(|name| (name, on_worker(name)));
        let (pinned, others): (Vec<_>, Vec<_>) = ports.partition(|(_, worker)| worker.is_some());
        let names = instances.chain(pinned).chain(others);
        for (name, pin) in names {
            if homes.contains_key(name) {
                continue;
            }
            let neighbour = || {
                let beside = beside.get(name.as_str()).into_iter().flatten();
                let mut known = beside.filter_map(|other| {
                    let part = self.deployed.instances.get(*other).map(|id| End::Instance(*id, 0));
                    let part = part.or_else(|| self.deployed.ports.get(*other).map(|id| End::Port(*id)));
                    let there = part.and_then(|part| self.change.worker_of(part));
                    there.or_else(|| homes.get(*other).copied()).filter(|worker| *worker < self.workers)
                });
                known.next()
            };
            let least = || (0..self.workers).min_by_key(|worker| population[*worker]).unwrap_or(0);
            let home = pin.or_else(neighbour).unwrap_or_else(least);
            population[home] += 1;
            homes.insert(name.clone(), home);
        }
        homes
    }
}

fn note_link(troubles: &mut Vec<String>, (a, b): &Link, outcome: Result<(), FleetError>) {
    if let Err(error) = outcome {
        troubles.push(format!("wire {a:?} - {b:?}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::end_ports;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{ThreadId, current};
    use std::time::Duration;

    /// What only a hang meets.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Tells which thread has ended it; one that is held up does so when it may.
    struct Ending {
        tell: Sender<ThreadId>,
        held_up: Option<Receiver<()>>,
    }

    impl Drop for Ending {
        fn drop(&mut self) {
            let let_go = self.held_up.take().is_none_or(|held_up| held_up.recv_timeout(LIMIT).is_ok());
            if let_go {
                let _ = self.tell.send(current().id());
            }
        }
    }

    #[test]
    fn ports_are_ended_beside_and_not_waited_for_longer_than_they_may_take() {
        end_ports::<Ending>(Vec::new());
        let (tell, told) = channel();
        let at_once = || Ending { tell: tell.clone(), held_up: None };
        end_ports(vec![at_once(), at_once()]);
        for _ in 0..2 {
            let by = told.recv_timeout(LIMIT).expect("it has ended");
            assert_ne!(by, current().id());
        }
        let (let_go, held_up) = channel();
        end_ports(vec![Ending { tell: tell.clone(), held_up: Some(held_up) }, at_once()]);
        assert!(told.try_recv().is_err(), "one that is held up was waited for");
        let_go.send(()).expect("it waits");
        for _ in 0..2 {
            assert_ne!(told.recv_timeout(LIMIT).expect("it ends"), current().id());
        }
    }
}
