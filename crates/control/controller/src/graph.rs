//! What is wired to what, with what has passed: nodes and edges of the wiring, and counters of an account.
//!
//! A port counts what passes its wire, a device what passes its plugs. Between functions nothing is counted:
//! `edge_flows` finds what has to have passed, where that can be known; else there is no number. The ports
//! that a container's interfaces are stand in the graph as interfaces of a function.

use super::container_readings::ContainerReading;
use super::controller::Controller;
use super::edge_flows::{Through, infer};
use api::{EdgeKind, EdgeTraffic, Graph, GraphEdge, GraphNode, NodeKind};
use deployment::{DeviceReading, OpenerReading, passed};
use engine::{Account, InstanceAccount, PortAccount};
use guest_wasm::watchdog;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use telemetry::{DropCounters, DropReason};
use virtual_device::Entered;
use wiring::{Endpoint, Observation, Opener, Opening, Service, Watched, Wiring};

impl Controller {
    /// All of it, or what is a tenant's.
    pub(super) fn graph(&self, tenant: Option<&str>) -> Option<Graph> {
        let wiring = self.host.wiring();
        let account = self.host.fleet().survey().ok()?;
        let time_ns = watchdog::clock().now().0;
        let containers = self.container_readings(&wiring, &account);
        let mut graph = self.drawn(&wiring, &account, &containers);
        graph.time_ns = time_ns;
        self.name_parts(&mut graph, &wiring);
        if let Some(tenant) = tenant {
            only(&mut graph, tenant);
        }
        Some(graph)
    }

    /// All of it, with interfaces by their numbers.
    pub(super) fn drawn(
        &self,
        wiring: &Wiring,
        account: &Account,
        containers: &BTreeMap<String, ContainerReading>,
    ) -> Graph {
        let devices = self.host.devices(account);
        Drawn::of(wiring, account, &devices, containers).graph
    }

    /// Names interfaces as their functions do.
    pub(super) fn name_parts(&self, graph: &mut Graph, wiring: &Wiring) {
        for edge in &mut graph.edges {
            for (node, part) in [(&edge.from, &mut edge.from_part), (&edge.to, &mut edge.to_part)] {
                if let (Some(number), true) = (part.as_ref(), wiring.instances.contains_key(node)) {
                    let end = number.parse().map(|number| Endpoint::Interface(node.clone(), number));
                    let words = end.ok().map(|end| self.end_in_words(&end));
                    // A guard's name has colons of its own.
                    let words = words.as_deref().and_then(|words| words.strip_prefix(node.as_str()));
                    *part = words.and_then(|words| words.strip_prefix(':')).map(str::to_owned);
                }
            }
        }
    }
}

/// Leaves what is a tenant's: its nodes, and what leads from one of these to another.
fn only(graph: &mut Graph, tenant: &str) {
    graph.nodes.retain(|node| node.tenant.as_deref() == Some(tenant));
    let names: BTreeSet<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    graph.edges.retain(|edge| names.contains(edge.from.as_str()) && names.contains(edge.to.as_str()));
}

/// A graph of a wiring.
struct Drawn<'a> {
    wiring: &'a Wiring,
    ports: HashMap<&'a str, &'a PortAccount>,
    functions: HashMap<&'a str, &'a InstanceAccount>,
    devices: &'a BTreeMap<String, DeviceReading>,
    containers: &'a BTreeMap<String, ContainerReading>,
    graph: Graph,
}

impl<'a> Drawn<'a> {
    fn of(
        wiring: &'a Wiring,
        account: &'a Account,
        devices: &'a BTreeMap<String, DeviceReading>,
        containers: &'a BTreeMap<String, ContainerReading>,
    ) -> Drawn<'a> {
        let mut drawn = Drawn {
            wiring,
            ports: account.ports.iter().map(|port| (port.name.as_str(), port)).collect(),
            functions: account.instances.iter().map(|it| (it.name.as_str(), it)).collect(),
            devices,
            containers,
            graph: Graph::default(),
        };
        drawn.nodes();
        drawn.wires();
        drawn.devices();
        drawn.services();
        drawn.observers();
        drawn.remainders();
        drawn.graph.nodes.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        drawn.graph.edges.sort_by(|a, b| ends(a).cmp(&ends(b)));
        drawn
    }

    fn nodes(&mut self) {
        let empty = |name: &str, kind, tenant: Option<&str>| GraphNode {
            name: name.to_owned(),
            kind,
            tenant: tenant.map(str::to_owned),
            state: None,
            worker: None,
            packets: None,
            bytes: None,
            drops: 0,
        };
        let mut nodes = Vec::new();
        for (name, port) in self.wiring.ports.iter().filter(|(name, _)| self.container_end(name).is_none()) {
            let mut node = empty(name, NodeKind::Port, Some(&port.tenant));
            if let Some(account) = self.ports.get(name.as_str()) {
                let counters = &account.counters;
                node.state = Some(::metrics::json::port_state(&account.status).0.to_owned());
                let (came, left) = passed(port, account);
                node.packets = Some(came.packets + left.packets);
                node.bytes = Some(came.bytes + left.bytes);
                node.drops = lost(&counters.ledger.dropped);
            }
            nodes.push(node);
        }
        for name in self.wiring.instances.keys() {
            let mut node = empty(name, NodeKind::Function, self.wiring.shown_to(name));
            if let Some(account) = self.functions.get(name.as_str()) {
                let state = match (&account.down, account.paused) {
                    (Some(_), _) => "down",
                    (None, true) if account.frozen => "frozen",
                    (None, true) => "paused",
                    (None, false) => "running",
                };
                node.state = Some(state.to_owned());
                node.worker = Some(u32::from(account.worker));
                (node.packets, node.bytes) = (Some(account.packets), Some(account.bytes));
                let own: u64 = account.own_drops.iter().map(|(_, count)| count).sum();
                node.drops = lost(&account.ledger.dropped).max(own);
            }
            nodes.push(node);
        }
        for (name, reading) in self.containers {
            let mut node = empty(name, NodeKind::Function, Some(&reading.tenant));
            node.state = Some(reading.state.as_str().to_owned());
            (node.packets, node.bytes) = (Some(reading.packets), Some(reading.bytes));
            node.drops = lost(&reading.dropped);
            nodes.push(node);
        }
        for (name, reading) in self.devices {
            let mut node = empty(name, NodeKind::Device, Some(&reading.device.tenant));
            let came = reading.sides.iter().map(|side| side.received);
            let came: Vec<Option<Entered>> =
                came.chain(reading.openers.iter().map(|opener| opener.sent)).collect();
            // Where nothing counts any of its ways, there is no number.
            if came.is_empty() || came.iter().any(Option::is_some) {
                node.packets = Some(came.iter().flatten().map(|entered| entered.packets).sum());
                node.bytes = Some(came.iter().flatten().map(|entered| entered.bytes).sum());
            }
            node.drops = reading.drops.iter().map(|(_, count)| count).sum();
            nodes.push(node);
        }
        nodes.extend(self.wiring.switches.keys().map(|name| empty(name, NodeKind::Switch, None)));
        for service in self.wiring.services.keys() {
            nodes.push(empty(&name_of(service), NodeKind::Service, Some(&service.tenant)));
        }
        self.graph.nodes = nodes;
    }

    /// Of a port that is a container's interface: the container, and the interface.
    fn container_end<'p>(&self, port: &'p str) -> Option<(&'p str, &'p str)> {
        port.split_once(':').filter(|(container, _)| self.containers.contains_key(*container))
    }

    /// An edge of which nothing is counted.
    fn blank(&self, kind: EdgeKind, a: &Endpoint, b: &Endpoint) -> GraphEdge {
        let named = |end: &Endpoint| match end {
            Endpoint::Port(port) => match self.container_end(port) {
                Some((container, interface)) => (container.to_owned(), Some(interface.to_owned())),
                None => (port.clone(), None),
            },
            Endpoint::Interface(name, number) => (name.clone(), Some(number.to_string())),
            Endpoint::Device(opening) => (opening.device.clone(), opening.port.clone()),
            Endpoint::Switch(..) => (end.name().to_owned(), None),
        };
        let ((from, from_part), (to, to_part)) = (named(a), named(b));
        GraphEdge { kind, from, from_part, to, to_part, there: None, back: None, drops: None }
    }

    fn wires(&mut self) {
        for edge in self.wiring.edges.iter().filter(|edge| edge.opening().is_none()) {
            let [a, b] = edge.ends();
            let mut drawn = self.blank(EdgeKind::Wire, a, b);
            for (end, is_first) in [(a, true), (b, false)] {
                let Endpoint::Port(name) = end else { continue };
                let Some(account) = self.ports.get(name.as_str()) else { continue };
                let Some(port) = self.wiring.ports.get(name) else { continue };
                let (came, left) = passed(port, account);
                let (came, left) = (Some(counted(came)), Some(counted(left)));
                // What two ports tell of one wire is the same but for what is on its way.
                let (there, back) = if is_first { (came, left) } else { (left, came) };
                drawn.there = drawn.there.or(there);
                drawn.back = drawn.back.or(back);
                *drawn.drops.get_or_insert(0) += lost(&account.counters.ledger.dropped);
            }
            self.graph.edges.push(drawn);
        }
    }

    fn devices(&mut self) {
        for (name, reading) in self.devices {
            for side in &reading.sides {
                let port = Endpoint::Port(side.port.clone());
                let device = Endpoint::Device(Opening::of(name, None));
                let mut drawn = self.blank(EdgeKind::Over, &port, &device);
                (drawn.there, drawn.back) = (side.received.map(counted), side.sent.map(counted));
                let account = self.ports.get(side.port.as_str());
                drawn.drops = account.map(|account| lost(&account.counters.ledger.dropped));
                self.graph.edges.push(drawn);
            }
            for opener in &reading.openers {
                let Opener::Interface(end) = &opener.opener else { continue };
                let mut drawn = self.blank(EdgeKind::Opens, end, &Endpoint::Device(opener.opening.clone()));
                (drawn.there, drawn.back) = (opener.sent.map(counted), opener.received.map(counted));
                self.graph.edges.push(drawn);
            }
        }
    }

    fn services(&mut self) {
        for (service, end) in &self.wiring.services {
            let mut drawn = self.blank(EdgeKind::Leads, end, end);
            (drawn.from, drawn.from_part) = (name_of(service), None);
            if let Endpoint::Device(opening) = end {
                drawn.kind = EdgeKind::Opens;
                let is_it = |opener: &&OpenerReading| {
                    opener.opener == Opener::Service(service.clone()) && opener.opening == *opening
                };
                let reading = self.devices.get(&opening.device);
                let opener = reading.and_then(|reading| reading.openers.iter().find(is_it));
                drawn.there = opener.and_then(|opener| opener.sent).map(counted);
            }
            self.graph.edges.push(drawn);
        }
    }

    fn observers(&mut self) {
        for Observation { observer, at, .. } in &self.wiring.observations {
            let place = match at {
                Watched::Instance(name, Some(interface)) => Endpoint::Interface(name.clone(), *interface),
                Watched::Instance(name, None) | Watched::Port(name) => Endpoint::Port(name.clone()),
                Watched::Device(name, side) => Endpoint::Device(Opening::of(name, side.as_deref())),
                Watched::Wire(edge) => edge.ends()[0].clone(),
            };
            let observer = Endpoint::Port(observer.clone());
            let observed = self.blank(EdgeKind::Observes, &place, &observer);
            self.graph.edges.push(observed);
        }
    }

    /// What has to have passed where nothing is counted.
    fn remainders(&mut self) {
        let wiring = self.wiring;
        let served: BTreeSet<&str> = wiring.services.values().map(Endpoint::name).collect();
        let with_services: BTreeSet<&str> =
            wiring.services.keys().map(|service| service.tenant.as_str()).collect();
        let observing: BTreeSet<&str> =
            wiring.observations.iter().map(|seen| seen.observer.as_str()).collect();
        // Copies for observers, in switches and between tenants are in the accounts of their senders.
        let mut copied: BTreeSet<&str> = BTreeSet::new();
        let tenants: HashMap<&str, Option<&str>> =
            self.graph.nodes.iter().map(|node| (node.name.as_str(), node.tenant.as_deref())).collect();
        for edge in &self.graph.edges {
            let of = |name: &String| tenants.get(name.as_str()).copied().flatten();
            if edge.kind == EdgeKind::Observes || of(&edge.from) != of(&edge.to) {
                copied.extend([edge.from.as_str(), edge.to.as_str()]);
            }
        }
        let through = self.functions.iter().map(|(name, account)| {
            let ledger = &account.ledger;
            let unseen = [DropReason::QueueFull, DropReason::HopBudget, DropReason::FunctionDown];
            let unseen: u64 = unseen.iter().map(|reason| ledger.dropped[*reason]).sum();
            let came = account.packets + unseen;
            let made = ledger.generated + ledger.copied + ledger.split;
            let ended = ledger.consumed + ledger.merged + lost(&ledger.dropped).saturating_sub(unseen);
            let left = (account.packets + made).saturating_sub(ended);
            let tenant = tenants.get(name).copied().flatten();
            let by_edges =
                !copied.contains(name) && !tenant.is_some_and(|tenant| with_services.contains(tenant));
            let known = !served.contains(name) && !observing.contains(name);
            (*name, Through { came: known.then_some(came), left: (known && by_edges).then_some(left) })
        });
        let through: HashMap<&str, Through> = through.collect();
        infer(&mut self.graph.edges, &through);
    }
}

/// What edges are put in order by.
fn ends(edge: &GraphEdge) -> (&str, Option<&str>, &str, Option<&str>, EdgeKind) {
    let GraphEdge { from, from_part, to, to_part, kind, .. } = edge;
    (from, from_part.as_deref(), to, to_part.as_deref(), *kind)
}

fn name_of(service: &Service) -> String {
    if service.tenant == api::DEFAULT_TENANT { service.number.to_string() } else { service.to_string() }
}

pub(super) fn lost(drops: &DropCounters) -> u64 {
    drops.total()
}

fn counted(entered: Entered) -> EdgeTraffic {
    EdgeTraffic { packets: entered.packets, bytes: Some(entered.bytes) }
}
